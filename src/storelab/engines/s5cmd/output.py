"""What s5cmd prints (`--json --stat`), stamped on arrival, as columns of `records.OPS`. May import: `core`."""

import json
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from storelab.core.errors import MeasurementFailed
from storelab.core.records import HUNG
from storelab.engines.common.error_classes import named, network

Chunks = list[tuple[int, bytes]]  # (arrival in ns, bytes)
LEAST_SILENCE_NS, SILENCE_FACTOR = 10**9, 5  # of a silence before the deadline that tells that operations hung
_STATUS = re.compile(r"status code: (\d{3})")
_CLASS = re.compile(r"([A-Z][A-Za-z]+)[:,]? ")


@dataclass
class Output:
    """ops: columns, shape (operations,); summary: the line of `--stat`; messages: class -> count and first message."""

    ops: dict[str, list[Any]]
    summary: dict[str, Any] | None
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)


def lines(chunks: Chunks) -> list[tuple[int, str]]:
    """(arrival of the line's end in ns, line) of all non-empty lines."""
    out, rest = [], b""
    for stamp, data in chunks:
        *whole, rest = (rest + data).split(b"\n")
        out += [(stamp, text.decode(errors="replace")) for text in whole if text.strip()]
    return out


def classify(message: str) -> str:
    """Error class: the S3 error code if the message begins with one, else the kind of network failure."""
    if name := network(message):
        return name
    match = _CLASS.match(message)
    return match.group(1) if match else "Other"


def silence_ns(ends: list[int], start_ns: int, deadline_ns: int) -> int:
    """Return the time without a line before the deadline, 0 where it is no longer than operations of this run may take.

    Operations follow one another in each worker, so that the longest time between two lines grows with the operations.
    """
    if not ends:
        return 0
    stamps = sorted([start_ns, *ends])
    longest = max(b - a for a, b in pairwise(stamps))
    silent = deadline_ns - stamps[-1]
    return silent if silent > max(LEAST_SILENCE_NS, SILENCE_FACTOR * longest) else 0


def hang(ops: dict[str, list[Any]], number: int, deadline_ns: int) -> None:
    """Add rows of operations that hung until the deadline; s5cmd prints no line of them."""
    first = {"client": ops["client"][0], "op": ops["op"][0], "object": None, "count": 1, "bytes": 0}
    row = first | {"end_ns": deadline_ns, "status": 0, "error": HUNG}
    for name, column in ops.items():
        column += [row[name]] * number


def parse(client: int, op: str, size: int, stdout: Chunks, stderr: Chunks) -> Output:
    """size: of every object, bytes. Raises MeasurementFailed for unknown output and for objects of a wrong size."""
    ends, keys, sizes, summary = [], [], [], None
    side = "destination" if op == "PUT" else "source"
    for stamp, text in lines(stdout):
        if text.startswith("WARNING: "):  # of open files, before its first command: `check` has looked at the limit
            continue
        try:
            line = json.loads(text)
        except ValueError:
            raise MeasurementFailed(f"s5cmd printed what is no JSON: {text[:120]!r}") from None
        if "source" not in line:
            summary = line
            continue
        ends.append(stamp)
        keys.append(line[side].removeprefix("s3://").partition("/")[2])
        sizes.append(line["object"].get("size", 0))  # left out where it is 0
    if wrong := [s for s in sizes if s != size]:
        raise MeasurementFailed(
            f"s5cmd moved {len(wrong)} objects of a wrong size, the first of {wrong[0]} B instead of {size} B"
        )
    n = len(ends)
    statuses: list[int] = [0] * n
    errors: list[str | None] = [None] * n
    messages: dict[str, dict[str, Any]] = {}
    for stamp, text in lines(stderr):
        message = json.loads(text).get("error", text) if text.startswith("{") else text
        if "context canceled" in message or "RequestCanceled" in message:
            continue  # in flight at the deadline: cut off, not failed
        name = classify(message)
        messages.setdefault(name, {"count": 0, "message": named(name, message)[:300]})["count"] += 1
        ends.append(stamp)
        errors.append(name)
        statuses.append(int(match.group(1)) if (match := _STATUS.search(message)) else 0)
    total, bad = len(ends), len(ends) - n
    ops = {
        "client": [client] * total,
        "op": [op] * total,
        "object": keys + [None] * bad,
        "count": [1] * total,
        "bytes": sizes + [0] * bad,
        "end_ns": ends,
        "status": statuses,
        "error": errors,
    }
    return Output(ops, summary, messages)

"""What s5cmd prints (`--json --stat`), stamped on arrival, as columns of `records.OPS`. May import: `core`."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from storelab.core.errors import MeasurementFailed
from storelab.engines.common.error_classes import network

Chunks = list[tuple[int, bytes]]  # (arrival in ns, bytes)
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
        sizes.append(line["object"]["size"])
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
        messages.setdefault(name, {"count": 0, "message": message[:300]})["count"] += 1
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

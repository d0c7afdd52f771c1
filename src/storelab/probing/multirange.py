"""Answers to ranges, read to the last byte: parser of `multipart/byteranges` (RFC 9110, 14.6) and the verdict (level 2, pure).

Every part's offset, length and bytes are compared with the known object. A server that answers with the whole object, the
first range only, or other bytes is told apart; none of these ever counts as an answer to a multi-range request.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from storelab.probing.answers import DIFFERS, NO, YES, Answer

RIGHT, FIRST, SOME, WHOLE, ERROR, WRONG, MERGED = (
    "right",
    "first range only",
    "some ranges only",
    "whole object",
    "error",
    "wrong bytes",
    "merged",
)
# Ignoring ranges is allowed and refusing them honest; an answer that claims to be partial and is not what was asked is neither.
ANSWER_OF = {RIGHT: YES, WHOLE: NO, ERROR: NO, FIRST: DIFFERS, SOME: DIFFERS, WRONG: DIFFERS, MERGED: DIFFERS}
MOST_GAP = 128  # bytes between two ranges that a server may send as one (RFC 9110: less than the overhead of a part)
_CONTENT_RANGE = re.compile(r"bytes\s+(\d+)-(\d+)/(\d+|\*)\s*\Z", re.IGNORECASE)
ERROR_CODE = re.compile(rb"<Code>\s*([A-Za-z0-9.]{1,80})\s*</Code>")  # in the errors of S3
Range = tuple[int, int]  # first and last byte, both inclusive


@dataclass(frozen=True)
class Part:
    first: int
    last: int
    total: int | None  # None where the server says '*'
    body: bytes


@dataclass(frozen=True)
class Verdict:
    """kind: one of the words above; evidence: what was seen; `answer` for the table."""

    kind: str
    evidence: str
    detail: dict[str, Any] = field(default_factory=dict)

    def answer(self) -> Answer:
        return Answer(ANSWER_OF[self.kind], f"{self.kind}: {self.evidence}", {"verdict": self.kind, **self.detail})


class Malformed(ValueError):
    """What was sent is no multipart/byteranges; the message says where."""


def header(ranges: Sequence[Range]) -> str:
    """Value of the `Range` header."""
    return "bytes=" + ",".join(f"{a}-{b}" for a, b in ranges)


def spread(count: int, size: int) -> list[Range]:
    """`count` ranges of 20 to 79 bytes over an object of `size` bytes, rising, too far apart to be merged."""
    step = size // count
    if step < 1000:
        raise ValueError(f"{count} ranges do not fit into {size} bytes")
    return [(a := i * step + i * 37 % 500, a + 19 + i % 60) for i in range(count)]


def content_range(text: str | None) -> tuple[int, int, int | None] | None:
    """(first, last, total) of a Content-Range header, total None for '*'; None if it is none, or contradicts itself."""
    found = _CONTENT_RANGE.match(text.strip()) if text else None
    if not found:
        return None
    first, last, total = int(found[1]), int(found[2]), None if found[3] == "*" else int(found[3])
    return (first, last, total) if first <= last and (total is None or last < total) else None


def boundary(content_type: str) -> str | None:
    """The boundary of `multipart/byteranges`, quoted or not; None for other types."""
    kind, *parameters = content_type.split(";")
    if kind.strip().lower() != "multipart/byteranges":
        return None
    for parameter in parameters:
        name, _, value = parameter.strip().partition("=")
        if name.strip().lower() == "boundary" and value.strip(' "'):
            value = value.strip()
            return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return None


def parse(body: bytes, mark: str) -> list[Part]:
    """The parts. Lengths come from each part's Content-Range, so that a body that holds the boundary cannot mislead.

    Raises Malformed.
    """
    delimiter = b"--" + mark.encode("latin-1")
    at = 0 if body.startswith(delimiter) else body.find(b"\r\n" + delimiter) + 2
    if at == 1:
        raise Malformed("the boundary does not stand in the body")
    parts: list[Part] = []
    while True:
        if body[at : at + len(delimiter)] != delimiter:
            raise Malformed(f"no boundary at byte {at}, behind part {len(parts)}: a part is longer or shorter than its Content-Range")
        at += len(delimiter)
        if body[at : at + 2] == b"--":
            return parts
        end = body.find(b"\r\n\r\n", at)
        if end < 0:
            raise Malformed(f"the head of part {len(parts) + 1} does not end")
        lines = [line.partition(":") for line in body[at:end].decode("latin-1").split("\r\n") if line.strip()]
        said = {name.strip().lower(): value.strip() for name, _, value in lines}
        place = content_range(said.get("content-range"))
        if place is None:
            raise Malformed(f"part {len(parts) + 1} has no valid Content-Range ({said.get('content-range')!r})")
        first, last, total = place
        begin = end + 4
        data = body[begin : begin + last - first + 1]
        if len(data) != last - first + 1:
            raise Malformed(f"the body ends inside part {len(parts) + 1}")
        parts.append(Part(first, last, total, data))
        at = begin + len(data)
        if body[at : at + 2] != b"\r\n":
            raise Malformed(f"part {len(parts)} is longer than its Content-Range")
        at += 2


def judge(status: int, headers: Mapping[str, str], body: bytes, data: bytes, ranges: Sequence[Range]) -> Verdict:
    """What the server did with a request for `ranges` of the object `data`. `headers`: names in lower case."""
    seen = f"{status}, {len(body)} bytes"
    if status not in (200, 206):
        code = ERROR_CODE.search(body[:20_000])
        return Verdict(ERROR, f"{status}{' ' + code[1].decode() if code else ''}, no range was sent", {"status": status})
    mark = boundary(headers.get("content-type", ""))
    verdict = _multipart(seen, body, mark, data, ranges) if mark is not None else _single(seen, status, headers, body, data, ranges)
    if verdict.kind == RIGHT and status == 200:
        return Verdict(WRONG, f"the bytes asked for, but with status 200 instead of 206, {len(body)} bytes", verdict.detail)
    return verdict


def _single(seen: str, status: int, headers: Mapping[str, str], body: bytes, data: bytes, ranges: Sequence[Range]) -> Verdict:
    if body == data and not (len(ranges) == 1 and ranges[0] == (0, len(data) - 1) and status == 206):
        return Verdict(WHOLE, f"{seen}, not one of them left out", {"status": status})
    place = content_range(headers.get("content-range"))
    if place is None:
        first, last = ranges[0]
        what = "of the first range" if body == data[first : last + 1] else "neither the object nor the first range"
        told = headers.get("content-range")
        return Verdict(WRONG, f"{seen}, {what}, {f'Content-Range {told!r} is none' if told else 'no Content-Range'}")
    first, last, total = place
    where = f"{seen}, Content-Range {first}-{last}"
    if len(body) != last - first + 1 or body != data[first : last + 1] or total not in (None, len(data)):
        return Verdict(WRONG, f"{where}/{total}, but these are not its bytes")
    if (first, last) == ranges[0]:
        return Verdict(RIGHT if len(ranges) == 1 else FIRST, where, {"status": status})
    if first <= ranges[0][0] and last >= ranges[-1][1]:
        return Verdict(MERGED, f"{where}: one range around all that was asked", {"status": status})
    return Verdict(WRONG, f"{where}, which was not asked")


def _multipart(seen: str, body: bytes, mark: str, data: bytes, ranges: Sequence[Range]) -> Verdict:
    try:
        parts = parse(body, mark)
    except Malformed as error:
        return Verdict(WRONG, f"{seen}, multipart/byteranges that cannot be read: {error}")
    for number, part in enumerate(parts, 1):
        if part.body != data[part.first : part.last + 1] or part.total not in (None, len(data)):
            return Verdict(WRONG, f"{seen}, part {number} is not what stands at {part.first}-{part.last} of the object")
    got = sorted((p.first, p.last) for p in parts)
    there = [any(first <= a and b <= last for first, last in _near(got, a)) for a, b in ranges]
    detail = {"parts": len(parts), "ranges": len(ranges), "bytes": len(body)}
    if not all(there):
        kind = FIRST if there[0] and not any(there[1:]) else SOME
        return Verdict(kind, f"{seen}, {sum(there)} of {len(ranges)} ranges in {len(parts)} parts", detail)
    asked, sent = sum(b - a + 1 for a, b in ranges), sum(len(p.body) for p in parts)
    if sent > asked + MOST_GAP * len(ranges):
        return Verdict(MERGED, f"{seen}, {sent} bytes of the object in {len(parts)} parts where {asked} were asked", detail)
    return Verdict(RIGHT, f"{seen}, {len(parts)} parts for {len(ranges)} ranges, every offset and byte compared", detail)


def _near(got: Sequence[Range], first: int) -> list[Range]:
    """The parts that can hold byte `first`: the last ones that begin at or before it."""
    from bisect import bisect_right

    at = bisect_right(got, (first, 1 << 62))
    return list(got[max(0, at - 4) : at])

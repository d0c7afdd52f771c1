"""Answers to ranges, read to the last byte, and the verdict on them.

Every part's offset, length and bytes are compared with the known object. A server that answers with the whole object,
the first range only, or other bytes is told apart; none of these ever counts as an answer to a multi-range request.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from storelab.readplan.transports import Malformed, Range, boundary, content_range, parse
from storelab.workloads.probe.answers import DIFFERS, NO, YES, Answer
from storelab.workloads.probe.plain_http import error_code

RIGHT, FIRST, SOME, WHOLE, ERROR, WRONG, MERGED = (
    "right",
    "first range only",
    "some ranges only",
    "whole object",
    "error",
    "wrong bytes",
    "merged",
)
# Ignoring ranges is allowed and refusing them honest; an answer that claims to be partial and is not what was asked is
# neither.
ANSWER_OF = {RIGHT: YES, WHOLE: NO, ERROR: NO, FIRST: DIFFERS, SOME: DIFFERS, WRONG: DIFFERS, MERGED: DIFFERS}
MOST_GAP = 128  # bytes between two ranges that a server may send as one (RFC 9110: less than the overhead of a part)


@dataclass(frozen=True)
class Verdict:
    """kind: one of the words above; evidence: what was seen; `answer` for the table."""

    kind: str
    evidence: str
    detail: dict[str, Any] = field(default_factory=dict)

    def answer(self) -> Answer:
        return Answer(ANSWER_OF[self.kind], f"{self.kind}: {self.evidence}", {"verdict": self.kind, **self.detail})


def spread(count: int, size: int) -> list[Range]:
    """`count` ranges of 20 to 79 bytes over an object of `size` bytes, rising, too far apart to be merged."""
    step = size // count
    if step < 1000:
        raise ValueError(f"{count} ranges do not fit into {size} bytes")
    return [(a := i * step + i * 37 % 500, a + 19 + i % 60) for i in range(count)]


def judge(status: int, headers: Mapping[str, str], body: bytes, data: bytes, ranges: Sequence[Range]) -> Verdict:
    """What the server did with a request for `ranges` of the object `data`. `headers`: names in lower case."""
    seen = f"{status}, {len(body)} bytes"
    if status not in (200, 206):
        said = f"{status} {error_code(body)}".strip()
        return Verdict(ERROR, f"{said}, no range was sent", {"status": status})
    mark = boundary(headers.get("content-type", ""))
    verdict = (
        _multipart(seen, body, mark, data, ranges)
        if mark is not None
        else _single(seen, status, headers, body, data, ranges)
    )
    if verdict.kind == RIGHT and status == 200:
        return Verdict(
            WRONG, f"the bytes asked for, but with status 200 instead of 206, {len(body)} bytes", verdict.detail
        )
    return verdict


def _single(
    seen: str, status: int, headers: Mapping[str, str], body: bytes, data: bytes, ranges: Sequence[Range]
) -> Verdict:
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
        return Verdict(
            MERGED, f"{seen}, {sent} bytes of the object in {len(parts)} parts where {asked} were asked", detail
        )
    return Verdict(
        RIGHT, f"{seen}, {len(parts)} parts for {len(ranges)} ranges, every offset and byte compared", detail
    )


def _near(got: Sequence[Range], first: int) -> list[Range]:
    """The parts that can hold byte `first`: the last ones that begin at or before it."""
    at = bisect_right(got, (first, 1 << 62))
    return list(got[max(0, at - 4) : at])

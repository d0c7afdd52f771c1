"""Answers with several ranges: parser of `multipart/byteranges` (RFC 9110, 14.6). Standard library only."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message

_CONTENT_RANGE = re.compile(r"bytes\s+(\d+)-(\d+)/(\d+|\*)\s*\Z", re.IGNORECASE)
Range = tuple[int, int]  # first and last byte, both inclusive


@dataclass(frozen=True)
class Part:
    first: int
    last: int
    total: int | None  # None if the server says '*'
    body: bytes


class Malformed(ValueError):
    """The answer is no multipart/byteranges; the message says where it goes wrong."""


def range_header(ranges: Sequence[Range]) -> str:
    """Value of the `Range` header."""
    return "bytes=" + ",".join(f"{a}-{b}" for a, b in ranges)


def content_range(text: str | None) -> tuple[int, int, int | None] | None:
    """(first, last, total) of a Content-Range header, total None for '*'; None if it is invalid."""
    found = _CONTENT_RANGE.match(text.strip()) if text else None
    if not found:
        return None
    first, last, total = int(found[1]), int(found[2]), None if found[3] == "*" else int(found[3])
    return (first, last, total) if first <= last and (total is None or last < total) else None


def boundary(content_type: str) -> str | None:
    """The boundary of `multipart/byteranges`, quoted or not; None for other types."""
    head = Message()
    head["content-type"] = content_type
    return (head.get_boundary() or None) if head.get_content_type() == "multipart/byteranges" else None


def parse(body: bytes, mark: str) -> list[Part]:
    """The parts. Lengths come from each part's Content-Range, so that a body that contains the boundary cannot mislead.

    Raises Malformed.
    """
    delimiter = b"--" + mark.encode("latin-1")
    at = 0 if body.startswith(delimiter) else body.find(b"\r\n" + delimiter) + 2
    if at == 1:
        raise Malformed("the boundary does not stand in the body")
    parts: list[Part] = []
    while True:
        if body[at : at + len(delimiter)] != delimiter:
            raise Malformed(
                f"no boundary at byte {at}, behind part {len(parts)}: a part is longer or shorter than its "
                "Content-Range"
            )
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

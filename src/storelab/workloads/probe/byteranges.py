"""Ask questions that several HTTP protocols share: ranges, connections, and (S3 and WebDAV) names and conditions.

See RFC 9110, sections 13 and 14. If davix is installed, its requests for several ranges are also tried.

Answers to ranges are read to the last byte. The offset, length and bytes of every part are compared with the known
object. The probe detects a server that answers with the whole object, with only the first range, or with other bytes.
None of these counts as an answer to a multi-range request.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from readplan.transports import Malformed, Range, boundary, content_range, parse, range_header
from storelab.core.errors import UserError
from storelab.engines.davix_program import DavixError, Program, facts, url_of
from storelab.stores.protocols import filesystems
from storelab.workloads.probe.answers import DIFFERS, NO, YES, Answer, NotTried, Otherwise, Questions, confirm, demand
from storelab.workloads.probe.context import SIZE, SMALL, ByKey, OverHttp
from storelab.workloads.probe.plain_http import TIMEOUT_S, error_code, status_text

RIGHT, FIRST, PARTIAL, WHOLE, ERROR, WRONG, MERGED = (
    "right",
    "first range only",
    "some ranges only",
    "whole object",
    "error",
    "wrong bytes",
    "merged",
)
# A server may ignore ranges, and may reject them. An answer is only a fault if it claims to be partial but is not the
# requested part.
ANSWER_OF = {RIGHT: YES, WHOLE: NO, ERROR: NO, FIRST: DIFFERS, PARTIAL: DIFFERS, WRONG: DIFFERS, MERGED: DIFFERS}
# maximum bytes between two ranges that a server may send as one (RFC 9110: less than the overhead of a part)
MAX_GAP = 128


@dataclass(frozen=True)
class Verdict:
    """A verdict. kind: one of the words above; evidence: the observation; `answer` is the answer for the table."""

    kind: str
    evidence: str
    detail: dict[str, Any] = field(default_factory=dict)

    def answer(self) -> Answer:
        return Answer(ANSWER_OF[self.kind], f"{self.kind}: {self.evidence}", {"verdict": self.kind, **self.detail})


def spread(count: int, size: int) -> list[Range]:
    """Return `count` ranges of 20 to 79 bytes in an object of `size` bytes, ascending, too far apart to be merged."""
    step = size // count
    if step < 1000:
        raise ValueError(f"{count} ranges do not fit into {size} bytes")
    return [(a := i * step + i * 37 % 500, a + 19 + i % 60) for i in range(count)]


def judge(status: int, headers: Mapping[str, str], body: bytes, data: bytes, ranges: Sequence[Range]) -> Verdict:
    """Judge the answer to a request for `ranges` of the object `data`. headers: with names in lower case."""
    seen = f"{status}, {len(body)} bytes"
    if status not in (200, 206):
        answer = f"{status} {error_code(body)}".strip()
        return Verdict(ERROR, f"{answer}, no range was sent", {"status": status})
    mark = boundary(headers.get("content-type", ""))
    verdict = (
        _multipart(seen, body, mark, data, ranges)
        if mark is not None
        else _single(seen, status, headers, body, data, ranges)
    )
    if verdict.kind == RIGHT and status == 200:
        return Verdict(
            WRONG, f"the requested bytes, but with status 200 instead of 206, {len(body)} bytes", verdict.detail
        )
    return verdict


def _single(
    seen: str, status: int, headers: Mapping[str, str], body: bytes, data: bytes, ranges: Sequence[Range]
) -> Verdict:
    if body == data and not (len(ranges) == 1 and ranges[0] == (0, len(data) - 1) and status == 206):
        return Verdict(WHOLE, f"{seen}: the whole object", {"status": status})
    place = content_range(headers.get("content-range"))
    if place is None:
        first, last = ranges[0]
        what = "of the first range" if body == data[first : last + 1] else "neither the object nor the first range"
        value = headers.get("content-range")
        return Verdict(WRONG, f"{seen}, {what}, {f'invalid Content-Range {value!r}' if value else 'no Content-Range'}")
    first, last, total = place
    where = f"{seen}, Content-Range {first}-{last}"
    if len(body) != last - first + 1 or body != data[first : last + 1] or total not in (None, len(data)):
        return Verdict(WRONG, f"{where}/{total}, but with other bytes")
    if (first, last) == ranges[0]:
        return Verdict(RIGHT if len(ranges) == 1 else FIRST, where, {"status": status})
    if first <= ranges[0][0] and last >= ranges[-1][1]:
        return Verdict(MERGED, f"{where}: one range around all requested ones", {"status": status})
    return Verdict(WRONG, f"{where}, which was not requested")


def _multipart(seen: str, body: bytes, mark: str, data: bytes, ranges: Sequence[Range]) -> Verdict:
    try:
        parts = parse(body, mark)
    except Malformed as error:
        return Verdict(WRONG, f"{seen}, multipart/byteranges that cannot be read: {error}")
    for number, part in enumerate(parts, 1):
        if part.body != data[part.first : part.last + 1] or part.total not in (None, len(data)):
            return Verdict(WRONG, f"{seen}, part {number} differs from {part.first}-{part.last} of the object")
    got = sorted((p.first, p.last) for p in parts)
    there = [any(first <= a and b <= last for first, last in _near(got, a)) for a, b in ranges]
    detail = {"parts": len(parts), "ranges": len(ranges), "bytes": len(body)}
    if not all(there):
        kind = FIRST if there[0] and not any(there[1:]) else PARTIAL
        return Verdict(kind, f"{seen}, {sum(there)} of {len(ranges)} ranges in {len(parts)} parts", detail)
    requested, sent = sum(b - a + 1 for a, b in ranges), sum(len(p.body) for p in parts)
    if sent > requested + MAX_GAP * len(ranges):
        return Verdict(
            MERGED, f"{seen}, {sent} bytes of the object in {len(parts)} parts instead of {requested}", detail
        )
    return Verdict(
        RIGHT, f"{seen}, {len(parts)} parts for {len(ranges)} ranges, every offset and byte compared", detail
    )


def _near(got: Sequence[Range], first: int) -> list[Range]:
    """Return the parts that can contain the byte `first`: the last parts that begin at or before it."""
    at = bisect_right(got, (first, 1 << 62))
    return list(got[max(0, at - 4) : at])


MULTI = (2, 200, 1500)
KEPT = 30  # number of requests of the keep-alive check
NAMES = (
    "with space",
    "plus+sign",
    "a=b&c",
    "per%cent",
    "ümläut-日本",
    "(brackets)'quote'!*~",
    "colon:at@semi;comma,dollar$",
)
PAST = "Mon, 01 Jan 2001 00:00:00 GMT"


def _ask(c: OverHttp, value: str, ranges: list[Range]) -> Answer:
    reply = c.get_ranges(value)
    return judge(reply.status, reply.headers, reply.body, c.body, ranges).answer()


def unsatisfiable(c: OverHttp) -> Answer:
    """Check that the answer is 416 without data, with the object's length in `Content-Range: bytes */N`."""
    reply = c.get_ranges(f"bytes={SIZE + 10}-{SIZE + 20}")
    length = reply.headers.get("content-range", "")
    demand(reply.status != 200 or reply.body != c.body, f"whole object: 200, {len(reply.body)} bytes")
    demand(reply.status == 416, f"{reply.status}, {len(reply.body)} bytes instead of 416", Otherwise)
    shown = f"Content-Range: {length}" if length else "no Content-Range with the length"
    return confirm(f"416; {shown}", length_told=length.replace(" ", "") == f"bytes*/{SIZE}")


def after(c: OverHttp) -> Answer:
    """Check every byte of the whole object, read without a Range. Range requests must not damage it or its caches."""
    reply = c.get_whole()
    demand(reply.holds(c.body), f"{reply.status}, {len(reply.body)} bytes, not the known object")
    return confirm(f"200, {SIZE} bytes as written")


def keep_alive(c: OverHttp) -> Answer:
    """Check that several requests use the same connection."""
    with closing(c.new_wire()) as wire:
        replies = [c.get_small(wire) for _ in range(KEPT)]
        bad = [r.status for r in replies if not r.good]
        demand(not bad, f"{len(bad)} of {KEPT} requests answered {bad[:1]}")
        opened, version = wire.opened, {10: "HTTP/1.0", 11: "HTTP/1.1"}.get(replies[-1].version, "HTTP")
        demand(opened < KEPT, f"{version}, a new connection for each of {KEPT} requests")
        demand(opened == 1, f"{version}, {opened} connections for {KEPT} requests", Otherwise)
        return confirm(f"{version}, {KEPT} requests over one connection", requests=KEPT, connections=opened)


def keep_alive_after_error(c: OverHttp) -> Answer:
    """Check that the server keeps a connection open after the answer 404."""
    with closing(c.new_wire()) as wire:
        missing = c.get_missing(wire)
        demand(not missing.good, f"a missing object is answered {missing.status}", Otherwise)
        again = c.get_small(wire)
        demand(again.good, f"the request after it answered {again.status}")
        demand(wire.opened == 1, f"closed by the server after {missing.status}")
        return confirm(f"kept after {missing.status}")


def https(c: OverHttp) -> Answer:
    """Check that requests over TLS work. Report the version, the cipher, and whether the certificate was verified."""
    how = "use a deployment with `scheme: https`, or an https endpoint"
    demand(c.wire.secure, f"the endpoint is http; {how}", NotTried)
    with closing(c.new_wire()) as wire:
        demand(c.get_small(wire).good, "a request failed")
        version, cipher = wire.tls() or ("", "")
        trusted = "verified" if wire.context and wire.context.check_hostname else "not verified (verify_tls: false)"
        return confirm(f"{version}, {cipher}, certificate {trusted}")


def unfit_names(c: ByKey) -> list[str]:
    """Return the names with special characters that cannot be written and read, each with the answer."""
    bad = []
    for name in NAMES:
        key = c.key(f"names-{name}")
        written = c.send("PUT", key, body=name.encode())
        if not (written.good and c.holds(key, name.encode())):
            bad.append(f"{name!r} {status_text(written)}")
    return bad


def names_work(bad: list[str]) -> Answer:
    """Return the answer for the result of `unfit_names`."""
    demand(len(bad) < len(NAMES), f"none of {len(NAMES)} names with special characters")
    demand(not bad, f"{len(NAMES) - len(bad)} of {len(NAMES)} names; not {', '.join(bad)}", Otherwise)
    return confirm(f"{len(NAMES)} names with space, + = & % ' : @ and Unicode")


def put_if_absent(c: ByKey) -> Answer:
    """Check that a PUT with `If-None-Match: *` does not replace an object."""
    key, star = c.key("if-absent"), {"If-None-Match": "*"}
    first = c.send("PUT", key, body=SMALL, headers=star)
    demand(first.good, f"a new object is refused: {status_text(first)}")
    second = c.send("PUT", key, body=b"intruder", headers=star)
    demand(c.holds(key, SMALL), f"an existing object is overwritten ({status_text(second)})")
    demand(second.status == 412, f"not overwritten, but answered {status_text(second)} instead of 412", Otherwise)
    return confirm(f"new: {first.status}, existing: {status_text(second)}, its bytes unchanged")


def _conditional_get(c: ByKey, name: str, value: str, status: int) -> Answer:
    """Check that a GET with a condition that is not met for the known object returns `status` without data.

    value: the value of the header; '' for the value of the object itself.
    """
    header = "etag" if name == "If-None-Match" else "last-modified"
    value = value or c.send("HEAD", c.known).headers.get(header, "")
    demand(bool(value), "no ETag or Last-Modified to ask with", NotTried)
    got = c.send("GET", c.known, headers={name: value})
    if got.holds(c.body):
        return Answer(NO, "ignored: 200 and the whole object")
    demand(got.status == status, f"answered {status_text(got)} instead of {status}", Otherwise)
    demand(len(got.body) < 10_000, f"{status} with {len(got.body)} bytes", Otherwise)
    return confirm(f"{status}")


DAVIX_RANGES = 10  # number of ranges of a vector read by davix


def davix_vector(c: ByKey) -> Answer:
    """Check one vector read. Requests are counted when davix sends them, and every byte is compared."""
    try:
        program = Program(c.endpoint, TIMEOUT_S)
    except UserError as error:
        raise NotTried(f"{error.problem}; {error.hint}") from None
    ranges = spread(DAVIX_RANGES, SIZE)
    with closing(program):
        path = filesystems.path(c.endpoint, replace(c.bucket, prefix=""), c.known)
        sizes = [last - first + 1 for first, last in ranges]
        try:
            parts = program.vector(url_of(c.endpoint, path), [first for first, _ in ranges], sizes)
        except DavixError as error:
            raise Otherwise(f"{error.kind}: {error}") from None
        right = all(part == c.body[first : last + 1] for part, (first, last) in zip(parts, ranges, strict=True))
        spent, seen = program.spent, facts([program.spent])
    demand(right, f"wrong bytes, in {spent.requests} requests", Otherwise)
    answers = " ".join(f"answered {status}" for status in seen["answers_to_several"])
    sent = f"{spent.requests} requests, {spent.several} of them for several ranges ({answers or 'none'}), all right"
    demand(spent.requests == spent.several == 1, sent, Otherwise)
    return confirm("1 request, answered 206, every byte right", **seen)


RANGES: Questions = {
    **{
        ("ranges", name): partial(_ask, value=value, ranges=[requested])
        for name, value, requested in (
            ("single range", "bytes=123456-133455", (123456, 133455)),
            ("suffix range", "bytes=-5000", (SIZE - 5000, SIZE - 1)),
            ("open range", f"bytes={SIZE - 7000}-", (SIZE - 7000, SIZE - 1)),
            (
                "range beyond the end",
                f"bytes={SIZE - 100}-{SIZE + 100}",
                (SIZE - 100, SIZE - 1),
            ),  # only the existing part is returned
        )
    },
    ("ranges", "unsatisfiable range"): unsatisfiable,
    **{
        ("ranges", f"multi-range {count}"): partial(
            _ask, value=range_header(spread(count, SIZE)), ranges=spread(count, SIZE)
        )
        for count in MULTI
    },
    ("ranges", "after them, the object"): after,
}
CONNECTION: Questions = {
    ("connection", "keep-alive"): keep_alive,
    ("connection", "keep-alive after an error"): keep_alive_after_error,
    ("connection", "HTTPS"): https,
}
CONDITIONAL: Questions = {
    ("conditional", "put if absent"): put_if_absent,
    ("conditional", "get if none match"): partial(_conditional_get, name="If-None-Match", value="", status=304),
    ("conditional", "get if match"): partial(_conditional_get, name="If-Match", value='"no-such-etag"', status=412),
    ("conditional", "get if modified since"): partial(_conditional_get, name="If-Modified-Since", value="", status=304),
    ("conditional", "get if unmodified since"): partial(
        _conditional_get, name="If-Unmodified-Since", value=PAST, status=412
    ),
}
DAVIX: Questions = {
    ("ranges", f"davix, {DAVIX_RANGES} ranges"): davix_vector,
}

"""Ranges and connections, asked alike of every protocol over HTTP: S3, WebDAV, WebHDFS.

RFC 9110, 14: a context offers `get_ranges(value)` for the known object and `get_small(wire)`, a small request of its
own.
"""

from typing import Any, Protocol

from storelab.readplan.multipart import Range, range_header
from storelab.workloads.probe import multirange
from storelab.workloads.probe.answers import Answer, Checks, Otherwise, demand, yes
from storelab.workloads.probe.context import SIZE
from storelab.workloads.probe.plain_http import Connection, Reply

MULTI = (2, 200, 1500)
KEPT = 30  # requests of the keep-alive check
RANGES, CONNECTION = Checks(), Checks()


class Ranged(Protocol):
    body: bytes
    wire: Connection

    def get_ranges(self, value: str, wire: Connection | None = None) -> Reply: ...
    def get_small(self, wire: Connection) -> Reply: ...
    def get_missing(self, wire: Connection) -> Reply: ...
    def new_wire(self) -> Connection: ...


def _ask(c: Ranged, value: str, ranges: list[Range]) -> Answer:
    reply = c.get_ranges(value)
    return multirange.judge(reply.status, reply.headers, reply.body, c.body, ranges).answer()


@RANGES.add("ranges", "single range")
def single(c: Ranged) -> Answer:
    return _ask(c, "bytes=123456-133455", [(123456, 133455)])


@RANGES.add("ranges", "suffix range")
def suffix(c: Ranged) -> Answer:
    return _ask(c, "bytes=-5000", [(SIZE - 5000, SIZE - 1)])


@RANGES.add("ranges", "open range")
def open_ended(c: Ranged) -> Answer:
    return _ask(c, f"bytes={SIZE - 7000}-", [(SIZE - 7000, SIZE - 1)])


@RANGES.add("ranges", "range beyond the end")
def beyond(c: Ranged) -> Answer:
    """The part that exists is sent."""
    return _ask(c, f"bytes={SIZE - 100}-{SIZE + 100}", [(SIZE - 100, SIZE - 1)])


@RANGES.add("ranges", "unsatisfiable range")
def unsatisfiable(c: Ranged) -> Answer:
    """416 and no data; the object's length is told in `Content-Range: bytes */N`."""
    reply = c.get_ranges(f"bytes={SIZE + 10}-{SIZE + 20}")
    told = reply.headers.get("content-range", "")
    demand(reply.status != 200 or reply.body != c.body, f"whole object: 200, {len(reply.body)} bytes")
    demand(reply.status == 416, f"{reply.status}, {len(reply.body)} bytes instead of 416", Otherwise)
    length = f"Content-Range: {told}" if told else "no Content-Range tells the length"
    return yes(f"416; {length}", length_told=told.replace(" ", "") == f"bytes*/{SIZE}")


def _multi(c: Ranged, count: int) -> Answer:
    ranges = multirange.spread(count, SIZE)
    return _ask(c, range_header(ranges), ranges)


for _count in MULTI:
    RANGES.add("ranges", f"multi-range {_count}", _count)(_multi)


@RANGES.add("ranges", "after them, the object")
def after(c: Any) -> Answer:
    """The whole object without a Range, byte by byte: no range request harmed it or its caches."""
    reply = c.get_whole()
    demand(
        reply.status == 200 and reply.body == c.body, f"{reply.status}, {len(reply.body)} bytes, not the known object"
    )
    return yes(f"200, {SIZE} bytes as written")


@CONNECTION.add("connection", "keep-alive")
def keep_alive(c: Ranged) -> Answer:
    wire = c.new_wire()
    try:
        replies = [c.get_small(wire) for _ in range(KEPT)]
        bad = [r.status for r in replies if not r.good]
        demand(not bad, f"{len(bad)} of {KEPT} requests answered {bad[:1]}")
        opened, version = wire.opened, {10: "HTTP/1.0", 11: "HTTP/1.1"}.get(replies[-1].version, "HTTP")
        demand(opened < KEPT, f"{version}, a new connection for each of {KEPT} requests")
        demand(opened == 1, f"{version}, {opened} connections for {KEPT} requests", Otherwise)
        return yes(f"{version}, {KEPT} requests over one connection", requests=KEPT, connections=opened)
    finally:
        wire.close()


@CONNECTION.add("connection", "keep-alive after an error")
def keep_alive_after_error(c: Ranged) -> Answer:
    wire = c.new_wire()
    try:
        missing = c.get_missing(wire)
        demand(not missing.good, f"what is not there is answered {missing.status}", Otherwise)
        again = c.get_small(wire)
        demand(again.good, f"the request after it answered {again.status}")
        demand(wire.opened == 1, f"closed by the server after {missing.status}")
        return yes(f"kept after {missing.status}")
    finally:
        wire.close()


@CONNECTION.add("connection", "HTTPS")
def https(c: Ranged) -> Answer:
    from storelab.workloads.probe.answers import NotTried

    wire = c.new_wire()
    try:
        if not wire.secure:
            raise NotTried(
                "the endpoint is http; a deployment with `scheme: https`, or an https endpoint, answers this"
            )
        demand(c.get_small(wire).good, "a request failed")
        version, cipher = wire.tls() or ("", "")
        trusted = "verified" if wire.context and wire.context.check_hostname else "not verified (verify_tls: false)"
        return yes(f"{version}, {cipher}, certificate {trusted}")
    finally:
        wire.close()

"""Questions that are asked alike over HTTP: ranges and connections of S3, WebDAV and WebHDFS; names and conditions of
S3 and WebDAV. RFC 9110, 13 and 14."""

from contextlib import closing

from storelab.readplan.transports import Range, range_header
from storelab.workloads.probe import multirange
from storelab.workloads.probe.answers import NO, Answer, Checks, NotTried, Otherwise, demand, yes
from storelab.workloads.probe.context import SIZE, SMALL, ByKey, OverHttp
from storelab.workloads.probe.plain_http import said

MULTI = (2, 200, 1500)
KEPT = 30  # requests of the keep-alive check
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
RANGES, CONNECTION, CONDITIONAL = Checks(), Checks(), Checks()


def _ask(c: OverHttp, value: str, ranges: list[Range]) -> Answer:
    reply = c.get_ranges(value)
    return multirange.judge(reply.status, reply.headers, reply.body, c.body, ranges).answer()


for _name, _value, _range in (
    ("single range", "bytes=123456-133455", (123456, 133455)),
    ("suffix range", "bytes=-5000", (SIZE - 5000, SIZE - 1)),
    ("open range", f"bytes={SIZE - 7000}-", (SIZE - 7000, SIZE - 1)),
    ("range beyond the end", f"bytes={SIZE - 100}-{SIZE + 100}", (SIZE - 100, SIZE - 1)),  # the part that exists
):
    RANGES.add("ranges", _name, _value, [_range])(_ask)


@RANGES.add("ranges", "unsatisfiable range")
def unsatisfiable(c: OverHttp) -> Answer:
    """416 and no data; the object's length is told in `Content-Range: bytes */N`."""
    reply = c.get_ranges(f"bytes={SIZE + 10}-{SIZE + 20}")
    told = reply.headers.get("content-range", "")
    demand(reply.status != 200 or reply.body != c.body, f"whole object: 200, {len(reply.body)} bytes")
    demand(reply.status == 416, f"{reply.status}, {len(reply.body)} bytes instead of 416", Otherwise)
    length = f"Content-Range: {told}" if told else "no Content-Range tells the length"
    return yes(f"416; {length}", length_told=told.replace(" ", "") == f"bytes*/{SIZE}")


for _count in MULTI:
    _ranges = multirange.spread(_count, SIZE)
    RANGES.add("ranges", f"multi-range {_count}", range_header(_ranges), _ranges)(_ask)


@RANGES.add("ranges", "after them, the object")
def after(c: OverHttp) -> Answer:
    """The whole object without a Range, byte by byte: no range request harmed it or its caches."""
    reply = c.get_whole()
    demand(reply.holds(c.body), f"{reply.status}, {len(reply.body)} bytes, not the known object")
    return yes(f"200, {SIZE} bytes as written")


@CONNECTION.add("connection", "keep-alive")
def keep_alive(c: OverHttp) -> Answer:
    with closing(c.new_wire()) as wire:
        replies = [c.get_small(wire) for _ in range(KEPT)]
        bad = [r.status for r in replies if not r.good]
        demand(not bad, f"{len(bad)} of {KEPT} requests answered {bad[:1]}")
        opened, version = wire.opened, {10: "HTTP/1.0", 11: "HTTP/1.1"}.get(replies[-1].version, "HTTP")
        demand(opened < KEPT, f"{version}, a new connection for each of {KEPT} requests")
        demand(opened == 1, f"{version}, {opened} connections for {KEPT} requests", Otherwise)
        return yes(f"{version}, {KEPT} requests over one connection", requests=KEPT, connections=opened)


@CONNECTION.add("connection", "keep-alive after an error")
def keep_alive_after_error(c: OverHttp) -> Answer:
    with closing(c.new_wire()) as wire:
        missing = c.get_missing(wire)
        demand(not missing.good, f"what is not there is answered {missing.status}", Otherwise)
        again = c.get_small(wire)
        demand(again.good, f"the request after it answered {again.status}")
        demand(wire.opened == 1, f"closed by the server after {missing.status}")
        return yes(f"kept after {missing.status}")


@CONNECTION.add("connection", "HTTPS")
def https(c: OverHttp) -> Answer:
    how = "a deployment with `scheme: https`, or an https endpoint, answers this"
    demand(c.wire.secure, f"the endpoint is http; {how}", NotTried)
    with closing(c.new_wire()) as wire:
        demand(c.get_small(wire).good, "a request failed")
        version, cipher = wire.tls() or ("", "")
        trusted = "verified" if wire.context and wire.context.check_hostname else "not verified (verify_tls: false)"
        return yes(f"{version}, {cipher}, certificate {trusted}")


def unfit_names(c: ByKey) -> list[str]:
    """Names with special characters that do not work, each with what was answered: written and read."""
    bad = []
    for name in NAMES:
        key = c.key(f"names-{name}")
        written = c.send("PUT", key, body=name.encode())
        if not (written.good and c.holds(key, name.encode())):
            bad.append(f"{name!r} {said(written)}")
    return bad


def names_work(bad: list[str]) -> Answer:
    """What is told of `unfit_names`."""
    demand(len(bad) < len(NAMES), f"none of {len(NAMES)} names with special characters")
    demand(not bad, f"{len(NAMES) - len(bad)} of {len(NAMES)} names; not {', '.join(bad)}", Otherwise)
    return yes(f"{len(NAMES)} names with space, + = & % ' : @ and Unicode")


@CONDITIONAL.add("conditional", "put if absent")
def put_if_absent(c: ByKey) -> Answer:
    """`If-None-Match: *`"""
    key, star = c.key("if-absent"), {"If-None-Match": "*"}
    first = c.send("PUT", key, body=SMALL, headers=star)
    demand(first.good, f"a new object is refused: {said(first)}")
    second = c.send("PUT", key, body=b"intruder", headers=star)
    demand(c.holds(key, SMALL), f"an existing object is overwritten ({said(second)})")
    demand(second.status == 412, f"not overwritten, but answered {said(second)} instead of 412", Otherwise)
    return yes(f"new: {first.status}, existing: {said(second)}, its bytes untouched")


def _conditional_get(c: ByKey, name: str, value: str, status: int) -> Answer:
    """GET under a condition that fails for the known object: `status` and no byte of it. value: '' for what the object
    itself bears."""
    told = "etag" if name == "If-None-Match" else "last-modified"
    value = value or c.send("HEAD", c.known).headers.get(told, "")
    demand(bool(value), "no ETag or Last-Modified to ask with", NotTried)
    got = c.send("GET", c.known, headers={name: value})
    if got.holds(c.body):
        return Answer(NO, "ignored: 200 and the whole object")
    demand(got.status == status, f"answered {said(got)} instead of {status}", Otherwise)
    demand(len(got.body) < 10_000, f"{status} with {len(got.body)} bytes", Otherwise)
    return yes(f"{status}")


for _question, _condition in (
    ("get if none match", ("If-None-Match", "", 304)),
    ("get if match", ("If-Match", '"no-such-etag"', 412)),
    ("get if modified since", ("If-Modified-Since", "", 304)),
    ("get if unmodified since", ("If-Unmodified-Since", PAST, 412)),
):
    CONDITIONAL.add("conditional", _question, *_condition)(_conditional_get)

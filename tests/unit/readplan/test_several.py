"""Several ranges in a request: how they are grouped, reading of right and wrong answers, probes, vector reads."""

import asyncio
import re
from types import SimpleNamespace

import numpy as np
import pytest
from fsspec.asyn import get_loop
from hypothesis import given
from hypothesis import strategies as st
from link_model import PROPERTY, up
from range_server import range_server

from readplan import HttpTransport, VectorTransport, transports
from readplan.transports import WrongAnswer, grouped, probe

DATA = bytes(np.random.default_rng(3).integers(0, 256, 300_000, dtype=np.uint8))
RIGHT = {"ranges": 1, "answer": "right"}


def slices(starts, stops):
    return [DATA[a:b] for a, b in zip(starts, stops, strict=True)]


# How ranges share requests


@PROPERTY
@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 8), st.integers(1, 60), st.integers(1, 8))
def test_groups_are_neighbours_within_both_bounds(weights, ranges, most, parallel):
    groups = grouped(weights, ranges, most, parallel)
    assert [i for g in groups for i in range(g.start, g.stop)] == list(range(len(weights)))
    share = max(1, min(ranges, up(len(weights), parallel)))
    for g, after in zip(groups, [*groups[1:], None], strict=False):
        size, weight = g.stop - g.start, sum(weights[g])
        assert size <= share and (weight <= most or size == 1)
        assert after is None or size == share or weight + weights[g.stop] > most, "the largest allowed number"


def http(url="http://127.0.0.1:9/x", **options):
    return HttpTransport(url, **options)


def test_ranges_share_request_within_its_head():
    """`bytes=` and `first-last,` for each range: 9 bytes each here, 60 in all for six."""
    starts = [1000 + 10 * i for i in range(12)]
    stops = [s + 5 for s in starts]
    for size, per_request in ((6 + 10 * 6, 6), (6 + 10 * 6 - 1, 5), (6 + 10, 1), (1, 1)):
        groups = http(parallel=1, header_bytes=size).groups(starts, stops)
        assert next(g.stop - g.start for g in groups) == per_request
        for g in groups:
            head = "bytes=" + "".join(f"{a}-{b - 1}," for a, b in zip(starts[g], stops[g], strict=True))
            assert len(head) <= size or g.stop - g.start == 1
    for options, places in (({"parallel": 5, "ranges": 100}, (0, 3, 6, 9)), ({"parallel": 1, "ranges": 8}, (0, 8))):
        assert [g.start for g in http(**options).groups(starts, stops)] == list(places)
    # The last byte counts, not the stop: 999 is shorter than 1000 by a digit.
    assert len(http(parallel=1, header_bytes=6 + 8).groups([990, 993], [1000, 995])) == 2
    assert len(http(parallel=1, header_bytes=6 + 16).groups([990, 993], [1000, 995])) == 1


def test_number_of_ranges_that_surely_fit():
    for size in (9, 10, 12345):
        n, longest = http(header_bytes=200).fitting(size), f"{size}-{size},"
        assert len("bytes=" + longest * n) <= 200 < len("bytes=" + longest * (n + 1))
    assert http(header_bytes=10).fitting(10**9) == 1


# Answers with several ranges

PARTS = st.lists(st.tuples(st.integers(0, 5000), st.binary(min_size=1, max_size=60)), min_size=1, max_size=5)


@PROPERTY
@given(PARTS, st.booleans(), st.booleans())
def test_multipart_answer_is_read_back(parts, known, preamble):
    """Write it as RFC 9110 does; a body may contain the boundary itself."""
    mark, end = "edge", b"\r\n--edge--"
    body = b"\r\n" if preamble else b""
    for first, data in parts:
        size = len(data + end)
        place = f"bytes {first}-{first + size - 1}/{first + size + 9 if known else '*'}"
        body += f"--{mark}\r\nContent-Type: x\r\nContent-Range: {place}\r\n\r\n".encode() + data + end + b"\r\n"
    found = transports.parse(body + f"--{mark}--".encode(), mark)
    assert [(p.first, p.body) for p in found] == [(first, data + end) for first, data in parts]
    assert all(p.last == p.first + len(p.body) - 1 and p.total == (p.last + 10 if known else None) for p in found)


def test_content_range_at_its_edges():
    right = {"0-0/1": (0, 0, 1), "3-9/10": (3, 9, 10), "4-4/*": (4, 4, None)}
    for text, found in (right | {"3-9/9": None, "4-3/9": None}).items():
        assert transports.content_range(f"bytes {text}") == found, text


class Server:
    """Answers by `serve(pairs)`: (status, headers, body); `asked` has the pairs, `done` the results of the answers."""

    def __init__(self, serve):
        self.serve, self.received, self.done = serve, [], []

    def request(self, method, url, headers, preload_content):
        pairs = [tuple(map(int, r.split("-"))) for r in headers["Range"].removeprefix("bytes=").split(",")]
        self.received.append(pairs)
        status, head, body = self.serve(pairs)

        def read():
            self.done.append("read")
            if isinstance(body, Exception):
                raise body
            return body

        def note(what):
            return lambda: self.done.append(what)

        ended = {"close": note("close"), "release_conn": note("release")}
        return SimpleNamespace(status=status, headers=head, read=read, **ended)


def multi(pairs, mark="x"):
    """Return the right answer to several ranges."""
    body = b"".join(
        f"--{mark}\r\nContent-Range: bytes {a}-{b}/{len(DATA)}\r\n\r\n".encode() + DATA[a : b + 1] + b"\r\n"
        for a, b in pairs
    )
    return 206, {"content-type": f"multipart/byteranges; boundary={mark}"}, body + f"--{mark}--".encode()


def single(pairs):
    """Return the right answer to the first range only."""
    a, b = pairs[0]
    return 206, {"content-range": f"bytes {a}-{b}/{len(DATA)}"}, DATA[a : b + 1]


def rightly(pairs):
    return single(pairs) if len(pairs) == 1 else multi(pairs)


def serving(serve, **options):
    transport = http(**options)
    transport.http = Server(serve)
    return transport


def test_parts_are_placed_by_their_own_heads():
    """They come in another order, and two ranges as one."""
    transport = serving(lambda pairs: multi([pairs[2], (pairs[0][0], pairs[1][1])]))
    found = transport.ask([0, 10, 100], [10, 15, 120])
    assert [bytes(p) for p in found] == [DATA[:10], DATA[10:15], DATA[100:120]]
    assert transport.requests == 1 and transport.extra == len(multi([(100, 119), (0, 14)])[2]) - 35
    assert [bytes(p) for p in serving(single).ask([7], [9])] == [DATA[7:9]]
    transport = serving(multi, parallel=2)
    starts, stops = [0, 20, 40, 60], [5, 25, 45, 65]
    assert [bytes(p) for p in transport.fetch(starts, stops)] == slices(starts, stops)
    assert sorted(map(len, transport.http.received)) == [2, 2]


def test_wrong_answers_are_errors():
    for serve, status, reason in (
        (lambda pairs: (200, {}, DATA), 200, "the server answered a request for 2 ranges with status 200"),
        (lambda pairs: (206, {}, DATA), 206, "status 206, Content-Range None"),
        (lambda pairs: (416, {"content-range": "bytes 0-1/9"}, b""), 416, "status 416"),
        (single, 0, r"the server answered 2 ranges, the first \(0, 4\), with only \(0, 4\)"),
        (lambda pairs: multi(pairs[:1]), 0, "the 1 parts of 2 ranges do not contain 20 to 24"),
        (lambda pairs: multi(pairs[1:]), 0, "the 1 parts of 2 ranges do not contain 0 to 4"),
        (lambda pairs: multi([pairs[0], (20, 23)]), 0, "do not contain 20 to 24"),
        (lambda pairs: (206, {"content-type": "multipart/byteranges; boundary=x"}, b"?"), 0, "cannot be parsed"),
    ):
        with pytest.raises(WrongAnswer, match=reason) as error:
            serving(serve).ask([0, 20], [5, 25])
        assert error.value.status == status


def test_connections_go_back_once():
    """It holds after a request for the size and after one for a range; otherwise the next one waits forever."""
    gone, known, unknown = OSError("gone"), {"content-range": "bytes 0-0/77"}, {"content-range": "bytes 0-0/*"}
    for status, head, body, size, part in (
        (206, known, b"a", 77, b"a"),
        (206, unknown, b"a", None, b"a"),
        (200, {}, b"a" * 77, None, None),
        (404, known, b"", None, None),
        (206, known, gone, None, None),
    ):
        one = serving(lambda pairs, answer=(status, head, body): answer, parallel=1)
        for ask, expected in ((one.size, size), (lambda one=one: one.ask([0], [1])[0], part)):
            one.http.done.clear()
            try:
                assert ask() == expected
            except OSError:
                assert expected is None
            done = one.http.done
            assert done[-1] == "release" and done.count("release") == 1, (status, head)
            assert ("close" in done) != ("read" in done) or body is gone, "no bytes of it remain on the connection"
        assert one.requests == 2


def test_http_transport_trusts_and_waits_as_configured():
    """Open as many connections as asked for, without retries, and wait 10 s for each."""
    required = {"cert_reqs": "CERT_REQUIRED"}
    for url, more, trust in (
        ("https://h/x", {}, required),
        ("https://h/x", {"verify": False}, {"cert_reqs": "CERT_NONE"}),
        ("https://h/x", {"ca_file": "ca.pem"}, required | {"ca_certs": "ca.pem"}),
        ("https://h/x", {"certificate": "me.pem"}, required | {"cert_file": "me.pem"}),
        ("http://h/x", {"ca_file": "ca.pem", "certificate": "me.pem"}, {}),
    ):
        one = http(url, parallel=3, timeout_s=7.0, **more)
        held = dict(one.http.connection_pool_kw)
        timeout, retries = held.pop("timeout"), held.pop("retries")
        assert (timeout.connect_timeout, timeout.read_timeout) == (10, 7.0)
        assert (retries if isinstance(retries, bool) else retries.total) is False
        assert held == {"maxsize": 3, "block": True} | trust, (url, more)
        one.close()
    one = http()
    assert (one.parallel, one.ranges, one.header_bytes, one.requests, one.extra) == (16, 500, 7000, 0, 0)
    assert one.http.connection_pool_kw["timeout"].read_timeout == 120 and one.headers == {}


# A server on loopback


@pytest.fixture
def server():
    with range_server(DATA) as one:
        yield one


def to(server, **options):
    return http(f"http://127.0.0.1:{server.server_port}/o", **options)


def test_served_ranges_arrive_in_order(server):
    starts = np.arange(200) * 1400 + np.arange(200) % 7
    stops = starts + 1 + np.arange(200) % 300
    for mode in ("right", "shuffled", "merged"):
        server.mode, server.received[:] = mode, []
        one = to(server, parallel=3, ranges=50)
        assert [bytes(p) for p in one.fetch(starts, stops)] == slices(starts, stops), mode
        assert sum(server.received) == 200 and max(server.received) <= 50 and len(server.received) == one.requests == 4
    server.mode, server.received[:] = "right", []
    to(server, parallel=8).fetch(starts[:16], stops[:16])
    assert server.received == [2] * 8, "all connections have work"
    assert to(server).fetch([], []) == []
    server.mode = "dies"
    with pytest.raises(Exception, match=r"IncompleteRead|Connection broken"):
        to(server, parallel=1).fetch([0, 5000, 10000], [10, 5010, 10010])


def test_size_takes_a_get_of_one_byte(server):
    """A presigned URL for GET answers no HEAD."""
    transport = to(server)
    assert (transport.size(), transport.requests, server.received) == (len(DATA), 1, [1])
    assert transport.fetch([len(DATA) - 5], [len(DATA)]) == [DATA[-5:]], "the connection is free again"
    for mode, status in (("missing", 404), ("busy", 503), ("refused", 416)):
        server.mode = mode
        with pytest.raises(WrongAnswer, match=str(status)):
            transport.size()


def test_closed_http_transport_has_no_connection(server):
    one = to(server, parallel=2)
    one.fetch([0, 50], [10, 60])
    assert len(one.http.pools) == 1
    one.close()
    assert len(one.http.pools) == 0
    with pytest.raises(RuntimeError, match="after shutdown"):
        one.fetch([0], [1])


# Probes


def test_probe_finds_what_server_answers(server):
    """Compare place and bytes of each part. A server that answers ten ranges of a hundred gets six."""
    starts = np.arange(100) * 2500
    modes = {"right": (100, "right"), "shuffled": (100, "right"), "merged": (1, "additional bytes")}
    modes |= {"whole": (1, "status 200"), "first": (1, r"only \(0, 49\)"), "some": (1, "do not contain")}
    modes |= {"wrong": (1, "1 with wrong bytes"), "ten": (6, "do not contain")}
    for mode, (ranges, reason) in modes.items():
        server.mode, server.received[:] = mode, []
        one = to(server, parallel=1)
        seen = probe(one, starts, starts + 50, lambda i, part: bytes(part) == DATA[i * 2500 : i * 2500 + 50])
        assert one.ranges == ranges and seen[0] == RIGHT, mode
        assert any(re.search(reason, s["answer"]) for s in seen[1:]), seen
        assert one.requests == len(seen) == len(server.received)
        assert [bytes(p) for p in one.fetch(starts, starts + 7)] == slices(starts, starts + 7)
    for mode, status in (("missing", 404), ("busy", 503)):
        server.mode = mode
        with pytest.raises(WrongAnswer) as failed:
            probe(to(server), [0, 3000, 6000, 9000], [9, 3009, 6009, 9009], lambda i, part: True)
        assert failed.value.status == status


STARTS = [100 * i for i in range(300)]
STOPS = [s + 8 for s in STARTS]


def right(i, part):
    return bytes(part) == DATA[STARTS[i] : STOPS[i]]


def test_probe_requests_fewer_ranges_until_success():
    """The server answers at most `limit` ranges. 200 are tried, then a quarter of them, and so on."""
    few, many = ((1, 1, [1, 3]), (3, 3, [1, 3, 200, 50, 12])), ((60, 50, [1, 3, 200, 50]), (1000, 200, [1, 3, 200]))
    for limit, ranges, tried in few + many:
        transport = serving(lambda pairs, limit=limit: (rightly if len(pairs) <= limit else single)(pairs), ranges=200)
        seen = probe(transport, STARTS, STOPS, right)
        assert transport.ranges == ranges and [s["ranges"] for s in seen] == tried
        assert [s["answer"] == "right" for s in seen] == [n <= limit for n in tried]
        assert [len(a) for a in transport.http.received] == tried
    transport = serving(rightly, ranges=50)
    seen = probe(transport, STARTS, STOPS, lambda i, part: i == 0)
    assert transport.ranges == 1 and seen[1] == {"ranges": 3, "answer": "2 with wrong bytes"}


def test_probe_takes_600_bytes_for_head_of_part():
    """For three ranges of 8 bytes 1800 further bytes are right, one more is not."""
    starts, stops = [0, 1000, 2000], [8, 1008, 2008]
    for extra, answer in ((1799, "right"), (1800, "right"), (1801, "1801 additional bytes")):

        def serve(pairs, extra=extra):
            status, head, body = rightly(pairs)
            return status, head, body + b" " * (extra + 24 - len(body) if len(pairs) > 1 else 0)

        one = serving(serve)
        seen = probe(one, starts, stops, right=lambda i, part: bytes(part) == DATA[starts[i] : stops[i]])
        assert seen == [RIGHT, {"ranges": 3, "answer": answer}]
        assert one.ranges == (3 if answer == "right" else 1) and one.extra == extra


def test_probe_raises_for_server_in_trouble():
    for status, raised in ((429, True), (500, True), (503, True), (501, False), (400, False)):
        transport = serving(lambda pairs, s=status: single(pairs) if len(pairs) == 1 else (s, {}, b""), ranges=50)
        if raised:
            with pytest.raises(WrongAnswer):
                probe(transport, STARTS, STOPS, right)
        else:
            assert [s["ranges"] for s in probe(transport, STARTS, STOPS, right)] == [1, 3] and transport.ranges == 1


# Vector reads of root://


class XRootD:
    """A file system as fsspec-xrootd's, whose server allows `most` elements of `longest` bytes in a vector read."""

    default_max_num_chunks, default_max_chunk_size, timeout = 1024, 2**21, 5

    def __init__(self, most=5, longest=100, known=False, wrong=False):
        self.loop, self.most, self.longest, self.wrong = get_loop(), most, longest, wrong
        self._dataserver_info_cache = {"there": 1} if known else {}
        self._readonly_filehandle_cache = self
        self.opened, self.closed, self.vectors, self.running, self.together = [], 0, [], 0, 0

    def size(self, path):
        return 7

    def unstrip_protocol(self, path):
        return f"root://host/{path}"

    async def _open(self, url, timeout):
        self.opened.append((url, timeout))
        return url

    def close_all(self):
        self.closed += 1

    async def _get_max_chunk_info(self, file):
        self._dataserver_info_cache.setdefault("there", 1)
        return self.most, self.longest

    async def _cat_ranges(self, paths, starts, stops):
        elements = sum(max(1, -(-(b - a) // self.longest)) for a, b in zip(starts, stops, strict=True))
        assert paths == ["f"] * len(starts) and elements < self.most, "a full vector is followed by an empty one"
        self.vectors.append((list(starts), elements))
        self.running += 1
        self.together = max(self.together, self.running)
        for _ in range(len(self.vectors) % 3 + 1):
            await asyncio.sleep(0)
        self.running -= 1
        return [DATA[a : b - self.wrong] for a, b in zip(starts, stops, strict=True)]


def test_vector_reads_return_ranges_in_order():
    """Read 30 ranges of 1 to 250 bytes, so 1 to 3 elements each; four elements fit."""
    rng = np.random.default_rng(4)
    starts = np.sort(rng.choice(59_000, 30, replace=False)).tolist()
    stops = [a + n for a, n in zip(starts, rng.integers(1, 251, 30).tolist(), strict=True)]
    fs = XRootD()
    one = VectorTransport(fs, "f", 3, owns=True)
    assert (one.ranges, one.most, one.longest, one.requests) == (1023, 1023, 2**21, 0) and not one.opened
    assert one.fetch(starts, stops) == slices(starts, stops)
    elements = [-(-(b - a) // 100) for a, b in zip(starts, stops, strict=True)]
    assert sorted(s for v, _ in fs.vectors for s in v) == starts and sum(n for _, n in fs.vectors) == sum(elements)
    assert (one.ranges, one.most, one.longest) == (4, 4, 100) and one.extra == 16 * sum(elements)
    assert one.requests == len(fs.vectors) + 2, "it opened the file, and asked for the limits"
    assert fs.opened == [("root://host/f", 5)] and fs.together == 3
    one.fetch(starts[:1], stops[:1])
    assert len(fs.opened) == 1, "once"
    one.close()
    assert fs.closed == 1 and not one.opened
    one.fetch(starts[:1], stops[:1])
    assert len(fs.opened) == 2 and one.requests == len(fs.vectors) + 2 + 1, "the limits are known by now"
    shared = VectorTransport(fs, "f", 3)
    shared.close()
    assert fs.closed == 1, "others use its files"


def test_vector_reads_are_few_but_use_all_connections():
    for n, parallel, vectors in ((8, 4, 4), (8, 2, 2), (9, 2, 3), (3, 4, 3), (1, 4, 1), (40, 2, 10)):
        one = VectorTransport(XRootD(), "f", parallel)
        one.fetch([10 * i for i in range(n)], [10 * i + 5 for i in range(n)])
        assert len(one.fs.vectors) == vectors, (n, parallel)
        assert one.extra == 16 * n
    one = VectorTransport(XRootD(most=100), "f", 1)
    one.ranges = 2
    one.fetch([0, 10, 20, 30, 40], [1, 11, 21, 31, 41])
    assert [n for _, n in one.fs.vectors] == [2, 2, 1] and one.ranges == 2 and one.most == 99


def test_vector_reads_count_elements():
    """A range counts one for each begun 10 bytes, and one if it is empty; at most six fit in a read."""
    one = VectorTransport(XRootD(), "f", 1)
    one.longest, one.ranges, one.most = 10, 100, 6
    empty = (([0] * 13, [6, 6, 1]), ([0, 10, 0, 10, 0, 10, 0], [6, 1]))
    for lengths, groups in (*empty, ([11] * 4, [3, 1]), ([10] * 7, [6, 1]), ([60, 1, 61, 1], [1] * 4)):
        stops = np.cumsum(lengths)
        found = one.groups((stops - lengths).tolist(), stops.tolist())
        assert [g.stop - g.start for g in found] == groups, lengths


def test_vector_reads_of_known_and_wrong_server():
    one = VectorTransport(fs := XRootD(known=True), "f")
    assert one.fetch([], []) == [] and one.requests == 0 and not fs.opened
    one.fetch([1], [2])
    assert one.requests == 2 and one.parallel == 4, "the limits are not asked for"
    assert (one.size(), one.requests) == (7, 3)
    with pytest.raises(WrongAnswer):
        VectorTransport(XRootD(wrong=True), "f").fetch([1], [9])

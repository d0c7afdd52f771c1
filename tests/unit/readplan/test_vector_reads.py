"""Vector reads of a root:// server, by a stand-in of fsspec-xrootd that counts itself; how transports close."""

import asyncio
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from fsspec.asyn import get_loop
from range_server import range_server

from storelab.readplan import FsspecTransport, HttpTransport, several
from storelab.readplan.transports import WrongAnswer

DATA = np.random.default_rng(9).bytes(60_000)


class Server:
    """What a server allows: `most` elements in a vector read, `longest` bytes in each."""

    default_max_num_chunks, default_max_chunk_size, timeout = 1024, 2**21, 5

    def __init__(self, most=5, longest=100, known=False, wrong=False):
        self.loop, self.most, self.longest, self.wrong = get_loop(), most, longest, wrong
        self._dataserver_info_cache = {"there": 1} if known else {}
        self._readonly_filehandle_cache = self
        self.opened, self.closed, self.vectors, self.running, self.together = [], 0, [], 0, 0

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
        await asyncio.sleep(0.002 * (len(self.vectors) % 3))
        self.running -= 1
        return [DATA[a : b - self.wrong] for a, b in zip(starts, stops, strict=True)]


def test_ranges_come_in_order_in_vectors_that_the_server_allows():
    """30 ranges of 1 to 250 bytes, so 1 to 3 elements each; four elements fit."""
    rng = np.random.default_rng(4)
    starts = np.sort(rng.choice(59_000, 30, replace=False)).tolist()
    stops = [a + n for a, n in zip(starts, rng.integers(1, 251, 30).tolist(), strict=True)]
    fs = Server()
    one = several.VectorTransport(fs, "f", 3, owns=True)
    assert (one.ranges, one.most, one.longest, one.requests) == (1023, 1023, 2**21, 0) and not one.opened
    assert one.fetch(starts, stops) == [DATA[a:b] for a, b in zip(starts, stops, strict=True)]
    elements = [-(-(b - a) // 100) for a, b in zip(starts, stops, strict=True)]
    assert sorted(s for v, _ in fs.vectors for s in v) == starts and sum(n for _, n in fs.vectors) == sum(elements)
    assert (one.ranges, one.most, one.longest) == (4, 4, 100) and one.extra == 16 * sum(elements)
    assert one.requests == len(fs.vectors) + 2, "it opened the file, and asked what is allowed"
    assert fs.opened == [("root://host/f", 5)] and fs.together == 3
    one.fetch(starts[:1], stops[:1])
    assert len(fs.opened) == 1, "once"
    one.close()
    assert fs.closed == 1 and not one.opened
    one.fetch(starts[:1], stops[:1])
    assert len(fs.opened) == 2 and one.requests == len(fs.vectors) + 2 + 1, "what is allowed is known by now"


def test_vectors_are_as_few_as_can_be_or_one_for_each_that_may_run():
    for n, parallel, vectors in ((8, 4, 4), (8, 2, 2), (9, 2, 3), (3, 4, 3), (1, 4, 1), (40, 2, 10)):
        fs = Server()
        one = several.VectorTransport(fs, "f", parallel)
        one.fetch([10 * i for i in range(n)], [10 * i + 5 for i in range(n)])
        assert len(fs.vectors) == vectors, (n, parallel)
        assert one.extra == 16 * n


def test_what_a_server_is_known_to_allow_is_not_asked():
    fs = Server(known=True)
    one = several.VectorTransport(fs, "f")
    assert one.fetch([], []) == [] and one.requests == 0 and not fs.opened
    one.fetch([1], [2])
    assert one.requests == 2 and one.parallel == 4


def test_a_short_element_is_no_answer():
    with pytest.raises(WrongAnswer):
        several.VectorTransport(Server(wrong=True), "f").fetch([1], [9])


def test_no_more_ranges_than_the_caller_wants():
    fs = Server(most=100)
    one = several.VectorTransport(fs, "f", 1)
    one.ranges = 2
    one.fetch([0, 10, 20, 30, 40], [1, 11, 21, 31, 41])
    assert [n for _, n in fs.vectors] == [2, 2, 1] and one.ranges == 2 and one.most == 99


def test_groups_hold_their_two_bounds_and_no_more_could_share():
    """Brute force over small cases: in order, none too heavy but a single one, and no two neighbours could be one."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        weights = rng.integers(1, 6, rng.integers(1, 12)).tolist()
        ranges, most, parallel = (int(rng.integers(1, n)) for n in (6, 12, 5))
        groups = several.grouped(weights, ranges, most, parallel)
        assert [i for g in groups for i in range(g.start, g.stop)] == list(range(len(weights)))
        each = max(1, min(ranges, -(-len(weights) // parallel)))
        for g in groups:
            inside = weights[g]
            assert len(inside) <= each and (sum(inside) <= most or len(inside) == 1)
        for g, h in itertools.pairwise(groups):
            assert len(weights[g]) == each or sum(weights[g]) + weights[h.start] > most
    assert several.grouped([], 1, 1, 1) == []


def test_a_closed_http_transport_has_no_connection_and_no_thread():
    with range_server(DATA) as server:
        one = HttpTransport(f"http://127.0.0.1:{server.server_port}/o", parallel=2)
        one.fetch([0, 50], [10, 60])
        assert len(one.http.pools) == 1
        one.close()
        assert len(one.http.pools) == 0
        with pytest.raises(RuntimeError, match="after shutdown"):
            one.fetch([0], [1])


class Session:
    def __init__(self):
        self.left = []

    async def __aexit__(self, *told):
        self.left.append(told)


@pytest.mark.parametrize("kind", ["http", "s3", "both", "none"])
def test_file_systems_close_their_sessions(kind):
    """http: `close_session(loop, session)`; s3fs: leaving its client; else nothing."""
    s3, closed = Session(), []
    fs = SimpleNamespace(async_impl=True, loop=get_loop())
    if kind in ("http", "both"):
        fs._session, fs.close_session = "session", lambda loop, session: closed.append((loop, session))
    if kind in ("s3", "both"):
        fs.s3 = s3
    FsspecTransport(fs, "f").close()
    assert not closed and not s3.left, "others may use what fsspec shares"
    FsspecTransport(fs, "f", owns=True).close()
    assert closed == ([(fs.loop, "session")] if kind in ("http", "both") else [])
    assert s3.left == ([(None, None, None)] if kind == "s3" else [])
    if kind == "http":
        fs._session = None
        FsspecTransport(fs, "f", owns=True).close()
        assert len(closed) == 1, "a session that never was"

"""uproot's reads through planned requests: gathering, guesses, warnings."""

import itertools
import queue
import warnings

import fsspec
import numpy as np
import pytest
import uproot
from link_model import LAN, WAN
from memory_transport import Memory
from paths import DATA

from readplan import FsspecTransport, Link, PlannedSource, plan
from readplan.choose import Requests
from readplan.source import fetch, gather

FILES = DATA / "root"
LINK = Link(1e-4, 1e-5, 1e-5, 1e9, 1e9, 8)


def scattered(rng, n):
    """Return (offsets, sizes) of n ranges in any order, up to thousands of bytes apart."""
    sizes = rng.geometric(1 / 400, n)
    offsets = np.cumsum(sizes + rng.geometric(1 / 3000, n) * (rng.random(n) > 0.3)) - sizes
    order = rng.permutation(n)
    return offsets[order], sizes[order]


def test_plan_gathers_every_range():
    rng = np.random.default_rng(3)
    offsets, sizes = scattered(rng, 3000)
    data = rng.bytes(int((offsets + sizes).max()))
    truth = [data[o : o + s] for o, s in zip(offsets.tolist(), sizes.tolist(), strict=True)]
    every = ({}, {"thrift": 15}, {"thrift": np.inf}, {"max_amplification": 3})
    for link, options in itertools.product((LAN, WAN), every):
        requests = plan(offsets, sizes, link, pieces=(64_000, 1 << 20), **options)
        assert (requests.start[1:] >= requests.stop[:-1]).all(), options
        parts = [data[a:b] for a, b in zip(requests.start.tolist(), requests.stop.tolist(), strict=True)]
        assert [f.tobytes() for f in gather(requests, parts, offsets, offsets + sizes)] == truth, options


def test_gather_takes_slices_of_answers():
    """Ranges of no byte, of one answer, over several that touch; bytes between answers are refused."""
    data = np.arange(100, dtype=np.uint8)
    requests = Requests(np.array([10, 20, 50]), np.array([20, 40, 60]), 0, 0, 0.0, 0, 0)
    parts = [data[a:b].tobytes() for a, b in ((10, 20), (20, 40), (50, 60))]
    asked = [(10, 20), (12, 12), (19, 21), (10, 40), (55, 60), (5, 5), (99, 99), (30, 31)]
    found = gather(requests, parts, *map(np.array, zip(*asked, strict=True)))
    assert [f.tobytes() for f in found] == [data[a:b].tobytes() for a, b in asked]
    assert {f.dtype for f in found} == {np.dtype("u1")} and [len(f) for f in found] == [b - a for a, b in asked]
    for start, stop in ((9, 11), (39, 41), (20, 51), (40, 50), (59, 61), (70, 71)):
        with pytest.raises(ValueError, match=f"bytes {start} to {stop - 1} are not in the answers"):
            gather(requests, parts, np.array([start]), np.array([stop]))


def test_fetch_counts_sent_requests():
    """A transport with several ranges per request sends fewer than the plan has."""
    data = np.random.default_rng(2).bytes(1000)
    requests = plan(begins := np.array([0, 900]), np.array([10, 20]), Link(0.0, 0.0, 0.0, 1e3, 1e3, 1))
    assert len(requests) == 2
    for groups, sent in ((None, 2), (lambda starts, stops: [slice(0, 2)], 1)):
        memory = Memory(data)
        if groups:
            memory.groups = groups
        parts, number = fetch(memory, requests, begins, begins + 10)
        assert [part.tobytes() for part in parts] == [data[:10], data[900:910]] and number == sent


def test_options_of_source_reach_the_plan():
    ranges = np.column_stack([begins := np.arange(100) * 2000, begins + 100])

    def planned(**options):
        return PlannedSource("x", transport=Memory(b""), link=WAN, **options).requests_for(ranges)

    plain, thrifty, bounded = planned(), planned(thrift=np.inf), planned(max_amplification=9.0)
    assert len(thrifty) == 100 > len(plain) and plain.amplification > 9 >= bounded.amplification
    with pytest.raises(ValueError, match="max_amplification = 0 is too small"):
        planned(max_amplification=0)


def test_size_of_empty_file_is_requested_once():
    sizes = iter([0])
    memory = Memory(b"")
    memory.size = lambda: next(sizes)
    one = PlannedSource("x", transport=memory)
    assert [one.num_bytes, one.num_bytes] == [0, 0]


def test_source_plans_each_set_of_ranges():
    rng = np.random.default_rng(8)
    offsets, sizes = scattered(rng, 500)
    data = rng.bytes(int((offsets + sizes).max()) + 5000)
    memory = Memory(data)
    source = PlannedSource("file.root", transport=memory, link=WAN)
    ranges = list(zip(offsets.tolist(), (offsets + sizes).tolist(), strict=True))
    notifications = queue.Queue()
    chunks = source.chunks(ranges, notifications)
    counts = (source.num_requests, source.num_requested_chunks, source.num_requested_bytes)
    assert counts == (1, 500, sizes.sum())
    assert [c.raw_data.tobytes() for c in chunks] == [data[a:b] for a, b in ranges] and notifications.qsize() == 500
    assert memory.requests == len(source.last_plan) < 50
    assert source.chunk(3, 9).raw_data.tobytes() == data[3:9] and source.num_bytes == len(data)
    unknown = PlannedSource("file.root", transport=Memory(data))
    unknown.chunks(ranges[:3], queue.Queue())
    assert unknown.link is None, "not measured for a few ranges"
    unknown.chunks(ranges, queue.Queue())
    assert unknown.link is not None
    small = PlannedSource("small", transport=Memory(data[:3000]))
    small.requests_for(np.array([[i * 10, i * 10 + 5] for i in range(100)]))
    assert small.link is None, "too small to measure"


def test_few_ranges_use_a_guess():
    """Guess 10 ms of round trip, 0.1 ms for a request that leaves with it, 1 ms for others, 100 MB/s a connection."""
    for n, parallel in ((1, 8), (3, 8), (5, 2)):
        one = PlannedSource("x", transport=Memory(bytes(10**6), parallel), num_bytes=10**12)
        begins = np.arange(n) * 10**10
        found = one.requests_for(np.column_stack([begins, begins + 300]))
        first = min(n, parallel)
        waits = 0.01 + (first - 1) * 1e-4 + (n - first) * 1e-3
        moving = max(n * 1000 / 1e9, n * 1000 / (first * 1e8), 300 / 1e8)  # 700 B of heads each
        assert len(found) == n and found.seconds == pytest.approx(waits + moving, rel=1e-9)
        assert one.link is None and not one.transport.requests, "nothing was measured"


def test_source_is_open_within_its_block():
    one = PlannedSource("x", transport=Memory(b"abc"), num_bytes=3)
    with one as held:
        assert held is one and not held.closed and bytes(held.chunk(1, 3).raw_data) == b"bc"
    assert one.closed


def test_transport_reads_one_file():
    """With one transport, the second file had the events of the first."""
    memory = Memory(b"abc")
    for _ in range(2):
        PlannedSource("a.root", transport=memory)
    with pytest.raises(ValueError, match=r"this transport reads 'a.root', not 'b.root'; make one transport for each"):
        PlannedSource("b.root", transport=memory)
    PlannedSource("b.root", transport=Memory(b"abc"))
    url = f"file://{FILES / 'nanoaod.root'}"
    transport = FsspecTransport(fsspec.filesystem("file"), str(FILES / "nanoaod.root"))
    files = [{url: "Events"}, {f"file://{FILES / 'lists.root'}": "events"}]
    with pytest.raises(ValueError, match="make one transport for each file"):
        uproot.concatenate(files, handler=PlannedSource, transport=transport, link=LINK)


def read(name, tree):
    """Return the planned source after uproot read all branches of a local file."""
    sources = []

    class Seen(PlannedSource):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            sources.append(self)

    transport = FsspecTransport(fsspec.filesystem("file"), str(FILES / name))
    file = uproot.open({f"file://{FILES / name}": None}, handler=Seen, transport=transport, link=LINK)
    file[tree].arrays()
    return sources[-1]


def test_rntuple_warns_that_nothing_is_planned():
    with pytest.warns(UserWarning, match="64 ranges of .* one by one.*RNTuple"):
        source = read("ntuple.root", "Events")
    assert source.unplanned >= PlannedSource.WORTH and source.last_plan is None


def test_ttree_is_planned_without_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source = read("nanoaod.root", "Events")
    assert source.unplanned < 20 and len(source.last_plan) < source.num_requested_chunks


def test_link_is_measured_for_enough_ranges():
    data = bytes(range(256)) * 4000
    for missing in (0, 1):
        one = PlannedSource("x", transport=Memory(data), num_bytes=len(data))
        begins = np.arange(one.WORTH - missing) * 5000
        found = one.requests_for(np.column_stack([begins, begins + 10]))
        assert (one.link is None) == bool(missing) and found.needed_bytes == 10 * len(begins)


def test_single_ranges_are_counted():
    data = bytes(range(256)) * 20
    one = PlannedSource("x", transport=Memory(data), num_bytes=len(data))
    for start, stop, counts in ((100, 110, (10, 1, 1)), (5, 8, (13, 2, 2))):
        assert bytes(one.chunk(start, stop).raw_data) == data[start:stop]
        assert (one.num_requested_bytes, one.num_requests, one.num_requested_chunks) == counts

"""The read planner: every byte is asked for, and no other way to merge is better in the model."""

import itertools
import queue
from dataclasses import asdict

import numpy as np
import pytest
from memory_transport import Memory

from storelab.readplan import Link, PlannedSource, WrongAnswer, front, measure, plan
from storelab.readplan.choose import _Wish, split
from storelab.readplan.source import gather

LAN = Link(rtt_s=3e-4, first_s=1e-4, request_s=1e-4, bandwidth=1e9, stream=8e8, parallel=64)
WAN = Link(rtt_s=0.02, first_s=1e-4, request_s=3.2e-4, bandwidth=1e9, stream=2e8, parallel=64)
BENT = Link(
    **{
        **asdict(LAN),
        "curve": ((2**17, 2e-4), (2**19, 1.6e-3), (2**21, 3e-3)),
        "bandwidth": 2**21 / 3e-3,
        "stream": 4e8,
    }
)
LINKS = pytest.mark.parametrize("link", [LAN, WAN], ids=["lan", "wan"])


def some_ranges(rng, n, gap=3000, size=400):
    gaps, sizes = rng.geometric(1 / gap, n), rng.geometric(1 / size, n)
    gaps[rng.random(n) < 0.3] = 0
    offsets = np.cumsum(gaps + sizes) - sizes
    order = rng.permutation(n)
    return offsets[order], sizes[order]


def covered(requests, offsets, sizes):
    first = np.searchsorted(requests.start, offsets, side="right") - 1
    last = np.searchsorted(requests.stop, offsets + sizes, side="left")
    whole = all((requests.stop[i:j] == requests.start[i + 1 : j + 1]).all() for i, j in zip(first, last, strict=True))
    return (
        whole
        and (first >= 0).all()
        and (last < len(requests)).all()
        and (requests.start[1:] >= requests.stop[:-1]).all()
    )


@LINKS
@pytest.mark.parametrize("seed", range(6))
def test_no_other_way_to_merge_is_better(link, seed):
    rng = np.random.default_rng(seed)
    offsets, sizes = some_ranges(rng, 11, gap=200_000)
    best = plan(offsets, sizes, link, pieces=())
    order = np.argsort(offsets)
    starts, stops = offsets[order], (offsets + sizes)[order]
    for cuts in itertools.product([False, True], repeat=10):
        at = np.flatnonzero(cuts)
        begins, ends = starts[np.append(0, at + 1)], stops[np.append(at, 10)]
        seconds = link.seconds(ends - begins)
        assert best.seconds <= seconds * (1 + 1e-12)


@LINKS
@pytest.mark.parametrize("options", [{}, {"thrift": 15}, {"thrift": np.inf}, {"max_amplification": 3}])
def test_every_range_is_in_the_answers(link, options):
    rng = np.random.default_rng(3)
    offsets, sizes = some_ranges(rng, 3000)
    data = rng.bytes(int((offsets + sizes).max()))
    requests = plan(offsets, sizes, link, pieces=(64_000, 1 << 20), **options)
    assert covered(requests, offsets, sizes)
    parts = [data[a:b] for a, b in zip(requests.start.tolist(), requests.stop.tolist(), strict=True)]
    found = gather(requests, parts, offsets, offsets + sizes)
    assert all(f.tobytes() == data[o : o + s] for f, o, s in zip(found, offsets.tolist(), sizes.tolist(), strict=True))


def test_time_costs_bytes_and_the_bound_holds():
    offsets, sizes = some_ranges(np.random.default_rng(4), 20_000)
    quick, shared, thrifty = (plan(offsets, sizes, WAN, thrift=t) for t in (0, 15, np.inf))
    assert (
        quick.seconds < shared.seconds < thrifty.seconds and quick.wire_bytes > shared.wire_bytes > thrifty.wire_bytes
    )
    assert len(quick) < len(shared) < len(thrifty) and quick.gap > shared.gap > thrifty.gap
    bounded = plan(offsets, sizes, WAN, max_amplification=3.5)
    assert bounded.amplification <= 3.5 and quick.seconds <= bounded.seconds <= thrifty.seconds
    # A bound that headers alone break: the fewest wire bytes there are.
    assert plan(offsets, sizes, WAN, max_amplification=1).wire_bytes == thrifty.wire_bytes
    assert quick.needed_bytes == sizes.sum()


def test_the_front_is_one():
    offsets, sizes = some_ranges(np.random.default_rng(5), 5000)
    found = front(offsets, sizes, WAN)
    best = found.best
    assert 3 < best.sum() <= len(best)
    for i in range(len(best)):
        beaten = (found.seconds <= found.seconds[i]) & (found.wire_bytes <= found.wire_bytes[i])
        strictly = (found.seconds < found.seconds[i]) | (found.wire_bytes < found.wire_bytes[i])
        assert best[i] == (not (beaten & strictly).any())


def test_long_runs_are_split_where_a_connection_is_the_limit():
    sizes = np.full(4000, 30_000)
    offsets = np.cumsum(sizes) - sizes
    requests = plan(offsets, sizes, WAN)
    assert requests.piece and 4 <= len(requests) <= 128 and requests.asked_bytes == sizes.sum()
    assert set(requests.start.tolist()) <= set(offsets.tolist()), "cut where a range begins"
    alone = Link(0.0, 0.0, 1e-4, 1e9, 1e9, 1)
    assert len(plan(offsets, sizes, alone)) == 1
    start, stop = split(np.array([0]), np.array([10**6]), np.array([10]), np.array([0]))
    assert len(start) == 10 and stop[-1] == 10**6 and (start[1:] == stop[:-1]).all()


def test_lengths_that_a_server_is_slow_with_are_avoided():
    """The same gaps and bytes; requests of some 300 kB are dear on the bent link, so it merges on to longer ones, or less."""
    offsets = np.arange(2000) * 60_000
    sizes = np.full(2000, 30_000)
    offsets += np.cumsum(np.where(np.arange(2000) % 10 == 9, 200_000, 0))  # ten together: 570 kB
    plain = Link(**{**asdict(BENT), "curve": ()})
    planned = {link.curve: plan(offsets, sizes, link, pieces=()) for link in (plain, BENT)}
    there = planned[BENT.curve]
    assert there.seconds < BENT.seconds(planned[()].stop - planned[()].start)


def test_several_ranges_in_a_request_ask_for_few_bytes():
    offsets, sizes = some_ranges(np.random.default_rng(6), 20_000)
    multi = Link(**{**asdict(WAN), "ranges": 1000, "part_bytes": 150, "part_s": 1e-6})
    single, several = plan(offsets, sizes, WAN), plan(offsets, sizes, multi)
    assert several.wire_bytes < single.wire_bytes / 3 and several.seconds < single.seconds


def test_nothing_and_overlaps():
    assert len(plan(np.empty(0, "i8"), np.empty(0, "i8"), LAN)) == 0
    assert len(plan(np.array([7]), np.array([0]), LAN)) == 0
    requests = plan(np.array([0, 10, 5]), np.array([20, 5, 30]), LAN)
    assert requests.start.tolist() == [0] and requests.stop.tolist() == [35] and requests.needed_bytes == 35


@pytest.mark.parametrize(
    ("offsets", "sizes", "options", "said"),
    [
        ([0, 5], [1], {}, "one size"),
        ([-1], [4], {}, "before the file"),
        ([1], [-4], {}, "shorter"),
        ([1], [4], {"thrift": -1}, "thrift"),
        ([1], [4], {"thrift": float("nan")}, "thrift"),
        ([1], [4], {"max_amplification": 0.5}, "max_amplification"),
    ],
)
def test_what_cannot_be_is_refused(offsets, sizes, options, said):
    with pytest.raises(ValueError, match=said):
        plan(np.array(offsets), np.array(sizes), LAN, **options)


@pytest.mark.parametrize(
    "wrong",
    [{"bandwidth": 0}, {"rtt_s": -1}, {"parallel": 0}, {"request_s": float("nan")}, {"curve": ((5, 1.0), (4, 2.0))}],
)
def test_a_link_that_cannot_be(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Link(**{**asdict(LAN), **wrong})


class Clock:
    """Time passes as a link says, when its transport fetches."""

    def __init__(self, link, data):
        self.link, self.inner, self.now = link, Memory(data), 0.0
        self.parallel = link.parallel

    def fetch(self, starts, stops):
        self.now += self.link.seconds(np.array(stops) - np.array(starts))
        return self.inner.fetch(starts, stops)


@pytest.mark.parametrize("link", [LAN, WAN, BENT], ids=["lan", "wan", "bent"])
def test_the_calibration_finds_the_link(link):
    clock = Clock(link, bytes(120_000_000))
    found = measure(clock, 120_000_000, lambda: clock.now)
    assert not found.doubtful
    for name in ("rtt_s", "first_s", "request_s", "stream", "bandwidth"):
        assert getattr(found, name) == pytest.approx(getattr(link, name), rel=0.1), name
    for length in (20_000, 500_000, 3_000_000):
        assert found.busy(np.array([length])) == pytest.approx(link.busy(np.array([length])), rel=0.15)
    assert found.parallel == link.parallel and clock.inner.requests < 1200
    assert sum(b - a for a, b in clock.inner.log) < 110e6
    with pytest.raises(ValueError, match="too small"):
        measure(clock, 100)


def test_source_plans_each_set_of_ranges():
    rng = np.random.default_rng(8)
    offsets, sizes = some_ranges(rng, 500)
    data = rng.bytes(int((offsets + sizes).max()) + 5000)
    memory = Memory(data)
    source = PlannedSource("file.root", transport=memory, link=WAN)
    ranges = list(zip(offsets.tolist(), (offsets + sizes).tolist(), strict=True))
    notifications = queue.Queue()
    chunks = source.chunks(ranges, notifications)
    assert [c.raw_data.tobytes() for c in chunks] == [data[a:b] for a, b in ranges] and notifications.qsize() == 500
    assert memory.requests == len(source.last_plan) < 50
    assert source.chunk(3, 9).raw_data.tobytes() == data[3:9] and source.num_bytes == len(data)
    unknown = PlannedSource("file.root", transport=Memory(data))
    unknown.chunks(ranges[:3], queue.Queue())
    assert unknown.link is None, "not measured for a few ranges"
    unknown.chunks(ranges, queue.Queue())
    assert unknown.link is not None


def test_gather_refuses_what_was_not_asked_for():
    requests = plan(np.array([0, 10**6]), np.array([10, 10]), Link(0, 0, 1e-9, 1e3, 1e3, 4))
    assert len(requests) == 2
    with pytest.raises(ValueError, match="not in the answers"):
        gather(requests, [bytes(10), bytes(10)], np.array([5]), np.array([15]))


def test_wrong_lengths_are_errors():
    from storelab.readplan.transports import FsspecTransport

    class Short:
        def cat_ranges(self, paths, starts, stops, **_):
            return [bytes(b - a - 1) for a, b in zip(starts, stops, strict=True)]

    class Broken:
        def cat_ranges(self, paths, starts, stops, **_):
            return [OSError("gone") for _ in starts]

    with pytest.raises(WrongAnswer, match="7 bytes came of 0 to 7"):
        FsspecTransport(Short(), "x").fetch([0], [8])
    with pytest.raises(OSError, match="gone"):
        FsspecTransport(Broken(), "x").fetch([0], [8])


def test_a_plan_at_the_bound_itself_is_within_it():
    wish = _Wish(LAN, 0.0, 200.0)
    pieces, wire, seconds = np.array([2, 1, 1]), np.array([100, 200, 201]), np.array([3.0, 2.0, 1.0])
    assert wish.best(pieces, wire, seconds) == 1

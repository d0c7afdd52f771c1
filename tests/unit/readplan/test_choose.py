"""Plans of the read planner, compared with brute force over all ways to merge and split, and with sums by hand."""

import itertools
import math
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from link_model import LAN, PROPERTY, WAN, links, occupied_of, seconds_of, up

from readplan import Link, choose, front, plan
from readplan.choose import split

PIECES = (1000, 4000)
TRUE = Link(0.01, 2e-4, 5e-4, 4e8, 1e8, 16, header_bytes=0)

ranges_ = st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 5000)), min_size=1, max_size=9).filter(
    lambda r: any(s for _, s in r)
)


def some_ranges(rng, n, gap=3000, size=400):
    """Return (offsets, sizes) of n ranges in any order, a third of them touching the range before."""
    gaps, sizes = rng.geometric(1 / gap, n), rng.geometric(1 / size, n)
    gaps[rng.random(n) < 0.3] = 0
    offsets = np.cumsum(gaps + sizes) - sizes
    order = rng.permutation(n)
    return offsets[order], sizes[order]


def apart(gaps, sizes):
    """Return the offsets of ranges that follow each other after these gaps."""
    return np.cumsum(gaps + sizes) - sizes


def runs_of(ranges):
    """Return touching or overlapping ranges as one, in order."""
    out = []
    for a, b in sorted((o, o + s) for o, s in ranges if s):
        if out and a <= out[-1][1]:
            out[-1][1] = max(b, out[-1][1])
        else:
            out.append([a, b])
    return out


def joined(runs, together):
    """Return the requests; `together` has for each gap whether it is read as well."""
    out = [list(runs[0])]
    for run, over in zip(runs[1:], together, strict=True):
        if over:
            out[-1][1] = run[1]
        else:
            out.append(list(run))
    return out


def merges(runs):
    """Return every way to merge neighbours: 2 ** (n - 1)."""
    return [joined(runs, together) for together in itertools.product((False, True), repeat=len(runs) - 1)]


def every_plan(ranges, link, pieces):
    """Return (seconds, wire bytes, requests) of every way to merge, each request split by itself at any length."""
    known = {}
    for requests in merges(runs_of(ranges)):
        lengths = [b - a for a, b in requests]
        for counts in itertools.product(*({up(n, p) for p in (n, *pieces)} for n in lengths)):
            parts = [n // c + (i < n % c) for n, c in zip(lengths, counts, strict=True) for i in range(c)]
            if (key := tuple(sorted(parts))) not in known:
                known[key] = seconds_of(link, parts)
    return list(known.values())


def plans_by_gap(ranges, link, pieces):
    """Return gap -> [(seconds, wire bytes, pieces, length of splits)]: all requests of a plan are split alike."""
    runs, out = runs_of(ranges), {}
    gaps = [b[0] - a[1] for a, b in pairwise(runs)]
    for gap in sorted({0, *gaps}):
        lengths = [b - a for a, b in joined(runs, [g <= gap for g in gaps])]
        for piece in (0, *(p for p in pieces if p < max(lengths))):
            parts = []
            for length in lengths:
                count = up(length, piece) if piece else 1
                parts += [up(length, count)] * count  # costed as equally long, rounded up; the wire bytes are exact
            seconds, wire, _ = seconds_of(link, parts)
            out.setdefault(gap, []).append((seconds, wire - sum(parts) + sum(lengths), len(parts), piece))
    return out


def chosen(ranges, link, **options):
    return plan(*np.array(ranges).T, link, pieces=PIECES, **options)


def cost_of(link, thrift, seconds, wire, requests):
    return wire if math.isinf(thrift) else seconds + thrift * (wire / link.bandwidth + requests * occupied_of(link))


THRIFTS = st.sampled_from([0.0, 0.0, 0.5, 3.0, 20.0, math.inf])
BOUNDS = st.sampled_from([None, None, 1.0, 1.0002, 1.1, 1.5, 4.0])


@settings(PROPERTY, max_examples=150)
@given(ranges_, links(), THRIFTS, BOUNDS)
def test_plan_of_few_runs_is_near_best(ranges, link, thrift, bound):
    """Weigh splits as merges by thrift and bound, and report the figures of the planned requests."""
    found, every = chosen(ranges, link, thrift=thrift, max_amplification=bound), every_plan(ranges, link, PIECES)
    seconds, wire, requests = seconds_of(link, (found.stop - found.start).tolist())
    assert (found.seconds, found.wire_bytes) == (pytest.approx(seconds, rel=1e-9), wire)
    needed = sum(b - a for a, b in runs_of(ranges))
    assert found.needed_bytes == needed and found.amplification == found.wire_bytes / needed
    within = [e for e in every if bound is None or e[1] <= bound * needed]
    if within:
        assert bound is None or wire <= bound * needed
        best = min(cost_of(link, thrift, *e) for e in within)
        assert cost_of(link, thrift, seconds, wire, requests) <= 1.05 * best
    else:
        assert wire == min(e[1] for e in every)


@PROPERTY
@given(ranges_, links(), st.sampled_from([{}, {"thrift": 3.0}, {"thrift": math.inf}, {"max_amplification": 1.5}]))
def test_plan_covers_runs_and_nothing_else(ranges, link, options):
    found = chosen(ranges, link, **options)
    runs = runs_of(ranges)
    asked = list(zip(found.start.tolist(), found.stop.tolist(), strict=True))
    assert all(a < b for a, b in asked) and all(a[1] <= b[0] for a, b in pairwise(asked))
    assert asked[0][0] == runs[0][0] and asked[-1][1] == runs[-1][1]
    requests = runs_of([(a, b - a) for a, b in asked])
    assert requests in merges(runs), "whole runs, in order"
    over = [b[0] - a[1] for a, b in pairwise(runs) if any(r[0] <= a[0] and b[1] <= r[1] for r in requests)]
    assert found.gap == max(over, default=0)
    assert found.asked_bytes == sum(b - a for a, b in requests) and len(found) == len(asked)


def test_plan_of_eleven_runs_is_best():
    """Try every way to merge: the planner itself does so only up to ten runs."""
    for link, seed in itertools.product((LAN, WAN), range(3)):
        ranges = list(zip(*some_ranges(np.random.default_rng(seed), 11, gap=200_000), strict=True))
        best = min(link.seconds(np.array([b - a for a, b in requests])) for requests in merges(runs_of(ranges)))
        assert plan(*np.array(ranges).T, link, pieces=()).seconds <= best * (1 + 1e-12), (link, seed)
    rng = np.random.default_rng(3)
    for _ in range(6):
        sizes, gaps = rng.integers(1, 5000, 12), rng.integers(1, 20_000, 12)
        ranges = list(zip(apart(gaps, sizes).tolist(), sizes.tolist(), strict=True))
        link = Link(1e-4, 1e-5, 2e-4, spread := float(10 ** rng.uniform(6, 8)), spread / 4, 4)
        best = min(e[0] for e in every_plan(ranges, link, ()))
        assert chosen(ranges, link).seconds <= 1.05 * best


def took(link, offsets, sizes, apart_after, piece=None):
    """Return the seconds of requests that end after these ranges, split into equal parts of at most `piece` bytes."""
    at = np.flatnonzero(apart_after)
    lengths = (offsets + sizes)[np.append(at, len(sizes) - 1)] - offsets[np.append(0, at + 1)]
    counts = -(-lengths // piece) if piece else np.ones_like(lengths)
    return link.seconds(np.repeat(-(-lengths // counts), counts))


def test_many_gaps_lose_one_percent_at_most():
    """Of more than 128 gaps only some are tried."""
    rng = np.random.default_rng(5)
    gaps, sizes = rng.integers(1, 400_000, 600), rng.integers(100, 3000, 600)
    offsets = apart(gaps, sizes)
    for request_s in (3e-5, 1e-4, 3e-4, 1e-3):
        link = Link(0.01, 1e-4, request_s, 4e8, 2e8, 8)
        best = min(took(link, offsets, sizes, gaps[1:] > gap) for gap in np.unique(gaps))
        assert best * (1 - 1e-9) <= plan(offsets, sizes, link, pieces=()).seconds <= 1.01 * best


def test_few_gaps_are_tried_with_every_length():
    """Try all combinations for 80 runs, few gaps, up to four lengths of parts: none is quicker."""
    link, pieces = Link(0.001, 5e-4, 5e-4, 1e9, 2e7, 8), (100_000, 200_000, 400_000)
    rng = np.random.default_rng(11)
    for _ in range(6):
        sizes, gaps = rng.integers(20_000, 60_000, 80), rng.choice([1000, 30_000, 300_000], 80)
        offsets = apart(gaps, sizes)
        every = itertools.product((0, 1000, 30_000, 300_000), (10**12, *pieces))
        best = min(took(link, offsets, sizes, gaps[1:] > gap, piece) for gap, piece in every)
        assert plan(offsets, sizes, link, pieces=pieces).seconds <= best * 1.011


def test_one_gap_more_or_less_is_not_quicker():
    """Cost all plans of 40 runs that differ by one gap. The planner needs several steps to get there."""
    rng = np.random.default_rng(4)
    link = Link(1e-3, 1e-4, 1e-3, 4e8, 1e8, 4, ((2**16, 1e-4), (2**18, 3e-3), (2**20, 4e-3)))
    steps = 0
    for _ in range(12):
        sizes, gaps = rng.integers(1000, 200_000, 40), rng.integers(1, 300_000, 40)
        offsets = apart(gaps, sizes)
        found = plan(offsets, sizes, link, pieces=())
        cut = np.isin((offsets + sizes)[:-1], found.stop)
        assert found.seconds == pytest.approx(took(link, offsets, sizes, cut))
        near = min(took(link, offsets, sizes, cut ^ (np.arange(39) == i)) for i in range(39))
        assert found.seconds <= near + 1e-12
        by_gap = min((gaps[1:] > gap for gap in (0, *gaps)), key=lambda c: took(link, offsets, sizes, c))
        steps = max(steps, int((by_gap ^ cut).sum()))
    assert steps > 1


def test_search_is_bounded_by_number_of_runs(monkeypatch):
    """Try all ways to merge up to ten runs, then those near the best; of many lengths every fourth with each gap."""
    ways, lengths = [], []

    class Spied(choose._Tried):
        def __init__(self, found, link, pieces):
            super().__init__(found, link, pieces)
            ways.append(len(self.cuts))
            lengths.append(tuple(pieces))

    monkeypatch.setattr(choose, "_Tried", Spied)
    for runs, counts in ((2, [2]), (9, [256]), (10, [512]), (11, [2, 11])):
        ways.clear()
        plan(np.arange(runs) * 100_000, np.full(runs, 30_000), TRUE, pieces=())
        assert ways[: len(counts)] == counts and len(set(ways[1:])) == len(counts) - 1, runs
    for n, runs, first in ((3, 40, 1), (4, 40, 1), (5, 40, 4), (21, 40, 4), (21, 5, 1)):
        lengths.clear()
        pieces = tuple(50_000 * 2**i for i in range(n))
        plan(np.arange(runs) * 100_000, np.full(runs, 30_000), TRUE, pieces=pieces)
        assert lengths[0] == pieces[::first] and set(lengths[1:]) == ({pieces} if runs > 10 else set())


# Thrift and bounds


def test_thrift_and_bound_trade_time_for_bytes():
    offsets, sizes = some_ranges(np.random.default_rng(4), 20_000)
    quick, shared, thrifty = plans = [plan(offsets, sizes, WAN, thrift=t) for t in (0, 15, np.inf)]
    assert quick.seconds < shared.seconds < thrifty.seconds
    assert quick.wire_bytes > shared.wire_bytes > thrifty.wire_bytes
    assert len(quick) < len(shared) < len(thrifty) and quick.gap > shared.gap > thrifty.gap
    assert {p.needed_bytes for p in plans} == {sizes.sum()}
    bounded = plan(offsets, sizes, WAN, max_amplification=3.5)
    assert bounded.amplification <= 3.5 and quick.seconds <= bounded.seconds <= thrifty.seconds
    # Headers break this bound, so the plan with the fewest wire bytes is taken.
    assert plan(offsets, sizes, WAN, max_amplification=1).wire_bytes == thrifty.wire_bytes


def test_ties_go_to_quickest_plan_within_bound():
    """A plan that meets the bound exactly is within it. If none is, take the fewest bytes."""
    wire, seconds = np.array([100, 90, 80, 80]), np.array([1.0, 2.0, 4.0, 3.0])
    for bound, best in ((100, 0), (99.9, 1), (90, 1), (89, 3), (80, 3), (79, 3), (np.inf, 0)):
        assert choose._Goal(TRUE, 0.0, bound).best(np.ones(4, "i8"), wire, seconds) == best, bound
    assert choose._Goal(TRUE, np.inf, np.inf).best(np.ones(4, "i8"), wire, seconds) == 3


def test_split_keeps_bound():
    """A slow stream is quickest in many pieces; a bound of 1.0002 allows two heads of 700 bytes for 8 MiB."""
    link = Link(1e-4, 1e-5, 1e-4, 1e9, 1e7, 64, header_bytes=700)
    free, bounded = (plan(np.array([0]), np.array([8 * 2**20]), link, max_amplification=m) for m in (None, 1.0002))
    assert len(free) >= 8 and len(bounded) == 2 and bounded.amplification <= 1.0002
    assert bounded.seconds == pytest.approx(link.seconds(np.array([4 * 2**20] * 2)), rel=1e-9)
    assert bounded.seconds > free.seconds


def test_shared_server_gets_fewer_splits():
    link = Link(1e-4, 1e-5, 5e-3, 1e9, 1e8, 4)
    alone, shared = (plan(np.array([0]), np.array([32 * 2**20]), link, thrift=t) for t in (0, 1000))
    assert len(alone) > 1 == len(shared)


# The front


@PROPERTY
@given(ranges_, links())
def test_front_has_every_gap_and_marks_best(ranges, link):
    found, every = front(*np.array(ranges).T, link, PIECES), plans_by_gap(ranges, link, PIECES)
    assert sorted(set(found.gap.tolist())) == sorted(every)
    for gap, *mine in zip(found.gap, found.seconds, found.wire_bytes, found.pieces, found.piece, strict=True):
        quickest = min(every[gap], key=lambda e: (e[0], e[2], e[3]))
        assert mine[0] == pytest.approx(quickest[0], rel=1e-9)
        if mine[3] == quickest[3]:
            assert mine[1:] == list(quickest[1:])
    for i, best in enumerate(found.best):
        equal = (found.seconds == found.seconds[i]) & (found.wire_bytes == found.wire_bytes[i])
        assert best == is_best(found, i) or equal.sum() > 1


def is_best(found, i):
    beaten = (found.seconds <= found.seconds[i]) & (found.wire_bytes <= found.wire_bytes[i])
    strictly = (found.seconds < found.seconds[i]) | (found.wire_bytes < found.wire_bytes[i])
    return not (beaten & strictly).any()


def test_front_of_many_ranges_marks_best():
    found = front(*some_ranges(np.random.default_rng(5), 5000), WAN)
    assert 3 < found.best.sum() <= len(found.best)
    assert found.best.tolist() == [is_best(found, i) for i in range(len(found.best))]


# Splits, links with several ranges in a request, and input


def test_long_runs_are_split_for_slow_connections():
    sizes = np.full(4000, 30_000)
    offsets = np.cumsum(sizes) - sizes
    requests = plan(offsets, sizes, WAN)
    assert requests.piece and 4 <= len(requests) <= 128 and requests.asked_bytes == sizes.sum()
    assert set(requests.start.tolist()) <= set(offsets.tolist()), "cut where a range begins"
    assert len(plan(offsets, sizes, Link(0.0, 0.0, 1e-4, 1e9, 1e9, 1))) == 1
    start, stop = split(np.array([0]), np.array([10**6]), np.array([10]), np.array([0]))
    assert len(start) == 10 and stop[-1] == 10**6 and (start[1:] == stop[:-1]).all()


def test_cuts_at_ranges_cost_one_percent_at_most():
    """Parts that are cut at the begins of ranges would be so uneven here that equal ones are quicker."""
    offsets, sizes = np.array([0, 1_240_000]), np.array([1_240_000, 760_000])
    even = plan(offsets, sizes, Link(0.0, 0.0, 0.0, 1e9, 1e6, 2), pieces=(1_000_000,))
    assert even.start.tolist() == [0, 1_000_000]


@PROPERTY
@given(st.integers(0, 500), st.integers(100, 20_000), st.integers(1, 30), st.lists(st.integers(0, 20_000), max_size=12))
def test_cuts_are_near_equal_parts(start, length, count, begins):
    """Cut at the nearest begin, or at the equal place where none is near, and always into `count` parts."""
    stop = start + length
    starts, stops = split(np.array([start]), np.array([stop]), np.array([count]), np.array(sorted(begins), "i8"))
    assert starts[0] == start and stops[-1] == stop and (starts[1:] == stops[:-1]).all() and (stops > starts).all()
    assert len(starts) == count
    for k, cut in enumerate(starts[1:].tolist(), 1):
        wanted = start + k * length // count
        near = [b for b in begins if abs(b - wanted) <= length // count // 4]
        assert abs(cut - wanted) == min((abs(b - wanted) for b in near), default=0) and (cut in near or not near)


def test_slow_lengths_are_avoided():
    """Requests of 300 kB are dear on the bent link, so the plan merges more or less than without its curve."""
    curve = ((2**17, 2e-4), (2**19, 1.6e-3), (2**21, 3e-3))
    bent = Link(**{**asdict(LAN), "curve": curve, "bandwidth": 2**21 / 3e-3, "stream": 4e8})
    plain = Link(**{**asdict(bent), "curve": ()})
    sizes = np.full(2000, 30_000)
    offsets = np.arange(2000) * 60_000 + np.cumsum(np.where(np.arange(2000) % 10 == 9, 200_000, 0))
    without, within = (plan(offsets, sizes, link, pieces=()) for link in (plain, bent))
    assert within.seconds < bent.seconds(without.stop - without.start)


def test_several_ranges_in_request_save_bytes():
    offsets, sizes = some_ranges(np.random.default_rng(6), 20_000)
    multi = Link(**{**asdict(WAN), "ranges": 1000, "part_bytes": 150, "part_s": 1e-6})
    single, several = plan(offsets, sizes, WAN), plan(offsets, sizes, multi)
    assert several.wire_bytes < single.wire_bytes / 3 and several.seconds < single.seconds


def test_plan_of_nothing_and_of_overlaps():
    for sizes in ([], [0, 0]):
        found = plan(np.arange(len(sizes)) * 9, np.array(sizes, "i8"), TRUE)
        assert len(found) == len(found.start) == len(found.stop) == 0
        numbers = (found.gap, found.piece, found.seconds, found.wire_bytes, found.needed_bytes, found.asked_bytes)
        assert numbers == (0,) * 6 and found.amplification == 1
    requests = plan(np.array([0, 10, 5]), np.array([20, 5, 30]), LAN)
    assert requests.start.tolist() == [0] and requests.stop.tolist() == [35] and requests.needed_bytes == 35


def test_impossible_input_is_refused():
    wrong = ({"thrift": -1}, {"thrift": float("nan")}, {"max_amplification": 0.5}, {"pieces": (8, 0)}, {"pieces": [-1]})
    cases = [([0, 5], [1], {}, "one size"), ([-1], [4], {}, "negative"), ([1], [-4], {}, "negative")]
    cases += [([0, 5], [0], {}, "one size"), ([-1], [0], {}, "negative")]  # nothing to read
    cases += [([0.5], [4], {}, "whole number"), ([0], [math.nan], {}, "whole number"), ([2**62], [2**62], {}, "beyond")]
    for offsets, sizes, options, word in cases + [([1], [4], one, next(iter(one))) for one in wrong]:
        with pytest.raises(ValueError, match=word):
            plan(np.array(offsets), np.array(sizes), LAN, **options)
    with pytest.raises(ValueError, match="pieces"):
        front(np.array([1]), np.array([4]), LAN, (0,))
    largest = plan(np.array([2.0**62]), np.array([2**62 - 1]), LAN, pieces=())
    assert largest.needed_bytes == 2**62 - 1, "whole numbers in any type"
    for sizes in ([], [0, 0]):
        with pytest.raises(ValueError, match="there are no bytes to read"):
            front(np.arange(len(sizes)), np.array(sizes, "i8"), LAN)

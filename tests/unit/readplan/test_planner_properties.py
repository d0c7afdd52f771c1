"""The read planner against brute force, and its model of a link against the same model in plain Python, request by request."""

import itertools
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storelab.readplan import front, multipart, plan
from storelab.readplan.choose import split
from storelab.readplan.cost import Link
from storelab.readplan.several import grouped

PROPERTY = settings(max_examples=25, deadline=None, database=None, derandomize=True)
PIECES = (1000, 4000)


def up(a, b):
    """a / b, rounded up."""
    return math.ceil(a / b)


def seconds_of(link, lengths):
    """What the docstring of `Link` says, of single requests or groups of `ranges` pieces."""
    n, asked = len(lengths), sum(lengths)
    together = max(1, min(link.ranges, up(n, link.parallel)))
    requests = up(n, together)
    wire = asked + requests * link.header_bytes + (n * link.part_bytes if link.ranges > 1 else 0)
    seconds = link.rtt_s
    for i in range(1, requests):
        seconds += link.first_s if i < link.parallel else link.request_s
    seconds += n * link.part_s if link.ranges > 1 else 0
    moving = (wire - asked) / link.bandwidth
    for length in lengths:
        moving += busy_of(link, length)
    streams = min(requests, link.parallel)
    return seconds + max(moving, wire / (streams * link.stream), max(lengths) / link.stream), wire, requests


def busy_of(link, length):
    """Along the curve; beyond its last point by the bandwidth."""
    if not link.curve or link.ranges > 1:
        return length / link.bandwidth
    known = [(0, 0.0), *link.curve]
    for (a, s), (b, t) in pairwise(known):
        if length <= b:
            return s + (t - s) * (length - a) / (b - a)
    return known[-1][1] + (length - known[-1][0]) / link.bandwidth


def runs_of(ranges):
    """Touching or overlapping ranges as one, in order."""
    out = []
    for a, b in sorted((o, o + s) for o, s in ranges if s):
        if out and a <= out[-1][1]:
            out[-1][1] = max(b, out[-1][1])
        else:
            out.append([a, b])
    return out


def merged(runs, gap):
    out = [list(runs[0])]
    for a, b in runs[1:]:
        if a - out[-1][1] <= gap:
            out[-1][1] = b
        else:
            out.append([a, b])
    return out


def merges(runs):
    """Every way to merge neighbours: 2 ** (n - 1)."""
    for together in itertools.product((False, True), repeat=len(runs) - 1):
        out = [list(runs[0])]
        for run, joined in zip(runs[1:], together, strict=True):
            if joined:
                out[-1][1] = run[1]
            else:
                out.append(list(run))
        yield out


def split_each(lengths, pieces):
    """Every way to split each of these requests by itself, or not: lists of lengths."""
    ways = [sorted({up(length, p) for p in (length, *pieces)}) for length in lengths]
    for counts in itertools.product(*ways):
        yield [length // n + (i < length % n) for length, n in zip(lengths, counts, strict=True) for i in range(n)]


def every_plan(ranges, link, pieces):
    """(seconds, wire bytes, requests, pieces) of every way to merge, each request split by itself at any length."""
    known = {}
    for requests in merges(runs_of(ranges)):
        for lengths in split_each([b - a for a, b in requests], pieces):
            key = tuple(sorted(lengths))
            if key not in known:
                known[key] = (*seconds_of(link, lengths), len(lengths))
    return list(known.values())


def by_gap(ranges, link, pieces):
    """Gap -> [(seconds, wire bytes, pieces, length of splits)]: all gaps up to one merged, all requests split alike."""
    runs, out = runs_of(ranges), {}
    for gap in sorted({0, *(b[0] - a[1] for a, b in pairwise(runs))}):
        lengths = [b - a for a, b in merged(runs, gap)]
        for piece in (0, *(p for p in pieces if p < max(lengths))):
            parts = []
            for length in lengths:
                count = up(length, piece) if piece else 1
                parts += [up(length, count)] * count  # costed as equally long, rounded up; the wire bytes are exact
            seconds, wire, _ = seconds_of(link, parts)
            out.setdefault(gap, []).append((seconds, wire - sum(parts) + sum(lengths), len(parts), piece))
    return out


ranges_ = st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 5000)), min_size=1, max_size=9).filter(
    lambda r: any(s for _, s in r)
)
times_ = st.floats(1e-6, 1e-2)
rates_ = st.floats(1e5, 1e9)


@st.composite
def links(draw):
    ranges = draw(st.sampled_from([1, 1, 2, 3]))
    steps = draw(st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 1e-3)), max_size=3))
    curve, size, took = [], 0, 0.0
    for more, longer in steps:
        size, took = size + more, took + longer
        curve.append((size, took))
    return Link(draw(times_), draw(times_), draw(times_), draw(rates_), draw(rates_), draw(st.integers(1, 6)), tuple(curve), draw(st.sampled_from([0, 700])), ranges, draw(st.integers(0, 150)), draw(times_))  # fmt: skip


@PROPERTY
@given(links(), st.lists(st.integers(1, 9000), min_size=1, max_size=20))
def test_the_model_is_what_its_words_say(link, lengths):
    seconds, wire, requests = seconds_of(link, lengths)
    assert link.requests(len(lengths)) == requests
    assert link.wire(len(lengths), sum(lengths)) == wire
    assert link.seconds(np.array(lengths)) == pytest.approx(seconds, rel=1e-9)
    assert link.busy(np.array(lengths)) == pytest.approx([busy_of(link, n) for n in lengths], rel=1e-9, abs=1e-15)
    occupied = max(0, link.request_s - link.rtt_s / link.parallel)
    assert link.shared(len(lengths), wire) == pytest.approx(wire / link.bandwidth + requests * occupied, rel=1e-9)


@PROPERTY
@given(links(), st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 4)), min_size=1, max_size=6))
def test_counts_stand_for_repeated_lengths(link, kinds):
    lengths, counts = np.array(kinds).T
    assert link.seconds(lengths, counts) == pytest.approx(link.seconds(np.repeat(lengths, counts)), rel=1e-9)


def chosen(ranges, link, **options):
    offsets, sizes = np.array(ranges).T
    return plan(offsets, sizes, link, pieces=PIECES, **options)


def cost_of(link, thrift, seconds, wire, requests):
    if math.isinf(thrift):
        return wire
    return seconds + thrift * (wire / link.bandwidth + requests * max(0, link.request_s - link.rtt_s / link.parallel))


@settings(PROPERTY, max_examples=150)
@given(
    ranges_,
    links(),
    st.sampled_from([0.0, 0.0, 0.5, 3.0, 20.0, math.inf]),
    st.sampled_from([None, None, 1.0, 1.0002, 1.1, 1.5, 4.0]),
)
def test_no_way_to_merge_and_split_is_much_better(ranges, link, thrift, bound):
    """Thrift and bound weigh splits as they weigh merges; the plan's own figures are those of its very requests."""
    found, every = chosen(ranges, link, thrift=thrift, max_amplification=bound), every_plan(ranges, link, PIECES)
    seconds, wire, requests = seconds_of(link, (found.stop - found.start).tolist())
    assert (found.seconds, found.wire_bytes) == (pytest.approx(seconds, rel=1e-9), wire)
    needed = sum(b - a for a, b in runs_of(ranges))
    assert found.needed_bytes == needed and found.amplification == found.wire_bytes / needed
    within = [e for e in every if bound is None or e[1] <= bound * needed]
    if within:
        assert bound is None or wire <= bound * needed
        best = min(cost_of(link, thrift, *e[:3]) for e in within)
        assert cost_of(link, thrift, seconds, wire, requests) <= 1.05 * best
    else:
        assert wire == min(e[1] for e in every)


def test_a_split_keeps_the_bound():
    """8 MiB by a slow stream: quickest in many pieces, of which a bound of 1.0002 allows two, with 700 bytes of head each."""
    link = Link(1e-4, 1e-5, 1e-4, 1e9, 1e7, 64, header_bytes=700)
    free, bounded = (plan(np.array([0]), np.array([8 * 2**20]), link, max_amplification=m) for m in (None, 1.0002))
    assert len(free) >= 8 and len(bounded) == 2 and bounded.amplification <= 1.0002
    assert bounded.seconds == pytest.approx(link.seconds(np.array([4 * 2**20] * 2)), rel=1e-9)
    assert bounded.seconds > free.seconds


def test_a_split_is_worth_what_others_wait_for():
    """The reader alone gains from many connections; who shares the server does not."""
    link = Link(1e-4, 1e-5, 5e-3, 1e9, 1e8, 4)
    alone, shared = (plan(np.array([0]), np.array([32 * 2**20]), link, thrift=t) for t in (0, 1000))
    assert len(alone) > 1 == len(shared)


def test_many_runs_are_near_the_best_too():
    """Twelve runs, too many for all ways to be tried by the planner."""
    rng = np.random.default_rng(3)
    for _ in range(6):
        sizes, gaps = rng.integers(1, 5000, 12), rng.integers(1, 20_000, 12)
        ranges = list(zip((np.cumsum(sizes + gaps) - sizes).tolist(), sizes.tolist(), strict=True))
        link = Link(1e-4, 1e-5, 2e-4, spread := float(10 ** rng.uniform(6, 8)), spread / 4, 4)
        best = min(e[0] for e in every_plan(ranges, link, ()))
        assert chosen(ranges, link).seconds <= 1.05 * best


@PROPERTY
@given(ranges_, links(), st.sampled_from([{}, {"thrift": 3.0}, {"thrift": math.inf}, {"max_amplification": 1.5}]))
def test_all_is_covered_and_nothing_beyond(ranges, link, options):
    found = chosen(ranges, link, **options)
    runs = runs_of(ranges)
    asked = list(zip(found.start.tolist(), found.stop.tolist(), strict=True))
    assert all(a < b for a, b in asked) and all(a[1] <= b[0] for a, b in pairwise(asked))
    assert asked[0][0] == runs[0][0] and asked[-1][1] == runs[-1][1], (
        "neither before the first range nor beyond the last"
    )
    requests = runs_of([(a, b - a) for a, b in asked])
    assert requests in list(merges(runs)), "whole runs, in order"
    gaps = [b[0] - a[1] for a, b in pairwise(runs)]
    assert found.gap == max((g for g, (a, b) in zip(gaps, pairwise(runs), strict=True) if any(r[0] <= a[0] and b[1] <= r[1] for r in requests)), default=0)  # fmt: skip
    assert found.asked_bytes == sum(b - a for a, b in requests) and len(found) == len(asked)


@PROPERTY
@given(ranges_, links())
def test_the_front_holds_every_gap_and_marks_the_best(ranges, link):
    offsets, sizes = np.array(ranges).T
    found, every = front(offsets, sizes, link, PIECES), by_gap(ranges, link, PIECES)
    assert sorted(set(found.gap.tolist())) == sorted(every)
    for gap, *mine in zip(found.gap, found.seconds, found.wire_bytes, found.pieces, found.piece, strict=True):
        quickest = min(every[gap], key=lambda e: (e[0], e[2], e[3]))
        assert mine[0] == pytest.approx(quickest[0], rel=1e-9)
        if mine[3] == quickest[3]:
            assert mine[1:] == list(quickest[1:])
    for i, best in enumerate(found.best):
        beaten = (found.seconds <= found.seconds[i]) & (found.wire_bytes <= found.wire_bytes[i])
        strictly = (found.seconds < found.seconds[i]) | (found.wire_bytes < found.wire_bytes[i])
        equal = (found.seconds == found.seconds[i]) & (found.wire_bytes == found.wire_bytes[i])
        assert best == (not (beaten & strictly).any()) or equal.sum() > 1


@PROPERTY
@given(st.integers(0, 500), st.integers(100, 20_000), st.integers(1, 30), st.lists(st.integers(0, 20_000), max_size=12))
def test_cuts_are_near_equal_parts(start, length, count, begins):
    """As many parts as a plan was costed with; a cut is at the nearest begin, or at the equal place where none is near."""
    stop = start + length
    starts, stops = split(np.array([start]), np.array([stop]), np.array([count]), np.array(sorted(begins), "i8"))
    assert starts[0] == start and stops[-1] == stop and (starts[1:] == stops[:-1]).all() and (stops > starts).all()
    assert len(starts) == count
    for k, cut in enumerate(starts[1:].tolist(), 1):
        wanted = start + k * length // count
        near = [b for b in begins if abs(b - wanted) <= length // count // 4]
        assert abs(cut - wanted) == min((abs(b - wanted) for b in near), default=0) and (cut in near or not near)


@PROPERTY
@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 8), st.integers(1, 60), st.integers(1, 8))
def test_groups_are_neighbours_within_both_bounds(weights, ranges, most, parallel):
    slices = grouped(weights, ranges, most, parallel)
    assert [i for s in slices for i in range(s.start, s.stop)] == list(range(len(weights)))
    share = max(1, min(ranges, up(len(weights), parallel)))
    for s, after in zip(slices, [*slices[1:], None], strict=False):
        size, weight = s.stop - s.start, sum(weights[s])
        assert size <= share and (weight <= most or size == 1)
        assert after is None or size == share or weight + weights[s.stop] > most, "as many as may be"


@PROPERTY
@given(
    st.lists(st.tuples(st.integers(0, 5000), st.binary(min_size=1, max_size=60)), min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
)
def test_answers_with_several_ranges_are_read_back(parts, known, preamble):
    """As RFC 9110 writes them; a body may hold the boundary itself."""
    mark = "edge"
    body = b"\r\n" if preamble else b""
    for first, data in parts:
        data = data + b"\r\n--edge--"
        total = first + len(data) + 9 if known else "*"
        body += (
            f"--{mark}\r\nContent-Type: x\r\nContent-Range: bytes {first}-{first + len(data) - 1}/{total}\r\n\r\n".encode()
            + data
            + b"\r\n"
        )
    found = multipart.parse(body + f"--{mark}--".encode(), mark)
    assert [(p.first, p.body) for p in found] == [(first, data + b"\r\n--edge--") for first, data in parts]
    assert all(p.last == p.first + len(p.body) - 1 and p.total == (p.last + 10 if known else None) for p in found)


@pytest.mark.parametrize(
    ("text", "found"),
    [("bytes 0-0/1", (0, 0, 1)), ("bytes 3-9/10", (3, 9, 10)), ("bytes 3-9/9", None), ("bytes 4-3/9", None), ("bytes 4-4/*", (4, 4, None))],
)  # fmt: skip
def test_content_range_at_its_edges(text, found):
    assert multipart.content_range(text) == found

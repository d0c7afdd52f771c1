"""The read planner against brute force, and its model of a link against the same model in plain Python, request by request."""

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


def every_plan(ranges, link, pieces):
    """(seconds, wire bytes, pieces, asked) of every gap, and of every length at which long runs are split in equal parts."""
    runs = runs_of(ranges)
    for gap in sorted({0, *(b[0] - a[1] for a, b in pairwise(runs))}):
        lengths = [b - a for a, b in merged(runs, gap)]
        for piece in (0, *(p for p in pieces if p < max(lengths))):
            parts = []
            for length in lengths:
                count = up(length, piece) if piece else 1
                parts += [up(length, count)] * count
            seconds, _, n = seconds_of(link, parts)
            # the pieces of a run are costed as equally long, rounded up; what comes over the wire is counted exactly
            yield (
                gap,
                piece,
                seconds,
                sum(lengths) + n * link.header_bytes + (len(parts) * link.part_bytes if link.ranges > 1 else 0),
                len(parts),
            )


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


@PROPERTY
@given(ranges_, links())
def test_no_plan_of_all_is_quicker(ranges, link):
    best, every = chosen(ranges, link), list(every_plan(ranges, link, PIECES))
    assert best.seconds == pytest.approx(min(s for *_, s, _, _ in every), rel=1e-9)
    mine = [e for e in every if e[0] == best.gap and e[1] == best.piece]
    assert [e[2] for e in mine] == [pytest.approx(best.seconds, rel=1e-9)] and mine[0][3] == best.wire_bytes


def quickest(every):
    """Of each gap the quickest way to split: what the planner chooses from."""
    out = {}
    for e in every:
        if e[0] not in out or (e[2], e[4], e[1]) < (out[e[0]][2], out[e[0]][4], out[e[0]][1]):
            out[e[0]] = e
    return list(out.values())


@PROPERTY
@given(ranges_, links(), st.floats(1, 4))
def test_the_bound_is_kept_or_the_fewest_bytes_are_sent(ranges, link, bound):
    found, every = chosen(ranges, link, max_amplification=bound), quickest(every_plan(ranges, link, PIECES))
    needed = sum(b - a for a, b in runs_of(ranges))
    within = [e for e in every if e[3] <= bound * needed]
    assert found.needed_bytes == needed and found.amplification == found.wire_bytes / needed
    if within:
        assert found.amplification <= bound and found.seconds == pytest.approx(min(e[2] for e in within), rel=1e-9)
    else:
        assert found.wire_bytes == min(e[3] for e in every)


@PROPERTY
@given(ranges_, links(), st.floats(0.1, 20))
def test_thrift_weighs_what_others_wait_for(ranges, link, thrift):
    every = quickest(every_plan(ranges, link, PIECES))
    assert chosen(ranges, link, thrift=math.inf).wire_bytes == min(e[3] for e in every)

    def cost(seconds, wire, n):
        requests = up(n, max(1, min(link.ranges, up(n, link.parallel))))
        return seconds + thrift * (
            wire / link.bandwidth + requests * max(0, link.request_s - link.rtt_s / link.parallel)
        )

    found = chosen(ranges, link, thrift=thrift)
    mine = next(e for e in every if e[0] == found.gap)
    assert cost(*mine[2:]) == pytest.approx(min(cost(*e[2:]) for e in every), rel=1e-9)


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
    assert [list(r) for r in runs_of([(a, b - a) for a, b in asked])] == merged(runs, found.gap)
    assert found.asked_bytes == sum(b - a for a, b in merged(runs, found.gap)) and len(found) == len(asked)


@PROPERTY
@given(ranges_, links())
def test_the_front_holds_every_gap_and_marks_the_best(ranges, link):
    offsets, sizes = np.array(ranges).T
    found, every = front(offsets, sizes, link, PIECES), quickest(every_plan(ranges, link, PIECES))
    assert sorted(set(found.gap.tolist())) == sorted(e[0] for e in every)
    for gap, piece, n, wire, seconds in zip(
        found.gap, found.piece, found.pieces, found.wire_bytes, found.seconds, strict=True
    ):
        mine = next(e for e in every if e[0] == gap)
        assert seconds == pytest.approx(mine[2], rel=1e-9)
        if piece == mine[1]:
            assert (n, wire) == (mine[4], mine[3])
    for i, best in enumerate(found.best):
        beaten = (found.seconds <= found.seconds[i]) & (found.wire_bytes <= found.wire_bytes[i])
        strictly = (found.seconds < found.seconds[i]) | (found.wire_bytes < found.wire_bytes[i])
        equal = (found.seconds == found.seconds[i]) & (found.wire_bytes == found.wire_bytes[i])
        assert best == (not (beaten & strictly).any()) or equal.sum() > 1


@PROPERTY
@given(
    st.integers(0, 500), st.integers(1, 20_000), st.integers(200, 6000), st.lists(st.integers(0, 20_000), max_size=12)
)
def test_cuts_are_near_equal_parts(start, length, piece, begins):
    """No part is longer than an equal one and half a piece; a cut is at a begin, or at the equal place where none is near."""
    stop, count = start + length, up(length, piece)
    starts, stops = split(np.array([start]), np.array([stop]), piece, np.array(sorted(begins), "i8"))
    assert starts[0] == start and stops[-1] == stop and (starts[1:] == stops[:-1]).all() and (stops > starts).all()
    equal = [start + k * length // count for k in range(1, count)]
    assert len(starts) <= count
    for cut in starts[1:].tolist():
        assert cut in equal or (cut in begins and min(abs(cut - e) for e in equal) <= piece // 4)
    for wanted in equal:
        near = [b for b in begins if start < b < stop and abs(b - wanted) <= piece // 4]
        if not near and not any(abs(b - w) <= piece // 4 for b in begins for w in equal):
            assert wanted in starts
    untouched = split(np.array([start]), np.array([stop]), 0, np.array([], "i8"))
    assert untouched[0].tolist() == [start] and untouched[1].tolist() == [stop]


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

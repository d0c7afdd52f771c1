"""Schedules of operations: due times, processes, and the number of operations that never began."""

import math
import random
from itertools import accumulate, pairwise
from types import SimpleNamespace

import pytest
from fake_clock import FakeClock

from storelab.engines.common import timing
from storelab.engines.common.timing import FROM_NS, TICK_NS, ClosedLoop, OpenLoop, Poisson

S, MS = 10**9, 10**6


@pytest.fixture
def clock(monkeypatch):
    return FakeClock(monkeypatch, timing)


def test_closed_loop_begins_until_deadline(clock):
    loop = ClosedLoop(clock.ns + 1)
    assert loop.next() == (0, clock.ns) and loop.missed() == 0
    clock.ns += 1
    assert loop.next() is None and loop.missed() == 0


def test_open_loop_is_evenly_spaced_and_shared(clock):
    """All operations are already due, but the deadline has not come."""
    start = clock.ns - S
    for index, stride in ((0, 1), (2, 3)):
        shared = OpenLoop(start, start + 2 * S, 5, index, stride)
        turns = [shared.next() for _ in range(3 // stride)]
        assert turns == [(start + k * 200 * MS, clock.ns) for k in range(index, 3, stride)], (index, stride)


def test_processes_together_have_every_operation_once(clock):
    start = clock.ns - S
    every = [OpenLoop(start, start + 950 * MS, 100, i, 4) for i in range(4)]
    assert sum(a.missed() for a in every) == 95, "due in [0, 950 ms) at 10 ms: 0, 10 … 940"
    assert all(a.next() is None for a in every), "the deadline has passed: none begins any more"


def test_open_loop_waits_until_due(clock):
    start, turns = clock.ns, []
    shared = OpenLoop(start, start + 40 * MS, 100, 0, 1)
    while (turn := shared.next()) is not None:
        turns.append(turn)
    assert turns == [(start + k * 10 * MS,) * 2 for k in range(4)] and shared.missed() == 0
    assert clock.sleeps == pytest.approx([0.01] * 3), "no sleep for operations that are due after the deadline"


def test_random_arrivals_begin_at_the_start():
    """The first gap is drawn from the start on: mean 1/rate, in whole nanoseconds."""
    gaps, due = random.Random(7), Poisson(S, 2 * S, 1000.0, 0, 2, 7)
    at = 0.0
    for _ in range(5):
        at += gaps.expovariate(1 / (10**6 * 2))
        assert due.due() == S + int(at)


def test_random_gaps_are_exponential():
    rate, stride, seconds = 4000.0, 2, 10
    due = Poisson(0, seconds * S, rate, 0, stride, 11)
    times = [0]
    while (at := due.due()) < seconds * S:
        times.append(at)
    gaps = sorted(1 - math.exp(-(b - a) / (1e9 * stride / rate)) for a, b in pairwise(times))
    n = len(gaps)
    assert abs(n - rate / stride * seconds) < 5 * math.sqrt(rate / stride * seconds)
    most = max(max((i + 1) / n - g, g - i / n) for i, g in enumerate(gaps))
    assert most * math.sqrt(n) < 1.95  # Kolmogorov-Smirnov at 0.001
    assert Poisson(0, seconds * S, rate, 0, stride, 11).missed() == n
    assert Poisson(0, seconds * S, rate, 0, stride, 12).missed() != n, "another seed, another process"


def test_operations_due_after_the_end_are_not_missed(clock):
    """A loop that ends 1 s after its start, 9 s before its deadline."""
    assert OpenLoop(clock.ns - S, clock.ns + 9 * S, 100, 0, 1).missed() in (100, 101)


QUIET = {"count": 0, "sum_ns": 0, "longest_ns": 0, "longest": []}


def watched(monkeypatch, *lasted_ns):
    """Return the record of a watch whose sleeps have these durations, one after the other."""
    watch, now, left = timing.Watch(), [0], list(lasted_ns)

    def sleep(seconds):
        assert seconds == TICK_NS / 1e9
        now[0] += left.pop(0)
        if not left:
            watch.ended.set()

    monkeypatch.setattr(timing, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(timing, "clock", SimpleNamespace(now_ns=lambda: now[0]))
    watch.start()
    watch.ended.wait(60)
    return watch.stop()


def test_late_tick_is_a_pause(monkeypatch):
    late = (FROM_NS, 5 * TICK_NS, FROM_NS - 1, 10**9)
    found = watched(monkeypatch, TICK_NS, *(TICK_NS + ns for ns in late))
    ends = list(accumulate(TICK_NS + ns for ns in (0, *late)))[1:]
    wanted = [(end - ns, ns) for end, ns in zip(ends, late, strict=True) if ns >= FROM_NS]
    assert found["longest"] == wanted, "a pause begins when the clock should have ticked"
    assert found == {"count": 3, "sum_ns": sum(ns for _, ns in wanted), "longest_ns": 10**9, "longest": wanted}


def test_punctual_ticks_are_no_pauses(monkeypatch):
    assert watched(monkeypatch, *[TICK_NS, TICK_NS + FROM_NS - 1] * 20) == QUIET


def test_longest_pauses_are_kept(monkeypatch):
    lengths = [FROM_NS + i * 7 % 250 for i in range(250)]  # each from 0 to 249 once
    found = watched(monkeypatch, *(TICK_NS + length for length in lengths))
    assert (found["count"], found["sum_ns"], found["longest_ns"]) == (250, sum(lengths), FROM_NS + 249)
    begins = [end - length for end, length in zip(accumulate(TICK_NS + n for n in lengths), lengths, strict=True)]
    kept = [(begin, length) for begin, length in zip(begins, lengths, strict=True) if length >= FROM_NS + 150]
    assert found["longest"] == kept and len(kept) == timing.MAX_PAUSES


def test_processes_of_a_client_together():
    quiet = {"count": 1, "sum_ns": 20, "longest_ns": 20, "longest": [(7, 20)]}
    loud = {"count": 3, "sum_ns": 48, "longest_ns": 19, "longest": [(1, 19), (2, 14), (9, 15)]}
    longest = [(1, 19), (2, 14), (7, 20), (9, 15)]
    assert timing.merge_pauses([quiet, loud]) == loud | {"longest_ns": 20, "longest": longest}

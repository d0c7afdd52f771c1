"""Schedules of operations: when they are due, for whom, and what is counted as never begun."""

import itertools

import pytest

from storelab.core import clock
from storelab.engines.common.arrivals import Closed, Open


def taken(arrivals, most: int = 1000) -> list[int]:
    return list(itertools.islice(iter(arrivals.next, None), most))


def test_a_closed_loop_begins_at_once_until_the_deadline():
    assert Closed(clock.now_ns() + 10**9).next() == 0
    assert Closed(clock.now_ns() - 1).next() is None and Closed(0).missed() == 0


@pytest.mark.parametrize(("index", "stride"), [(0, 1), (2, 3)])
def test_an_open_loop_is_evenly_spaced_and_shared_out(index, stride):
    start = clock.now_ns() - 10**9  # all are due already, but the deadline has not come
    arrivals = Open(start, start + 2 * 10**9, 5, index, stride)
    due = [arrivals.next() for _ in range(3 // stride)]
    assert due == [start + k * 200_000_000 for k in range(index, 3, stride)]


def test_all_processes_together_have_every_operation_once():
    start = clock.now_ns() - 10**9
    every = [Open(start, start + 950_000_000, 100, i, 4) for i in range(4)]
    assert sum(a.missed() for a in every) == 95, "due in [0, 950 ms) at 10 ms: 0, 10 … 940"
    assert all(a.next() is None for a in every), "the deadline has passed: none begins any more"


def test_an_open_loop_waits_until_an_operation_is_due():
    start = clock.now_ns()
    arrivals = Open(start, start + 40_000_000, 100, 0, 1)
    seen = []
    while (due := arrivals.next()) is not None:
        seen.append(clock.now_ns() - due)
    assert len(seen) == 4 and min(seen) >= 0 and arrivals.missed() == 0

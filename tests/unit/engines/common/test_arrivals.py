"""Schedules of operations: when they are due, for whom, and what is counted as never begun."""

import random
import threading
import time

import pytest

from storelab.core import clock
from storelab.engines.common.arrivals import Closed, Open, Poisson
from storelab.engines.common.guard import Guard
from storelab.engines.fsspec.client import FsspecClient, Transfer
from storelab.engines.obstore.loop import Loop, Outcome, Task

UNLIMITED = Guard({}, 1)


def late(task):
    """Tasks, the third of which is only handed out after the deadline: another thread had the lock, or the processor."""
    for n in range(1000):
        time.sleep(0.01 if n < 2 else 0.2)
        yield task


class Slow(FsspecClient):
    """A worker without a store."""

    op, asynchronous = "GET", False

    def __init__(self):
        self.workers, self.systems, self.lock, self.loop = 1, [None], threading.Lock(), None
        self.rows, self.kept, self.flying, self.messages, self.samples = [], [], {}, {}, []
        self.moved = self.failed = 0
        self.closed, self.stop, self.guard = False, None, UNLIMITED

    def tasks(self):
        return late(Transfer("key", "path", 0))

    async def do(self, fs, task):
        return b"1"

    def judge(self, task, answer):
        return len(answer)

    prepare_tasks = check_content = None


def begins_of_fsspec(start, deadline):
    client = Slow()
    client.run(start, deadline)
    return [begun for _, _, _, begun, *_ in client.rows]


def begins_of_obstore(start, deadline):
    task = Task(0, 0, "path")
    loop = Loop(lambda task, kept: Outcome(1, 1), lambda worker: late(task), [0], 1, 1, UNLIMITED)
    loop.run(start, deadline, Closed(deadline))
    return list(loop.parts[0]["start_ns"])


@pytest.mark.parametrize("begins_of", [begins_of_fsspec, begins_of_obstore])
def test_no_operation_begins_after_the_deadline_though_its_task_came_before(begins_of):
    start = clock.now_ns()
    begins = begins_of(start, start + 100_000_000)
    assert len(begins) == 2 and max(begins) < start + 100_000_000


def test_a_closed_loop_begins_at_once_until_the_deadline():
    before = clock.now_ns()
    due, now = Closed(before + 10**9).next()
    assert due == 0 and before <= now <= clock.now_ns()
    assert Closed(clock.now_ns() - 1).next() is None and Closed(0).missed() == 0


@pytest.mark.parametrize(("index", "stride"), [(0, 1), (2, 3)])
def test_an_open_loop_is_evenly_spaced_and_shared_out(index, stride):
    start = clock.now_ns() - 10**9  # all are due already, but the deadline has not come
    arrivals = Open(start, start + 2 * 10**9, 5, index, stride)
    turns = [arrivals.next() for _ in range(3 // stride)]
    assert [due for due, _ in turns] == [start + k * 200_000_000 for k in range(index, 3, stride)]


def test_all_processes_together_have_every_operation_once():
    start = clock.now_ns() - 10**9
    every = [Open(start, start + 950_000_000, 100, i, 4) for i in range(4)]
    assert sum(a.missed() for a in every) == 95, "due in [0, 950 ms) at 10 ms: 0, 10 … 940"
    assert all(a.next() is None for a in every), "the deadline has passed: none begins any more"


def test_an_open_loop_waits_until_an_operation_is_due():
    start = clock.now_ns()
    arrivals = Open(start, start + 40_000_000, 100, 0, 1)
    seen = []
    while (turn := arrivals.next()) is not None:
        due, now = turn
        assert due <= now <= clock.now_ns()
        seen.append(now - due)
    assert len(seen) == 4 and min(seen) >= 0 and arrivals.missed() == 0


def test_random_arrivals_begin_at_the_start():
    """The first gap is drawn from the start on: mean 1/rate, in whole nanoseconds."""
    gaps, due = random.Random(7), Poisson(10**9, 2 * 10**9, 1000.0, 0, 2, 7)
    at = 0.0
    for _ in range(5):
        at += gaps.expovariate(1 / (10**6 * 2))
        assert due.due() == 10**9 + int(at)

"""The loop of obstore's clients, without a store: no operation begins late, and failures are counted."""

from fake_clock import FakeClock

from storelab.engines.common.arrivals import Closed
from storelab.engines.common.guard import Guard
from storelab.engines.obstore.loop import Loop, Outcome, Task

MS = 10**6


def ran(clock, took, duration):
    """Run a loop of one worker whose tasks take some time to hand out; the third fails. Return its columns."""

    def handed_out(worker):
        for number, ns in enumerate(took):
            clock.ns += ns
            yield Task(number, 0, "path")

    def operation(task, kept):
        if task.key == 2:
            raise TimeoutError("the store was silent")
        return Outcome(1, 3, 0)

    start = clock.ns
    loop = Loop(operation, handed_out, [0], 1, 1, Guard({}, 1))
    loop.run(start, start + duration, Closed(start + duration))
    return loop, {name: list(values) for name, values in loop.parts[0].items()}


def test_no_operation_begins_after_deadline(monkeypatch):
    """The third task is handed out after the deadline, although the worker asked for it before."""
    clock = FakeClock(monkeypatch)
    start = clock.ns
    _, columns = ran(clock, (10 * MS, 10 * MS, 200 * MS, MS), 100 * MS)
    assert columns["start_ns"] == [start + 10 * MS, start + 20 * MS]


def test_failed_operations_are_recorded(monkeypatch):
    loop, columns = ran(FakeClock(monkeypatch), (MS, MS, MS, MS), 100 * MS)
    assert columns["bytes"] == [3, 3, 0, 3] and columns["error"] == [0, 0, 1, 0] and columns["count"] == [1] * 4
    assert list(loop.messages) == ["TimeoutError"] and loop.hung == {"hung": 0, "hung_s": 0.0}

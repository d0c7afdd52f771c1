"""The loop of fsspec's clients, without a store: no operation begins late, and failures are counted."""

import threading

import pytest
from fake_clock import FakeClock

from storelab.engines.common.guard import Guard
from storelab.engines.fsspec import FsspecClient, Transfer

MS = 10**6


class OneWorker(FsspecClient):
    """A worker with given tasks: each takes some time to hand out, and succeeds or fails."""

    op, asynchronous = "GET", False
    prepare_tasks = check_content = None

    def __init__(self, clock, tasks):
        self.workers, self.systems, self.lock, self.loop = 1, [None], threading.Lock(), None
        self.rows, self.kept, self.flying, self.messages, self.samples = [], [], {}, {}, []
        self.moved = self.failed = 0
        self.closed, self.stop, self.guard = False, None, Guard({}, 1)
        self.clock, self.planned = clock, tasks

    def tasks(self):
        for took, succeeds in self.planned:
            self.clock.ns += took
            yield Transfer("key", "good" if succeeds else "bad", 0)

    async def do(self, fs, task):
        if task.path == "bad":
            raise TimeoutError("the store was silent")
        return b"123"

    def judge(self, task, answer):
        return len(answer)


@pytest.fixture
def clock(monkeypatch):
    return FakeClock(monkeypatch)


def test_no_operation_begins_after_deadline(clock):
    """The third task is handed out after the deadline, although the worker asked for it before."""
    start = clock.ns
    client = OneWorker(clock, [(10 * MS, True), (10 * MS, True), (200 * MS, True), (MS, True)])
    client.run(start, start + 100 * MS)
    assert [begun for _, _, _, begun, *_ in client.rows] == [start + 10 * MS, start + 20 * MS]


def test_failed_operations_are_counted(clock):
    client = OneWorker(clock, [(MS, True), (MS, False), (MS, True), (MS, False), (MS, False)])
    client.run(clock.ns, clock.ns + 100 * MS)
    assert (client.moved, client.failed, len(client.rows), len(client.kept)) == (6, 3, 5, 2)
    assert [kind for *_, kind in client.rows] == [None, "TimeoutError", None, "TimeoutError", "TimeoutError"]
    assert [moved for _, _, moved, *_ in client.rows] == [3, 0, 3, 0, 0] and client.hung == {"hung": 0, "hung_s": 0.0}

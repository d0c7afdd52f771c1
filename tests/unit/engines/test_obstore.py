"""Operations of obstore, one by one, with a store in memory: requests and counts."""

import os
import signal
import sys
from collections import Counter

import numpy as np
import obstore
import pytest
from fake_clock import FakeClock
from honest_s3 import FIRST, honest_s3
from staged_bodies import staged

from storelab.core.errors import MeasurementFailed
from storelab.datasets import payload
from storelab.engines.common.guard import Guard
from storelab.engines.common.timing import ClosedLoop
from storelab.engines.obstore import transfers
from storelab.engines.obstore.client import Loop, Outcome, Task

SIZE = 10_000


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Return a function that returns an opened client of a kind, and its store."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", FIRST.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", FIRST.secret_key)
    with honest_s3("any signature") as (url, store):

        def made(kind, **more):
            one = kind(staged(store, url, tmp_path, SIZE, 6, **more))
            one.obstore = obstore
            one.prepare_tasks()
            one.open()
            store.received.clear()
            return one, store

        yield made


def test_downloads_are_whole(client, tmp_path):
    """Each object is read once, in one request or in parts of which the last one is shorter."""
    bodies = [path.read_bytes() for path in payload.body_files(tmp_path, 7, SIZE)]
    for part_size, ranges in ((0, {""}), (4000, {"bytes=0-3999", "bytes=4000-7999", "bytes=8000-9999"})):
        one, store = client(transfers.ObstoreGet, access="once", part_size=part_size, parallel_parts=2)
        tasks = [task for worker in (0, 1) for task in one.tasks(worker)]
        done = [(task, one.do(task, True)) for task in tasks]
        assert sorted(one.names(np.array([task.key for task in tasks]))) == sorted(
            f"p/data/d/{i:07d}" for i in range(6)
        )
        assert all(got.content == bodies[task.body] and got[:2] == (1, SIZE) and got.first_ns for task, got in done)
        assert one.verify([(task, got.content) for task, got in done])[0] == 6
        assert one.do(tasks[0], False).content is None
        assert {asked for _, _, asked in store.received} == ranges and len(store.received) == 7 * one.requests()


def test_deletions_are_counted(client):
    """One at a time, or several in one request; no bytes are moved."""
    names = [[0, f"data/d/{i:07d}"] for i in range(5)]
    for batch, op, method, requests in ((1, "DELETE", "DELETE", 5), (2, "DELETE_MULTI", "POST", 3)):
        one, store = client(transfers.ObstoreDelete, batch=batch, extra={"objects": [names]})
        done = [one.do(task, False) for worker in (0, 1) for task in one.tasks(worker)]
        assert one.op == op and Counter(asked[0] for asked in store.received) == {method: requests}
        assert sum(got.count for got in done) == 5 and {got[1:] for got in done} == {(0, 0, None)}
        assert list(store.buckets["b"].objects) == ["p/data/d/0000005"]


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
    loop.run(start, start + duration, ClosedLoop(start + duration))
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


def test_end_of_an_engine_process_is_named(client, monkeypatch):
    """A signal ends it without the handlers of the client, which raise SystemExit."""
    before = signal.signal(signal.SIGHUP, lambda *_: sys.exit(143))
    try:
        for work, message in (
            (lambda *_: os.kill(os.getpid(), signal.SIGHUP), "failed: it ended unexpectedly"),
            (raising(RuntimeError("can't start new thread")), "failed: processes: no more processes and threads can"),
            (raising(RuntimeError("other")), "failed: RuntimeError: other"),
        ):
            one, _ = client(transfers.ObstoreGet)
            one.processes, one._work = 1, work
            with pytest.raises(MeasurementFailed, match=message):
                one.prepare()
            one.children[0][0].join(10)
    finally:
        signal.signal(signal.SIGHUP, before)


def raising(error):
    def work(*_):
        raise error

    return work

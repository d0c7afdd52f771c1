"""The client watches itself: a process that is stopped sees it, with its length; the longest pauses are kept."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from storelab.engines.common import pauses

WATCHING = """
import json, sys, time
from storelab.engines.common.pauses import Watch
watch = Watch()
watch.start()
print("ready", flush=True)
time.sleep(1.0)
print(json.dumps(watch.stop()))
"""


def watched(stop_s: float) -> tuple[dict, int]:
    """(what a process of a second says that is stopped so long in its middle, when it was stopped in UTC ns)."""
    process = subprocess.Popen([sys.executable, "-c", WATCHING], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.4)
    begun = time.time_ns()
    if stop_s:
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(stop_s)
        os.kill(process.pid, signal.SIGCONT)
    return json.loads(process.communicate(timeout=20)[0]), begun


def test_a_stopped_process_sees_it():
    told, begun = watched(0.2)
    begin, length = max(told["longest"], key=lambda p: p[1])
    assert 180e6 < told["longest_ns"] == length < 400e6 and abs(begin - begun) < 60e6
    assert told["count"] >= 1 and told["sum_ns"] >= told["longest_ns"]


def test_an_undisturbed_process_is_not_accused():
    """Others use this machine: once in five tries it must be quiet."""
    assert any(watched(0)[0]["longest_ns"] < 50e6 for _ in range(5))


def test_the_longest_are_kept():
    watch = pauses.Watch()
    lengths = [i * 7 % 250 for i in range(250)]  # each from 0 to 249 once
    for i, length in enumerate(lengths):
        watch.note(i, length)
    watch.start()
    told = watch.stop()
    assert told["count"] == 250 and told["sum_ns"] == sum(lengths) and told["longest_ns"] == 249
    assert told["longest"] == [(i, n) for i, n in enumerate(lengths) if n >= 150]


def test_processes_of_a_client_together():
    quiet = {"count": 1, "sum_ns": 20, "longest_ns": 20, "longest": [(7, 20)]}
    loud = {"count": 3, "sum_ns": 48, "longest_ns": 19, "longest": [(1, 19), (2, 14), (9, 15)]}
    told = pauses.together([quiet, loud])
    assert told == {"count": 3, "sum_ns": 48, "longest_ns": 20, "longest": [(1, 19), (2, 14), (7, 20), (9, 15)]}


@pytest.mark.parametrize("late", [pauses.FROM_NS - 1, pauses.FROM_NS])
def test_from_when_on_a_tick_is_late(monkeypatch, late):
    watch = pauses.Watch()
    times = iter([0, pauses.TICK_NS, 2 * pauses.TICK_NS + late])

    def now() -> int:
        try:
            return next(times)
        finally:
            if times.__length_hint__() == 0:
                watch.ended.set()

    monkeypatch.setattr(pauses.clock, "now_ns", now)
    watch._tick()
    told = [(late, 2 * pauses.TICK_NS)] if late >= pauses.FROM_NS else []
    assert watch.longest == told and watch.sum_ns == (late if told else 0), "it began when the clock should have ticked"

"""Waiting: between two looks there is a pause, and the time limit holds."""

import itertools
from types import SimpleNamespace

from storelab.core import clock


def test_looks_have_pauses_between_them(monkeypatch):
    """The clock moves by each sleep, and by 1 ms for each look."""
    now, slept, looks = [0.0], [], itertools.count(1)

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    def look():
        now[0] += 0.001
        return next(looks) >= 4

    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    assert clock.wait_for(look, 10, 0.25) is True and slept == [0.25] * 3
    slept.clear()
    assert clock.wait_for(lambda: (), 1, 0.25) == () and slept == [0.25] * 4, "until a second is over"

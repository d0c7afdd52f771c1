"""The clock of all records: its offset, and waiting until something is found."""

from types import SimpleNamespace

from storelab.core import clock


def test_offset_moves_the_clock(monkeypatch):
    before = clock.now_ns()
    monkeypatch.setattr(clock, "_offset", 0)
    clock.set_offset(3_600_000_000_000)
    assert clock.now_ns() - before > 3_599_000_000_000


def test_waiting_ends_with_a_result_or_after_its_time(monkeypatch):
    slept = []
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append))
    looks = iter([[], [], ["found"]])
    assert clock.wait_for(lambda: next(looks), 5, 1) == ["found"] and slept == [1, 1]
    slept.clear()
    assert clock.wait_for(list, 3, 1) == [] and slept == [1, 1, 1]

"""Totals that clients write while they run, for the live view."""

import time
from itertools import pairwise

import pytest

from storelab.engines.common import told
from storelab.engines.common.guard import Guard, LimitExceeded
from storelab.engines.obstore.loop import Closed, Loop, Outcome, Task

S, MS = 10**9, 10**6
T0 = 1_760_000_000 * S


def test_client_writes_totals_five_times_a_second(tmp_path):
    teller = told.Teller(tmp_path / "told.3")
    for i in range(1000):  # 10 s
        teller.note(T0 + i * 10 * MS, 10 * i, i, 1000 * i)
        assert told.read(tmp_path / "told.3") == (200 * (i // 20), 20 * (i // 20), 20_000 * (i // 20))
    assert (tmp_path / "told.3").stat().st_size == 40


def test_partial_writes_are_ignored(tmp_path):
    path = tmp_path / "told.0"
    told.Teller(path).note(T0, 5, 1, 700)
    whole = path.read_bytes()
    told.Teller(tmp_path / "told.1").note(T0 + S, 300, 2, 90_000)
    other = (tmp_path / "told.1").read_bytes()
    for cut in range(1, 40):
        path.write_bytes(other[:cut] + whole[cut:])
        assert told.read(path) in (None, (5, 1, 700), (300, 2, 90_000))
    path.write_bytes(whole[:-1])
    assert told.read(path) is None and told.read(tmp_path / "none") is None
    before = {"told.0": told.Done(4, 1, 600)}
    assert told.of_gang(tmp_path, before) == {"told.0": (4, 1, 600), "told.1": (300, 2, 90_000)}
    assert told.total([told.Done(4, 1, 600), told.Done(300, 2, 90_000)]) == (304, 3, 90_600)
    assert told.total([]) == (0, 0, 0) and told.of_gang(tmp_path / "gone", {}) == {}


def test_unwritable_totals_are_no_error(tmp_path):
    told.Teller(None).note(T0, 1, 1, 1)
    told.Teller(tmp_path / "no folder" / "told.0").note(T0, 1, 1, 1)
    told.Teller(tmp_path / "told.0").note(T0, 2**70, 1, 1)
    assert told.read(tmp_path / "told.0") is None


def test_guard_writes_totals_before_it_refuses(tmp_path):
    guard = Guard({"error_fraction": 0.1}, 1, told=told.Teller(tmp_path / "told.0"))
    with pytest.raises(LimitExceeded):
        guard.observe(T0, 900, 100, 40, 60)
    assert told.read(tmp_path / "told.0") == (40, 60, 900)


def test_threads_of_obstore_write_their_totals(tmp_path, monkeypatch):
    """Two workers with 30 tasks each; each fifth fails: 48 good ones of 100 bytes and 3 objects, 12 failed."""
    monkeypatch.setattr("storelab.engines.obstore.loop.EVERY_NS", 5 * MS)
    monkeypatch.setattr(told, "EVERY_NS", 0)

    def operation(task, keep):
        time.sleep(0.002)
        if task.key % 5 == 0:
            raise OSError("planted")
        return Outcome(3, 100, 0)

    tasks = [Task(n, 0, "x", count=3) for n in range(30)]
    loop = Loop(operation, lambda worker: iter(tasks), [0, 1], 1, 1, Guard({}, 1), told=tmp_path / "told.0.0")
    seen, tell = [], told.Teller.note
    monkeypatch.setattr(told.Teller, "note", lambda *a: (seen.append(a[2:]), tell(*a)))
    now = time.time_ns()
    loop.run(now, now + 20 * S, Closed(now + 20 * S))
    assert len(seen) > 1 and all(a <= b for one, two in pairwise(seen) for a, b in zip(one, two, strict=True))
    for operations, errors, moved in seen:
        assert operations % 3 == errors % 3 == 0 and moved == 100 * operations // 3
    assert seen[-1][0] <= 3 * 48 and seen[-1][1] <= 3 * 12

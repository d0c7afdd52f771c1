"""Limits of a production store: each client holds its share, over spans of at least a second."""

import time
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storelab.engines.common import guard as progress
from storelab.engines.common.guard import Guard, LimitExceeded
from storelab.engines.obstore.client import ClosedLoop, Loop, Outcome, Task
from storelab.engines.obstore.transfers import ObstoreRewrite

S = 10**9
PROPERTY = settings(max_examples=80, deadline=None, database=None, derandomize=True)


def broken(limits, clients, seen):
    """Return (which limit broke, at which look): bytes and requests count from the last look that was judged."""
    last = None
    for i, (now, size, requests, good, bad) in enumerate(seen):
        every = good + bad
        if limits["error_fraction"] is not None and every >= 50 and bad >= 5 and bad / every > limits["error_fraction"]:
            return "error_fraction", i
        if limits["room_bytes"] is not None and size * clients > limits["room_bytes"]:
            return "room", i
        if last is None:
            last = now, size, requests
        elif now - last[0] >= S:
            for name, value in (("throughput", size - last[1]), ("requests_per_s", requests - last[2])):
                if limits[name] and value * S * clients > limits[name] * (now - last[0]):
                    return name, i
            last = now, size, requests
    return None


SPANS = st.sampled_from([S // 3, S - 1, S, 2 * S])
COUNTS = [st.integers(0, most) for most in (300, 30, 60, 6)]  # bytes, requests, good and bad operations
STEPS = st.lists(st.tuples(SPANS, *COUNTS), min_size=1, max_size=8)
LIMITS = {
    "throughput": st.sampled_from([None, 0, 400]),
    "requests_per_s": st.sampled_from([None, 40]),
    "error_fraction": st.sampled_from([None, 0.1]),
    "room_bytes": st.sampled_from([None, 0, 600]),
}


@PROPERTY
@given(STEPS, st.sampled_from([1, 2, 4]), st.fixed_dictionaries(LIMITS))
def test_limits_hold_over_spans_of_a_second(steps, clients, limits):
    seen = [tuple(map(int, row)) for row in np.cumsum(np.array(steps), axis=0)]
    guard = Guard(limits, clients)
    active = limits["error_fraction"] is not None or limits["room_bytes"] is not None
    assert guard.active == (bool(limits["throughput"]) or bool(limits["requests_per_s"]) or active)
    message, at = None, None
    for i, look in enumerate(seen):
        try:
            guard.observe(*look)
        except LimitExceeded as error:
            message, at = str(error), i
            break
    expected = broken(limits, clients, seen)
    assert (message is None) == (expected is None)
    if expected:
        assert at == expected[1]
        assert {"room": "stored_bytes"}.get(expected[0], f"limits.{expected[0]}") in message


def test_broken_limit_names_value_and_share():
    limits = {"throughput": 8_000_000, "requests_per_s": 20}
    for look, values in (((9_000_000, 0), ("4.5 MB/s", "4.0 MB/s")), ((0, 44), ("22 requests/s", "10 requests/s of"))):
        guard = Guard(limits, 2)
        guard.observe(0, 0, 0, 0, 0)
        with pytest.raises(LimitExceeded) as caught:
            guard.observe(2 * S, *look, 0, 0)
        assert all(value in str(caught.value) for value in values), str(caught.value)
    with pytest.raises(LimitExceeded, match=r"4 MB.* 3 MB"):
        Guard({"room_bytes": 6_000_000}, 2).observe(0, 4_000_000, 0, 0, 0)
    with pytest.raises(LimitExceeded, match="6 of 56 operations"):
        Guard({"error_fraction": 0.1}, 1).observe(0, 0, 0, 50, 6)
    assert str(LimitExceeded("limit").because(["first", "second"])) == "limit: first"
    assert str(LimitExceeded("limit").because([])) == "limit"


def test_overwrites_need_no_new_space():
    """1000 bytes are written again and again, with a share of 3000: only objects of unknown outcome need more."""
    limits = {"room_bytes": 6000, "error_fraction": None}
    guard = Guard(limits, 2, kept=(1000, 200))
    for moved in (500, 10**9):
        guard.observe(0, moved, 0, moved // 200, 0)
    guard.observe(S, 10**9, 0, 100, 10)  # 1000 + 10 * 200 = 3000, its share
    with pytest.raises(LimitExceeded):
        guard.observe(S, 10**9, 0, 100, 11)
    Guard(limits, 2, kept=(10**9, 200)).observe(0, 3000, 0, 1, 0)  # never more than was uploaded
    with pytest.raises(LimitExceeded):
        Guard(limits, 2).observe(0, 3001, 0, 1, 0)
    for kept in (None, (1000, 200)):  # a disk that keeps what was overwritten
        guard = Guard({"disk_bytes": 8_000_000}, 2, kept=kept)
        assert guard.active
        guard.observe(0, 4_000_000, 0, 1, 0)
        with pytest.raises(LimitExceeded, match="4 MB of the free disk"):
            guard.observe(0, 4_000_001, 0, 1, 0)


def test_rewriting_client_keeps_a_bounded_set():
    """Its slots have one object each; its processes share them as they share its workers."""
    axes = {"keys_per_worker": 4, "object_size": 100, "workers": 5}
    client = object.__new__(ObstoreRewrite)
    client.job, client.size = SimpleNamespace(point=SimpleNamespace(axes=axes)), 100
    for processes in (1, 2):
        each = [len(range(i, 5, processes)) for i in range(processes)]
        assert sum(client.kept(n)[0] for n in each) == 5 * 4 * 100 and client.kept(1)[1] == 100
    axes.pop("keys_per_worker")
    assert client.kept(5) is None


S, MS = 10**9, 10**6
T0 = 1_760_000_000 * S


def test_client_writes_totals_five_times_a_second(tmp_path):
    teller = progress.ProgressWriter(tmp_path / "progress.3")
    for i in range(1000):  # 10 s
        teller.note(T0 + i * 10 * MS, 10 * i, i, 1000 * i)
        assert progress.read_progress(tmp_path / "progress.3") == (200 * (i // 20), 20 * (i // 20), 20_000 * (i // 20))
    assert (tmp_path / "progress.3").stat().st_size == 40


def test_partial_writes_are_ignored(tmp_path):
    path = tmp_path / "progress.0"
    progress.ProgressWriter(path).note(T0, 5, 1, 700)
    whole = path.read_bytes()
    progress.ProgressWriter(tmp_path / "progress.1").note(T0 + S, 300, 2, 90_000)
    other = (tmp_path / "progress.1").read_bytes()
    for cut in range(1, 40):
        path.write_bytes(other[:cut] + whole[cut:])
        assert progress.read_progress(path) in (None, (5, 1, 700), (300, 2, 90_000))
    path.write_bytes(whole[:-1])
    assert progress.read_progress(path) is None and progress.read_progress(tmp_path / "none") is None
    before = {"progress.0": progress.Done(4, 1, 600)}
    assert progress.gang_progress(tmp_path, before) == {"progress.0": (4, 1, 600), "progress.1": (300, 2, 90_000)}
    assert progress.total_progress([progress.Done(4, 1, 600), progress.Done(300, 2, 90_000)]) == (304, 3, 90_600)
    assert progress.total_progress([]) == (0, 0, 0) and progress.gang_progress(tmp_path / "gone", {}) == {}


def test_unwritable_totals_are_no_error(tmp_path):
    progress.ProgressWriter(None).note(T0, 1, 1, 1)
    progress.ProgressWriter(tmp_path / "no folder" / "progress.0").note(T0, 1, 1, 1)
    progress.ProgressWriter(tmp_path / "progress.0").note(T0, 2**70, 1, 1)
    assert progress.read_progress(tmp_path / "progress.0") is None


def test_guard_writes_totals_before_it_refuses(tmp_path):
    guard = Guard({"error_fraction": 0.1}, 1, progress=progress.ProgressWriter(tmp_path / "progress.0"))
    with pytest.raises(LimitExceeded):
        guard.observe(T0, 900, 100, 40, 60)
    assert progress.read_progress(tmp_path / "progress.0") == (40, 60, 900)


def test_threads_of_obstore_write_their_totals(tmp_path, monkeypatch):
    """Two workers with 30 tasks each; each fifth fails: 48 good ones of 100 bytes and 3 objects, 12 failed."""
    monkeypatch.setattr("storelab.engines.obstore.client.EVERY_NS", 5 * MS)
    monkeypatch.setattr(progress, "EVERY_NS", 0)

    def operation(task, keep):
        time.sleep(0.002)
        if task.key % 5 == 0:
            raise OSError("planted")
        return Outcome(3, 100, 0)

    tasks = [Task(n, 0, "x", count=3) for n in range(30)]
    loop = Loop(
        operation, lambda worker: iter(tasks), [0, 1], 1, 1, Guard({}, 1), progress_file=tmp_path / "progress.0.0"
    )
    seen, tell = [], progress.ProgressWriter.note
    monkeypatch.setattr(progress.ProgressWriter, "note", lambda *a: (seen.append(a[2:]), tell(*a)))
    now = time.time_ns()
    loop.run(now, now + 20 * S, ClosedLoop(now + 20 * S))
    assert len(seen) > 1 and all(a <= b for one, two in pairwise(seen) for a, b in zip(one, two, strict=True))
    for operations, errors, moved in seen:
        assert operations % 3 == errors % 3 == 0 and moved == 100 * operations // 3
    assert seen[-1][0] <= 3 * 48 and seen[-1][1] <= 3 * 12

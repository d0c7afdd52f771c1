"""Readings of ledgers: for each account, during faults while an actor is away, and as text for the terminal."""

import json
from types import SimpleNamespace

import pytest
from ledger_job import job
from made_jobs import gang_job

from storelab.core.errors import MeasurementFailed
from storelab.engines.common import ledger
from storelab.measure import durability
from storelab.stores.protocols.endpoint import Endpoint

S = 10**9


def reading(**found):
    counts = dict.fromkeys(("lost", "corrupted", "stale", "resurrected", "unreadable"), 0)
    return {"when": "end", "states": 100, "read": 100, "examples": []} | counts | found


def test_reading_in_words_has_counts_and_example():
    assert durability.reading_text(reading()).startswith("durability: 100 ")
    down = durability.reading_text(reading(read=20, when="down"))
    assert "20 of 100" in down and "down" in down
    example = {"key": "b/k", "fault": "stale", "acknowledged": "version 3", "read": "version 2"}
    wrong = durability.reading_text(reading(stale=2, lost=1, when="recovered", examples=[example]))
    for text in ("recovery", "1 lost, 2 stale", "b/k", "version 3", "version 2"):
        assert text in wrong


def test_readings_are_taken_for_each_account_and_summed(tmp_path, monkeypatch):
    for rank in range(3):
        ledger.begin(job(tmp_path, clients=3, rank=rank, account=rank % 2), rewritten=False)
    asked = []

    def ask(command, timeout_s, environ, feed):
        asked.append((environ["KEY"], json.loads(feed)))
        found = reading(read=7, lost=1, examples=[{"key": str(i)} for i in range(8)])
        del found["when"]
        return SimpleNamespace(returncode=0, stdout=json.dumps(found), stderr="")

    monkeypatch.setattr(durability.processes, "run_command", ask)
    store = SimpleNamespace(credentials=lambda account: SimpleNamespace(environ=lambda: {"KEY": f"k{account}"}))
    whole = gang_job(endpoints=[Endpoint("http://127.0.0.1:9")])
    taken = durability.Readings(store, tmp_path, whole, 9)
    out = taken.take("down", live=True, most=50, seconds=60, threads=3)
    assert [(key, len(t["ledgers"]), t["most"], t["seconds"], t["live"], t["threads"]) for key, t in asked] == [
        ("k0", 2, 25, 30, True, 3),
        ("k1", 1, 25, 30, True, 3),
    ]
    assert (out["read"], out["lost"], out["states"], len(out["examples"])) == (14, 2, 200, 10)
    none = {"acknowledged": {"put": 0, "overwrite": 0, "delete": 0}, "unacknowledged": 0}
    assert taken.record() == none | {"readings": [out]}
    monkeypatch.setattr(durability, "MAX_BYTES", 40_000)  # ten objects, of both accounts
    taken.take("end")
    assert [t["most"] for _, t in asked[2:]] == [5, 5]
    failed = SimpleNamespace(returncode=1, stdout="", stderr="no module")
    monkeypatch.setattr(durability.processes, "run_command", lambda *_: failed)
    with pytest.raises(MeasurementFailed, match="no module"):
        taken.take("end")
    nothing = durability.Readings(store, tmp_path / "none", whole, 9)
    assert nothing.take("end") is None and nothing.record() is None


def acts(*given):
    return [{"at_ns": at, "act": act, "actors": actors.split()} for at, act, actors in given]


HUNG = [(1, "hang", "a"), (2, "hang", "b"), (3, "resume", "a"), (5, "resume", "b"), (7, "kill", "a")]
CUT = [(1, "cut", "a"), (2, "resume", "a"), (4, "heal", "a"), (6, "remove_drive", "d"), (8, "return_drive", "d")]


def test_spans_in_which_an_actor_is_away():
    for given, spans in (
        ([], []),
        ([(1, "kill", "a")], [(1, 9)]),
        ([(1, "kill", "a"), (4, "restart", "a")], [(1, 4)]),
        (HUNG, [(1, 5), (7, 9)]),
        ([(1, "kill", "a b"), (3, "restart", "a")], [(1, 9)]),
        ([(1, "slow", "a"), (2, "fill", "b"), (3, "command", "")], []),
        ([(1, "hang", "a"), (2, "kill", "a"), (4, "restart", "a")], [(1, 4)]),
        (CUT, [(1, 4), (6, 8)]),
    ):
        assert durability.away(acts(*given), 9) == spans, given


class Taking:
    """Replace readings by a list of when they were taken: (when, live, ns since the start, the other arguments)."""

    def __init__(self, time, fails):
        self.taken, self.fails, self.time = [], fails, time

    def take(self, when, live=False, **more):
        self.taken.append((when, live, self.time.ns - 10**18, more))
        if self.fails:
            raise MeasurementFailed("no reader")


@pytest.fixture
def ran(monkeypatch):
    """Return a function that runs readings during acts, on a clock that does not wait; it returns the readings."""

    def run(given, ended_ns, duration_ns, fails=False):
        time = SimpleNamespace(ns=10**18 - S // 5)
        monkeypatch.setattr(durability.clock, "now_ns", lambda: time.ns)

        def wait(seconds):
            time.ns += round(seconds * S)
            return time.ns > 10**18 + ended_ns

        readings = Taking(time, fails)
        one = durability.DuringFault(readings, acts(*given), duration_ns)
        one.over = SimpleNamespace(wait=wait, set=lambda: None)
        one.start(10**18)
        one.finish()
        return readings.taken

    return run


def test_readings_come_when_something_is_away(ran):
    given = [(S // 10, "kill", "a"), (S, "restart", "a"), (8 * S // 5, "hang", "b")]
    first, second, whole = ran(given, 24 * S // 10, 3 * S)
    assert [t[:2] for t in (first, second, whole)] == [("down", True), ("down", True), ("down", False)]
    assert (first[2], second[2]) == (6 * S // 10, 21 * S // 10)
    assert (first[3]["seconds"], second[3]["seconds"]) == (pytest.approx(0.4), pytest.approx(0.9))
    assert whole[3] == {"seconds": durability.WHOLE_S}
    assert ran(given, 2 * S, 3 * S) == [first, ("down", False, 21 * S // 10, whole[3])], "the clients ended before"


def test_no_reading_without_failures_or_time(ran):
    for given in ([(1, "slow", "a")], [(0, "kill", "a"), (S // 2, "restart", "a")]):
        assert ran(given, 6 * S // 10, 2 * S) == []


def test_failed_reading_fails_the_run(ran):
    with pytest.raises(MeasurementFailed, match="no reader"):
        ran([(0, "kill", "a")], S, 3 * S, fails=True)

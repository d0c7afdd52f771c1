"""The acts of a fault during a run: upgrades one by one, and the entries of the record."""

import threading
import time
from types import SimpleNamespace

import pytest
from fake_clock import FakeClock
from fault_stores import acts as given_acts
from fault_stores import store as store_of
from made_jobs import POINT
from managed import until

from storelab.core import clock, records
from storelab.core.campaign.faults import resolved
from storelab.core.errors import MeasurementFailed
from storelab.core.records import Budget, RunRecord
from storelab.engines.contract import Check
from storelab.host import monitor
from storelab.measure import faults
from storelab.measure.faults import Runner
from storelab.stores import faults as acts
from storelab.stores.base import Condition
from storelab.stores.managed.daemon import Daemon

S = 10**9
UP = {"at": "10 ms", "act": "upgrade", "actor": ["front.0", "front.1"], "to": "2"}


# Upgrades


class Daemons:
    """Records of daemons that 'run' as they were started last; `healthy` is called until a daemon is healthy."""

    def __init__(self):
        self.started, self.healthy = [], lambda: None
        self.argv = {name: ("prog-1", name) for name in ("s3-1", "s3-2", "data-1")}
        self.lock = threading.RLock

    def records(self):
        return {name: {"argv": list(argv)} for name, argv in self.argv.items()}

    def family_of(self, name):
        return [SimpleNamespace(pid=7)]

    def stop(self, names):
        pass

    sweep = check_ports = stop

    def start(self, daemon):
        self.started.append(daemon.argv)
        self.argv[daemon.name] = daemon.argv
        return 100 + len(self.started)

    def wait_healthy(self, daemon, timeout):
        self.healthy()
        if daemon.argv[0] == "prog-bad":
            raise MeasurementFailed(f"{daemon.name} ended during its start")


class Versioned:
    """A store whose daemons may run other versions of its program."""

    name, place, start_timeout, settings = "v", "stores.v", 1.0, SimpleNamespace(kind="v")

    def __init__(self, state):
        self.state, self.versions, self.daemons = state, {}, Daemons()

    def daemon(self, name):
        return Daemon(name, (f"prog-{self.versions.get(name, '1')}", name), "127.0.0.1", (), lambda: True)

    def version(self):
        return "1.0"

    def reported_version(self, version):
        return f"{version}.0"

    def version_of(self, actor):
        return self.reported_version(self.versions.get(actor, "1"))

    def daemon_actors(self):
        return list(self.daemons.argv)

    def known_actors(self, front_ends):
        return self.daemon_actors()

    def front_actors(self, front_ends):
        return ["s3-1", "s3-2"][:front_ends]

    def data_actors(self):
        return ["data-1"]

    def actors(self):
        return dict.fromkeys(self.daemons.argv, 101)

    def tolerated_failures(self):
        return 0

    def condition(self):
        return Condition("clean", "")


def run(store, *given, expected=1, during=lambda it: None, moved=None):
    """Run these acts until `expected` of them are done; `during` is called with the runner meanwhile."""
    moved = [] if moved is None else moved
    planned = resolved(given_acts(*given), 60 * S, 1.0, "faults.f")
    with Runner(store, "f", planned, 2, moved=lambda name, pid: moved.append(name)) as it:
        it.start(clock.now_ns())
        during(it)
        until(lambda: len(done(it)) >= expected)
        it.settle(1)
    return it


def done(it):
    return [e for e in it.events if e["kind"] == "act"]


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "AHEAD_NS", 0)
    return Versioned(tmp_path)


def test_daemons_are_upgraded_one_by_one_and_back(store):
    moved = []
    store.daemons.healthy = lambda: time.sleep(0.01)
    it = run(store, UP, expected=2, moved=moved)
    found = [(e["kind"], e["act"], e["actor"], e["detail"], e["error"]) for e in it.events if e["kind"] != "state"]
    assert found == [
        ("act", "upgrade", "s3-1", "pid 101, 2.0 after 1.0", None),
        ("act", "upgrade", "s3-2", "pid 102, 2.0 after 1.0", None),
        ("undone", "upgrade", "s3-2", "pid 103", None),
        ("undone", "upgrade", "s3-1", "pid 104", None),
    ]
    first, second = done(it)
    assert second["time_ns"] >= first["done_ns"] >= first["time_ns"] + S // 100, "the first is healthy then"
    assert store.daemons.started == [("prog-2", "s3-1"), ("prog-2", "s3-2"), ("prog-1", "s3-2"), ("prog-1", "s3-1")]
    assert moved == ["s3-1", "s3-2", "s3-2", "s3-1"], "the monitor follows them"
    assert it.as_dict()["versions"] == ["1.0", "2.0"] and not it.failed() and not acts.journal_of(store).harms()


def test_acts_after_a_slow_upgrade_are_on_time(store):
    gate = threading.Event()
    store.daemons.healthy = lambda: gate.wait(20)

    def during(it):
        until(lambda: any(e["act"] == "command" for e in done(it)))
        gate.set()

    it = run(store, UP, {"at": "20 ms", "act": "command", "command": "true"}, expected=3, during=during)
    times = {e["actor"]: e for e in done(it)}
    assert times[""]["time_ns"] < times["s3-1"]["done_ns"]


def test_upgrade_after_the_run_is_an_error(store):
    """The run ends while the first daemon becomes healthy: the second never changes, and is not changed back."""
    runs = []
    store.daemons.healthy = lambda: until(lambda: runs and runs[0]._over.is_set())

    def during(it):
        runs.append(it)
        until(lambda: store.daemons.started)

    it = run(store, UP, expected=0, during=during)
    assert it.failed() == ["upgrade of s3-2: the run ended before this actor was upgraded"]
    assert store.daemons.argv["s3-2"] == ("prog-1", "s3-2") and store.daemons.argv["s3-1"] == ("prog-1", "s3-1")
    assert [a[1] for a in store.daemons.started] == ["s3-1", "s3-1"]


def test_version_that_does_not_start_is_taken_back(store):
    it = run(store, UP | {"to": "bad", "actor": "data.0"})
    assert it.failed() == ["upgrade of data-1: data-1 ended during its start"]
    assert store.daemons.argv["data-1"] == ("prog-1", "data-1") and not store.versions


def test_killed_daemon_restarts_as_upgraded(store, monkeypatch):
    upgraded = threading.Event()
    store.daemons.healthy = upgraded.set
    monkeypatch.setattr(acts, "kill", lambda whole: upgraded.wait(20) and "pid 7")
    kill = {"at": "20 ms", "act": "kill", "actor": "front.0"}
    restart = kill | {"at": "30 ms", "act": "restart"}
    run(store, UP | {"actor": "front.0"}, kill, restart, expected=3)
    assert [a[0] for a in store.daemons.started] == ["prog-2", "prog-2", "prog-1"]


def test_versions_are_read_before_the_run(tmp_path, monkeypatch):
    """A program of 150 MB takes a second to print its version on a busy machine: the act would come late."""
    sw, asked = store_of("sw", tmp_path), []
    monkeypatch.setattr(sw, "program_of", lambda version: version)
    monkeypatch.setattr(sw, "ask_version", lambda program: asked.append(program) or f"{program}.0")
    monkeypatch.setattr(type(sw), "version", lambda self: "1.0")
    with Runner(sw, "f", resolved(given_acts(UP), 60 * S, 1.0, "faults.f"), 2) as it:
        assert asked == ["2"] and sw.version_of("s3-1") == "1.0"
        assert it.as_dict()["versions"] == ["1.0", "2.0"]
        sw.versions["s3-1"] = "2"
        assert sw.version_of("s3-1") == "2.0" and asked == ["2"], "once"


# The state of the store


def test_state_counts_from_when_it_was_known(tmp_path, monkeypatch):
    """A late answer of a hung store is not evidence for the time before."""
    now = FakeClock(monkeypatch)
    now.ns = 10 * S
    answers = iter([("clean", 0), ("clean", 0), ("down", 0), ("clean", 3)])

    def condition():
        state, seconds = next(answers)
        now.ns += seconds * S
        return Condition(state)

    fake = SimpleNamespace(state=tmp_path, name="s", condition=condition, known_actors=lambda n: [])
    watched = Runner(fake, "f", [])
    watched._t0_ns = 10 * S + 5
    for _ in range(4):
        watched._ask()
        now.ns += S
    found = [(e["state"], e["time_ns"]) for e in watched.events]
    assert found == [("clean", 10 * S + 5), ("down", 12 * S), ("clean", 16 * S)]


def test_cpu_time_of_a_restarted_daemon_never_falls():
    old = monitor.Tree(1)
    old.now = {1: SimpleNamespace(user=5.0, system=2.0), 2: SimpleNamespace(user=1.0, system=0.5)}
    old.ended = [10.0, 1.0]
    assert monitor.Tree(3, old).ended == [16.0, 3.5] and monitor.Tree(3).ended == [0.0, 0.0]


# The record


def test_record_judges_errors_before_the_fault(tmp_path):
    """100 operations ended before the act, and 3 of them failed; all 50 after it failed."""
    ends = [*range(100), *range(1000, 1050)]
    errors = ["E" if t < 3 or t >= 1000 else None for t in ends]
    columns = {"client": [0] * 150, "end_ns": ends, "error": errors, "count": [1] * 150}
    records.write_table(tmp_path / "ops.0.parquet", records.OPS, columns)
    fault = SimpleNamespace(first_ns=lambda: 1000, events=["e"], as_dict=lambda: {"name": "f"})
    for most, valid in ((0.03, True), (0.029, False)):
        run = RunRecord(point=POINT, valid=False, budget=Budget(53, 97, 0.35, most, reason="35 % failed"))
        faults.add_to(run, fault, tmp_path)
        assert run.valid is valid and run.events == ["e"] and run.fault == {"name": "f"}
        assert run.budget.before_errors == 3 and run.budget.before_operations == 100
        assert (run.budget.reason or "").startswith("" if valid else "3 %")
    plain = RunRecord(point=POINT)
    faults.add_to(plain, None, tmp_path)
    assert plain == RunRecord(point=POINT)


def test_fault_without_effect_fails_the_point():
    fault = SimpleNamespace(name="f", failed=lambda: ["kill of osd-1: osd-1 does not run"])
    assert faults.checks_of(fault) == [Check("fault f", False, "kill of osd-1: osd-1 does not run")]
    assert faults.checks_of(None) == []

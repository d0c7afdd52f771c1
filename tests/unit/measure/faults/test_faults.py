"""Faults as they are configured, named, ordered and refused: no store runs here."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from storelab.core import clock
from storelab.core import config as configuration
from storelab.core.axes.faults import ACTS, HARMS, LOSSES, OF_A_USER, UNDOES
from storelab.core.campaign.faults import Act, most_lost, resolved
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.host import monitor
from storelab.measure.durability import beside
from storelab.measure.faults import check, hook, people, runner
from storelab.stores import changed, make
from storelab.stores.base import Condition
from storelab.stores.faults import drives, links
from storelab.stores.faults.acts import resolve
from storelab.stores.faults.journal import Journal
from storelab.stores.seaweedfs.store import volumes_of

S = 10**9
STORES = {
    "sw": {"kind": "seaweedfs", "servers": 3, "redundancy": "replica-2"},
    "ceph": {"kind": "ceph", "redundancy": "ec-2-1"},
    "minio": {"kind": "minio", "servers": 12, "redundancy": "ec-9-3"},
    "hdfs": {"kind": "hdfs"},
    "far": {"kind": "s3", "endpoint": "http://far.example.org"},
}


def acts(*given):
    return [Act.model_validate(a) for a in given]


def plain(*given, duration=60 * S, scale=1.0):
    return resolved(acts(*given), duration, scale, "faults.f")


def store(name, tmp_path):
    from storelab.core.stores import load

    settings = STORES[name]
    return make(name, load(settings["kind"]).Settings.model_validate(settings), tmp_path)


def test_every_act_is_a_harm_a_repair_an_upgrade_or_a_users():
    assert sorted(ACTS) == sorted([*HARMS, *UNDOES, "upgrade", *OF_A_USER]) and len(set(ACTS)) == 14
    assert {h for harms in UNDOES.values() for h in harms} == set(HARMS), "each harm has an act that takes it back"
    assert set(LOSSES) < set(HARMS)


def test_times_scale_and_shares_follow_the_run():
    given = (
        {"at": "30 %", "act": "restart", "actor": "data.0"},
        {"at": "10 s", "act": "kill", "actor": ["data.0", "data.1"]},
    )
    assert plain(*given) == [
        {"at_ns": 10 * S, "act": "kill", "actors": ["data.0", "data.1"]},
        {"at_ns": 18 * S, "act": "restart", "actors": ["data.0"]},
    ]
    # scaled by 1/10: the sweep's duration comes scaled already
    assert [a["at_ns"] for a in plain(*given, duration=6 * S, scale=0.1)] == [1 * S, 1_800_000_000]
    with pytest.raises(UserError, match=r"faults\.f\.1\.at: kill at 10 s is not within the run of 10 s; make it"):
        plain(*given, duration=10 * S)


def test_acts_carry_what_belongs_to_them():
    slow = {"at": "1 s", "act": "slow", "actor": "front.0", "delay": "50 ms", "loss": "1 %", "rate": "1 MB/s"}
    assert plain(slow)[0] | {} == {
        **{"at_ns": S, "act": "slow", "actors": ["front.0"]},
        **{"delay_ns": 50_000_000, "loss_percent": 1.0, "rate_bytes_per_s": 10**6},
    }
    assert plain({"at": "1 s", "act": "remove_drive", "actor": "data.0"})[0]["how"] == "gone"
    said = plain({"at": "1 s", "act": "command", "command": "ssh a stop", "undo": "ssh a start"})[0]
    assert said == {"at_ns": S, "act": "command", "actors": [], "command": "ssh a stop", "undo": "ssh a start"}
    json.dumps(said)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"at": "10", "act": "kill", "actor": "a"}, "'10' is not a duration with its unit"),
        ({"at": "100 %", "act": "kill", "actor": "a"}, "'100 %' is not within the run; give less than 100 %"),
        ({"at": "1 s", "act": "kill"}, "'actor' is missing; give one like data.0"),
        ({"at": "1 s", "act": "kill", "actor": []}, "'actor' is missing"),
        ({"at": "1 s", "act": "kill", "actor": ["a", "a"]}, "'a' is there twice; name it once"),
        ({"at": "1 s", "act": "kill", "actor": "a", "delay": "1 s"}, "'delay' does not belong to 'kill'"),
        ({"at": "1 s", "act": "slow", "actor": "a"}, "says not how slow; give `delay`, `loss` or `rate`"),
        ({"at": "1 s", "act": "slow", "actor": "a", "loss": "0 %"}, "'0 %' is no share"),
        ({"at": "1 s", "act": "command"}, "'command' is missing; say what to run"),
        ({"at": "1 s", "act": "upgrade", "actor": "a"}, "'to' is missing; give the version, like '4.48'"),
        ({"at": "1 s", "act": "kill", "actor": "a", "to": "4.48"}, "'to' does not belong to 'kill'"),
        ({"at": "1 s", "act": "prompt", "command": "x"}, "'command' does not belong to 'prompt'"),
        ({"at": "1 s", "act": "explode", "actor": "a"}, "Input should be 'kill', 'hang'"),
        ({"act": "kill", "actor": "a"}, "Field required"),
    ],
)
def test_mistakes_in_an_act(given, told):
    with pytest.raises(ValidationError) as error:
        acts(given)
    assert told in str(error.value)


def campaign(tmp_path, faults, **more):
    """A configuration with these faults, loaded from files as people write them."""
    body = {"name": "c", "use_stores": ["sw"], "sweeps": {"s": {"workload": "get"}}, "faults": faults, **more}
    (tmp_path / "campaigns").mkdir(exist_ok=True)
    (tmp_path / "campaigns" / "c.yaml").write_text(json.dumps(body))
    (tmp_path / "config.yaml").write_text(json.dumps({"campaign": "c", "stores": STORES}))
    return configuration.load(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        ({"none": [{"at": "1 s", "act": "kill", "actor": "a"}]}, "'none' stands for no fault at all"),
        ({"f": []}, "faults.f: is empty; give at least one"),
        (
            {"f": [{"at": "1 s", "act": "kill", "actr": "a"}]},
            "faults.f.0.actr: unknown key 'actr'; did you mean 'actor'?",
        ),
        ({"f": [{"at": "1 s", "act": "kill"}]}, "faults.f.0: 'actor' is missing; give one like data.0, or a list"),
        ({"f": [{"at": 10, "act": "kill", "actor": "a"}]}, "write it like 10 s, 500 ms or 30 %"),
    ],
)
def test_mistakes_are_one_line_with_their_place(tmp_path, faults, told):
    with pytest.raises(UserError) as error:
        campaign(tmp_path, faults)
    line = str(error.value)
    assert told in line and "\n" not in line and "c.yaml" in line


def test_a_campaign_without_faults_is_as_it_was(tmp_path):
    assert campaign(tmp_path, {}).faults == {}


@pytest.mark.parametrize(
    ("given", "away"),
    [
        ([("kill", ["a"]), ("restart", ["a"]), ("kill", ["b"])], {"a"}),
        ([("kill", ["a"]), ("hang", ["b"]), ("restart", ["a"])], {"a", "b"}),
        ([("kill", ["a", "b"]), ("restart", ["a", "b"]), ("cut", ["c"])], {"a", "b"}),
        ([("hang", ["a"]), ("kill", ["a"]), ("resume", ["a"]), ("hang", ["b"])], {"a", "b"}),
        ([("slow", ["a"]), ("fill", ["b"])], set()),
        ([("remove_drive", ["a"]), ("return_drive", ["a"]), ("remove_drive", ["b"])], {"a"}),
    ],
)
def test_how_many_are_away_at_once(given, away):
    assert most_lost([{"act": act, "actors": who} for act, who in given]) == away


@pytest.mark.parametrize(
    ("name", "actor", "daemon"),
    [
        ("sw", "data.0", "volume-1"),
        ("sw", "data.2", "volume-3"),
        ("sw", "front.1", "s3-2"),
        ("sw", "master", "master"),
        ("ceph", "data.0", "osd-0"),
        ("ceph", "osd.2", "osd-2"),
        ("ceph", "front.0", "s3-1"),
        ("minio", "data.11", "drive-12"),
        ("minio", "front.0", "minio-1"),
        ("hdfs", "data.1", "datanode-2"),
        ("hdfs", "namenode.1", "namenode-1"),
    ],
)
def test_actors_have_names_of_every_kind(tmp_path, name, actor, daemon):
    assert resolve(store(name, tmp_path), actor, 2, "p") == daemon


@pytest.mark.parametrize(
    ("name", "actor", "told"),
    [
        ("sw", "data.3", "p: store sw has no data.3; it has data.0 to data.2"),
        ("sw", "front.2", "store sw has no front.2; it has front.0 to front.1"),
        ("sw", "volume-4", "store sw has no actor 'volume-4'; did you mean 'volume-"),
        ("far", "data.0", "store far has no data.0; it has no data.…"),
        (
            "far",
            "osd.0",
            "storelab runs no daemon of store far (kind s3); write the act as a `command`, or as a `prompt`",
        ),
    ],
)
def test_actors_that_are_not_there(tmp_path, name, actor, told):
    with pytest.raises(UserError) as error:
        resolve(store(name, tmp_path), actor, 2, "p")
    assert told in str(error.value)


@pytest.mark.parametrize(("name", "bears"), [("sw", 1), ("ceph", 1), ("minio", 3), ("hdfs", 1), ("far", 0)])
def test_what_the_redundancy_bears(tmp_path, name, bears):
    assert store(name, tmp_path).bears() == bears


def possible(tmp_path, name, *given, fault="f"):
    config = SimpleNamespace(faults={"f": acts(*given)}, scale=1.0)
    point = Point(name, "w", {"fault": fault}, 1, "k", "s", 0, 0, {"duration_ns": 60 * S})
    return check.possible(config, point, store(name, tmp_path))


KILL = {"at": "1 s", "act": "kill", "actor": "data.0"}


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("minio", [KILL], "faults.f: kill is done to a daemon, and drive-1 is a drive; daemons: minio-1"),
        ("ceph", [KILL | {"act": "remove_drive"}], "osd-0 of store ceph (kind ceph) has no drive that can be taken"),
        ("minio", [KILL | {"act": "remove_drive", "actor": "front.0"}], "minio-1 of store minio (kind minio) has no"),
        ("sw", [KILL | {"act": "resume"}], "resume of volume-1 comes without a hang before it; add the hang"),
        ("sw", [KILL, KILL | {"at": "2 s"}], "kill is done twice to volume-1"),
        ("sw", [KILL, KILL | {"at": "2 s", "act": "return_drive"}], "comes without a remove_drive before it"),
        ("sw", [KILL | {"act": "fill"}], "lies on a disk that others use, and filling it would harm them"),
        ("ceph", [KILL | {"act": "fill", "actor": "mon"}], "mon has no disk of its own that could be filled"),
    ],
)
def test_acts_that_cannot_be(tmp_path, name, given, told):
    with pytest.raises(UserError) as error:
        possible(tmp_path, name, *given)
    assert told in str(error.value)


def test_links_need_root_and_an_address_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="slowing or cutting a link needs root; run as root"):
        possible(tmp_path, "sw", KILL | {"act": "cut"})
    with pytest.raises(UserError, match="a read-only drive is a mount, which needs root"):
        possible(tmp_path, "minio", KILL | {"act": "remove_drive", "how": "read-only"})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(UserError, match=r"volume-1 listens on 127\.0\.0\.1, which all programs here share"):
        possible(tmp_path, "sw", KILL | {"act": "cut"})


def test_acts_that_can_be(tmp_path):
    back = {"at": "2 s", "act": "restart", "actor": "data.0"}
    assert possible(tmp_path, "sw", KILL, back, KILL | {"at": "3 s", "act": "hang"}) == ""
    assert possible(tmp_path, "sw", KILL, back, KILL | {"at": "3 s"}) == "", "killed, started, and killed again"
    assert possible(tmp_path, "sw", back) == "", "a daemon may be started anew without having been killed"
    assert possible(tmp_path, "ceph", KILL | {"act": "fill"}) == ""
    assert possible(tmp_path, "far", {"at": "1 s", "act": "command", "command": "true", "actor": "door 7"}) == ""
    assert possible(tmp_path, "far", fault="none") == ""


def test_more_than_the_redundancy_bears_is_allowed_and_told(tmp_path):
    both = KILL | {"actor": ["data.0", "data.1"]}
    line = "fault f takes volume-1, volume-2 of sw at once, and its redundancy bears 1: data may be lost"
    assert possible(tmp_path, "sw", both) == line
    three = {"at": "1 s", "act": "remove_drive", "actor": ["data.0", "data.1", "data.2"]}
    assert possible(tmp_path, "minio", three) == ""
    four = three | {"actor": [f"data.{i}" for i in range(4)]}
    assert "its redundancy bears 3" in possible(tmp_path, "minio", four)
    assert possible(tmp_path, "sw", KILL | {"actor": ["front.0", "filer"]}) == "", "only data servers hold data"


def test_a_plan_is_told_of_each_once(tmp_path):
    both = KILL | {"actor": ["data.0", "data.1"]}
    config, told, asked = SimpleNamespace(faults={"f": acts(both)}, scale=1.0), [], []
    points = [
        Point("sw", "w", {"fault": fault}, rep, "k", "s", 0, 0, {"duration_ns": 60 * S})
        for fault in ("none", "f")
        for rep in (1, 2)
    ]
    check.everything(config, points, lambda p: asked.append(p) or store("sw", tmp_path), told.append)
    assert len(told) == 1 and {p.axes["fault"] for p in asked} == {"f"}
    with pytest.raises(UserError, match=r"no fault 'g' in `faults`; one of: f, none"):
        check.acts_of(config, Point("sw", "w", {"fault": "g"}, 1, "k", "s", 0, 0, {"duration_ns": S}))


def test_the_plan_s_own_acts_come_first():
    point = Point("sw", "w", {"fault": "f"}, 1, "k", "s", 0, 0, {"duration_ns": S, "acts": ["as planned"]})
    assert check.acts_of(SimpleNamespace(faults={}), point) == ["as planned"]


def test_the_journal_goes_with_its_last_harm(tmp_path):
    journal = Journal(tmp_path / "s")
    one, two = {"act": "kill", "actor": "a"}, {"act": "hang", "actor": "a"}
    journal.add(one)
    journal.add(two)
    assert Journal(tmp_path / "s").harms() == [one, two], "as the next process reads it"
    journal.remove(one)
    assert journal.harms() == [two]
    journal.remove(two)
    assert not journal.file.exists() and journal.harms() == []


HOLD = """
import sys, time
from pathlib import Path
from storelab.stores.faults.journal import Journal
with Journal(Path(sys.argv[1])).taken("p"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_faults_of_one_that_lives_stay_and_those_of_a_killed_one_go(tmp_path):
    """kill -9 of whoever does faults is all that it takes to have them mended."""
    sw = store("minio", tmp_path)
    drive = sw.drives()[0]
    drive.mkdir(parents=True)
    (drive / "f").write_text("x")
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(sw.folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "held\n"
        Journal(sw.folder).add({"act": "remove_drive", "actor": "drive-1", "drive": str(drive), "how": "gone"})
        drives.remove(drive, "gone")
        assert sw.mend() == [] and not drive.exists()
        with (
            pytest.raises(UserError, match="another storelab process does faults on it"),
            Journal(sw.folder).taken("p"),
        ):
            pass
    finally:
        child.kill()
        child.wait()
    assert sw.mend() == ["minio: remove_drive of drive-1 was left behind; taken back"]
    assert (drive / "f").read_text() == "x" and sw.mend() == []


def test_a_drive_that_is_gone_is_not_made_anew(tmp_path):
    """A store that writes makes the folders that it misses (MinIO): then the drive would be there, and empty."""
    drive = tmp_path / "drive-1"
    drive.mkdir()
    (drive / "old").touch()
    inode = drive.stat().st_ino
    drives.remove(drive, "gone")
    assert not drive.exists()
    with pytest.raises(OSError):
        (drive / "tmp").mkdir(parents=True)
    with pytest.raises(FileNotFoundError):
        (drive / "old").read_bytes()
    with pytest.raises(OSError):
        drive.mkdir(exist_ok=True, parents=True)
    drives.give_back(drive, "gone")
    drives.give_back(drive, "gone")  # idempotent
    assert [p.name for p in drive.iterdir()] == ["old"] and drive.stat().st_ino == inode
    assert [p.name for p in tmp_path.iterdir()] == ["drive-1"]
    drives.away(drive).symlink_to("nowhere")  # killed before the step itself
    drives.give_back(drive, "gone")
    assert [p.name for p in tmp_path.iterdir()] == ["drive-1"] and (drive / "old").exists()


def test_what_a_fault_changes_in_the_record(tmp_path):
    """100 operations ended before the act, 3 of them failed; all 50 behind it failed."""
    from storelab.core import records

    ends = [*range(100), *range(1000, 1050)]
    errors = ["E" if t < 3 or t >= 1000 else None for t in ends]
    columns = {"client": [0] * 150, "end_ns": ends, "error": errors, "count": [1] * 150}
    records.write_table(tmp_path / "ops.0.parquet", records.OPS, columns)
    done = SimpleNamespace(first_ns=lambda: 1000, events=["e"], told=lambda: {"name": "f"})
    for most, valid in ((0.03, True), (0.029, False)):
        run = {"budget": {"failure_budget": most, "reason": "35 % failed", "errors": 53}, "valid": False, "events": []}
        run = hook.record(run, done, tmp_path)
        assert run["valid"] is valid and run["events"] == ["e"] and run["fault"] == {"name": "f"}
        assert run["budget"]["before_errors"] == 3 and run["budget"]["before_operations"] == 100
    assert run["budget"]["reason"].startswith("3 % of the operations failed before the first act")
    assert hook.record({"a": 1}, None, tmp_path) == {"a": 1}


def test_a_fault_that_did_not_happen_fails_the_point():
    done = SimpleNamespace(name="f", failed=lambda: ["kill of osd-1: osd-1 does not run"])
    assert hook.checks(done) == [{"name": "fault f", "ok": False, "detail": "kill of osd-1: osd-1 does not run"}]
    assert hook.checks(None) == []


def test_nobody_is_asked_where_nobody_sits(monkeypatch, tmp_path):
    import threading

    monkeypatch.setattr(people, "TERMINAL", str(tmp_path / "tty"))
    with pytest.raises(Exception, match="nobody can be asked: storelab has no terminal here"):
        people.ask("pull the plug", threading.Event())


ASKED = """
import fcntl, sys, termios, threading, time
from storelab.measure.faults import people
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
over, begun = threading.Event(), time.monotonic()
print("ready", flush=True)
sys.stdin.readline()
time.sleep(0.1)
ends = threading.Timer(float(sys.argv[1]), over.set)
ends.daemon = True
ends.start()
try:
    print("told:", people.ask("pull the plug", over))
except people.MeasurementFailed as failed:
    print("failed:", failed)
"""


@pytest.mark.parametrize(
    ("answers", "over_s", "told"),
    [
        (True, "30", "told: done, said the person at the terminal"),
        (False, "0.3", "failed: the person at the terminal did not answer before the run ended"),
    ],
)
def test_a_person_at_a_terminal_is_asked(answers, over_s, told):
    """What was typed before the question is no answer to it."""
    ours, theirs = pty.openpty()
    person = subprocess.Popen(
        [sys.executable, "-c", ASKED, over_s], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        until(ours, b"ready")
        os.write(ours, b"go\n\n\n")
        until(ours, b">>> NOW: pull the plug; then press Enter")
        if answers:
            os.write(ours, b"\n")
        assert told in until(ours).decode()
        assert person.wait(10) == 0
    finally:
        person.kill()
        person.wait()
        os.close(ours)


def until(terminal, word=None):
    """What a terminal shows until this word is there, or the program has ended; at most 20 s."""
    shown, end = b"", time.monotonic() + 20
    while word is None or word not in shown:
        assert select.select([terminal], [], [], max(0, end - time.monotonic()))[0], shown
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # nobody is at the other end
            break
    return shown


def test_a_state_stands_where_it_was_known(tmp_path):
    """A question that a hung store answers when it goes on says nothing of the time before."""
    words = iter([("clean", 0.0), ("clean", 0.0), ("down", 0.0), ("clean", 0.3)])

    def condition():
        state, seconds = next(words)
        time.sleep(seconds)
        return Condition(state)

    fake = SimpleNamespace(state=tmp_path, name="s", condition=condition, known_actors=lambda n: [])
    watched = runner.Runner(fake, "f", [])
    watched._t0_ns = start = clock.now_ns() + S // 100
    for _ in range(3):
        watched._ask()
        time.sleep(0.02)
    asked = clock.now_ns()
    watched._ask()
    assert [e["state"] for e in watched.events] == ["clean", "down", "clean"]
    first, _, last = (e["time_ns"] for e in watched.events)
    assert first == start and last >= asked + 3 * S // 10


def test_volumes_as_the_master_tells_them():
    assert volumes_of("1-3 7 9-10") == [1, 2, 3, 7, 9, 10] and volumes_of("") == [] and volumes_of("1-3 ...") == []


def test_how_tc_is_told():
    assert links._discipline({"rate_bytes_per_s": 10**6})[:3] == ["tbf", "rate", "8000000bit"]
    both = links._discipline({"delay_ns": 50_000_000, "loss_percent": 1.0, "rate_bytes_per_s": 125})
    assert both == ["netem", "delay", "50000us", "loss", "1%", "rate", "1000bit"]


def test_cpu_time_of_a_daemon_that_was_started_again_never_falls():
    files = SimpleNamespace()
    old = monitor.Tree(1)
    old.now = {1: SimpleNamespace(user=5.0, system=2.0), 2: SimpleNamespace(user=1.0, system=0.5)}
    old.ended = [10.0, 1.0]
    assert monitor.Tree(3, old).ended == [16.0, 3.5] and monitor.Tree(3).ended == [0.0, 0.0]
    assert files


def test_deployments_name_their_time_outs(tmp_path):
    assert store("ceph", tmp_path).timeouts()["osd heartbeat grace"] == 4
    assert store("hdfs", tmp_path).timeouts()["dfs.namenode.stale.datanode.interval"] == 3000
    from storelab.stores.ceph import conf

    for key, value in conf.TIMEOUTS.items():
        assert f"{key} = {value}\n" in conf.CONF, "what the record says is what Ceph is told"


def test_the_new_deployment_of_twelve_drives(tmp_path):
    settings = STORES["minio"] | {"servers": 4, "redundancy": "ec-2-2"}
    from storelab.core.stores import load

    four = make("minio", load("minio").Settings.model_validate(settings), tmp_path)
    name, twelve = changed(four, {"servers": 12, "redundancy": "ec-9-3"})
    assert name == "minio+redundancy-ec-9-3+servers-12"
    made = make(name, twelve, tmp_path)
    assert made._parity() == 3 and len(made.drives()) == 12
    assert Config.model_fields["faults"].default_factory is dict


def test_the_words_of_a_name_node(tmp_path, monkeypatch):
    """A block that is being written is pending for a moment; after a loss, pending copies are the recovery."""
    hdfs = store("hdfs", tmp_path)

    def say(live=3, stale=0, dead=0, low=0, pending=0):
        told = {"NumLiveDataNodes": live, "NumStaleDataNodes": stale, "NumDeadDataNodes": dead}
        told |= {"LowRedundancyBlocks": low, "PendingReconstructionBlocks": pending}
        monkeypatch.setattr(hdfs, "_bean", lambda *_: told)
        return hdfs.condition().state

    assert say() == "clean" and say(pending=2) == "clean"
    assert say(stale=1) == "degraded" and say(live=2, dead=1, low=9) == "degraded"
    assert say(live=2, dead=1, low=7, pending=2) == "recovering" and say(live=2, dead=1, pending=1) == "recovering"
    assert say(live=2, dead=1) == "clean", "all copies are there again, on the DataNodes that are left"
    assert say(pending=3) == "clean" and say(live=0, dead=3) == "down"
    monkeypatch.setattr(hdfs, "_bean", lambda *_: {})
    assert hdfs.condition().state == "down"


@pytest.mark.parametrize(
    ("act", "undo", "lost"),
    [
        ("kill", "restart", True),
        ("hang", "resume", True),
        ("remove_drive", "return_drive", True),
        ("cut", "heal", True),
        ("slow", "heal", False),
        ("fill", "empty", False),
    ],
)
def test_which_acts_take_a_data_server(act, undo, lost):
    """It is one less for the redundancy, and while it is away acknowledged writes are read back."""
    acts = [{"at_ns": at * S, "act": what, "actors": ["data.0"]} for at, what in ((2, act), (5, undo))]
    assert most_lost(acts) == ({"data.0"} if lost else set())
    assert beside.away(acts, 9 * S) == ([(2 * S, 5 * S)] if lost else [])

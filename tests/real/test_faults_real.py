"""Faults on a running SeaweedFS: acts happen in time, the store's reports are recorded, and nothing remains."""

import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import managed
import pytest
from laboratory import bucket_for
from managed import stopped
from store_clients import for_store

from storelab.core import clock
from storelab.core.errors import MeasurementFailed, UserError
from storelab.measure import point
from storelab.measure.faults import Runner

pytestmark = [pytest.mark.real, pytest.mark.heavy]
S = 10**9
REDUNDANT = {"servers": 3, "redundancy": "replica-2", "max_volumes": 50}
SETTINGS = REDUNDANT | {"kind": "seaweedfs"}


store = managed.kept_up("sw", "seaweedfs", 2, **REDUNDANT)  # three volume servers with two copies


def run(store, seconds, *given):
    with Runner(store, "f", managed.acts(*given), 2) as runner:
        t0_ns = clock.now_ns() + S // 5
        runner.start(t0_ns)
        clock.sleep_until(t0_ns + int(seconds * S))
        during = (stopped(store), set(store.actors()))
        runner.settle(30)
    return runner, t0_ns, during


def test_killed_and_hung_daemons_are_taken_back(store):
    before = store.actors()
    assert store.condition().state == "clean", store.condition()
    runner, t0_ns, (still, alive) = run(
        store,
        3.5,
        {"at": "600 ms", "act": "kill", "actor": "data.0"},
        {"at": "1 s", "act": "hang", "actor": ["data.1", "front.1"]},
        {"at": "2 s", "act": "restart", "actor": "data.0"},
        {"at": "2500 ms", "act": "resume", "actor": "data.1"},
        {"at": "3 s", "act": "kill", "actor": "volume.3"},
    )
    assert still == {"s3-2"} and "volume-3" not in alive
    acts = [e for e in runner.events if e["kind"] == "act"]
    wanted = [("kill", "volume-1", 6), ("hang", "volume-2", 10), ("hang", "s3-2", 10), ("restart", "volume-1", 20)]
    wanted += [("resume", "volume-2", 25), ("kill", "volume-3", 30)]
    assert [(e["act"], e["actor"], (e["due_ns"] - t0_ns) / 1e8) for e in acts] == wanted
    assert all(e["error"] is None and e["due_ns"] <= e["time_ns"] <= e["done_ns"] for e in acts), acts
    undone = [(e["act"], e["actor"], e["error"]) for e in runner.events if e["kind"] == "undone"]
    assert undone == [("kill", "volume-3", None), ("hang", "s3-2", None)]
    states = [e["state"] for e in runner.events if e["kind"] == "state"]
    assert states[0] == "clean" and "degraded" in states and states[-1] == "clean" and runner.recovered
    assert runner.events == sorted(runner.events, key=lambda e: e["time_ns"])
    after = store.actors()
    assert set(after) == set(before) and not stopped(store)
    assert {n for n in before if before[n] != after[n]} == {"volume-1", "volume-3"}
    records = store.daemons.records()
    assert records["volume-1"]["pid"] == after["volume-1"], "daemons.json stays correct"
    assert not (store.folder / "faults.json").exists()
    fault_report = runner.as_dict()
    assert (
        fault_report["most_lost"] == ["volume-1", "volume-2"]
        and fault_report["beyond_redundancy"]
        and fault_report["bears"] == 1
    )
    store.up(2)
    assert store.actors() == after, "the next `up` finds nothing to repair"
    bucket = bucket_for(store, "after")
    for end in store.endpoints(2):
        for_store(store, end).put_object(Bucket=bucket.name, Key="k", Body=b"x")


def test_impossible_act_is_reported(store):
    managed.kill(store, "volume-2")
    found, acts = [], managed.acts({"at": "0 s", "act": "kill", "actor": "data.1"})
    with Runner(store, "f", acts, report=found.append) as runner:
        runner.start(0)
        managed.until(runner.failed)
    assert runner.failed() == ["kill of volume-2: volume-2 is not running"] and "volume-2 is not running" in found[0]
    store.up(2)


def test_interrupt_leaves_nothing(store):
    """After Ctrl-C during a run, the hung process continues, and the killed one runs again."""
    acts = managed.acts(
        {"at": "0 s", "act": "hang", "actor": "data.0"}, {"at": "0 s", "act": "kill", "actor": "data.1"}
    )
    before = store.actors()
    with pytest.raises(KeyboardInterrupt), Runner(store, "f", acts) as runner:
        runner.start(clock.now_ns())
        managed.until(lambda: stopped(store) == {"volume-1"} and "volume-2" not in store.actors())
        raise KeyboardInterrupt
    assert not stopped(store) and set(store.actors()) == set(before)
    assert not (store.folder / "faults.json").exists()
    assert [e["kind"] for e in runner.events if e["kind"] != "state"] == ["act", "act", "undone", "undone"]


KILLED = """
import json, sys, time
from pathlib import Path
from storelab.core import clock
from storelab.measure.faults import Runner
from storelab.stores.seaweedfs import SeaweedFS, Settings
state, settings, acts = json.loads(sys.argv[1])
with Runner(SeaweedFS("sw", Settings(**settings), Path(state)), "f", acts) as runner:
    runner.start(clock.now_ns())
    time.sleep(60)
"""


def test_next_run_repairs_after_a_killed_one(store):
    acts = managed.acts(
        {"at": "0 s", "act": "hang", "actor": "data.0"},
        {"at": "0 s", "act": "remove_drive", "actor": "data.1"},
        {"at": "0 s", "act": "kill", "actor": "data.2"},
    )
    drive = store.data / "volume-2"
    arguments = json.dumps([str(store.state), SETTINGS | {"port": store.settings.port}, acts])
    child = subprocess.Popen([sys.executable, "-c", KILLED, arguments])
    try:
        managed.until(lambda: stopped(store) and not drive.exists() and "volume-3" not in store.actors())
        assert store.repair() == [] and stopped(store), "its faults stay while it runs"
    finally:
        child.kill()
        child.wait()
    assert stopped(store) == {"volume-1"} and not drive.exists()
    store.up(2)
    assert not stopped(store) and drive.exists() and "volume-3" in store.actors()
    assert not (store.folder / "faults.json").exists() and store.status().state == "up"


def test_store_that_never_recovers_is_reported(store, monkeypatch):
    found, acts = [], managed.acts({"at": "0 s", "act": "kill", "actor": "data.0"})
    monkeypatch.setattr(Runner, "_take_back", lambda self: None)  # it is not started again
    with Runner(store, "f", acts, report=found.append) as runner:
        runner.start(clock.now_ns())
        managed.until(lambda: "degraded" in managed.states(runner))
        runner.settle(1.5)
        assert runner.recovered is False and runner.as_dict()["recovered"] is False
        assert "sw is not healthy 1.5 s after the run: degraded, master: 2 of 3 volume servers" in found[0]
        monkeypatch.undo()
    store.up(2)


def test_commands_are_run_and_taken_back(store, tmp_path):
    mark = tmp_path / "mark"
    acts = managed.acts(
        {"at": "0 s", "act": "command", "command": f"touch {mark}; sleep 0.3", "undo": f"rm {mark}"},
        {"at": "100 ms", "act": "command", "command": "echo no such rack >&2; exit 3"},
    )
    with Runner(store, "f", acts) as runner:
        runner.start(clock.now_ns())
        managed.until(lambda: len([e for e in runner.events if e["kind"] == "act"]) == 2)
        assert mark.exists()
        runner.settle(30)
    assert not mark.exists()
    assert runner.failed() == ["command of a user: `echo no such rack >&2; exit 3` ended with status 3: no such rack"]
    slow = next(e for e in runner.events if e["kind"] == "act" and not e["error"])
    assert slow["done_ns"] - slow["time_ns"] > S // 4 and threading.active_count() < 20


def test_point_with_a_fault(store, tmp_path):
    """From configuration to record: the record has the acts, and errors after them are results."""
    put = {"workload": "put", "axes": {"engine": "obstore", "object_size": "4 kB", "workers": 4}}
    settings = SETTINGS | {"port": store.settings.port}
    sweeps = {"s": put | {"duration": "4 s", "warm_up": "200 ms"}}
    lab = managed.Lab(tmp_path, settings, sweeps, "sw", state=str(store.state))
    acts = managed.acts(
        {"at": "1 s", "act": "kill", "actor": "data.0"}, {"at": "2 s", "act": "restart", "actor": "data.0"}
    )
    config, p = lab.config, lab.points["s"]
    faulty = [replace(p, axes=p.axes | {"fault": "f"}, fixed=p.fixed | {"acts": acts})]
    record = point.point(config, faulty, faulty[0].key).to_json()
    assert record["valid"] and record["fault"]["recovered"] and record["fault"]["name"] == "f"
    kinds = [(e["kind"], e.get("act") or e.get("state")) for e in record["events"]]
    assert kinds[0] == ("state", "clean") and ("act", "kill") in kinds and ("act", "restart") in kinds
    kill = next(e for e in record["events"] if e.get("act") == "kill")
    assert kill["time_ns"] - record["start_ns"] >= S == kill["due_ns"] - record["start_ns"]
    assert {c["name"]: c["ok"] for c in record["checks"]}["fault f"]
    unknown, failing = {"act": "kill", "actor": "data.7"}, {"act": "command", "command": "exit 7"}
    for act, refused, found in (
        (unknown, UserError, r"store sw has no data\.7; it has data\.0 to data\.2"),
        (failing, MeasurementFailed, "check 'fault f' failed: command of a user: `exit 7` ended with"),
    ):
        wrong = [replace(p, fixed=p.fixed | {"acts": managed.acts({"at": "1 s", **act})}) for p in faulty]
        with pytest.raises(refused, match=found):
            point.point(config, wrong, wrong[0].key, again=True)


def test_nothing_remains(store):
    """Runs last: no lock, no journal, no stopped process."""
    assert not stopped(store) and not list(Path(store.folder).glob("faults.json"))

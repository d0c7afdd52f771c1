"""A SeaweedFS is upgraded during use: front-ends and a volume server, to the next version and back."""

import json
import os
import subprocess
import sys
from pathlib import Path

import managed
import psutil
import pytest

from storelab.core.errors import UserError

pytestmark = [pytest.mark.real, pytest.mark.heavy]
OLD, NEW = "4.47", "4.48"
STORE = {"kind": "seaweedfs", "version": OLD, "servers": 3, "redundancy": "replica-2", "max_volumes": 50}


@pytest.fixture
def site(tmp_path):
    writes = {"workload": "rewrite", "axes": {"object_size": "4 kB", "clients": 2, "workers": 2, "keys_per_worker": 16}}
    acts = [
        {"at": "500 ms", "act": "upgrade", "actor": ["front.0", "front.1"], "to": NEW},
        {"at": "1 s", "act": "upgrade", "actor": "data.0", "to": NEW},
    ]
    sweep = {"duration": "10 s", "warm_up": "200 ms", "axes": {"fault": "up", "front_ends": 2}, "roles": {"w": writes}}
    settings, more = managed.settings_of(**STORE), {"faults": {"up": acts}, "failure_budget": 1.0}
    lab = managed.Lab(tmp_path, settings, {"s": sweep}, "sw", **more)
    managed.skip_unless_usable(lab.store)
    try:
        lab.store.require_version(NEW, "u")
    except UserError as error:
        pytest.skip(str(error))
    yield lab
    lab.store.down()


def programs(store) -> dict[str, str]:
    """Return the versions that run, as reported by the processes themselves."""
    return {name: psutil.Process(pid).exe() for name, pid in store.actors().items() if "/" not in name}


def test_upgrade_under_load_loses_nothing(site):
    store = site.store
    _, run, _ = site.measured("s")
    events = [e for e in run["events"] if e["kind"] != "state"]
    assert [e["kind"] for e in events] == ["act"] * 3 + ["undone"] * 3
    assert [e["actor"] for e in events[3:]] == ["volume-1", "s3-2", "s3-1"], "the last first"
    assert all(e["error"] is None and e["detail"].startswith("pid ") for e in events)
    assert {e["detail"].partition(", ")[2] for e in events[:3]} == {f"{NEW} after {OLD}"}
    acts = {e["actor"]: e for e in events[:3]}
    assert len(acts) == 3 and acts["s3-1"]["done_ns"] <= acts["s3-2"]["time_ns"], "when the first is healthy"
    assert run["fault"]["versions"] == [OLD, NEW] and run["fault"]["recovered"] and run["store"]["version"] == OLD
    ends = [r for r in run["durability"]["readings"] if r["when"] in ("recovered", "end")]
    assert ends and ends[-1]["states"] == ends[-1]["read"] > 10
    assert not any(ends[-1][wrong] for wrong in ("lost", "corrupted", "stale", "resurrected", "unreadable")), ends
    assert {Path(exe).resolve() for exe in programs(store).values()} == {store.program().resolve()}
    assert not (store.folder / "faults.json").exists()


KILLED = """
import json, os, sys
from pathlib import Path
from storelab.stores import load
from storelab.stores import make
from storelab.stores.faults import Acts, journal_of
store = make("sw", load("seaweedfs").Settings.model_validate(json.loads(sys.argv[1])), Path(sys.argv[2]))
with journal_of(store).taken("u"):
    Acts(store).ready({"act": "upgrade", "to": sys.argv[3]}, "s3-1")()
    print("upgraded", flush=True)
    os.kill(os.getpid(), 9)
"""


def test_next_run_undoes_upgrade_of_killed_run(site):
    store = site.store
    store.up(1)
    arguments = json.dumps({**STORE, "port": store.settings.port})
    command = [sys.executable, "-c", KILLED, arguments, site.config.state, NEW]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert child.stdout == "upgraded\n" and child.returncode == -9, child.stderr
    assert len(set(programs(store).values())) == 2, "one runs the other version"
    assert store.repair() == ["sw: undid upgrade of s3-1, which was left behind"]
    store.up(1)
    assert set(programs(store).values()) == {os.path.realpath(store.program())}

"""storelab itself is killed, or interrupted, in the middle of a fault: nothing stays as the fault made it, and the next
one measures the point whole."""

import json
import os
import signal
import subprocess
import sys

import managed
import ports
import psutil
import pytest

from storelab.core.records import read_json
from storelab.stores.seaweedfs.store import SeaweedFS, Settings

pytestmark = [pytest.mark.real, pytest.mark.heavy]
SETTINGS = {"kind": "seaweedfs", "servers": 3, "redundancy": "replica-2", "max_volumes": 50}
FAULTS = {
    "all": [
        {"at": "500 ms", "act": "hang", "actor": "data.0"},
        {"at": "500 ms", "act": "remove_drive", "actor": "data.1"},
        {"at": "500 ms", "act": "kill", "actor": "data.2"},
    ]
}
ROLE = {"workload": "get", "objects": 20, "axes": {"engine": "obstore", "object_size": "4 kB", "workers": 2}}


@pytest.fixture
def lab(tmp_path):
    """A campaign of one point in a folder of its own; its store is stopped at the end."""
    settings = SETTINGS | {"port": ports.block()}
    sweep = {"duration": "4 s", "warm_up": "100 ms", "axes": {"fault": "all"}, "roles": {"reads": ROLE}}
    campaign = {"name": "k", "use_stores": ["sw"], "calibrate": False, "repetitions": 1, "faults": FAULTS}
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns" / "k.yaml").write_text(json.dumps(campaign | {"sweeps": {"s": sweep}}))
    (tmp_path / "config.yaml").write_text(json.dumps({"campaign": "k", "stores": {"sw": settings}}))
    store = SeaweedFS("sw", Settings(**settings), tmp_path / ".storelab")
    yield tmp_path, store
    store.down()


def begin(folder, *arguments):
    command = [sys.executable, "-m", "storelab", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run(folder, *arguments) -> str:
    process = begin(folder, *arguments)
    text = process.communicate(timeout=120)[0]
    assert process.returncode == 0, text
    return text


def stopped(store) -> set[str]:
    return {n for n, pid in store.actors().items() if psutil.Process(pid).status() == psutil.STATUS_STOPPED}


def in_the_middle(folder, store) -> subprocess.Popen:
    """A measurement whose fault has just happened."""
    key = run(folder, "plan").split()[-1]
    process = begin(folder, "measure", key)

    def happened() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return stopped(store) == {"volume-1"} and not (store.data / "volume-2").exists()

    managed.until(happened, 120)
    return process, key


def whole(store) -> bool:
    return not stopped(store) and (store.data / "volume-2").is_dir() and not (store.folder / "faults.json").exists()


@pytest.mark.parametrize("how", ["measure", "up", "down"])
def test_next_run_takes_back_what_a_killed_one_left(lab, how):
    folder, store = lab
    process, key = in_the_middle(folder, store)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not whole(store)
    told = run(folder, *({"measure": ("measure", key), "up": ("up", "sw"), "down": ("down", "sw")}[how]))
    assert "sw: hang of volume-1 was left behind; taken back" in told and whole(store)
    assert "sw: remove_drive of volume-2 was left behind; taken back" in told
    if how == "down":
        assert not store.actors()
        return
    assert store.status().state == "up"
    record = folder / "results" / "k" / "raw" / key / "run.json"
    assert record.exists() == (how == "measure")
    if how == "measure":
        run_json = read_json(record)
        assert run_json["valid"] and len([e for e in run_json["events"] if e["kind"] == "undone"]) == 3
        assert run_json["fault"]["recovered"] and run_json["fault"]["beyond_redundancy"]


def test_interrupt_takes_everything_back(lab):
    folder, store = lab
    process, key = in_the_middle(folder, store)
    process.send_signal(signal.SIGINT)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 130, text
    assert whole(store) and "volume-3" in store.actors()
    assert not (folder / "results" / "k" / "raw" / key / "run.json").exists()

"""storelab is killed or interrupted during a fault: no harm remains, and the next run measures the point."""

import signal
import subprocess

import managed
import ports
import projects
import pytest

from storelab.core.records import read_json
from storelab.stores.seaweedfs import SeaweedFS, Settings

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
    """Return a project folder of one point, and its store, which is stopped at the end."""
    settings = SETTINGS | {"port": ports.block()}
    sweep = {"duration": "4 s", "warm_up": "100 ms", "axes": {"fault": "all"}, "roles": {"reads": ROLE}}
    projects.write(tmp_path, "k", {"sw": settings}, {"s": sweep}, faults=FAULTS)
    store = SeaweedFS("sw", Settings(**settings), tmp_path / ".storelab")
    yield tmp_path, store
    store.down()


def in_the_middle(folder, store) -> tuple[subprocess.Popen, str]:
    """Return a measurement whose fault has just happened, and the key of its point."""
    key = projects.run(folder, "plan").split()[-1]
    process = projects.begin(folder, "measure", key)

    def happened() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return managed.stopped(store) == {"volume-1"} and not (store.data / "volume-2").exists()

    managed.until(happened, 120)
    return process, key


def whole(store) -> bool:
    here = (store.data / "volume-2").is_dir()
    return here and not managed.stopped(store) and not (store.folder / "faults.json").exists()


@pytest.mark.parametrize("how", ["measure", "up", "down"])
def test_next_run_undoes_act_of_killed_run(lab, how):
    folder, store = lab
    process, key = in_the_middle(folder, store)
    process.kill()
    process.wait()
    assert not whole(store)
    output = projects.run(folder, how, key if how == "measure" else "sw")
    assert "sw: undid hang of volume-1, which was left behind" in output and whole(store)
    assert "sw: undid remove_drive of volume-2, which was left behind" in output
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

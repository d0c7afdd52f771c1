"""An endpoint that is a managed store of the same checkout: it is never suspended, and the user's store continues."""

import json
import shutil

import ports
import psutil
import pytest
import yaml
from command_line import in_process
from common import laboratory
from snakemake_run import snakemake

from storelab.stores import all_stores
from storelab.stores.config import load

pytestmark = pytest.mark.real

SWEEP = {"workload": "put", "duration": "1 s", "warm_up": "100 ms", "axes": {"object_size": "10 kB"}}


@pytest.fixture
def lab(monkeypatch):
    """Yield a folder with two managed stores and an endpoint that is the second one, and the three stores."""
    port = ports.block()
    stores = {
        "seaweedfs": {"kind": "seaweedfs", "port": ports.block()},
        "own": {"kind": "seaweedfs", "port": port},
        "mine": {"kind": "s3", "endpoint": "http://placeholder:1"},
    }
    with laboratory({"up": SWEEP}, stores, stores_to_measure=["mine"]) as folder:
        assert in_process(folder, "up", "own")[0] == 0
        monkeypatch.chdir(folder)
        own = all_stores(load(folder / "config.yaml"))["own"]
        stores["mine"]["endpoint"] = own.endpoints()[0].url.replace("127.0.0.1", "localhost")
        config = yaml.safe_load((folder / "config.yaml").read_text()) | {"stores": stores}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        for name, value in own.credentials().environ().items():
            monkeypatch.setenv(name, value)
        yield folder, own


def test_own_endpoint_is_measured_and_continues(lab):
    folder, own = lab
    assert in_process(folder, "up", "seaweedfs")[0] == 0
    pids = own.status().pids
    other = all_stores(load(folder / "config.yaml"))["seaweedfs"].status().pids
    own.suspend()  # as a killed run leaves it
    done = snakemake(folder, "--config", "measure=true", "--", "tables")
    assert done.returncode == 0, done.stderr
    runs = [json.loads(path.read_text()) for path in (folder / "results/bench/raw").rglob("run.json")]
    assert len(runs) == 1 and runs[0]["valid"] and runs[0]["point"]["store"] == "mine"
    assert own.status().pids == pids
    for pid in (*pids.values(), *other.values()):
        assert psutil.Process(pid).status() != psutil.STATUS_STOPPED
    assert "stopped" not in done.stderr + done.stdout
    _, out, _ = in_process(folder, "down", "--all")
    assert out.count("stopped") == 2 and "stopped 0" not in out


def test_run_stops_only_what_it_started(lab):
    folder, own = lab
    for options, up in ((["own"], True), (["seaweedfs"], False)):
        shutil.rmtree(folder / "results", ignore_errors=True)
        stores = f"stores_to_measure={json.dumps(options)}"
        done = snakemake(folder, "--config", "measure=true", stores, "--", "tables")
        assert done.returncode == 0, done.stderr
        line = f"{options[0]}: {'not stopped, because you started it' if up else 'stopped'}"
        assert line in done.stderr + done.stdout
    assert own.status().state == "up"
    assert "seaweedfs (seaweedfs): down" in in_process(folder, "status")[1]

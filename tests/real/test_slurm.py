"""A campaign on a real Slurm: four slurmd on this machine, and nodes with shaped links (needs root)."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pandas as pd
import ports
import pytest
import yaml
from cluster_lab import (
    LONG,
    LONG_KEY,
    agent,
    begin,
    configure,
    four_nodes,
    gone,
    measure,
    on,
    runs,
    snakemake,
    storelab,
)
from common import BIN, environ, laboratory

from storelab.engines import s5cmd

pytestmark = [pytest.mark.real, pytest.mark.heavy, pytest.mark.xdist_group("testbed")]
testbed = four_nodes()

UP, ENTRIES = {"clients": 8, "workers": 2, "clients_per_node": [0, 4]}, {"entry_fraction": 1, "clients": 4}
SWEEPS = {
    "up": {"workload": "put", "duration": "2 s", "warm_up": "200 ms", "axes": UP},
    "entries": {"workload": "read_entries", "duration": "3 s", "warm_up": "100 ms", "axes": ENTRIES},
}


@pytest.fixture
def lab():
    with laboratory(SWEEPS) as folder:
        configure(folder, launcher={"kind": "srun", "address": "127.0.0.1", "heartbeat_timeout": "10 s"})
        yield folder


def test_a_campaign_in_an_allocation(testbed, lab):
    done = on(testbed, lab, "salloc", "-N4", "--licenses=storelab:1", *snakemake("slurm-allocation", "figures"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = runs(lab)
    assert len(found) == 3
    for key, run in found.items():
        assert run["launcher"] == "srun" and run["shared_machine"]
        hosts = [c["host"] for c in run["clients"]]
        nodes = 2 if "clients_per_node" in key else 4
        assert len(set(hosts)) == nodes == len(run["nodes"]) and set(hosts) <= {f"node{i}" for i in range(1, 5)}
        assert all(c["lateness_ns"] < 500_000_000 and c["operations"] > 0 for c in run["clients"])
    assert (lab / "results/bench/figures/index.json").exists()


def test_one_client_needs_one_node(testbed, lab):
    configure(lab, sweeps={"up": {"workload": "put", "duration": "1 s", "warm_up": "100 ms"}})
    done = on(testbed, lab, "salloc", "-N1", *measure("seaweedfs/put/rep~001"))
    assert done.returncode == 0, done.stderr
    assert len(runs(lab)["seaweedfs/put/rep~001"]["nodes"]) == 1


def test_the_doctor_looks_at_every_node(testbed, lab):
    storelab(lab, "up", "seaweedfs")
    done = on(testbed, lab, "salloc", "-N4", str(BIN / "storelab"), "doctor", "--nodes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"node{i}" in done.stdout for i in range(1, 5)) and " ms" in done.stdout
    assert done.stdout.count("1 of 1") == done.stdout.count(s5cmd.version()) == 4
    storelab(lab, "down", "seaweedfs")
    path = lab / "config.yaml"
    data = yaml.safe_load(path.read_text())
    data["stores"]["seaweedfs"] = {"kind": "s3", "endpoint": "http://127.0.0.1:1"}
    path.write_text(yaml.safe_dump(data))
    done = on(testbed, lab, "salloc", "-N4", str(BIN / "storelab"), "doctor", "--nodes")
    assert done.returncode == 2 and "4 of 4 nodes cannot measure" in done.stderr and "refused" in done.stdout


@pytest.mark.parametrize(
    ("allocation", "launcher", "line"),
    [
        ([], {}, "launcher.kind: srun needs an allocation, and this process is not in one"),
        (["salloc", "-N2"], {"nodes": 4}, "launcher.nodes: 4 nodes are configured, but the allocation has 2"),
        (["salloc", "-N1"], {}, "8 clients, 4 on a node, need 2 nodes, but there are 1"),
    ],
    ids=("no allocation", "too few nodes", "more clients than fit"),
)
def test_check_refuses_unusable_plans(testbed, lab, allocation, launcher, line):
    configure(lab, launcher={"kind": "srun", "address": "127.0.0.1"} | launcher)
    done = on(testbed, lab, *allocation, str(BIN / "storelab"), "check")
    assert done.returncode == 2 and line in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_message_of_slurm_is_printed(testbed, lab):
    configure(lab, launcher={"kind": "srun", "address": "127.0.0.1", "options": ["--no-such-option"]}, sweeps=LONG)
    done = on(testbed, lab, "salloc", "-N4", *measure(LONG_KEY))
    assert done.returncode == 1, done.stderr
    assert "srun ended with status" in done.stderr and "srun --help" in done.stderr


def test_a_walltime_that_is_too_short(testbed, lab):
    configure(lab, sweeps=LONG)
    done = on(testbed, lab, "salloc", "-N4", "-t1", *measure(LONG_KEY))
    assert done.returncode == 1 and "of walltime left, but the point needs 120 s" in done.stderr, done.stderr


def test_lost_node_fails_the_point(testbed, lab):
    """The agent of one node is killed, as when its node dies; then the same point is measured with the same plan."""
    configure(lab, sweeps=LONG)
    process = begin(testbed, lab, "salloc", "-N4", *measure(LONG_KEY))
    victim = agent(lab, 2)
    time.sleep(2)
    os.kill(victim, signal.SIGKILL)
    since = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and time.monotonic() - since < 45 and "node3: task 2: Killed" in err, err
    failed = json.loads((lab / "results/bench/raw" / LONG_KEY / "failed.json").read_text())
    assert failed["reason"] and not runs(lab)
    assert gone(lab), "agents or clients remain"


def test_ctrl_c_ends_everything(testbed, lab):
    configure(lab, sweeps=LONG)
    process = begin(testbed, lab, "salloc", "-N4", *measure(LONG_KEY))
    agent(lab, 0)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0 and gone(lab)


@pytest.mark.root
def test_everything_works_as_ordinary_user(tmp_path_factory):
    """A user who may write only one folder runs a testbed, a store, gangs and tables.

    The user may read all, because Python may be in root's home.
    """
    if os.geteuid() != 0:
        pytest.skip("privilege: this user is already without root")
    who = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    who += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    home = Path(tempfile.mkdtemp(prefix="storelab-user-"))
    with laboratory(SWEEPS) as lab:
        configure(lab, launcher={"kind": "srun", "address": "127.0.0.1", "heartbeat_timeout": "10 s"})
        for path in (home, lab, *lab.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)

        def run(*words: str) -> subprocess.CompletedProcess:
            command = [*who, str(BIN / "storelab"), "testbed", *words]
            return subprocess.run(
                command, cwd=lab, env=environ() | {"HOME": str(home)}, capture_output=True, text=True, timeout=300
            )

        folder = ("--folder", str(home / "tb"))
        try:
            done = run("up", *folder, "--nodes", "4", "--port", str(ports.block()))
            assert done.returncode == 0, done.stderr
            done = run("run", *folder, "--", "salloc", "-N4", *snakemake("slurm-allocation", "tables"))
            assert done.returncode == 0 and len(runs(lab)) == 3, done.stdout + done.stderr
        finally:
            done = run("down", *folder)
        assert done.returncode == 0, done.stderr
        assert {p.stat().st_uid for p in (lab / "results").rglob("*")} == {65534}
        for path in (lab, *lab.rglob("*")):  # root trusts no folder of another user, and stops the stores of this one
            os.chown(path, 0, 0, follow_symlinks=False)
    shutil.rmtree(home)


@pytest.mark.root
def test_links_are_shaped_and_nothing_is_left(tmp_path):
    """Two nodes of unequal links, one front-end; a campaign whose rates cannot pass them."""
    if os.geteuid() != 0:
        pytest.skip("privilege: namespaces need root")
    if Path("/run/netns/storelab-tb-head").exists():
        pytest.skip("another testbed is up on this machine")
    folder = tmp_path / "tb"
    up = "--nodes 2 --links --rate 100mbit --rate 50mbit --front-ends 1 --front-end-rate 120mbit"
    done = storelab(tmp_path, "testbed", "up", "--folder", str(folder), *up.split())
    assert done.returncode == 0, done.stderr
    try:
        axes = {"engine": "obstore", "object_size": "1 MB", "clients": [1, 2], "workers": 4}
        down = {"workload": "get", "duration": "5 s", "warm_up": "1 s", "objects": 8, "axes": axes}
        store = {"kind": "seaweedfs", "port": ports.block(), "address": "10.99.0.241"}
        with laboratory({"down": down}, {"seaweedfs": store}) as lab:
            configure(lab, launcher={"kind": "srun", "address": "10.99.0.254"})
            done = on(folder, lab, "salloc", "-N2", *snakemake("slurm-allocation", "tables"))
            assert done.returncode == 0, done.stdout + done.stderr
            rates = {}
            for run in runs(lab).values():
                for c in run["clients"]:
                    rates[len(run["clients"]), c["host"]] = 8 * c["bytes"] / 5e6
            one, (fast, slow) = rates[1, "node1"], (rates[2, "node1"], rates[2, "node2"])
            drained = 4 * 8 / 5  # Mbit/s: four workers' objects of 1 MB in flight at the deadline count too
            assert 80 < one < 100 + drained and 35 < slow < 60 and 60 < fast < 100 + drained
            assert fast + slow < 125 + drained
            assert run["nodes"][0]["host"] == "node1" and run["shared_machine"]
            links = {
                n["host"]: n["watched"]["network"]["eth0"]["link_bits_per_s"]
                for r in runs(lab).values()
                for n in r["nodes"]
            }
            assert links == {"node1": 100_000_000, "node2": 50_000_000}
            assert {tuple(r["store"]["deployment"]["link_bits_per_s"]) for r in runs(lab).values()} == {(120_000_000,)}
            (table,) = (lab / "results").glob("*/tables/throughput.csv")
            limits = pd.read_csv(table).set_index("clients")[["link_of", "link_bits_per_s"]]
            assert limits.to_dict("index") == {
                1: {"link_of": "clients", "link_bits_per_s": 100_000_000},
                2: {"link_of": "front-ends", "link_bits_per_s": 120_000_000},
            }
    finally:
        done = storelab(tmp_path, "testbed", "down", "--folder", str(folder))
    assert "removed 4 namespaces" in done.stdout and not list(Path("/run/netns").glob("storelab-tb-*"))

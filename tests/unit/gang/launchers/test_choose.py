"""The launcher of a point, the ranks of each node, and refusals before a measurement."""

import os
import subprocess
from types import SimpleNamespace

import pytest
from refusals import NONE, refusal
from small_plan import URL, configured

from storelab.cli import workflow
from storelab.core import plan
from storelab.core.errors import MeasurementFailed
from storelab.gang import nodes
from storelab.gang.launchers import choose, remote, srun
from storelab.gang.rendezvous import Folder
from storelab.stores import all_stores
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS


@pytest.fixture
def slurm(monkeypatch):
    """Slurm is installed, without an allocation; returns a function that sets a variable."""
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_NNODES", "SLURMD_NODENAME", srun.KEPT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(srun.shutil, "which", lambda name: f"/usr/bin/{name}")
    return monkeypatch.setenv


def config(tmp_path, clients=4, launcher=None, **store) -> Config:
    sweep = {"workload": "put", "duration": "10 s", "axes": {"clients": clients, "clients_per_node": 2}}
    folders = {"results": str(tmp_path), "state": str(tmp_path / "state")}
    stores = {"a": {"kind": "seaweedfs", **store}}
    return configured(sweeps={"up": sweep}, stores=stores, launcher=launcher or {}, **folders)


def check(settings: Config) -> str:
    """Return how a plan is refused."""
    return refusal(choose.check, settings, plan.make(settings, WORKLOADS), all_stores(settings))


def test_ranks_are_spread_over_nodes():
    for clients, per_node, there, ranks in (
        (5, 0, 3, [[0, 3], [1, 4], [2]]),
        (2, 0, 8, [[0], [1]]),
        (4, 2, 8, [[0, 2], [1, 3]]),
        (5, 2, 3, [[0, 3], [1, 4], [2]]),
        (1, 0, 1, [[0]]),
    ):
        assert remote.spread(clients, per_node, there, "here") == ranks
    message = refusal(remote.spread, 9, 4, 2, "here")
    assert message.startswith("here: 9 clients, 4 on a node, need 3 nodes, but there are 2")


def test_hosts_of_ssh_are_the_nodes(monkeypatch):
    sweep = {"workload": "put", "duration": "10 s", "axes": {"clients": 8}}
    for number, expected in ((None, 3), (3, 3), (2, 2)):
        launcher = {"kind": "ssh", "hosts": ["n1", "n2", "n3"], "nodes": number}
        settings = configured(sweeps={"up": sweep}, stores={"a": URL}, launcher=launcher)
        assert choose.most_nodes(settings) == expected
        assert choose.nodes_of(settings, *plan.make(settings, WORKLOADS)) == expected
    monkeypatch.setattr(srun.shutil, "which", lambda name: None)
    assert refusal(choose.most_nodes, settings).startswith("launcher.kind: there is no ssh on PATH")


class Nodes(remote.RemoteLauncher):
    """Two nodes, whose agents are files in the gang's folder."""

    def launch(self) -> None:
        """Start nothing."""


@pytest.fixture
def gang(tmp_path) -> Nodes:
    settings = SimpleNamespace(clock_error=5_000_000, heartbeat_timeout=8 * 10**9, clock_bound=7)
    return Nodes(tmp_path, [[0, 2], [1]], [{}], settings)


def test_gang_accepts_only_expected_nodes(gang):
    def ready(number: int, **changes) -> dict:
        ranks = gang.nodes[number]
        about = {"host": f"n{number}", "ranks": ranks, "clients": {str(r): {} for r in ranks}}
        return about | nodes.versions() | {"clock_error_ns": 5_000_000} | changes

    gang.clock = SimpleNamespace(addresses=[("head", 1)])
    for changes, words in (
        ({}, ""),
        ({"host": "n0"}, "nodes 0 and 1 are both n0"),
        ({"ranks": [0]}, "node 1 (n1) has clients [1] instead of [1]"),
        ({"clients": {"3": {}}}, "node 1 (n1) has clients [3] instead of [1]"),
        ({"storelab": "0.1"}, "node 1 (n1) has other versions: storelab 0.1, here"),
        ({"clock_error_ns": None}, "node 1 (n1): its clock is not known; open UDP to head"),
        ({"clock_error_ns": 5_000_001}, "node 1 (n1): its clock is only known to within 5 ms"),
    ):
        reason = gang.accept({0: ready(0), 1: ready(1, **changes)})
        assert reason.startswith(words) and bool(reason) == bool(words), reason


def test_silent_node_is_lost(gang, monkeypatch):
    """A node with a new heartbeat or with its record is not lost; the message of a failed node comes first."""
    now = 100.0
    monkeypatch.setattr(remote.time, "monotonic", lambda: now)
    place = Folder(gang.folder)
    for n in (0, 1):
        place.put(f"alive.{n}", {"host": f"n{n}", "time_ns": 1})
    assert gang.trouble() == ""
    now += 7.9
    assert gang.trouble() == ""
    place.put("alive.0", {"host": "n0", "time_ns": 2})
    now += 0.2
    assert gang.trouble() == "node 1 (n1) is lost: it has sent no heartbeat for 8 s"
    place.put("node.1", {})
    assert gang.trouble() == ""
    place.put("failed.0", {"host": "n0", "failure": "No space left"})
    assert gang.trouble() == "node 0 (n0): No space left"


def test_agents_wait_for_the_coordinator_twice_as_long(gang, monkeypatch):
    written = SimpleNamespace(write=lambda folder: None)
    monkeypatch.setattr(remote.GangJob, "read", lambda folder: written)
    monkeypatch.setattr(gang, "serve", lambda job: None)
    gang.start()
    gang.stop()
    assert (written.nodes, written.clock_bound_ns, written.silence_ns) == ([[0, 2], [1]], 7, 16 * 10**9)
    assert not (gang.folder / "keys").exists()


def test_impossible_launchers_are_refused(tmp_path, monkeypatch, slurm):
    condor, near = {"kind": "htcondor", "nodes": 2}, {"launcher": {"kind": "srun"}, "address": "10.0.0.1"}
    with monkeypatch.context() as patch:
        patch.setattr(srun.shutil, "which", lambda name: None)
        assert check(config(tmp_path)).startswith("sweeps.up.axes.clients_per_node: 4 clients, 2 on a node")
        assert check(config(tmp_path, clients=2)) == NONE
        for launcher, program in (({"kind": "srun"}, "srun"), (condor, "condor_submit")):
            message = check(config(tmp_path, launcher=launcher))
            assert message.startswith("launcher.kind: ") and program in message
    assert "allocation" in check(config(tmp_path, launcher={"kind": "srun"}))
    assert check(config(tmp_path, launcher={"kind": "htcondor"})).startswith("launcher.nodes: ")
    slurm("SLURM_JOB_ID", "7")
    slurm("SLURM_JOB_NUM_NODES", "2")
    assert check(config(tmp_path, launcher={"kind": "srun"})).startswith("stores.a.address: 127.0.0.1")
    assert "6 clients, 2 on a node, need 3 nodes, but there are 2" in check(config(tmp_path, clients=6, **near))
    assert check(config(tmp_path, **near)) == NONE
    assert check(config(tmp_path, launcher={"kind": "srun", "address": "127.0.0.1"})) == NONE


def answer(monkeypatch, status=0, stdout="", stderr=""):
    """Let every command answer with this text; return the list of commands."""
    asked = []

    def run(command, **more):
        asked.append(command)
        return subprocess.CompletedProcess(command, status, stdout, stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_points_may_be_separate_jobs(tmp_path, monkeypatch, slurm):
    """Outside of an allocation the nodes are those of the point; inside of a job they are those of the job."""
    slurm("SLURM_CONF", "/somewhere/slurm.conf")
    settings = config(tmp_path, launcher={"kind": "srun", "nodes": 3, "address": "127.0.0.1"})
    monkeypatch.setattr(srun, "cluster", lambda: None)
    assert check(settings) == NONE
    (point,) = plan.make(settings, WORKLOADS)
    monkeypatch.setattr(srun, "cluster", lambda: 2)
    assert check(settings).startswith("launcher.nodes: 3 nodes are configured, but the cluster has 2")
    # 10 s, 60 s around it, 120 s to start: in minutes
    assert workflow.jobs(settings, {"p": point}) == ({"p": 2}, {"p": 4})
    assert "allocation" in refusal(choose.make, settings, point, tmp_path, [{}])
    few = config(tmp_path, clients=8, launcher={"kind": "srun", "nodes": 3})
    assert "need 4 nodes, but there are 3" in refusal(workflow.jobs, few, {"p": plan.make(few, WORKLOADS)[0]})
    monkeypatch.delenv("SLURM_CONF")  # as the executor does
    slurm("SLURM_JOB_ID", "7")
    asked = answer(monkeypatch, stdout="1\n")
    message = refusal(choose.make, settings, point, tmp_path, [{}])
    assert message.startswith("launcher.nodes: the gang needs 2 nodes, but the allocation has 1")
    assert asked[0][:4] == ["squeue", "-h", "-j", "7"] and os.environ["SLURM_CONF"] == "/somewhere/slurm.conf"
    answer(monkeypatch, 1, stderr="slurm_load_jobs error")
    with pytest.raises(MeasurementFailed, match="job 7: slurm_load_jobs error"):
        choose.make(settings, point, tmp_path, [{}])


def test_no_store_is_started_on_a_measuring_node(tmp_path, slurm):
    slurm("SLURM_JOB_ID", "7")
    settings = config(tmp_path, launcher={"kind": "srun"})
    (store,) = all_stores(settings).values()
    choose.require_running(settings, store, 1)  # salloc: this is the host where it was asked for
    slurm("SLURMD_NODENAME", "node1")
    assert refusal(choose.require_running, settings, store, 1).startswith("stores.a: front-ends: 1 requested, 0 ")
    choose.require_running(config(tmp_path), store, 1)  # clients of this host: one machine


def test_point_needs_enough_walltime(tmp_path, monkeypatch, slurm):
    slurm("SLURM_JOB_ID", "7")
    slurm("SLURM_JOB_NUM_NODES", "2")
    monkeypatch.setattr(srun, "left_s", lambda environ: 30.0)
    settings = config(tmp_path, launcher={"kind": "srun"})
    (point,) = plan.make(settings, WORKLOADS)
    with pytest.raises(MeasurementFailed, match="30 s of walltime left, but the point needs 70 s"):
        choose.make(settings, point, tmp_path, [{}])

"""The launcher of a point, the ranks of each node, and refusals before a measurement."""

import os
import subprocess

import pytest
from refusals import NONE, refusal
from small_plan import configured

from storelab.cli import workflow
from storelab.core import plan
from storelab.core.errors import MeasurementFailed
from storelab.gang.launchers import choose, remote, srun
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


def test_impossible_launchers_are_refused(tmp_path, monkeypatch, slurm):
    condor, near = {"kind": "htcondor", "nodes": 2}, {"launcher": {"kind": "srun"}, "address": "10.0.0.1"}
    with monkeypatch.context() as patch:
        patch.setattr(srun.shutil, "which", lambda name: None)
        assert check(config(tmp_path)).startswith("sweeps.up.axes.clients_per_node: 4 clients, 2 on a node")
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

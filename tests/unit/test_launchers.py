"""Launchers without a batch system: who runs where, what is refused, what a submit description says, how far a clock is off."""

import base64
import json
import time

import pytest

from storelab import clock, plan
from storelab.config import Config, Launcher
from storelab.gang import clocks, condor, keys, launchers, nodes, remote, srun
from storelab.gang.node import BOOT_ID
from storelab.model import MeasurementFailed, UserError
from storelab.stores import all_stores
from storelab.workloads import WORKLOADS


def config(tmp_path, clients=4, launcher=None, **store) -> Config:
    return Config.model_validate(
        {
            "campaign": "x",
            "name": "x",
            "results": str(tmp_path),
            "state": str(tmp_path / "state"),
            "stores": {"a": {"kind": "seaweedfs", **store}},
            "use_stores": ["a"],
            "calibrate": False,
            "launcher": launcher or {},
            "repetitions": 1,
            "sweeps": {"up": {"workload": "put", "duration": "10 s", "axes": {"clients": clients, "clients_per_node": 2}}},
        }
    )


def check(settings: Config) -> None:
    launchers.check(settings, plan.make(settings, WORKLOADS), all_stores(settings))


@pytest.mark.parametrize(
    ("clients", "per_node", "there", "ranks"),
    [
        (5, 0, 3, [[0, 3], [1, 4], [2]]),
        (2, 0, 8, [[0], [1]]),
        (4, 2, 8, [[0, 2], [1, 3]]),
        (5, 2, 3, [[0, 3], [1, 4], [2]]),
        (1, 0, 1, [[0]]),
    ],
)
def test_ranks_by_node(clients, per_node, there, ranks):
    assert remote.spread(clients, per_node, there, "here") == ranks


def test_too_few_nodes():
    with pytest.raises(UserError, match="here: 9 clients, 4 on a node, need 3 nodes; there are 2; ask for more nodes"):
        remote.spread(9, 4, 2, "here")


def test_what_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(srun.shutil, "which", lambda name: None)
    with pytest.raises(
        UserError, match=r"sweeps\.up\.axes\.clients_per_node: 4 clients, 2 on a node, need several nodes, and the launcher is local"
    ):
        check(config(tmp_path))
    with pytest.raises(UserError, match=r"launcher\.kind: there is no srun on PATH"):
        check(config(tmp_path, launcher={"kind": "srun"}))
    with pytest.raises(UserError, match=r"launcher\.kind: there is no condor_submit on PATH"):
        check(config(tmp_path, launcher={"kind": "htcondor", "nodes": 2}))
    monkeypatch.setattr(srun.shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(UserError, match="srun wants an allocation, and there is none around"):
        check(config(tmp_path, launcher={"kind": "srun"}))
    with pytest.raises(UserError, match=r"launcher\.nodes: HTCondor does not say how many nodes"):
        check(config(tmp_path, launcher={"kind": "htcondor"}))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    with pytest.raises(UserError, match=r"stores\.a\.address: 127\.0\.0\.1 is this host only, and clients run on other nodes"):
        check(config(tmp_path, launcher={"kind": "srun"}))
    with pytest.raises(UserError, match=r"6 clients, 2 on a node, need 3 nodes; there are 2"):
        check(config(tmp_path, clients=6, launcher={"kind": "srun"}, address="10.0.0.1"))
    check(config(tmp_path, launcher={"kind": "srun"}, address="10.0.0.1"))
    check(config(tmp_path, launcher={"kind": "srun", "address": "127.0.0.1"}))


@pytest.mark.parametrize(
    ("told", "seconds"), [("1-02:03:04", 93784), ("02:03:04", 7384), ("59:58", 3598), ("UNLIMITED", None), ("INVALID", None)]
)
def test_walltime_as_slurm_tells_it(monkeypatch, told, seconds):
    monkeypatch.setattr(srun.subprocess, "run", lambda *a, **k: type("Done", (), {"stdout": f"{told}\n"}))
    assert srun.left_s({"SLURM_JOB_ID": "7"}) == seconds


def test_a_walltime_shorter_than_the_point(tmp_path, monkeypatch):
    monkeypatch.setattr(srun.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    monkeypatch.setattr(srun, "left_s", lambda environ: 30.0)
    settings = config(tmp_path, launcher={"kind": "srun"})
    (point,) = plan.make(settings, WORKLOADS)
    with pytest.raises(MeasurementFailed, match="30 s of walltime left, the point takes 70 s"):
        launchers.make(settings, point, tmp_path, [{}])


def token(**claims) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{body}.sign"


def test_a_token_that_ends_too_early(tmp_path):
    assert keys.expires(token(exp=1000)) == 1000 and keys.expires("no token") is None and keys.expires(token(sub="me")) is None
    assert "the token in BEARER_TOKEN ends in" in keys.too_short({"BEARER_TOKEN": token(exp=time.time() + 5)}, 60)
    assert not keys.too_short({"BEARER_TOKEN": token(exp=time.time() + 500)}, 60) and not keys.too_short({}, 60)
    (tmp_path / "t").write_text(token(exp=time.time() - 5))
    assert "renew it" in keys.too_short({"BEARER_TOKEN_FILE": str(tmp_path / "t")}, 1)


def test_a_batch_system_gets_no_secrets():
    environ = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "s", "AWS_ACCESS_KEY_ID": "k", "BEARER_TOKEN": "t"}
    assert keys.clean(environ) == {"PATH": "/bin"}


def condor_launcher(folder, nodes=2, **settings) -> condor.CondorLauncher:
    (folder / "job.json").write_text(json.dumps({"timeout_ns": 60e9, "point": {"fixed": {"duration_ns": 10e9}}}))
    launcher = condor.CondorLauncher(folder, [[n] for n in range(nodes)], [{"AWS_SECRET_ACCESS_KEY": "very secret"}], Launcher(**settings))
    launcher._shares = condor.share_out([], nodes)
    launcher._given = set()
    return launcher


@pytest.mark.parametrize("universe", ["vanilla", "parallel"])
def test_the_submit_description(tmp_path, universe):
    folder = tmp_path / "it's here"
    folder.mkdir()
    options = ["request_cpus = 4", 'Requirements = OpSys == "LINUX"']
    launcher = condor_launcher(folder, kind="htcondor", universe=universe, python="/opt/bin/python", options=options)
    text = launcher.description([["a", "c"], []])
    number = "$(Node)" if universe == "parallel" else "$(ProcId)"
    place = str(folder).replace("'", "''")
    assert f"arguments = \"-m storelab.gang.node '{place}' {number}\"\n" in text and "executable = /opt/bin/python\n" in text
    assert "request_cpus = 4\n" in text and "secret" not in text and "should_transfer_files = NO" in text
    assert 'requirements = ((OpSys == "LINUX")) && stringListIMember(TARGET.Machine, MY.StorelabMachines)' in text
    assert text.lower().count("requirements = ") == 1 and "periodic_remove = time() > QDate + 730\n" in text
    assert text.endswith("queue Machines from (\na,c\n-\n)\n") and ("machine_count = 1\n" in text) == (universe == "parallel")


@pytest.mark.parametrize(
    ("words", "written"), [(["-m", "x"], '"-m x"'), (["a b", ""], "\"'a b' ''\""), (["it's", 'say "x"'], "\"'it''s' 'say \"\"x\"\"'\"")]
)
def test_arguments_of_a_submit_description(words, written):
    assert condor.quoted(words) == written


def answers(launcher, monkeypatch, **told) -> list[tuple[str, ...]]:
    """HTCondor's commands tell this; returns what was asked."""
    asked = []

    def command(*words):
        asked.append(words)
        return condor.subprocess.CompletedProcess(words, 0 if words[0] in told else 1, told.get(words[0], ""), "")

    monkeypatch.setattr(launcher, "_command", command)
    return asked


def test_a_job_that_is_held_is_told(tmp_path, monkeypatch):
    launcher = condor_launcher(tmp_path, kind="htcondor")
    launcher.cluster = "12"
    answers(launcher, monkeypatch, condor_q="0 2 slot1@a undefined\n1 5 undefined no such executable\n")
    assert launcher.trouble() == "job 12.1 (node 1) is held: no such executable"
    answers(launcher, monkeypatch)  # the scheduler is down for a while: wait
    launcher._looked = 0.0
    assert launcher.trouble() == "" and launcher.running()


def test_a_job_that_has_left_the_queue_is_told(tmp_path, monkeypatch):
    launcher = condor_launcher(tmp_path, kind="htcondor")
    launcher.cluster = "12"
    answers(launcher, monkeypatch, condor_q="0 2 slot1@a undefined\n", condor_history="undefined undefined via condor_rm (by user me)\n")
    monkeypatch.setattr(condor, "SETTLE_S", 0.0)
    assert launcher.trouble() == ""  # its last files may be on their way
    launcher._looked = 0.0
    told = launcher.trouble()
    assert told == "job 12.1 (node 1) was removed (via condor_rm (by user me)) before its clients had left their results"


def test_each_job_has_machines_of_its_own():
    assert condor.share_out(["a", "b", "c", "d", "e"], 2) == [["a", "c", "e"], ["b", "d"]] and condor.share_out(["a"], 2) == [["a"], []]


def test_machines_that_are_left_over_go_to_jobs_that_wait(tmp_path, monkeypatch):
    launcher = condor_launcher(tmp_path, nodes=3, kind="htcondor")
    launcher.cluster, launcher._shares, launcher._given = "12", [["a", "d"], ["b"], ["c"]], {*"abcd"}
    pool = "".join(f"{m} Unclaimed 8\n" for m in "abcde")
    asked = answers(launcher, monkeypatch, condor_q="", condor_status=pool, condor_qedit="")
    waits, runs = condor.Job(1, "", ""), condor.Job(condor.RUNNING, "a", "")
    launcher._share_more({0: runs, 1: waits, 2: waits})
    assert launcher._shares == [["a"], ["e"], ["d"]]  # b and c are never another job's: theirs may be on its way there
    assert ("condor_qedit", "12.0", "StorelabMachines", '"a"') in asked
    monkeypatch.setattr(condor, "SHARE_S", 0.0)
    launcher._share_more({0: runs, 1: waits, 2: waits})
    assert launcher._shares == [["a"], ["e"], ["d"]]
    launcher._shares, launcher._given = [["a", "e"], ["b"], ["gone"]], {*"abcde", "gone"}
    launcher._share_more({0: waits, 1: waits, 2: waits})
    assert launcher._shares == [["a"], ["b"], ["e"]]


def test_how_far_a_clock_is_off():
    server = clocks.Server(["127.0.0.1"])
    try:
        server.shift_ns = 250_000_000
        found = clocks.measure(server.addresses)
    finally:
        server.close()
    assert found.how == "asked" and abs(found.ns - 250_000_000) <= found.error_ns + 100_000 and found.error_ns < 20_000_000
    nobody = clocks.measure([["127.0.0.1", 9]])
    assert nobody.ns == 0 and nobody.how == ("unknown" if nobody.error_ns is None else "kernel")


def test_times_are_those_of_the_other_clock(monkeypatch):
    before = clock.now_ns()
    monkeypatch.setattr(clock, "_offset", 0)
    clock.set_offset(3_600_000_000_000)
    assert clock.now_ns() - before > 3_599_000_000_000


def test_nodes_that_are_one_machine_count_once():
    here = BOOT_ID.read_text().strip()
    watched = {"cores": 4, "cpu_busy_s": 3.0, "seconds": 2.0, "network": {}}

    class Told:
        def about(self):
            return [
                {"node": n, "host": f"n{n}", "boot_id": boot, "watched": watched, "pid": 1} for n, boot in enumerate((here, here, "other"))
            ]

    results = [{"cpu_user_s": 1.0, "cpu_system_s": 0.5}] * 3
    found = nodes.record(Told(), results, {"server_cpu_s": 0.7})
    assert found["host"]["cores"] == 8 and found["host"]["cpu_busy_s"] == 6.0 and found["host"]["client_cpu_s"] == 4.5
    assert found["shared_machine"] and found["host"]["server_cpu_s"] == 0.7 and "pid" not in found["nodes"][0]
    assert nodes.record(object(), results, {}) == {}

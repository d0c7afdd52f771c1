"""Launchers without a batch system: who runs where, what is refused, what a submit description says, how far a clock is off."""

import base64
import json
import os
import subprocess
import sys
import time

import pytest

from storelab.cli import workflow
from storelab.core import clock, plan
from storelab.core.config import Config, Launcher
from storelab.core.errors import MeasurementFailed, UserError
from storelab.gang import clocks, credentials, nodes
from storelab.gang.launchers import choose, condor, remote, srun
from storelab.gang.launchers.local import LocalLauncher
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
            "sweeps": {
                "up": {"workload": "put", "duration": "10 s", "axes": {"clients": clients, "clients_per_node": 2}}
            },
        }
    )


def check(settings: Config) -> None:
    choose.check(settings, plan.make(settings, WORKLOADS), all_stores(settings))


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
        UserError,
        match=r"sweeps\.up\.axes\.clients_per_node: 4 clients, 2 on a node, need several nodes, and the launcher is local",
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
    with pytest.raises(
        UserError, match=r"stores\.a\.address: 127\.0\.0\.1 is this host only, and clients run on other nodes"
    ):
        check(config(tmp_path, launcher={"kind": "srun"}))
    with pytest.raises(UserError, match=r"6 clients, 2 on a node, need 3 nodes; there are 2"):
        check(config(tmp_path, clients=6, launcher={"kind": "srun"}, address="10.0.0.1"))
    check(config(tmp_path, launcher={"kind": "srun"}, address="10.0.0.1"))
    check(config(tmp_path, launcher={"kind": "srun", "address": "127.0.0.1"}))


def test_points_that_are_jobs_of_their_own(tmp_path, monkeypatch):
    """Outside of an allocation: nodes by point, and where Slurm's configuration is; inside of the job it is found again, and its nodes."""
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_NNODES", "SLURMD_NODENAME", srun.KEPT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(srun.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setenv("SLURM_CONF", "/somewhere/slurm.conf")
    settings = config(tmp_path, launcher={"kind": "srun", "nodes": 3, "address": "127.0.0.1"})
    monkeypatch.setattr(srun, "cluster", lambda: None)
    check(settings)
    (point,) = plan.make(settings, WORKLOADS)
    monkeypatch.setattr(srun, "cluster", lambda: 2)
    with pytest.raises(UserError, match=r"launcher\.nodes: 3 nodes are asked, the cluster has 2"):
        check(settings)
    assert workflow.jobs(settings, {"p": point}) == (
        {"p": 2},
        {"p": 4},
    )  # 10 s, 60 s beside it, 120 s to start: in minutes
    with pytest.raises(UserError, match="srun wants an allocation"):
        choose.make(settings, point, tmp_path, [{}])
    with pytest.raises(UserError, match="8 clients, 2 on a node, need 4 nodes; there are 3"):
        workflow.jobs(
            few := config(tmp_path, clients=8, launcher={"kind": "srun", "nodes": 3}),
            {"p": plan.make(few, WORKLOADS)[0]},
        )
    monkeypatch.delenv("SLURM_CONF")  # as the executor does
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    asked = []
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda command, **k: asked.append(command) or subprocess.CompletedProcess(command, 0, "1\n", ""),
    )
    with pytest.raises(UserError, match=r"launcher\.nodes: the gang has 2 nodes, the allocation 1"):
        choose.make(settings, point, tmp_path, [{}])
    assert asked[0][:4] == ["squeue", "-h", "-j", "7"] and os.environ["SLURM_CONF"] == "/somewhere/slurm.conf"
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda command, **k: subprocess.CompletedProcess(command, 1, "", "slurm_load_jobs error"),
    )
    with pytest.raises(MeasurementFailed, match="squeue does not tell the nodes of job 7: slurm_load_jobs error"):
        choose.make(settings, point, tmp_path, [{}])


def test_no_store_is_started_on_a_measuring_node(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    settings = config(tmp_path, launcher={"kind": "srun"})
    (store,) = all_stores(settings).values()
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    choose.lives_outside(settings, store, 1)  # salloc: this is the host where it was asked for
    monkeypatch.setenv("SLURMD_NODENAME", "node1")
    with pytest.raises(
        UserError, match=r"stores\.a: 1 front-ends asked, 0 run, and no store is started in a measuring job"
    ):
        choose.lives_outside(settings, store, 1)
    choose.lives_outside(config(tmp_path), store, 1)  # clients of this host: one machine


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("1-02:03:04", 93784), ("02:03:04", 7384), ("59:58", 3598), ("UNLIMITED", None), ("INVALID", None)],
)
def test_walltime_as_slurm_tells_it(monkeypatch, told, seconds):
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda *a, **k: type("Done", (), {"stdout": f"RUNNING {told}\n", "stderr": "", "returncode": 0}),
    )
    assert srun.left_s({"SLURM_JOB_ID": "7"}) == seconds


def test_a_walltime_shorter_than_the_point(tmp_path, monkeypatch):
    monkeypatch.setattr(srun.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    monkeypatch.setattr(srun, "left_s", lambda environ: 30.0)
    settings = config(tmp_path, launcher={"kind": "srun"})
    (point,) = plan.make(settings, WORKLOADS)
    with pytest.raises(MeasurementFailed, match="30 s of walltime left, the point takes 70 s"):
        choose.make(settings, point, tmp_path, [{}])


def token(**claims) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{body}.sign"


def test_a_token_that_ends_too_early(tmp_path):
    assert (
        credentials.expires(token(exp=1000)) == 1000
        and credentials.expires("no token") is None
        and credentials.expires(token(sub="me")) is None
    )
    assert "the token in BEARER_TOKEN ends in" in credentials.too_short(
        {"BEARER_TOKEN": token(exp=time.time() + 5)}, 60
    )
    assert not credentials.too_short({"BEARER_TOKEN": token(exp=time.time() + 500)}, 60) and not credentials.too_short(
        {}, 60
    )
    (tmp_path / "t").write_text(token(exp=time.time() - 5))
    assert "renew it" in credentials.too_short({"BEARER_TOKEN_FILE": str(tmp_path / "t")}, 1)


def test_a_batch_system_gets_no_secrets():
    environ = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "s", "AWS_ACCESS_KEY_ID": "k", "BEARER_TOKEN": "t"}
    assert credentials.clean(environ) == {"PATH": "/bin"}


def condor_launcher(folder, nodes=2, **settings) -> condor.CondorLauncher:
    (folder / "job.json").write_text(json.dumps({"timeout_ns": 60e9, "point": {"fixed": {"duration_ns": 10e9}}}))
    launcher = condor.CondorLauncher(
        folder, [[n] for n in range(nodes)], [{"AWS_SECRET_ACCESS_KEY": "very secret"}], Launcher(**settings)
    )
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
    assert (
        f"arguments = \"-m storelab.gang.agent '{place}' {number}\"\n" in text
        and "executable = /opt/bin/python\n" in text
    )
    assert "request_cpus = 4\n" in text and "secret" not in text and "should_transfer_files = NO" in text
    assert 'requirements = ((OpSys == "LINUX")) && stringListIMember(TARGET.Machine, MY.StorelabMachines)' in text
    assert text.lower().count("requirements = ") == 1 and "periodic_remove = time() > QDate + 730\n" in text
    assert text.endswith("queue Machines from (\na,c\n-\n)\n") and ("machine_count = 1\n" in text) == (
        universe == "parallel"
    )


@pytest.mark.parametrize(
    ("words", "written"),
    [(["-m", "x"], '"-m x"'), (["a b", ""], "\"'a b' ''\""), (["it's", 'say "x"'], "\"'it''s' 'say \"\"x\"\"'\"")],
)
def test_arguments_of_a_submit_description(words, written):
    assert condor.quoted(words) == written


def answers(launcher, monkeypatch, **told) -> list[tuple[str, ...]]:
    """HTCondor's commands tell this; returns what was asked."""
    asked = []

    def command(*words):
        asked.append(words)
        return subprocess.CompletedProcess(words, 0 if words[0] in told else 1, told.get(words[0], ""), "")

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
    answers(
        launcher,
        monkeypatch,
        condor_q="0 2 slot1@a undefined\n",
        condor_history="undefined undefined via condor_rm (by user me)\n",
    )
    monkeypatch.setattr(condor, "SETTLE_S", 0.0)
    assert launcher.trouble() == ""  # its last files may be on their way
    launcher._looked = 0.0
    told = launcher.trouble()
    assert (
        told == "job 12.1 (node 1) was removed (via condor_rm (by user me)) before its clients had left their results"
    )


def test_each_job_has_machines_of_its_own():
    assert condor.share_out(["a", "b", "c", "d", "e"], 2) == [["a", "c", "e"], ["b", "d"]] and condor.share_out(
        ["a"], 2
    ) == [["a"], []]


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
    assert (
        found.how == "asked" and abs(found.ns - 250_000_000) <= found.error_ns + 100_000 and found.error_ns < 20_000_000
    )
    nobody = clocks.measure([["127.0.0.1", 9]])
    assert nobody.ns == 0 and nobody.how == ("unknown" if nobody.error_ns is None else "kernel")


def test_times_are_those_of_the_other_clock(monkeypatch):
    before = clock.now_ns()
    monkeypatch.setattr(clock, "_offset", 0)
    clock.set_offset(3_600_000_000_000)
    assert clock.now_ns() - before > 3_599_000_000_000


def test_nodes_that_are_one_machine_count_once(tmp_path):
    here = nodes.BOOT_ID.read_text().strip()
    watched = {"cores": 4, "cpu_busy_s": 3.0, "seconds": 2.0, "network": {}}

    class Told(LocalLauncher):
        def about(self):
            return [
                {"node": n, "host": f"n{n}", "boot_id": boot, "watched": watched, "pid": 1}
                for n, boot in enumerate((here, here, "other"))
            ]

    results = [{"cpu_user_s": 1.0, "cpu_system_s": 0.5}] * 3
    found = nodes.record(Told(tmp_path, 1, [{}]), results, {"server_cpu_s": 0.7})
    assert found["host"]["cores"] == 8 and found["host"]["cpu_busy_s"] == 6.0 and found["host"]["client_cpu_s"] == 4.5
    assert found["shared_machine"] and found["host"]["server_cpu_s"] == 0.7 and "pid" not in found["nodes"][0]
    assert nodes.record(LocalLauncher(tmp_path, 1, [{}]), results, {}) == {}


LOGS = {
    "killed": (
        "srun: cluster configuration lacks support for cpu binding\nsrun: error: node3: task 2: Killed\n"
        "srun: launch/slurm: _step_signal: Terminating StepId=4.0\nslurmstepd-node1: error: *** STEP 4.0 ON node1 CANCELLED AT T ***\n"
        "srun: error: node2: task 1: Killed\n",
        "srun: error: node3: task 2: Killed",
    ),
    "cancelled": (
        "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\nsrun: error: node3: task 2: Killed\n"
        "slurmstepd-node1: error: *** STEP 4.0 ON node1 CANCELLED AT T DUE TO TIME LIMIT ***\nsrun: error: node2: task 1: Killed\n",
        "slurmstepd-node1: error: *** STEP 4.0 ON node1 CANCELLED AT T DUE TO TIME LIMIT ***",
    ),
    "walltime": (
        "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\n"
        "slurmstepd-node1: error: *** STEP 1.0 ON node1 CANCELLED AT T DUE TO TIME LIMIT ***\n"
        "storelab: node 3 (node4): was told to end (SIGTERM): the job or its step was cancelled, or its walltime is over\n",
        "slurmstepd-node1: error: *** STEP 1.0 ON node1 CANCELLED AT T DUE TO TIME LIMIT ***",
    ),
    "setup": (
        "launcher.setup: line 3: module: command not found\nstorelab: node 2 (node3): launcher.setup failed\n"
        "srun: error: node3: task 2: Exited with exit code 127\nstorelab: node 0 (node1): was told to end (SIGTERM): the job\n",
        "storelab: node 2 (node3): launcher.setup failed (launcher.setup: line 3: module: command not found)",
    ),
    "python": (
        "srun: error: node1: task 0: Exited with exit code 2\nslurmstepd-node1: error: execve(): /no/python: No such file or directory\n",
        "slurmstepd-node1: error: execve(): /no/python: No such file or directory",
    ),
    "controller": (
        "srun: error: Unable to confirm allocation for job 31: Unable to contact slurm controller (connect failure)\n"
        "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 31\n",
        "srun: error: Unable to confirm allocation for job 31: Unable to contact slurm controller (connect failure)",
    ),
    "warning": ("srun: cluster configuration lacks support for cpu binding\n", ""),
}


@pytest.mark.parametrize("case", LOGS)
def test_the_line_that_tells_why(tmp_path, case):
    """What srun 22.05 wrote when it happened, shortened."""
    log, line = LOGS[case]
    (tmp_path / "launcher.log").write_text(log)
    assert srun.SrunLauncher(tmp_path, [[0], [1]], [{}], Launcher(kind="srun")).last_words() == line


def test_the_sites_lines_run_before_and_name_the_node_where_they_fail(tmp_path):
    environ = {"PATH": "/usr/bin:/bin", "SLURM_PROCID": "3", "SLURMD_NODENAME": "node4", "HOME": str(tmp_path)}
    command = ["/bin/sh", "-c", 'echo "$COLOUR $1"', "sh", "a b"]

    def run(setup):
        return subprocess.run(remote.prepared(setup, command), env=environ, capture_output=True, text=True)

    done = run("module() { export COLOUR=$2; }\nmodule load 'dark red'")
    assert done.returncode == 0 and done.stdout == "dark red a b\n"
    for setup in ("nowhere_to_be_found load x\nexport COLOUR=red", "false", "exit 0"):
        done = run(setup)
        assert not done.stdout and "storelab: node 3 (node4): launcher.setup failed" in done.stderr
    assert remote.prepared(None, command) == command


@pytest.mark.parametrize("shared", [True, False])
def test_the_sites_lines_in_a_submit_description(tmp_path, monkeypatch, shared):
    """What HTCondor runs is a file: its description takes no lines and no quotes."""
    launcher = condor_launcher(
        tmp_path, kind="htcondor", setup='export COLOUR="dark red"\ntrue', python="/bin/echo", shared_folder=shared
    )
    monkeypatch.setattr(
        launcher, "_command", lambda *c: type("Done", (), {"returncode": 0, "stdout": "7.0 - 7.1", "stderr": ""})
    )
    launcher.launch()
    text = (tmp_path / "gang.sub").read_text()
    assert f"executable = {tmp_path}/agent.sh\n" in text and "COLOUR" not in text
    assert f"transfer_executable = {'false' if shared else 'true'}\n" in text
    (arguments,) = (line.partition(" = ")[2] for line in text.splitlines() if line.startswith("arguments"))
    done = subprocess.run([str(tmp_path / "agent.sh"), *arguments.strip('"').split()], capture_output=True, text=True)
    assert done.stdout == f"-m storelab.gang.agent {tmp_path} $(ProcId)\n", done.stderr


def test_a_job_that_is_over(monkeypatch):
    for told in (("", "", 0), ("COMPLETING 5:00\n", "", 0), ("", "slurm_load_jobs error: Invalid job id specified", 1)):
        answer = dict(zip(("stdout", "stderr", "returncode"), told, strict=True))
        monkeypatch.setattr(subprocess, "run", lambda *a, answer=answer, **k: type("Done", (), answer))
        with pytest.raises(UserError, match="the Slurm job 7 around is over; salloc or sbatch again"):
            srun.left_s({"SLURM_JOB_ID": "7"})
    answer = {"stdout": "", "stderr": "slurm_load_jobs error: Unable to contact slurm controller", "returncode": 1}
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: type("Done", (), answer))
    assert srun.left_s({"SLURM_JOB_ID": "7"}) is None


def test_a_credential_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match=r"X509_USER_PROXY: it names .*/none, which cannot be read \(No such file"):
        credentials.collect([{}], {"X509_USER_PROXY": str(tmp_path / "none")})


def test_a_token_that_a_store_names_goes_along_and_not_to_the_batch_system(tmp_path, monkeypatch):
    monkeypatch.setenv("EOS_TOKEN", "very secret")
    (tmp_path / "job.json").write_text(
        json.dumps({"endpoints": [{"url": "https://x", "token": "EOS_TOKEN"}, {"url": "https://y"}]})
    )
    launcher = condor.CondorLauncher(tmp_path, [[0]], [{}], Launcher(kind="htcondor"))
    assert launcher.parcel["environs"] == [{"EOS_TOKEN": "very secret"}]
    assert "EOS_TOKEN" not in credentials.clean({"EOS_TOKEN": "very secret", "PATH": "/bin"}, launcher.tokens)


def test_a_signal_that_comes_in_a_fork_ends_the_gang(tmp_path):
    """Python drops what a handler raises there and prints it: the coordinator looks for itself, and nobody reads a traceback."""
    code = """
import os, signal, sys
from pathlib import Path
from storelab.gang import coordinator
from storelab.gang.launchers.local import LocalLauncher
coordinator.heed_signals()
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))
os.register_at_fork(after_in_parent=lambda: print("dropped"))
folder = Path(sys.argv[1])
coordinator.run(LocalLauncher(folder, 1, [{}]), folder, 1, 20, 20, lambda t0: None)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 143 and done.stdout == "dropped\n" and not done.stderr, done.stderr
    assert (tmp_path / "abort").exists()


def test_a_signal_that_comes_in_a_fork_ends_the_agent(tmp_path):
    """Of a node: its clients do not go on without anybody who was told."""
    point = {"fixed": {"duration_ns": 10**9}}
    (tmp_path / "job.json").write_text(
        json.dumps({"nodes": [[0]], "timeout_ns": 20 * 10**9, "point": point, "silence_ns": 20 * 10**9})
    )
    code = """
import os, signal, sys
from pathlib import Path
from storelab.gang import post
from storelab.gang.agent import Agent, _told_to_end
signal.signal(signal.SIGTERM, _told_to_end)
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))
agent = Agent(post.uplink(sys.argv[1]), 0)
if os.fork() == 0:
    os._exit(0)
print("dropped")
agent._relay = lambda: None
agent._until(lambda: None)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "dropped\n" and done.stderr.splitlines()[-1].endswith("walltime is over"), done.stderr

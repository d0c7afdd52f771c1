"""srun: the remaining walltime, the line of its log that gives the reason of a failure, and the site's setup lines."""

import subprocess

import pytest

from storelab.core.config import Launcher
from storelab.core.errors import UserError
from storelab.gang.launchers import remote, srun


@pytest.fixture
def answers(monkeypatch):
    """Return a function that sets the output of squeue."""

    def answer(stdout, stderr="", status=0):
        done = subprocess.CompletedProcess([], status, stdout, stderr)
        monkeypatch.setattr(subprocess, "run", lambda *a, **k: done)

    return answer


def test_walltime_of_slurm_is_parsed(answers):
    times = {"1-02:03:04": 93784, "02:03:04": 7384, "59:58": 3598, "UNLIMITED": None, "INVALID": None}
    for text, seconds in times.items():
        answers(f"RUNNING {text}\n")
        assert srun.left_s({"SLURM_JOB_ID": "7"}) == seconds, text


def test_job_that_is_over_is_refused(answers):
    invalid = "slurm_load_jobs error: Invalid job id specified"
    for given in (("",), ("COMPLETING 5:00\n",), ("", invalid, 1)):
        answers(*given)
        with pytest.raises(UserError, match=r"job 7 has ended"):
            srun.left_s({"SLURM_JOB_ID": "7"})
    answers("", "slurm_load_jobs error: Unable to contact slurm controller", 1)
    assert srun.left_s({"SLURM_JOB_ID": "7"}) is None


# Log lines of srun 22.05, shortened; the line with `>` is the reason.
LOGS = """
srun: cluster configuration lacks support for cpu binding
>srun: error: node3: task 2: Killed
srun: launch/slurm: _step_signal: Terminating StepId=4.0
slurmstepd-node1: error: *** STEP 4.0 ON node1 CANCELLED AT T ***
srun: error: node2: task 1: Killed

srun: Job step aborted: Waiting up to 7 seconds for job step to finish.
srun: error: node3: task 2: Killed
>slurmstepd-node1: error: *** STEP 4.0 ON node1 CANCELLED AT T DUE TO TIME LIMIT ***
srun: error: node2: task 1: Killed

srun: Job step aborted: Waiting up to 7 seconds for job step to finish.
>slurmstepd-node1: error: *** STEP 1.0 ON node1 CANCELLED AT T DUE TO TIME LIMIT ***
storelab: node 3 (node4): was asked to end (SIGTERM): the job or its step was cancelled, or its walltime is over

srun: error: node1: task 0: Exited with exit code 2
>slurmstepd-node1: error: execve(): /no/python: No such file or directory

>srun: error: Unable to confirm allocation for job 31: Unable to contact slurm controller (connect failure)
srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 31

srun: cluster configuration lacks support for cpu binding
"""
SETUP = """launcher.setup: line 3: module: command not found
storelab: node 2 (node3): launcher.setup failed
srun: error: node3: task 2: Exited with exit code 127
storelab: node 0 (node1): was asked to end (SIGTERM): the job
"""


def test_log_line_has_the_reason(tmp_path):
    cases = []
    for log in LOGS.split("\n\n"):
        reasons = [line[1:] for line in log.splitlines() if line.startswith(">")]
        cases.append((log.replace(">", "") + "\n", "".join(reasons)))
    setup = "storelab: node 2 (node3): launcher.setup failed (launcher.setup: line 3: module: command not found)"
    for log, line in (*cases, (SETUP, setup)):
        (tmp_path / "launcher.log").write_text(log)
        assert srun.SrunLauncher(tmp_path, [[0], [1]], [{}], Launcher(kind="srun")).last_words() == line


def test_setup_lines_run_before_and_name_their_node(tmp_path):
    environ = {"PATH": "/usr/bin:/bin", "SLURM_PROCID": "3", "SLURMD_NODENAME": "node4", "HOME": str(tmp_path)}
    (tmp_path / ".bash_profile").write_text("sleep() { :; }\n")  # of a login shell: nothing waits here
    command = ["/bin/sh", "-c", 'echo "$COLOUR $1"', "sh", "a b"]

    def run(setup):
        return subprocess.run(remote.prepared(setup, command), env=environ, capture_output=True, text=True)

    done = run("module() { export COLOUR=$2; }\nmodule load 'dark red'")
    assert done.returncode == 0 and done.stdout == "dark red a b\n"
    for setup in ("nowhere_to_be_found load x\nexport COLOUR=red", "false", "exit 0"):
        done = run(setup)
        assert not done.stdout and "storelab: node 3 (node4): launcher.setup failed" in done.stderr
    assert remote.prepared(None, command) == command

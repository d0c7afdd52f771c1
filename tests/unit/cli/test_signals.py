"""A signal to the program that started a campaign reaches all its processes; Ctrl-C during loading is quiet."""

import os
import signal
import subprocess
import sys

import psutil
import pytest
import snakemake.cli as snakemake_cli
from paths import ROOT

from storelab.cli import snakemake

FORWARD = ROOT / "envs" / "forward.sh"
# In place of Snakemake: it starts another process, as a rule does, and waits for its end.
RUNS = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: None)
child = subprocess.Popen(["sleep", "77.25"])
print(child.pid, flush=True)
sys.exit(3 if child.wait() < 0 else 0)
"""
# Ends one second after the first Ctrl-C, with status 9 if another one arrives.
SLOW = """
import signal, sys, time
def end(*_):
    signal.signal(signal.SIGINT, lambda *_: sys.exit(9))
    print("first", flush=True)
    time.sleep(1)
    print("complete", flush=True)
    sys.exit(4)
signal.signal(signal.SIGINT, end)
print("begin", flush=True)
time.sleep(77)
"""


def started(command: list, **options) -> tuple[subprocess.Popen, psutil.Process]:
    """Start a command that runs RUNS, and return it with the process that RUNS started."""
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    assert run.stdout
    return run, psutil.Process(int(run.stdout.readline()))


def ended(process: psutil.Process) -> bool:
    return not psutil.wait_procs([process], timeout=60)[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_reaches_what_a_command_runs(tmp_path, number):
    after = tmp_path / "after"
    env = {**os.environ, "AFTER": f"touch {after}"}
    run, child = started([FORWARD, sys.executable, "-c", RUNS], env=env, start_new_session=True)
    assert not after.exists()
    run.send_signal(number)
    status = run.wait(60)
    assert ended(child) and status != 0 and after.exists()
    assert (status == 3) == (number == signal.SIGTERM), "the command's own exit code"
    assert (status == 130) == (number == signal.SIGINT)


def test_second_ctrl_c_does_not_interrupt_the_end(tmp_path):
    env = {**os.environ, "AFTER": f"touch {tmp_path}/after"}
    pipe = subprocess.PIPE
    run = subprocess.Popen([FORWARD, sys.executable, "-c", SLOW], env=env, stdout=pipe, stderr=pipe, text=True)
    assert run.stdout and run.stderr and run.stdout.readline() == "begin\n"
    run.send_signal(signal.SIGINT)
    assert run.stdout.readline() == "first\n"
    run.send_signal(signal.SIGINT)
    assert run.stderr.readline() == "storelab: stopping; this takes a few seconds\n"
    assert run.communicate(timeout=60) == ("complete\n", "") and run.returncode == 130
    assert (tmp_path / "after").exists()


@pytest.mark.parametrize("killed", [True, False])
def test_snakemake_and_its_jobs_end_with_a_killed_run(killed):
    code = f"from storelab.cli import snakemake\nsnakemake.end_with_parent()\n{RUNS}"
    run, child = started([FORWARD, sys.executable, "-c", code])
    parent = child.parent()
    assert parent
    if killed:
        run.kill()
        assert ended(child) and ended(parent)
    else:
        assert child.is_running()
        run.terminate()
        assert ended(child)
    run.wait(60)


def test_ctrl_c_of_snakemake_is_quiet(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(snakemake, "end_with_parent", lambda: None)
    monkeypatch.setattr(snakemake_cli, "main", interrupted)
    with pytest.raises(SystemExit, match="130"):
        snakemake.main()


def test_nothing_follows_a_mistake(tmp_path):
    env = {**os.environ, "AFTER": f"touch {tmp_path}/after", "OTHERWISE": f"touch {tmp_path}/otherwise"}
    assert subprocess.run([FORWARD, "bash", "-c", "exit 2"], env=env, check=False).returncode == 2
    assert not list(tmp_path.iterdir())


def test_only_the_line_on_profiles_is_hidden(capsys):
    snakemake._print("Using profile profiles/local for setting default command line arguments.")
    snakemake._print("Building DAG of jobs...")
    assert capsys.readouterr().out == "Building DAG of jobs...\n"


def test_exit_code_of_a_command_is_kept():
    assert subprocess.run([FORWARD, "bash", "-c", "exit 7"], check=False).returncode == 7


def test_make_forwards_its_signal(tmp_path):
    """`make paper` runs one process below make, which must get the signal too."""
    makefile = (ROOT / "Makefile").read_text()
    line = next(n for n in makefile.splitlines() if n.startswith("SNAKEMAKE :="))
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "forward.sh").symlink_to(FORWARD)
    (tmp_path / "run.py").write_text(RUNS)
    recipe = line.replace("$(RUN)", f"{sys.executable} run.py")
    rule = "all:\n\t@export AFTER='echo done'; \\\n\t$(SNAKEMAKE) --config x=y\n"
    (tmp_path / "Makefile").write_text(f"SHELL := /bin/bash\n{recipe}\n{rule}")
    command = ["make", "--no-print-directory", "all"]  # make prints folders where another make calls it
    run, child = started(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    run.terminate()
    assert run.stdout and run.stdout.read() == "done\n", "read to the end: make ends before its recipe"
    run.wait(60)
    assert ended(child)


def test_ctrl_c_while_loading_is_quiet(tmp_path):
    (tmp_path / "click.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "storelab", "--help"]
    run = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout and run.stdout.readline() == "loading\n"
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130 and errors == ""

"""A signal to whoever started a campaign reaches all of it; Ctrl-C while the program loads is quiet."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from paths import ROOT

# A stand-in for Snakemake: it starts another process, as a rule does, and waits for the end of what runs, as Snakemake does.
RUNS = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: None)
child = subprocess.Popen(["sleep", "77.25"])
print(child.pid, flush=True)
sys.exit(3 if child.wait() < 0 else 0)
"""


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_reaches_what_a_command_runs(tmp_path, told):
    after = tmp_path / "after"
    run = subprocess.Popen(
        [ROOT / "envs" / "forward.sh", sys.executable, "-c", RUNS],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "AFTER": f"touch {after}"},
        start_new_session=True,
    )
    assert run.stdout
    child = psutil.Process(int(run.stdout.readline()))
    assert not after.exists()
    run.send_signal(told)
    status = run.wait(20)
    assert not psutil.wait_procs([child], timeout=5)[1] and status != 0 and after.exists()
    assert (status == 3) == (told == signal.SIGTERM), "the status is the command's own"


def test_the_status_of_a_command_is_its_own():
    assert subprocess.run([ROOT / "envs" / "forward.sh", "bash", "-c", "exit 7"], check=False).returncode == 7


def test_make_hands_its_signal_on(tmp_path):
    """`make measure` is one process below make: what make hands on arrives."""
    makefile = (ROOT / "Makefile").read_text()
    line = next(n for n in makefile.splitlines() if n.startswith("SNAKEMAKE :="))
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "forward.sh").symlink_to(ROOT / "envs" / "forward.sh")
    (tmp_path / "run.py").write_text(RUNS)
    recipe = line.replace("snakemake --profile profiles/local", f"{sys.executable} run.py")
    (tmp_path / "Makefile").write_text(
        f"SHELL := /bin/bash\n{recipe}\nall:\n\t@export AFTER='touch after'; \\\n\t$(SNAKEMAKE) --config x=y\n"
    )
    command = ["make", "--no-print-directory", "all"]  # which make prints where another make (`make test`) calls it
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert run.stdout
    child = psutil.Process(int(run.stdout.readline()))
    run.terminate()
    run.wait(20)
    assert not psutil.wait_procs([child], timeout=10)[1]
    end = time.monotonic() + 10
    while not (tmp_path / "after").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert (tmp_path / "after").exists()


def test_ctrl_c_while_modules_are_loaded_is_quiet(tmp_path):
    (tmp_path / "click.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.Popen(
        [sys.executable, "-m", "storelab", "--help"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout and run.stdout.readline() == "loading\n"
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=20)
    assert run.returncode == 130 and errors == ""

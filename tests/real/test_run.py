"""`storelab run` with Snakemake in a project folder: a complete run, and Ctrl-C."""

import signal
import subprocess
import sys
import time

import projects
import pytest
from process_table import having

from storelab.core import integrity
from storelab.install import project

pytestmark = pytest.mark.real
SWEEP = {"workload": "put", "axes": {"engine": "fsspec", "object_size": "1 kB"}, "warm_up": "0 s"}


@pytest.fixture
def lab(tmp_path):
    project.init(tmp_path)
    (tmp_path / "store").mkdir()
    sweeps = {"up": SWEEP | {"duration": "1 s"}}
    projects.write(tmp_path, "small", {"here": {"kind": "directory", "path": str(tmp_path / "store")}}, sweeps)
    return tmp_path


def begin(folder, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "storelab", "run", "small", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def measured(folder) -> int:
    return len(integrity.heads(folder / "results" / "small" / "raw"))


def test_run_measures_and_writes_the_page(lab):
    run = begin(lab, "--no-paper", "sweeps.up.axes.clients=[1,2]", "limits.clients=8")
    text = run.communicate(timeout=200)[0]
    assert run.returncode == 0 and measured(lab) == 2, text
    assert not (lab / "results/small/tables").exists()
    for command in ("tables", "report"):
        projects.run(lab, command, "small")
    assert (lab / "results/small/report.html").stat().st_size > 1000
    again = begin(lab, "--no-paper", "sweeps.up.axes.clients=[1,2]", "limits.clients=8")
    text = again.communicate(timeout=200)[0]
    assert again.returncode == 0 and "0 of 2 points" in text and text.count("made in results/small:") == 1, text


def transferring(lab) -> None:
    """Wait until a point is measured."""
    until = time.monotonic() + 100
    while not list((lab / "results/small").glob("work/here/put/*/*/go")) and time.monotonic() < until:
        time.sleep(0.2)


def test_run_after_kill_9_continues_and_second_run_is_refused(lab):
    arguments = ("--no-paper", "sweeps.up.duration=8 s", "sweeps.up.warm_up=0 s")
    killed = begin(lab, *arguments)
    transferring(lab)
    second = begin(lab, *arguments)
    text = second.communicate(timeout=60)[0]
    assert second.returncode == 2 and f"by process {killed.pid}; wait" in text and text.count("\n") == 1, text
    killed.kill()
    killed.communicate(timeout=60)
    again = begin(lab, *arguments)
    text = again.communicate(timeout=200)[0]
    assert again.returncode == 0 and measured(lab) == 1, text
    assert "1 of 1 points" in text and "Traceback" not in text, text


def test_ctrl_c_stops_everything_with_130(lab):
    run = begin(lab, "sweeps.up.duration=100 s")
    transferring(lab)
    run.send_signal(signal.SIGINT)
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    text = run.communicate(timeout=100)[0]
    assert run.returncode == 130 and not measured(lab), text
    assert text.count("stopping") == 1 and "Traceback" not in text, text
    assert not (lab / "results/small/tables").exists(), "the run that makes the paper of the other points"
    assert not having(str(lab))

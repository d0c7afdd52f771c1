"""A disk that fills up, and a work folder that is removed, while a point is measured."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import managed
import projects
import psutil
import pytest

pytestmark = [pytest.mark.real, pytest.mark.heavy]
GET = {"workload": "get", "duration": "4 s", "warm_up": "100 ms", "objects": 16, "axes": {"workers": 2}}
KEYS = {"s5cmd": "one/get/workers~0002_rep~001", "obstore": "one/get/engine~obstore_workers~0002_rep~001"}


@pytest.fixture
def site(tmp_path, external, keys) -> dict[str, str]:
    """Return the keys of a campaign of one point for each engine on a running store; its data sets are staged."""
    sweeps = {e: GET | {"axes": GET["axes"] | {"engine": e}} for e in KEYS}
    projects.write(tmp_path, "lab", {"one": external}, sweeps)
    projects.run(tmp_path, "stage")
    return KEYS


def measured(folder: Path, key: str, size: str) -> subprocess.CompletedProcess[str]:
    """Measure a point whose results are on a disk of this size, together with the present ones."""
    small = f'mount -t tmpfs -o size={size} none results && cp -a kept/. results/ && exec "$@"'
    shutil.copytree(folder / "results", folder / "kept", dirs_exist_ok=True)
    line = ["unshare", "--mount", "sh", "-c", small, "sh", *projects.command("measure", key)]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="privilege: needs root to mount a small disk")
@pytest.mark.parametrize(("size", "engine"), [("24k", "s5cmd"), ("40k", "s5cmd"), ("40k", "obstore")])
def test_full_disk_is_reported_on_one_line(tmp_path, site, engine, size):
    """The disk is full before the start, or when the client writes its records."""
    done = measured(tmp_path, site[engine], size)
    shown = [line for line in done.stderr.splitlines() if line.startswith("storelab: ")]
    assert done.returncode in (1, 2) and len(shown) == 1 and "Traceback" not in done.stderr, done.stderr
    assert re.search(r"results/lab/\S+: no space left on device; free space on this disk", shown[0]), shown
    assert not (tmp_path / "results/lab/raw" / site[engine]).exists(), "the other disk held all of it"
    projects.run(tmp_path, "measure", site[engine])
    assert json.loads((tmp_path / "results/lab/raw" / site[engine] / "run.json").read_text())["valid"]


def test_work_folder_removed_in_mid_point(tmp_path, site):
    measuring = projects.begin(tmp_path, "measure", site["s5cmd"])
    work = tmp_path / "results/lab/work"
    managed.until(lambda: list(work.rglob("go")) or measuring.poll() is not None)
    time.sleep(1)  # clients are in the middle of their window of 4 s
    shutil.rmtree(work / "one")
    family = psutil.Process(measuring.pid).children(recursive=True)
    err, _ = measuring.communicate(timeout=60)
    assert measuring.returncode in (1, 2) and "Traceback" not in err, err
    shown = [line for line in err.splitlines() if line.startswith("storelab: ")]
    assert len(shown) == 1 and "work/one/get" in shown[0], err
    assert not psutil.wait_procs(family, timeout=10)[1]
    projects.run(tmp_path, "measure", site["s5cmd"])

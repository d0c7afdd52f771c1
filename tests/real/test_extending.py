"""The additions of docs/extending.md to a copy of the checkout are measured, tabled, drawn and typeset."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from paths import ROOT

pytestmark = [pytest.mark.real, pytest.mark.heavy]
BLOCK = re.compile(r"^```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CAMPAIGN = """
name: toy
stores_to_measure: [ram]
repetitions: 1
calibrate: false
sweeps:
  pauses: {workload: get, axes: {engine: posix, pause: [0, 5], object_size: 4 kB}, objects: 8, duration: 1 s, warm_up: 0 s}
  sizes: {workload: exists, axes: {object_size: 4 kB, clients: [1, 2, 3]}, objects: 8, duration: 1 s, warm_up: 0 s}
"""


def extend(house: Path) -> list[str]:
    """Apply the page's instructions in a copy of the checkout; return the files that they make or change."""
    touched = []
    for block in BLOCK.findall((ROOT / "docs/extending.md").read_text()):
        head, _, body = block.partition("\n")
        name = re.sub(r"^[#%] new file: ", "", head)
        if not re.fullmatch(r"(src|paper)/\S+", name):
            continue  # something to look at
        path = house / name
        if head != name:
            assert not path.exists(), f"{name} is there already"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)
        else:
            context, added = ([line[1:] for line in body.splitlines() if line[0] == mark] for mark in " +")
            lines = path.read_text().splitlines()
            assert lines.count(context[0]) == 1 and len(context) == 1, f"{name}: {context} is not there once"
            at = lines.index(context[0]) + 1
            path.write_text("\n".join([*lines[:at], *added, *lines[at:]]) + "\n")
        touched.append(name)
    return touched


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """Return a copy of the checkout with all additions of the page, measured: (folder, environment, changed files)."""
    folder = tmp_path_factory.mktemp("house")
    for part in ("src", "paper"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    touched = extend(folder)
    (folder / "campaigns").mkdir()
    (folder / "campaigns/toy.yaml").write_text(CAMPAIGN)
    memory = folder / "memory"
    stores = {"ram": {"kind": "memory", "path": str(memory)}}
    config = {"campaign": "toy", "stores": stores, "results": str(folder / "results"), "state": str(folder / "state")}
    (folder / "config.yaml").write_text(json.dumps(config))
    environ = os.environ | {"PYTHONPATH": str(folder / "src")}
    for key in storelab(folder, environ, "plan").split():
        if key.startswith("ram/"):
            storelab(folder, environ, "measure", key)
    storelab(folder, environ, "plan", "--write")
    for command in ("collect", "tables", "figures", "latex"):
        storelab(folder, environ, command)
    return folder, environ, touched


def storelab(folder: Path, environ: dict[str, str], *words: str) -> str:
    command, quiet = [sys.executable, "-m", "storelab", *words], {"capture_output": True, "text": True}
    done = subprocess.run(command, cwd=folder, env=environ, timeout=120, check=False, **quiet)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_extension_changes_only_the_documented_files(house):
    """A store is a file and its line, an engine a file and its entry, an axis its declaration."""
    _, _, touched = house
    stores = [t for t in touched if t.startswith("src/storelab/stores")]
    assert stores == ["src/storelab/stores/memory.py", "src/storelab/stores/__init__.py"]
    assert touched.count("src/storelab/core/engines.py") == 2
    assert touched.count("src/storelab/core/axes/clients.py") == 1
    assert touched.count("src/storelab/workloads/__init__.py") == 2


def test_everything_was_measured(house):
    folder, _, _ = house
    points = pd.read_csv(folder / "results/toy/tables/points.csv")
    assert (points["state"] == "ok").all() and set(points["store"]) == {"ram"} and len(points) == 5
    paused = points[points["workload"] == "get"].set_index("pause")["overlap_rate_per_s"]
    # 8 workers that pause for 5 ms before each operation: 1600 a second at most.
    assert paused[5] < 1600 and paused[0] > paused[5], "the engine uses the value of its axis"
    assert (points[points["workload"] == "exists"]["operations"] > 0).all()
    shown = (folder / "results/toy/tables/verdicts.csv").read_text()
    assert "pauses of 5 ms" in shown, "an axis has its own label"


def test_table_figure_and_section_exist(house):
    """Three files of one stem and the template; two lines name them."""
    folder, environ, touched = house
    assert [t for t in touched if "slowest" in t] == [
        *(f"src/storelab/analysis/{kind}/slowest.py" for kind in ("tables", "figures", "latex")),
        "paper/sections/slowest.tex",
    ]
    assert touched.count("src/storelab/analysis/latex/__init__.py") == touched.count("paper/paper.tex") == 1
    campaign = folder / "results/toy"
    table = pd.read_csv(campaign / "tables/slowest.csv")
    assert (table["slowest_median_ms"] > 0).all() and set(table["workload"]) == {"get", "exists"}
    assert (campaign / "figures/slowest.pdf").stat().st_size > 5000
    assert r"\section{The slowest operations}" in (campaign / "tex/paper.tex").read_text()
    assert "Slowest [ms]" in (campaign / "tex/table_slowest.tex").read_text()
    if shutil.which("latexmk"):
        storelab(folder, environ, "paper")
        assert (campaign / "paper.pdf").exists()

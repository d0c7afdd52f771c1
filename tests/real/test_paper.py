"""The paper is typeset from example records: complete, partial and empty campaigns."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from make_examples import CONFIG, LATENCY, REFUSED, make
from paths import ROOT

from storelab.analysis import latex
from storelab.analysis.figures import write
from storelab.analysis.latex import typeset
from storelab.analysis.parts import derived
from storelab.analysis.tables import build
from storelab.core.errors import UserError

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not shutil.which("latexmk"), reason="LaTeX (latexmk) is not installed: make tex"),
]


def paper(folder: Path, **changes) -> str:
    """Text of the paper of example records."""
    make(folder, **changes)
    build.build(folder)
    write.build(folder)
    latex.build(folder)
    pdf = typeset.build(folder)
    log = (folder / "tex/build/paper.log").read_text(errors="replace")
    assert not [line for line in log.splitlines() if "undefined" in line or "Overfull \\hbox" in line]
    return subprocess.run(["pdftotext", "-layout", pdf, "-"], capture_output=True, text=True, check=True).stdout


@pytest.mark.heavy
def test_complete_paper_is_made(tmp_path):
    """One point failed, and the store refuses half of the requests of some points."""
    refused = REFUSED | {"axes": REFUSED["axes"] | {"workers": 4}}  # separate points
    text = paper(tmp_path, sweeps=CONFIG["sweeps"] | {"refused": refused}, invalid=("refused",))
    flat = " ".join(text.split())
    for part in (
        "An example with imagined records",
        "A. Tester",
        "Abstract",
        "Raw data performance",
        "by entries",
        "Conclusions",
        "References",
        "Captured environment",
        "Points that failed",
        "758.42",
        "Figure 5",
        "range (minimum to maximum)",
        "client 3 did not arrive",
        "6 runs are invalid",
        "503 SlowDown",
        "Failed operations",
        "Operations that ended, by outcome",
        "more than failure_budget",
    ):
        assert part in flat, part
    assert "??" not in text and "[?]" not in text


@pytest.mark.heavy
def test_two_stores_seven_runs(tmp_path):
    text = paper(tmp_path, repetitions=7, stores_to_measure=["alpha", "beta"], failed=())
    assert "two storage systems" in text and "95 % interval" in text
    assert "No point failed" in text and "Points that failed" not in text


@pytest.mark.heavy
def test_sections_without_data_are_left_out(tmp_path):
    text = paper(tmp_path, repetitions=1, failed=("put", "read_entries"))
    assert "by entries" not in text and "uploads was" not in text and "Raw data performance" in text


def test_a_campaign_in_which_all_failed(tmp_path):
    text = paper(tmp_path, repetitions=1, failed=("put", "get", "read_entries"))
    assert "No point was measured" in text and "Raw data performance" not in text


@pytest.mark.heavy
def test_latency_has_a_section(tmp_path):
    text = paper(tmp_path, repetitions=2, failed=(), sweeps=LATENCY, calibrate=False)
    parts = {"Latency against concurrency, closed loop", "Latency against load, open loop", "Latency by quantile"}
    assert {p for p in parts | {"the system did not", "coordinated omission"} if p not in text} == set()


@pytest.mark.heavy
def test_only_reads_and_no_title(tmp_path):
    axes = {"entry_fraction": [100, 1], "volume_fraction": [100, 50]}
    sweeps = {"entries": {"workload": "read_entries", "duration": "4 s", "axes": axes}}
    text = paper(tmp_path, repetitions=1, failed=(), sweeps=sweeps, title="", authors=[])
    assert "Storage measurements" in text and "Volume" in text and "[%]" in text


@pytest.fixture(scope="module")
def once(tmp_path_factory) -> Path:
    """Return a campaign with one run of each point, and its paper. Tests that change it must copy it."""
    folder = tmp_path_factory.mktemp("once") / "a"
    paper(folder, repetitions=1)
    return folder


@pytest.mark.heavy
def test_same_records_same_pdf(tmp_path, once):
    """The folder may differ: no path and no time gets into the file."""
    paper(tmp_path / "b/c", repetitions=1)
    assert (once / "paper.pdf").read_bytes() == (tmp_path / "b/c/paper.pdf").read_bytes()


@pytest.mark.heavy
def test_latex_errors_are_one_line(tmp_path, once):
    shutil.copytree(once, tmp_path / "c")
    text = "\\documentclass{article}\n\\begin{document}\n\\undefinedmacro\n\\end{document}\n"
    (tmp_path / "c/tex/paper.tex").write_bytes(derived.tex(text))
    with pytest.raises(UserError, match=r"Undefined control sequence.*undefinedmacro"):
        typeset.build(tmp_path / "c")


@pytest.mark.heavy
def test_notebooks_run(tmp_path):
    """By nbconvert, with a kernel and without a user; unit/analysis/explore/test_notebooks.py has their content."""
    make(tmp_path, repetitions=1)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = os.environ | {"STORELAB_CAMPAIGN_DIR": str(tmp_path), "PATH": path}
    options = ["--log-level", "ERROR", "--execute", "--to", "html", "--output-dir", str(tmp_path)]
    command = ["jupyter", "nbconvert", *options, "notebooks/explore.ipynb", "notebooks/faults.ipynb"]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    explored, faults = ((tmp_path / f"{name}.html").read_text() for name in ("explore", "faults"))
    assert "read_entries" in explored and "<iframe" in explored and "latency_ms" in explored
    assert "This campaign has no faults" in faults and "widget" not in faults.partition("<body")[2]

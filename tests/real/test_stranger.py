"""A stranger's path: a fresh clone, the two commands, the paper without a network. Run by .ci/run."""

import os
import shutil
import subprocess
from pathlib import Path

import console_blocks
import pytest
from common import ROOT
from rebuild import bare_environ, copy_tree, without_network

pytestmark = pytest.mark.real
needs_latex = pytest.mark.skipif(not shutil.which("latexmk"), reason="LaTeX (latexmk) is not installed: make tex")


@needs_latex
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to take the network away")
def test_the_reference_paper_is_rebuilt_without_network_s5cmd_and_credentials(tmp_path):
    copy_tree(tmp_path / "copy")
    done = subprocess.run(
        [*without_network(), "make", "paper"],
        cwd=tmp_path / "copy",
        env=bare_environ(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "copy/results/reference/paper.pdf").read_bytes().startswith(b"%PDF")
    sums = subprocess.run(["git", "status", "--porcelain", "results"], cwd=ROOT, capture_output=True, text=True)
    assert sums.stdout == ""


@needs_latex
@pytest.mark.heavy
@pytest.mark.timeout(
    1200
)  # it installs, measures, and builds a paper: nine minutes on a slow machine, with three tests beside it
def test_what_the_readme_says_first_makes_a_paper_in_a_fresh_clone(tmp_path):
    """One run of each point: the other two are measured alike, and take four minutes."""
    console_blocks.copy(tmp_path)
    code, said = console_blocks.run(console_blocks.blocks()[0], tmp_path, limit_s=1000)
    assert code == 0, said[-5000:]
    clone = tmp_path / "storelab"
    made = clone / "results/demo"
    assert (made / "paper.pdf").read_bytes().startswith(b"%PDF")
    assert {p.stem for p in (made / "figures").glob("*.png")} >= {
        "throughput_download",
        "throughput_upload",
        "metadata_download",
        "metadata_upload",
        "entries",
    }
    assert not left_behind(clone), "a process of the demo is still there"
    assert "[1/" in said and "still" in said  # progress
    assert not (made / "raw/SEAL").exists()


def left_behind(folder: Path) -> list[str]:
    """Command lines of processes that work below `folder`."""
    out = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder) in (proc / "cmdline").read_text():
                out.append((proc / "cmdline").read_text())
        except OSError:
            continue
    return out

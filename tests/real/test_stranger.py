"""A stranger's path: a fresh clone and the first command of the README (the paper without a network:
test_stale_paper.py). Run by .ci/run.
"""

import shutil
from pathlib import Path

import console_blocks
import pytest

pytestmark = pytest.mark.real
needs_latex = pytest.mark.skipif(not shutil.which("latexmk"), reason="LaTeX (latexmk) is not installed: make tex")


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

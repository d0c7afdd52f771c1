"""The path of a new user: a fresh clone and the first command of the README. Run by .ci/run.

test_stale_paper.py builds the paper without a network.
"""

import shutil

import console_blocks
import pytest
from process_table import having

pytestmark = pytest.mark.real
needs_latex = pytest.mark.skipif(not shutil.which("latexmk"), reason="LaTeX (latexmk) is not installed: make tex")


@needs_latex
@pytest.mark.heavy
@pytest.mark.timeout(1200)  # it installs, measures, and builds a paper: nine minutes next to three other tests
def test_first_command_of_readme_makes_a_paper(tmp_path):
    """Measure one run of each point; two more are measured in the same way, and would take four minutes."""
    console_blocks.copy(tmp_path)
    code, output = console_blocks.run(console_blocks.blocks()[0], tmp_path, limit_s=1000)
    assert code == 0, output[-5000:]
    clone = tmp_path / "storelab"
    made = clone / "results/demo"
    assert (made / "paper.pdf").read_bytes().startswith(b"%PDF")
    figures = {f"{kind}_{way}" for kind in ("throughput", "metadata") for way in ("download", "upload")}
    assert {p.stem for p in (made / "figures").glob("*.png")} >= figures | {"entries"}
    assert not having(str(clone)), "a process of the demo is still there"
    assert "[1/" in output and "left in the campaign" in output  # progress
    assert not (made / "raw/SEAL").exists()

"""The joined paper of two campaigns is typeset in both layouts; nothing runs over a margin, nothing is undefined."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from paths import ROOT

import campaigns
from storelab.analysis import latex
from storelab.analysis.figures import catalogue
from storelab.analysis.figures import write as figures
from storelab.analysis.latex import typeset
from storelab.analysis.papers import write
from storelab.analysis.records.campaign import read_plan
from storelab.core.errors import UserError
from storelab.core.model import PAPERS

pytestmark = [
    pytest.mark.real,
    pytest.mark.heavy,
    pytest.mark.skipif(not shutil.which("latexmk"), reason="LaTeX (latexmk) is not installed: make tex"),
]
PROSE = ROOT / "paper"
NAMES, SHOWN = ("compared", "throughput2015"), 4


def text_of(pdf: Path, *options: str) -> str:
    return subprocess.run(["pdftotext", *options, pdf, "-"], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return the results of two campaigns and what was joined from them."""
    results = tmp_path_factory.mktemp("results")
    for name in NAMES:
        campaigns.copied(name, results / name)
        some = catalogue.names(read_plan(results / name))[:SHOWN]  # to draw takes longest
        figures.build(results / name, some)
        figures.index(results / name)
        latex.build(results / name)
    write.build([results / name for name in NAMES], results / "papers" / "+".join(NAMES))
    return results / "papers" / "+".join(NAMES)


@pytest.mark.parametrize("layout", ["article", "conference"])
def test_two_campaigns_make_one_paper(folder, layout):
    pdf = typeset.build(folder, layout)
    assert pdf.name == ("paper.pdf" if layout == "article" else "conference.pdf")
    log = (folder / "tex" / "build" / f"{PAPERS[layout]}.log").read_text(errors="replace")
    words = ("undefined", "multiply defined", "Float too large")
    assert not [line for line in log.splitlines() if any(word in line for word in words)]
    wide = [float(w) for w in re.findall(r"Overfull \\hbox \((\d+\.\d+)pt", log)]
    assert max(wide, default=0) < 1, wide
    first, whole = text_of(pdf, "-layout", "-l", "1"), text_of(pdf)
    for part in (
        "Abstract",
        "compared",
        "throughput2015",
        "MB/s",
        "180 Mbit/s",
    ):
        assert part in first, part
    parts = {"Differences in method", "Raw data performance", "The codes of this paper", "References"}
    assert {part for part in parts | {"storelab explain"} if part not in " ".join(whole.split())} == set()
    assert "??" not in whole and "[?]" not in whole
    shown = set(re.findall(r"\[([2-9A-HJKMNP-Z]{7})\]", whole))
    assert len(shown) > 5 and shown <= set((folder / "tables" / "codes.csv").read_text().replace("\n", ",").split(","))


def test_user_campaign_has_no_conference_layout(folder):
    with pytest.raises(UserError, match=r"has no layout 'conference'; run .storelab join. first"):
        typeset.build(folder.parents[1] / "compared", "conference")

"""The notebooks run on any campaign: also on one without reads, and on one without rates; they say what is not there."""

import ast
import json
from pathlib import Path

import golden
import matplotlib as mpl
import pytest
from make_examples import make

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
UPLOADS = {"small": {"workload": "put", "axes": {"engine": "obstore", "object_size": "4 kB", "clients": [1, 2]}}}


def said(notebook: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run its cells one after the other; what they show as text."""
    shown: list[str] = []
    monkeypatch.setenv("STORELAB_CAMPAIGN_DIR", str(folder))
    monkeypatch.setattr(
        "IPython.display.display", lambda *things, **_: shown.extend(str(getattr(t, "data", t)) for t in things)
    )
    names: dict[str, object] = {}
    with mpl.rc_context():
        for cell in json.loads(notebook.read_text())["cells"]:
            if cell["cell_type"] == "code":
                text = "".join(line for line in cell["source"] if not line.startswith("%"))
                *before, last = ast.parse(text).body
                if not isinstance(last, ast.Expr):
                    before, last = [*before, last], ast.parse("None").body[0]
                exec(compile(ast.Module(list(before), []), notebook.name, "exec"), names)
                value = eval(compile(ast.Expression(last.value), notebook.name, "eval"), names)
                shown.append(str(getattr(value, "data", value)))
        mpl.pyplot.close("all")
    return "\n".join(shown)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda p: p.stem)
def test_without_reads_a_notebook_says_so(notebook, tmp_path, monkeypatch):
    make(tmp_path / "c", failed=(), sweeps=UPLOADS, repetitions=1)
    assert "No reads in this campaign." in said(notebook, tmp_path / "c", monkeypatch)


@pytest.mark.heavy
@pytest.mark.parametrize("campaign", [*golden.campaigns(), "probes"])
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_on_every_campaign(notebook, campaign, tmp_path, monkeypatch):
    raw = ROOT / "results/probes/raw" if campaign == "probes" else golden.raw_of(campaign)
    (tmp_path / "c").mkdir()
    (tmp_path / "c/raw").symlink_to(raw)
    assert said(notebook, tmp_path / "c", monkeypatch)

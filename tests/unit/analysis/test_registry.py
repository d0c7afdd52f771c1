"""Check the registry of tables and LaTeX.

Names are known without slow imports, one file can be made separately, and a new subject is added by its files only.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from paths import ROOT

import campaigns
from storelab.analysis import latex, tables
from storelab.analysis.tables import build
from storelab.core.errors import UserError

TOY_TABLE = """
def table(points):
    return points.groupby("workload", as_index=False).agg(points=("key", "count"))

def numbers(table):
    return [("toy_workloads", len(table), "")]
"""


def without(script: str, *absent: str) -> str:
    """Return the modules of `absent` that a new interpreter has loaded after a script."""
    script += f"; import sys; print(sorted(set({absent}) & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_words_tables_and_latex_never_load_matplotlib():
    modules = ("parts.labels", *(f"tables.{Path(p).stem}" for p in Path(tables.__path__[0]).glob("*.py")))
    modules += tuple(f"latex.{Path(p).stem}" for p in Path(latex.__path__[0]).glob("*.py"))
    script = "; ".join(f"import storelab.analysis.{m.removesuffix('.__init__')}" for m in modules)
    assert without(script, "matplotlib", "seaborn") == "[]"


def test_names_are_known_without_loading_pandas():
    script = "from storelab.analysis.latex import TEX; from storelab.analysis.tables.build import NAMES"
    assert without(f"{script}; assert TEX and NAMES", "pandas", "scipy", "duckdb", "matplotlib") == "[]"


def test_every_function_of_latex_is_there_and_takes_what_exists():
    for function, *needs in (*latex.TABLES.values(), *latex.HEADLINES):
        assert callable(latex.load(function)) and {*needs} <= {*build.NAMES, "headlines"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a campaign with tables, without figures."""
    return campaigns.copied("one_each", tmp_path_factory.mktemp("registry") / "example")


def test_one_file_is_made_without_figures(folder):
    names = ["table_best", "table_environment"]
    assert latex.build(folder, names) == [folder / "tex" / f"{n}.tex" for n in names]
    assert "Download" in (folder / "tex" / "table_best.tex").read_text() and len([*(folder / "tex").iterdir()]) == 2
    with pytest.raises(KeyError, match="table_bets"):  # the CLI refuses such a name on a separate line
        latex.build(folder, ["table_bets"])
    with pytest.raises(UserError, match="storelab figures"):
        latex.build(folder, ["table_throughput", "paper"])
    assert not (folder / "tex" / "table_throughput.tex").exists(), "no partial file remains"


@pytest.mark.heavy
def test_a_subject_is_added_by_its_files(folder, tmp_path):
    """A module of tables and its lines in the lists; its number is printed by a template."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "toy.py").write_text(TOY_TABLE)
    shutil.copytree(ROOT / "paper", tmp_path / "paper")
    text = (tmp_path / "paper" / "sections" / "earlier.tex").read_text()
    (tmp_path / "paper" / "sections" / "earlier.tex").write_text("<< toy_workloads >> workloads of toys.\n" + text)
    script = f"""
from pathlib import Path
import storelab.analysis.tables as tables
tables.__path__.append({str(tmp_path / "tables")!r})
tables.TABLES["toy"] = tables.Maker("toy.table", "points")
tables.NUMBERS["toy"] = tables.Maker("toy.numbers", "toy")
from storelab.analysis.tables import build
from storelab.analysis import latex
from storelab.core import records
folder = Path({str(folder)!r})
build.build(folder)
records.write_summed(folder / "figures" / "index.json", {{"schema": 1, "figures": {{}}}})
latex.build(folder, paper_dir=Path({str(tmp_path / "paper")!r}))
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert list(pd.read_csv(folder / "tables" / "toy.csv")["workload"]) == ["get", "put", "read_entries"]
    assert "3 workloads of toys." in (folder / "tex" / "paper.tex").read_text()

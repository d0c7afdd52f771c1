"""What the targets of Snakemake rest on, held against what their commands truly load, read and run in a fresh interpreter."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import make_examples
import pytest
import yaml
from paths import ROOT

from storelab.analysis.figures import catalogue
from storelab.cli import code, workflow
from storelab.core import config
from storelab.core.errors import UserError

PACKAGE = ROOT / "src" / "storelab"
PLAN = json.loads((ROOT / "results/reference/raw/plan.json").read_text())
TARGETS = {"tables": code.TABLES, "figures": code.FIGURES, "latex": code.LATEX, "report": code.REPORT}
NOT_OF_THE_PAPER = {
    "explain",
    "artefact",
    "sizing",
    "capabilities_page",
    "compare",
    "explore",
    "history",
    "pages",
    "quick_page",
    "report/live",
}  # of the analysis, used by other commands

# Builds a target; tells the modules that are loaded then, the files of the package that were opened and are no code, and by figure
# those of whose functions ran. Nothing of `storelab.cli.code` takes part; nothing is rendered.
LOADED = """
import cProfile, importlib, json, sys
from pathlib import Path
opened, ran = set(), {}
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" and isinstance(args[0], str) else None)
module, folder, package = sys.argv[1:]
target = importlib.import_module(module)
if module.endswith("figures.write"):
    from matplotlib.figure import Figure
    from storelab.analysis.figures import catalogue
    Figure.savefig = lambda self, sink, **_: sink.write(b"-")
    for name in catalogue.names(json.loads(Path(folder, "raw/plan.json").read_text())):
        profile = cProfile.Profile(builtins=False)  # sees every function, and is much faster than sys.settrace
        profile.runcall(target.build, Path(folder), [name])
        ran[name] = {f.code.co_filename for f in profile.getstats() if not isinstance(f.code, str)}
    target.index(Path(folder))
else:
    target.build(Path(folder))
loaded = {m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] == "storelab" and getattr(m, "__file__", None)}
data = {p for p in opened if p.startswith(package) and not p.endswith((".py", ".pyc")) and Path(p).is_file()}
print(json.dumps({"files": sorted(loaded | data), "ran": {n: [f for f in s if f.startswith(package)] for n, s in ran.items()}}))
"""


def fresh(script: str, *arguments: str):
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def truth(tmp_path_factory) -> dict[str, dict]:
    """Target -> {files: what its command loads and reads of the package, ran: by figure the files with functions that ran}."""
    folder = tmp_path_factory.mktemp("dag")
    make_examples.make(folder, repetitions=1)
    return {name: fresh(LOADED, module, str(folder), str(PACKAGE)) for name, module in TARGETS.items()}


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def absolute(files) -> set[str]:
    return {str(ROOT / f) for f in files}


def test_a_notebook_rests_on_what_its_cells_import():
    files = code.notebook_code(ROOT / "notebooks" / "sparse.ipynb")
    assert "src/storelab/readplan/__init__.py" in files and set(code.rests_on("storelab.analysis.tables.build")) <= set(
        files
    )


@pytest.mark.heavy
@pytest.mark.parametrize("target", TARGETS)
def test_a_target_rests_on_all_that_its_command_loads_and_reads(truth, target):
    files = set(truth[target]["files"])
    assert len(files) > 25 and not files - absolute(code.rests_on(TARGETS[target]))


@pytest.mark.heavy
def test_published_numbers_count(truth):
    assert any(f.endswith(".csv") for f in truth["tables"]["files"])
    assert all(
        set(code.rests_on(code.TABLES)) >= {f for f in code.rests_on(m) if f.endswith(".csv")} for m in TARGETS.values()
    )


def test_no_target_rests_on_the_measuring_side_or_the_command_line():
    for module in (*TARGETS.values(), code.TYPESET, code.JOINED):
        rooms = {Path(f).relative_to("src/storelab").parts[0] for f in code.rests_on(module)}
        assert rooms <= {"__init__.py", "analysis", "core"}


def test_every_module_of_the_analysis_is_rested_on():
    modules = (*TARGETS.values(), code.TYPESET, code.JOINED)
    every = {f for module in modules for f in absolute(code.rests_on(module))}
    here = PACKAGE / "analysis"
    outside = {p.relative_to(here).with_suffix("").parts for p in here.rglob("*.py") if str(p) not in every}
    assert {"/".join(parts[: 1 + (parts[0] == "report")]) for parts in outside} == NOT_OF_THE_PAPER


@pytest.mark.heavy
def test_a_figure_rests_on_all_that_runs_while_it_is_drawn(truth):
    ran = truth["figures"]["ran"]
    assert sum(len(files) > 5 for files in ran.values()) > 3
    whole = set(code.rests_on(code.FIGURES))
    for name, files in ran.items():
        mine = code.figure_code(PLAN, name)
        assert not set(files) - absolute(mine), name
        assert set(mine) <= whole, f"{name} would be stale while the index is not"


def test_a_figure_does_not_rest_on_what_other_figures_own():
    owned = {name: {f"src/{m.replace('.', '/')}.py" for m in catalogue.modules(name)} for name in catalogue.names(PLAN)}
    assert any(owned.values())
    for name, mine in owned.items():
        needed = set(code.rests_on(*catalogue.modules(name)))
        assert not (set().union(*owned.values()) - mine - needed) & set(code.figure_code(PLAN, name)), name


def test_an_unknown_figure_is_named_with_those_that_are_there():
    with pytest.raises(UserError, match="there is no figure 'nonsense'"):
        code.figure_code(PLAN, "nonsense")


def test_only_without_type_checking_and_without_what_is_left_out():
    class_only = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from storelab.core import units\n"
    assert not [
        n for n in code._running(ast.parse(class_only)) if isinstance(n, ast.ImportFrom) and n.module == "storelab.core"
    ]
    less = code.rests_on(code.LATEX, without=[code.TABLES])
    assert "src/storelab/analysis/tables/build.py" not in less and "src/storelab/analysis/latex/write.py" in less
    with pytest.raises(KeyError, match=r"storelab\.nowhere"):
        code.rests_on("storelab.nowhere")


def test_names_are_read_without_loading():
    from storelab.analysis.latex import write
    from storelab.analysis.tables import build

    assert code.constant(code.TABLES, "NAMES") == tuple(build.NAMES)
    assert code.constant(code.LATEX, "TEX") == tuple(write.TEX)
    script = "import json, sys, storelab.cli.code as c; c.constant(c.TABLES, 'NAMES'); print(json.dumps('pandas' in sys.modules))"
    assert fresh(script) is False


@pytest.fixture
def drawn(tmp_path):
    """A campaign with all figures drawn just now; the first is empty."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "figures").mkdir()
    (tmp_path / "tables" / "points.csv").write_text("")
    for i, name in enumerate(catalogue.names(PLAN)):
        for kind in ("json",) if i == 0 else ("json", "pdf", "png"):
            (tmp_path / "figures" / f"{name}.{kind}").write_text(
                json.dumps({"empty": True} if i == 0 else {"pdf": f"{name}.pdf"})
            )
    return tmp_path


def test_stale_are_figures_older_than_tables_or_code_or_in_part_missing(drawn, monkeypatch):
    first, second, third, fourth, *_ = names = catalogue.names(PLAN)
    assert code.stale_figures(drawn, PLAN) == []
    (drawn / "figures" / f"{second}.png").unlink()
    os.utime(drawn / "figures" / f"{third}.pdf", (1, 1))
    assert code.stale_figures(drawn, PLAN) == [second, third]
    edited = drawn / "edited.py"
    edited.write_text("")
    os.utime(edited, (2**31, 2**31))
    was = code._code_of
    monkeypatch.setattr(code, "_code_of", lambda name, names: [*was(name, names), *[str(edited)] * (name == fourth)])
    assert code.stale_figures(drawn, PLAN) == [second, third, fourth]
    assert code.stale_figures(drawn, PLAN, ["pdf"]) == [third, fourth]  # a joined paper needs no PNG
    os.utime(drawn / "tables" / "points.csv", (2**31, 2**31))
    assert code.stale_figures(drawn, PLAN) == names and first in names


def test_an_index_does_not_stand_for_a_figure_that_is_gone(drawn):
    second = catalogue.names(PLAN)[1]
    index, sections = drawn / "figures" / "index.json", drawn / "tex" / "sections.tex"
    sections.parent.mkdir()

    def mark(kinds: Sequence[str] = ("pdf", "png")) -> tuple[bool, bool]:
        index.write_text(json.dumps({"figures": {second: {"pdf": f"{second}.pdf"}}}))
        sections.write_text("")
        workflow.forget_empty_marks(drawn, kinds)
        return index.exists(), sections.exists()

    assert mark() == (True, False)
    for name in code.constant(code.LATEX, "TEX"):
        (sections.parent / f"{name}.tex").write_text("")
    assert mark() == (True, True)
    (drawn / "figures" / f"{second}.png").unlink()
    assert mark() == (False, True) and mark(["pdf"]) == (True, True)
    (drawn / "figures" / f"{second}.pdf").unlink()
    assert mark() == (False, True)


def test_the_default_profile_sets_nothing_that_another_sets():
    profiles = {p.parent.name: yaml.safe_load(p.read_text()) for p in (ROOT / "profiles").glob("*/config.yaml")}
    default = profiles.pop("default")
    assert default["cores"] == "all" and not {"config", "configfile"} & set(default)
    assert profiles and not {key for other in profiles.values() for key in other} & set(default)


def test_a_clone_is_set_to_the_sealed_campaign():
    light = config.load_rebuild(ROOT / "config.yaml")
    assert not light.measure and (ROOT / light.results / light.name / "raw" / "SEAL").exists()


def test_every_rule_says_what_it_does_and_keeps_a_log():
    rules = {
        name: body
        for path in (ROOT / "rules").glob("*.smk")
        for name, body in re.findall(r"^rule (\w+):\n((?:    .*\n|\n)+)", path.read_text(), re.MULTILINE)
    }
    begun = [
        line
        for path in (ROOT / "rules").glob("*.smk")
        for line in path.read_text().splitlines()
        if line.startswith("rule ")
    ]
    assert {f"rule {name}:" for name in rules} == set(begun) and len(begun) == len(rules)
    for name, body in rules.items():
        sections = set(re.findall(r"^    (\w+):", body, re.MULTILINE))
        assert {"output", "log", "message", "shell"} <= sections, name
        assert "logged {log}" in body, name


def test_workflow_files_stay_short():
    lengths = {path: len(path.read_text().splitlines()) for path in (ROOT / "rules").glob("*.smk")}
    assert len((ROOT / "Snakefile").read_text().splitlines()) < 90 and max(lengths.values()) < 120

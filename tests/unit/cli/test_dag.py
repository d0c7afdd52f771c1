"""Dependencies of Snakemake targets, compared with what their commands load, read and run in a new process."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from paths import ROOT

from campaigns import copied
from storelab.analysis.figures import catalogue
from storelab.analysis.parts import derived
from storelab.cli import code, workflow
from storelab.core import config, records
from storelab.core.errors import UserError

PACKAGE = ROOT / "src" / "storelab"
PLAN = json.loads((ROOT / "results/reference/raw/plan.json").read_text())
TARGETS = {"tables": code.TABLES, "figures": code.FIGURES, "latex": code.LATEX, "report": code.REPORT}
# Modules of the analysis that other commands use.
NOT_OF_THE_PAPER = {"explain", "artefact", "sizing", "capabilities_page", "compare", "explore"}
NOT_OF_THE_PAPER |= {"history", "pages", "quick_page", "report/live"}

# Builds a target and prints the modules that are loaded then, the data files of the package that were opened, and for
# each figure the files whose functions ran. It does not use `storelab.cli.code`, and renders nothing.
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
modules = [m for n, m in sys.modules.items() if n.partition(".")[0] == "storelab"]
loaded = {m.__file__ for m in modules if getattr(m, "__file__", None)}
data = {p for p in opened if p.startswith(package) and not p.endswith((".py", ".pyc")) and Path(p).is_file()}
ran = {n: [f for f in s if f.startswith(package)] for n, s in ran.items()}
print(json.dumps({"files": sorted(loaded | data), "ran": ran}))
"""


def fresh(script: str, *arguments: str):
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def truth(tmp_path_factory) -> dict[str, dict]:
    """Return target -> {files: what its command loads and reads, ran: for each figure the files that ran}."""
    folder = copied("example", tmp_path_factory.mktemp("dag"))
    return {name: fresh(LOADED, module, str(folder), str(PACKAGE)) for name, module in TARGETS.items()}


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def absolute(files) -> set[str]:
    return {str(ROOT / f) for f in files}


def test_notebook_depends_on_the_imports_of_its_cells():
    files = set(code.notebook_code(ROOT / "notebooks" / "sparse.ipynb"))
    assert "src/storelab/readplan/__init__.py" in files
    assert files >= set(code.rests_on("storelab.analysis.tables.build"))


@pytest.mark.heavy
def test_target_depends_on_all_that_its_command_loads(truth):
    """Data files count too: the published numbers."""
    for target, module in TARGETS.items():
        files = set(truth[target]["files"])
        assert len(files) > 25 and not files - absolute(code.rests_on(module)), target
        published = {f for f in code.rests_on(module) if f.endswith(".csv")}
        assert published <= set(code.rests_on(code.TABLES)), target
    assert any(f.endswith(".csv") for f in truth["tables"]["files"])


def test_targets_depend_only_on_analysis_and_core():
    for module in (*TARGETS.values(), code.TYPESET, code.JOINED):
        rooms = {Path(f).relative_to("src/storelab").parts[0] for f in code.rests_on(module)}
        assert rooms <= {"__init__.py", "analysis", "core"}


def test_targets_depend_on_the_whole_analysis():
    modules = (*TARGETS.values(), code.TYPESET, code.JOINED)
    every = {f for module in modules for f in absolute(code.rests_on(module))}
    here = PACKAGE / "analysis"
    outside = {p.relative_to(here).with_suffix("").parts for p in here.rglob("*.py") if str(p) not in every}
    assert {"/".join(parts[: 1 + (parts[0] == "report")]) for parts in outside} == NOT_OF_THE_PAPER


@pytest.mark.heavy
def test_figure_depends_on_all_code_that_draws_it(truth):
    ran = truth["figures"]["ran"]
    assert sum(len(files) > 5 for files in ran.values()) > 3
    whole = set(code.rests_on(code.FIGURES))
    for name, files in ran.items():
        mine = code.figure_code(PLAN, name)
        assert not set(files) - absolute(mine), name
        assert set(mine) <= whole, f"{name} would be stale while the index is not"


def test_figure_ignores_modules_of_other_figures():
    owned = {name: {f"src/{m.replace('.', '/')}.py" for m in catalogue.modules(name)} for name in catalogue.names(PLAN)}
    assert any(owned.values())
    for name, mine in owned.items():
        needed = set(code.rests_on(*catalogue.modules(name)))
        assert not (set().union(*owned.values()) - mine - needed) & set(code.figure_code(PLAN, name)), name


def test_unknown_figure_is_refused():
    with pytest.raises(UserError, match="'nonsense'"):
        code.figure_code(PLAN, "nonsense")


def test_type_only_imports_are_ignored():
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from storelab.core import units\n"
    found = [n.module for n in code._running(ast.parse(text)) if isinstance(n, ast.ImportFrom)]
    assert found == ["typing"]
    less = code.rests_on(code.LATEX, without=[code.TABLES])
    assert "src/storelab/analysis/tables/build.py" not in less and "src/storelab/analysis/latex/write.py" in less
    with pytest.raises(KeyError, match=r"storelab\.nowhere"):
        code.rests_on("storelab.nowhere")


def test_constants_are_read_without_imports():
    from storelab.analysis.latex import write
    from storelab.analysis.tables import build

    assert code.constant(code.TABLES, "NAMES") == tuple(build.NAMES)
    assert code.constant(code.LATEX, "TEX") == tuple(write.TEX)
    script = "import json, sys, storelab.cli.code as c; c.constant(c.TABLES, 'NAMES')"
    assert fresh(f"{script}; print(json.dumps('pandas' in sys.modules))") is False


@pytest.fixture
def drawn(tmp_path):
    """A campaign with all figures drawn just now; the first is empty."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "figures").mkdir()
    (tmp_path / "tables" / "points.csv").write_text("")
    for i, name in enumerate(catalogue.names(PLAN)):
        kinds = ("pdf", "png") if i else ()
        for kind in kinds:
            (tmp_path / "figures" / f"{name}.{kind}").write_text(name)
        entry = {"empty": not i} | {kind: f"{name}.{kind}" for kind in kinds}
        made = derived.with_pictures(tmp_path / "figures", entry, kinds)
        records.write_summed(tmp_path / "figures" / f"{name}.json", made)
    return tmp_path


def test_old_or_partial_figures_are_stale(drawn, monkeypatch):
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


def test_marks_of_missing_files_are_removed(drawn):
    second = catalogue.names(PLAN)[1]
    index, paper = drawn / "figures" / "index.json", drawn / "tex" / "paper.tex"
    paper.parent.mkdir()

    def mark(kinds: Sequence[str] = ("pdf", "png")) -> tuple[bool, bool]:
        records.write_summed(index, {"figures": {second: {"pdf": f"{second}.pdf"}}})
        paper.write_bytes(derived.tex(""))
        workflow.forget_empty_marks(drawn, kinds)
        return index.exists(), paper.exists()

    assert mark() == (True, False)
    for name in code.constant(code.LATEX, "TEX"):
        (paper.parent / f"{name}.tex").write_bytes(derived.tex(""))
    assert mark() == (True, True)
    (drawn / "figures" / f"{second}.png").unlink()
    assert mark() == (False, True) and mark(["pdf"]) == (True, True)
    (drawn / "figures" / f"{second}.pdf").unlink()
    assert mark() == (False, True)


def test_profiles_share_no_key_with_the_default():
    profiles = {p.parent.name: yaml.safe_load(p.read_text()) for p in (ROOT / "profiles").glob("*/config.yaml")}
    default = profiles.pop("default")
    assert default["cores"] == "all" and not {"config", "configfile"} & set(default)
    assert profiles and not {key for other in profiles.values() for key in other} & set(default)


def test_clone_is_set_to_a_sealed_campaign():
    light = config.load_rebuild(ROOT / "config.yaml")
    assert not light.measure and (ROOT / light.results / light.name / "raw" / "SEAL").exists()


def test_rules_have_message_and_log():
    text = "".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    rules = dict(re.findall(r"^rule (\w+):\n((?:    .*\n|\n)+)", text, re.MULTILINE))
    assert sorted(rules) == sorted(re.findall(r"^rule (\w+)", text, re.MULTILINE))
    for name, body in rules.items():
        sections = set(re.findall(r"^    (\w+):", body, re.MULTILINE))
        assert sections >= {"output", "log", "message", "shell"} and "logged {log}" in body, name

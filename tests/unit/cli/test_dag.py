"""Dependencies of Snakemake targets, compared with what their commands load, read and run in a new process."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from paths import ROOT

from campaigns import copied
from storelab.analysis.figures import catalogue
from storelab.analysis.parts import derived
from storelab.cli import workflow
from storelab.core import records
from storelab.stores import config

PACKAGE = ROOT / "src" / "storelab"
PLAN = json.loads((ROOT / "results/reference/raw/plan.json").read_text())
TARGETS = {  # stage -> the module or package that makes it
    name: f"storelab.analysis.{module}"
    for name, module in {
        "tables": "tables.build",
        "figures": "figures.write",
        "latex": "latex",
        "report": "report.build",
    }.items()
}
# Modules of the analysis that other commands use.
NOT_OF_THE_PAPER = {"explain", "artefact", "sizing", "explore", "history", "pages"}

# Builds a target and prints the modules that are loaded then, and the data files of the package that were opened. It
# does not use `storelab.cli.workflow`, and renders nothing.
LOADED = """
import importlib, json, sys
from pathlib import Path
opened = set()
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" and isinstance(args[0], str) else None)
module, folder, package = sys.argv[1:]
target = importlib.import_module(module)
if module.endswith("figures.write"):
    from matplotlib.figure import Figure
    Figure.savefig = lambda self, sink, **_: sink.write(b"-")
target.build(Path(folder))
modules = [m for n, m in sys.modules.items() if n.partition(".")[0] == "storelab"]
loaded = {m.__file__ for m in modules if getattr(m, "__file__", None)}
data = {p for p in opened if p.startswith(package) and not p.endswith((".py", ".pyc")) and Path(p).is_file()}
print(json.dumps({"files": sorted(loaded | data)}))
"""


def fresh(script: str, *arguments: str):
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def truth(tmp_path_factory) -> dict[str, dict]:
    """Return target -> {files: what its command loads and reads}."""
    folder = copied("example", tmp_path_factory.mktemp("dag"))
    return {name: fresh(LOADED, module, str(folder), str(PACKAGE)) for name, module in TARGETS.items()}


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def absolute(stage: str) -> set[str]:
    return {str(ROOT / f) for f in workflow.source_files(stage)}


@pytest.mark.heavy
def test_target_depends_on_all_that_its_command_loads(truth):
    """Data files, which are the published numbers, count too."""
    for stage in TARGETS:
        files = set(truth[stage]["files"])
        assert len(files) > 25 and not files - absolute(stage), stage
    assert any(f.endswith(".csv") for f in truth["tables"]["files"])


def test_stages_depend_only_on_analysis_and_core():
    for stage in set(workflow.STAGES) - {"notebooks"}:
        rooms = {Path(f).relative_to("src/storelab").parts[0] for f in workflow.source_files(stage)}
        assert rooms == {"__init__.py", "analysis", "core"}


def test_stages_depend_on_the_whole_analysis():
    every = {f for stage in set(workflow.STAGES) - {"notebooks"} for f in absolute(stage)}
    here = PACKAGE / "analysis"
    outside = {p.relative_to(here).with_suffix("").parts[0] for p in here.rglob("*.py") if str(p) not in every}
    assert outside == NOT_OF_THE_PAPER
    assert {str(p) for p in here.rglob("*.py")} <= absolute("notebooks")


def test_names_are_found_without_pandas():
    from storelab.analysis import latex
    from storelab.analysis.tables import build

    assert workflow.table_names() == tuple(build.NAMES) and workflow.tex_names() == tuple(latex.TEX)
    script = "import json, sys; from storelab.cli import workflow as w; w.table_names()"
    assert fresh(f"{script}; print(json.dumps('pandas' in sys.modules))") is False


@pytest.fixture
def drawn(tmp_path):
    """Return a campaign with all figures drawn just now; the first is empty."""
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
    first, second, third, *_ = names = catalogue.names(PLAN)
    assert workflow.stale_figures(drawn, PLAN) == []
    (drawn / "figures" / f"{second}.png").unlink()
    os.utime(drawn / "figures" / f"{third}.pdf", (1, 1))
    assert workflow.stale_figures(drawn, PLAN) == [second, third]
    edited = drawn / "edited.py"
    edited.write_text("")
    os.utime(edited, (2**31, 2**31))
    assert workflow.stale_figures(drawn, PLAN, ["pdf"]) == [third]  # a joined paper needs no PNG
    was = workflow.source_files
    with monkeypatch.context() as patch:
        patch.setattr(workflow, "source_files", lambda stage: [*was(stage), str(edited)])
        assert workflow.stale_figures(drawn, PLAN) == names and first in names
    assert workflow.stale_figures(drawn, PLAN) == [second, third]
    os.utime(drawn / "tables" / "points.csv", (2**31, 2**31))
    assert workflow.stale_figures(drawn, PLAN) == names and first in names


def test_figures_from_future_are_stale_after_new_tables(drawn):
    """A clock that was an hour ahead does not make old figures look newer than today's tables."""
    names, later = catalogue.names(PLAN), time.time() + 3600
    for path in (drawn / "figures").iterdir():
        os.utime(path, (later, later))
    assert workflow.stale_figures(drawn, PLAN) == []
    derived.outdate_future(drawn)
    assert workflow.stale_figures(drawn, PLAN) == names
    assert {path.stat().st_mtime for path in (drawn / "figures").iterdir()} == {derived.OLD_S}


def test_times_in_future_are_corrected_for_snakemake(drawn, capsys):
    later = time.time() + 3600
    inputs = [drawn / name for name in ("raw/plan.json", "raw/SHA256SUMS", "status/staged/a/b.done", "links.yaml")]
    made = [drawn / name for name in ("figures/index.json", "tex/paper.tex", "paper.pdf", "report.html")]
    for path in (*inputs, *made, kept := drawn / "raw" / "run.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        os.utime(path, (later, later))
    earlier = (drawn / "tables" / "points.csv").stat().st_mtime_ns
    workflow.correct_times(drawn)
    assert f"{inputs[0]} (and 3 more files): has a time in the future" in capsys.readouterr().err
    assert all(0 <= time.time() - path.stat().st_mtime < 60 for path in inputs)
    assert {path.stat().st_mtime for path in made} == {derived.OLD_S}
    assert kept.stat().st_mtime == pytest.approx(later, abs=1)  # not an input of a rule
    assert (drawn / "tables" / "points.csv").stat().st_mtime_ns == earlier
    workflow.correct_times(drawn)
    assert capsys.readouterr().err == ""


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
    for name in workflow.tex_names():
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

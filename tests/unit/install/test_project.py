"""`storelab init`: a project folder from the files that come with storelab; nothing is written over. What the wheel has for it. The version."""

import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from paths import ROOT

from storelab import __version__
from storelab.cli import artefact, code
from storelab.core import config
from storelab.core.errors import UserError
from storelab.host import environment
from storelab.install import golang, project

HOOK = runpy.run_path(str(ROOT / "hatch_build.py"))["Shipped"]
PACKAGE = tomllib.loads((ROOT / "pyproject.toml").read_text())


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def shipped_in_the_wheel() -> dict[str, str]:
    """Path in the checkout -> path in the wheel, as the build hook has them."""
    asked: dict = {"force_include": {}}
    hook = SimpleNamespace(
        target_name="wheel", root=str(ROOT), config=PACKAGE["tool"]["hatch"]["build"]["hooks"]["custom"]
    )
    HOOK.initialize(hook, "standard", asked)
    return asked["force_include"]


def test_a_project_has_all_that_the_rules_need(tmp_path):
    folder = tmp_path / "lab"
    said = CliRunner().invoke(artefact.init, [str(folder)])
    assert said.exit_code == 0 and f"{folder}: {len(content(folder))} files written" in said.output
    here = content(folder)
    for name in (
        "Snakefile",
        "rules/tables.smk",
        "profiles/local/config.yaml",
        "campaigns/demo.yaml",
        "paper/paper.tex",
    ):
        assert here[name] == (ROOT / name).read_bytes()
    assert {"Makefile", "envs/requirements.lock", "envs/setup.sh", "notebooks/explore.ipynb"} <= here.keys()
    assert not {n for n in here if n.startswith(("src/", "tests/", "envs/go/", "loadgen/", "results/"))}
    assert (folder / "envs/setup.sh").stat().st_mode & 0o100, "the Makefile calls it"
    included = set(re.findall(r'include: "(.+)"', here["Snakefile"].decode()))
    assert included and included <= here.keys()


def test_a_new_project_begins_with_a_campaign_that_can_be_measured(tmp_path):
    project.init(tmp_path)
    ours, theirs = (config.load(root / "config.yaml") for root in (ROOT, tmp_path))
    assert (ours.campaign, theirs.campaign, theirs.name) == ("reference", "demo", "demo")
    assert theirs.stores == {n: s for n, s in ours.stores.items() if n != "nullserver"}, (
        "the demonstration is not calibrated"
    )
    assert config.names_of_campaigns(tmp_path) == config.names_of_campaigns(ROOT)


def test_init_writes_over_nothing(tmp_path):
    project.init(tmp_path)
    before = content(tmp_path)
    assert project.init(tmp_path) == [], "the same is no obstacle"
    (tmp_path / "rules/tables.smk").unlink()
    assert project.init(tmp_path) == ["rules/tables.smk"] and content(tmp_path) == before
    (tmp_path / "config.yaml").write_text("mine")
    (tmp_path / "Makefile").unlink()
    with pytest.raises(UserError, match=r"config.yaml: is there already; give a new folder"):
        project.init(tmp_path)
    assert not (tmp_path / "Makefile").exists(), "nothing is written then"


@pytest.mark.parametrize("taken", ["", "rules", "Snakefile/inside", "envs"])
def test_something_else_in_the_way(tmp_path, taken):
    folder = tmp_path / "lab"
    place = folder / taken
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("mine")
    with pytest.raises(UserError, match="is there already"):
        project.init(folder)
    assert content(tmp_path) == {place.relative_to(tmp_path).as_posix(): b"mine"}


def test_a_link_that_leads_nowhere_is_in_the_way(tmp_path):
    (tmp_path / "Snakefile").symlink_to(tmp_path / "gone")
    with pytest.raises(UserError, match="Snakefile: is there already"):
        project.init(tmp_path)


def test_the_wheel_has_what_a_project_and_install_need():
    inside = {path.removeprefix("storelab/project/") for path in shipped_in_the_wheel().values()}
    assert set(project.files(ROOT)) | {"LICENSE"} <= inside
    assert {"loadgen/go.mod", "loadgen/go.sum", "envs/hdfs/pom.xml", "envs/go/requirements.txt"} <= inside
    go = {p.relative_to(ROOT).as_posix() for p in (ROOT / "loadgen").rglob("*.go") if not p.name.endswith("_test.go")}
    assert {name for name in inside if name.endswith(".go")} == go
    assert not [name for name in inside if "__pycache__" in name or "/." in name or name.startswith("results")]


def test_an_editable_install_copies_nothing():
    asked: dict = {"force_include": {}}
    HOOK.initialize(SimpleNamespace(target_name="wheel"), "editable", asked)
    HOOK.initialize(SimpleNamespace(target_name="sdist"), "standard", asked)
    assert asked == {"force_include": {}}


def test_in_a_wheel_the_files_lie_in_the_package(tmp_path, monkeypatch):
    for source, name in shipped_in_the_wheel().items():
        if "/campaigns/" in name or name.endswith(("Snakefile", "config.yaml")):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(Path(source).read_bytes())
    monkeypatch.setattr(project, "PACKED", tmp_path / "storelab/project")
    assert project.shipped("Snakefile") == tmp_path / "storelab/project/Snakefile"
    assert {"Snakefile", "campaigns/demo.yaml"} <= set(project.init(tmp_path / "lab"))


def test_what_is_shipped_is_no_data_of_a_table(tmp_path, monkeypatch):
    """A target would rest on every campaign file of a wheel."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project/Snakefile").write_text("")
    (tmp_path / "claims.yaml").write_text("")
    monkeypatch.setattr(code, "SHIPPED", tmp_path / "project")
    assert code._data(tmp_path) == [tmp_path / "claims.yaml"]


def test_a_storelab_without_its_files_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(project, "CHECKOUT", tmp_path)
    with pytest.raises(UserError, match="Snakefile is not there; install a wheel of storelab, or a whole checkout"):
        project.init(tmp_path / "lab")
    program = golang.Program("loadgen", "m", "p", "", 0, own=tmp_path / "loadgen")
    with pytest.raises(UserError, match="the sources of loadgen are not there"):
        golang.pinned(program)


def test_a_wheel_in_a_repository_of_something_else_has_no_commit(tmp_path, monkeypatch):
    """An environment often lies in the folder of a project, which is a repository: its commit is not storelab's."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "mine"]):
        subprocess.run([*git, *command], check=True)
    assert re.fullmatch(r"[0-9a-f]{12}(-dirty)?", environment.git_commit())
    place = tmp_path / ".venv/lib/python3.11/site-packages/storelab/host/environment.py"
    place.parent.mkdir(parents=True)
    monkeypatch.setattr(environment, "__file__", str(place))
    assert environment.git_commit() == ""


def test_the_version_stands_in_one_place_and_has_its_notes():
    assert PACKAGE["project"]["dynamic"] == ["version"] and "version" not in PACKAGE["project"]
    assert "\nversion:" not in (ROOT / "CITATION.cff").read_text()
    notes = re.findall(r"^## (\S+)(?: \((.+)\))?$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert notes[0][0] == __version__
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version, _ in notes)
    assert all(re.fullmatch(r"unreleased|\d{4}-\d{2}-\d{2}", when) for _, when in notes)
    assert [when for _, when in notes].count("unreleased") <= 1

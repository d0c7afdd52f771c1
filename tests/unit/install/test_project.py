"""`storelab init` writes a project folder and overwrites nothing; the wheel ships what it needs; the version."""

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
from storelab.cli import artefact, workflow
from storelab.core import config
from storelab.core.errors import UserError
from storelab.host import environment
from storelab.install import golang, project
from storelab.stores import config as stores_config

HOOK = runpy.run_path(str(ROOT / "hatch_build.py"))["Shipped"]
CAMPAIGN = "campaigns/demo.yaml"
PACKAGE = tomllib.loads((ROOT / "pyproject.toml").read_text())


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def shipped_in_the_wheel() -> dict[str, str]:
    """Return path in the checkout -> path in the wheel, as the build hook has them."""
    asked: dict = {"force_include": {}}
    config = PACKAGE["tool"]["hatch"]["build"]["hooks"]["custom"]
    hook = SimpleNamespace(target_name="wheel", root=str(ROOT), config=config)
    HOOK.initialize(hook, "standard", asked)
    return asked["force_include"]


def test_project_has_all_files_of_the_rules(tmp_path):
    folder = tmp_path / "lab"
    done = CliRunner().invoke(artefact.init, [str(folder)])
    here = content(folder)
    assert done.exit_code == 0 and f"{folder}: {len(here)} files" in done.output
    for name in (
        "Snakefile",
        "rules/tables.smk",
        "profiles/local/config.yaml",
        CAMPAIGN,
        "paper/paper.tex",
    ):
        assert here[name] == (ROOT / name).read_bytes()
    assert {"Makefile", "envs/requirements.lock", "envs/setup.sh", "notebooks/explore.ipynb"} <= here.keys()
    assert not {n for n in here if n.startswith(("src/", "tests/", "envs/go/", "loadgen/", "results/"))}
    assert (folder / "envs/setup.sh").stat().st_mode & 0o100, "the Makefile calls it"
    named = {
        name: re.match(rb"# yaml-language-server: \$schema=(.+)", here[name]) for name in ("config.yaml", CAMPAIGN)
    }
    assert all((folder / name).parent.joinpath(found[1].decode()).is_file() for name, found in named.items() if found)
    assert all(named.values())
    included = set(re.findall(r'include: "(.+)"', here["Snakefile"].decode()))
    assert included and included <= here.keys()


def test_new_project_commits_records_and_ignores_the_rest(tmp_path):
    project.init(tmp_path / "lab")
    assert (tmp_path / "lab" / "README.md").read_text().startswith("# lab: a project of storelab\n")
    git = ["git", "-C", str(tmp_path / "lab")]
    subprocess.run([*git, "init", "-q"], check=True)
    kept = ["results/a/raw/plan.json", "results/a/links.yaml", "config.yaml"]
    ignored = ["results/a/tables/x.csv", ".storelab/x", ".venv/x", ".snakemake/x"]
    done = subprocess.run([*git, "check-ignore", *kept, *ignored], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ignored


def test_edited_configuration_is_not_packaged(tmp_path, monkeypatch):
    def built():
        hook = SimpleNamespace(target_name="sdist", root=str(tmp_path), config={"files": []})
        HOOK.initialize(hook, "standard", {"force_include": {}})

    (tmp_path / "config.yaml").write_text("campaign: reference\n")
    built()  # outside of a checkout, as in an unpacked source package
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"]):
        subprocess.run([*git, *command], check=True)
    for other in ("0", "1"):
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", other)
        built()
    monkeypatch.delenv("GIT_TEST_ASSUME_DIFFERENT_OWNER")
    (tmp_path / "config.yaml").write_text("stores: {mine: {endpoint: 'https://s3.example.org'}}\n")
    for command in ("status", "add"):  # changed only, and staged
        subprocess.run([*git, command, "."], check=True, capture_output=True)
        with pytest.raises(SystemExit, match=r"config.yaml: is not as committed.*git stash push"):
            built()


def test_new_project_has_a_campaign_to_measure(tmp_path):
    project.init(tmp_path)
    ours, theirs = (stores_config.load(root / "config.yaml") for root in (ROOT, tmp_path))
    assert (ours.campaign, theirs.campaign, theirs.name) == ("reference", "demo", "demo")
    assert theirs.stores == {n: s for n, s in ours.stores.items() if n != "nullserver"}, (
        "the demonstration is not calibrated"
    )
    assert config.names_of_campaigns(tmp_path) == config.names_of_campaigns(ROOT)


def test_init_writes_over_nothing(tmp_path):
    project.init(tmp_path)
    before = content(tmp_path)
    assert project.init(tmp_path) == [], "the same files are accepted"
    (tmp_path / "rules/tables.smk").unlink()
    assert project.init(tmp_path) == ["rules/tables.smk"] and content(tmp_path) == before
    (tmp_path / "config.yaml").write_text("mine")
    (tmp_path / "Makefile").unlink()
    with pytest.raises(UserError, match=r"config.yaml: already exists; use a new folder"):
        project.init(tmp_path)
    assert not (tmp_path / "Makefile").exists(), "nothing is written then"


def test_folder_with_another_purpose_is_refused(tmp_path):
    """A project may have other files. Hidden files, such as `.git`, do not belong to anything else."""
    (lab := tmp_path / "lab").mkdir()
    for name in ("thesis.tex", "notes", ".git"):
        (lab / name).mkdir()
    with pytest.raises(UserError, match=r"lab: has other files: 'notes' and 1 more; name a new or empty folder"):
        project.init(lab)
    (lab / "thesis.tex").rmdir()
    with pytest.raises(UserError, match=r"lab: has other files: 'notes'; "):
        project.init(lab)
    assert {p.name for p in lab.iterdir()} == {"notes", ".git"}
    (lab / "notes").rmdir()
    assert "Snakefile" in project.init(lab)
    (lab / "notes").mkdir()
    assert project.init(lab) == []
    for name in ("results", "new", "."):
        with pytest.raises(UserError, match=r": belongs to a checkout of storelab; use the checkout"):
            project.init(ROOT / name)
    assert not (ROOT / "new").exists()


def test_files_in_the_way_are_kept(tmp_path):
    """A file, also inside the folder, and a link to nothing."""
    for number, taken in enumerate(("", "rules", "Snakefile/inside", "envs")):
        folder = tmp_path / str(number)
        place = folder / taken
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("mine")
        with pytest.raises(UserError, match="already exists"):
            project.init(folder)
        assert {p for p in (folder, *folder.rglob("*")) if p.is_file()} == {place} and place.read_text() == "mine"
    link = tmp_path / "linked" / "Snakefile"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "gone")
    with pytest.raises(UserError, match="Snakefile: already exists"):
        project.init(link.parent)


def test_wheel_has_project_and_install_files():
    inside = {path.removeprefix("storelab/project/") for path in shipped_in_the_wheel().values()}
    assert set(project.files(ROOT)) | {"LICENSE"} <= inside
    assert {"loadgen/go.mod", "loadgen/go.sum", "envs/hdfs/pom.xml", "envs/go/requirements.txt"} <= inside
    go = {p.relative_to(ROOT).as_posix() for p in (ROOT / "loadgen").rglob("*.go") if not p.name.endswith("_test.go")}
    assert {name for name in inside if name.endswith(".go")} == go
    assert not [name for name in inside if "__pycache__" in name or "/." in name or name.startswith("results")]


def test_editable_install_copies_nothing():
    asked: dict = {"force_include": {}}
    HOOK.initialize(SimpleNamespace(target_name="wheel"), "editable", asked)
    HOOK.initialize(SimpleNamespace(target_name="sdist", root=str(ROOT)), "standard", asked)
    assert asked == {"force_include": {}}


def test_installed_wheel_finds_its_files(tmp_path, monkeypatch):
    for source, name in shipped_in_the_wheel().items():
        if "/campaigns/" in name or name.endswith(("Snakefile", "config.yaml")):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(Path(source).read_bytes())
    monkeypatch.setattr(project, "PACKED", tmp_path / "storelab/project")
    assert project.shipped("Snakefile") == tmp_path / "storelab/project/Snakefile"
    assert {"Snakefile", "campaigns/demo.yaml"} <= set(project.init(tmp_path / "lab"))


def test_shipped_files_are_no_data_of_tables(tmp_path, monkeypatch):
    """Otherwise every target would depend on the campaign files of a wheel."""
    for name in ("project/Snakefile", "analysis/records/claims.yaml", "core/units.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    monkeypatch.setattr(workflow, "PACKAGE", tmp_path)
    found = {Path(path).name for stage in workflow.STAGES for path in workflow.source_files(stage)}
    assert found == {"__init__.py", "claims.yaml", "units.py"}


def test_missing_project_files_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(project, "CHECKOUT", tmp_path)
    with pytest.raises(UserError, match="Snakefile does not exist"):
        project.init(tmp_path / "lab")
    program = golang.Program("loadgen", "m", "p", "", 0, source_folder=tmp_path / "loadgen")
    with pytest.raises(UserError, match="the sources of loadgen are missing"):
        golang.pinned(program)


def test_wheel_in_another_repository_has_no_commit(tmp_path, monkeypatch):
    """An environment is often in the folder of a project, whose commit is not that of storelab."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "mine"]):
        subprocess.run([*git, *command], check=True)
    assert re.fullmatch(r"[0-9a-f]{12}(-dirty)?", environment.checkout().commit)
    place = tmp_path / ".venv/lib/python3.11/site-packages/storelab/host/environment.py"
    place.parent.mkdir(parents=True)
    monkeypatch.setattr(environment, "__file__", str(place))
    assert environment.checkout().commit == ""


def test_version_is_in_one_place_with_notes():
    assert PACKAGE["project"]["dynamic"] == ["version"] and "version" not in PACKAGE["project"]
    assert "\nversion:" not in (ROOT / "CITATION.cff").read_text()
    notes = re.findall(r"^## (\S+)(?: \((.+)\))?$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert notes[0][0] == __version__
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version, _ in notes)
    assert all(re.fullmatch(r"unreleased|\d{4}-\d{2}-\d{2}", when) for _, when in notes)
    assert [when for _, when in notes].count("unreleased") <= 1

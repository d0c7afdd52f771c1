"""What Snakemake's catalog and linter and Apptainer need. Where Apptainer is installed, it builds the image."""

import re
import shutil
import subprocess
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from paths import ROOT

DEFINITION = (ROOT / "envs/storelab.def").read_text()
JUSTIFIED = re.compile("Shell command directly uses variable (SL|CAMPAIGN|WORKFLOW) from outside of the rule")


def snakemake(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "snakemake", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("settings", [["measure=false"], ["measure=true", "campaign=demo"]])
def test_lint_reports_only_what_the_snakefile_justifies(settings):
    report = snakemake("--lint", "--config", *settings)
    found = re.findall(r"^    \* (.+?):?$", report.stderr + report.stdout, flags=re.MULTILINE)
    assert found and [title for title in found if not JUSTIFIED.fullmatch(title)] == []
    assert "`snakemake --lint` reports only" in (ROOT / "Snakefile").read_text()


def test_catalog_finds_the_workflow(tmp_path):
    """The place that the catalog expects has the same rules and the same first target."""
    listed = [snakemake("-s", name, "--list-rules").stdout for name in ("Snakefile", "workflow/Snakefile")]
    assert listed[0] == listed[1] != ""
    results = tmp_path / "results"
    (results / "soak-small").mkdir(parents=True)
    (results / "soak-small/raw").symlink_to(ROOT / "results/soak-small/raw")
    planned = snakemake("-s", "workflow/Snakefile", "-n", "--config", "campaign=soak-small", f"results={results}")
    assert planned.returncode == 0 and "typeset_paper" in planned.stderr + planned.stdout
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage.keys() == {"mandatory-flags", "software-stack-deployment", "report"}
    assert usage["software-stack-deployment"]["apptainer"] and (ROOT / "config/README.md").is_file()


def test_minimum_of_snakemake_is_that_of_the_package():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (wanted,) = map(Requirement, extras["workflow"])
    (least,) = re.findall(r'^min_version\("(.+)"\)$', (ROOT / "Snakefile").read_text(), flags=re.MULTILINE)
    assert f">={least}" in str(wanted.specifier)


def test_definition_of_the_image_is_complete(tmp_path):
    """It copies files that exist, what the wheel needs among them; its scripts have no syntax errors."""
    parts = dict(re.findall(r"^%(\w+)\n((?:(?!%).*\n)*)", DEFINITION, flags=re.MULTILINE))
    assert parts.keys() == {"files", "post", "environment", "runscript", "test"}
    copied = [name for line in parts.pop("files").splitlines() for name in line.split()[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    hook = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["hooks"]["custom"]
    assert {*hook["files"], "src", "pyproject.toml", "hatch_build.py", "README.md"} <= set(copied)
    for script in parts.values():
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    assert 'container: "envs/storelab.sif"' in (ROOT / "Snakefile").read_text()
    assert "apptainer build envs/storelab.sif envs/storelab.def" in DEFINITION


@pytest.mark.heavy
@pytest.mark.root
@pytest.mark.skipif(not shutil.which("apptainer"), reason="no package: Debian has no apptainer")
def test_image_runs_storelab(tmp_path):
    image = tmp_path / "storelab.sif"
    subprocess.run(["apptainer", "build", image, "envs/storelab.def"], cwd=ROOT, check=True, timeout=550)
    done = subprocess.run(["apptainer", "run", image, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("storelab")

"""A plain install analyses records; what else a command needs is named with its extra, on one line."""

import importlib.metadata
import json
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from paths import ROOT

import campaigns
from storelab.core.errors import missing_package

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROGRAM = """
import json, sys

class Missing:
    names = set(json.loads(sys.argv.pop(1)))

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from storelab.cli import main
main()
"""


def closure(requirements: list[str]) -> set[str]:
    """Return the distributions that these requirements install, by their metadata."""
    found: set[str] = set()
    todo = [Requirement(text) for text in requirements]
    while todo:
        wanted = todo.pop()
        if (wanted.marker and not wanted.marker.evaluate({"extra": ""})) or canonicalize_name(wanted.name) in found:
            continue
        found.add(canonicalize_name(wanted.name))
        if wanted.name != "readplan":  # numpy only (tests/unit/readplan/test_package.py)
            todo += [Requirement(text) for text in importlib.metadata.requires(wanted.name) or []]
    return found


def storelab(*arguments: str) -> subprocess.CompletedProcess:
    """Run a command as a plain install does: without the modules of other distributions."""
    plain = closure(PROJECT["dependencies"]) | {"storelab"}
    named = importlib.metadata.packages_distributions()
    missing = [name for name, of in named.items() if not plain & {canonicalize_name(one) for one in of}]
    assert {"snakemake", "boto3", "uproot", "IPython"} <= set(missing) and "pandas" not in missing
    command = [sys.executable, "-c", PROGRAM, json.dumps([*missing, "snakemake_interface_common"]), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("command", [("verify",), ("tables",), ("latex", "table_best"), ("verdict",), ("report",)])
def test_plain_install_analyses_records(command, tmp_path):
    folder = campaigns.copied("one_each", tmp_path / "example")
    done = storelab(*command, "--campaign-dir", str(folder))
    assert done.returncode == 0, done.stderr


def test_plain_install_names_the_extra_to_measure(tmp_path):
    done = storelab("--set", f"results={tmp_path}", "--set", "campaign=demo", "check")
    assert done.returncode == 2 and done.stderr == (
        "storelab: botocore: this Python package is not installed; run `pip install 'storelab[measure]'`\n"
    )


def test_extra_of_a_missing_package_is_named():
    for module, extra in (("ipywidgets", "lab"), ("snakemake.api", "workflow"), ("uproot.source", "measure")):
        error = missing_package(ModuleNotFoundError(name=module))
        assert f"`pip install 'storelab[{extra}]'`" in str(error) and extra in PROJECT["optional-dependencies"]
    with pytest.raises(ModuleNotFoundError):
        missing_package(ModuleNotFoundError(name="storelab.nothing"))

"""What a command loads: its own side, and nothing heavy before something asks for it."""

import json
import shutil
import subprocess
import sys

import pytest
from paths import ROOT

import campaigns

HEAVY = ["numpy", "pandas", "scipy", "scipy.stats", "matplotlib", "duckdb", "pyarrow", "boto3", "rich", "pydantic"]
PROGRAM = """
import json, sys
from storelab.cli import cli
try:
    cli.main(sys.argv[2:], standalone_mode=False)
finally:
    print("\\n" + json.dumps([name for name in json.loads(sys.argv[1]) if name in sys.modules]))
"""


def loaded(*arguments: str) -> set[str]:
    """Those of HEAVY that a process has loaded when the command is done."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(HEAVY), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """What `tables` of a campaign loads, and its folder."""
    folder = tmp_path_factory.mktemp("start") / "example"
    shutil.copytree(campaigns.built("one_each") / "raw", folder / "raw")
    return loaded("tables", "--campaign-dir", str(folder)), folder


def test_help_loads_nothing_heavy():
    assert loaded("--help") == set()


def test_the_plan_needs_the_configuration_alone(tmp_path):
    assert loaded("--set", f"results={tmp_path}", "plan") == {"pydantic"}


def test_a_client_begins_with_the_standard_library_alone():
    """Each point pays for each of its clients; what a workload or an engine needs beside it is loaded by its own client."""
    script = "import storelab.gang.client, sys; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-I", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.strip("'") for name in done.stdout.strip("[]\n").split(", ")}
    of_site = {"sitecustomize", "usercustomize", "apport_python_hook"}
    others = {n for n in loaded - sys.stdlib_module_names - of_site if not n.startswith("_") and n != "storelab"}
    assert "storelab" in loaded and others == set()
    assert not loaded & {"http", "sqlite3", "xml"}, "slow ones of the standard library, which few clients need"


def test_check_loads_nothing_of_the_analysis(tmp_path):
    of_analysis = {"pandas", "scipy", "matplotlib", "duckdb"}
    assert not loaded("--set", f"results={tmp_path}", "--set", "campaign=demo", "check") & of_analysis


@pytest.mark.heavy
def test_tables_do_without_what_is_slow_to_load(campaign):
    """Claims are checked (pydantic), and their p values corrected together (scipy.stats)."""
    assert campaign[0] >= {"pandas", "duckdb"} and "matplotlib" not in campaign[0]


def test_one_file_of_tex_is_made_from_the_tables_alone(campaign):
    assert loaded("latex", "numbers", "--campaign-dir", str(campaign[1])) <= {"numpy", "pandas", "pyarrow", "scipy"}

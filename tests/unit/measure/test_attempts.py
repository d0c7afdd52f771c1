"""Attempts: a kill at any time leaves a whole record, and the next run removes everything else."""

import dataclasses
import errno
import fcntl
import os
import signal
import sys
from pathlib import Path

import collected
import pytest
from collected import FINE, looks, settings
from made_jobs import POINT

from storelab.core import integrity, records
from storelab.core.errors import MeasurementFailed
from storelab.core.records import RunRecord
from storelab.measure import attempts, record

OF_TWO = dataclasses.replace(POINT, axes=POINT.axes | {"clients": 2})
EARLIER = {"nothing": 0, "failed": 1, "record": 1, "record and later": 2}  # what there was -> earlier tries


def attempt(folder: Path, name: str, content: bytes) -> tuple[RunRecord, Path]:
    """Return the head and the folder of an attempt with two tables."""
    work = folder / "work" / name
    work.mkdir(parents=True)
    for n in (0, 1):
        (work / f"ops.{n}.parquet").write_bytes(content + bytes([n]))
    at, clients = len(content), [{"client": 0}, {"client": 1}]
    return RunRecord(point=OF_TWO, start_ns=at, deadline_ns=at, attempt=name, clients=clients), work


@pytest.mark.parametrize(
    "before", ["nothing", *(pytest.param(b, marks=pytest.mark.heavy) for b in ("failed", "record")), "record and later"]
)
def test_kill_leaves_old_record_or_new_one(tmp_path, before):
    """Kill the process at its first, second, … act on files below the record's folder, until it survives."""
    for act in range(1, 60):
        base = tmp_path / str(act)
        folder = base / "raw" / "a" / "get" / "rep~001"
        if "record" in before:
            record.put_in_place(*attempt(base, "old", b"old"), folder)
        if before in ("failed", "record and later"):
            failure = {"point": OF_TWO.to_json(), "time_ns": 1, "reason": "why", "earlier": []}
            records.write_summed(folder / ("failed.json" if before == "failed" else "later.json"), failure)
        new = attempt(base, "new", b"new one")
        killed = killed_at(act, base / "raw", lambda new=new, folder=folder: record.put_in_place(*new, folder))
        run = integrity.load_run(folder)
        found = {run.attempt} if run else set()
        assert found <= {"old", "new"} and ("record" not in before or found), act
        assert not (run and (folder / "failed.json").exists()), act
        assert run or not list(folder.glob("run.json")), "a head that is not valid"
        if not killed:
            assert found == {"new"} and {p.name for p in folder.iterdir()} == {"run.json", *run.files}
            assert len(run.earlier) == EARLIER[before]
            break
        record.put_in_place(*attempt(base, "next", b"the next"), folder)  # the next run repairs all
        run = integrity.load_run(folder)
        assert run.attempt == "next" and sorted(p.name for p in folder.glob("*.parquet")) == sorted(run.files)
        assert not (folder / "failed.json").exists() and not (folder / "later.json").exists()
    assert act > 5


def killed_at(act: int, below: Path, call) -> bool:
    """Return whether a child process was killed at this act (write, rename, removal) below a folder."""
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

        sys.addaudithook(hook)
        code = 1
        try:
            call()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), status
    return status != 0


def test_killed_attempts_are_removed(tmp_path):
    """Living attempts stay, and failed ones stay until the next attempt, so that the user can inspect them."""
    config, key = settings(tmp_path / "x", results=str(tmp_path)), "alpha/put/rep~001"
    base = config.campaign_dir / "work" / key
    for name in ("0000dead", "00000001"):
        (base / name).mkdir(parents=True)
        (base / name / "job.json").write_text("{}")
        (base / name / "alive").touch()
    (base / "00000002").mkdir()  # killed before its marker
    with open(base / "00000001/alive", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert attempts.sweep(config) == 1
        assert [p.name for p in base.iterdir()] == ["00000001"]
    assert attempts.sweep(config) == 1 and not base.exists()
    with pytest.raises(MeasurementFailed), attempts.begun(config, key) as work:
        assert attempts.sweep(config) == 0
        raise MeasurementFailed("why")
    assert attempts.sweep(config) == 0 and work.exists()
    with attempts.begun(config, key) as work:
        assert [p.name for p in base.iterdir()] == [work.name]
    assert not base.exists()
    with pytest.raises(KeyboardInterrupt), attempts.begun(config, key):
        raise KeyboardInterrupt
    assert not base.exists()


def test_attempts_without_lock_remain(tmp_path, monkeypatch):
    """Without locks, an attempt may be that of another host. Failed attempts have ended."""
    config, key = settings(tmp_path / "x", results=str(tmp_path)), "alpha/put/rep~001"
    base = config.campaign_dir / "work" / key
    for name in ("00000001", "00000002"):
        (base / name).mkdir(parents=True)
        (base / name / "alive").touch()
    (base / "00000002/failed").touch()

    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(attempts.fcntl, "flock", flock)
    assert attempts.sweep(config) == 0
    with attempts.begun(config, key) as work:
        assert {p.name for p in base.iterdir()} == {"00000001", work.name}


def test_sweep_leaves_what_no_attempt_made(tmp_path):
    """Folders of the user at the same depth, and attempts that are reached through links."""
    config, key = settings(tmp_path / "x", results=str(tmp_path)), "alpha/put/rep~001"
    work, other = config.campaign_dir / "work", tmp_path / "other"
    kept = [work / key / "notes", work / key / "0000beef", work / "a/b/c/d", other / key / "0000dead", tmp_path / "far"]
    for folder in kept:
        folder.mkdir(parents=True)
        (folder / "thesis.tex").write_text("text")
    for folder in (kept[0], *kept[3:]):
        (folder / "alive").touch()  # of another name, or behind a link
    (work / "linked").symlink_to(other / "alpha")
    (work / key / "00000001").symlink_to(tmp_path / "far")
    (kept[1] / "alive").symlink_to(kept[1] / "thesis.tex")
    assert attempts.sweep(config) == 0
    with attempts.begun(config, key):
        pass
    assert all((folder / "thesis.tex").read_text() == "text" for folder in kept)


def test_unfinished_files_are_removed(tmp_path):
    folder = collected.copied(tmp_path)
    point = next((folder / "raw").rglob("run.json")).parent
    ours = point / f".run.json.{os.getpid()}.tmp"
    for path in (point / ".run.json.999999999.tmp", ours, point / "ops.0.abc.parquet"):
        path.write_text("{")
    (folder / "raw/alpha/put/rep~002/ops.0.parquet").write_bytes(b"PAR1")  # next to failed.json
    attempts.sweep_raw(settings(folder))
    assert [p.name for p in point.glob(".*")] == [ours.name]
    ours.unlink()
    assert integrity.load_run(point) and looks(folder) == FINE

"""The machine's measuring lock, and attempts at a point: a folder each below `work/`, removed when its record is in
place.

A living attempt holds a lock on its folder, which the kernel gives free when its process ends, kill -9 included. An
attempt that was killed is removed by the next run; one that failed stays to be looked at, until its point is tried
again. Points that fail alike are given up after a few. May import: `gang`, `workloads`, `core`.
"""

import fcntl
import json
import os
import re
import secrets
import shutil
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from storelab.core import folders, records
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed
from storelab.core.model import Point
from storelab.gang import credentials
from storelab.host.console import report
from storelab.measure import record

ALIVE, FAILED = "alive", "failed"  # files of an attempt: its marker, locked while it lives; that it failed
NAME = re.compile("[0-9a-f]{8}")  # of its folder


@contextmanager
def measuring_lock(state: Path) -> Iterator[None]:
    """Allow one measurement at a time on this machine. The kernel releases the lock when its holder ends, kill -9
    included."""
    folders.trusted(state, "state")
    state.mkdir(parents=True, exist_ok=True)
    with folders.lock_file(state / "measuring.lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("    waiting: another measurement runs on this machine")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def begun(config: Config, key: str) -> Iterator[Path]:
    """A fresh folder for an attempt at the point. It is removed at the end, unless the attempt failed."""
    work = config.campaign_dir / "work" / key / secrets.token_hex(4)
    top = config.campaign_dir / "work"
    for failed in _attempts(top, work.parent.glob("*")):
        if not _lives(failed):
            shutil.rmtree(failed, ignore_errors=True)
    work.mkdir(parents=True)
    with folders.lock_file(work / ALIVE) as lock:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield work
        except MeasurementFailed:
            credentials.forget(work)
            (work / FAILED).touch()
            raise
        except BaseException:
            _remove(work)
            raise
        _remove(work)


def _remove(work: Path) -> None:
    """The attempt's folder, and the point's where it was the last."""
    credentials.forget(work)
    shutil.rmtree(work, ignore_errors=True)
    with suppress(OSError):
        work.parent.rmdir()


def _attempts(top: Path, found: Iterable[Path]) -> Iterator[Path]:
    """Those of the folders below `top` that an attempt has made: with its name and its marker, none through a link."""
    for work in found:
        there = (work, *work.parents[: len(work.relative_to(top).parts) - 1])
        marker = work / ALIVE
        if any(path.is_symlink() for path in (*there, marker)) or not NAME.fullmatch(work.name):
            continue
        if marker.is_file():
            yield work
        else:
            with suppress(OSError):  # killed before its marker: nothing is in it, else it is not storelab's
                work.rmdir()


def _lives(work: Path) -> bool:
    """Whether another process is at this attempt."""
    try:
        with folders.lock_file(work / ALIVE) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file, or a file system without locks
        return False
    return False


def sweep(config: Config) -> int:
    """Remove the folders of killed attempts below `work/`; returns how many. The caller holds the measuring lock."""
    gone = 0
    top = config.campaign_dir / "work"
    for work in _attempts(top, top.glob("*/*/*/*")):
        if not (work / FAILED).exists() and not _lives(work):
            _remove(work)
            gone += 1
    return gone


def sweep_raw(config: Config) -> None:
    """Remove what killed attempts left below `raw/`: unfinished files, and tables that no record has."""
    for half in config.raw.rglob(".*.tmp"):
        pid = half.name.split(".")[-2]  # of the process that writes it
        if not (pid.isdigit() and Path("/proc", pid).exists()):
            half.unlink(missing_ok=True)
    for folder in {table.parent for table in config.raw.glob("*/*/*/*.parquet")}:
        record.remove_strays(folder)


# Points in a row that fail alike: after `give_up_after` of them a run tries no other point of that store, and stops
# when no store is left. A run is Snakemake's: its jobs know it by the environment variable RUN, so that the next run
# tries all of them again.

RUN = "STORELAB_RUN"  # `<pid of Snakemake>:<begin in ns>`


def begun_ns() -> int:
    """When this run began; 0 outside of one."""
    return int(os.environ.get(RUN, ":0").partition(":")[2])


def alike(reason: str) -> str:
    """What two reasons have in common that differ in numbers and names of attempts only."""
    return re.sub(r"\b[0-9a-f]{8}\b|\d+(?:\.\d+)?", "#", reason)


def _note(config: Config, store: str) -> Path:
    return config.campaign_dir / "work" / f"in-a-row-{store}.json"


def _in_a_row(config: Config, store: str) -> tuple[int, str]:
    """How many points of the store failed alike just now in this run, and why."""
    try:
        note = json.loads(_note(config, store).read_bytes())
        return (note["count"], note["reason"]) if note["run"] == os.environ.get(RUN) else (0, "")
    except (OSError, ValueError, KeyError, TypeError):
        return 0, ""


def reason(config: Config, store: str) -> str:
    """Why this run tries no further point of the store; '' where it does."""
    count, why = _in_a_row(config, store)
    return why if RUN in os.environ and count >= config.give_up_after else ""


def good(config: Config, store: str) -> None:
    """A point of the store has its record."""
    _note(config, store).unlink(missing_ok=True)


def failed(config: Config, points: Iterable[Point], store: str, why: str) -> None:
    """A point failed. The last one that is tried names the reason and says how to go on."""
    count, before = _in_a_row(config, store)
    count = count + 1 if alike(before) == alike(why) else 1
    records.write_json(_note(config, store), {"run": os.environ.get(RUN), "count": count, "reason": why})
    if RUN not in os.environ or count != config.give_up_after:
        return
    told = f"    {store}: {count} points in a row failed alike (`give_up_after`): {why}"
    if all(reason(config, name) for name in {p.store for p in points}):
        report(
            f"{told}\n    the campaign stops; mend this and run the same command again: it goes on with what is missing"
        )
        _stop()
    else:
        report(f"{told}\n    its other points are not tried in this run; mend this and run the same command again")


def _stop() -> None:
    """Snakemake ends when the jobs that run have ended. Only a Snakemake that this process descends from is meant."""
    pid = int(os.environ[RUN].partition(":")[0])
    for process in psutil.Process().parents():
        if process.pid == pid and "snakemake" in " ".join(process.cmdline()):
            process.send_signal(signal.SIGTERM)


def leave(config: Config, point: Point, why: str) -> None:
    """`failed.json` of a point that is not tried; a record stays as it is."""
    folder = config.raw / point.key
    if not (folder / "run.json").exists() and not records.sealed(config.raw):
        records.fail(folder, point, f"not tried: {why}")

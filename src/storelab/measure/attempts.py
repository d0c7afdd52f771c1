"""The machine's measuring lock, and attempts at a point: a folder each below `work/`, removed when its record is in
place.

A living attempt holds a lock on its folder, which the kernel gives free when its process ends, kill -9 included. An
attempt that was killed is removed by the next run; one that failed stays to be looked at, until its point is tried
again. May import: `gang`, `core`.
"""

import fcntl
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storelab.core import folders
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed
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

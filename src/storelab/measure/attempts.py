"""Attempts at a point: a folder each below `work/`, which goes when its record is in place.

A living attempt holds a lock on its folder, which the kernel gives free when its process ends, kill -9 included. An
attempt that was killed is removed by the next run; one that failed stays to be looked at, until its point is tried
again. May import: `gang`, `core`.
"""

import fcntl
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed
from storelab.gang import credentials
from storelab.measure import record

ALIVE, FAILED = "alive", "failed"


@contextmanager
def begun(config: Config, key: str) -> Iterator[Path]:
    """A fresh folder for an attempt at the point. It is removed at the end, unless the attempt failed."""
    work = config.campaign_dir / "work" / key / secrets.token_hex(4)
    for failed in work.parent.glob("*"):
        if not _lives(failed):
            shutil.rmtree(failed, ignore_errors=True)
    work.mkdir(parents=True)
    with open(work / ALIVE, "w") as lock:
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


def _lives(work: Path) -> bool:
    """Whether another process is at this attempt."""
    try:
        with open(work / ALIVE, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file, or a file system without locks
        return False
    return False


def sweep(config: Config) -> int:
    """Remove the folders of killed attempts below `work/`; returns how many. The caller holds the measuring lock."""
    gone = 0
    for work in (config.campaign_dir / "work").glob("*/*/*/*"):
        if work.is_dir() and not (work / FAILED).exists() and not _lives(work):
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

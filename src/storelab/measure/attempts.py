"""The measuring lock of this machine, and the attempts at a point.

Each attempt has a folder below `work/`, which is removed when its record is in place. A running attempt holds a lock on
its folder; the kernel releases the lock when the process ends, even by kill -9. The next run removes the folders of
killed attempts. The folder of a failed attempt stays for inspection until its point is tried again. After a few points
that fail for the same reason, the other points of that store are skipped. This module may import `gang`, `workloads`,
`stores` and `core`.
"""

import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from storelab.core import folders, records
from storelab.core.config import Config
from storelab.core.errors import LOCKLESS, MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.gang import credentials
from storelab.host.console import report
from storelab.measure import record
from storelab.stores.managed import users

ALIVE, FAILED = "alive", "failed"  # files in the folder of an attempt: locked while it runs; present if it failed
NAME = re.compile("[0-9a-f]{8}")  # name of an attempt's folder
ENDING_S = 30.0  # maximum time in seconds for the end of the processes of a killed run


@contextmanager
def measuring_lock(state: Path) -> Iterator[None]:
    """Wait until no other measurement runs on this machine, and prevent others during the block.

    The kernel releases the lock when this process ends, even by kill -9.
    """
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
def nothing_measured(config: Config) -> Iterator[None]:
    """Prevent measurements of the campaign during the block, in which the caller changes its data or records.

    Wait while a point of another campaign is measured on this machine. Raises UserError if this campaign is measured.
    """
    state = Path(config.state)
    folders.trusted(state, "state")
    if pids := users.others(state, users.of_campaign(config.name)):
        problem = f"is being measured by process {pids[0]}"
        raise UserError(f"campaign {config.name}", problem, "wait until it has finished")
    with measuring_lock(state), folders.campaign_lock(config.campaign_dir, exclusive=True):
        yield


@contextmanager
def run_lock(config: Config) -> Iterator[None]:
    """Prevent other runs of the campaign during the block.

    A program that replaces this process, and the processes of that program, inherit the lock. After a run was killed,
    wait until its processes have ended. Raises UserError if another Snakemake measures the campaign.
    """
    state, campaign, ends = Path(config.state), users.of_campaign(config.name), 0.0
    folders.trusted(state, "state")
    folder = users.folder(state, campaign)
    folder.mkdir(parents=True, exist_ok=True)
    with folders.lock_file(folder / "run") as lock:
        while (pid := _other_run(lock, users.others(state, campaign))) is not None:
            if psutil.pid_exists(pid) or 0 < ends < time.monotonic():
                problem, hint = f"is being measured by process {pid}", f"or end it with `kill {pid}`"
                raise UserError(f"campaign {config.name}", problem, f"wait until it has finished, {hint}")
            if not ends:
                report("    waiting: the run of this campaign was killed, and its processes are ending")
                ends = time.monotonic() + ENDING_S
            time.sleep(0.2)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        os.set_inheritable(lock.fileno(), True)
        yield


def _other_run(lock: IO[str], measuring: Iterable[int]) -> int | None:
    """Lock the file and return None; or return the pid of the run that has locked it, or of another Snakemake."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        return int(lock.read() or 0)
    for pid in measuring:
        with suppress(psutil.Error):
            if any("snakemake" in Path(word).name for word in psutil.Process(pid).cmdline()):
                return pid
    return None


@contextmanager
def begun(config: Config, key: str) -> Iterator[Path]:
    """Yield a new folder for an attempt at the point. It is removed at the end, unless the attempt failed."""
    work = config.campaign_dir / "work" / key / secrets.token_hex(4)
    top = config.campaign_dir / "work"
    for failed in _attempts(top, work.parent.glob("*")):
        if (failed / FAILED).exists() or not _is_alive(failed):
            shutil.rmtree(failed, ignore_errors=True)
    work.mkdir(parents=True)
    with folders.lock_file(work / ALIVE) as lock:
        with suppress(OSError):  # some file systems have no locks
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
    """Remove the attempt's folder, and the point's folder if this was its last attempt."""
    credentials.forget(work)
    shutil.rmtree(work, ignore_errors=True)
    with suppress(OSError):
        work.parent.rmdir()


def _attempts(top: Path, found: Iterable[Path]) -> Iterator[Path]:
    """Yield the folders in `found` that attempts created.

    They have the name and the marker of an attempt, and no symbolic link on the path below `top`.
    """
    for work in found:
        there = (work, *work.parents[: len(work.relative_to(top).parts) - 1])
        marker = work / ALIVE
        if any(path.is_symlink() for path in (*there, marker)) or not NAME.fullmatch(work.name):
            continue
        if marker.is_file():
            yield work
        else:
            with suppress(OSError):  # it was killed before it made its marker; only an empty folder is removed
                work.rmdir()


def _is_alive(work: Path) -> bool:
    """Return whether another process works on this attempt, or may do so because the file system has no locks."""
    try:
        with folders.lock_file(work / ALIVE) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        return error.errno in LOCKLESS  # else the file does not exist
    return False


def sweep(config: Config) -> int:
    """Remove the folders of killed attempts below `work/`, and return their number. The caller must have the lock."""
    gone = 0
    top = config.campaign_dir / "work"
    for work in _attempts(top, top.glob("*/*/*/*")):
        if not (work / FAILED).exists() and not _is_alive(work):
            _remove(work)
            gone += 1
    return gone


def sweep_raw(config: Config) -> None:
    """Remove files that killed attempts left below `raw/`: unfinished files, and tables without a record."""
    for half in config.raw.rglob(".*.tmp"):
        pid = half.name.split(".")[-2]  # pid of the writing process
        if not (pid.isdigit() and Path("/proc", pid).exists()):
            half.unlink(missing_ok=True)
    for folder in {table.parent for table in config.raw.glob("*/*/*/*.parquet")}:
        record.remove_strays(folder)


# After `give_up_after` points in a row that fail for the same reason, a run skips the other points of that store. It
# stops when all stores are skipped. A run is one run of Snakemake, which passes the environment variable RUN to its
# jobs. Therefore the next run tries all points again.

RUN = "STORELAB_RUN"  # the value of this variable is `<pid of Snakemake>:<begin in ns>`


def begun_ns() -> int:
    """Return the time when this run began, in Unix nanoseconds; 0 outside of a run."""
    return int(os.environ.get(RUN, ":0").partition(":")[2])


def failure_kind(reason: str) -> str:
    """Return the reason without numbers and names of attempts, so that it can be compared with other reasons."""
    return re.sub(r"\b[0-9a-f]{8}\b|\d+(?:\.\d+)?", "#", reason)


def _note(config: Config, store: str) -> Path:
    return config.campaign_dir / "work" / f"in-a-row-{store}.json"


def _repeated_failures(config: Config, store: str) -> tuple[int, str]:
    """Return how many of the store's latest points failed in this run for the same reason, and this reason."""
    try:
        note = json.loads(_note(config, store).read_bytes())
        return (note["count"], note["reason"]) if note["run"] == os.environ.get(RUN) else (0, "")
    except (OSError, ValueError, KeyError, TypeError):
        return 0, ""


def reason(config: Config, store: str) -> str:
    """Return the reason why this run skips the other points of the store; '' if it tries them."""
    count, why = _repeated_failures(config, store)
    return why if RUN in os.environ and count >= config.give_up_after else ""


def record_success(config: Config, store: str) -> None:
    """Reset the count of failures, because a point of the store has its record."""
    _note(config, store).unlink(missing_ok=True)


def record_failure(config: Config, points: Iterable[Point], store: str, why: str) -> None:
    """Count a failed point. At the limit, print how to continue; the caller prints the reason."""
    count, before = _repeated_failures(config, store)
    count = count + 1 if failure_kind(before) == failure_kind(why) else 1
    records.write_json(_note(config, store), {"run": os.environ.get(RUN), "count": count, "reason": why})
    if RUN not in os.environ or count != config.give_up_after:
        return
    message = f"    {store}: {count} points in a row failed for the same reason (`give_up_after`)"
    if all(reason(config, name) for name in {p.store for p in points}):
        report(
            f"{message}\n    the campaign stops; fix this and run the same command again to measure the missing points"
        )
        _stop()
    else:
        report(f"{message}\n    its other points are skipped in this run; fix this and run the same command again")


def _stop() -> None:
    """Send Snakemake a signal to end after its running jobs, if it started this process."""
    pid = int(os.environ[RUN].partition(":")[0])
    for process in psutil.Process().parents():
        if process.pid == pid and "snakemake" in " ".join(process.cmdline()):
            process.send_signal(signal.SIGTERM)


def skip(config: Config, point: Point, why: str) -> None:
    """Write `failed.json` for a point that is skipped, unless it has a record."""
    folder = config.raw / point.key
    if not (folder / "run.json").exists() and not records.sealed(config.raw):
        records.fail(folder, point, f"not tried: {why}")

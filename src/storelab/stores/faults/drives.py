"""A drive that is a folder: renamed away or read-only and back, filled and emptied. May import: `host`, `core`."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes

FILLER = ".storelab-filler"
LEAST = 4096  # bytes: smaller pieces no file system gives


def away(drive: Path) -> Path:
    """Where a drive is while it is gone: beside its place, so that renaming copies nothing."""
    return drive.with_name(f".{drive.name}.away")


def require(drive: Path, how: str, place: str) -> None:
    """Raises UserError where a drive cannot be taken so."""
    if how == "read-only" and os.geteuid() != 0:
        raise UserError(place, "a read-only drive is a mount, which needs root", "run as root, or use `how: gone`")


def remove(drive: Path, how: str) -> None:
    """Take it away, all at once for whoever has it."""
    if how == "gone":
        drive.rename(away(drive))
        return
    _run("mount", "--bind", str(drive), str(drive))
    _run("mount", "-o", "remount,bind,ro", str(drive))


def give_back(drive: Path, how: str) -> None:
    """Undo `remove`; does nothing where it is back already."""
    if how == "read-only":
        while _mounted(drive):
            _run("umount", str(drive))
        return
    if not away(drive).exists():
        return
    if drive.exists():  # made anew by a daemon that missed it: only folders without a file may go
        if any(p.is_file() for p in drive.rglob("*")):
            raise MeasurementFailed(f"{drive.name} was made anew while it was away: it holds files")
        shutil.rmtree(drive)
    away(drive).rename(drive)


def _mounted(drive: Path) -> bool:
    """Whether the last mount at this folder is one of ours: of itself, read-only."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    here = [line.split() for line in lines if line.split()[4] == str(drive).replace(" ", "\\040")]
    return bool(here) and "ro" in here[-1][5].split(",")


def require_full(drive: Path, place: str) -> None:
    """Raises UserError where a drive has no room of its own that could be filled."""
    there = drive if drive.exists() else away(drive)
    if not os.path.ismount(there):
        raise UserError(
            place,
            f"{drive.name} lies on a disk that others use, and filling it would harm them",
            "set the store's `drive_size`: each drive is then a small file system of its own",
        )


def fill(drive: Path) -> int:
    """Take all the room that is left; returns the bytes taken."""
    at, size = 0, 1 << (max(1, shutil.disk_usage(drive).total) - 1).bit_length()
    with open(drive / FILLER, "ab") as f:
        while size >= LEAST:
            try:
                os.posix_fallocate(f.fileno(), at, size)
                at += size
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EFBIG):
                    raise
                size //= 2
    return at


def empty(drive: Path) -> None:
    """Undo `fill`."""
    for place in (drive, away(drive)):
        (place / FILLER).unlink(missing_ok=True)


def _run(*command: Any) -> None:
    done = processes.ask(command)
    if done.returncode:
        raise MeasurementFailed(f"`{' '.join(command[:2])}` failed: {processes.words(done)}")

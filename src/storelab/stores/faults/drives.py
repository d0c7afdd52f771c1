"""A drive that is a folder: renamed away or read-only and back, filled and emptied. May import: `host`, `core`."""

import ctypes
import errno
import os
import shutil
from pathlib import Path
from typing import Any

from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes

FILLER = ".storelab-filler"
NOWHERE = "storelab-took-this-drive-away"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_libc = ctypes.CDLL(None, use_errno=True)
LEAST = 4096  # bytes: smaller pieces no file system gives


def away(drive: Path) -> Path:
    """Where a drive is while it is gone: beside its place, so that renaming copies nothing."""
    return drive.with_name(f".{drive.name}.away")


def require(drive: Path, how: str, place: str, own_disk: bool = False) -> None:
    """Raises UserError where a drive cannot be taken so."""
    if how == "read-only" and os.geteuid() != 0:
        raise UserError(place, "a read-only drive is a mount, which needs root", "run as root, or use `how: gone`")
    if how == "gone" and own_disk:
        problem = f"{drive.name} is a file system of its own, and its place cannot be renamed"
        raise UserError(place, problem, "use `how: read-only`, or leave `drive_size` out")


def remove(drive: Path, how: str) -> None:
    """Take it away, all at once for whoever has it.

    In its place stays a link that leads nowhere: a store that writes would make the folder anew.
    """
    if how == "gone":
        away(drive).symlink_to(NOWHERE)
        _exchange(drive, away(drive))
        return
    _run("mount", "--bind", str(drive), str(drive))
    _run("mount", "-o", "remount,bind,ro", str(drive))


def give_back(drive: Path, how: str) -> None:
    """Undo `remove`; does nothing where it is back already."""
    if how == "read-only":
        while _mounted(drive):
            _run("umount", str(drive))
        return
    if drive.is_symlink() and away(drive).is_dir():
        _exchange(drive, away(drive))
    if away(drive).is_symlink():
        away(drive).unlink()


def _exchange(one: Path, other: Path) -> None:
    """Each gets the other's name, in one step (renameat2(2))."""
    if _libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise MeasurementFailed(f"{one.name} cannot be renamed away: {os.strerror(number)}")


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
            "give the store drives of its own (`drive_size`), or leave `fill` out",
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

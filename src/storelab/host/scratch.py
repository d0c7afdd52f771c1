"""Provide the scratch folder of the clients on a tmpfs, and find the file systems of folders."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storelab.core import folders
from storelab.core.errors import UserError

USER = ".used-by-"  # begin of the names of files that name a process and its campaign


def existing(path: Path) -> Path:
    """Return the path if it exists, otherwise its nearest parent folder that exists."""
    return next(p for p in (path, *path.parents) if p.exists())


def filesystem(path: Path) -> str:
    """Return the type of the file system that contains `path`, e.g. `ext4`; `?` if it is unknown."""
    import psutil  # slow to import, and planning does not need it

    real = existing(path).resolve()
    fits = [p for p in psutil.disk_partitions(all=True) if real.is_relative_to(p.mountpoint)]
    return max(fits, key=lambda p: len(p.mountpoint)).fstype if fits else "?"


def folder(base: str | Path) -> Path:
    """Return the scratch folder in `base`, a tmpfs of this host. Make it if it is missing.

    Raise UserError if `base` is not a folder, or if the scratch folder belongs to another user.
    """
    if not Path(base).is_dir():
        raise UserError(
            "config.yaml: scratch", f"{str(base)!r} is not a folder", "set a folder on a tmpfs of this host"
        )
    return folders.private(Path(base) / f"storelab-{os.getuid()}", "config.yaml: scratch")


@contextmanager
def using(base: str | Path, campaign: Path | None = None) -> Iterator[Path]:
    """Lock the scratch folder against `clear` during the block, and provide its path.

    `campaigns` then returns `campaign`, the folder of the campaign that uses it.
    """
    while True:
        path = folder(base) / ".used"
        try:
            lock = folders.lock_file(path)
        except FileNotFoundError:  # the folder was just removed
            continue
        with lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            if not path.exists() or path.stat().st_ino != os.fstat(lock.fileno()).st_ino:
                continue  # another process has just removed it
            note = path.with_name(f"{USER}{os.getpid()}")
            if campaign:
                note.write_text(str(campaign.absolute()))
            try:
                yield path.parent
            finally:
                if campaign:
                    note.unlink(missing_ok=True)
            return


def campaigns(base: str | Path) -> list[str]:
    """Return the folders of the campaigns whose processes now use the folder."""
    found = set()
    for note in folder(base).glob(f"{USER}*"):
        if Path("/proc", note.name.removeprefix(USER)).exists():  # else a killed process left it
            with suppress(OSError):  # its process has just ended
                found.add(note.read_text())
    return sorted(found - {""})


def clear(base: str | Path) -> bool:
    """Remove the scratch folder with all files. Return False without removing it if a campaign uses it."""
    path = folder(base)
    try:
        lock = folders.lock_file(path / ".used")
    except FileNotFoundError:  # another process just removed the folder
        return True
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        for entry in path.iterdir():  # the lock is removed last, because other processes wait for it
            if entry.name == ".used":
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        (path / ".used").unlink(missing_ok=True)
        with suppress(OSError):  # another process has just made a new lock
            path.rmdir()
    return True

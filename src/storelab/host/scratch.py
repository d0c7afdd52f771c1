"""Folders of a host: the one on tmpfs that a user's campaigns share, which clients read and write, and on what file
system a folder lies. May import: `core`.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storelab.core import folders
from storelab.core.errors import UserError


def existing(path: Path) -> Path:
    """The path itself or the nearest folder above it that exists."""
    return next(p for p in (path, *path.parents) if p.exists())


def filesystem(path: Path) -> str:
    """Type of the file system that holds `path`, e.g. `ext4`; `?` if the system does not say."""
    import psutil  # here: who plans only imports the stores, and psutil is slow to import

    real = existing(path).resolve()
    fits = [p for p in psutil.disk_partitions(all=True) if real.is_relative_to(p.mountpoint)]
    return max(fits, key=lambda p: len(p.mountpoint)).fstype if fits else "?"


def folder(base: str | Path) -> Path:
    """storelab's folder in `base`, a tmpfs of this host. Raises UserError if `base` is not a folder, or another user
    prepared it."""
    if not Path(base).is_dir():
        raise UserError("config.yaml: scratch", f"{str(base)!r} is no folder", "name a tmpfs of this machine")
    return folders.private(Path(base) / f"storelab-{os.getuid()}", "config.yaml: scratch")


@contextmanager
def using(base: str | Path) -> Iterator[Path]:
    """Keep the folder while the block runs."""
    while True:
        path = folder(base) / ".used"
        with folders.lock_file(path) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            if not path.exists() or path.stat().st_ino != os.fstat(lock.fileno()).st_ino:
                continue  # it was removed just now
            yield path.parent
            return


def clear(base: str | Path) -> bool:
    """Remove the folder and all that clients keep there. Returns False, and keeps it, while any campaign uses it."""
    path = folder(base)
    with folders.lock_file(path / ".used") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        shutil.rmtree(path, ignore_errors=True)
    return True

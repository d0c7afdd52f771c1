"""The folder on tmpfs that a user's campaigns share on a host: what clients read and write (level 2, measuring side). Standard library only."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storelab.core.errors import UserError


def folder(base: str | Path) -> Path:
    """storelab's own folder in `base`, a tmpfs of this host. Raises UserError where that is not there."""
    if not Path(base).is_dir():
        raise UserError("config.yaml: scratch", f"{str(base)!r} is no folder", "name a tmpfs of this machine")
    path = Path(base) / f"storelab-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


@contextmanager
def using(base: str | Path) -> Iterator[Path]:
    """Keep the folder while the block runs."""
    while True:
        path = folder(base) / ".used"
        with open(path, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            if not path.exists() or path.stat().st_ino != os.fstat(lock.fileno()).st_ino:
                continue  # it was cleared in this very moment
            yield path.parent
            return


def clear(base: str | Path) -> bool:
    """Remove the folder with all that clients keep there; False, and nothing is removed, while any campaign uses it."""
    path = folder(base)
    with open(path / ".used", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        shutil.rmtree(path, ignore_errors=True)
    return True

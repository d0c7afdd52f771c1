"""Protect against folders and files that another user has prepared.

In a world-writable folder (`/tmp`, `/dev/shm`), another user can create a path that storelab uses, or a link with this
name. storelab would then write to a place that this user chose, with the rights of the user who runs storelab.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from storelab.core.errors import UserError

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config

HINT = "remove it, or use another folder"


def private(path: Path, place: str) -> Path:
    """Return a folder that only this user can write. Create it if necessary.

    Raises
    ------
    UserError
        The path is a link or a file, is owned by another user, or is writable by others.
    """
    trusted(path.parent, place)
    if not path.is_symlink():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UserError(place, f"{path} is a link or a file instead of a folder", HINT)
    if found.st_uid != os.getuid():
        raise UserError(place, f"{path} belongs to another user (uid {found.st_uid})", HINT)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UserError(place, f"other users can write in {path}", f"run `chmod 700 {path}`")
    return path


def trusted(path: str | Path, place: str) -> None:
    """Raise UserError if another user created the path, or a folder above it, in a world-writable folder."""
    whole = Path(path).expanduser().absolute()
    for part in (*reversed(whole.parents), whole):
        try:
            found, above = part.lstat(), part.parent.stat()
        except OSError:  # missing or not accessible; creating it will report the error
            return
        if above.st_mode & stat.S_IWOTH and part != part.parent and found.st_uid not in (0, os.getuid()):
            problem = f"{part} is in a world-writable folder and belongs to another user (uid {found.st_uid})"
            raise UserError(place, problem, HINT)


def require_trusted(config: "Config") -> None:
    """Raise UserError if the folders of state, results or work are not trusted, or if records cannot be moved."""
    work = config.campaign_dir / "work"
    for place, path in (("state", Path(config.state)), ("results", config.raw), ("results", work)):
        trusted(path, place)
    if work.exists() and config.campaign_dir.exists():
        kept = config.raw if config.raw.exists() else config.campaign_dir
        if work.stat().st_dev != kept.stat().st_dev:
            problem = f"{work} and {kept} are on different disks, but records must be moved between them"
            raise UserError(
                "results", problem, "put the whole folder of the campaign on one disk, for example by a link"
            )


def lock_file(path: Path) -> IO[str]:
    """Open a lock file, and create it if necessary. Its content is kept. Raises UserError if it is a link."""
    if path.is_symlink():
        raise UserError(str(path), "the lock file is a link", "remove it")
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "a+")


@contextmanager
def campaign_lock(folder: Path, exclusive: bool = False, required: bool = False) -> Iterator[None]:
    """Lock a campaign, so that it is not sealed while a point is measured, or sealed by two processes at the same time.

    Several points can be measured at the same time. Raises UserError if another process holds the lock. A folder that
    does not exist is not locked; the error is reported when the campaign is read.
    """
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        try:
            fcntl.flock(lock, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            busy = "is being measured, sealed or changed" if exclusive else "is being sealed or changed"
            raise UserError(str(folder), f"{busy} by another process", "wait until it has finished") from None
        except OSError:
            if required:
                raise
        yield
    finally:
        os.close(lock)

"""Protect against folders and files that another user has prepared. Standard library and `errors` only.

In a folder that everybody may write (`/tmp`, `/dev/shm`), another user can create a path that storelab uses, or a link
of that name. storelab would then write to a place of that user's choice, with its own rights.
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

HINT = "remove it, or name another folder"


def private(path: Path, place: str) -> Path:
    """Return a folder that only this user can write, and create it if necessary.

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
        raise UserError(place, f"{path} is owned by another user (uid {found.st_uid})", HINT)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UserError(place, f"other users can write in {path}", f"chmod 700 {path}")
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
            problem = f"{part} is owned by another user (uid {found.st_uid}), in a folder that everybody may write"
            raise UserError(place, problem, HINT)


def require_trusted(config: "Config") -> None:
    """Raise UserError if state, results or work of a campaign are not trusted, or are on different disks."""
    work = config.campaign_dir / "work"
    for place, path in (("state", Path(config.state)), ("results", config.raw), ("results", work)):
        trusted(path, place)
    if work.exists() and config.campaign_dir.exists():
        kept = config.raw if config.raw.exists() else config.campaign_dir
        if work.stat().st_dev != kept.stat().st_dev:
            problem = f"{work} is on another disk than {kept}, but records must be moved between them"
            raise UserError("results", problem, "link the whole folder of the results instead")


def lock_file(path: Path) -> IO[str]:
    """Open a lock file and create it if necessary; its content is kept. Raises UserError: it is a link."""
    if path.is_symlink():
        raise UserError(str(path), "is a link, not a file of storelab", "remove it")
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "a+")


@contextmanager
def campaign_lock(folder: Path, exclusive: bool = False, required: bool = False) -> Iterator[None]:
    """Prevent that a campaign is measured while another process seals it, or removes or replaces its data.

    Several points may be measured at the same time. Raises UserError if another process holds the lock. A folder that
    does not exist is not locked: reading the campaign reports it.

    Parameters
    ----------
    folder
        The folder of the campaign.
    exclusive
        Allow no other process, not even one that measures.
    required
        Raise OSError if the file system has no locks. Otherwise the block runs without a lock.
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

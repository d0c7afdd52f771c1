"""Folders and files that no other user has prepared. Standard library and `errors` only.

In a folder where everybody may write (`/tmp`, `/dev/shm`), another user can make what storelab would make there, or a
link with its name. storelab would then write where that user wants, with the rights of whoever runs it.
"""

import os
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING

from storelab.core.errors import UserError

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config

MEND = "remove it, or name another folder"


def private(path: Path, place: str) -> Path:
    """Return a folder that only this user can write, made where it is missing.

    Raises
    ------
    UserError
        It is a link or a file, is owned by another user, or others can write in it.
    """
    trusted(path.parent, place)
    if not path.is_symlink():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UserError(place, f"{path} is a link or a file, not a folder", MEND)
    if found.st_uid != os.getuid():
        raise UserError(place, f"{path} is owned by another user (uid {found.st_uid})", MEND)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UserError(place, f"others can write in {path}", f"chmod 700 {path}")
    return path


def trusted(path: str | Path, place: str) -> None:
    """Raise UserError where another user made the path, or a folder above it, in a folder where everybody may write."""
    whole = Path(path).expanduser().absolute()
    for part in (*reversed(whole.parents), whole):
        try:
            found, above = part.lstat(), part.parent.stat()
        except OSError:  # not there yet, or not to be looked into: making it says so
            return
        if above.st_mode & stat.S_IWOTH and part != part.parent and found.st_uid not in (0, os.getuid()):
            problem = f"{part} is owned by another user (uid {found.st_uid}), in a folder where everybody may write"
            raise UserError(place, problem, MEND)


def own(config: "Config") -> None:
    """Raise UserError where state, results or work of a campaign are not to be trusted, or on two disks."""
    work = config.campaign_dir / "work"
    for place, path in (("state", Path(config.state)), ("results", config.raw), ("results", work)):
        trusted(path, place)
    if work.exists() and config.campaign_dir.exists():
        kept = config.raw if config.raw.exists() else config.campaign_dir
        if work.stat().st_dev != kept.stat().st_dev:
            told = f"{work} is on another disk than {kept}: records are moved from one to the other"
            raise UserError("results", told, "link the whole folder of the results instead")


def lock_file(path: Path) -> IO[str]:
    """Open a file that is locked, made where it is missing; its content stays. Raises UserError where it is a link."""
    if path.is_symlink():
        raise UserError(str(path), "is a link, and no file of storelab", "remove it")
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "a+")

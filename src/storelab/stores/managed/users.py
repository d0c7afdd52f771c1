"""The processes that now use a store or measure a campaign. The last process to finish stops a managed store.

Each process that measures locks its files `<state>/<store>.users/<pid>` and `<state>/<campaign>.campaign.users/<pid>`.
A run also locks `run` in the latter folder (`measure/attempts.py`). The kernel releases the lock when the process ends,
even by kill -9.
"""

import fcntl
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from storelab.core import folders
from storelab.core.errors import UserError

LOCKED_S = 1.0  # maximum time in seconds for which `others` in another process locks a file
_held: dict[Path, Any] = {}  # locked files of this process, which stay open until it ends


def folder(state: Path, store: str) -> Path:
    """Return the folder with the locked files of the processes that use a store or campaign."""
    return state / f"{store.partition('+')[0]}.users"


def of_campaign(name: str) -> str:
    """Return the name of a campaign for `use` and `others`."""
    return f"{name}.campaign"


def use(state: Path, stores: Iterable[str]) -> None:
    """Record that this process uses these stores or campaigns until it ends.

    Raises UserError if a process with the same number uses them from another host or container.
    """
    for name in stores:
        path, end = folder(state, name) / str(os.getpid()), time.monotonic() + LOCKED_S
        path.parent.mkdir(parents=True, exist_ok=True)
        while path not in _held:
            file = folders.lock_file(path)  # the lock exists as long as the process
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    _held[path] = file
                    continue
            file.close()  # `others` in another process has locked the file, or has just removed it
            if time.monotonic() > end:
                problem = f"{path} is locked by a process of another host or container"
                raise UserError("state", problem, "set another `state`")
            time.sleep(0.01)


def others(state: Path, store: str) -> list[int]:
    """Return the sorted pids of other processes that use a store or campaign. Parents of this process are left out."""
    ancestors = {os.getpid(), *(p.pid for p in psutil.Process().parents())}
    found = []
    for path in folder(state, store).glob("*"):
        if not path.name.isdigit() or int(path.name) in ancestors:
            continue
        with suppress(FileNotFoundError), open(path, "r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()  # its process has ended
            except BlockingIOError:
                found.append(int(path.name))
    return sorted(found)

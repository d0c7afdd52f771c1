"""Processes that use a managed store now; the last one to finish stops the store.

Each process that measures locks its file `<state>/<store>.users/<pid>`. The kernel releases the lock with the process,
even after kill -9.
"""

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from storelab.core import folders

_held: dict[Path, Any] = {}  # open files of this process, until its end


def _folder(state: Path, store: str) -> Path:
    return state / f"{store.partition('+')[0]}.users"


def use(state: Path, stores: Iterable[str]) -> None:
    """Record that this process uses these stores until it ends."""
    for name in stores:
        path = _folder(state, name) / str(os.getpid())
        if path in _held:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        file = folders.lock_file(path)  # the lock lives as long as the process
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _held[path] = file


def others(state: Path, store: str) -> list[int]:
    """Return the pids of processes that use a store, in order, without this one and its parents."""
    ancestors = {os.getpid(), *(p.pid for p in psutil.Process().parents())}
    found = []
    for path in _folder(state, store).glob("*"):
        if not path.name.isdigit() or int(path.name) in ancestors:
            continue
        with suppress(FileNotFoundError), open(path, "r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()  # its process has ended
            except BlockingIOError:
                found.append(int(path.name))
    return sorted(found)

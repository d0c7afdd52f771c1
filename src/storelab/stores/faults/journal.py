"""What faults did to a store and nobody has taken back yet: written before each act, in the store's folder.

Whoever does faults holds a lock, which the kernel gives free when its process ends, kill -9 included. So the next
storelab knows whether what stands in the journal is somebody's experiment or was left behind. May import: `core`.
"""

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab.core import folders
from storelab.core.errors import UserError
from storelab.core.records import read_as, write_json


@dataclass
class _Harm:
    act: str
    actor: str


@dataclass
class _Harms:
    """What `faults.json` holds; a harm has more, by its act."""

    harms: list[_Harm]


class Journal:
    """folder: of the store. Each harm is {"act", "actor"} and what is needed to take it back."""

    def __init__(self, folder: Path):
        self.file, self._lock, self._thread = folder / "faults.json", folder / "faults.lock", threading.RLock()

    def harms(self) -> list[dict[str, Any]]:
        """In the order in which they were done. Raises UserError for a damaged file."""
        if not self.file.exists():
            return []
        return read_as(self.file, _Harms, "undo by hand what was done to the store, then remove the file")["harms"]

    def add(self, harm: dict[str, Any]) -> None:
        with self._thread:
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self.file, {"schema": 1, "harms": [*self.harms(), harm]})

    def remove(self, harm: dict[str, Any]) -> None:
        """The file goes with the last one."""
        with self._thread:
            rest = self.harms()
            rest.remove(harm)
            if rest:
                write_json(self.file, {"schema": 1, "harms": rest})
            else:
                self.file.unlink(missing_ok=True)

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Whether the journal is this process's while the block runs."""
        if not self.file.parent.exists():
            self.file.parent.mkdir(parents=True, mode=0o700)
        with folders.lock_file(self._lock) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    @contextmanager
    def taken(self, place: str) -> Iterator[None]:
        """Raises UserError where another process does faults on this store."""
        with self.held() as own:
            if not own:
                raise UserError(place, "another storelab process does faults on it", "wait for that one to end")
            yield

"""A gang's folder on a node's tmpfs. Its agent removes it at the end; if that one was killed, the next agent does.

May import: `core`, `host`.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from storelab.core import folders
from storelab.host import scratch

TURN, CLIENTS = ".turn", "clients"  # a lock in the scratch folder; a file with the names of the clients' folders


class GangFolder:
    """`gang-<attempt>-<number>` in the user's scratch folder on this node.

    It is locked until `remove()`, or until the kernel ends its owner.
    """

    def __init__(self, base: Path, attempt: str, number: int, ranks: list[int]):
        self.base, self._held = base, ExitStack()
        self.scratch = self._held.enter_context(scratch.using(base))
        with _turn(self.scratch):
            sweep(self.scratch)
            self.path = self.scratch / f"gang-{attempt}-{number}"
            self.path.mkdir(mode=0o700)
            self._lock = os.open(self.path, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.path / CLIENTS).write_text("\n".join(f"{attempt}-{rank}" for rank in ranks))

    def remove(self) -> None:
        """Remove it and what its clients left, once; and the whole scratch folder if nobody else uses it."""
        _remove(self.path)
        os.close(self._lock)
        self._held.close()
        scratch.clear(self.base)


def sweep(folder: Path) -> list[str]:
    """Remove the folders of gangs whose agent was killed, including their credentials; returns their names.

    No other agent may begin meanwhile.
    """
    out = []
    for path in sorted(folder.glob("gang-*")):
        try:
            lock = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
            out.append(path.name)
        except BlockingIOError:
            pass  # its agent lives
        finally:
            os.close(lock)
    return out


def _remove(path: Path) -> None:
    """Remove the clients' folders first: while this folder exists, their names are known."""
    for name in (path / CLIENTS).read_text().split() if (path / CLIENTS).exists() else []:
        shutil.rmtree(path.parent / name, ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """One agent at a time: a folder that is not locked yet would look abandoned."""
    with folders.lock_file(folder / TURN) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

"""A gang's folder on a node's tmpfs: its agent removes it at the end, and the next agent does where that one was killed (level 3, measuring side)."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USED, TURN, CLIENTS = ".used", ".turn", "clients"  # locks of the scratch folder; names of a gang's clients' folders


class GangFolder:
    """`gang-<attempt>-<number>` in the user's scratch folder on this node; locked until `remove()`, or until the kernel ends its owner."""

    def __init__(self, base: Path, attempt: str, number: int, ranks: list[int]):
        self.scratch = base / f"storelab-{os.getuid()}"
        self._used = _hold(self.scratch)
        with _turn(self.scratch):
            sweep(self.scratch)
            self.path = self.scratch / f"gang-{attempt}-{number}"
            self.path.mkdir(mode=0o700)
            self._lock = os.open(self.path, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.path / CLIENTS).write_text("\n".join(f"{attempt}-{rank}" for rank in ranks))

    def remove(self) -> None:
        """With what its clients have left. Once."""
        _remove(self.path)
        os.close(self._lock)
        os.close(self._used)


def sweep(scratch: Path) -> list[str]:
    """Remove the folders of gangs whose agent was killed, credentials among them; returns their names. No other agent may begin meanwhile."""
    out = []
    for path in sorted(scratch.glob("gang-*")):
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
    """Clients first: while the folder is there, someone knows of them."""
    names = (path / CLIENTS).read_text().split() if (path / CLIENTS).exists() else []
    for name in names:
        shutil.rmtree(path.parent / name, ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)


def _hold(scratch: Path) -> int:
    """Keep the scratch folder from `storelab down --all`; returns what holds it."""
    while True:
        scratch.mkdir(mode=0o700, exist_ok=True)
        try:
            held = os.open(scratch / USED, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(held, fcntl.LOCK_SH)
            if (scratch / USED).stat().st_ino == os.fstat(held).st_ino:
                return held
            os.close(held)
        except FileNotFoundError:
            continue  # it was cleared in this very moment


@contextmanager
def _turn(scratch: Path) -> Iterator[None]:
    """One agent at a time: a folder that is not locked yet would look left behind."""
    with open(scratch / TURN, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

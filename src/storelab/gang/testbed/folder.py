"""What testbeds share. Their folder is marked as such: taking one down never removes anybody else's files."""

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes

PLACE, MARK = "testbed", ".storelab-testbed"


def claim(folder: Path) -> None:
    """Mark the folder as a testbed's; it must be empty or not exist. Raises UserError: it holds something else."""
    if folder.exists() and not claimed(folder) and any(folder.iterdir()):
        raise UserError(
            PLACE,
            f"{folder} holds files that are no testbed's",
            "name a folder that is empty or does not exist (--folder)",
        )
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    (folder / MARK).touch()


def claimed(folder: Path) -> bool:
    """Whether the folder is a testbed's."""
    return (folder / MARK).exists()


def read(path: Path) -> str:
    """Text of a file, '' if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def started_with(pid: int, folder: Path, parts: tuple[str, ...] = ("cmdline",)) -> bool:
    """Whether one of these parts of /proc/<pid> names a file of the folder: the pid may be another process's by now.

    A process that is just starting a program (execve) shows none of them, for less than a millisecond: it is asked
    again.
    """
    for _ in range(10):
        texts = [read(Path(f"/proc/{pid}/{part}")) for part in parts]
        if any(texts):
            return any(f"{folder}/" in text for text in texts)
        if not alive(pid):
            break
        time.sleep(0.005)
    return False


def alive(pid: int) -> bool:
    """Whether a process runs. A zombie does not, and everything in its process namespace has ended."""
    return read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1] not in ([], ["Z"], ["X"])


def send(pid: int, sig: int) -> None:
    """Send a signal to a process, which may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)


def run(*command: str, environ: Mapping[str, str] | None = None) -> None:
    """Run a command that sets something up. Raises MeasurementFailed with what it said."""
    done = processes.ask(command, 60, environ)
    if done.returncode:
        raise MeasurementFailed(f"{PLACE}: `{' '.join(command)}` failed: {processes.words(done)}")

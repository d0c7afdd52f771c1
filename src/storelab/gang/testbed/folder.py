"""What testbeds share. Their folder is marked as such: taking one down never removes anybody else's files."""

import contextlib
import os
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


def send(pid: int, sig: int) -> None:
    """Send a signal to a process, which may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)


def run(*command: str, environ: Mapping[str, str] | None = None) -> None:
    """Run a command that sets something up. Raises MeasurementFailed with what it said."""
    done = processes.ask(command, 60, environ)
    if done.returncode:
        raise MeasurementFailed(f"{PLACE}: `{' '.join(command)}` failed: {processes.words(done)}")

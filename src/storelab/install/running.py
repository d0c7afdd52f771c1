"""A long command, watched: what it did so far, how long; ended with all that it started. May import: `host`, `core`."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from storelab.core.errors import MeasurementFailed
from storelab.install import Progress

LONGEST = 3600.0  # seconds for one command
EVERY = 20.0  # seconds between two lines of progress


def run(command: Sequence[str], folder: Path, environ: Mapping[str, str], log: Path, progress: Progress) -> None:
    """Run it quietly at low priority, telling now and then how far it is. Raises MeasurementFailed with its last
    lines."""
    begun = told = time.monotonic()
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    with log.open("wb") as out:
        child = subprocess.Popen(
            [*nice, *command],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            while child.poll() is None:
                if time.monotonic() - begun > LONGEST:
                    raise MeasurementFailed(
                        f"install: {Path(command[0]).name} {command[1]} did not end within {LONGEST:g} s"
                    )
                if time.monotonic() - told >= EVERY:
                    told = time.monotonic()
                    progress(f"{told - begun:.0f} s: {_so_far(log)}")
                time.sleep(0.2)
        finally:
            _end(child)
    if child.returncode:
        lines = [
            line
            for line in log.read_text(errors="replace").splitlines()
            if line.strip() and not line.startswith("go: downloading")
        ]
        raise MeasurementFailed(
            f"install: {Path(command[0]).name} {command[1]} failed: {' | '.join(lines[-4:])[-600:]}"
        )


def _end(child: "subprocess.Popen[bytes]") -> None:
    """After Ctrl-C or a time-out: the command with all that it started."""
    if child.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(child.pid, signal.SIGINT)
        child.wait(5.0)
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(child.pid, signal.SIGKILL)  # the group outlives its leader
        child.wait(10.0)


def _so_far(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    modules = sum(line.startswith("go: downloading") for line in lines)
    return f"{modules} modules downloaded, {len(lines) - modules} packages compiled"

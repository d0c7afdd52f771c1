"""Running commands: one whose output is wanted; a long one, watched, and ended with all that it started.

May import: `host`, `core`.
"""

import contextlib
import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from storelab.core import folders
from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes
from storelab.install import Progress

LONGEST = 3600.0  # seconds for one command
EVERY = 20.0  # seconds between two lines of progress
DOWNLOADS = ("go: downloading", "Downloaded ")  # how lines begin in which Go and Cargo tell what they fetched
MARKS = ("E:", "W:", "[ERROR]", "ERROR")  # how lines begin in which apt, debootstrap, Maven and pip tell what failed


def told(command: Sequence[str], what: str, seconds: float, environ: Mapping[str, str] | None = None) -> str:
    """What a command prints. what: the command for people; seconds: how long it may take.

    Raises UserError where there is no such program, MeasurementFailed with the words of a command that fails.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=environ,
            check=False,
            preexec_fn=processes.die_with_parent(),
        )
    except FileNotFoundError:
        raise UserError(
            "install", f"there is no {command[0]} on this machine", "use a Debian, or a relative of it"
        ) from None
    except subprocess.TimeoutExpired:
        raise MeasurementFailed(f"install: {what} was not done after {seconds / 60:.0f} min") from None
    if done.returncode:
        lines = (done.stdout + done.stderr).split("\n")
        marked = sorted((line for line in lines if line.startswith(MARKS)), key=lambda line: line[:2]) or lines[-3:]
        raise MeasurementFailed(f"install: {what} failed: {' '.join(' '.join(marked).split())[:300] or 'no message'}")
    return done.stdout


def check_room(tools: Path, needed: float, what: str) -> None:
    """Raises UserError where the tools folder has not `needed` bytes free. what: takes them, for people."""
    if (free := shutil.disk_usage(tools).free) < needed:
        raise UserError(
            "install",
            f"{tools} has {free / 1e9:.1f} GB free; {what}",
            "make room, or name another folder in STORELAB_TOOLS",
        )


@contextlib.contextmanager
def alone(tools: Path, progress: Progress) -> Iterator[None]:
    """One build at a time in a tools folder."""
    with folders.lock_file(tools / "lock") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another `storelab install` to end")
            fcntl.flock(f, fcntl.LOCK_EX)
        yield


def build_once(
    kind: str,
    room: float,
    tools: Path,
    progress: Progress,
    there: Callable[[], bool],
    build: Callable[[Path], None],
) -> None:
    """Build one kind alone, in a folder that goes at the end, unless it is `there`: another install may have been
    quicker.

    room: bytes of disk that the build takes. Raises UserError (no room, tools folder not writable), and what the build
    raises.
    """
    scratch = tools / "cache" / kind  # what a killed build left there is used again
    try:
        (tools / "bin").mkdir(parents=True, exist_ok=True)
        with alone(tools, progress), contextlib.ExitStack() as end:
            scratch.mkdir(parents=True, exist_ok=True)
            end.callback(shutil.rmtree, scratch, ignore_errors=True)
            if not there():
                check_room(tools, room, f"the build takes {room / 1e9:.1f} GB")
                build(scratch)
    except OSError as error:
        where = error.filename or tools
        raise UserError(
            "install", f"{where}: {error.strerror}", "name a folder to write in with STORELAB_TOOLS"
        ) from None


def pip(*arguments: str) -> None:
    """`pip install` of what is pinned by hash; by uv where this Python has no pip, as in environments that uv makes.

    Raises UserError where neither is there, MeasurementFailed.
    """
    if importlib.util.find_spec("pip"):
        by = [sys.executable, "-m", "pip", "install"]
    elif uv := shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent)):
        by = [uv, "pip", "install", "--python", sys.executable]
    else:
        raise UserError("install", f"{sys.executable} has no pip, and uv is not in PATH", "python -m ensurepip")
    told([*by, "--quiet", "--require-hashes", *arguments], "pip", 1800)


def run(command: Sequence[str], folder: Path, environ: Mapping[str, str], log: Path, progress: Progress) -> None:
    """Run it quietly at low priority, telling now and then how far it is.

    Raises MeasurementFailed with its last lines.
    """
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
            preexec_fn=processes.die_with_parent(),
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
            if line.strip() and not line.lstrip().startswith(DOWNLOADS)
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
    lines = [line.lstrip() for line in log.read_text(errors="replace").splitlines()]
    got = sum(line.startswith(DOWNLOADS) for line in lines)
    crates = sum(line.startswith("Compiling ") for line in lines)
    if crates or any(line.startswith("Downloaded ") for line in lines):
        return f"{got} crates downloaded, {crates} compiled"
    return f"{got} modules downloaded, {len(lines) - got} packages compiled"

"""Functions that run commands: short commands for their output, and long commands with progress lines.

A command that is interrupted ends with all its child processes. This module may import `host` and `core`.
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

LONGEST = 3600.0  # time limit of one command in seconds
EVERY = 20.0  # seconds between two progress lines
DOWNLOADS = ("go: downloading", "Downloaded ")  # first words of lines in which Go and Cargo report downloads
MARKS = ("E:", "W:", "[ERROR]", "ERROR")  # first words of lines in which apt, debootstrap, Maven and pip report errors


def command_output(command: Sequence[str], what: str, seconds: float, environ: Mapping[str, str] | None = None) -> str:
    """Run a command, and return its output. `what` is its name for messages; `seconds` is the time limit.

    Raises UserError if the program does not exist, and MeasurementFailed with the command's message if it fails.
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
        raise UserError("install", f"there is no {command[0]} on this host", "use Debian or a derivative") from None
    except subprocess.TimeoutExpired:
        raise MeasurementFailed(f"install: {what} did not end within {seconds / 60:.0f} min") from None
    if done.returncode:
        lines = (done.stdout + done.stderr).split("\n")
        marked = sorted((line for line in lines if line.startswith(MARKS)), key=lambda line: line[:2]) or lines[-3:]
        raise MeasurementFailed(f"install: {what} failed: {' '.join(' '.join(marked).split())[:300] or 'no message'}")
    return done.stdout


def require_space(tools: Path, needed: float, what: str) -> None:
    """Raise UserError if the tools folder has less than `needed` bytes free. `what` is the reason in the message."""
    if (free := shutil.disk_usage(tools).free) < needed:
        raise UserError(
            "install",
            f"{tools} has {free / 1e9:.1f} GB free; {what}",
            "free space, or set another folder in STORELAB_TOOLS",
        )


@contextlib.contextmanager
def single_build(tools: Path, progress: Progress) -> Iterator[None]:
    """Wait until no other process is building in this tools folder, and prevent other builds during the block."""
    with folders.lock_file(tools / "lock") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another `storelab install` to end")
            fcntl.flock(f, fcntl.LOCK_EX)
        yield


def build_once(
    kind: str,
    needed_bytes: float,
    tools: Path,
    progress: Progress,
    there: Callable[[], bool],
    build: Callable[[Path], None],
) -> None:
    """Build one kind, unless it is already `there`, in a scratch folder that is removed afterwards.

    Only one build runs at a time. Another build may have installed the same kind before this one starts. Raises
    UserError with too little disk space or if the tools folder is not writable, and errors of the build.
    """
    scratch = tools / "cache" / kind  # a new build uses the files of an interrupted build
    try:
        (tools / "bin").mkdir(parents=True, exist_ok=True)
        with single_build(tools, progress), contextlib.ExitStack() as end:
            scratch.mkdir(parents=True, exist_ok=True)
            end.callback(shutil.rmtree, scratch, ignore_errors=True)
            if not there():
                require_space(tools, needed_bytes, f"the build needs {needed_bytes / 1e9:.1f} GB")
                build(scratch)
    except OSError as error:
        where = error.filename or tools
        raise UserError("install", f"{where}: {error.strerror}", "set a writable folder in STORELAB_TOOLS") from None


def pip(*arguments: str) -> None:
    """Install packages that are pinned by hash with pip. Use uv if this Python has no pip.

    Raises UserError if neither exists, and MeasurementFailed if the installation fails.
    """
    if importlib.util.find_spec("pip"):
        by = [sys.executable, "-m", "pip", "install"]
    elif uv := shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent)):
        by = [uv, "pip", "install", "--python", sys.executable]
    else:
        raise UserError("install", f"{sys.executable} has no pip, and uv is not in PATH", "run `python -m ensurepip`")
    command_output([*by, "--quiet", "--require-hashes", *arguments], "pip", 1800)


def run(command: Sequence[str], folder: Path, environ: Mapping[str, str], log: Path, progress: Progress) -> None:
    """Run a command at low priority. Its output is written to a log; progress is reported from time to time.

    Raises MeasurementFailed with the last lines of the log if the command fails.
    """
    begun = reported = time.monotonic()
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
                if time.monotonic() - reported >= EVERY:
                    reported = time.monotonic()
                    progress(f"{reported - begun:.0f} s: {_so_far(log)}")
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
    """End the command and all its child processes, after Ctrl-C or a timeout."""
    if child.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(child.pid, signal.SIGINT)
        child.wait(5.0)
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(child.pid, signal.SIGKILL)  # processes of the group can continue when the leader has ended
        child.wait(10.0)


def _so_far(log: Path) -> str:
    lines = [line.lstrip() for line in log.read_text(errors="replace").splitlines()]
    got = sum(line.startswith(DOWNLOADS) for line in lines)
    crates = sum(line.startswith("Compiling ") for line in lines)
    if crates or any(line.startswith("Downloaded ") for line in lines):
        return f"{got} crates downloaded, {crates} compiled"
    return f"{got} modules downloaded, {len(lines) - got} packages compiled"

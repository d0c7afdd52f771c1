"""Run short commands, start child processes that end with their parent, and read why a process has failed."""

import ctypes
import re
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

_CRASH = re.compile(r"(?:panic|fatal error|runtime): |SIG[A-Z]+: ")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
LATE, MISSING = 124, 127  # exit status of a command that timed out, or could not be started


def run_command(
    command: Sequence[str | Path],
    timeout_s: float = 20.0,
    environ: Mapping[str, str] | None = None,
    feed: str = "",
    **more: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a short command and return its status and output.

    If the main thread calls this function, the command ends with this process. feed: standard input of the command;
    environ: its environment, by default that of this process; more: arguments for `subprocess.run`. No error is raised.
    The status is LATE if the command does not end within `timeout_s` seconds, and MISSING if it cannot be started.
    `stderr` then has the reason.
    """
    # A `preexec_fn` takes the lock of logging. Ctrl-C can leave it locked by the main thread; other threads would wait.
    main = threading.current_thread() is threading.main_thread()
    try:
        return subprocess.run(
            command,
            input=feed,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=environ,
            check=False,
            **(({"preexec_fn": die_with_parent()} if main else {}) | more),
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, LATE, "", f"no answer within {timeout_s:g} s")
    except OSError as error:
        return subprocess.CompletedProcess(command, MISSING, "", f"cannot be run ({error.strerror})")


def words(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last 300 characters of a command's errors, or of its output, on one line.

    For a crash of a Go program, return the reason.
    """
    text = done.stderr or done.stdout
    return _crash(text.splitlines()) or " ".join(text.split())[-300:]


def why_ended(lines: Iterable[str], count: int = 1) -> str:
    """Return the last `count` of these output lines of a failed program.

    For a crash of a Go program, return the reason.
    """
    kept = [line.strip() for line in lines if line.strip()]
    return (_crash(kept) or " | ".join(kept[-count:]))[:500]


def _crash(lines: Iterable[str]) -> str:
    """Return the line with the reason of a crash of a Go program, before its stack traces; "" if there is none."""
    return next((line.strip() for line in lines if _CRASH.match(line)), "")


def log_lines(log: Path) -> list[str]:
    """Return the non-empty lines of a log file; [] if it does not exist."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return [line.strip() for line in text.splitlines() if line.strip()]


def pid_namespace() -> int:
    """Return the identity of the pid namespace of this process. It differs between containers."""
    return Path("/proc/self/ns/pid").stat().st_ino


def die_with_parent(sig: int = signal.SIGKILL) -> Callable[[], None]:
    """Return a `preexec_fn` after which Linux sends `sig` to the child when its parent ends (prctl(2))."""
    return partial(_libc.prctl, _PR_SET_PDEATHSIG, sig, 0, 0, 0)


def no_core_dumps() -> None:
    """Disable core dumps of this process and its children, because their memory contains secret keys.

    The limit is 1 byte, because the kernel ignores a limit of 0 if it pipes dumps to a program (core(5)).
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if most == 0 else 1, most))


def stop(process: subprocess.Popen, grace_s: float = 5.0, sig: int = signal.SIGTERM) -> int:
    """Send a signal to a process, wait at most `grace_s` seconds, then kill it. Return the exit status."""
    if process.poll() is None:
        process.send_signal(sig)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()

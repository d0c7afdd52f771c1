"""Child processes: short commands and their output, and children that end with their parent."""

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

    If the main thread calls it, the command ends with this process. feed: its standard input; environ: default: that of
    this process; more: for `subprocess.run`. It raises nothing: the status is LATE if the command does not end within
    `timeout_s` seconds, and MISSING if it cannot be started; `stderr` then has the reason.
    """
    # Only in the main thread: `preexec_fn` takes the lock of logging, which Ctrl-C can leave locked by the main thread.
    # A `preexec_fn` takes the lock of logging, which Ctrl-C can leave taken by the main thread: others would wait.
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
    """Return the end of a command's errors, or of its output, on one line. For a crash in Go, return its reason."""
    text = done.stderr or done.stdout
    return _crash(text.splitlines()) or " ".join(text.split())[-300:]


def why_ended(lines: Iterable[str], count: int = 1) -> str:
    """Return the last `count` lines of a failed program. For a crash in Go, return its reason."""
    kept = [line.strip() for line in lines if line.strip()]
    return (_crash(kept) or " | ".join(kept[-count:]))[:500]


def _crash(lines: Iterable[str]) -> str:
    """Return the reason of a crash in Go, which precedes the stacks of the goroutines; "" if there is none."""
    return next((line.strip() for line in lines if _CRASH.match(line)), "")


def log_lines(log: Path) -> list[str]:
    """Return the non-empty lines of a program's log; [] without a log."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return [line.strip() for line in text.splitlines() if line.strip()]


def pid_namespace() -> int:
    """Return the number of the pid namespace of this process, which differs between containers."""
    return Path("/proc/self/ns/pid").stat().st_ino


def die_with_parent(sig: int = signal.SIGKILL) -> Callable[[], None]:
    """Return a `preexec_fn` after which Linux sends `sig` to the child when its parent ends (prctl(2))."""
    return partial(_libc.prctl, _PR_SET_PDEATHSIG, sig, 0, 0, 0)


def no_core_dumps() -> None:
    """Disable core dumps of this process and its children, because their memory contains keys.

    The limit is 1 byte, because with 0 the kernel would still pipe the dump to a program (core(5)).
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

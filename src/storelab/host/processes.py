"""Child processes that never outlive their parent."""

import ctypes
import signal
import subprocess
from collections.abc import Callable
from functools import partial

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(sig: int = signal.SIGKILL) -> Callable[[], None]:
    """A `preexec_fn`: Linux sends `sig` to the child when its parent ends, even after kill -9 (prctl(2))."""
    return partial(_libc.prctl, _PR_SET_PDEATHSIG, sig, 0, 0, 0)


def stop(process: subprocess.Popen, grace_s: float = 5.0, sig: int = signal.SIGTERM) -> int:
    """Signal, wait at most `grace_s` seconds, then kill; returns the exit status. Ended processes are left alone."""
    if process.poll() is None:
        process.send_signal(sig)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()

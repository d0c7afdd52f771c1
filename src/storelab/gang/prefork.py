"""The process that starts the clients of one host: it imports their modules once, then forks a process for each.

The import of an engine takes up to one second of CPU, for which a gang of many clients would wait at every point. The
imported modules do not open files and do not start threads, except for Arrow's allocator and numpy's BLAS, which
support a fork.

The launcher (`launchers/local.py`) sends one JSON line on standard input: `folder` of the gang, `ranks`, `environs`.
Therefore no file contains the keys. The line can come long after the start. Until then, the process imports the modules
of a point. It prints one line for each client, `RANK pid PID`, and another when the client has ended, `RANK status
STATUS`. A negative status means that a signal ended the client.
"""

import contextlib
import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storelab.core import clock
from storelab.host import processes

GRACE_S = 5  # seconds from SIGTERM to SIGKILL


class _NoPandas:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("measuring processes do not import pandas", name=name)


def without_pandas() -> None:
    """Import pyarrow now, and prevent it from importing pandas for its first array.

    The import of pandas would take half a second of CPU, while other clients may already measure.
    """
    sys.meta_path.insert(0, _NoPandas())
    import pyarrow.parquet  # noqa: F401


def run(preload: Callable[[Path, list[int]], None], work: Callable[[Path, int], int]) -> None:
    """Fork a process for each requested rank, in which `work(folder, rank)` returns the exit status, and wait for them.

    If standard input ends without a request, return immediately. `preload` imports the modules that the clients share.
    SIGTERM ends the clients; SIGKILL follows after GRACE_S. The clients end with this process, and this process ends
    with its parent (`processes.die_with_parent`).
    """
    if not (line := sys.stdin.readline()):
        return
    request = json.loads(line)
    folder, ranks, environs = Path(request["folder"]), request["ranks"], request["environs"]
    with open(folder / f"client.{ranks[0]}.log", "ab") as log:
        os.dup2(log.fileno(), 2)
    preload(folder, ranks)
    here, running, signals = os.getpid(), dict[int, int](), list[int]()

    def end(number: int, _: object) -> None:
        if os.getpid() != here:  # a forked process that is not a client yet
            os._exit(128 + number)
        if number != signal.SIGALRM and signals:  # send SIGTERM only once: clients may be closing what they opened
            return
        signals.append(number)
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if number == signal.SIGALRM else signal.SIGTERM)
        signal.alarm(GRACE_S)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, end)
    gc.freeze()  # a garbage collection in a client would copy the shared pages
    for rank in ranks:
        if signals:
            break
        if not (pid := os.fork()):
            _become(folder, rank, here, environs[rank % len(environs)])
            # All results are written. A normal exit may abort with obstore (engines/obstore), and is slow with ROOT.
            os._exit(work(folder, rank))
        running[pid] = rank
        _report(rank, "pid", pid)
    while running:
        pid, status = os.wait()
        _report(running.pop(pid), "status", os.waitstatus_to_exitcode(status))


def _become(folder: Path, rank: int, parent: int, environ: dict[str, str]) -> None:
    """Give the forked process its own session, log and environment."""
    processes.die_with_parent()()
    if os.getppid() != parent:
        os._exit(1)
    os.setsid()
    with open(folder / f"client.{rank}.log", "ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    os.environ.update(environ)
    clock.set_offset(int(os.environ.get(clock.OFFSET, "0")))


def _report(rank: int, what: str, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the launcher has ended, and this process ends with it
        os.write(1, f"{rank} {what} {number}\n".encode())

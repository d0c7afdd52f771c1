"""Starts several clients of one host from one process: it loads what they need once, then forks one process for each.

To load an engine takes up to a second of CPU: a gang of many clients would wait for that at every point. What is loaded
here opens nothing and starts no thread of its own; those of Arrow's allocator and of numpy's BLAS heed a fork.

The launcher (`launchers/local.py`) says on standard input, in one JSON line, which clients it wants: `folder` of the
gang, `ranks`, `environs`; so keys stand in no file. It may come long after the start: until then the process loads what
a point will need. Here goes out, a line each: `RANK pid PID`, and once it has ended `RANK status STATUS` (negative: by
a signal).
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

GRACE_S = 5  # from SIGTERM to SIGKILL


class _NoPandas:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("a measuring process does without pandas", name=name)


def without_pandas() -> None:
    """Load pyarrow at once, and keep it from importing pandas for its first array: half a second of CPU in which other
    clients may still be measuring."""
    sys.meta_path.insert(0, _NoPandas())
    import pyarrow.parquet  # noqa: F401


def run(preload: Callable[[Path, list[int]], None], work: Callable[[Path, int], int]) -> None:
    """Hear which clients are wanted, fork a process for each rank, in which `work(folder, rank)` returns the exit
    status, and wait for all of them. Returns at once where standard input ends: then nobody wants any.

    preload: loads the modules that they share. SIGTERM ends them, after GRACE_S by SIGKILL; they end with this
    process, and this one with its parent (`processes.die_with_parent`).
    """
    if not (line := sys.stdin.readline()):
        return
    wanted = json.loads(line)
    folder, ranks, environs = Path(wanted["folder"]), wanted["ranks"], wanted["environs"]
    with open(folder / f"client.{ranks[0]}.log", "ab") as log:
        os.dup2(log.fileno(), 2)
    preload(folder, ranks)
    here, running, told = os.getpid(), dict[int, int](), list[int]()

    def end(number: int, _: object) -> None:
        if os.getpid() != here:  # forked a moment ago, and not yet a client
            os._exit(128 + number)
        if number != signal.SIGALRM and told:  # once is enough: clients may be closing what they opened
            return
        told.append(number)
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if number == signal.SIGALRM else signal.SIGTERM)
        signal.alarm(GRACE_S)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, end)
    gc.freeze()  # a collection in a client would copy the pages of all that is shared
    for rank in ranks:
        if told:
            break
        if not (pid := os.fork()):
            _become(folder, rank, here, environs[rank % len(environs)])
            # Everything is written then. At a usual exit obstore may abort (engines/obstore), and ROOT is slow.
            os._exit(work(folder, rank))
        running[pid] = rank
        _tell(rank, "pid", pid)
    while running:
        pid, status = os.wait()
        _tell(running.pop(pid), "status", os.waitstatus_to_exitcode(status))


def _become(folder: Path, rank: int, parent: int, environ: dict[str, str]) -> None:
    """A client's own session, log and environment."""
    processes.die_with_parent()()
    if os.getppid() != parent:
        os._exit(1)
    os.setsid()
    with open(folder / f"client.{rank}.log", "ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    os.environ.update(environ)
    clock.set_offset(int(os.environ.get(clock.OFFSET, "0")))


def _tell(rank: int, what: str, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the launcher ended, and this process with it
        os.write(1, f"{rank} {what} {number}\n".encode())

"""Fork clients from a process that has already loaded their libraries.

Loading these takes half a second of CPU time or more, and the tests have hundreds of points. All else is like at other
points: arguments, standard input and output of `gang/prefork.py`, a separate session, environment and folder.
"""

import contextlib
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Collection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from storelab.core.engines import CATALOGUE
from storelab.gang import client
from storelab.host import processes

# ROOT and davix need large libraries, but only a few tests use them.
PLACES = {
    use.client for engine in CATALOGUE.values() if engine.name not in ("root", "davix") for use in engine.uses.values()
}
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["storelab.gang.client", *sorted({place.partition(":")[0] for place in PLACES})])


def _become(words: list[str], environ: dict[str, str], folder: str, given: Connection, output: Connection) -> None:
    processes.die_with_parent()()  # the process ends with the worker of the tests
    os.setsid()
    with open(os.devnull, "ab") as nowhere:  # `prefork.run` opens the log
        for stream, number in ((given, 0), (output, 1), (nowhere, 2)):
            os.dup2(stream.fileno(), number)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.argv = ["client", *words]
    client.main()


class Forked:
    """A forked client with the part of the interface of `subprocess.Popen` that the launcher uses."""

    def __init__(self, words: Collection[str]):
        (given, stdin), (stdout, output) = CONTEXT.Pipe(duplex=False), CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(
            target=_become, args=(list(words), dict(os.environ), str(Path.cwd()), given, output)
        )
        self.process.start()
        self.pid = self.process.pid
        self.stdin, self.stdout = (open(os.dup(end.fileno()), mode, 0) for end, mode in ((stdin, "wb"), (stdout, "rb")))  # noqa: SIM115
        for end in (given, stdin, stdout, output):
            end.close()

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self.process.join(timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired("client", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended in the meantime
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stdin.close()
        self.stdout.close()
        self.wait()

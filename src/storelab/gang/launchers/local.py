"""The launcher `local`, whose clients are processes on this host. The agent of a node also uses it for its clients."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storelab.gang import prefork
from storelab.gang.coordinator import Launcher
from storelab.host import processes
from storelab.stores.protocols import environment

Spare = subprocess.Popen | None  # a process that was started by `spare`


@dataclass
class Started:
    """A process that forks clients (`gang/prefork.py`).

    It reports the pid and the exit status of each client by rank.
    """

    process: subprocess.Popen
    ranks: list[int]
    pids: dict[int, int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    begun: bytes = b""  # incomplete last line of the output

    def listen(self) -> None:
        """Read the output of the process about the clients.

        If the process has ended, its clients have ended too. A client without a printed status gets the status of the
        process.
        """
        ended = self.process.poll()
        while output := self._output():
            *lines, self.begun = (self.begun + output).split(b"\n")
            for rank, what, number in map(bytes.split, lines):
                (self.pids if what == b"pid" else self.statuses)[int(rank)] = int(number)
        if ended is not None:
            self.statuses |= dict.fromkeys([rank for rank in self.ranks if rank not in self.statuses], ended)

    def _output(self) -> bytes:
        try:
            return os.read(self.process.stdout.fileno(), 65536)
        except (BlockingIOError, ValueError):  # there is no output yet, or the pipe is closed
            return b""


def _begun(command: Sequence[str], words: Collection[str], errors: Any) -> subprocess.Popen:
    """Start a process that will fork clients.

    `command` is the command prefix that enters its host; `words` are the arguments of `gang/client.py`.
    """
    return subprocess.Popen(
        [*command, sys.executable, "-m", "storelab.gang.client", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environment.explicit(os.environ),
        preexec_fn=processes.die_with_parent(),
        start_new_session=True,  # Ctrl-C reaches only the coordinator, which ends the clients in order
    )


@contextlib.contextmanager
def spare(places: Collection[str]) -> Iterator[subprocess.Popen]:
    """Yield a process that imports these classes of clients (`module:name`) while this process prepares the point.

    The launcher forks the clients from it. It ends at the end of the block, if it still runs.
    """
    with _begun((), places, subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            processes.stop(process, prefork.GRACE_S + 1)


class LocalLauncher(Launcher):
    """A launcher that starts clients on this host. They end with this process, even if it is killed (kill -9).

    Parameters
    ----------
    ranks
        Ranks of the clients, or their number.
    environs
        Variables of each account. Client i uses account i mod n.
    beside
        Function that returns the command prefix to enter the host of a rank; () for this host.
    spare
        Process that forks the clients of this host, if it still runs.
    """

    name, noun = "local", "client"

    def __init__(
        self,
        folder: Path,
        ranks: int | Sequence[int],
        environs: list[dict[str, str]],
        command_prefix: Callable[[int], tuple[str, ...]] = lambda rank: (),
        spare: Spare = None,
    ):
        self.command_prefix, self.spare = command_prefix, spare
        self.folder, self.ranks = folder, list(range(ranks)) if isinstance(ranks, int) else list(ranks)
        self.participants = len(self.ranks)
        self.environs = environs
        self.started: list[Started] = []
        self.hearing = threading.Lock()  # needed, because the monitor's thread also reads the output

    def start(self) -> None:
        hosts: dict[tuple[str, ...], list[int]] = {}
        for rank in self.ranks:
            hosts.setdefault(self.command_prefix(rank), []).append(rank)
        for command, ranks in hosts.items():
            for rank in ranks:
                (self.folder / f"client.{rank}.log").write_bytes(b"")
            process = None if command else self.spare
            if not process or process.poll() is not None:
                with open(self.folder / f"client.{ranks[0]}.log", "ab") as log:
                    process = _begun(command, ("--", str(self.folder), *map(str, ranks)), log)
            self.started.append(Started(process, ranks))
            os.set_blocking(process.stdout.fileno(), False)
            request = {"folder": str(self.folder), "ranks": ranks, "environs": self.environs}
            with contextlib.suppress(BrokenPipeError), process.stdin as given:  # `ended` reports a process that ended
                given.write(json.dumps(request).encode() + b"\n")

    def _updated(self) -> list[Started]:
        with self.hearing:
            for started in self.started:
                started.listen()
        return self.started

    def pids(self) -> dict[int, int]:
        return {rank: pid for started in self._updated() for rank, pid in started.pids.items()}

    def ended(self) -> dict[int, int]:
        return {rank: status for started in self._updated() for rank, status in started.statuses.items()}

    def stop(self) -> None:
        """End all clients by SIGTERM, and by SIGKILL after a few seconds."""
        for started in self.started:
            if started.process.poll() is None:
                started.process.terminate()
        for started in self.started:
            processes.stop(started.process, prefork.GRACE_S + 1)
        for started in self._updated():
            started.process.stdout.close()

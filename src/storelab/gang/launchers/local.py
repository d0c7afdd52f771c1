"""Launcher `local`: the clients are processes on this host. A node's agent (`agent.py`) uses it for its clients."""

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

Spare = subprocess.Popen | None  # a process started by `spare`


@dataclass
class Started:
    """A process that forks clients (`gang/prefork.py`), and what it has printed about them by rank."""

    process: subprocess.Popen
    ranks: list[int]
    pids: dict[int, int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    begun: bytes = b""  # an incomplete line

    def listen(self) -> None:
        """Read what the process has printed. If it has ended, its clients have too, with its status if it gave none."""
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
        except (BlockingIOError, ValueError):  # nothing to read yet, or closed
            return b""


def _begun(command: Sequence[str], words: Collection[str], errors: Any) -> subprocess.Popen:
    """Start a process that will fork clients. command: enters its host; words: arguments of `gang/client.py`."""
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
    """Start a process that loads these classes of clients (`module:name`) while this process prepares the point.

    The launcher forks the clients from it. It ends at the latest with this context.
    """
    with _begun((), places, subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            processes.stop(process, prefork.GRACE_S + 1)


class LocalLauncher(Launcher):
    """A launcher that starts the clients of these ranks on this host. They end with this process, even by kill -9.

    ranks: or their number, to start from 0. environs: variables by account; client i uses account i mod n. beside:
    command that enters the separate host of a rank, () if that is this host. spare: forks the clients of this host, if
    it still runs.
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
        self.hearing = threading.Lock()  # the monitor's thread reads the output too

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
        """End all clients: SIGTERM, and SIGKILL after a few seconds. Idempotent."""
        for started in self.started:
            if started.process.poll() is None:
                started.process.terminate()
        for started in self.started:
            processes.stop(started.process, prefork.GRACE_S + 1)
        for started in self._updated():
            started.process.stdout.close()

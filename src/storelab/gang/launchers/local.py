"""Launcher `local`: the clients are processes on this host. A node's agent (`agent.py`) uses it for its clients."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from storelab.gang.launchers.base import Launcher
from storelab.host import processes


class LocalLauncher(Launcher):
    """Starts the clients of these ranks (a number: that many, from 0). They end with this process, even after kill -9.

    environs: variables by account; client i uses account i mod n. beside: rank -> command that enters the host of its
    own which a client runs on, () where that is this one.
    """

    name, noun = "local", "client"

    def __init__(
        self,
        folder: Path,
        ranks: int | Sequence[int],
        environs: list[dict[str, str]],
        beside: Callable[[int], tuple[str, ...]] = lambda rank: (),
    ):
        self.beside = beside
        self.folder, self.ranks = folder, list(range(ranks)) if isinstance(ranks, int) else list(ranks)
        self.participants = len(self.ranks)
        self.environs = [{**os.environ, **environ} for environ in environs]
        self.clients: dict[int, subprocess.Popen] = {}

    def start(self) -> None:
        for rank in self.ranks:
            with open(self.folder / f"client.{rank}.log", "wb") as log:
                self.clients[rank] = subprocess.Popen(
                    [*self.beside(rank), sys.executable, "-m", "storelab.gang.client", str(self.folder), str(rank)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self.environs[rank % len(self.environs)],
                    preexec_fn=processes.die_with_parent(),
                    start_new_session=True,  # Ctrl-C reaches only the coordinator, which ends the clients in order
                )

    def pids(self) -> dict[int, int]:
        return {rank: c.pid for rank, c in self.clients.items()}

    def ended(self) -> dict[int, int]:
        return {rank: status for rank, c in self.clients.items() if (status := c.poll()) is not None}

    def stop(self) -> None:
        """End all clients: SIGTERM, and SIGKILL after 5 s. Idempotent."""
        for c in self.clients.values():
            if c.poll() is None:
                c.terminate()
        for c in self.clients.values():
            processes.stop(c, 5.0)

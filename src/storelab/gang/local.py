"""Launcher `local`: the clients are processes on this host. Further launchers (srun, HTCondor) have the same three methods."""

import os
import subprocess
import sys
from pathlib import Path

from storelab.engines import processes


class LocalLauncher:
    """Starts `size` clients; each ends with its launcher, kill -9 included. `environs`: by account, client i has account i mod n."""

    name = "local"

    def __init__(self, folder: Path, size: int, environs: list[dict[str, str]]):
        self.folder, self.size = folder, size
        self.environs = [{**os.environ, **environ} for environ in environs]
        self.clients: list[subprocess.Popen] = []

    def start(self) -> None:
        for rank in range(self.size):
            with open(self.folder / f"client.{rank}.log", "wb") as log:
                self.clients.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "storelab.gang.client", str(self.folder), str(rank)],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        env=self.environs[rank % len(self.environs)],
                        preexec_fn=processes.die_with_parent(),
                        start_new_session=True,  # Ctrl-C reaches the coordinator, which ends them in order
                    )
                )

    def pids(self) -> dict[int, int]:
        """rank -> pid of the clients on this host."""
        return {rank: c.pid for rank, c in enumerate(self.clients)}

    def ended(self) -> dict[int, int]:
        """rank -> exit status of the clients that have ended."""
        return {rank: status for rank, c in enumerate(self.clients) if (status := c.poll()) is not None}

    def stop(self) -> None:
        """End all clients: SIGTERM, and SIGKILL after 5 s. Idempotent."""
        for c in self.clients:
            if c.poll() is None:
                c.terminate()
        for c in self.clients:
            processes.stop(c, 5.0)

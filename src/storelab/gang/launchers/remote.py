"""What launchers on several nodes share: who runs where, signs of life, versions, the clock, credentials."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from abc import abstractmethod
from pathlib import Path
from typing import Any

from storelab.core import clock
from storelab.core.errors import UserError
from storelab.engines.contract import GangJob
from storelab.gang import credentials, post
from storelab.gang.coordinator import Launcher
from storelab.gang.nodes import ClockServer, other_versions
from storelab.gang.rendezvous import Folder
from storelab.host import processes

SETTLE_S = 5.0  # for the nodes' last files to appear
END_S = 15.0  # for the agents to end their clients, before the batch system is asked to end them
ALIVE_S = 3.0  # between two signs of the coordinator's life
SETUP, TOLD_TO_END = "launcher.setup", "was told to end"


def spread(clients: int, per_node: int, nodes: int, place: str) -> list[list[int]]:
    """Ranks by node, in turn: client i is on node i mod n. per_node: 0: spread evenly over all nodes.

    Raises UserError if there are too few nodes.
    """
    wanted = -(-clients // per_node) if per_node else min(clients, nodes)
    if wanted > nodes:
        raise UserError(
            place,
            f"{clients} clients, {per_node} on a node, need {wanted} nodes; there are {nodes}",
            "ask for more nodes, or fewer clients",
        )
    return [list(range(n, clients, wanted)) for n in range(wanted)]


def host_names(configured: str | None) -> list[str]:
    """Where other nodes may find this host."""
    return [configured] if configured else list(dict.fromkeys([socket.gethostname(), socket.getfqdn()]))


def prepared(setup: str | None, command: list[str]) -> list[str]:
    """The command after the site's setup lines, in a login shell (which defines `module`); without lines, unchanged."""
    return ["/bin/bash", "-l", "-c", script(setup), SETUP, *command] if setup else command


def script(setup: str) -> str:
    """Shell script: the setup lines, then the command given as arguments. If a line fails, it names its node."""
    # The sleep: a batch system may lose output written just before the end.
    told = (
        f'echo "storelab: node ${{SLURM_PROCID:-?}} (${{SLURMD_NODENAME:-$(uname -n)}}): {SETUP} failed" >&2; sleep 1'
    )
    return f"trap '{told}' EXIT\nset -e\n{setup}\nset +e\ntrap - EXIT\nexec \"$@\"\n"


class SignsOfLife:
    """The coordinator's signs of life in the gang's folder, until `close()`. Agents end if they see none for long."""

    def __init__(self, folder: Path):
        self.place = Folder(folder)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._give, daemon=True, name="alive")
        self._thread.start()

    def _give(self) -> None:
        while True:
            with contextlib.suppress(OSError):  # the file system may be away for a while
                self.place.put("coordinator", {"time_ns": time.time_ns()})
            if self._closed.wait(ALIVE_S):
                return

    def close(self) -> None:
        self._closed.set()
        self._thread.join(2)


class RemoteLauncher(Launcher):
    """Starts one agent on each node, by a command of a batch system.

    nodes: ranks by node; environs: variables by account; settings: `launcher` of the configuration.
    """

    name, noun = "remote", "node"
    module = "storelab.gang.agent"  # what runs on a node
    look_s = 0.05  # between two looks at whether the agents have ended

    def __init__(self, folder: Path, nodes: list[list[int]], environs: list[dict[str, str]], settings: Any):
        self.folder, self.nodes, self.settings = folder, nodes, settings
        self.participants = len(nodes)
        endpoints = GangJob.read(folder).endpoints if (folder / "job.json").exists() else []
        self.tokens = tuple({name for end in endpoints for name in (end.token, end.certificate) if name})
        self.parcel = credentials.collect(environs, os.environ, self.tokens)
        self.clock: ClockServer | None = None
        self.office: post.Office | None = None
        self.met = False
        self.alive: SignsOfLife | None = None
        self.process: subprocess.Popen | None = None
        self._signs: dict[int, tuple[dict[str, Any], float]] = {}  # node -> its last sign of life, when we saw it
        self._over: float | None = None  # when we first saw that the command has ended

    @abstractmethod
    def launch(self) -> None:
        """Ask the batch system to start all agents. Raises MeasurementFailed if it refuses."""

    def agent(self) -> list[str]:
        """The command of one agent without its number."""
        place = self.office.url if self.office else str(self.folder.resolve())
        return [self.settings.python or sys.executable, "-m", self.module, place]

    def start(self) -> None:
        """Raises UserError or MeasurementFailed: the batch system's command is missing, or it refuses."""
        self.clock = ClockServer(host_names(self.settings.address), self.settings.port)
        job = GangJob.read(self.folder)
        job.nodes = self.nodes
        job.clock_addresses, job.clock_bound_ns = self.clock.addresses, self.settings.clock_bound
        job.silence_ns = 2 * self.settings.silence  # a coordinator may be silent while it waits for the batch system
        job.write(self.folder)
        self.alive = SignsOfLife(self.folder)
        credentials.send(self.folder, "keys", self.parcel)
        if not self.settings.shared_folder:
            manifests = [own.manifest for own in (job, *job.roles) if own.manifest]
            self.office = post.Office(self.folder, manifests, host_names(self.settings.address)[0], self.settings.port)
            credentials.send(self.folder, "ticket", self.office.ticket())
        self.launch()

    def run(self, command: list[str]) -> None:
        """Run the command that starts all agents, and that ends when they have ended; its output goes to a log."""
        with open(self.folder / "launcher.log", "wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=credentials.clean(os.environ, self.tokens),
                preexec_fn=processes.die_with_parent(15),
                start_new_session=True,
            )

    def accept(self, ready: dict[int, dict[str, Any]]) -> str:
        """Why the gang must not start, or ''.

        Each node must be another host, with its own clients, this host's versions, and a clock that is known well
        enough.
        """
        credentials.forget(self.folder)
        self.met = True
        hosts: dict[str, int] = {}
        for n, about in ready.items():
            host = about["host"]
            if host in hosts:
                return f"nodes {hosts[host]} and {n} are both {host}: ask for a node each"
            hosts[host] = n
            if about["ranks"] != self.nodes[n] or sorted(map(int, about["clients"])) != sorted(self.nodes[n]):
                return f"node {n} ({host}) has clients {sorted(map(int, about['clients']))} instead of {self.nodes[n]}"
            if others := other_versions(about):
                return f"node {n} ({host}) has other versions: {next(iter(others.values()))}"
            error_ns = about["clock_error_ns"]
            if error_ns is None or error_ns > self.settings.clock_error:
                known = "not known" if error_ns is None else f"only known to within {error_ns / 1e6:.3g} ms"
                mend = f"open UDP to {self.clock.addresses[0][0]}, or raise launcher.clock_error"
                return f"node {n} ({host}): its clock is {known}; {mend}"
        return ""

    def ended(self) -> dict[int, int]:
        """As their agents report."""
        place = Folder(self.folder)
        return {rank: (place.get(f"ended.{rank}") or {}).get("status", -1) for rank in place.present("ended")}

    def trouble(self) -> str:
        """A node that failed, or was silent for too long; or that the batch system's command ended too early; or ''."""
        place = Folder(self.folder)
        for n in sorted(place.present("failed")):
            told = place.get(f"failed.{n}") or {}
            return f"node {n} ({told.get('host')}): {told.get('failure')}"
        now, done = time.monotonic(), place.present("node")
        for n in sorted(place.present("alive") - done):
            sign, seconds = place.get(f"alive.{n}") or {}, self.settings.silence / 1e9
            if self._signs.get(n, (None, 0.0))[0] != sign:
                self._signs[n] = sign, now
            elif now - self._signs[n][1] > seconds:
                return f"node {n} ({sign.get('host')}) has given no sign of life for {seconds:g} s: it is lost"
        return self._ended_early(now)

    def _ended_early(self, now: float) -> str:
        """That the batch system's command ended too early, or ''. Waits first for the nodes' last files."""
        if self.process is None or (status := self.process.poll()) is None:
            return ""
        self._over = self._over or now
        if now - self._over < SETTLE_S:
            return ""
        words = self.last_words()
        return f"{self.name} ended with status {status} before all clients had left their results" + (
            f" ({words})" if words else ""
        )

    def last_words(self) -> str:
        """What agents that cannot reach the coordinator, or the batch system's command, said of the reason."""
        logs = [self.folder / "launcher.log", *sorted(self.folder.glob("agent.*.err"))]
        lines = [line for log in logs for line in processes.log_lines(log)]
        lines = [line for line in lines if TOLD_TO_END not in line]  # they ended because another one failed
        return self.telling(lines)[:300] if lines else ""

    def telling(self, lines: list[str]) -> str:
        """The line with the reason: an agent's own, else the last one."""
        own = next((line for line in lines if line.startswith("storelab: ")), lines[-1])
        if not own.endswith(f"{SETUP} failed"):
            return own
        said = next((line for line in lines if line.startswith(f"{SETUP}: ")), "")
        return f"{own} ({said})" if said else own

    def running(self) -> bool:
        """Whether agents may still run."""
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """Wait for the agents to end, or end them. Idempotent."""
        credentials.forget(self.folder)
        begun = Folder(self.folder).present("alive") if self.folder.exists() else set()
        clock.wait_for(lambda: not self.running(), END_S if begun else 0.0, self.look_s)
        if self.process is not None:
            processes.stop(self.process, 10.0)
        for server in (self.clock, self.office, self.alive):
            if server is not None:
                server.close()
        self.clock = self.office = self.alive = None

    def about(self) -> list[dict[str, Any]]:
        place = Folder(self.folder)
        return [{"node": n, **(place.get(f"node.{n}") or {})} for n in range(len(self.nodes))]

"""The common part of launchers on several nodes: ranks by node, signs of life, versions, clock, credentials."""

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
from storelab.gang import credentials, relay
from storelab.gang.coordinator import Launcher
from storelab.gang.nodes import ClockServer, other_versions
from storelab.gang.rendezvous import Folder
from storelab.host import processes

SETTLE_S = 5.0  # for the nodes' last files to appear
END_S = 15.0  # for the agents to end their clients, before the batch system is asked to end them
ALIVE_S = 3.0  # between two signs of the coordinator's life
SETUP, STOP_REQUESTED = "launcher.setup", "was asked to end"


def spread(clients: int, per_node: int, nodes: int, place: str) -> list[list[int]]:
    """Return the ranks by node: client i is on node i mod n. per_node: 0: spread evenly over all nodes.

    Raise UserError if there are too few nodes.
    """
    wanted = -(-clients // per_node) if per_node else min(clients, nodes)
    if wanted > nodes:
        raise UserError(
            place,
            f"{clients} clients, {per_node} on a node, need {wanted} nodes, but there are {nodes}",
            "ask for more nodes, or fewer clients",
        )
    return [list(range(n, clients, wanted)) for n in range(wanted)]


def host_names(configured: str | None) -> list[str]:
    """Return the names by which other nodes may find this host."""
    return [configured] if configured else list(dict.fromkeys([socket.gethostname(), socket.getfqdn()]))


def prepared(setup: str | None, command: list[str], *number: str) -> list[str]:
    """Return the command after the site's setup lines, in a login shell (which defines `module`), or unchanged."""
    return ["/bin/bash", "-l", "-c", script(setup, *number), SETUP, *command] if setup else command


def script(setup: str, number: str = "${SLURM_PROCID:-?}") -> str:
    """Return a shell script: the setup lines, then the command given as arguments. A failing line names its node."""
    # The sleep: a batch system may lose output written just before the end.
    failed = f'echo "storelab: node {number} (${{SLURMD_NODENAME:-$(uname -n)}}): {SETUP} failed" >&2; sleep 1'
    return f"trap '{failed}' EXIT\nset -e\n{setup}\nset +e\ntrap - EXIT\nexec \"$@\"\n"


def manifests(job: GangJob) -> list[Path]:
    """Return the manifests of the data sets of a job."""
    return [role_job.manifest for role_job in (job, *job.roles) if role_job.manifest]


class SignsOfLife:
    """The coordinator's signs of life in the gang's folder until `close()`. Without them, agents end after a while."""

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
    """A launcher that starts one agent on each node, by a command of a batch system.

    nodes: ranks by node; environs: variables by account; settings: `launcher` of the configuration.
    """

    name, noun = "remote", "node"
    module = "storelab.gang.agent"  # runs on a node
    look_s = 0.05  # between two checks whether the agents have ended

    def __init__(self, folder: Path, nodes: list[list[int]], environs: list[dict[str, str]], settings: Any):
        self.folder, self.nodes, self.settings = folder, nodes, settings
        self.participants = len(nodes)
        endpoints = GangJob.read(folder).endpoints if (folder / "job.json").exists() else []
        self.tokens = tuple({name for end in endpoints for name in (end.token, end.certificate) if name})
        self.parcel = credentials.collect(environs, os.environ, self.tokens)
        self.clock: ClockServer | None = None
        self.relay_server: relay.RelayServer | None = None
        self.met = False
        self.alive: SignsOfLife | None = None
        self.process: subprocess.Popen | None = None
        self._signs: dict[int, tuple[dict[str, Any], float]] = {}  # node -> its last sign of life, and when it was seen
        self._over: float | None = None  # when this process first saw that the command has ended

    @abstractmethod
    def launch(self) -> None:
        """Ask the batch system to start all agents. Raise MeasurementFailed if it refuses."""

    def agent(self) -> list[str]:
        """Return the command of one agent without its number."""
        place = self.relay_server.url if self.relay_server else str(self.folder.resolve())
        return [self.settings.python or sys.executable, "-m", self.module, place]

    def start(self) -> None:
        """Start the agents. Raise UserError or MeasurementFailed if the command is missing, or the system refuses."""
        job = GangJob.read(self.folder)
        job.nodes, job.clock_bound_ns = self.nodes, self.settings.clock_bound
        # A coordinator may be silent while it waits for the batch system.
        job.silence_ns = 2 * self.settings.heartbeat_timeout
        self.serve(job)
        job.write(self.folder)
        self.alive = SignsOfLife(self.folder)
        credentials.send(self.folder, "keys", self.parcel)
        self.launch()

    def serve(self, job: GangJob) -> None:
        """Start what the agents use to reach this host, and note its addresses in the job."""
        self.clock = ClockServer(host_names(self.settings.address), self.settings.port)
        job.clock_addresses = self.clock.addresses
        if not self.settings.shared_folder:
            self.relay_server = relay.RelayServer(
                self.folder, manifests(job), host_names(self.settings.address)[0], self.settings.port
            )
            credentials.send(self.folder, "ticket", self.relay_server.access())

    def run(self, command: list[str]) -> None:
        """Run the command that starts all agents and ends with them; its output goes to a log."""
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
        """Return why the gang must not start, or ''.

        Each node must be a separate host, with its own clients, this host's versions, and a sufficiently known clock.
        """
        credentials.forget(self.folder)
        self.met = True
        hosts: dict[str, int] = {}
        for n, about in ready.items():
            host = about["host"]
            if host in hosts:
                return f"nodes {hosts[host]} and {n} are both {host}: request separate nodes"
            hosts[host] = n
            if about["ranks"] != self.nodes[n] or sorted(map(int, about["clients"])) != sorted(self.nodes[n]):
                return f"node {n} ({host}) has clients {sorted(map(int, about['clients']))} instead of {self.nodes[n]}"
            if others := other_versions(about):
                return f"node {n} ({host}) has other versions: {next(iter(others.values()))}"
            error_ns = about["clock_error_ns"]
            if error_ns is None or error_ns > self.settings.clock_error:
                known = "not known" if error_ns is None else f"only known to within {error_ns / 1e6:.3g} ms"
                return f"node {n} ({host}): its clock is {known}; {self.clock_hint()}"
        return ""

    def clock_hint(self) -> str:
        """Return how to know the nodes' clocks better."""
        return f"open UDP to {self.clock.addresses[0][0]}, or raise launcher.clock_error"

    def ended(self) -> dict[int, int]:
        """Return the exit statuses that the agents report, by rank."""
        place = Folder(self.folder)
        return {rank: (place.get(f"ended.{rank}") or {}).get("status", -1) for rank in place.present("ended")}

    def trouble(self) -> str:
        """Return the node that failed or gave no sign of life, or that the command ended too early; or ''."""
        place = Folder(self.folder)
        for n in sorted(place.present("failed")):
            report = place.get(f"failed.{n}") or {}
            return f"node {n} ({report.get('host')}): {report.get('failure')}"
        now, done = time.monotonic(), place.present("node")
        for n in sorted(place.present("alive") - done):
            sign, seconds = place.get(f"alive.{n}") or {}, self.settings.heartbeat_timeout / 1e9
            if self._signs.get(n, (None, 0.0))[0] != sign:
                self._signs[n] = sign, now
            elif now - self._signs[n][1] > seconds:
                return f"node {n} ({sign.get('host')}) has given no sign of life for {seconds:g} s: it is lost"
        return self._ended_early(now)

    def _ended_early(self, now: float) -> str:
        """Return that the batch system's command ended too early, or ''. Wait for the nodes' last files first."""
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
        """Return the reason from agents that cannot reach the coordinator, or from the batch system's command."""
        logs = [self.folder / "launcher.log", *sorted(self.folder.glob("agent.*.err"))]
        lines = [line for log in logs for line in processes.log_lines(log)]
        lines = [line for line in lines if STOP_REQUESTED not in line]  # a consequence of another failure
        return self.telling(lines)[:300] if lines else ""

    def telling(self, lines: list[str]) -> str:
        """Return the line with the reason: an agent's message, else the last line."""
        first = next((line for line in lines if line.startswith("storelab: ")), lines[-1])
        if not first.endswith(f"{SETUP} failed"):
            return first
        detail = next((line for line in lines if line.startswith(f"{SETUP}: ")), "")
        return f"{first} ({detail})" if detail else first

    def running(self) -> bool:
        """Return whether agents may still run."""
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """Wait for the agents to end, or end them. Idempotent."""
        credentials.forget(self.folder)
        begun = Folder(self.folder).present("alive") if self.folder.exists() else set()
        clock.wait_for(lambda: not self.running(), END_S if begun else 0.0, self.look_s)
        if self.process is not None:
            processes.stop(self.process, 10.0)
        for server in (self.clock, self.relay_server, self.alive):
            if server is not None:
                server.close()
        self.clock = self.relay_server = self.alive = None

    def about(self) -> list[dict[str, Any]]:
        place = Folder(self.folder)
        return [{"node": n, **(place.get(f"node.{n}") or {})} for n in range(len(self.nodes))]

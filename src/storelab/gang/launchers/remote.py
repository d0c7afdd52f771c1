"""The common part of launchers for several nodes: ranks of each node, heartbeats, versions, clocks, credentials."""

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

SETTLE_S = 5.0  # seconds until the nodes' last files must appear
END_S = 15.0  # seconds until the agents must have ended their clients; then the batch system ends them
ALIVE_S = 3.0  # seconds between two heartbeats of the coordinator
SETUP, STOP_REQUESTED = "launcher.setup", "was asked to end"


def spread(clients: int, per_node: int, nodes: int, place: str) -> list[list[int]]:
    """Return the ranks of each node: client i is on node i mod n. If `per_node` is 0, all nodes are used.

    Raises UserError if there are too few nodes.
    """
    wanted = -(-clients // per_node) if per_node else min(clients, nodes)
    if wanted > nodes:
        raise UserError(
            place,
            f"{clients} clients, {per_node} on a node, need {wanted} nodes, but there are {nodes}",
            "request more nodes, or sweep fewer clients",
        )
    return [list(range(n, clients, wanted)) for n in range(wanted)]


def host_names(configured: str | None) -> list[str]:
    """Return the names and addresses with which other nodes can try to reach this host."""
    return [configured] if configured else list(dict.fromkeys([socket.gethostname(), socket.getfqdn()]))


def prepared(setup: str | None, command: list[str], *number: str) -> list[str]:
    """Return a command that runs the site's setup lines first, in a login shell, which defines `module`.

    Without setup lines, the command is unchanged.
    """
    return ["/bin/bash", "-l", "-c", script(setup, *number), SETUP, *command] if setup else command


def script(setup: str, number: str = "${SLURM_PROCID:-?}") -> str:
    """Return a shell script that runs the setup lines, and then the command in its arguments.

    If a setup line fails, the script prints the number and name of the node.
    """
    # The script sleeps, because a batch system can lose output that is written just before the end.
    failed = f'echo "storelab: node {number} (${{SLURMD_NODENAME:-$(uname -n)}}): {SETUP} failed" >&2; sleep 1'
    return f"trap '{failed}' EXIT\nset -e\n{setup}\nset +e\ntrap - EXIT\nexec \"$@\"\n"


def manifests(job: GangJob) -> list[Path]:
    """Return the manifests of the data sets of a job."""
    return [role_job.manifest for role_job in (job, *job.roles) if role_job.manifest]


class SignsOfLife:
    """A thread that writes the coordinator's heartbeats into the gang's folder. Agents end if the heartbeats stop."""

    def __init__(self, folder: Path):
        self.place = Folder(folder)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._give, daemon=True, name="alive")
        self._thread.start()

    def _give(self) -> None:
        while True:
            with contextlib.suppress(OSError):  # the file system may be down for some time
                self.place.put("coordinator", {"time_ns": time.time_ns()})
            if self._closed.wait(ALIVE_S):
                return

    def close(self) -> None:
        self._closed.set()
        self._thread.join(2)


class RemoteLauncher(Launcher):
    """A launcher that starts one agent on each node with a command of a batch system.

    `nodes` contains the ranks of each node, `environs` the variables of each account, and `settings` the section
    `launcher` of the configuration.
    """

    name, noun = "remote", "node"
    module = "storelab.gang.agent"  # module that runs on each node
    look_s = 0.05  # seconds between two checks whether the agents have ended

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
        self._signs: dict[
            int, tuple[dict[str, Any], float]
        ] = {}  # last heartbeat of each node, and the time when it was seen
        self._over: float | None = None  # time when this process first saw that the command had ended

    @abstractmethod
    def launch(self) -> None:
        """Request the start of all agents from the batch system. Raises MeasurementFailed if it refuses."""

    def agent(self) -> list[str]:
        """Return the command of one agent, without the number of the node."""
        place = self.relay_server.url if self.relay_server else str(self.folder.resolve())
        return [self.settings.python or sys.executable, "-m", self.module, place]

    def start(self) -> None:
        """Start the agents. Raises UserError or MeasurementFailed if this is not possible."""
        job = GangJob.read(self.folder)
        job.nodes, job.clock_bound_ns = self.nodes, self.settings.clock_bound
        # The coordinator can stop sending heartbeats while it waits for the batch system.
        job.silence_ns = 2 * self.settings.heartbeat_timeout
        self.serve(job)
        job.write(self.folder)
        self.alive = SignsOfLife(self.folder)
        credentials.send(self.folder, "keys", self.parcel)
        self.launch()

    def serve(self, job: GangJob) -> None:
        """Start the servers that agents use, and write their addresses into the job."""
        self.clock = ClockServer(host_names(self.settings.address), self.settings.port)
        job.clock_addresses = self.clock.addresses
        if not self.settings.shared_folder:
            self.relay_server = relay.RelayServer(
                self.folder, manifests(job), host_names(self.settings.address)[0], self.settings.port
            )
            credentials.send(self.folder, "ticket", self.relay_server.access())

    def run(self, command: list[str]) -> None:
        """Start the command that starts all agents and ends when they have ended. Its output is written to a log."""
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
        """Return the reason why the gang must not start, or ''.

        Each node must be a separate host with the expected clients and the same versions as this host. The offset of
        its clock must be known well enough.
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
        """Return a hint on how to measure the offsets of the nodes' clocks more accurately."""
        return f"open UDP to {self.clock.addresses[0][0]}, or raise launcher.clock_error"

    def ended(self) -> dict[int, int]:
        """Return the exit statuses that the agents report, by rank."""
        place = Folder(self.folder)
        return {rank: (place.get(f"ended.{rank}") or {}).get("status", -1) for rank in place.present("ended")}

    def trouble(self) -> str:
        """Return a message if a node failed or sent no heartbeat, or if the command ended too early; otherwise ''."""
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
                return f"node {n} ({sign.get('host')}) is lost: it has sent no heartbeat for {seconds:g} s"
        return self._ended_early(now)

    def _ended_early(self, now: float) -> str:
        """Return a message if the batch system's command ended too early, or ''. Wait for the nodes' last files."""
        if self.process is None or (status := self.process.poll()) is None:
            return ""
        self._over = self._over or now
        if now - self._over < SETTLE_S:
            return ""
        words = self.last_words()
        return f"{self.name} ended with status {status} before all clients had written their results" + (
            f" ({words})" if words else ""
        )

    def last_words(self) -> str:
        """Return the last message of agents that cannot reach the coordinator, or of the batch system's command."""
        logs = [self.folder / "launcher.log", *sorted(self.folder.glob("agent.*.err"))]
        lines = [line for log in logs for line in processes.log_lines(log)]
        lines = [line for line in lines if STOP_REQUESTED not in line]  # these are consequences of another failure
        return self.telling(lines)[:300] if lines else ""

    def telling(self, lines: list[str]) -> str:
        """Return the line that contains the reason: the message of an agent, or else the last line."""
        first = next((line for line in lines if line.startswith("storelab: ")), lines[-1])
        if not first.endswith(f"{SETUP} failed"):
            return first
        detail = next((line for line in lines if line.startswith(f"{SETUP}: ")), "")
        return f"{first} ({detail})" if detail else first

    def running(self) -> bool:
        """Return whether agents can still be running."""
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """Wait until the agents have ended, and end those that have not."""
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

"""Launcher `ssh`: agents on a list of hosts, started over OpenSSH.

There is one connection to each host (a control master). Job, clock, results and records use it. An agent ends with its
connection. Therefore nothing keeps running on a host if the coordinator was killed or disconnected. ssh never asks for
a password (BatchMode). It uses the user's configuration (aliases, keys, jump hosts). The login shell of a host gets a
fixed command without special characters, and the script as input. A host without storelab gets a copy (`package.py`) in
the cache folder of its user. `remove` removes it at the end of a campaign.
"""

import base64
import contextlib
import errno
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NamedTuple

from storelab import __version__
from storelab.core import clock
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.units import human_size
from storelab.engines.contract import GangJob
from storelab.gang import credentials, relay
from storelab.gang.launchers import package, remote
from storelab.gang.launchers.remote import RemoteLauncher
from storelab.gang.relay import GangFiles, PipeServer
from storelab.gang.rendezvous import Folder
from storelab.host import processes
from storelab.host.console import report

PLACE = "launcher.hosts"
FOLDER = "storelab-ssh-"  # prefix of the name of the folder with the sockets of a process
CONNECT_S, COMMAND_S = 30.0, 60.0  # time limits in s: for a connection, for a short command on a host
SETTLE_S = 1.0  # seconds after the end of an agent in which its last request must be answered
AT_ONCE = 32  # maximum number of hosts that are prepared at the same time
KILL_S = 5.0  # seconds after the end of a connection in which its agent must end
MIN_PYTHON = (3, 11)
MUST = ("-T", "-x", "-a", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "ClearAllForwardings=yes")
MUST += ("-o", "RemoteCommand=none", "-o", "PermitLocalCommand=no", "-o", "ControlPersist=no", "-o", "Tunnel=no")
USUAL = ("-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
# All login shells interpret this text in the same way. `read` takes one line from standard input. The rest of the input
# is for the command.
COMMAND = """exec /bin/sh -c 'read -r line; eval "$(echo "$line" | base64 -d)"'"""
# Runs in every Python, also in old ones. It prints version, machine, version of storelab or '-', and path on one line.
PROBE = """
import platform, sys
try:
    from storelab import __version__ as found
except Exception:
    found = "-"
print("storelab-python %d.%d.%d %s %s %s" % (tuple(sys.version_info[:3]) + (platform.machine(), found, sys.executable)))
"""
# Folder on another host with the software of this host. A running agent locks it, as does the command that receives the
# software. `remove` skips locked folders.
CACHE = 'cache="${XDG_CACHE_HOME:-$HOME/.cache}/storelab"; '
SENT = CACHE + 'sent="$cache/sent-%s"; '
LOOK = SENT + 'mkdir -p "$cache" && { [ ! -d "$sent" ] || echo storelab-sent; }'
SEND = SENT + (
    'new=$(mktemp -d "$cache/.sending-XXXXXX") && trap \'rm -rf "$new"\' EXIT && trap "exit 1" HUP TERM && '
    'exec 9<"$new" && flock -s 9 && '
    'tar -xzf - -C "$new" && { mv -T "$new" "$sent" 2>/dev/null || [ -d "$sent" ]; } && echo storelab-sent'
)
USE, USED = SENT + 'exec 9<"$sent" && flock -s 9; ', ' PYTHONPATH="$sent" STORELAB_TOOLS="$sent/tools" '
REMOVE = CACHE + (
    'for sent in "$cache"/sent-* "$cache"/.sending-*; do [ ! -d "$sent" ] || flock -n "$sent" rm -rf "$sent"; done'
)
# Pattern of a message of ssh -> problem and fix. {host}: name in the list; {line}: place of the wrong key.
REASONS = (
    (
        r"HOST IDENTIFICATION HAS CHANGED",
        "its host key is not the known one ({line}); if the host was installed again, run `ssh-keygen -R`, then "
        "`ssh {host}` once",
    ),
    (r"Host key verification failed", "its host key is not known; run `ssh {host}` once to accept it"),
    (
        r"Permission denied|Too many authentication failures|no mutual signature",
        "it accepts no key of this user, and storelab does not use passwords; run `ssh-copy-id {host}`, or load the "
        "key into ssh-agent",
    ),
)


def require() -> None:
    """Raise UserError if ssh is not installed."""
    if shutil.which("ssh") is None:
        raise UserError(
            "launcher.kind", "there is no ssh on PATH", "install openssh-client, or choose another launcher"
        )


def reason(host: str, lines: Sequence[str]) -> str:
    """Return why there is no connection to a host, from the lines that ssh has printed."""
    text = "\n".join(lines)
    for pattern, problem in REASONS:
        if re.search(pattern, text):
            line = re.search(r"Offending \S+ key in (\S+)", text)
            return problem.format(host=host, line=line[1] if line else "known_hosts")
    return lines[-1].removeprefix("ssh: ") if lines else "ssh ended without a message"


class Connection:
    """A connection to one host, for any number of commands, until `close()` or the end of this process.

    number: number of the host; folder: folder of the socket and the log.
    """

    def __init__(self, host: str, number: int, folder: Path, options: Sequence[str], environ: Mapping[str, str]):
        self.host, self.environ = host, environ
        self.socket, self.log = folder / str(number), folder / f"{number}.log"
        self.options = [*MUST, "-o", f"ControlPath={self.socket}", *options, *USUAL]
        with open(self.log, "wb") as log:
            self.process = self._ssh(["-M", "-N"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _ssh(self, how: list[str], *command: str, **pipes: Any) -> subprocess.Popen:
        """Start ssh. Ctrl-C reaches only the coordinator, which ends the agents in order."""
        main = threading.current_thread() is threading.main_thread()  # as in `processes.run_command`
        return subprocess.Popen(
            ["ssh", *how, *self.options, "--", self.host, *command],
            env=self.environ,
            start_new_session=True,
            preexec_fn=processes.die_with_parent() if main else None,  # without it, ssh ends with the connection
            **pipes,
        )

    def problem(self) -> str:
        """Wait until the connection is ready. Return the reason if there is no connection, otherwise ''."""
        limit = time.monotonic() + CONNECT_S
        while self.process.poll() is None and time.monotonic() < limit:
            if self.socket.exists():
                return ""
            time.sleep(0.02)
        if self.process.poll() is None:
            return f"no connection within {CONNECT_S:g} s"
        return reason(self.host, processes.log_lines(self.log))

    def begin(self, script: str, **pipes: Any) -> subprocess.Popen:
        """Start a shell script on the host. The caller can write to the standard input of the script."""
        process = self._ssh(["-o", "ControlMaster=no"], COMMAND, stdin=subprocess.PIPE, **pipes)
        with contextlib.suppress(BrokenPipeError):  # ssh has ended; its exit status is checked later
            process.stdin.write(base64.b64encode(script.encode()) + b"\n")
            process.stdin.flush()
        return process

    def run(self, script: str, timeout_s: float = COMMAND_S, feed: IO[bytes] | None = None) -> tuple[int, str, str]:
        """Run a script on the host, and return its status, output and errors. feed: standard input of the script."""
        process = self.begin(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            if feed is not None:
                with contextlib.suppress(BrokenPipeError):
                    shutil.copyfileobj(feed, process.stdin, 1 << 20)
            out, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return processes.LATE, "", f"no answer within {timeout_s:g} s"
        return process.returncode, out.decode(errors="replace"), errors.decode(errors="replace")

    def close(self) -> None:
        """Close the connection. Commands that still run on the host end too."""
        processes.stop(self.process)


class Connections:
    """The connections to some hosts, with a private folder for their sockets, until `close()`.

    problems: number of an unusable host -> reason; prepare: True to find Python and storelab on the hosts, and to send
    storelab if it is missing.
    """

    def __init__(self, hosts: Sequence[str], settings: Any, environ: Mapping[str, str], prepare: bool = True):
        self.settings = settings
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        # a short path, because the path of a socket is limited to 107 bytes
        base = runtime if os.access(runtime, os.W_OK) else "/tmp"
        sweep(Path(base))
        self.folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-", dir=base))
        self.all: list[Connection] = []
        self.pythons: dict[int, str] = {}
        self.plain: dict[int, Found] = {}  # without storelab
        self.sent = ""  # checksum of the software that was sent to these hosts
        self.problems: dict[int, str] = {}
        try:
            for n, host in enumerate(hosts):
                self.all.append(Connection(host, n, self.folder, settings.options, environ))
            for n, connection in enumerate(self.all):
                if problem := connection.problem():
                    self.problems[n] = problem
            if not prepare:
                return
            self._each(self._prepare, range(len(hosts)))
            if self.plain:
                self.sent = package.digest()
                self._send()
        except BaseException:
            self.close()
            raise

    def _each(self, work: Callable[[int], None], hosts: Iterable[int]) -> None:
        """Call `work` for these hosts in parallel, except for hosts with a problem."""
        numbers = [n for n in hosts if n not in self.problems]
        with ThreadPoolExecutor(max(1, min(len(numbers), AT_ONCE))) as pool:
            try:
                list(pool.map(work, numbers))
            except BaseException:
                for connection in self.all:  # the work of the other hosts ends with their connections
                    connection.process.terminate()
                raise

    def _prepare(self, number: int) -> None:
        """Find the Python that can run the agent of a host, or record the problem."""
        tried = [self.settings.python] if self.settings.python else [sys.executable, "python3"]
        probe = f'for python; do "$python" -c {shlex.quote(PROBE)}; done'
        command = remote.prepared(self.settings.setup, ["/bin/sh", "-c", probe, "sh", *tried], str(number))
        status, out, errors = self.all[number].run(shlex.join(command))
        found = [Found(*words) for line in out.splitlines() if (words := line.split())[:1] == ["storelab-python"]]
        if fit := next((one for one in found if one.storelab == __version__ and one.fits()), None):
            self.pythons[number] = fit.path
            return
        if plain := next((one for one in found if one.like_here()), None):
            self.plain[number] = plain
            return
        lines = [line for line in errors.splitlines() if line.strip()]
        self.problems[number] = unfit(found, tried, lines if status else [])

    def _send(self) -> None:
        """Send the software to all hosts that do not have it."""
        missing: list[int] = []

        def look(number: int) -> None:
            if "storelab-sent" not in self.all[number].run(LOOK % self.sent)[1].split():
                missing.append(number)

        self._each(look, [*self.plain])
        if missing:
            report(f"    sending storelab ({human_size(package.size())}) to {len(missing)} hosts without it")
            with tempfile.NamedTemporaryFile(prefix="storelab-", suffix=".tar.gz") as archive:
                package.write(archive)
                archive.flush()
                self._each(lambda number: self._receive(number, Path(archive.name)), sorted(missing))
        self.pythons |= {n: python.path for n, python in self.plain.items() if n not in self.problems}

    def _receive(self, number: int, archive: Path) -> None:
        with open(archive, "rb") as file:
            _, out, errors = self.all[number].run(SEND % self.sent, COMMAND_S, file)
        if "storelab-sent" not in out.split():
            lines = [line.strip() for line in errors.splitlines() if line.strip()] or ["it gave no reason"]
            words = next((line for line in lines if os.strerror(errno.ENOSPC) in line), lines[0])[:200]
            self.problems[number] = (
                f"it has no storelab, and its cache folder cannot take it ({words}); make room, or install it there"
            )

    def clear(self) -> None:
        """Remove the sent software from hosts where no agent uses it."""
        self._each(lambda number: self.all[number].run(REMOVE), range(len(self.all)))

    def command(self, number: int, *arguments: str) -> str:
        """Return the script that runs Python with these arguments and the sent storelab on a host."""
        before, after = (USE % self.sent, USED) if number in self.plain else ("", " ")
        env = shlex.join(remote.prepared(self.settings.setup, ["env"], str(number)))
        return f"{before}exec {env}{after}{shlex.join([self.pythons[number], *arguments])}"

    def named(self) -> list[str]:
        """Return the problems, each with the name of its host."""
        return [f"{self.all[n].host}: {problem}" for n, problem in sorted(self.problems.items())]

    def close(self) -> None:
        """Close all connections, and remove their folder. A second call has no effect."""
        for connection in self.all:
            connection.process.terminate()
        for connection in self.all:
            connection.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def sweep(base: Path) -> None:
    """Remove the folders of killed processes of this user in `base`."""
    for path in base.glob(f"{FOLDER}*-*"):
        pid = path.name.removeprefix(FOLDER).partition("-")[0]
        with contextlib.suppress(FileNotFoundError):  # another process removes it too
            if path.stat().st_uid == os.getuid() and pid.isdigit() and not Path("/proc", pid).exists():
                shutil.rmtree(path, ignore_errors=True)


class Found(NamedTuple):
    """A Python on a host, from the output of PROBE."""

    mark: str
    version: str
    machine: str
    storelab: str
    path: str

    def like_here(self) -> bool:
        """Return True if it can run the compiled modules of the Python on this host."""
        here = ".".join(platform.python_version_tuple()[:2])
        return self.version.rpartition(".")[0] == here and self.machine == platform.machine()

    def fits(self) -> bool:
        """Return True if the version is sufficient."""
        return tuple(map(int, self.version.split(".")[:2])) >= MIN_PYTHON


def unfit(found: Sequence[Found], tried: Sequence[str], errors: Sequence[str]) -> str:
    """Return the reason why no Python of a host can run the agent. errors: error output of the shell."""
    failed = next((line for line in errors if line.startswith("storelab: node ") and line.endswith("failed")), "")
    if failed:
        detail = next((line for line in errors if line.startswith(f"{remote.SETUP}: ")), "")
        return f"{remote.SETUP} failed" + (f" ({detail})" if detail else "")
    wanted = ".".join(map(str, MIN_PYTHON))
    if not found:
        return f"there is no Python ({', '.join(tried)}); install Python {wanted} or newer, or set launcher.python"
    best = max(found, key=lambda one: (one.fits(), one.storelab != "-"))
    if not best.fits():
        return f"{best.path} is Python {best.version}; set launcher.python to Python {wanted} or newer"
    there = "no storelab" if best.storelab == "-" else f"storelab {best.storelab}, here {__version__}"
    here = ".".join(platform.python_version_tuple()[:2])
    return (
        f"{best.path} (Python {best.version}, {best.machine}) has {there}, and this host's is for Python {here}, "
        f"{platform.machine()}; install this version there, or set launcher.python"
    )


class SshLauncher(RemoteLauncher):
    """A launcher that starts the agents of a gang over ssh, on the first hosts of the list."""

    name = "ssh"

    def __init__(self, folder: Path, nodes: list[list[int]], environs: list[dict[str, str]], settings: Any):
        super().__init__(folder, nodes, environs, settings)
        self.hosts = settings.hosts[: len(nodes)]
        self.files: GangFiles | None = None
        self.connections: Connections | None = None
        self.agents: dict[int, subprocess.Popen] = {}
        self.pipes: dict[int, PipeServer] = {}

    def serve(self, job: GangJob) -> None:
        self.files = GangFiles(self.folder, remote.manifests(job))

    def launch(self) -> None:
        """Connect to all hosts and start their agents. Raise MeasurementFailed if a host cannot be used."""
        self.connect()
        if problems := self.connections.named():
            raise MeasurementFailed(f"{PLACE}: {'; '.join(problems)}")
        self.begin()

    def connect(self) -> None:
        """Connect to all hosts."""
        require()
        self.connections = Connections(self.hosts, self.settings, credentials.clean(os.environ, self.tokens))

    def begin(self) -> None:
        """Start the agents on the hosts that can be used."""
        self.files = self.files or GangFiles(self.folder, ())
        for n in sorted(self.connections.pythons):
            script = self.connections.command(n, "-m", self.module, relay.PIPE, str(n))
            with open(self.folder / f"agent.{n}.err", "wb") as log:
                agent = self.connections.all[n].begin(script, stdout=subprocess.PIPE, stderr=log)
            self.agents[n] = agent
            self.pipes[n] = PipeServer(self.files, agent.stdout, agent.stdin, self.folder / f"agent.{n}.log")

    def clock_hint(self) -> str:
        return "its connection is slow; raise launcher.clock_error"

    def _ended_early(self, now: float) -> str:
        """Return a message about an agent that ended before the results of its clients arrived, or ''."""
        done = Folder(self.folder).present("node")
        for n, agent in self.agents.items():
            if n in done or (status := agent.poll()) is None:
                continue
            self.pipes[n].join(SETTLE_S)
            if n in Folder(self.folder).present("node") | Folder(self.folder).present("failed"):
                return ""  # its last message has arrived in the meantime
            return f"node {n} ({self.hosts[n]}): {self.why(n, status)}"
        return ""

    def why(self, number: int, status: int) -> str:
        """Return the reason why an agent has ended without a message."""
        lines = processes.log_lines(self.folder / f"agent.{number}.err")
        if self.connections.all[number].process.poll() is not None:
            words = processes.log_lines(self.connections.all[number].log) or lines
            return "its connection is lost" + (f" ({words[-1][:200]})" if words else "")
        words = self.telling(lines) if lines else ""
        return f"its agent ended with status {status}" + (f" ({words[:200]})" if words else "")

    def running(self) -> bool:
        return any(agent.poll() is None for agent in self.agents.values())

    def stop(self) -> None:
        """End the agents by closing their connections; they clean up. Remove the files of killed agents.

        A second call has no effect.
        """
        super().stop()
        for pipe in self.pipes.values():
            pipe.close()
        clock.wait_for(lambda: not self.running(), KILL_S, 0.05)
        if self.connections is not None:
            self._clear()
            self.connections.close()
        for agent in self.agents.values():
            processes.stop(agent)
            agent.stdout.close()
        self.connections, self.agents, self.pipes = None, {}, {}

    def _clear(self) -> None:
        """Kill agents that have not ended after the end of their input, and remove the folders of killed agents."""
        job = GangJob.read(self.folder) if (self.folder / "job.json").exists() else None
        for n, agent in self.agents.items():
            connection = self.connections.all[n]
            if job is None or connection.process.poll() is not None or agent.poll() == 0:
                continue
            pid = self.pipes[n].pid
            kill = f"kill -9 {pid} 2>/dev/null; " if pid and agent.poll() is None else ""
            sweep = self.connections.command(n, "-m", self.module, "sweep", str(job.scratch_base))
            connection.run(kill + sweep, KILL_S)


def remove(settings: Any) -> None:
    """Remove the software that was sent to the hosts, except from hosts that cannot be reached or still use it."""
    if shutil.which("ssh") is None:
        return
    connections = Connections(settings.hosts, settings, credentials.clean(os.environ), prepare=False)
    try:
        connections.clear()
    finally:
        connections.close()

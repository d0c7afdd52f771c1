"""GlusterFS on this machine: glusterd from its package, a brick for each server, and clients that mount the volume.

glusterd creates the volume, and starts the bricks and the self-heal daemon, also after a restart of glusterd. storelab
finds these processes in the network namespace and records them, so that faults can suspend, kill and hang each of
them. It restarts a killed process with the same arguments as glusterd. See docs/stores/glusterfs.md.
"""

import itertools
import os
import re
import subprocess
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import read_as, write_json
from storelab.host import processes
from storelab.install import debian, program
from storelab.stores.base import CLEAN, DEGRADED, DOWN, RECOVERING, Condition
from storelab.stores.managed.daemon import Daemon, environment, within
from storelab.stores.managed.network import NAMES
from storelab.stores.mounted import REMOUNT, Mounted, MountedSettings, is_stopped, listens, mounted

VOLUME = "storelab"
PORT = 24007  # port of glusterd; bricks use ports from 49152 on
# Number of bricks of a set, arguments of `volume create`, and number of bricks of a set that can be lost.
SETS = {
    "none": (1, (), 0),
    "replica-2": (2, ("replica", "2"), 1),
    "replica-3": (3, ("replica", "3"), 2),
    "ec-2-1": (3, ("disperse", "3", "redundancy", "1"), 1),
}
TIMEOUTS = {"network.ping-timeout": "5"}  # seconds until a silent brick is considered lost; the default is 42
TOOL_S = 60.0  # time limit of the tool `gluster` in seconds
FOUND_S = 30.0  # seconds until glusterd must have started the processes of the volume
# Shell script: mount three folders at GlusterFS's fixed paths, then run a program. Only this program sees the mounts.
ENTER = (
    'mount --bind "$1" /var/lib/glusterd && mount --bind "$2" /run && mount --bind "$3" /var/log/glusterfs && shift 3 '
    '&& exec "$@"'
)
CONFIGURATION = f"""volume management
    type mgmt/glusterd
    option working-directory /var/lib/glusterd
    option transport-type socket
    option transport.socket.keepalive-time 10
    option transport.socket.keepalive-interval 2
    option transport.socket.read-fail-log off
    option transport.socket.listen-port {PORT}
    option transport.address-family inet
    option ping-timeout 0
end-volume
"""


class Settings(MountedSettings):
    """A GlusterFS volume whose bricks are processes on this machine, mounted through FUSE. It needs root."""

    kind: Literal["glusterfs"]
    servers: int = Field(3, ge=1, le=12, description="Number of bricks: a multiple of the set size of `redundancy`.")
    redundancy: Literal["none", "replica-2", "replica-3", "ec-2-1"] = Field(
        "replica-3", description="Copies of every file, or two data bricks and one parity brick (dispersed)."
    )
    subnet: str = Field(
        "10.213.85.0/30",
        description="Unused subnet with two addresses, for the link between this host and the servers.",
        pattern=r"^[\d.]+/30$",
    )
    mounts_in: list[str] = Field(
        default_factory=list,
        description="Network namespaces of a testbed's nodes. Mount i uses the links of namespace i, in turn. "
        "Default: mounts use this host's network.",
    )


class GlusterFS(Mounted):
    """A GlusterFS volume that is mounted on this machine."""

    Settings = Settings
    system = "GlusterFS"
    binary = "glusterd"
    version_pattern = r"glusterfs (\d\S*)"
    most_front_ends = 8
    start_timeout = 60.0
    stops = (("mount-",), ("heal-", "glusterd-"), ("brick-",))
    recipe = debian.Packages(
        ("glusterfs-server", "glusterfs-client", "iproute2"), "11 packages, 34 MB to download"
    ).parts

    def require(self) -> None:
        of_set, _, _ = SETS[self.settings.redundancy]
        if self.settings.servers % of_set:
            raise UserError(
                f"{self.place}.servers",
                f"{self.settings.servers} bricks are not a multiple of {of_set} ({self.settings.redundancy})",
                f"set servers to {of_set} or a multiple",
            )
        if missing := [node for node in self.settings.mounts_in if not (NAMES / node).exists()]:
            hint = "start the testbed first, or name namespaces that `ip netns` lists"
            raise UserError(f"{self.place}.mounts_in", f"there is no network namespace {missing[0]}", hint)
        super().require()
        for name in ("gluster", "glusterfs", "glusterfsd"):
            program(name, "glusterfs", self.place)

    # Daemons

    def _bricks(self) -> list[str]:
        return [f"brick-{i}" for i in range(1, self.settings.servers + 1)]

    def _helpers(self) -> list[str]:
        """Return the name of the self-heal daemon; [] without redundancy."""
        return [] if self.settings.redundancy == "none" else ["heal-1"]

    def stages(self, front_ends: Sequence[str]) -> Sequence[Sequence[str]]:
        return (["glusterd-1"], [*self._bricks(), *self._helpers()], front_ends)

    @property
    def _spool(self) -> Path:
        """The folder of the runtime files of glusterd's programs."""
        return self.folder / "spool"

    def daemon(self, name: str) -> Daemon:
        host, kind = self.namespace.server, name.partition("-")[0]
        if kind == "mount":
            return self._mount(name)
        if kind == "glusterd":
            places = (self.data / "glusterd", self._spool / "run", self._spool / "log")
            enter = ("/bin/sh", "-c", ENTER, "sh", *map(str, places))
            log = ("-l", "/var/log/glusterfs/glusterd.log", "-L", "WARNING")
            argv = (str(self.program()), "-N", "-f", str(self.folder / "glusterd.vol"), *log)
            prefix = (*self.namespace.prefix, *enter)
            return Daemon(name, argv, host, (PORT,), self._answers, 10.0, prefix=prefix, elsewhere=True)
        # glusterd starts bricks and the self-heal daemon. storelab recognises them by their arguments.
        words = self._started_by_glusterd().get(name, (f"--{name}-was-never-started",))
        which = "glusterfsd" if kind == "brick" else "glusterfs"
        prefix = (*self._inside(), str(program(which, "glusterfs", self.place)), "-N")
        port = next((int(w) for before, w in itertools.pairwise(words) if before == "--brick-port"), 0)
        health = (lambda: listens(host, port)) if port else (lambda: True)
        return Daemon(name, words, host, (port,) if port else (), health, prefix=prefix, elsewhere=True)

    def _mount(self, name: str) -> Daemon:
        """Return the definition of a client. All users see its mount. Its network is this host's or that of a node."""
        place, nodes = self.mount_point(name), self.settings.mounts_in
        node = nodes[(int(name.rpartition("-")[2]) - 1) % len(nodes)] if nodes else ""
        network = (str(program("nsenter", "glusterfs", self.place)), f"--net={NAMES / node}") if node else ()
        argv = (
            *(str(program("glusterfs", "glusterfs", self.place)), "-N", "--process-name", "fuse"),
            *(f"--volfile-server={self.namespace.server}", f"--volfile-id={VOLUME}"),
            *(f"--log-file={self._spool / 'log' / f'{name}.log'}", "--log-level=WARNING", str(place)),
        )
        return Daemon(
            name, argv, self.namespace.server, (), lambda: mounted(place), prefix=(*network, *REMOUNT, str(place))
        )

    def make_ready(self) -> None:
        super().make_ready()
        folders = [self.data / name for name in ("glusterd", *self._bricks())]
        folders += [self._spool / "run", self._spool / "log"]
        folders += [self.mount_point(name) for name in self.front_actors(self.most_front_ends)]
        for folder in folders:
            if not mounted(folder):  # access to a mount whose program hangs would block
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / "glusterd.vol").write_text(CONFIGURATION)
        if "glusterd-1" not in self.daemons.running():
            self._remove_stale_pids()

    def _remove_stale_pids(self) -> None:
        """Remove pid files of ended processes, because glusterd considers a killed process alive until it is reaped."""
        alive = {str(p.pid) for p in self.namespace.processes()}
        for path in (self._spool / "run").rglob("*.pid"):
            if path.read_text().strip() not in alive:
                path.unlink()

    def started(self, daemon: Daemon) -> None:
        if daemon.name != "glusterd-1":
            return
        self._make_volume()
        self._record_all()

    # glusterd and its tool

    def _inside(self) -> tuple[str, ...]:
        """Return the command prefix that enters the namespaces of glusterd and of the daemons that it started."""
        pids = self.daemons.running()
        pid = next((pids[n] for n in ("glusterd-1", *self._bricks(), "heal-1") if n in pids), 0)
        return (str(program("nsenter", "glusterfs", self.place)), "--target", str(pid), "--mount", "--net", "--")

    def _ask(self, *words: str, seconds: float = TOOL_S) -> subprocess.CompletedProcess[str]:
        tool = (str(program("gluster", "glusterfs", self.place)), "--mode=script")
        return processes.run_command([*self._inside(), *tool, *words], seconds, environment(self.folder, {}))

    def _run_tool(self, *words: str) -> str:
        """Return the output of the tool. Raises MeasurementFailed if it fails."""
        done = self._ask(*words)
        if done.returncode:
            raise MeasurementFailed(f"{self.place}: `gluster {' '.join(words[:2])}` failed: {processes.words(done)}")
        return done.stdout

    def _answers(self) -> bool:
        return listens(self.namespace.server, PORT) and self._ask("pool", "list", seconds=5.0).returncode == 0

    @cached_property
    def _brick_addresses(self) -> list[str]:
        return [f"{self.namespace.server}:{self.data / name}" for name in self._bricks()]

    def _make_volume(self) -> None:
        """Create the volume if it does not exist, and start it. Raises UserError if another volume owns the data."""
        info = self._ask("volume", "info", VOLUME)
        if info.returncode:
            how = SETS[self.settings.redundancy][1]
            self._run_tool("volume", "create", VOLUME, *how, *self._brick_addresses, "force")
            for key, value in TIMEOUTS.items():
                self._run_tool("volume", "set", VOLUME, key, value)
            info = self._ask("volume", "info", VOLUME)
        bricks, kind, state = facts(info.stdout)
        if (bricks, kind) != (self._brick_addresses, self._kind()):
            raise UserError(
                self.place,
                f"the data belong to a volume with {len(bricks)} bricks ({kind}) at {bricks[0] if bricks else '?'}",
                f"restore the settings servers, redundancy and subnet, or remove {self.data}",
            )
        if state != "Started":
            self._run_tool("volume", "start", VOLUME, "force")

    def _kind(self) -> str:
        """Return glusterd's name for the type of the volume, e.g. `Distributed-Replicate`."""
        of_set, words, _ = SETS[self.settings.redundancy]
        name = {"replica": "Replicate", "disperse": "Disperse"}[words[0]] if words else "Distribute"
        return f"Distributed-{name}" if words and self.settings.servers > of_set else name

    # Processes that glusterd started

    @property
    def _note(self) -> Path:
        return self.folder / "started.json"

    def _started_by_glusterd(self) -> dict[str, tuple[str, ...]]:
        """Return the arguments, by name, with which glusterd last started each brick and the self-heal daemon."""
        if not self._note.exists():
            return {}
        found = read_as(self._note, dict[str, list[str]], f"run `storelab down {self.name}`, then remove it")
        return {n: tuple(words) for n, words in found.items()}

    def _record_all(self) -> None:
        """Wait until all processes exist, and record them. Raises MeasurementFailed if one is missing."""
        wanted, found = {*self._bricks(), *self._helpers()}, {}
        end = time.monotonic() + FOUND_S
        while not wanted <= found.keys():
            if time.monotonic() > end:
                missing = ", ".join(sorted(wanted - found.keys()))
                raise MeasurementFailed(f"{self.place}: glusterd did not start {missing} within {FOUND_S:g} s")
            time.sleep(0.05)
            found = {name: p for p in self.namespace.processes() if (name := self._name_of(p))}
        write_json(self._note, {name: found[name].cmdline()[1:] for name in sorted(wanted)})
        for name in sorted(wanted):
            daemon = self.daemon(name)
            if not within(FOUND_S, daemon.healthy):
                raise MeasurementFailed(f"{self.place}: {name} accepts no connections")
            self.daemons.take(daemon, found[name])

    def _name_of(self, process: Any) -> str:
        """Return the daemon's name of a process in the namespace; '' for other processes and during their start."""
        import psutil

        try:
            words = process.cmdline()
            if os.getsid(process.pid) != process.pid:  # the parent, which waits until the daemon runs
                return ""
        except (OSError, psutil.Error):
            return ""
        if "--brick-name" in words:
            return Path(words[words.index("--brick-name") + 1]).name
        return "heal-1" if "glustershd" in words else ""

    def _keep_running(self, daemon: Daemon, stale: bool) -> bool:
        """Return whether a daemon can keep running. Bricks can, because glusterd has just started them."""
        return super()._keep_running(daemon, stale and daemon.name.startswith("mount-"))

    # Faults, see docs/faults.md

    _hurt = False  # whether a brick was lost and some files are not healed yet

    def data_actors(self) -> list[str]:
        return self._bricks()

    def tolerated_failures(self) -> int:
        return SETS[self.settings.redundancy][2]

    def timeouts(self) -> dict[str, Any]:
        return dict(TIMEOUTS)

    def condition(self) -> Condition:
        """Return the condition from the running processes, and from the bricks' lists of files to heal."""
        pids = self.daemons.running()
        alive = [n for n in self._bricks() if n in pids and not is_stopped(pids[n])]
        pending = sum(map(self._pending, self._bricks()))
        detail = f"bricks running {len(alive)} of {self.settings.servers}; files to heal: {pending}"
        if not alive:
            return Condition(DOWN, detail)
        # A file is also listed for a short time while it is written, which is not a recovery.
        lost = len(alive) < self.settings.servers
        self._hurt = lost or (self._hurt and pending > 0)
        return Condition(DEGRADED if lost else RECOVERING if self._hurt else CLEAN, detail)

    def _pending(self, brick: str) -> int:
        folder = self.data / brick / ".glusterfs" / "indices" / "xattrop"
        try:
            return sum(not p.name.startswith("xattrop-") for p in folder.iterdir())
        except OSError:
            return 0


def facts(text: str) -> tuple[list[str], str, str]:
    """Return bricks, kind and state of a volume from the output of `gluster volume info`."""
    bricks = re.findall(r"^Brick\d+: (\S+)", text, re.MULTILINE)
    kind, state = (re.search(rf"^{key}: (.+)$", text, re.MULTILINE) for key in ("Type", "Status"))
    return bricks, kind.group(1).strip() if kind else "", state.group(1).strip() if state else ""

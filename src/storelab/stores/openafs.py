"""OpenAFS on this machine: a cell of one server, and a client in user space (`afsd.fuse`) that mounts the cell.

The servers use fixed paths (/etc/openafs, /var/lib/openafs, /vicepa). Therefore each runs in its own root directory
with the system's folders, and with the store's folders at these paths. storelab starts the servers in the order of
their dependencies, without `bosserver`, because a file server that asks the others too early waits for 30 s. There is
no authentication (no Kerberos): all users have all rights in the cell's volume. See docs/stores/openafs.md.
"""

import os
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from storelab.core.errors import MeasurementFailed
from storelab.host import processes
from storelab.install import debian, program
from storelab.stores.base import CLEAN, DOWN, Condition
from storelab.stores.managed.daemon import Daemon, environment, within
from storelab.stores.mounted import REMOUNT, Mounted, MountedSettings, mounted

CELL = "storelab.test"
VOLUME, TEMPLATE = "root.cell", "template"
SERVERS = Path("/usr/lib/openafs")  # Debian's folder of the servers
# Port and arguments of each server; those of the file server are Debian's recommendation.
PORTS = {"ptserver": 7002, "vlserver": 7003, "fileserver": 7000, "volserver": 7005}
WORDS = {
    "ptserver": ("ptserver",),
    "vlserver": ("vlserver",),
    "fileserver": (
        *("dafileserver", "-p", "23", "-busyat", "600", "-rxpck", "400", "-s", "1200", "-l", "1200"),
        *("-cb", "65535", "-b", "240", "-vc", "1200"),
    ),
    "salvager": ("salvageserver",),
    "volserver": ("davolserver", "-p", "16"),
}
CACHE_KB = 100_000  # size of the client's cache in memory
TOOL_S = 30.0  # time limit of an OpenAFS tool in seconds
READY_S = 60.0  # seconds until the servers must know each other
QUIT_S = 30.0  # seconds until a file server must have taken its volumes off-line
ADMINISTRATORS, ANY_USER = (struct.pack("!i", number) for number in (-204, -101))  # group numbers in access lists
# Shell script: create a root directory of the system's folders, with the store's folders at the fixed paths of OpenAFS.
ENTER = """set -e
root=$1 own=$2 data=$3
shift 3
mount -t tmpfs -o mode=755 storelab "$root"
for name in bin dev etc lib lib32 lib64 libx32 proc sbin usr var; do
    if [ -L "/$name" ]; then cp -P "/$name" "$root/$name"
    elif [ -d "/$name" ]; then mkdir "$root/$name"; mount --bind "/$name" "$root/$name"; fi
done
mkdir "$root/tmp" "$root/vicepa"
mount --bind "$own/etc" "$root/etc/openafs"
mount --bind "$data/lib" "$root/var/lib/openafs"
mount --bind "$own/log" "$root/var/log/openafs"
mount --bind "$data/vicepa" "$root/vicepa"
exec chroot "$root" "$@"
"""


def answers(host: str, port: int, timeout: float = 1.0) -> bool:
    """Return whether a server at this address answers a request for its version in the Rx protocol."""
    # 13 is the packet type of version requests; 1 | 4 marks the packet as the client's and the last one.
    request = struct.pack("!5I4B2H", 0x1000, 0, 0, 0, 0, 13, 1 | 4, 0, 0, 0, 0) + b"\0"
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(timeout)
            s.connect((host, port))
            s.send(request)
            return len(s.recv(1500)) > 28
    except OSError:
        return False


class Settings(MountedSettings):
    """An OpenAFS cell of one server on this machine, mounted through FUSE. It needs root."""

    kind: Literal["openafs"]
    subnet: str = Field(
        "10.213.89.0/30",
        description="Unused subnet with two addresses, for the link between this host and the servers.",
        pattern=r"^[\d.]+/30$",
    )


class OpenAFS(Mounted):
    """An OpenAFS cell that is mounted on this machine."""

    Settings = Settings
    system = "OpenAFS"
    binary = "afsd.fuse"
    start_timeout = 60.0
    stops = (("mount-",), ("volserver-", "salvager-"), ("fileserver-",), ("vlserver-", "ptserver-"))
    needs = (*Mounted.needs, "chroot")
    recipe = debian.Packages(
        ("openafs-fileserver", "openafs-dbserver", "openafs-fuse", "iproute2"), "12 packages"
    ).parts

    def require(self) -> None:
        super().require()
        for name in ("afsd.fuse", "vos"):
            program(name, "openafs", self.place)
        for words in WORDS.values():
            program(str(SERVERS / words[0]), "openafs", self.place)

    def ask_version(self, program: Path) -> str:
        """Return the version from the program file, because OpenAFS tools print none if no cell is configured."""
        found = re.search(rb"OpenAFS +(\d[\w.+~-]*)", program.read_bytes())
        return found.group(1).decode() if found else ""

    # Daemons

    def stages(self, front_ends: Sequence[str]) -> Sequence[Sequence[str]]:
        return (["ptserver-1", "vlserver-1"], ["fileserver-1", "salvager-1"], ["volserver-1"], front_ends)

    @property
    def _runtime(self) -> Path:
        """The folder of the programs' runtime files and configuration."""
        return self.folder / "spool"

    def daemon(self, name: str) -> Daemon:
        host, kind = self.namespace.server, name.partition("-")[0]
        if kind == "mount":
            return self._mount(name)
        places = (self._runtime / "root", self._runtime, self.data)
        enter = ("/bin/sh", "-c", ENTER, "sh", *map(str, places))
        server, *words = WORDS[kind]
        argv = (str(SERVERS / server), *words)
        health = (lambda: answers(host, PORTS[kind])) if kind in PORTS else (lambda: True)
        ports = (PORTS[kind],) if kind in PORTS else ()
        return Daemon(name, argv, host, ports, health, prefix=(*self.namespace.prefix, *enter), elsewhere=True)

    def _mount(self, name: str) -> Daemon:
        """Return the definition of the client.

        It runs in the servers' network namespace but not in their root directory, so that all users see its mount.
        """
        place = self.mount_point(name)
        argv = (
            *(str(program("afsd.fuse", "openafs", self.place)), "-dynroot", "-fakestat", "-memcache"),
            *("-blocks", str(CACHE_KB), "-confdir", str(self._runtime / "etc"), "-mountdir", str(place), "-f"),
        )
        network = (str(program("nsenter", "openafs", self.place)), f"--net=/run/netns/{self.namespace.name}", "--")
        prefix = (*REMOUNT, str(place), *network)
        return Daemon(name, argv, self.namespace.server, (), lambda: self._shows(place), prefix=prefix, elsewhere=True)

    def _shows(self, place: Path) -> bool:
        """Return whether the mount works. Another process checks it, because a hanging mount would block this one."""
        return mounted(place) and processes.run_command(["stat", str(self.shown(place))], 5.0).returncode == 0

    def shown(self, mount: Path) -> Path:
        """Return the writable path of the cell's volume."""
        return mount / f".{CELL}"

    def make_ready(self) -> None:
        super().make_ready()
        runtime_folder, server = self._runtime, self.namespace.server
        folders = [
            runtime_folder / "root",
            runtime_folder / "log",
            runtime_folder / "etc" / "server",
            self.data / "vicepa",
        ]
        folders += [self.data / "lib" / name for name in ("local", "db")]
        if not mounted(self.mount_point()):  # access to a mount whose program hangs would block
            folders.append(self.mount_point())
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for etc in (runtime_folder / "etc", runtime_folder / "etc" / "server"):
            (etc / "ThisCell").write_text(f"{CELL}\n")
            (etc / "CellServDB").write_text(f">{CELL} #made by storelab\n{server} #afsdb\n")
        (runtime_folder / "etc" / "cacheinfo").write_text(f"{self.mount_point()}:{runtime_folder}/cache:{CACHE_KB}\n")
        (self.data / "vicepa" / "AlwaysAttach").touch()
        (self.data / "lib" / "local" / "NetInfo").write_text(f"{server}\n")
        (self.data / "lib" / "local" / "NoAuth").touch()

    def started(self, daemon: Daemon) -> None:
        if daemon.name == "vlserver-1":
            self._await("pts", "listentries")
            self._await("vos", "listaddrs")
        if daemon.name == "volserver-1":
            self._make_volume()

    def _keep_running(self, daemon: Daemon, stale: bool) -> bool:
        """Return whether a daemon can keep running. A file server can, because it finds restarted servers again."""
        return super()._keep_running(daemon, stale and not daemon.name.startswith("fileserver-"))

    def _stop(self, names: list[str]) -> list[int]:
        """Stop daemons. A file server gets SIGQUIT first, because its volumes need a repair after it was killed."""
        clients = [n for n in names if n.startswith(self.front)]
        pids = super()._stop(clients)
        for process in self.daemons.family_of("fileserver-1") if "fileserver-1" in names else ():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGQUIT)
                os.kill(process.pid, signal.SIGCONT)
        within(QUIT_S, lambda: "fileserver-1" not in names or "fileserver-1" not in self.daemons.running())
        return pids + super()._stop([n for n in names if n not in clients])

    # Tools

    def _ask(self, tool: str, *words: str, seconds: float = TOOL_S) -> subprocess.CompletedProcess[str]:
        """Run a tool in the network and root directory of the servers."""
        pids = self.daemons.running()
        inside = ("--target", str(pids.get("vlserver-1", 0)), "--mount", "--net", "--root", "--wd=/", "--")
        command = (str(program("nsenter", "openafs", self.place)), *inside, tool, *words, "-noauth")
        return processes.run_command(command, seconds, environment(self.folder, {}))

    def _run_tool(self, tool: str, *words: str) -> str:
        """Return the output of a tool. Raises MeasurementFailed if it fails."""
        done = self._ask(tool, *words)
        if done.returncode:
            raise MeasurementFailed(f"{self.place}: `{tool} {words[0]}` failed: {processes.words(done)}")
        return done.stdout

    def _await(self, tool: str, *words: str, has: str = "") -> None:
        """Repeat a query until it succeeds with `has` in the output. Raises MeasurementFailed after READY_S."""
        end = time.monotonic() + READY_S
        while (done := self._ask(tool, *words)).returncode or has not in done.stdout:
            if time.monotonic() > end:
                why = processes.words(done)
                raise MeasurementFailed(f"{self.place}: `{tool} {words[0]}` does not give the expected answer: {why}")
            time.sleep(0.1)

    def _make_volume(self) -> None:
        """Create the cell's volume if it does not exist, with all rights for all users and without quota.

        The FUSE client cannot change access lists. Therefore the access list is changed in a dump of the volume.
        """
        server = self.namespace.server
        self._await("vos", "listaddrs", has=server)
        if self._ask("vos", "examine", VOLUME).returncode:
            if not self._ask("vos", "examine", TEMPLATE).returncode:  # left by an interrupted start
                self._run_tool("vos", "remove", server, "a", TEMPLATE)
            dump = self.data / "lib" / "template.dump"
            self._run_tool("vos", "create", server, "a", TEMPLATE)
            self._run_tool("vos", "dump", TEMPLATE, "-file", f"/var/lib/openafs/{dump.name}")
            closed = dump.read_bytes()
            if ADMINISTRATORS not in closed:
                raise MeasurementFailed(f"{self.place}: the access list of a new volume has an unknown format")
            dump.write_bytes(closed.replace(ADMINISTRATORS, ANY_USER))
            self._run_tool("vos", "restore", server, "a", VOLUME, "-file", f"/var/lib/openafs/{dump.name}")
            self._run_tool("vos", "setfields", VOLUME, "-maxquota", "0")
            self._run_tool("vos", "remove", server, "a", TEMPLATE)
            dump.unlink()
        self._await("vos", "examine", VOLUME, has="On-line")

    # Faults, see docs/faults.md

    def data_actors(self) -> list[str]:
        return ["fileserver-1"]

    def condition(self) -> Condition:
        """Return whether the file server reports its version."""
        serves = answers(self.namespace.server, PORTS["fileserver"], 0.5)
        return Condition(CLEAN, "the file server answers") if serves else Condition(DOWN, "the file server is silent")

    def deployment(self) -> dict[str, Any]:
        return super().deployment() | {"client_cache_kb": CACHE_KB}

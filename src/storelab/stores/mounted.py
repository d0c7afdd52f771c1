"""Base class of file systems that storelab starts: servers in a separate network namespace, and FUSE mounts.

The front-ends `mount-1`, … are programs that mount the file system, each at its own path in the store's folder. All
users of this machine see these mounts. Servers with fixed data paths find folders of the store at these paths; other
processes do not see this. storelab started all processes in the namespace, even if they are not recorded.
"""

import ipaddress
import os
import socket
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes
from storelab.install import program
from storelab.stores.managed.base import Managed, short_name
from storelab.stores.managed.network import Namespace
from storelab.stores.managed.settings import ManagedSettings
from storelab.stores.protocols.endpoint import Endpoint

DEVICE = Path("/dev/fuse")
ENDING_S = 10.0  # seconds until all processes in the namespace must have ended
ODD = r"[^A-Za-z0-9_/.+@=~-]"  # characters that cause errors in command lines and lists of mounts
# Shell script: unmount a path whose program has ended, then run a program.
REMOUNT = ("/bin/sh", "-c", 'umount -l "$1" 2>/dev/null; shift; exec "$@"', "sh")


class MountedSettings(ManagedSettings):
    """Settings of a managed store whose servers have a separate network namespace."""

    subnet: str = Field(
        description="Unused subnet with two addresses, for the link between this host and the servers.",
        pattern=r"^[\d.]+/30$",
    )


def mounted(place: Path) -> bool:
    """Return whether a file system is mounted at this path. The path is not accessed, because that can block."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4] == str(place) for line in lines)


def listens(host: str, port: int) -> bool:
    """Return whether a server accepts connections at this address."""
    try:
        with socket.create_connection((host, port), 1.0):
            return True
    except OSError:
        return False


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped (SIGSTOP), or has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "TtZX"


class Mounted(Managed):
    """A file system that storelab runs and mounts."""

    protocol = "file"
    front = "mount-"
    needs = ("ip", "mount", "umount", "nsenter", "unshare")  # programs of the system that are required

    @cached_property
    def namespace(self) -> Namespace:
        name = f"sl-{short_name(self.folder)}"
        return Namespace(name, self.settings.subnet, self.place, self.installed_by or self.settings.kind)

    def require(self) -> None:
        """Raise UserError if root rights, a program, namespaces or FUSE are missing."""
        self.require_paths(ODD, self.data, self.folder)
        instead = f"or mount a {self.system} and measure it with kind `directory`"
        if os.geteuid() != 0:
            problem = f"{self.system} needs root (namespaces for its servers, a mount for its clients)"
            raise UserError(self.place, problem, f"run storelab as root, {instead}")
        self.program()
        for name in self.needs:
            program(name, self.installed_by or self.settings.kind, self.place)
        if not DEVICE.exists():
            problem = f"{self.system} is mounted through FUSE, but {DEVICE} does not exist"
            raise UserError(self.place, problem, f"load the kernel's module fuse, {instead}")
        done = processes.run_command(["unshare", "--mount", "--net", "true"])
        if done.returncode:
            problem = f"{self.system} needs namespaces, which cannot be created here ({processes.words(done)})"
            raise UserError(self.place, problem, f"use a host or a container that allows them, {instead}")

    def moved(self, settings: Any, index: int) -> Any:
        """Return the settings of the deployment with this index, with its own subnet for its network namespace."""
        network = ipaddress.IPv4Network(settings.subnet, strict=False)
        return settings.model_copy(update={"subnet": f"{network.network_address + 4 * index}/30"})

    def mount_point(self, name: str = "mount-1") -> Path:
        """Return the path where this front-end mounts the file system."""
        return self.folder / name

    @property
    def path(self) -> Path:
        """The folder that contains the buckets, as seen through the first front-end."""
        return self.shown(self.mount_point())

    def shown(self, mount: Path) -> Path:
        """Return the folder below a mount point that contains the buckets."""
        return mount

    def endpoint(self, name: str) -> Endpoint:
        return Endpoint(f"file://{self.shown(self.mount_point(name))}", protocol="file")

    def make_ready(self) -> None:
        self.namespace.up()

    def dismantle(self) -> None:
        """End the processes in the namespace, unmount the file system, and remove the namespace."""
        if os.geteuid() != 0:
            return
        self._end_all()
        for place in self.folder.glob(f"{self.front}*"):
            while mounted(place):
                done = processes.run_command(["umount", "-l", str(place)])
                if done.returncode:
                    raise MeasurementFailed(f"{self.place}: {place} cannot be unmounted: {processes.words(done)}")
            with suppress(OSError):
                place.rmdir()
        self.namespace.down()

    def _end_all(self) -> None:
        """Kill all processes in the namespace, including unrecorded ones that a killed storelab process left."""
        from storelab.stores.managed import daemons  # imported here, because psutil is slow to import

        end = time.monotonic() + ENDING_S
        while found := self.namespace.processes():
            daemons.kill(found)
            if time.monotonic() > end:
                raise MeasurementFailed(f"{self.place}: pid {found[0].pid} survived SIGKILL")
            time.sleep(0.02)

    def used_bytes(self) -> int | None:
        """Return the bytes that the files of the data folder use on disk. Hard links count once."""
        if not self.data.exists():
            return None
        os.sync()
        found = {}
        for path in self.data.rglob("*"):
            try:
                facts = path.lstat()
            except FileNotFoundError:
                continue  # the file was deleted meanwhile
            found[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
        return sum(found.values())

    def deployment(self) -> dict[str, Any]:
        return super().deployment() | {"network": "a pair of virtual interfaces", "client": "FUSE"}

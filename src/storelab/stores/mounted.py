"""What file systems share that storelab starts itself: servers in a network namespace of their own, and FUSE mounts.

The front-ends `mount-1` … are the programs that mount it, each at a place of its own in the store's folder, where
everybody on this machine sees it. What the servers have at fixed places of the system lies in the store's folder, and
is mounted over these places for them alone. Whoever runs in the namespace is ours, whether it was recorded or not.
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
ENDING_S = 10.0  # until all that runs in the namespace has ended
ODD = r"[^A-Za-z0-9_/.+@=~-]"  # letters that their command lines and lists of mounts bear badly
# Shell: what a mount that lost its program left there goes first.
AFRESH = ("/bin/sh", "-c", 'umount -l "$1" 2>/dev/null; shift; exec "$@"', "sh")


class MountedSettings(ManagedSettings):
    """A managed store whose servers have a network namespace of their own."""

    subnet: str = Field(
        description="Two addresses of a link of its own: ours and the servers'; must not be in use.",
        pattern=r"^[\d.]+/30$",
    )


def mounted(place: Path) -> bool:
    """Whether something is mounted here; asks no file system, for one without its program never answers."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4] == str(place) for line in lines)


def listens(host: str, port: int) -> bool:
    """Whether somebody takes a connection there."""
    try:
        with socket.create_connection((host, port), 1.0):
            return True
    except OSError:
        return False


def held(pid: int) -> bool:
    """Whether a process stands still (SIGSTOP), or has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "TtZX"


class Mounted(Managed):
    """A file system of ours."""

    protocol = "file"
    front = "mount-"
    needs = ("ip", "mount", "umount", "nsenter", "unshare")  # programs beside its own

    @cached_property
    def namespace(self) -> Namespace:
        name = f"sl-{short_name(self.folder)}"
        return Namespace(name, self.settings.subnet, self.place, self.installed_by or self.settings.kind)

    def require(self) -> None:
        """Raises UserError where there is no root, no program, no namespace to be had, or no FUSE."""
        self.require_paths(ODD, self.data, self.folder)
        instead = f"or mount a {self.system} and measure it with kind `directory`"
        if os.geteuid() != 0:
            problem = f"{self.system} needs root (namespaces for its servers, a mount for its clients)"
            raise UserError(self.place, problem, f"run storelab as root, {instead}")
        self.program()
        for name in self.needs:
            program(name, self.installed_by or self.settings.kind, self.place)
        if not DEVICE.exists():
            problem = f"{self.system} is mounted through FUSE, and there is no {DEVICE}"
            raise UserError(self.place, problem, f"load the kernel's module fuse, {instead}")
        done = processes.ask(["unshare", "--mount", "--net", "true"])
        if done.returncode:
            problem = f"{self.system} needs namespaces, and none can be made here ({processes.words(done)})"
            raise UserError(self.place, problem, f"use a host or a container that may make them, {instead}")

    def moved(self, settings: Any, index: int) -> Any:
        """Each deployment has a namespace of its own; its subnet lies behind those of the earlier ones."""
        network = ipaddress.IPv4Network(settings.subnet, strict=False)
        return settings.model_copy(update={"subnet": f"{network.network_address + 4 * index}/30"})

    def mount_point(self, name: str = "mount-1") -> Path:
        """Where this front-end mounts it."""
        return self.folder / name

    @property
    def path(self) -> Path:
        """The folder in which the buckets are folders, as the first front-end shows it."""
        return self.shown(self.mount_point())

    def shown(self, mount: Path) -> Path:
        """The folder of the buckets below a mount point."""
        return mount

    def endpoint(self, name: str) -> Endpoint:
        return Endpoint(f"file://{self.shown(self.mount_point(name))}", protocol="file")

    def make_ready(self) -> None:
        self.namespace.up()

    def dismantle(self) -> None:
        """Whoever is left in the namespace ends, mounts go, then the namespace."""
        if os.geteuid() != 0:
            return
        self._end_all()
        for place in self.folder.glob(f"{self.front}*"):
            while mounted(place):
                done = processes.ask(["umount", "-l", str(place)])
                if done.returncode:
                    raise MeasurementFailed(f"{self.place}: {place} stays mounted: {processes.words(done)}")
            with suppress(OSError):
                place.rmdir()
        self.namespace.down()

    def _end_all(self) -> None:
        """Also of those that were never recorded, for storelab was killed meanwhile."""
        from storelab.stores.managed import daemons  # here: planning needs no psutil, which is slow to import

        end = time.monotonic() + ENDING_S
        while found := self.namespace.processes():
            daemons.kill(found)
            if time.monotonic() > end:
                raise MeasurementFailed(f"{self.place}: pid {found[0].pid} did not end on SIGKILL")
            time.sleep(0.02)

    def used_bytes(self) -> int | None:
        """Blocks of the data folder; a file with several names counts once."""
        if not self.data.exists():
            return None
        os.sync()
        found = {}
        for path in self.data.rglob("*"):
            try:
                facts = path.lstat()
            except FileNotFoundError:
                continue  # it went meanwhile
            found[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
        return sum(found.values())

    def deployment(self) -> dict[str, Any]:
        return super().deployment() | {"network": "a pair of virtual interfaces", "client": "FUSE"}

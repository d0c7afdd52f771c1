"""A network namespace with a link to it, for servers that listen on all addresses.

One pair of virtual interfaces with two addresses: ours outside, the server's inside. Clients outside reach the server
without entering; nobody beyond this machine does.
"""

import contextlib
import ipaddress
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes
from storelab.install import program

if TYPE_CHECKING:
    import psutil

NAMES = Path("/run/netns")  # where iproute2 keeps the names of namespaces
INSIDE = "eth0"


class Namespace:
    """A network namespace and its link.

    name: of the namespace and of the outer end of its link, at most 15 characters; subnet: a /30 or larger;
    place: of the store in the configuration, and kind: what installs iproute2, for messages.
    """

    def __init__(self, name: str, subnet: str, place: str, kind: str = "xrootd"):
        self.name, self.place, self.kind = name, place, kind
        try:
            self.network = ipaddress.IPv4Network(subnet)
        except ValueError as error:
            raise UserError(
                f"{place}.subnet", f"{subnet!r} is no subnet ({error})", "write it like 10.213.77.0/30"
            ) from None
        self.ours, self.server = (str(self.network.network_address + i) for i in (1, 2))

    @property
    def prefix(self) -> tuple[str, ...]:
        """Command that enters the namespace, and a mount namespace of its own, and becomes what follows."""
        return (str(self._ip()), "netns", "exec", self.name)

    def _ip(self) -> Path:
        return program("ip", self.kind, self.place)

    def _run(self, *arguments: str, batch: str | None = None) -> str:
        done = processes.ask([self._ip(), *arguments, *(["-batch", "-"] if batch else [])], feed=batch or "")
        if done.returncode:
            raise MeasurementFailed(
                f"{self.place}: `{' '.join(['ip', *arguments])}` failed: {' '.join(done.stderr.split())[:200]}"
            )
        return done.stdout

    def _json(self, *arguments: str) -> list[dict[str, Any]]:
        return json.loads(self._run("-j", "-4", *arguments) or "[]")

    def exists(self) -> bool:
        """True if any part of it is there."""
        return (NAMES / self.name).exists() or Path("/sys/class/net", self.name).exists()

    def processes(self) -> "list[psutil.Process]":
        """All that run in it."""
        import psutil  # here: planning needs none, and it is slow to import

        out: list[psutil.Process] = []
        try:
            own = (NAMES / self.name).stat()
        except OSError:
            return out
        for pid in psutil.pids():
            with contextlib.suppress(OSError, psutil.Error):  # it ended meanwhile
                theirs = Path(f"/proc/{pid}/ns/net").stat()
                if (theirs.st_dev, theirs.st_ino) == (own.st_dev, own.st_ino):
                    out.append(psutil.Process(pid))
        return out

    def _has(self, address: str, device: str, *where: str) -> bool:
        """True if a device is up and has this address. where: `-n` and the namespace, of one elsewhere."""
        try:
            links = self._json(*where, "addr", "show", "dev", device)
        except (MeasurementFailed, ValueError):
            return False
        return any(
            a.get("local") == address and "UP" in link["flags"] for link in links for a in link.get("addr_info", [])
        )

    def complete(self) -> bool:
        """True if both ends of the link are up and have their addresses."""
        return self._has(self.ours, self.name) and self._has(self.server, INSIDE, "-n", self.name)

    def _check_subnet(self) -> None:
        """Raises UserError where an address or a route of this machine lies in the subnet, or it in one of theirs."""
        taken = [
            (f"{a['local']}/{a['prefixlen']}", link["ifname"])
            for link in self._json("addr", "show")
            for a in link.get("addr_info", [])
        ]
        taken += [(r["dst"], r.get("dev", r.get("type", "?"))) for r in self._json("route", "show")]
        for text, device in taken:
            if (
                text != "default"
                and device != self.name
                and ipaddress.ip_network(text, strict=False).overlaps(self.network)
            ):
                raise UserError(
                    f"{self.place}.subnet",
                    f"{self.network} is in use ({text} at {device})",
                    f"set {self.place}.subnet to another /{self.network.prefixlen}",
                )

    def up(self) -> None:
        """Make it, or what is missing of it. Idempotent.

        Raises UserError where the subnet is in use, MeasurementFailed.
        """
        if self.exists() and self.complete():
            return
        self._check_subnet()
        self.down()
        bits = self.network.prefixlen
        try:
            self._run("netns", "add", self.name)
            outside = [
                f"link add {self.name} type veth peer name {INSIDE} netns {self.name}",
                f"addr add {self.ours}/{bits} dev {self.name}",
                f"link set {self.name} up",
            ]
            self._run(batch="\n".join(outside) + "\n")
            inside = ["link set lo up", f"addr add {self.server}/{bits} dev {INSIDE}", f"link set {INSIDE} up"]
            self._run("-n", self.name, batch="\n".join(inside) + "\n")
        except BaseException:
            with contextlib.suppress(MeasurementFailed, UserError):
                self.down()
            raise

    def down(self) -> None:
        """Remove it. Idempotent; processes in it keep a namespace without a name, until they end."""
        if Path("/sys/class/net", self.name).exists():
            self._run("link", "delete", self.name)
        if (NAMES / self.name).exists():
            self._run("netns", "delete", self.name)

"""Several network namespaces behind one switch, for servers that listen on all addresses and talk to each other.

The switch is a bridge in a namespace of its own; a link leads from it to this host, and one to each node. Nobody beyond
this machine reaches them.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores.managed.netns import INSIDE, NAMES, Namespace

SWITCH = "sw"


class Lan(Namespace):
    """name: begins the names of its namespaces (`<name>-<node>`), and is that of the link's end on this host.

    nodes: all that there may be; each has the same address every time.
    """

    def __init__(self, name: str, subnet: str, place: str, nodes: Sequence[str] = ()):
        super().__init__(name, subnet, place)
        hosts = [str(address) for address in self.network.hosts()]
        if len(hosts) <= len(nodes):
            raise UserError(
                f"{place}.subnet",
                f"{subnet} has {len(hosts)} addresses, and {len(nodes) + 1} are needed",
                f"write {self.network.network_address}/{32 - (len(nodes) + 2).bit_length()}",
            )
        self.addresses = dict(zip(nodes, hosts[1:], strict=False))

    def space(self, node: str) -> str:
        """Name of a node's namespace."""
        return f"{self.name}-{node}"

    def enter(self, node: str) -> tuple[str, ...]:
        """Command that enters a node's namespace, and a mount namespace of its own, and becomes what follows."""
        return (str(self._ip()), "netns", "exec", self.space(node))

    def spaces(self) -> list[str]:
        """Names of its namespaces that are there."""
        return sorted(p.name for p in NAMES.glob(f"{self.name}-*")) if NAMES.is_dir() else []

    def exists(self) -> bool:
        return bool(self.spaces()) or Path("/sys/class/net", self.name).exists()

    def attach(self, nodes: list[str]) -> None:
        """Make it with these nodes, or what is missing of it. Idempotent.

        Raises UserError where the subnet is in use, MeasurementFailed.
        """
        bits = self.network.prefixlen
        try:
            if not self._has(self.ours, self.name) or self.space(SWITCH) not in self.spaces():
                self._check_subnet()
                self.down()
                self._run("netns", "add", self.space(SWITCH))
                self._run("-n", self.space(SWITCH), batch=f"link add {SWITCH} type bridge\nlink set {SWITCH} up\n")
                self._run(
                    batch=f"link add {self.name} type veth peer name ours netns {self.space(SWITCH)}\n"
                    f"addr add {self.ours}/{bits} dev {self.name}\nlink set {self.name} up\n"
                )
                self._run("-n", self.space(SWITCH), batch=f"link set ours master {SWITCH} up\n")
            for node in nodes:
                self._attach(node, bits)
        except BaseException:
            with contextlib.suppress(MeasurementFailed, UserError):
                self.down()
            raise

    def _attach(self, node: str, bits: int) -> None:
        space, switch, address = self.space(node), self.space(SWITCH), self.addresses[node]
        if space in self.spaces():
            if self._has(address, INSIDE, "-n", space):
                return
            self._run("netns", "delete", space)
        self._run("netns", "add", space)
        self._run("-n", switch, batch=f"link add {node} type veth peer name {INSIDE} netns {space}\n")
        self._run("-n", switch, batch=f"link set {node} master {SWITCH} up\n")
        inside = ["link set lo up", f"addr add {address}/{bits} dev {INSIDE}", f"link set {INSIDE} up"]
        self._run("-n", space, batch="\n".join(inside) + "\n")

    def down(self) -> None:
        """Remove it. Idempotent; processes in it keep a namespace without a name, until they end."""
        if Path("/sys/class/net", self.name).exists():
            self._run("link", "delete", self.name)
        for space in self.spaces():
            self._run("netns", "delete", space)

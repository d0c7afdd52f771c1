"""Networks of managed stores: ports and small HTTP requests, namespaces with a link, faults of links.

A server that listens on all addresses gets a network namespace (`Namespace`). A pair of virtual interfaces connects it
to this host: one end, with the host's address, is outside of the namespace; the other end, with the server's address,
is inside. Several servers that communicate are connected by one switch (`Lan`). It is a bridge in a separate namespace
with one link to this host and one to each node. Clients on this host reach the servers without entering a namespace;
other machines cannot reach them. Faults slow a link down with tc, or cut it by setting its interface down. Both need
root.
"""

import contextlib
import errno
import http.client
import ipaddress
import json
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import TESTBED
from storelab.host import processes
from storelab.install import program

if TYPE_CHECKING:
    import psutil

NAMES = Path("/run/netns")  # folder where iproute2 keeps the names of namespaces
ALL_ADDRESSES = {"0.0.0.0", "::"}
INSIDE, SWITCH = "eth0", "sw"  # names of interfaces in namespaces
HANDLE = "5109:"  # handle of the queueing discipline that `slow` adds
LATENCY, MIN_BURST = "50ms", 16_384  # latency, and minimum burst in bytes, of a token bucket
Link = Mapping[str, str]  # `device`, and `namespace` with the name of its namespace ('' for the current one)


def get(
    host: str,
    port: int,
    path: str,
    timeout: float,
    tls: bool = False,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Send one HTTP request, and return status and body of the answer.

    `timeout` is in seconds. With `tls`, use https without verifying the certificate. Raises OSError, also for an answer
    that is not HTTP.
    """
    wire = http.client.HTTPConnection(host, port, timeout=timeout)
    if tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        wire = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
    try:
        with closing(wire):
            wire.request(method, path, body, headers or {})
            answer = wire.getresponse()
            return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def answers(host: str, port: int, path: str = "/", timeout: float = 1.0, tls: bool = False) -> bool:
    """Return whether the server answers a GET request with status 200."""
    try:
        return get(host, port, path, timeout, tls)[0] == 200
    except OSError:
        return False


def free(host: str, port: int) -> bool:
    """Return whether a program could listen on this port. Raises OSError if the address is wrong."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def same_host(one: str, other: str) -> bool:
    """Return whether two names or addresses are the same host. 0.0.0.0 and :: are all addresses of this machine."""
    try:
        first, second = ({str(a[4][0]) for a in socket.getaddrinfo(h, None)} for h in (one, other) if h)
    except (OSError, UnicodeError, ValueError):  # an unknown name; one of the two is empty
        return False
    if first & second:
        return True
    return bool((first | second) & ALL_ADDRESSES) and all(map(is_local, first | second))


def is_local(address: str) -> bool:
    """Return whether a program could listen on this address."""
    try:
        return free(address, 0)
    except OSError:
        return False


class Namespace:
    """A network namespace and its link to this host.

    Parameters
    ----------
    name
        Name of the namespace, and of the outer end of its link; at most 15 characters.
    subnet
        Subnet of the link, /30 or larger.
    place
        Place of the store in the configuration, for messages.
    kind
        Name with which `storelab install` installs iproute2, for messages.
    """

    def __init__(self, name: str, subnet: str, place: str, kind: str = "xrootd"):
        self.name, self.place, self.kind = name, place, kind
        try:
            self.network = ipaddress.IPv4Network(subnet)
        except ValueError as error:
            raise UserError(
                f"{place}.subnet", f"{subnet!r} is not a subnet ({error})", "write it like 10.213.77.0/30"
            ) from None
        self.ours, self.server = (str(self.network.network_address + i) for i in (1, 2))

    @property
    def prefix(self) -> tuple[str, ...]:
        """The command prefix that runs a program in the namespace and in a separate mount namespace."""
        return (str(self._ip()), "netns", "exec", self.name)

    def _ip(self) -> Path:
        return program("ip", self.kind, self.place)

    def _run(self, *arguments: str, batch: str | None = None) -> str:
        done = processes.run_command([self._ip(), *arguments, *(["-batch", "-"] if batch else [])], feed=batch or "")
        if done.returncode:
            raise MeasurementFailed(
                f"{self.place}: `{' '.join(['ip', *arguments])}` failed: {' '.join(done.stderr.split())[:200]}"
            )
        return done.stdout

    def _json(self, *arguments: str) -> list[dict[str, Any]]:
        return json.loads(self._run("-j", "-4", *arguments) or "[]")

    def exists(self) -> bool:
        """Return whether any part of the namespace exists."""
        return (NAMES / self.name).exists() or Path("/sys/class/net", self.name).exists()

    def processes(self) -> "list[psutil.Process]":
        """Return all processes that run in the namespace."""
        import psutil  # imported here, because it is slow to import and planning does not need it

        out: list[psutil.Process] = []
        try:
            namespace = (NAMES / self.name).stat()
        except OSError:
            return out
        for pid in psutil.pids():
            with contextlib.suppress(OSError, psutil.Error):  # the process ended meanwhile
                theirs = Path(f"/proc/{pid}/ns/net").stat()
                if (theirs.st_dev, theirs.st_ino) == (namespace.st_dev, namespace.st_ino):
                    out.append(psutil.Process(pid))
        return out

    def _has(self, address: str, device: str, *where: str) -> bool:
        """Return whether a device is up and has this address. `where` is `-n` and the name of another namespace."""
        try:
            links = self._json(*where, "addr", "show", "dev", device)
        except (MeasurementFailed, ValueError):
            return False
        return any(
            a.get("local") == address and "UP" in link["flags"] for link in links for a in link.get("addr_info", [])
        )

    def complete(self) -> bool:
        """Return whether both ends of the link are up and have their addresses."""
        return self._has(self.ours, self.name) and self._has(self.server, INSIDE, "-n", self.name)

    def _check_subnet(self) -> None:
        """Raise UserError if the subnet overlaps with an address or a route of this machine."""
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
                    f"{self.network} is in use ({text} on {device})",
                    f"set {self.place}.subnet to another /{self.network.prefixlen}",
                )

    def up(self) -> None:
        """Create the namespace and its link, unless they are complete.

        Raises UserError if the subnet is in use, MeasurementFailed if a command fails.
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
            self._run("-n", self.name, batch=self._inside(self.server))
        except BaseException:
            with contextlib.suppress(MeasurementFailed, UserError):
                self.down()
            raise

    def _inside(self, address: str) -> str:
        """Return the commands of `ip` that set up the inner end of a link.

        The nodes of a testbed are reached through this host. There is no default route: XRootD would wait for the
        servers of names.
        """
        return (
            f"link set lo up\naddr add {address}/{self.network.prefixlen} dev {INSIDE}\nlink set {INSIDE} up\n"
            f"route add {TESTBED.format('0/24')} via {self.ours}\n"
        )

    def down(self) -> None:
        """Remove the namespace and its link. The kernel keeps the namespace until the processes in it end."""
        if Path("/sys/class/net", self.name).exists():
            self._run("link", "delete", self.name)
        if (NAMES / self.name).exists():
            self._run("netns", "delete", self.name)


class Lan(Namespace):
    """Network namespaces that are connected by one switch.

    `name` is the prefix of the namespaces (`<name>-<node>`), and the name of the link's end on this host. `nodes` are
    all possible nodes, so that each node has the same address every time.
    """

    def __init__(self, name: str, subnet: str, place: str, nodes: Sequence[str] = ()):
        super().__init__(name, subnet, place)
        hosts = [str(address) for address in self.network.hosts()]
        if len(hosts) <= len(nodes):
            raise UserError(
                f"{place}.subnet",
                f"{subnet} has {len(hosts)} addresses, but {len(nodes) + 1} are needed",
                f"write {self.network.network_address}/{32 - (len(nodes) + 2).bit_length()}",
            )
        self.addresses = dict(zip(nodes, hosts[1:], strict=False))

    def space(self, node: str) -> str:
        """Return the name of a node's namespace."""
        return f"{self.name}-{node}"

    def enter(self, node: str) -> tuple[str, ...]:
        """Return the command prefix that runs a program in a node's namespace and a separate mount namespace."""
        return (str(self._ip()), "netns", "exec", self.space(node))

    def spaces(self) -> list[str]:
        """Return the names of the existing namespaces of this network."""
        return sorted(p.name for p in NAMES.glob(f"{self.name}-*")) if NAMES.is_dir() else []

    def exists(self) -> bool:
        return bool(self.spaces()) or Path("/sys/class/net", self.name).exists()

    def attach(self, nodes: list[str]) -> None:
        """Create the missing parts of the network with these nodes.

        Raises UserError if the subnet is in use, MeasurementFailed if a command fails.
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
                self._attach(node)
        except BaseException:
            with contextlib.suppress(MeasurementFailed, UserError):
                self.down()
            raise

    def _attach(self, node: str) -> None:
        space, switch, address = self.space(node), self.space(SWITCH), self.addresses[node]
        if space in self.spaces():
            if self._has(address, INSIDE, "-n", space):
                return
            self._run("netns", "delete", space)
        self._run("netns", "add", space)
        self._run("-n", switch, batch=f"link add {node} type veth peer name {INSIDE} netns {space}\n")
        self._run("-n", switch, batch=f"link set {node} master {SWITCH} up\n")
        self._run("-n", space, batch=self._inside(address))

    def down(self) -> None:
        """Remove the network. The kernel keeps a namespace until the processes in it end."""
        if Path("/sys/class/net", self.name).exists():
            self._run("link", "delete", self.name)
        for space in self.spaces():
            self._run("netns", "delete", space)


# Faults of a link. Only a daemon with a separate interface has its own link.


def require_root(place: str) -> None:
    """Raise UserError if storelab does not run as root."""
    if os.geteuid() != 0:
        raise UserError(place, "slowing or cutting a link needs root", "run as root, or remove this fault")


def link_at(address: str, place: str, who: str) -> Link:
    """Return the link at an address of this network namespace. Raises UserError if the link is shared."""
    if address.startswith("127.") or address in ("::1", "localhost"):
        raise UserError(
            place,
            f"{who} listens on {address}, which all programs of this machine share, so it has no separate link",
            "give it a separate address (`front_end_addresses` in a testbed), or remove this fault",
        )
    for link in json.loads(_run("ip", "-j", "addr", "show") or "[]"):
        if any(a.get("local") == address for a in link.get("addr_info", [])):
            return {"device": link["ifname"], "namespace": ""}
    raise UserError(place, f"no interface of this machine has {who}'s address {address}", "remove this fault")


def require_slow(how: Mapping[str, Any], place: str) -> None:
    """Raise UserError if this kernel cannot slow a link in this way. This is tried in a temporary namespace."""
    command = ["tc", "qdisc", "add", "dev", "lo", "root", *_discipline(how)]
    done = processes.run_command(["unshare", "--net", *command])
    if done.returncode:
        hint = "set only `rate`, or use a kernel with netem" if "netem" in command else "use another kernel"
        raise UserError(place, f"this kernel cannot slow a link in this way ({processes.words(done)})", hint)


def _discipline(how: Mapping[str, Any]) -> list[str]:
    """Return the arguments for tc: a token bucket if only the rate is limited, otherwise netem."""
    rate = how.get("rate_bytes_per_s")
    bits = [f"{8 * rate}bit"] if rate else []
    if "delay_ns" not in how and "loss_percent" not in how:
        burst = max(MIN_BURST, (rate or 0) // 250)
        return ["tbf", "rate", *bits, "burst", str(burst), "latency", LATENCY]
    out = ["netem"]
    out += ["delay", f"{max(1, how['delay_ns'] // 1000)}us"] if "delay_ns" in how else []
    out += ["loss", f"{how['loss_percent']:g}%"] if "loss_percent" in how else []
    return out + (["rate", *bits] if bits else [])


def slow(link: Link, how: Mapping[str, Any]) -> None:
    """Slow down outgoing traffic of this link, in addition to existing traffic shaping."""
    _tc(link, "qdisc", "add", "dev", link["device"], *_place(link), "handle", HANDLE, *_discipline(how))


def _place(link: Link) -> Sequence[str]:
    """Return the position of the new discipline: below the token bucket of a shaped link, otherwise at the root."""
    rows = json.loads(_tc(link, "-j", "qdisc", "show", "dev", link["device"]) or "[]")
    root = next((r for r in rows if r.get("root")), {})
    return ("parent", f"{root['handle']}1") if root.get("kind") == "tbf" else ("root",)


def quick(link: Link) -> None:
    """Undo `slow`. Do nothing if it was already undone."""
    rows = json.loads(_tc(link, "-j", "qdisc", "show", "dev", link["device"]) or "[]")
    for row in rows:
        if row.get("handle") == HANDLE:
            where = ("root",) if row.get("root") else ("parent", row["parent"])
            _tc(link, "qdisc", "del", "dev", link["device"], *where)


def routes(link: Link) -> list[str]:
    """Return the routes that disappear when the interface is set down, and do not return when it is set up."""
    found = _ip(link, "route", "show", "table", "all", "dev", link["device"]).splitlines()
    return [line.strip() for line in found if "proto kernel" not in line and line.strip()]


def cut(link: Link) -> None:
    """Set the link down, so that no packets pass."""
    _ip(link, "link", "set", link["device"], "down")


def join(link: Link, lost: Sequence[str]) -> None:
    """Undo `cut`. `lost` contains the routes of the link before the cut."""
    _ip(link, "link", "set", link["device"], "up")
    for route in lost:
        _ip(link, "route", "replace", *route.split(), "dev", link["device"])


def _ip(link: Link, *words: str) -> str:
    return _run("ip", *(["-n", link["namespace"]] if link["namespace"] else []), *words)


def _tc(link: Link, *words: str) -> str:
    return _run("tc", *(["-n", link["namespace"]] if link["namespace"] else []), *words)


def _run(*command: str) -> str:
    done = processes.run_command(command)
    if done.returncode:
        raise MeasurementFailed(f"`{' '.join(command)}` failed: {processes.words(done)}")
    return done.stdout

"""The network of testbeds with links: nodes in network namespaces with shaped links. It needs root.

    node1 … nodeN ──(client rate)──┐
                                   switch (a bridge in its own namespace)
    head ──(unshaped)──────────────┤
         ──(front-end rate) × F────┘   addresses of the store's front-ends, in the head's namespace

The network of the machine is not changed. The head forwards, so that nodes also reach stores that have their own
network namespaces (XRootD): their traffic passes the node's link, but no front-end's. A token bucket (tbf) at both ends
of a link shapes each direction. The head answers through the link of the address that received the request (policy
routing). Names of namespaces begin with the plan's prefix. A file lists the parts of the plan, and only these are
removed. The daemons of Slurm or HTCondor (`pool.py`) run in this network.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from storelab.core.errors import UserError
from storelab.core.records import FRONT_END_LINK, TESTBED, read_as
from storelab.gang.testbed.slurm import PLACE, Cluster, Node, claim, run
from storelab.install import program

PREFIX = "storelab-tb-"
HEAD, FIRST_FRONT_END = TESTBED.format(254), 240
MAX_NODES, MAX_FRONT_ENDS = 100, 8
BURST, DELAY = "128kb", "50ms"


@dataclass(frozen=True)
class Plan:
    """The plan of a network.

    `rates` contains the rate of each node's link in tc's notation (`100mbit`; empty if it is not shaped), and
    `front_ends` the rates of the store's links. `prefix` is the prefix of the namespaces' names.
    """

    rates: list[str]
    front_ends: list[str]
    prefix: str = PREFIX

    @property
    def switch(self) -> str:
        return f"{self.prefix}switch"

    @property
    def head(self) -> str:
        """Return the name of the head's namespace."""
        return f"{self.prefix}head"

    @property
    def nodes(self) -> dict[str, str]:
        """Return the address of each node, by the name of its namespace."""
        return {f"{self.prefix}n{i + 1}": TESTBED.format(i + 1) for i in range(len(self.rates))}

    @property
    def namespaces(self) -> list[str]:
        return [self.switch, self.head, *self.nodes]

    @property
    def addresses(self) -> list[str]:
        """Return the addresses of the store's front-ends."""
        return [TESTBED.format(FIRST_FRONT_END + 1 + i) for i in range(len(self.front_ends))]


class Network:
    """The namespaces and links of a plan. A file in `folder` records what was created."""

    def __init__(self, folder: Path):
        self.note = folder / "links.json"

    def planned(self) -> Plan | None:
        """Return the plan that was created and not removed yet; None if there is none."""
        if not self.note.exists():
            return None
        hint = "remove its interfaces manually (see `ip -br link`), then the file"
        return Plan(**read_as(self.note, Plan, hint))

    def up(self, plan: Plan) -> None:
        """Create the network.

        Raises UserError without root, with too many nodes or front-ends, or if a name is in use.
        """
        if os.geteuid() != 0:
            raise UserError(
                PLACE,
                "namespaces and shaped links need root",
                "run as root, or run `storelab testbed up` without --links",
            )
        if not 1 <= len(plan.rates) <= MAX_NODES or len(plan.front_ends) > MAX_FRONT_ENDS:
            raise UserError(
                PLACE,
                f"{len(plan.rates)} nodes and {len(plan.front_ends)} front-ends are not possible",
                f"use 1 to {MAX_NODES} nodes and 0 to {MAX_FRONT_ENDS} front-ends",
            )
        if taken := [n for n in plan.namespaces if Path("/run/netns", n).exists()]:
            raise UserError(
                PLACE,
                f"the namespace {taken[0]} already exists",
                "run `storelab testbed down` in the folder in which it was created",
            )
        claim(self.note.parent)
        self.note.write_text(json.dumps(asdict(plan)))
        try:
            self._make(plan)
        except BaseException:
            self.down()
            raise

    def _make(self, plan: Plan) -> None:
        for name in plan.namespaces:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", plan.switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", plan.switch, "link", "set", "switch", "up")
        self._link(plan, plan.head, "eth0", HEAD, "head", "")
        for i, ((space, address), rate) in enumerate(zip(plan.nodes.items(), plan.rates, strict=True)):
            self._link(plan, space, "eth0", address, f"node{i + 1}", rate)
            _ip("-n", space, "route", "add", "default", "via", HEAD)
        for key, value in (("arp_ignore", 1), ("arp_announce", 2), ("rp_filter", 2), ("forwarding", 1)):
            write = f"echo {value} > /proc/sys/net/ipv4/conf/all/{key}"
            run("nsenter", f"--net=/run/netns/{plan.head}", "sh", "-c", write)
        for i, (address, rate) in enumerate(zip(plan.addresses, plan.front_ends, strict=True)):
            link, table = FRONT_END_LINK.format(i + 1), str(100 + i)
            self._link(plan, plan.head, link, address, link, rate, bits=32)
            _ip("-n", plan.head, "route", "add", TESTBED.format("0/24"), "dev", link, "src", address, "table", table)
            _ip("-n", plan.head, "rule", "add", "from", address, "table", table)

    def _link(self, plan: Plan, space: str, inside: str, address: str, port: str, rate: str, bits: int = 24) -> None:
        """Connect the interface `inside` of a namespace with the switch."""
        _ip("-n", plan.switch, "link", "add", port, "type", "veth", "peer", "name", inside, "netns", space)
        _ip("-n", plan.switch, "link", "set", port, "master", "switch", "up")
        _ip("-n", space, "addr", "add", f"{address}/{bits}", "dev", inside)
        _ip("-n", space, "link", "set", inside, "up")
        if rate:
            for where, device in ((space, inside), (plan.switch, port)):
                shape = ["root", "tbf", "rate", rate, "burst", BURST, "latency", DELAY]
                run("tc", "-n", where, "qdisc", "add", "dev", device, *shape)

    def down(self) -> list[str]:
        """Remove the namespaces, and the links with them. Return the names of the removed namespaces."""
        if (plan := self.planned()) is None:
            return []
        gone = [name for name in plan.namespaces if Path("/run/netns", name).exists()]
        for name in gone:
            _ip("netns", "delete", name)
        self.note.unlink()
        return gone


def enter(space: str, host: str = "", hosts: Path | None = None) -> tuple[str, ...]:
    """Return the command prefix that enters a namespace, with its own host name and /etc/hosts.

    `ip netns exec` is not used, because it mounts /sys without control groups, which slurmd 22.05 needs.
    """
    inside = ("nsenter", f"--net=/run/netns/{space}")
    if not host:
        return inside
    script = f'mount --bind {hosts} /etc/hosts && hostname {host} && exec "$@"'
    return (*inside, "unshare", "--uts", "--mount", "--propagation", "slave", "sh", "-c", script, "sh")


def propagates_mounts() -> bool:
    """Return whether the nodes, which have their own mount namespaces, see what is mounted on this machine later."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4] == "/" and " shared:" in line for line in mounts)


def write_hosts(folder: Path, plan: Plan) -> Path:
    """Write the /etc/hosts of all nodes, in which the head has this machine's name, and return its path."""
    path = folder.absolute() / "hosts"
    names = [f"{address} node{i}" for i, address in enumerate(plan.nodes.values(), 1)]
    path.write_text("\n".join(["127.0.0.1 localhost", f"{HEAD} {os.uname().nodename}", *names]) + "\n")
    return path


def up(folder: Path, plan: Plan, port: int, report: Callable[[str], None]) -> Cluster:
    """Start the network and the cluster."""
    cluster, network = Cluster(folder), Network(folder)
    cluster.require()
    report(f"{len(plan.namespaces)} namespaces, {len(plan.rates) + len(plan.front_ends)} shaped links")
    if not propagates_mounts():
        report(
            "nodes will not see what is mounted from now on, such as GlusterFS: / is a private mount; to change this,"
        )
        report("`mount --make-rshared /` before `storelab testbed up`")
    network.up(plan)
    hosts = write_hosts(folder, plan)
    nodes = [
        Node(f"node{i}", address, port + 1, enter(space, f"node{i}", hosts))
        for i, (space, address) in enumerate(plan.nodes.items(), 1)
    ]
    try:
        cluster.up(HEAD, port, nodes, report, enter(plan.head, os.uname().nodename, hosts))
    except BaseException:
        network.down()
        raise
    return cluster


def _ip(*arguments: str) -> None:
    run(str(program("ip", "slurm", PLACE)), *arguments)

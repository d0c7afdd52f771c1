"""Garage on this machine: up to ten nodes that answer S3, of which one to seven store data. Each is one process.

Garage is an AGPL program, which storelab runs unmodified as a separate process. Every node is a front-end. Front-ends
beyond the number of data nodes store no data (Garage calls them gateways). Nodes communicate on loopback, and storelab
administers them there over HTTP (Garage's API v2). See docs/stores/garage.md.
"""

import hashlib
import http.client
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import read_as, write_json
from storelab.install import cargo
from storelab.stores.base import CLEAN, CONDITION_TIMEOUT_S, DEGRADED, DOWN, NO, AdminAnswer, Condition
from storelab.stores.managed import network
from storelab.stores.managed.accounts import KEYS, TOOL_S, listed
from storelab.stores.managed.base import LOOPBACK, Managed
from storelab.stores.managed.daemon import Daemon
from storelab.stores.managed.settings import ListeningSettings

CAPACITY = 10**12  # declared capacity of each data node in bytes; Garage uses it as a weight, not as a limit
JOIN_TIMEOUT_S = 30.0  # seconds until all nodes must know each other and the layout


@dataclass(frozen=True)
class Node:
    """The administration interface of one node. `place` names the store in messages; `token` gives access."""

    place: str
    name: str
    host: str
    port: int
    token: str = field(repr=False)

    def ask(self, call: str, body: Any = None, seconds: float = TOOL_S) -> Any:
        """Call the API, and return its JSON answer.

        Raises MeasurementFailed if the node refuses the call or does not answer within `seconds`.
        """
        method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        what = f"{self.place}: {call.partition('?')[0]} of {self.name}"
        try:
            status, answer = network.get(
                self.host, self.port, f"/v2/{call}", seconds, method=method, body=data, headers=headers
            )
            if status >= 400:
                reason = answer.decode(errors="replace")[:200]
                raise MeasurementFailed(f"{what} was refused (HTTP {status}): {reason}")
            return json.loads(answer) if answer else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise MeasurementFailed(f"{what} was not answered ({type(error).__name__})") from None

    def lives(self) -> bool:
        """Return whether the node answers. It answers 503 if the cluster has no layout or too few nodes."""
        try:
            return network.get(self.host, self.port, "/health", 1.0)[0] in (200, 503)
        except (OSError, http.client.HTTPException):
            return False


def layout_changes(known: Mapping[str, Any], wanted: Mapping[str, str], storage: int) -> list[dict[str, Any]]:
    """Return the roles that are missing in the layout.

    Parameters
    ----------
    known
        The answer of GetClusterLayout.
    wanted
        The id of each node by name, in order.
    storage
        Number of data nodes. They come first, each in a separate zone. The other nodes only answer S3.
    """
    there = {role["id"]: role["capacity"] for role in known["roles"]}
    out = []
    for number, (name, node) in enumerate(wanted.items()):
        capacity = CAPACITY if number < storage else None
        if node not in there or there[node] != capacity:
            out.append({"id": node, "zone": name, "capacity": capacity, "tags": []})
    return out


def join(nodes: Sequence[Node], ids: Mapping[str, str], peers: Sequence[str], storage: int) -> None:
    """Join running nodes to one cluster. Wait until each knows the layout and is connected to all data nodes.

    `peers` contains `id@address` of each node. Joined nodes stay as they are. Raises MeasurementFailed.
    """
    first = nodes[0]
    for node in nodes if len(nodes) > 1 else ():
        node.ask("ConnectClusterNodes", list(peers))
    known = first.ask("GetClusterLayout")
    if changes := layout_changes(known, ids, storage):
        first.ask("UpdateClusterLayout", {"roles": changes})
        first.ask("ApplyClusterLayout", {"version": known["version"] + 1})
    version, end = first.ask("GetClusterLayout")["version"], time.monotonic() + JOIN_TIMEOUT_S
    while late := [n.name for n in nodes if not _knows(n, version, storage)]:
        if time.monotonic() > end:
            raise MeasurementFailed(f"{first.place}: {', '.join(late)} did not join the others in {JOIN_TIMEOUT_S:g} s")
        time.sleep(0.05)


def _knows(node: Node, version: int, storage: int) -> bool:
    health = node.ask("GetClusterHealth")
    healthy = health["status"] == "healthy" and health["storageNodesUp"] >= storage
    return healthy and node.ask("GetClusterLayout")["version"] == version


def allow(node: Node, access_key: str, secret_key: str, name: str) -> None:
    """Import a key that has the right to create buckets. Raises MeasurementFailed."""
    node.ask("ImportKey", {"accessKeyId": access_key, "secretAccessKey": secret_key, "name": name})
    node.ask(f"UpdateKey?id={access_key}", {"allow": {"createBucket": True}})


def keys_of(node: Node) -> set[str]:
    """Return the existing access keys of S3 clients. Raises MeasurementFailed."""
    return {key["id"] for key in node.ask("ListKeys")}


PROGRAM = cargo.Program(
    "garage",
    "2.5.0",
    "e1752af176a3cd84e9afd6edf30df594db92b7730cc67bddcd74769841b3f3f5",
    ("bundled-libs", "lmdb"),
    (1, 89),
    (("cc", "gcc"), ("make", "make")),
    "crates, 100 MB to download; a long build",
    2e9,
)
COPIES = {"none": 1, "replica-2": 2, "replica-3": 3}
# Garage must not scrub or make snapshots during a point. The region must be the one that storelab's clients use.
CONFIGURATION = """metadata_dir = "{data}/{name}/meta"
data_dir = "{data}/{name}/data"
db_engine = "lmdb"
disable_scrub = true
replication_factor = {copies}
rpc_bind_addr = "{rpc}"
rpc_public_addr = "{rpc}"

[s3_api]
api_bind_addr = "{s3}"
s3_region = "us-east-1"

[admin]
api_bind_addr = "{admin}"
"""


class Settings(ListeningSettings):
    """A cluster of Garage nodes on this machine, one process each; every node answers S3."""

    kind: Literal["garage"]
    port: int = Field(
        26000, ge=1024, le=32000, description="First port of a block of 32 ports; each node uses three of them."
    )
    servers: int = Field(1, ge=1, le=7, description="Number of nodes that store data, each in a separate zone.")
    redundancy: Literal["none", "replica-2", "replica-3"] = Field(
        "none", description="Copies of every object, on different nodes."
    )


NODES = 10  # maximum number of nodes; each uses three ports of the block
INLINE = 3072  # objects below this size in bytes are stored with their metadata


@dataclass
class _Layout:
    """The content of `layout.json`."""

    servers: int
    redundancy: str
    nodes: int


class Garage(Managed):
    """Garage with one or more nodes, on this machine."""

    Settings = Settings
    system = "Garage"
    version_pattern = r"(?:cargo:|v)(\d\S*)"
    front = "node-"
    most_front_ends = NODES
    most_accounts = 32
    port_block = 32
    start_timeout = 30.0

    recipe = PROGRAM.parts

    def require(self) -> None:
        self.program()
        self.require_servers(COPIES[self.settings.redundancy], "nodes")

    def _nodes(self) -> int:
        """Return the number of nodes that must run: data nodes, and gateways in the layout.

        Changes of buckets and keys need a majority of all nodes, including gateways. So all of them must run.
        """
        note = self.data / "layout.json"
        return max(self.settings.servers, self._layout()["nodes"] if note.exists() else 0)

    def _layout(self) -> dict[str, Any]:
        note = self.data / "layout.json"
        return read_as(note, _Layout, f"restore it, or remove {self.data}, which deletes its data")

    def stages(self, front_ends: Sequence[str]) -> Sequence[Sequence[str]]:
        names = {*front_ends, *(f"{self.front}{i}" for i in range(1, self._nodes() + 1))}
        return (sorted(names, key=self._number),)

    def _address(self, name: str, what: str) -> str:
        """Return address and port of a node for S3 (`s3`), other nodes (`rpc`), or administration (`admin`)."""
        number = self._number(name)
        host = self.address(number) if what == "s3" else LOOPBACK
        return f"{host}:{self.settings.port + ('s3', 'rpc', 'admin').index(what) * NODES + number - 1}"

    def _configuration(self, name: str) -> str:
        ports = {what: self._address(name, what) for what in ("s3", "rpc", "admin")}
        return CONFIGURATION.format(name=name, data=self.data, copies=COPIES[self.settings.redundancy], **ports)

    def make_ready(self) -> None:
        s, note = self.settings, self.data / "layout.json"
        old = self._layout() if note.exists() else {"servers": s.servers, "redundancy": s.redundancy, "nodes": 0}
        if old["redundancy"] != s.redundancy:
            problem = f"the data in {self.data} have redundancy {old['redundancy']}, which Garage cannot change"
            raise UserError(f"{self.place}.redundancy", problem, f"set {old['redundancy']}, or use a new folder")
        if old["servers"] > s.servers:
            problem = f"the data in {self.data} are on {old['servers']} nodes"
            raise UserError(f"{self.place}.servers", problem, f"set {old['servers']}, or use a new folder")
        self.require_paths(r'["\\]', self.data)
        for name in (f"{self.front}{i}" for i in range(1, NODES + 1)):
            (self.folder / f"{name}.toml").write_text(self._configuration(name))
        if not note.exists() or old["servers"] < s.servers:
            write_json(note, old | {"servers": s.servers})

    def daemon(self, name: str) -> Daemon:
        """Return the definition of the node with this name (`node-1`, …).

        The shared secret of the nodes and the administration token are in the environment, because all users can see
        command lines.
        """
        root = self.root_keys()
        host, _, port = self._address(name, "s3").rpartition(":")
        ports = [int(self._address(name, what).rpartition(":")[2]) for what in ("rpc", "admin")]
        environ = {
            "GARAGE_RPC_SECRET": hashlib.sha256(root.secret_key.encode()).hexdigest(),
            "GARAGE_ADMIN_TOKEN": root.secret_key,
            "NO_COLOR": "1",
            "RUST_LOG": "garage=warn,netapp=warn",
        }
        argv = (str(self.program()), "-c", str(self.folder / f"{name}.toml"), "server")
        return Daemon(name, argv, host, (int(port), *ports), self._admin(name).lives, 10.0, environ)

    def _admin(self, name: str) -> Node:
        host, _, port = self._address(name, "admin").rpartition(":")
        return Node(self.place, name, host, int(port), self.root_keys().secret_key)

    def started(self, daemon: Daemon) -> None:
        self.daemons.note(daemon.name, configuration=self._configuration(daemon.name))

    def healthy(self, daemon: Daemon) -> bool:
        """Return whether a running node answers and was started with the current configuration."""
        known = self.daemons.records().get(daemon.name, {}).get("configuration")
        return known == self._configuration(daemon.name) and daemon.healthy(3.0)

    def make_accounts(self, accounts: int) -> None:
        """Join the nodes to one cluster, and then create the accounts in it."""
        names, note = self.front_ends(), self.data / "layout.json"
        ids = {name: (self.data / name / "meta" / "node_key.pub").read_bytes().hex() for name in names}
        peers = [f"{node}@{self._address(name, 'rpc')}" for name, node in ids.items()]
        write_json(note, self._layout() | {"nodes": len(names)})
        nodes = [self._admin(name) for name in names]
        join(nodes, ids, peers, self.settings.servers)
        there = keys_of(nodes[0])
        for i, keys in enumerate(self.make_keys(accounts)):
            if keys["access_key"] not in there:
                allow(nodes[0], keys["access_key"], keys["secret_key"], f"storelab-{i}")

    def administration(self) -> list[AdminAnswer]:
        keys = [self.credentials(i).access_key for i in range(self.accounts())]
        evidence = "Garage has keys but no users; several keys can get access to a bucket"
        return [listed("ListKeys", keys_of(self._admin(self.front_ends()[0])), keys), AdminAnswer(KEYS, NO, evidence)]

    # Faults

    def data_actors(self) -> list[str]:
        return [f"{self.front}{i}" for i in range(1, self.settings.servers + 1)]

    def tolerated_failures(self) -> int:
        return COPIES[self.settings.redundancy] - 1

    def condition(self) -> Condition:
        """Return the condition that the first answering node reports: connected nodes, and blocks in queues.

        The queues do not show a recovery. Garage checks every block again after it was written, so they are seldom
        empty; and a node that was down does not count its missing blocks. Therefore RECOVERING is never returned.
        """
        for name in self.front_ends():
            try:
                health = self._admin(name).ask("GetClusterHealth", seconds=CONDITION_TIMEOUT_S)
                status = self._admin(name).ask("GetClusterStatus", seconds=CONDITION_TIMEOUT_S)
            except MeasurementFailed:
                continue
            up, servers = health["storageNodesUp"], self.settings.servers
            waiting = sum(node.get("resyncQueueLen") or 0 for node in status["nodes"])
            detail = f"{name}: {up} of {servers} nodes with data, {health['partitionsAllOk']} of "
            detail += f"{health['partitions']} partitions whole, {waiting} blocks queued"
            state = {"healthy": CLEAN, "degraded": DEGRADED}.get(health["status"], DOWN)
            return Condition(state, detail)
        return Condition(DOWN, "no node answers")

    def deployment(self) -> dict[str, Any]:
        return super().deployment() | {"gateways": max(0, len(self.front_ends()) - self.settings.servers)}

    def retains_overwritten(self, size_bytes: int) -> bool:
        """Return True for large objects, because Garage deletes unused blocks only after ten minutes."""
        return size_bytes >= INLINE

    def ask_version(self, program: Path) -> str:
        return super().ask_version(program).rstrip(",")

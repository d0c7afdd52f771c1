"""Garage's administration over HTTP (its API v2): who is connected, the layout, keys. May import: what `stores` may."""

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from storelab.core.errors import MeasurementFailed
from storelab.stores.managed import network
from storelab.stores.managed.accounts import TOOL_S

CAPACITY = 10**12  # of each node that holds data: a weight, no bound
TOGETHER_S = 30.0  # until all nodes must know each other and the layout


@dataclass(frozen=True)
class Node:
    """One node as its administration is asked. place: of the store, for messages; token: of its administration."""

    place: str
    name: str
    host: str
    port: int
    token: str = field(repr=False)

    def ask(self, call: str, body: Any = None, seconds: float = TOOL_S) -> Any:
        """The answer to a call of the API, as JSON has it. Raises MeasurementFailed where it is refused or does not
        come within `seconds`."""
        method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        what = f"{self.place}: {call.partition('?')[0]} of {self.name}"
        try:
            status, answer = network.get(
                self.host, self.port, f"/v2/{call}", seconds, method=method, body=data, headers=headers
            )
            if status >= 400:
                told = answer.decode(errors="replace")[:200]
                raise MeasurementFailed(f"{what} was refused (HTTP {status}): {told}")
            return json.loads(answer) if answer else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise MeasurementFailed(f"{what} was not answered ({type(error).__name__})") from None

    def lives(self) -> bool:
        """Whether it answers at all: 503 is the word of a cluster that has no layout yet, or too few nodes."""
        try:
            return network.get(self.host, self.port, "/health", 1.0)[0] in (200, 503)
        except (OSError, http.client.HTTPException):
            return False


def layout_changes(known: Mapping[str, Any], wanted: Mapping[str, str], storage: int) -> list[dict[str, Any]]:
    """What the layout lacks. known: answer of GetClusterLayout; wanted: id of each node by its name, in order; storage:
    how many of them, from the first on, hold data: each in a zone of its own. The others only answer S3."""
    there = {role["id"]: role["capacity"] for role in known["roles"]}
    out = []
    for number, (name, node) in enumerate(wanted.items()):
        capacity = CAPACITY if number < storage else None
        if node not in there or there[node] != capacity:
            out.append({"id": node, "zone": name, "capacity": capacity, "tags": []})
    return out


def join(nodes: Sequence[Node], ids: Mapping[str, str], peers: Sequence[str], storage: int) -> None:
    """Make one cluster of nodes that run, and wait until each knows the layout and meets all that hold data.

    peers: `id@address` of each. Idempotent. Raises MeasurementFailed.
    """
    first = nodes[0]
    for node in nodes if len(nodes) > 1 else ():
        node.ask("ConnectClusterNodes", list(peers))
    known = first.ask("GetClusterLayout")
    if changes := layout_changes(known, ids, storage):
        first.ask("UpdateClusterLayout", {"roles": changes})
        first.ask("ApplyClusterLayout", {"version": known["version"] + 1})
    version, end = first.ask("GetClusterLayout")["version"], time.monotonic() + TOGETHER_S
    while late := [n.name for n in nodes if not _knows(n, version, storage)]:
        if time.monotonic() > end:
            raise MeasurementFailed(f"{first.place}: {', '.join(late)} did not join the others in {TOGETHER_S:g} s")
        time.sleep(0.05)


def _knows(node: Node, version: int, storage: int) -> bool:
    health = node.ask("GetClusterHealth")
    told = health["status"] == "healthy" and health["storageNodesUp"] >= storage
    return told and node.ask("GetClusterLayout")["version"] == version


def allow(node: Node, access_key: str, secret_key: str, name: str) -> None:
    """Make a key that may make buckets. Raises MeasurementFailed."""
    node.ask("ImportKey", {"accessKeyId": access_key, "secretAccessKey": secret_key, "name": name})
    node.ask(f"UpdateKey?id={access_key}", {"allow": {"createBucket": True}})


def keys(node: Node) -> set[str]:
    """The access keys that there are, by which S3 clients are known. Raises MeasurementFailed."""
    return {key["id"] for key in node.ask("ListKeys")}

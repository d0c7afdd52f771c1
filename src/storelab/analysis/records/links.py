"""Capacity of the links between the clients and a store, from the records or from `links.yaml`.

Records contain the speed of each interface of the clients' hosts (`link_bits_per_s`), and the speed of the link of each
front-end (in `store.deployment`). If a speed is unknown, `links.yaml` in the campaign's folder can declare it, even for
a sealed campaign. See docs/records.md.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab.core import units, yaml_text
from storelab.core.errors import UserError
from storelab.core.records import FRONT_END_LINK

FILE = "links.yaml"
KEYS = ("clients", "stores", "source")
CLIENTS, FRONT_ENDS, BOTH = "clients", "front-ends", "clients and front-ends"
# Links that storelab makes for servers on this host. The kernel reports 10 Gbit/s for them, which has no meaning.
STORELAB_PREFIX = "sl-"
ALONE = "client"  # value of the axis `balance` with which each client uses one front-end


@dataclass(frozen=True)
class Declared:
    """The content of `links.yaml`, in bits/s.

    clients: the speed of the link of each client's node; stores: store -> the speed of the link of each front-end;
    source: where the speeds were taken from.
    """

    clients: int | None
    stores: Mapping[str, int]
    source: str = ""


@dataclass(frozen=True)
class Side:
    """One end of a run's traffic.

    links: capacity of each link, bits/s; moved: traffic on each link in its busier direction, bits/s (None if no
    counters were recorded).
    """

    links: tuple[float, ...]
    moved: tuple[float, ...] | None

    @property
    def total(self) -> float:
        return sum(self.links)


@dataclass(frozen=True)
class Links:
    """The known links of a run.

    bits_per_s: their total capacity; of: the side whose links limit the traffic (CLIENTS, FRONT_ENDS or BOTH).
    """

    clients: Side | None
    front_ends: Side | None
    bits_per_s: float
    of: str

    @property
    def demand(self) -> float | None:
        """The capacity of the clients' links over that of the front-ends' links; None if one of them is not known."""
        return self.clients.total / self.front_ends.total if self.clients and self.front_ends else None

    @property
    def unknown(self) -> str | None:
        """The side whose links are not known; None if both are known."""
        return CLIENTS if self.clients is None else FRONT_ENDS if self.front_ends is None else None


def path(folder: Path) -> Path:
    """Return the path of `links.yaml` of a campaign, next to its records."""
    return (folder / "raw").resolve().parent / FILE


def declared(folder: Path) -> Declared | None:
    """Read `links.yaml`. Returns None if the file does not exist. Raises UserError if its content is wrong."""
    file = path(folder)
    if not file.exists():
        return None
    data = yaml_text.read(file)
    example = "clients: 200 Mbit/s and stores: {NAME: 300 Mbit/s}"
    if not isinstance(data, dict) or not isinstance(data.get("stores") or {}, dict):
        raise UserError(str(file), "is not a mapping of links", f"write for example {example}")
    if odd := next((k for k in data if k not in KEYS), None):
        raise UserError(str(file), f"key {odd!r} is not known", f"use {', '.join(KEYS)}")
    rates = {f"stores.{name}": value for name, value in (data.get("stores") or {}).items()}
    rates |= {"clients": data["clients"]} if data.get("clients") is not None else {}
    bits = {key: 8 * units.parse(value, "rate", f"{file}: {key}") for key, value in rates.items()}
    if zero := next((key for key, value in bits.items() if not value), None):
        raise UserError(f"{file}: {zero}", "is 0", "write the speed of the link, or remove the key if it is not known")
    stores = {key.removeprefix("stores."): value for key, value in bits.items() if key != "clients"}
    return Declared(bits.get("clients"), stores, str(data.get("source") or ""))


def complete(runs: Iterable[dict[str, Any]], known: Declared) -> None:
    """Add the declared speeds to the records whose links have none."""
    for run in runs:
        hosts = [node.get("watched") or {} for node in run.get("nodes") or ()]
        for host in (run.get("host") or {}, *hosts):
            interface = _busiest(host)
            if known.clients and interface and not interface.get("link_bits_per_s"):
                interface["link_bits_per_s"] = known.clients
        deployment, bits = run["store"].setdefault("deployment", {}), known.stores.get(store_of(run))
        if bits and not deployment.get("link_bits_per_s"):
            number = max(
                len(set(endpoints(run))), run["point"]["axes"].get("front_ends") or deployment.get("front_ends") or 1
            )
            deployment["link_bits_per_s"] = [bits] * number


def _busiest(host: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the interface of a host that moved most bytes in one direction. Loopback is ignored."""
    interfaces = {
        n: c for n, c in (host.get("network") or {}).items() if n != "lo" and not n.startswith(STORELAB_PREFIX)
    }
    return max(interfaces.values(), key=_moved, default=None)


def _moved(counters: Mapping[str, Any]) -> int:
    return max(counters["rx_bytes"], counters["tx_bytes"])


def store_of(run: Mapping[str, Any]) -> str:
    """Return the name of the store without its deployment. All deployments use the links of the same front-ends."""
    return str(run["point"]["store"]).partition("+")[0]


def endpoints(run: Mapping[str, Any]) -> list[str]:
    """Return for each client, in the order of their numbers, the URL of the front-end it was assigned to."""
    return [c.get("endpoint") or "" for c in sorted(run["clients"], key=lambda c: c["client"])]


def uses_one_front_end(run: Mapping[str, Any]) -> bool:
    """Return True if each client uses one front-end."""
    return bool(run["point"]["axes"].get("balance", ALONE) == ALONE)


def nodes_of(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the nodes of the clients, each with `ranks` and `watched`.

    If no nodes were recorded, all clients ran on the coordinator's host, which is returned as the only node.
    """
    return run.get("nodes") or [{"ranks": [c["client"] for c in run["clients"]], "watched": run.get("host")}]


def over_link(run: Mapping[str, Any]) -> bool:
    """Return True if the counters of the clients' nodes (or host) show that their traffic went over a link.

    Traffic within a host or a network namespace goes over loopback instead.
    """
    for node in nodes_of(run):
        counters = (node.get("watched") or {}).get("network") or {}
        most = {name: _moved(c) for name, c in counters.items()}
        loopback = most.pop("lo", 0)
        moved = sum(c.get("bytes") or 0 for c in run["clients"] if c["client"] in node["ranks"])
        if not sum(most.values()) > max(loopback, moved / 2):
            return False
    return True


def front_end_counters(run: Mapping[str, Any], number: int) -> list[tuple[float, float]] | None:
    """Return (received, sent) in bytes/s of each front-end, or None if not all have a separate interface."""
    host = run.get("coordinator") or run.get("host") or {}
    links = [(host.get("network") or {}).get(FRONT_END_LINK.format(i + 1)) for i in range(number)]
    seconds = host.get("seconds")
    if not seconds or None in links:
        return None
    return [(link["rx_bytes"] / seconds, link["tx_bytes"] / seconds) for link in links if link]


def links_of_run(run: Mapping[str, Any], ignored: Sequence[str] = ()) -> Links | None:
    """Return the links of a run, or None if no link is known or no traffic went over a link.

    ignored: sides (CLIENTS, FRONT_ENDS) that are treated as unknown.
    """
    if not over_link(run):
        return None
    clients = None if CLIENTS in ignored else _clients_side(run)
    front_ends = None if FRONT_ENDS in ignored else _front_ends_side(run)
    if clients is None or front_ends is None:
        side, of = (clients, CLIENTS) if clients else (front_ends, FRONT_ENDS)
        return Links(clients, front_ends, side.total, of) if side else None
    total = min(clients.total, front_ends.total)
    if uses_one_front_end(run):  # each front-end limits only the clients that were assigned to it
        total = sum(map(min, _client_capacity(run, clients, len(front_ends.links)), front_ends.links))
    limits = [of for of, side in ((CLIENTS, clients), (FRONT_ENDS, front_ends)) if side.total == total]
    return Links(clients, front_ends, total, limits[0] if len(limits) == 1 else BOTH)


def _clients_side(run: Mapping[str, Any]) -> Side | None:
    """Return the links of the clients' nodes, or None if the speed of one of them is not known."""
    hosts = [node.get("watched") or {} for node in nodes_of(run)]
    found = [_busiest(host) for host in hosts]
    links = tuple(float(nic["link_bits_per_s"]) for nic in found if nic and nic.get("link_bits_per_s"))
    if len(links) != len(hosts):
        return None
    seconds = [host.get("seconds") or (run["deadline_ns"] - run["start_ns"]) / 1e9 for host in hosts]
    return Side(links, tuple(8 * _moved(nic) / s for nic, s in zip(found, seconds, strict=True) if nic))


def _front_ends_side(run: Mapping[str, Any]) -> Side | None:
    """Return the links of the front-ends that clients used, or None if the speed of one of them is not known."""
    known = (run["store"].get("deployment") or {}).get("link_bits_per_s") or ()
    used = len(set(endpoints(run))) if uses_one_front_end(run) else run["point"]["axes"].get("front_ends") or 1
    if len(known) < used or None in known[:used]:
        return None
    counted = front_end_counters(run, used)
    moved = tuple(8 * max(both) for both in counted) if counted else None
    return Side(tuple(map(float, known[:used])), moved)


def _client_capacity(run: Mapping[str, Any], clients: Side, number: int) -> list[float]:
    """Return for each front-end the capacity of the links of its clients, bits/s. Clients of a node share its link."""
    urls, out = endpoints(run), [0.0] * number
    order, ranks = list(dict.fromkeys(urls)), sorted(c["client"] for c in run["clients"])
    for node, link in zip(nodes_of(run), clients.links, strict=True):
        for rank in node["ranks"]:
            out[order.index(urls[ranks.index(rank)])] += link / len(node["ranks"])
    return out


def in_words(links: Iterable[float]) -> str:
    """Return capacities (bits/s) as text, such as `2 × 300 Mbit/s` or `1 Gbit/s + 2 × 100 Mbit/s`."""
    counted = sorted(Counter(links).items(), reverse=True)
    return " + ".join(f"{n} × {rate(bits)}" if n > 1 else rate(bits) for bits, n in counted)


def rate(bits_per_s: float) -> str:
    """Return a rate as text with up to four digits, such as `300 Mbit/s` or `2.5 Gbit/s`."""
    factor, unit = next(
        ((f, u) for f, u in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if bits_per_s >= f), (1, "")
    )
    return f"{bits_per_s / factor:.4g} {unit}bit/s"

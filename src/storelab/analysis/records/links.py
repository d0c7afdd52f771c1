"""Capacity of the links between the clients and a store, from the records or declared next to them.

Records contain the speed of each interface of the clients' hosts (`link_bits_per_s`), and in `store.deployment` that of
the link of each front-end. Where they are unknown, `links.yaml` in the campaign's folder can declare them, even for a
sealed campaign. See docs/records.md.
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
STORELAB_PREFIX = (
    "sl-"  # links that storelab makes for servers of this host; the 10 Gbit/s that the kernel reports are meaningless
)
ALONE = "client"  # value of the axis `balance`: each client uses one front-end


@dataclass(frozen=True)
class Declared:
    """The content of `links.yaml`, in bits/s.

    clients: the link of each client's node; stores: store -> the link of each of its front-ends; source: how they are
    known.
    """

    clients: int | None
    stores: Mapping[str, int]
    source: str = ""


@dataclass(frozen=True)
class Side:
    """One end of a run's traffic.

    links: capacity of each link, bits/s; moved: traffic on each link in its busier direction, bits/s (None where there
    are not any counters).
    """

    links: tuple[float, ...]
    moved: tuple[float, ...] | None

    @property
    def total(self) -> float:
        return sum(self.links)


@dataclass(frozen=True)
class Links:
    """The known links of a run. bits_per_s: their total capacity; of: the side whose links are the limit."""

    clients: Side | None
    front_ends: Side | None
    bits_per_s: float
    of: str

    @property
    def unknown(self) -> str | None:
        """The side whose links are not known."""
        return CLIENTS if self.clients is None else FRONT_ENDS if self.front_ends is None else None


def path(folder: Path) -> Path:
    """Return the path of `links.yaml` of a campaign, next to its records."""
    return (folder / "raw").resolve().parent / FILE


def declared(folder: Path) -> Declared | None:
    """Read `links.yaml`; None without one. Raises UserError if its content is wrong."""
    file = path(folder)
    if not file.exists():
        return None
    data = yaml_text.read(file)
    example = "clients: 200 Mbit/s and stores: {NAME: 300 Mbit/s}"
    if not isinstance(data, dict) or not isinstance(data.get("stores") or {}, dict):
        raise UserError(str(file), "is not a mapping of links", f"write {example}")
    if odd := next((k for k in data if k not in KEYS), None):
        raise UserError(str(file), f"key {odd!r} is not known", f"use {', '.join(KEYS)}")
    rates = {f"stores.{name}": value for name, value in (data.get("stores") or {}).items()}
    rates |= {"clients": data["clients"]} if data.get("clients") is not None else {}
    bits = {key: 8 * units.parse(value, "rate", f"{file}: {key}") for key, value in rates.items()}
    if zero := next((key for key, value in bits.items() if not value), None):
        raise UserError(f"{file}: {zero}", "is zero", "remove it if the link is not known")
    stores = {key.removeprefix("stores."): value for key, value in bits.items() if key != "clients"}
    return Declared(bits.get("clients"), stores, str(data.get("source") or ""))


def complete(runs: Iterable[dict[str, Any]], known: Declared) -> None:
    """Add the declared links to records without links."""
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
    """Return the interface of a host, except loopback, that moved most bytes in one direction."""
    interfaces = {
        n: c for n, c in (host.get("network") or {}).items() if n != "lo" and not n.startswith(STORELAB_PREFIX)
    }
    return max(interfaces.values(), key=_moved, default=None)


def _moved(counters: Mapping[str, Any]) -> int:
    return max(counters["rx_bytes"], counters["tx_bytes"])


def store_of(run: Mapping[str, Any]) -> str:
    """Return the configured store without its deployment, because deployments share the links of the front-ends."""
    return str(run["point"]["store"]).partition("+")[0]


def endpoints(run: Mapping[str, Any]) -> list[str]:
    """Return the URL of the front-end that each client was given, in the clients' order."""
    return [c.get("endpoint") or "" for c in sorted(run["clients"], key=lambda c: c["client"])]


def uses_one_front_end(run: Mapping[str, Any]) -> bool:
    """Return True if each client uses one front-end."""
    return bool(run["point"]["axes"].get("balance", ALONE) == ALONE)


def nodes_of(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the nodes of the clients, each with `ranks` and `watched`. Without nodes, it is only this host."""
    return run.get("nodes") or [{"ranks": [c["client"] for c in run["clients"]], "watched": run.get("host")}]


def over_link(run: Mapping[str, Any]) -> bool:
    """Return True if the clients' traffic went over a link, by the counters of their nodes (or host).

    The kernel sends traffic within a host or a network namespace over loopback.
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
    """Return (received, sent) bytes/s of each front-end from its interface; None if not all have a separate one."""
    host = run.get("coordinator") or run.get("host") or {}
    links = [(host.get("network") or {}).get(FRONT_END_LINK.format(i + 1)) for i in range(number)]
    seconds = host.get("seconds")
    if not seconds or None in links:
        return None
    return [(link["rx_bytes"] / seconds, link["tx_bytes"] / seconds) for link in links if link]


def links_of_run(run: Mapping[str, Any], ignored: Sequence[str] = ()) -> Links | None:
    """Return the links of a run; None if none is known, or no traffic went over one. ignored: sides not to use."""
    if not over_link(run):
        return None
    clients = None if CLIENTS in ignored else _clients_side(run)
    front_ends = None if FRONT_ENDS in ignored else _front_ends_side(run)
    if clients is None or front_ends is None:
        side, of = (clients, CLIENTS) if clients else (front_ends, FRONT_ENDS)
        return Links(clients, front_ends, side.total, of) if side else None
    total = min(clients.total, front_ends.total)
    if uses_one_front_end(run):  # each front-end limits only the clients that were given it
        total = sum(map(min, _client_capacity(run, clients, len(front_ends.links)), front_ends.links))
    limits = [of for of, side in ((CLIENTS, clients), (FRONT_ENDS, front_ends)) if side.total == total]
    return Links(clients, front_ends, total, limits[0] if len(limits) == 1 else BOTH)


def _clients_side(run: Mapping[str, Any]) -> Side | None:
    """Return the link of each node of the clients."""
    hosts = [node.get("watched") or {} for node in nodes_of(run)]
    found = [_busiest(host) for host in hosts]
    links = tuple(float(nic["link_bits_per_s"]) for nic in found if nic and nic.get("link_bits_per_s"))
    if len(links) != len(hosts):
        return None
    seconds = [host.get("seconds") or (run["deadline_ns"] - run["start_ns"]) / 1e9 for host in hosts]
    return Side(links, tuple(8 * _moved(nic) / s for nic, s in zip(found, seconds, strict=True) if nic))


def _front_ends_side(run: Mapping[str, Any]) -> Side | None:
    """Return the link of each front-end that clients used."""
    known = (run["store"].get("deployment") or {}).get("link_bits_per_s") or ()
    used = len(set(endpoints(run))) if uses_one_front_end(run) else run["point"]["axes"].get("front_ends") or 1
    if len(known) < used or None in known[:used]:
        return None
    counted = front_end_counters(run, used)
    moved = tuple(8 * max(both) for both in counted) if counted else None
    return Side(tuple(map(float, known[:used])), moved)


def _client_capacity(run: Mapping[str, Any], clients: Side, number: int) -> list[float]:
    """Return how much the clients of each front-end can move, bits/s. The clients of a node share its link."""
    urls, out = endpoints(run), [0.0] * number
    order, ranks = list(dict.fromkeys(urls)), sorted(c["client"] for c in run["clients"])
    for node, link in zip(nodes_of(run), clients.links, strict=True):
        for rank in node["ranks"]:
            out[order.index(urls[ranks.index(rank)])] += link / len(node["ranks"])
    return out


def in_words(links: Iterable[float]) -> str:
    """Return `2 × 300 Mbit/s`, or `1 Gbit/s + 2 × 100 Mbit/s`."""
    counted = sorted(Counter(links).items(), reverse=True)
    return " + ".join(f"{n} × {rate(bits)}" if n > 1 else rate(bits) for bits, n in counted)


def rate(bits_per_s: float) -> str:
    """Return `300 Mbit/s` or `2.5 Gbit/s`, with up to four digits."""
    factor, unit = next(
        ((f, u) for f, u in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if bits_per_s >= f), (1, "")
    )
    return f"{bits_per_s / factor:.4g} {unit}bit/s"

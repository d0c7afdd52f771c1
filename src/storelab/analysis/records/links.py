"""Capacity of the links between the clients and a store, from the records or declared next to them.

Records have the speed of each interface of the clients' hosts (`link_bits_per_s`), and in `store.deployment` that of
the link of each front-end. Where both are unknown, `links.yaml` in the campaign's folder declares them, also for a
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
OWN = "sl-"  # links that storelab makes for servers of this host: the kernel gives them 10 Gbit/s, which means nothing
ALONE = "client"  # the axis `balance`: each client has one front-end


@dataclass(frozen=True)
class Declared:
    """What `links.yaml` declares, in bits/s. clients: link of the node of each client; stores: of each front-end;
    source: how this is known."""

    clients: int | None
    stores: Mapping[str, int]
    source: str = ""


@dataclass(frozen=True)
class Side:
    """One end of a run's traffic. links: bits/s of each link; moved: bits/s on each in its busier direction, None
    where no counter is known."""

    links: tuple[float, ...]
    moved: tuple[float, ...] | None

    @property
    def total(self) -> float:
        return sum(self.links)


@dataclass(frozen=True)
class Links:
    """The known links of a run. bits_per_s: the most that can pass them; of: whose links are the limit."""

    clients: Side | None
    front_ends: Side | None
    bits_per_s: float
    of: str

    @property
    def unknown(self) -> str | None:
        """Whose links are not known."""
        return CLIENTS if self.clients is None else FRONT_ENDS if self.front_ends is None else None


def path(folder: Path) -> Path:
    """`links.yaml` of a campaign, next to its records."""
    return (folder / "raw").resolve().parent / FILE


def declared(folder: Path) -> Declared | None:
    """Read `links.yaml`; None without one. Raises UserError where it holds something else."""
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
        raise UserError(f"{file}: {zero}", "is zero", "leave out a link that is not known")
    stores = {key.removeprefix("stores."): value for key, value in bits.items() if key != "clients"}
    return Declared(bits.get("clients"), stores, str(data.get("source") or ""))


def complete(runs: Iterable[dict[str, Any]], known: Declared) -> None:
    """Add the declared links to records that have none."""
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
    """The interface of a host that moved most in one direction, without loopback."""
    own = {n: c for n, c in (host.get("network") or {}).items() if n != "lo" and not n.startswith(OWN)}
    return max(own.values(), key=_moved, default=None)


def _moved(counters: Mapping[str, Any]) -> int:
    return max(counters["rx_bytes"], counters["tx_bytes"])


def store_of(run: Mapping[str, Any]) -> str:
    """The store as it is configured: its deployments share its front-ends' links."""
    return str(run["point"]["store"]).partition("+")[0]


def endpoints(run: Mapping[str, Any]) -> list[str]:
    """The front-end that each client was given, by its URL, in the clients' order."""
    return [c.get("endpoint") or "" for c in sorted(run["clients"], key=lambda c: c["client"])]


def is_alone(run: Mapping[str, Any]) -> bool:
    """Return True if each client uses one front-end."""
    return bool(run["point"]["axes"].get("balance", ALONE) == ALONE)


def nodes_of(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The nodes of the clients, each with `ranks` and `watched`; without nodes, this host is the only one."""
    return run.get("nodes") or [{"ranks": [c["client"] for c in run["clients"]], "watched": run.get("host")}]


def over_link(run: Mapping[str, Any]) -> bool:
    """Return True if what the clients moved went over a link, by the counters of their nodes (of their host): the
    kernel sends what stays on a host, or in a network namespace, over loopback."""
    for node in nodes_of(run):
        counters = (node.get("watched") or {}).get("network") or {}
        most = {name: _moved(c) for name, c in counters.items()}
        loopback = most.pop("lo", 0)
        moved = sum(c.get("bytes") or 0 for c in run["clients"] if c["client"] in node["ranks"])
        if not sum(most.values()) > max(loopback, moved / 2):
            return False
    return True


def front_end_counters(run: Mapping[str, Any], number: int) -> list[tuple[float, float]] | None:
    """(received, sent) bytes/s of each front-end, from its own interface; None where not all have one."""
    host = run.get("coordinator") or run.get("host") or {}
    links = [(host.get("network") or {}).get(FRONT_END_LINK.format(i + 1)) for i in range(number)]
    seconds = host.get("seconds")
    if not seconds or None in links:
        return None
    return [(link["rx_bytes"] / seconds, link["tx_bytes"] / seconds) for link in links if link]


def of_run(run: Mapping[str, Any], ignored: Sequence[str] = ()) -> Links | None:
    """Return the links of a run; None where none is known, or nothing went over one. ignored: sides not to use."""
    if not over_link(run):
        return None
    clients = None if CLIENTS in ignored else _of_clients(run)
    front_ends = None if FRONT_ENDS in ignored else _of_front_ends(run)
    if clients is None or front_ends is None:
        side, of = (clients, CLIENTS) if clients else (front_ends, FRONT_ENDS)
        return Links(clients, front_ends, side.total, of) if side else None
    total = min(clients.total, front_ends.total)
    if is_alone(run):  # what each front-end can carry of the clients that were given it
        total = sum(map(min, _given(run, clients, len(front_ends.links)), front_ends.links))
    limits = [of for of, side in ((CLIENTS, clients), (FRONT_ENDS, front_ends)) if side.total == total]
    return Links(clients, front_ends, total, limits[0] if len(limits) == 1 else BOTH)


def _of_clients(run: Mapping[str, Any]) -> Side | None:
    """The link of each node of the clients."""
    hosts = [node.get("watched") or {} for node in nodes_of(run)]
    found = [_busiest(host) for host in hosts]
    links = tuple(float(nic["link_bits_per_s"]) for nic in found if nic and nic.get("link_bits_per_s"))
    if len(links) != len(hosts):
        return None
    seconds = [host.get("seconds") or (run["deadline_ns"] - run["start_ns"]) / 1e9 for host in hosts]
    return Side(links, tuple(8 * _moved(nic) / s for nic, s in zip(found, seconds, strict=True) if nic))


def _of_front_ends(run: Mapping[str, Any]) -> Side | None:
    """The link of each front-end that clients used."""
    known = (run["store"].get("deployment") or {}).get("link_bits_per_s") or ()
    used = len(set(endpoints(run))) if is_alone(run) else run["point"]["axes"].get("front_ends") or 1
    if len(known) < used or None in known[:used]:
        return None
    counted = front_end_counters(run, used)
    moved = tuple(8 * max(both) for both in counted) if counted else None
    return Side(tuple(map(float, known[:used])), moved)


def _given(run: Mapping[str, Any], clients: Side, number: int) -> list[float]:
    """What the clients of each front-end can move, bits/s: the clients of a node share its link."""
    urls, out = endpoints(run), [0.0] * number
    order, ranks = list(dict.fromkeys(urls)), sorted(c["client"] for c in run["clients"])
    for node, link in zip(nodes_of(run), clients.links, strict=True):
        for rank in node["ranks"]:
            out[order.index(urls[ranks.index(rank)])] += link / len(node["ranks"])
    return out


def in_words(links: Iterable[float]) -> str:
    """`2 × 300 Mbit/s`, or `1 Gbit/s + 2 × 100 Mbit/s`."""
    counted = sorted(Counter(links).items(), reverse=True)
    return " + ".join(f"{n} × {rate(bits)}" if n > 1 else rate(bits) for bits, n in counted)


def rate(bits_per_s: float) -> str:
    """`300 Mbit/s`, three digits at most where that is exact enough: `2.5 Gbit/s`."""
    factor, unit = next(
        ((f, u) for f, u in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if bits_per_s >= f), (1, "")
    )
    return f"{bits_per_s / factor:.4g} {unit}bit/s"

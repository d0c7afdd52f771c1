"""The link of an actor: slowed by tc, cut by taking its interface down, and healed. It needs root.

Only an actor with an interface of its own has one: in a network namespace, or at an address that no other daemon has.
May import: `host`, `core`.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes

HANDLE = "5109:"  # of our queueing discipline
LATENCY, LEAST_BURST = "50ms", 16_384  # of a token bucket
Link = Mapping[str, str]  # device, and the name of its namespace ('' where it is this one)


def require_root(place: str) -> None:
    if os.geteuid() != 0:
        raise UserError(place, "slowing or cutting a link needs root", "run as root, or leave the act out")


def at(address: str, place: str, who: str) -> Link:
    """The link at an address of this network namespace. Raises UserError where it has none of its own."""
    if address.startswith("127.") or address in ("::1", "localhost"):
        raise UserError(
            place,
            f"{who} listens on {address}, which all programs here share: it has no link of its own",
            "give it an address of its own (`front_end_addresses` in a testbed), or leave the act out",
        )
    for link in json.loads(_run("ip", "-j", "addr", "show") or "[]"):
        if any(a.get("local") == address for a in link.get("addr_info", [])):
            return {"device": link["ifname"], "namespace": ""}
    raise UserError(place, f"no interface of this machine has {who}'s address {address}", "leave the act out")


def require_slow(how: Mapping[str, Any], place: str) -> None:
    """Raises UserError where this kernel cannot slow a link so: tried in a network namespace that goes at once."""
    command = ["tc", "qdisc", "add", "dev", "lo", "root", *_discipline(how)]
    done = processes.ask(["unshare", "--net", *command])
    if done.returncode:
        mend = "give `rate` alone, or use a kernel with netem" if "netem" in command else "use another kernel"
        raise UserError(place, f"this kernel slows no link so ({processes.words(done)})", mend)


def _discipline(how: Mapping[str, Any]) -> list[str]:
    """The words for tc: a token bucket where only the rate is bounded."""
    rate = how.get("rate_bytes_per_s")
    bits = [f"{8 * rate}bit"] if rate else []
    if "delay_ns" not in how and "loss_percent" not in how:
        burst = max(LEAST_BURST, (rate or 0) // 250)
        return ["tbf", "rate", *bits, "burst", str(burst), "latency", LATENCY]
    out = ["netem"]
    out += ["delay", f"{max(1, how['delay_ns'] // 1000)}us"] if "delay_ns" in how else []
    out += ["loss", f"{how['loss_percent']:g}%"] if "loss_percent" in how else []
    return out + (["rate", *bits] if bits else [])


def slow(link: Link, how: Mapping[str, Any]) -> None:
    """What leaves by this link is slowed, behind whatever shapes it already."""
    _tc(link, "qdisc", "add", "dev", link["device"], *_place(link), "handle", HANDLE, *_discipline(how))


def _place(link: Link) -> Sequence[str]:
    """Behind the token bucket of a shaped link, else at the root."""
    rows = json.loads(_tc(link, "-j", "qdisc", "show", "dev", link["device"]) or "[]")
    root = next((r for r in rows if r.get("root")), {})
    return ("parent", f"{root['handle']}1") if root.get("kind") == "tbf" else ("root",)


def quick(link: Link) -> None:
    """Undo `slow`; does nothing where it is undone."""
    rows = json.loads(_tc(link, "-j", "qdisc", "show", "dev", link["device"]) or "[]")
    for row in rows:
        if row.get("handle") == HANDLE:
            where = ("root",) if row.get("root") else ("parent", row["parent"])
            _tc(link, "qdisc", "del", "dev", link["device"], *where)


def routes(link: Link) -> list[str]:
    """Routes that go when the interface does, and come not back with it."""
    found = _ip(link, "route", "show", "table", "all", "dev", link["device"]).splitlines()
    return [line.strip() for line in found if "proto kernel" not in line and line.strip()]


def cut(link: Link) -> None:
    _ip(link, "link", "set", link["device"], "down")


def join(link: Link, lost: Sequence[str]) -> None:
    """Undo `cut`. lost: the `routes` that it had."""
    _ip(link, "link", "set", link["device"], "up")
    for route in lost:
        _ip(link, "route", "replace", *route.split(), "dev", link["device"])


def _ip(link: Link, *words: str) -> str:
    return _run("ip", *(["-n", link["namespace"]] if link["namespace"] else []), *words)


def _tc(link: Link, *words: str) -> str:
    return _run("tc", *(["-n", link["namespace"]] if link["namespace"] else []), *words)


def _run(*command: str) -> str:
    done = processes.ask(command)
    if done.returncode:
        raise MeasurementFailed(f"`{' '.join(command)}` failed: {processes.words(done)}")
    return done.stdout

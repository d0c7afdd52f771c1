"""Capacity of this host's network links: the token bucket that shapes an interface, else what its driver reports.

Standard library and `processes` only. What is not known is left out, never an error: a monitor must not end a
measurement.
"""

import json
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from storelab.host import processes

INTERFACES = Path("/sys/class/net")
PLACES = "/usr/sbin:/sbin"  # of `tc` and `ip`, which a user's PATH may leave out
REAL = (
    "device",
    "bonding",
)  # an interface of hardware, or several of them together; veth, bridges and tunnels have none


def speeds() -> dict[str, int]:
    """Interface -> bits/s, of those whose capacity is known."""
    names = [path.name for path in INTERFACES.iterdir()] if INTERFACES.is_dir() else []
    known = {name: speed for name in names if (speed := _of_driver(name))}
    for rule in _asked("tc", "qdisc", "show"):
        with suppress(KeyError, TypeError, ValueError):  # older programs write rates as text
            if rule["kind"] == "tbf" and rule["root"] and rule["dev"] != "lo":
                bits = 8 * int(rule["options"]["rate"])
                known[rule["dev"]] = min(bits, known.get(rule["dev"], bits))
    return known


def of_hosts(hosts: Sequence[str]) -> list[int | None]:
    """Bits/s of the interface that has the address of each host (a name or an address); None for other machines."""
    interfaces = {
        address["local"]: link["ifname"]
        for link in _asked("ip", "addr", "show")
        for address in link.get("addr_info", ())
        if "local" in address
    }
    known = speeds()
    return [known.get(interfaces.get(_address(host), "")) for host in hosts]


def _address(host: str) -> str:
    with suppress(OSError, UnicodeError):
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    return ""


def _of_driver(interface: str) -> int | None:
    folder = INTERFACES / interface
    with suppress(OSError, ValueError):
        if any((folder / kind).exists() for kind in REAL) and (speed := int((folder / "speed").read_text())) > 0:
            return speed * 10**6
    return None


def _asked(program: str, *words: str) -> list[Mapping[str, Any]]:
    """Return what `tc` or `ip` lists; nothing where it is missing or fails."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{PLACES}")
    done = processes.ask([path or program, "-j", *words], 5)
    with suppress(ValueError, TypeError):
        return [entry for entry in json.loads(done.stdout) if isinstance(entry, dict)]
    return []

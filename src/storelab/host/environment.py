"""The environment for every record and for the paper's appendix: versions, kernel, CPU, memory, capacity of links.

May import: `core`.
"""

import json
import os
import platform
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from storelab import __version__
from storelab.core.engines import PACKAGES
from storelab.host.processes import ask

INTERFACES = Path("/sys/class/net")
PLACES = "/usr/sbin:/sbin"  # of `tc` and `ip`, which a user's PATH may leave out
# Interfaces of hardware, or several of them together, have one of these files; veth, bridges and tunnels have none.
REAL = ("device", "bonding")


@cache
def packages() -> dict[str, str]:
    """Versions of the packages that take part in a measurement; what is not installed is left out."""
    out = {}
    for name in PACKAGES:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return out


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def git_commit() -> str:
    """Commit of the checkout that the package runs from, `-dirty` when it differs; '' outside of a checkout: the
    environment of a wheel may lie in a repository of something else."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return ""
    describe = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    # The checkout may be of another user, which git refuses otherwise. A program that it names is not started.
    own = ["-c", f"safe.directory={root}", "-c", "core.fsmonitor=false"]
    done = ask(["git", *own, "-C", root, *describe], 10)
    return "" if done.returncode else done.stdout.strip()


def capture() -> dict[str, Any]:
    """Versions, kernel, CPU, memory. No host name, user or path: those stay out of published records."""
    return {
        "storelab": __version__,
        "git_commit": git_commit(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "platform": _distribution(),
        "cpu_model": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "packages": packages(),
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform()


def link_speeds() -> dict[str, int]:
    """Return interface -> bits/s: its token bucket, else what its driver reports.

    What is not known is left out, never an error: a monitor must not end a measurement.
    """
    names = [path.name for path in INTERFACES.iterdir()] if INTERFACES.is_dir() else []
    known = {name: speed for name in names if (speed := _of_driver(name))}
    for rule in _asked("tc", "qdisc", "show"):
        with suppress(KeyError, TypeError, ValueError):  # older programs write rates as text
            if rule["kind"] == "tbf" and rule["root"] and rule["dev"] != "lo":
                bits = 8 * int(rule["options"]["rate"])
                known[rule["dev"]] = min(bits, known.get(rule["dev"], bits))
    return known


def link_speeds_of(hosts: Sequence[str]) -> list[int | None]:
    """Bits/s of the interface that has the address of each host (a name or an address); None for other machines."""
    interfaces = {
        address["local"]: link["ifname"]
        for link in _asked("ip", "addr", "show")
        for address in link.get("addr_info", ())
        if "local" in address
    }
    known = link_speeds()
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
    done = ask([path or program, "-j", *words], 5)
    with suppress(ValueError, TypeError):
        return [entry for entry in json.loads(done.stdout) if isinstance(entry, dict)]
    return []

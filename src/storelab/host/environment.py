"""Describe the environment for records and for the paper's appendix: versions, kernel, CPU, memory, and links."""

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
from storelab.host.processes import run_command

INTERFACES = Path("/sys/class/net")
PLACES = "/usr/sbin:/sbin"  # folders of `tc` and `ip`, which may be missing in a user's PATH
# Hardware interfaces and bonds of them have one of these files; veth, bridges and tunnels do not.
REAL = ("device", "bonding")


@cache
def packages() -> dict[str, str]:
    """Return the versions of the installed packages that affect a measurement."""
    out = {}
    for name in PACKAGES:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return out


def cpu_model() -> str:
    """Return the model name of the CPU."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def git_commit() -> str:
    """Return the commit of the checkout that the package runs from, with `-dirty` if it was changed.

    Return '' outside of a checkout. Folders further up are not searched, because they may be another repository.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return ""
    describe = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    # git refuses a checkout of another user without safe.directory. fsmonitor could start a program of that user.
    options = ["-c", f"safe.directory={root}", "-c", "core.fsmonitor=false"]
    done = run_command(["git", *options, "-C", root, *describe], 10)
    return "" if done.returncode else done.stdout.strip()


def capture() -> dict[str, Any]:
    """Return versions, kernel, CPU and memory, but no host name, user or path, because records are published."""
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
    """Return interface -> bits/s: from its token bucket, otherwise from its driver.

    Unknown values are omitted and never an error, because a monitor must not end a measurement.
    """
    names = [path.name for path in INTERFACES.iterdir()] if INTERFACES.is_dir() else []
    known = {name: speed for name in names if (speed := _driver_speed(name))}
    for rule in _listed("tc", "qdisc", "show"):
        with suppress(KeyError, TypeError, ValueError):  # older programs write rates as text
            if rule["kind"] == "tbf" and rule["root"] and rule["dev"] != "lo":
                bits = 8 * int(rule["options"]["rate"])
                known[rule["dev"]] = min(bits, known.get(rule["dev"], bits))
    return known


def link_speeds_of(hosts: Sequence[str]) -> list[int | None]:
    """Return the bits/s of the interface with the address of each host, or None if it is another host's address."""
    interfaces = {
        address["local"]: link["ifname"]
        for link in _listed("ip", "addr", "show")
        for address in link.get("addr_info", ())
        if "local" in address
    }
    known = link_speeds()
    return [known.get(interfaces.get(_address(host), "")) for host in hosts]


def _address(host: str) -> str:
    with suppress(OSError, UnicodeError):
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    return ""


def _driver_speed(interface: str) -> int | None:
    folder = INTERFACES / interface
    with suppress(OSError, ValueError):
        if any((folder / kind).exists() for kind in REAL) and (speed := int((folder / "speed").read_text())) > 0:
            return speed * 10**6
    return None


def _listed(program: str, *words: str) -> list[Mapping[str, Any]]:
    """Return the output of `tc` or `ip`, or [] if the program is missing or fails."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{PLACES}")
    done = run_command([path or program, "-j", *words], 5)
    with suppress(ValueError, TypeError):
        return [entry for entry in json.loads(done.stdout) if isinstance(entry, dict)]
    return []

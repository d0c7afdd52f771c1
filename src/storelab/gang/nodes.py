"""What a node says of itself, and what the record of a point says of its nodes. May import: `core`, `host`."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from storelab import __version__
from storelab.core.records import RunRecord
from storelab.engines.contract import ClientResult
from storelab.gang.launchers.base import Launcher
from storelab.host import environment

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def host_name() -> str:
    """The name by which the batch system knows this node: several nodes of Slurm may be on one machine."""
    return os.environ.get("SLURMD_NODENAME") or platform.node()


def versions() -> dict[str, Any]:
    """This host's versions of what takes part in a measurement."""
    return {"storelab": __version__, "python": platform.python_version(), "packages": environment.packages()}


def other_versions(about: dict[str, Any]) -> dict[str, str]:
    """How the versions that a node reports differ from this host's: what differs -> in words."""
    out = {}
    for what, here in versions().items():
        there, name = about.get(what), what
        if what == "packages" and there and there != here:
            name = next(n for n in sorted(here.keys() | there.keys()) if here.get(n) != there.get(n))
            there, here = there.get(name), here.get(name)
        if there != here:
            out[what] = f"{name} {there}, here {here}"
    return out


def add_to(run: RunRecord, launcher: Launcher, results: Sequence[ClientResult], watched: dict[str, Any]) -> None:
    """Add host, clock and monitor of each node to a record; nothing if the clients ran on this host only.

    `host` becomes all machines together, with this one if it took part. Nodes on one machine (the same boot id: network
    namespaces, several slurmd) count once. watched: by the monitor of this host.
    """
    nodes = [{k: v for k, v in about.items() if k not in ("clients", "pid", "packages")} for about in launcher.about()]
    if not nodes:
        return
    machines = {about.get("boot_id"): about.get("watched") or {} for about in nodes}
    whole = dict(next(iter(machines.values())))
    for name in ("cores", "cpu_busy_s"):
        values = [m.get(name) for m in machines.values()]
        whole[name] = None if None in values else sum(values)
    run.nodes, run.host, run.coordinator = nodes, whole, watched
    run.shared_machine = BOOT_ID.read_text().strip() in machines  # whether a node is the coordinator's machine
    whole["server_cpu_s"] = watched.get("server_cpu_s") if run.shared_machine else None
    whole["client_cpu_s"] = sum(r.cpu_user_s + r.cpu_system_s for r in results)

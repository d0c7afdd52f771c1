"""State of a campaign while it is measured: `work/live.json`.

The measuring process writes the file and viewers read it; neither depends on the other. docs/live.md explains every
key.

Imports nothing of storelab but `records`.
"""

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storelab.core import records

SCHEMA = 1
OFF = "STORELAB_LIVE"  # environment variable: `off` disables the state, also in clients (benchmarks/live.py)
STAGES = ("store", "data", "clients", "measuring", "checks", "ended")
MEASURED, FAILED, INTERRUPTED = "measured", "failed", "interrupted"
# For each second of the point: its end (s since the start), the work done in it, and busy cores.
SECONDS = (
    "at_s",
    "operations_per_s",
    "bytes_per_s",
    "errors_per_s",
    "client_cores",
    "server_cores",
    "host_cores",
)
KEPT = 60  # number of seconds in the state


def path(campaign_dir: Path) -> Path:
    """Return the file with the state of a campaign that is being measured."""
    return campaign_dir / "work" / "live.json"


def write(campaign_dir: Path, state: Mapping[str, Any]) -> None:
    """Write the state atomically but without fsync, because a crash makes it useless anyway."""
    data = json.dumps({"schema": SCHEMA, **state}, allow_nan=False, separators=(",", ":"))
    records.write_atomic(path(campaign_dir), data.encode(), sync=False)


def read(campaign_dir: Path) -> dict[str, Any] | None:
    """Return the state; None if there is none, or if its schema is not known."""
    try:
        state = json.loads(path(campaign_dir).read_bytes())
        return state if isinstance(state, dict) and state["schema"] == SCHEMA else None
    except (OSError, ValueError, KeyError):
        return None


def born(pid: int) -> int | None:
    """Return when a process of this host started, in clock ticks since boot; None if it does not exist or is a zombie.

    Together, pid and start time identify a process uniquely.
    """
    try:
        stat = Path("/proc", str(pid), "stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def process(pid: int) -> dict[str, Any]:
    """Return the identity of a process, for `lives`."""
    return {"host": platform.node(), "pid": pid, "born": born(pid)}


def lives(who: Mapping[str, Any] | None) -> bool | None:
    """Return True if the process is alive; None if it belongs to another host. who: from `process`."""
    if who is None:
        return False
    if who["host"] != platform.node():
        return None
    return who["born"] is not None and born(who["pid"]) == who["born"]

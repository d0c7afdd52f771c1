"""What a campaign says of itself while it is measured: `work/live.json`. Whoever measures writes it, whoever looks on
reads it; neither knows the other. docs/live.md explains every key.

Imports nothing of storelab but `records`.
"""

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storelab.core import records

SCHEMA = 1
OFF = "STORELAB_LIVE"  # environment: `off` writes no state, and no client counts for it (benchmarks/live.py)
STAGES = ("store", "data", "clients", "measuring", "checks", "ended")
MEASURED, FAILED, INTERRUPTED = "measured", "failed", "interrupted"
# Of each second of the point: when it ended (s since the start), what was done in it, cores that were busy.
SECONDS = (
    "at_s",
    "operations_per_s",
    "bytes_per_s",
    "errors_per_s",
    "client_cores",
    "server_cores",
    "host_cores",
)
KEPT = 60  # seconds that the state holds


def path(campaign_dir: Path) -> Path:
    return campaign_dir / "work" / "live.json"


def write(campaign_dir: Path, state: Mapping[str, Any]) -> None:
    """Write the state, whole or not at all; to lose it in a crash is no harm."""
    data = json.dumps({"schema": SCHEMA, **state}, allow_nan=False, separators=(",", ":"))
    records.write_atomic(path(campaign_dir), data.encode(), sync=False)


def read(campaign_dir: Path) -> dict[str, Any] | None:
    """The state; None where nobody wrote one, or none that this storelab knows."""
    try:
        state = json.loads(path(campaign_dir).read_bytes())
        return state if isinstance(state, dict) and state["schema"] == SCHEMA else None
    except (OSError, ValueError, KeyError):
        return None


def born(pid: int) -> int | None:
    """When a process of this host began, in clock ticks since the host did; None where there is none, or a dead one
    that nobody has buried. With the pid it names one process for good."""
    try:
        told = Path("/proc", str(pid), "stat").read_bytes()
    except OSError:
        return None
    fields = told[told.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def process(pid: int) -> dict[str, Any]:
    """Who that is, for `lives`."""
    return {"host": platform.node(), "pid": pid, "born": born(pid)}


def lives(who: Mapping[str, Any] | None) -> bool | None:
    """Whether a process lives, as `process` names it; None where it is of another host."""
    if who is None:
        return False
    if who["host"] != platform.node():
        return None
    return who["born"] is not None and born(who["pid"]) == who["born"]

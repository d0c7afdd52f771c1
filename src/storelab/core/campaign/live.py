"""Write and read the state of a campaign while it is measured, in `work/live.json`.

The measuring process writes the file, and viewers read it; neither depends on the other. docs/live.md explains every
key.
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
# For each second of the point: its end in s since the start, the operations in this second, and the number of busy
# cores.
SECONDS = (
    "at_s",
    "operations_per_s",
    "bytes_per_s",
    "errors_per_s",
    "client_cores",
    "server_cores",
    "host_cores",
)
NUMBER = int | float | None
PROCESS: dict[str, Any] = {"host": str, "pid": int, "born": int | None}  # keys and types of the result of `process`
KINDS: dict[str, Any] = PROCESS | {"run": dict | None, "stage": str, "point": dict, "seconds": dict, "left_s": NUMBER}
KINDS |= {"begun_ns": int, "written_ns": int}
KINDS |= dict.fromkeys(("operations", "errors", "bytes", "client_rss_bytes", "server_rss_bytes"), NUMBER)
KEPT = 60  # number of seconds in the state


def path(campaign_dir: Path) -> Path:
    """Return the path of the file with the state of a campaign that is being measured."""
    return campaign_dir / "work" / "live.json"


def write(campaign_dir: Path, state: Mapping[str, Any]) -> None:
    """Write the state atomically but without fsync, because the state is useless after a crash."""
    data = json.dumps({"schema": SCHEMA, **state}, allow_nan=False, separators=(",", ":"))
    records.write_atomic(path(campaign_dir), data.encode(), sync=False)


def read(campaign_dir: Path) -> dict[str, Any] | None:
    """Return the state, or None if it is missing or damaged or has an unknown format."""
    try:
        state = json.loads(path(campaign_dir).read_bytes(), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError):
        return None
    whole = isinstance(state, dict) and state.get("schema") == SCHEMA and _has(state, KINDS)
    whole = whole and _has(state["point"], dict.fromkeys(("key", "store", "workload"), str))
    whole = whole and _has(state["seconds"], dict.fromkeys(SECONDS, list)) and state["stage"] in STAGES
    whole = whole and (state["run"] is None or _has(state["run"], PROCESS | {"begun_ns": int}))
    return state if whole else None


def _has(data: Mapping[str, Any], kinds: Mapping[str, Any]) -> bool:
    """Return True if the data have all these keys, with values of these types."""
    return all(name in data and isinstance(data[name], kind) for name, kind in kinds.items())


def _no_number(word: str) -> Any:
    raise ValueError(word)


def born(pid: int) -> int | None:
    """Return when a process of this host started, in clock ticks since boot.

    Return None if it does not exist or is a zombie. The pid and the start time identify a process uniquely.
    """
    try:
        stat = Path("/proc", str(pid), "stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def process(pid: int) -> dict[str, Any]:
    """Return the identity of a process, as the argument of `lives`."""
    return {"host": platform.node(), "pid": pid, "born": born(pid)}


def lives(who: Mapping[str, Any] | None) -> bool | None:
    """Return True if the process is alive, or None if it belongs to another host. who: the result of `process`."""
    if who is None:
        return False
    if who["host"] != platform.node():
        return None
    return who["born"] is not None and born(who["pid"]) == who["born"]

"""File rendezvous: all clients meet in a folder that they share, and start at an agreed time. Standard library only.

Files, each written under a temporary name and renamed, so that no half file is ever read:
`ready.<rank>` by every rank; `go` by rank 0: {t0_ns, n} or {abort, missing}; `abort` by the coordinator.
The folder must be new for every attempt: an old `go` would release everybody at once.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab import clock

READY_POLL_S, GO_POLL_S = 0.01, 0.02


class GangAborted(Exception):
    """The gang does not start; the message says who is missing."""


@dataclass(frozen=True)
class Start:
    """t0_ns: the agreed start (UTC ns); saw_in_time: whether this rank knew it before it was due."""

    t0_ns: int
    saw_in_time: bool


def put(path: Path, data: dict[str, Any]) -> None:
    """Write JSON atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(data))
    os.replace(temporary, path)


def present(folder: Path, kind: str) -> set[int]:
    """Ranks with a file `<kind>.<rank>`."""
    return {int(p.name.rpartition(".")[2]) for p in folder.glob(f"{kind}.*") if p.name.rpartition(".")[2].isdigit()}


def join(folder: Path, rank: int, size: int, lead_s: float, timeout_s: float, about: dict[str, Any]) -> Start:
    """Meet and agree. Rank 0 decides: all there -> a start `lead_s` ahead; not by `timeout_s` -> abort, naming who is missing.

    Raises GangAborted.
    """
    put(folder / f"ready.{rank}", {"rank": rank, "time_ns": clock.now_ns(), **about})
    give_up = time.monotonic() + timeout_s
    if rank == 0:
        _lead(folder, size, lead_s, give_up)
    go = folder / "go"
    while True:
        if (folder / "abort").exists():
            raise GangAborted("the coordinator called it off")
        try:
            decision = json.loads(go.read_text())
            break
        except FileNotFoundError:
            pass
        if time.monotonic() > give_up + 5:
            raise GangAborted(f"no start was agreed within {timeout_s:.0f} s: client 0 did not answer")
        time.sleep(GO_POLL_S)
    if "missing" in decision:
        raise GangAborted(missing_text(decision["missing"], size, timeout_s))
    return Start(decision["t0_ns"], clock.now_ns() < decision["t0_ns"])


def _lead(folder: Path, size: int, lead_s: float, give_up: float) -> None:
    while len(ready := present(folder, "ready")) < size:
        if (folder / "abort").exists():
            return
        if time.monotonic() > give_up:
            put(folder / "go", {"missing": sorted(set(range(size)) - ready)})
            return
        time.sleep(READY_POLL_S)
    put(folder / "go", {"t0_ns": clock.now_ns() + int(lead_s * 1e9), "n": size})


def missing_text(ranks: list[int], size: int, timeout_s: float) -> str:
    names = ", ".join(map(str, ranks))
    return f"{len(ranks)} of {size} clients did not come within {timeout_s:.0f} s (missing: client {names})"

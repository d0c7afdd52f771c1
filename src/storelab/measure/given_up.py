"""Points in a row that fail alike: after `give_up_after` of them a run tries no other point of that store, and stops
when no store is left.

A run is Snakemake's: its jobs know it by the environment variable RUN, so that the next run tries all of them again.
May import: `workloads`, `core`.
"""

import json
import os
import re
import signal
from collections.abc import Iterable
from pathlib import Path

import psutil

from storelab.core import records
from storelab.core.config import Config
from storelab.core.model import Point
from storelab.host.console import report

RUN = "STORELAB_RUN"  # `<pid of Snakemake>:<begin in ns>`


def begun_ns() -> int:
    """When this run began; 0 outside of one."""
    return int(os.environ.get(RUN, ":0").partition(":")[2])


def alike(reason: str) -> str:
    """What two reasons have in common that differ in numbers and names of attempts only."""
    return re.sub(r"\b[0-9a-f]{8}\b|\d+(?:\.\d+)?", "#", reason)


def _note(config: Config, store: str) -> Path:
    return config.campaign_dir / "work" / f"in-a-row-{store}.json"


def _in_a_row(config: Config, store: str) -> tuple[int, str]:
    """How many points of the store failed alike just now in this run, and why."""
    try:
        note = json.loads(_note(config, store).read_bytes())
        return (note["count"], note["reason"]) if note["run"] == os.environ.get(RUN) else (0, "")
    except (OSError, ValueError, KeyError, TypeError):
        return 0, ""


def reason(config: Config, store: str) -> str:
    """Why this run tries no further point of the store; '' where it does."""
    count, why = _in_a_row(config, store)
    return why if RUN in os.environ and count >= config.give_up_after else ""


def good(config: Config, store: str) -> None:
    """A point of the store has its record."""
    _note(config, store).unlink(missing_ok=True)


def failed(config: Config, points: Iterable[Point], store: str, why: str) -> None:
    """A point failed. The last one that is tried names the reason and says how to go on."""
    count, before = _in_a_row(config, store)
    count = count + 1 if alike(before) == alike(why) else 1
    records.write_json(_note(config, store), {"run": os.environ.get(RUN), "count": count, "reason": why})
    if RUN not in os.environ or count != config.give_up_after:
        return
    told = f"    {store}: {count} points in a row failed alike (`give_up_after`): {why}"
    if all(reason(config, name) for name in {p.store for p in points}):
        report(
            f"{told}\n    the campaign stops; mend this and run the same command again: it goes on with what is missing"
        )
        _stop()
    else:
        report(f"{told}\n    its other points are not tried in this run; mend this and run the same command again")


def _stop() -> None:
    """Snakemake ends when the jobs that run have ended. Only a Snakemake that this process descends from is meant."""
    pid = int(os.environ[RUN].partition(":")[0])
    for process in psutil.Process().parents():
        if process.pid == pid and "snakemake" in " ".join(process.cmdline()):
            process.send_signal(signal.SIGTERM)


def leave(config: Config, point: Point, why: str) -> None:
    """`failed.json` of a point that is not tried; a record stays as it is."""
    folder = config.raw / point.key
    if not (folder / "run.json").exists() and not records.sealed(config.raw):
        records.fail(folder, point, f"not tried: {why}")

"""Lines about a campaign that runs: which point of how many, and how long still."""

import json
import statistics
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from storelab import workloads
from storelab.core import units
from storelab.core.config import Config
from storelab.core.model import Point, said
from storelab.core.plan import series
from storelab.host.monitor import BEAT_NS
from storelab.measure import given_up
from storelab.workloads.staging import stage

MOST_OVERHEAD_S = 86400.0  # a day: more is a damaged line


class Place(NamedTuple):
    """Where a campaign is: the number of the point that is tried, of all; what it measures; seconds still, its own
    among them."""

    number: int
    points: int
    what: str
    left_s: float


def place(config: Config, points: list[Point], chosen: Point) -> Place:
    todo = [p.key for p in points if p == chosen or not _tried(config, p)]  # what failed in this run is tried
    seconds = {p.key: p.fixed["duration_ns"] / 1e9 for p in points}
    left = sum(seconds[k] for k in todo) + len(todo) * _typical_overhead(config)
    what = " ".join([*said(chosen, workloads.of(chosen)), f"rep={chosen.rep:03d}"])
    if number := series.part(chosen):
        what += f", part {number} of {len(series.of(points, chosen))}"
    return Place(len(points) - len(todo) + 1, len(points), what, left)


def announce(at: Place, chosen: Point) -> None:
    """Which point of how many, what it measures now, how long still."""
    stage.report(
        f"[{at.number}/{at.points}] {chosen.store} {chosen.workload} {at.what}: "
        f"{units.human_duration(chosen.fixed['duration_ns'])}, "
        f"campaign about {units.human_duration(at.left_s * 1e9)} still"
    )


def beat(duration_ns: int, elapsed_ns: int, seen: Mapping[str, tuple[int, int | None]]) -> None:
    """Once a minute of a long point: how far it is, memory and open files of its clients and of the store."""
    told = [f"    {units.human_duration(elapsed_ns // BEAT_NS * BEAT_NS)} of {units.human_duration(duration_ns)}"]
    for who, (rss, files) in seen.items():
        opened = "" if files is None else f", {files} files"
        told.append(f"{who}s {units.human_size(rss)}{opened}")
    stage.report("; ".join(told))


def _tried(config: Config, point: Point) -> bool:
    """Whether it has a record, or failed since this run began."""
    folder = config.raw / point.key
    try:
        return (folder / "run.json").exists() or (folder / "failed.json").stat().st_mtime_ns >= given_up.begun_ns()
    except OSError:
        return False


def _overheads(config: Config) -> Path:
    return config.campaign_dir / "work" / "overhead.jsonl"


def _typical_overhead(config: Config) -> float:
    """Median seconds that the last points took beside their windows; 2 s before the first. A line that a kill cut off,
    or that is damaged otherwise, is passed over: this is an estimate."""
    try:
        lines = [line for line in _overheads(config).read_bytes().splitlines() if line.strip()]
    except OSError:
        return 2.0
    known = []
    for line in lines[-50:]:
        with suppress(ValueError, KeyError, TypeError, OverflowError):
            known.append(float(json.loads(line)["overhead_s"]))
    believed = [seconds for seconds in known if 0 <= seconds < MOST_OVERHEAD_S]
    return statistics.median(believed) if believed else 2.0


def note_overhead(config: Config, chosen: Point, wall_s: float) -> None:
    overhead = max(0.0, round(wall_s - chosen.fixed["duration_ns"] / 1e9, 3))  # a probe ends before its deadline
    _overheads(config).parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"key": chosen.key, "overhead_s": overhead})
    with open(_overheads(config), "a") as f:
        f.write(f"\n{line}\n")  # on a line of its own, whatever a kill cut off before

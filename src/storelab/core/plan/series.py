"""Sweeps in parts: each point of the sweep is measured `parts` times, one part after the other: a series. Pure.

The parts differ in the axis `part` alone. They stay together and ascend in the order of the plan; each is a point with
a record of its own, so that what was interrupted goes on with the part that is missing.

A workload that has the axis among its own keeps what it left in the store from part to part: nothing is removed before
the last one, and the job tells the attempts of earlier parts (`earlier`). Other workloads are only given the axis.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from storelab.core.axes.roles import PART
from storelab.core.campaign import Role, Sweep
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.core.model import Point, Workload


def declared(config: Config, workloads: Mapping[str, Workload]) -> dict[str, Workload]:
    """The workloads of sweeps in parts, with the axis."""
    names = {sweep.workload for sweep in config.sweeps.values() if sweep.parts} & workloads.keys()
    return {name: with_part(workloads[name]) for name in names}


def with_part(workload: Workload) -> Workload:
    return workload if keeps(workload) else replace(workload, axes=(*workload.axes, PART))


def keeps(workload: Workload) -> bool:
    """Whether the axis is among the workload's own."""
    return any(axis.name == PART.name for axis in workload.axes)


def numbers(place: str, sweep: Sweep | Role) -> list[int]:
    """The values of the axis in a sweep. Raises UserError where the sweep names them itself."""
    if PART.name in sweep.axes:
        raise UserError(f"{place}.axes.{PART.name}", "parts are numbered by themselves", f"write {place}.parts: 24")
    parts = sweep.parts if isinstance(sweep, Sweep) else None
    return [*range(1, parts + 1)] if parts else [PART.default]


def part(point: Point) -> int:
    """The number of a point's part; 0 where it is none."""
    return int(point.axes.get(PART.name, PART.default))


def of(points: Iterable[Point], point: Point) -> list[Point]:
    """The points of the plan that differ from this one in the part alone, itself too, in their order."""
    return sorted((p for p in points if _same(p) == _same(point)), key=part)


def together(points: Sequence[Point]) -> list[list[Point]]:
    """These points, those of a series as one, ascending; series and others stay in the order of the first of them."""
    found: dict[Any, list[Point]] = {}
    for point in points:
        found.setdefault(_same(point), []).append(point)
    return [sorted(series, key=part) for series in found.values()]


def _same(point: Point) -> tuple[Any, ...]:
    """What a series' points have in common: all but the part. A point that is in no series has its key alone."""
    if PART.name not in point.axes:
        return (point.key,)
    others = tuple((name, value) for name, value in point.axes.items() if name != PART.name)
    return (point.store, point.workload, point.rep, others)

"""Make the plan: the list of points, from the configuration.

A block is one repetition of one deployment (a store with its redundancy, data servers, backing, scheme). The seed of
the campaign shuffles the blocks, and the points in each block. Slow changes of a host therefore affect all points
equally. The parts of a series stay together, in ascending order. Calibration points come first and last.

`sweeps` expands one sweep, and `roles` handles several workloads at the same time. This module has no I/O and reads no
clock.
"""

import itertools
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from storelab.core import axes as declared
from storelab.core import calibration, figures, units
from storelab.core.campaign import Sweep, claims
from storelab.core.config import Config
from storelab.core.errors import UserError, require_known, shown
from storelab.core.model import PREFIX, Plan, Point, Workload, derive_seed, point_key
from storelab.core.plan import roles, sweeps
from storelab.core.plan.sweeps import MAX_POINTS, buckets_filled, scaled, staged_for, sweep_axes

MIN_BINS = 10  # minimum number of bins of a run after its warm-up
# maximum number of characters of the name of a point's folder: the limit is 255 bytes, and `.done` is appended
MAX_FOLDER = 240
ROLE_KEYS = ("workload", "begin_ns", "end_ns")  # keys that plan.json has for each role of a sweep
CAMPAIGN = ("name", "title", "authors", "repetitions", "seed", "scale", "failure_budget")


def every(config: Config, workloads: Mapping[str, Workload]) -> dict[str, Workload]:
    """Return all workloads, including those with the axis `part` and those of sweeps with roles.

    Raises UserError if a role is wrong.
    """
    return {**workloads, **sweeps.declared(config, workloads), **roles.declared(config, workloads)}


def make(config: Config, workloads: Mapping[str, Workload]) -> list[Point]:
    """Return all points in the order of measuring.

    Raises UserError if a sweep is wrong, or if two sweeps define the same point differently.
    """
    with roles.placed(config):
        return _made(config, workloads)


def _made(config: Config, workloads: Mapping[str, Workload]) -> list[Point]:
    points: dict[str, Point] = {}
    requested, known = 0, every(config, workloads)
    used = {workload_of(name, sweep) for name, sweep in config.sweeps.items()}
    figures.resolved(config.figures, [w for n, w in known.items() if n in used])
    _claims(config, [w for n, w in known.items() if n in used])
    for name, sweep in config.sweeps.items():
        place, workload_name, several = f"sweeps.{name}", workload_of(name, sweep), None
        if not sweep.roles:
            require_known(
                f"{place}.workload",
                workload_name,
                workloads,
                f"the workload {workload_name!r} does not exist",
                "one of:",
            )
        workload = known[workload_name]
        if not sweep.roles:
            buckets_filled(place, sweep, sweep, workload)
            sweep = scaled(sweep, config.scale, place, workload, roles.names(sweep))
        if sweep.warm_up >= sweep.duration:
            raise UserError(f"{place}.warm_up", "the warm-up is not shorter than `duration`", "set a shorter time")
        if sweep.roles:
            several = roles.Roles(config, name, sweep, workloads)
            sweep = several.sweep
        if sweep.bins and MIN_BINS * sweep.bins > sweep.duration - sweep.warm_up:
            problem = f"with bins of {units.human_duration(sweep.bins)}, a run has fewer than {MIN_BINS} bins"
            raise UserError(f"{place}.bins", problem, "set shorter bins, or a longer `duration`")
        columns = several.columns() if several else sweep_axes(place, sweep, workload)
        rows = roles.rows(place, sweep, workload, config.scale)
        among, reps = sweep.stores or config.stores_to_measure, sweep.repetitions or config.repetitions
        requested += math.prod(map(len, columns)) * len(rows) * len(among) * reps
        if requested > MAX_POINTS:
            raise UserError(
                place,
                f"the plan has at least {shown(requested)} points, but the maximum is {MAX_POINTS}",
                "sweep fewer values, or lower `repetitions`",
            )
        names = [a.name for a in workload.axes]
        for *values, row in itertools.product(*columns, rows):
            axes = dict(zip(names, values, strict=True)) | row
            fixed = {"duration_ns": sweep.duration, "warm_up_ns": sweep.warm_up, "data_seed": config.seed}
            more, dataset = several.fixed(axes) if several else staged_for(config, place, sweep, workload, axes)
            fixed |= more | ({"bin_ns": sweep.bins} if sweep.bins else {})
            for store, rep in itertools.product(among, range(1, reps + 1)):
                key = point_key(store, workload, axes, rep)
                _fits(place, key)
                point = Point(
                    store, workload.name, axes, rep, key, name, derive_seed(config.seed, key), 0, fixed, dataset
                )
                other = points.setdefault(key, point)
                if other.fixed != fixed:
                    raise UserError(
                        place,
                        f"the point {key} is also in the sweep {other.sweep!r}, with other settings",
                        "change an axis of one sweep, or use the same settings",
                    )
                if not sweep.zip and config.sweeps[other.sweep].zip:
                    # use the point of the sweep without `zip`, because figures draw points of `zip` only along its rows
                    points[key] = point
    ceilings = {p.key: p for p in calibration.points(config, points.values(), workloads)}
    return order(list((ceilings | points).values()), config.seed)


def workload_of(name: str, sweep: Sweep) -> str:
    """Return the name of a sweep's workload."""
    return f"{PREFIX}{name}" if sweep.roles else sweep.workload


def _fits(place: str, key: str) -> None:
    """Raise UserError if the name of the point's folder would be too long for file systems."""
    if len(folder := key.rpartition("/")[2]) > MAX_FOLDER:
        raise UserError(
            place,
            f"the name of a point's folder would have {len(folder)} characters, but the maximum is {MAX_FOLDER}",
            "shorten the names of the roles, or leave more axes at their default",
        )


def stores_of(config: Config, points: list[Point]) -> list[str]:
    """Return the campaign's stores, and the null server if the plan has points with it."""
    return list(dict.fromkeys([*config.stores_to_measure, *(p.store for p in points)]))


def deployment(point: Point) -> tuple[str, ...]:
    """Return the store and the values of the axes that define its deployment."""
    return point.store, *(str(point.axes.get(a.name, a.default)) for a in declared.DEPLOYMENT)


def order(points: list[Point], seed: int) -> list[Point]:
    """Return the points shuffled by the seed, in blocks of one repetition of one deployment, numbered from 1.

    A series stays together. Calibration points come first and last.
    """
    first, points, last = calibration.in_order(points)
    for part in (first, last):
        part.sort(key=lambda p: p.key)
        random.Random(derive_seed(seed, calibration.WORKLOAD)).shuffle(part)
    rng = random.Random(derive_seed(seed, "order"))
    blocks: dict[int, dict[tuple[str, ...], list[Point]]] = {}
    for point in sorted(points, key=lambda p: p.key):
        blocks.setdefault(point.rep, {}).setdefault(deployment(point), []).append(point)
    out = first
    for _, block in sorted(blocks.items()):
        deployments = sorted(block)
        rng.shuffle(deployments)
        for one in deployments:
            series = sweeps.by_series(block[one])
            rng.shuffle(series)
            out += itertools.chain.from_iterable(series)
    return [replace(p, order=i) for i, p in enumerate([*out, *last], 1)]


def full_plan(config: Config, points: list[Point], workloads: Mapping[str, Workload]) -> Plan:
    """Return the plan with everything that the analysis needs about the campaign."""
    used = {p.workload: p for p in points}
    known = {name: w for name, w in every(config, workloads).items() if name in used}
    return Plan(
        campaign={name: getattr(config, name) for name in CAMPAIGN},
        stores={name: config.stores[name].model_dump(mode="json") for name in stores_of(config, points)},
        limits=config.limits.model_dump(mode="json"),
        workloads={
            name: {"help": w.help, "axes": [a.declared() for a in w.axes]} | _roles_of(used[name])
            for name, w in known.items()
        },
        points=points,
        figures=figures.resolved(config.figures, known.values()) if config.figures else None,
        claims=_claims(config, known.values()) if config.claims else None,
        together=_coupled(config, known) or None,
    )


def to_json(config: Config, points: list[Point], workloads: Mapping[str, Workload]) -> dict[str, Any]:
    """Return the content of `plan.json`, except the versions of the software that measures."""
    return full_plan(config, points, workloads).to_json()


def _claims(config: Config, workloads: Iterable[Workload]) -> dict[str, Any]:
    """Return the campaign's claims, which can only use workloads and axes of this campaign. Raises UserError."""
    used = list(workloads)
    axes = {a.name: a for w in used for a in w.axes}
    for name, claim in config.claims.items():
        if claim.published and claim.published.table:
            problem = "tables of published numbers are only for storelab's own list of claims"
            raise UserError(f"claims.{name}.published.table", problem, "set `value` and `unit` instead")
    return claims.resolved(config.claims, axes, [w.name for w in used])


def _coupled(config: Config, workloads: Mapping[str, Workload]) -> dict[str, Any]:
    """Return, for each sweep with `zip`, the axes that vary together and their rows."""
    coupled = {name: sweep for name, sweep in config.sweeps.items() if sweep.zip}
    used = {name: workloads[workload_of(name, sweep)] for name, sweep in coupled.items()}
    return {name: roles.declared_rows(name, coupled[name], workload, config.scale) for name, workload in used.items()}


def _roles_of(point: Point) -> dict[str, Any]:
    """Return the roles of a workload, taken from one of its points, or {} for a workload without roles."""
    found = {role["name"]: {k: role[k] for k in ROLE_KEYS} for role in point.fixed.get("roles", ())}
    return {"roles": found} if found else {}

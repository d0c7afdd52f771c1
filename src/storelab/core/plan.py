"""Config -> plan: the list of points, pure (no I/O, no clock), and its text form `plan.json`.

Order: blocks of one repetition of one deployment (a store with its redundancy, data servers, backing, scheme); the
order of the blocks and of the points in a block is shuffled by the campaign's seed, so that slow drifts of a machine
fall on all points alike (interleaving). Before and after them the calibration, if the campaign has one.
"""

import itertools
import math
import random
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from storelab.core import axes as declared
from storelab.core import calibration, figures, units
from storelab.core.campaign import SCALES, Sweep
from storelab.core.config import Config
from storelab.core.errors import UserError, require_known, shown
from storelab.core.model import Axis, Point, Workload, derive_seed, point_key

SCHEMA = 1
MOST_POINTS = 100_000  # each has a folder of its own
FILE_MB = {"S": 6, "M": 80, "L": 757}  # about, of the generated ROOT files
CAMPAIGN = ("name", "title", "authors", "repetitions", "seed", "scale", "failure_budget")


def sweep_axes(name: str, sweep: Sweep, workload: Workload) -> list[list[Any]]:
    """The values of each of the workload's axes, typed, defaults filled in. Raises UserError."""
    place = f"sweeps.{name}"
    known = [a.name for a in workload.axes]
    for key in sweep.axes:
        require_known(f"{place}.axes.{key}", key, known, f"{workload.name} has no axis {key!r}", "its axes:")
    columns = []
    for axis in workload.axes:
        if axis.name not in sweep.axes:
            columns.append([axis.default])
            continue
        values, here = _listed(sweep.axes[axis.name]), f"{place}.axes.{axis.name}"
        if not values or values == [None]:
            raise UserError(here, "the sweep has no value", f"give one or a list, or leave it out for {axis.default!r}")
        if len(values) > MOST_POINTS:
            raise UserError(here, f"{len(values)} values are listed", f"a plan has at most {MOST_POINTS} points")
        typed = [axis.parse(v, here) for v in values]
        if len(set(typed)) < len(typed) and axis.name not in sweep.scaled_axes:
            twice = next(given for i, given in enumerate(values) if typed[i] in typed[:i])
            raise UserError(here, f"{shown(twice)} is there twice", "name it once; `repetitions` measures it again")
        columns.append(list(dict.fromkeys(typed)))
    return columns


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def scaled(sweep: Sweep, factor: float, place: str, workload: Workload) -> Sweep:
    """The sweep with durations (whole ms), number of objects and `scaled_axes` times `factor`; the other axes stay.

    Raises UserError: an axis is not in the sweep, or cannot be scaled.
    """
    for axis in sweep.scaled_axes:
        if axis not in sweep.axes:
            raise UserError(
                f"{place}.scaled_axes", f"the sweep gives no {axis!r}", f"its axes: {', '.join(sweep.axes) or 'none'}"
            )
    if factor == 1:
        return sweep
    ms = 10**6
    times = {
        name: max(1, round(ns * factor / ms)) * ms if (ns := getattr(sweep, name)) else 0
        for name in ("duration", "warm_up")
    }
    known = {a.name: a for a in workload.axes}
    values = {
        axis: _scaled_values(known[axis], sweep.axes[axis], factor, place) if axis in known else sweep.axes[axis]
        for axis in sweep.scaled_axes
    }
    return sweep.model_copy(
        update=times | {"objects": max(1, round(sweep.objects * factor)), "axes": sweep.axes | values}
    )


def _scaled_values(axis: Axis, given: Any, factor: float, place: str) -> list[Any]:
    """Whole numbers times the factor, at least 1; a generated ROOT file's scale to the one whose size is nearest."""
    out: list[Any] = []
    for value in _listed(given):
        if axis.name == declared.SCALE.name and value in FILE_MB:
            out.append(min(FILE_MB, key=lambda scale: abs(math.log(FILE_MB[scale] / (FILE_MB[value] * factor)))))
        elif axis.kind == "int" and isinstance(value, int) and not isinstance(value, bool):
            out.append(max(1, round(value * factor)))
        elif axis.kind in ("int", "text"):
            raise UserError(
                f"{place}.axes.{axis.name}", f"{value!r} cannot be scaled", "scale whole numbers, or the file S, M, L"
            )
        else:
            raise UserError(
                f"{place}.scaled_axes",
                f"{axis.name} is a {axis.kind} and cannot be scaled",
                "scale whole numbers, or the file S, M, L",
            )
    return list(dict.fromkeys(out))


def dataset_of(
    config: Config, place: str, workload: Workload, axes: Mapping[str, Any], fixed: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The data set that the point reads: its name, kind and parameters; None if nothing is staged.

    Raises UserError: nobody named this file.
    """
    if workload.dataset is None:
        return None
    if workload.dataset == "root":
        return _root_files(config, f"{place}.axes", axes)
    if workload.dataset == "keys":
        return _folders_of_keys(config, axes)
    size, buckets, count, accounts = axes["object_size"], axes["buckets"], fixed["objects"], axes["accounts"]
    owners = f"a{accounts}" if accounts > 1 else ""
    dataset = {
        "name": f"payload-{units.format_size(size).replace(' ', '')}-{count}x{buckets}{owners}",
        "kind": "payload",
        "object_size": size,
        "objects": count,
        "buckets": buckets,
        "seed": config.seed,
    }
    return dataset | ({"accounts": accounts} if accounts > 1 else {})


def _folders_of_keys(config: Config, axes: Mapping[str, Any]) -> dict[str, Any]:
    """A folder of `keys` small objects in each bucket, `depth` levels of folders deep."""
    size, keys, depth, buckets, accounts = (
        axes[name] for name in ("object_size", "keys", "prefix_depth", "buckets", "accounts")
    )
    more = (f"-depth{depth}" if depth else "") + (f"-a{accounts}" if accounts > 1 else "")
    return {
        "name": f"keys-{units.format_size(size).replace(' ', '')}-{keys}x{buckets}{more}",
        "kind": "keys",
        "object_size": size,
        "objects": keys * buckets,
        "keys": keys,
        "depth": depth,
        "buckets": buckets,
        "seed": config.seed,
    } | ({"accounts": accounts} if accounts > 1 else {})


def _root_files(config: Config, place: str, axes: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of a generated ROOT file, or of one of the user's own. Raises UserError."""
    scale, codec, copies, files = axes["scale"], axes["codec"], axes.get("buckets", 1), axes.get("files", 1)
    own = config.files.get(scale)
    if scale not in SCALES and own is None:
        raise UserError(
            f"{place}.scale",
            f"{scale!r} is no scale and no name in `files`",
            f"one of: {', '.join([*SCALES, *config.files])}; or name your file in `files`",
        )
    if own and codec != "zstd":
        raise UserError(
            f"{place}.codec", f"{scale} is a file of your own, and stays as it is packed", "leave the axis out"
        )
    packed = {"codec": codec} if codec != "zstd" else {}
    name = "-".join(["root", scale, *packed.values()])
    name += (f"-{copies}" if copies > 1 else "") + (f"-{files}files" if files > 1 else "")
    dataset = {"name": name, "kind": "root", "scale": scale, "buckets": copies, "seed": config.seed, **packed}
    dataset |= {"files": files} if files > 1 else {}
    return dataset | ({"file": own.path, "tree": own.tree} if own else {})


def _buckets_filled(name: str, sweep: Sweep, workload: Workload) -> None:
    """Raises UserError where the sweep itself asks for fewer objects than buckets; where it names no number of
    objects, or `scale` lowers it, each bucket has one."""
    if "objects" not in sweep.model_fields_set or (workload.dataset != "payload" and "objects" not in workload.needs):
        return
    counts = [n for n in _listed(sweep.axes.get("buckets", 1)) if isinstance(n, int)]
    if (most := max(counts, default=0)) > sweep.objects:
        raise UserError(
            f"sweeps.{name}.objects", f"{sweep.objects} objects leave some of {most} buckets empty", f"give {most}"
        )


def make(config: Config, workloads: Mapping[str, Workload]) -> list[Point]:
    """All points in the order of measuring. Raises UserError for a wrong sweep, or one point with two meanings."""
    points: dict[str, Point] = {}
    asked = 0
    figures.resolved(
        config.figures, [w for w in workloads.values() if w.name in {s.workload for s in config.sweeps.values()}]
    )
    for name, sweep in config.sweeps.items():
        problem = f"no workload {sweep.workload!r}"
        require_known(f"sweeps.{name}.workload", sweep.workload, workloads, problem, "one of:")
        workload = workloads[sweep.workload]
        _buckets_filled(name, sweep, workload)
        sweep = scaled(sweep, config.scale, f"sweeps.{name}", workload)
        if sweep.warm_up >= sweep.duration:
            raise UserError(
                f"sweeps.{name}.warm_up", "leaves nothing of the duration", "make it shorter than `duration`"
            )
        columns = sweep_axes(name, sweep, workload)
        used, reps = sweep.stores or config.use_stores, sweep.repetitions or config.repetitions
        asked += math.prod(map(len, columns)) * len(used) * reps
        if asked > MOST_POINTS:
            raise UserError(
                f"sweeps.{name}",
                f"the plan has {shown(asked)} points or more, the most is {MOST_POINTS}",
                "sweep fewer values, or lower `repetitions`",
            )
        for values in itertools.product(*columns):
            axes = dict(zip((a.name for a in workload.axes), values, strict=True))
            fixed = {"duration_ns": sweep.duration, "warm_up_ns": sweep.warm_up, "data_seed": config.seed}
            if workload.dataset == "payload" or "objects" in workload.needs:
                fixed["objects"] = max(sweep.objects, axes["buckets"])  # no bucket stays empty
            dataset = dataset_of(config, f"sweeps.{name}", workload, axes, fixed)
            for store, rep in itertools.product(used, range(1, reps + 1)):
                key = point_key(store, workload, axes, rep)
                point = Point(
                    store, workload.name, axes, rep, key, name, derive_seed(config.seed, key), 0, fixed, dataset
                )
                other = points.setdefault(key, point)
                if other.fixed != fixed:
                    raise UserError(
                        f"sweeps.{name}",
                        f"point {key} stands in sweep {other.sweep!r} too, with other settings",
                        "let the two sweeps differ in an axis, or agree",
                    )
    ceilings = {p.key: p for p in calibration.points(config, points.values(), workloads)}
    return order(list((ceilings | points).values()), config.seed)


def stores_of(config: Config, points: list[Point]) -> list[str]:
    """The campaign's stores, and the null server where the plan has points of it."""
    return list(dict.fromkeys([*config.use_stores, *(p.store for p in points)]))


def deployment(point: Point) -> tuple[str, ...]:
    """Store and values of the axes that make its deployment."""
    return point.store, *(str(point.axes.get(a.name, a.default)) for a in declared.DEPLOYMENT)


def order(points: list[Point], seed: int) -> list[Point]:
    """Shuffle by seed, in blocks of one repetition of one deployment; number them from 1.

    A calibration comes first and last.
    """
    first, points, last = calibration.in_order(points)
    for part in (first, last):
        part.sort(key=lambda p: p.key)
        random.Random(derive_seed(seed, calibration.WORKLOAD)).shuffle(part)
    rng = random.Random(derive_seed(seed, "order"))
    out = first
    for rep in sorted({p.rep for p in points}):
        deployments = sorted({deployment(p) for p in points if p.rep == rep})
        rng.shuffle(deployments)
        for one in deployments:
            block = sorted((p for p in points if p.rep == rep and deployment(p) == one), key=lambda p: p.key)
            rng.shuffle(block)
            out += block
    return [replace(p, order=i) for i, p in enumerate([*out, *last], 1)]


def to_json(config: Config, points: list[Point], workloads: Mapping[str, Workload]) -> dict[str, Any]:
    """`plan.json`: all that the analysis needs to know of the plan. Stores without anything secret."""
    used = {p.workload for p in points}
    return {
        "schema": SCHEMA,
        "campaign": {k: getattr(config, k) for k in CAMPAIGN},
        "stores": {name: config.stores[name].model_dump(mode="json") for name in stores_of(config, points)},
        "limits": config.limits.model_dump(mode="json"),
        "workloads": {
            name: {"help": w.help, "axes": [a.declared() for a in w.axes]}
            for name, w in workloads.items()
            if name in used
        },
        "points": [asdict(p) for p in points],
        **(
            {"figures": figures.resolved(config.figures, [w for n, w in workloads.items() if n in used])}
            if config.figures
            else {}
        ),
    }

"""What one sweep asks for, or one role of it: the values of its axes, scaled, the data set that it reads, its parts.

With `parts` each point of the sweep is measured so many times, one part after the other: a series. The parts differ in
the axis `part` alone. They stay together and ascend in the order of the plan; each is a point with a record of its own,
so that what was interrupted goes on with the part that is missing. A workload that has the axis among its own keeps
what it left in the store from part to part: nothing is removed before the last one, and the job tells the attempts of
earlier parts (`earlier`). Other workloads are only given the axis. Pure.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from storelab.core import axes as known_axes
from storelab.core import units
from storelab.core.axes import mixes
from storelab.core.axes.roles import PART
from storelab.core.campaign import SCALES, Role, Sweep
from storelab.core.campaign.release import Release
from storelab.core.config import Config
from storelab.core.config_types import LEAST_BIN_NS
from storelab.core.errors import UserError, require_known, shown
from storelab.core.model import OF_ROLE, Axis, Point, Workload


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


MOST_POINTS = 100_000  # each has a folder of its own
FILE_MB = {"S": 6, "M": 80, "L": 757}  # about, of the generated ROOT files
Asked = TypeVar("Asked", Sweep, Role)


def sweep_axes(place: str, sweep: Sweep | Role, workload: Workload) -> list[list[Any]]:
    """The values of each of the workload's axes, typed, defaults filled in. `place`: of the sweep, or its role, in the
    configuration. Raises UserError."""
    known, parts = [a.name for a in workload.axes], numbers(place, sweep)
    for key in sweep.axes:
        require_known(f"{place}.axes.{key}", key, known, f"{workload.name} has no axis {key!r}", "its axes:")
    columns = []
    for axis in workload.axes:
        if axis.name == PART.name:
            columns.append(parts)
            continue
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


def scaled(sweep: Asked, factor: float, place: str, workload: Workload, coupled: Sequence[str] = ()) -> Asked:
    """The sweep, or role, with durations and bins (whole ms), objects and `scaled_axes` times `factor`; the rest stays.
    `coupled`: its axes that stand in `together`, whose values `together.rows` scales.

    Raises UserError: an axis is not in the sweep, or cannot be scaled.
    """
    given = [*sweep.axes, *coupled]
    for axis in sweep.scaled_axes:
        if axis not in given:
            told = f"its axes: {', '.join(given) or 'none'}"
            raise UserError(f"{place}.scaled_axes", f"the sweep gives no {axis!r}", told)
    if factor == 1:
        return sweep
    ms = 10**6
    times = {
        name: max(1, round(ns * factor / ms)) * ms if (ns := getattr(sweep, name)) else 0
        for name in ("duration", "warm_up")
        if isinstance(sweep, Sweep)
    }
    if isinstance(sweep, Sweep) and sweep.bins:
        times["bins"] = max(LEAST_BIN_NS, round(sweep.bins * factor / ms) * ms)
    known = {a.name: a for a in workload.axes}
    values = {
        axis: _scaled_values(known[axis], sweep.axes[axis], factor, place) if axis in known else sweep.axes[axis]
        for axis in sweep.scaled_axes
        if axis in sweep.axes
    }
    return sweep.model_copy(
        update=times | {"objects": max(1, round(sweep.objects * factor)), "axes": sweep.axes | values}
    )


def _scaled_values(axis: Axis, given: Any, factor: float, place: str) -> list[Any]:
    return list(dict.fromkeys(scaled_value(axis, value, factor, place) for value in _listed(given)))


def scaled_value(axis: Axis, value: Any, factor: float, place: str, where: str = "axes") -> Any:
    """A whole number times the factor, at least 1; a generated ROOT file's scale to the one whose size is nearest.
    `where`: the key of the sweep that gives the value. Raises UserError."""
    mend = "scale whole numbers, or the file S, M, L"
    if axis.name.rpartition(OF_ROLE)[2] == known_axes.SCALE.name and value in tuple(FILE_MB):
        return min(FILE_MB, key=lambda scale: abs(math.log(FILE_MB[scale] / (FILE_MB[value] * factor))))
    if axis.kind == "int" and isinstance(value, int) and not isinstance(value, bool):
        return max(1, round(value * factor))
    if axis.kind in ("int", "text"):
        raise UserError(f"{place}.{where}.{axis.name}", f"{shown(value)} cannot be scaled", mend)
    raise UserError(f"{place}.scaled_axes", f"{axis.name} is a {axis.kind} and cannot be scaled", mend)


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
        return folders_of_keys(config.seed, axes)
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


def folders_of_keys(seed: int, axes: Mapping[str, Any]) -> dict[str, Any]:
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
        "seed": seed,
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


def buckets_filled(place: str, sweep: Sweep | Role, whole: Sweep, workload: Workload) -> None:
    """Raises UserError where the sweep, or role, itself asks for fewer objects than buckets; where it names no number
    of objects, or `scale` lowers it, each bucket has one. `whole`: the sweep, which gives the axis `buckets`."""
    if "objects" not in sweep.model_fields_set or (workload.dataset != "payload" and "objects" not in workload.needs):
        return
    buckets = [*_listed(whole.axes.get("buckets", 1)), *whole.together.get("buckets", ())]
    counts = [n for n in buckets if isinstance(n, int)]
    if (most := max(counts, default=0)) > sweep.objects:
        raise UserError(
            f"{place}.objects", f"{sweep.objects} objects leave some of {most} buckets empty", f"give {most}"
        )


def _objects(sweep: Sweep | Role, axes: Mapping[str, Any]) -> int:
    """How many are staged, or made: no bucket stays empty."""
    asked = axes.get("working_set", 0)
    count: int = max(-(-asked // max(1, axes["object_size"])) if asked else sweep.objects, axes["buckets"])
    return count


def staged_for(
    config: Config, place: str, sweep: Sweep | Role, workload: Workload, axes: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """(number of objects, and what names of mixes mean, where the workload has them; the data set that it reads, if
    any). Raises UserError."""
    known_mixes = {name: mix.told() for name, mix in config.mixes.items()}
    known_sizes = {name: sizes.told() for name, sizes in config.sizes.items()}
    fixed = mixes.meaning(axes, known_mixes, known_sizes, f"{place}.axes")
    if workload.dataset == "payload" or "objects" in workload.needs:
        fixed["objects"] = _objects(sweep, axes)
    if "release" in workload.needs:
        fixed["release"] = (config.release or Release.model_validate({})).told()
    return fixed, dataset_of(config, place, workload, axes, fixed)

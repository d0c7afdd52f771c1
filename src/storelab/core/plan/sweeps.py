"""Expand one sweep, or one role of a sweep: the scaled values of its axes, its data set, and its parts.

With `parts`, each point of the sweep is measured in this number of consecutive parts, which are a series. The parts
differ only in the axis `part`. They are consecutive and ascending in the plan. Each part is a point with a separate
record, so that an interrupted series continues with the missing part.

A workload that itself has the axis `part` keeps its objects in the store from part to part. They are removed after the
last part, and the job lists the attempts of earlier parts (`earlier`). For other workloads, the axis has no effect.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from storelab.core import axes as known_axes
from storelab.core import units
from storelab.core.axes import mixes
from storelab.core.axes.roles import PART
from storelab.core.campaign import FILE_SIZES, Role, Sweep
from storelab.core.campaign.release import Release
from storelab.core.config import Config
from storelab.core.config_types import MIN_BIN_NS
from storelab.core.errors import UserError, require_known, shown
from storelab.core.model import OF_ROLE, Axis, Point, Workload


def declared(config: Config, workloads: Mapping[str, Workload]) -> dict[str, Workload]:
    """Return the workloads of sweeps in parts, with the axis `part`."""
    names = {sweep.workload for sweep in config.sweeps.values() if sweep.parts} & workloads.keys()
    return {name: with_part(workloads[name]) for name in names}


def with_part(workload: Workload) -> Workload:
    """Return the workload with the axis `part`. If it already has this axis, return it unchanged."""
    return workload if has_parts(workload) else replace(workload, axes=(*workload.axes, PART))


def has_parts(workload: Workload) -> bool:
    """Return True if the workload itself has the axis `part`."""
    return any(axis.name == PART.name for axis in workload.axes)


def numbers(place: str, sweep: Sweep | Role) -> list[int]:
    """Return the values of the axis `part` in a sweep. Raises UserError if the sweep lists them itself."""
    if PART.name in sweep.axes:
        raise UserError(f"{place}.axes.{PART.name}", "parts are numbered automatically", f"write {place}.parts: 24")
    parts = sweep.parts if isinstance(sweep, Sweep) else None
    return [*range(1, parts + 1)] if parts else [PART.default]


def part(point: Point) -> int:
    """Return the number of a point's part, or 0 if it is not a part."""
    return int(point.axes.get(PART.name, PART.default))


def series_of(points: Iterable[Point], point: Point) -> list[Point]:
    """Return the points of the plan that differ from this point only in the part, in order.

    The result includes the point itself.
    """
    return sorted((p for p in points if _same(p) == _same(point)), key=part)


def by_series(points: Sequence[Point]) -> list[list[Point]]:
    """Return the points grouped by series, with ascending parts. The groups are in the order of their first point."""
    found: dict[Any, list[Point]] = {}
    for point in points:
        found.setdefault(_same(point), []).append(point)
    return [sorted(series, key=part) for series in found.values()]


def _same(point: Point) -> tuple[Any, ...]:
    """Return everything except the part, which is the same for all points of a series. Otherwise, return the key."""
    if PART.name not in point.axes:
        return (point.key,)
    others = tuple((name, value) for name, value in point.axes.items() if name != PART.name)
    return (point.store, point.workload, point.rep, others)


MAX_POINTS = 100_000  # maximum number of points of a plan, because each has a separate folder
FILE_MB = {"S": 6, "M": 80, "L": 757}  # approximate size of the generated ROOT files in MB
Asked = TypeVar("Asked", Sweep, Role)


def sweep_axes(place: str, sweep: Sweep | Role, workload: Workload) -> list[list[Any]]:
    """Return the typed values of each axis of the workload, including defaults.

    place: the path of the sweep or role in the configuration. Raises UserError.
    """
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
            raise UserError(
                here, "the axis has no value", f"give a value or a list, or remove the axis to use {axis.default!r}"
            )
        if len(values) > MAX_POINTS:
            raise UserError(
                here, f"{len(values)} values are listed", f"list at most {MAX_POINTS}, the maximum number of points"
            )
        typed = [axis.parse(v, here) for v in values]
        if len(set(typed)) < len(typed) and axis.name not in sweep.scale_axes:
            twice = next(given for i, given in enumerate(values) if typed[i] in typed[:i])
            raise UserError(
                here, f"{shown(twice)} is listed twice", "list it once; to measure it again, set `repetitions`"
            )
        columns.append(list(dict.fromkeys(typed)))
    return columns


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def scaled(sweep: Asked, factor: float, place: str, workload: Workload, coupled: Sequence[str] = ()) -> Asked:
    """Return the sweep or role with durations and bins (whole ms), objects and `scale_axes` multiplied by `factor`.

    coupled: axes of the sweep that are in `zip`; `roles.rows` scales their values. Raises UserError if an axis is not
    in the sweep or cannot be scaled.
    """
    given = [*sweep.axes, *coupled]
    for axis in sweep.scale_axes:
        if axis not in given:
            hint = f"its axes: {', '.join(given) or 'none'}"
            raise UserError(f"{place}.scale_axes", f"the sweep has no axis {axis!r}", hint)
    if factor == 1:
        return sweep
    ms = 10**6
    times = {
        name: max(1, round(ns * factor / ms)) * ms if (ns := getattr(sweep, name)) else 0
        for name in ("duration", "warm_up")
        if hasattr(sweep, name)  # roles do not have all of these settings
    }
    if bins := getattr(sweep, "bins", None):
        times["bins"] = max(MIN_BIN_NS, round(bins * factor / ms) * ms)
    known = {a.name: a for a in workload.axes}
    values = {
        axis: _scaled_values(known[axis], sweep.axes[axis], factor, place) if axis in known else sweep.axes[axis]
        for axis in sweep.scale_axes
        if axis in sweep.axes
    }
    return sweep.model_copy(
        update=times | {"objects": max(1, round(sweep.objects * factor)), "axes": sweep.axes | values}
    )


def _scaled_values(axis: Axis, given: Any, factor: float, place: str) -> list[Any]:
    return list(dict.fromkeys(scaled_value(axis, value, factor, place) for value in _listed(given)))


def scaled_value(axis: Axis, value: Any, factor: float, place: str, where: str = "axes") -> Any:
    """Return a scaled whole number (at least 1), or the generated ROOT file nearest to the scaled size.

    where: the key of the sweep with the value. Raises UserError if the value cannot be scaled.
    """
    hint = "scale only whole numbers, or the file sizes S, M, L"
    if axis.name.rpartition(OF_ROLE)[2] == known_axes.FILE_SIZE.name and value in tuple(FILE_MB):
        return min(FILE_MB, key=lambda size: abs(math.log(FILE_MB[size] / (FILE_MB[value] * factor))))
    if axis.kind == "int" and isinstance(value, int) and not isinstance(value, bool):
        return max(1, round(value * factor))
    if axis.kind in ("int", "text"):
        raise UserError(f"{place}.{where}.{axis.name}", f"{shown(value)} cannot be scaled", hint)
    raise UserError(f"{place}.scale_axes", f"{axis.name} is a {axis.kind} and cannot be scaled", hint)


def dataset_of(
    config: Config, place: str, workload: Workload, axes: Mapping[str, Any], fixed: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the data set of the point: its name, kind and parameters. Return None if nothing is staged.

    Raises UserError if the file is not declared.
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
    """Return the data set with `keys` small objects per bucket, in `prefix_depth` levels of folders."""
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
    """Return the data set with copies of a generated ROOT file or of a user's file. Raises UserError."""
    size, codec, copies, files = axes["file_size"], axes["codec"], axes.get("buckets", 1), axes.get("files", 1)
    user_file = config.files.get(size)
    if size not in FILE_SIZES and user_file is None:
        raise UserError(
            f"{place}.file_size",
            f"{size!r} is neither a file size nor a name in `files`",
            f"give one of: {', '.join([*FILE_SIZES, *config.files])}; or add your file to `files`",
        )
    if user_file and codec != "zstd":
        raise UserError(
            f"{place}.codec", f"{size} is a user's file, whose compression cannot be changed", "remove this axis"
        )
    packed = {"codec": codec} if codec != "zstd" else {}
    name = "-".join(["root", size, *packed.values()])
    name += (f"-{copies}" if copies > 1 else "") + (f"-{files}files" if files > 1 else "")
    dataset = {"name": name, "kind": "root", "scale": size, "buckets": copies, "seed": config.seed, **packed}
    dataset |= {"files": files} if files > 1 else {}
    return dataset | ({"file": user_file.path, "tree": user_file.tree} if user_file else {})


def buckets_filled(place: str, sweep: Sweep | Role, whole: Sweep, workload: Workload) -> None:
    """Raise UserError if the sweep or role explicitly sets fewer objects than buckets.

    Without an explicit number, or if `scale` reduces it, each bucket gets at least one object. whole: the sweep that
    has the axis `buckets`.
    """
    if "objects" not in sweep.model_fields_set or (workload.dataset != "payload" and "objects" not in workload.needs):
        return
    buckets = [*_listed(whole.axes.get("buckets", 1)), *whole.zip.get("buckets", ())]
    counts = [n for n in buckets if isinstance(n, int)]
    if (most := max(counts, default=0)) > sweep.objects:
        raise UserError(
            f"{place}.objects", f"{sweep.objects} objects are too few for {most} buckets", f"set at least {most}"
        )


def _objects(sweep: Sweep | Role, axes: Mapping[str, Any]) -> int:
    """Return the number of objects to stage or to create. Every bucket gets at least one object."""
    requested = axes.get("working_set", 0)
    count: int = max(-(-requested // max(1, axes["object_size"])) if requested else sweep.objects, axes["buckets"])
    return count


def staged_for(
    config: Config, place: str, sweep: Sweep | Role, workload: Workload, axes: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the fixed parameters of the point, and its data set or None. Raises UserError.

    The parameters are the number of objects, and the definitions of named mixes and sizes, if the workload needs them.
    """
    known_mixes = {name: mix.as_dict() for name, mix in config.mixes.items()}
    known_sizes = {name: sizes.as_dict() for name, sizes in config.sizes.items()}
    fixed = mixes.meaning(axes, known_mixes, known_sizes, f"{place}.axes")
    if workload.dataset == "payload" or "objects" in workload.needs:
        fixed["objects"] = _objects(sweep, axes)
    if "release" in workload.needs:
        fixed["release"] = (config.release or Release.model_validate({})).as_dict()
    return fixed, dataset_of(config, place, workload, axes, fixed)

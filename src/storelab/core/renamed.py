"""Map old names of configuration keys and axes to new names.

Old keys still work for one release. `config.read_layers` calls `current` for each file and for `--set`. The first use
of each old name prints a line with the new name. Plans and records keep the names with which they were written. Code
that reads them calls `of_plan` and `of_run`.
"""

import sys
from collections.abc import Mapping
from typing import Any

from storelab.core.errors import UserError

# Path of the old key -> new key. `*` is any key, or any element of a list.
KEYS = {
    "use_stores": "stores_to_measure",
    "lead": "start_delay",
    "launcher.silence": "heartbeat_timeout",
    "stores.*.door": "gateway",
    "sizes.*.least": "minimum",
    "sizes.*.most": "maximum",
    "sweeps.*.together": "zip",
    "sweeps.*.scaled_axes": "scale_axes",
    "sweeps.*.roles.*.scaled_axes": "scale_axes",
    "claims.*.says": "statement",
    "claims.*.apart": "may_differ",
    "claims.*.enough": "min_attempts",
}
AXES = {"scale": "file_size", "most_buckets": "max_buckets"}  # old name of an axis -> new name
# Keys whose content names axes: as keys, as elements of a list, or as text.
NAMING_AXES = (
    *("sweeps.*.axes", "sweeps.*.zip", "sweeps.*.scale_axes"),
    *("sweeps.*.roles.*.axes", "sweeps.*.roles.*.scale_axes"),
    *("figures.*.x", "figures.*.hue", "figures.*.panels", "figures.*.where"),
    *("claims.*.along", "claims.*.where", "claims.*.reach", "claims.*.may_differ"),
)
_PATHS = {tuple(path.split(".")): new for path, new in KEYS.items()}
_NAMING_AXES = [tuple(path.split(".")) for path in NAMING_AXES]
_reported: set[str] = set()  # old names for which this process has printed a line


def current(document: Any, place: str = "", path: tuple[str, ...] = ()) -> Any:
    """Return a document of the configuration with the new names of its keys and axes.

    Parameters
    ----------
    document
        The document, or a part of it.
    place
        File or option that contains the document. Without it, nothing is printed.
    path
        Path of the part in the whole document.

    Raises
    ------
    UserError
        The document has both an old key and its new name.
    """
    axes = any(_matches(known, path) for known in _NAMING_AXES)
    if isinstance(document, list):
        return [current(item, place, path if axes else (*path, "*")) for item in document]
    if not isinstance(document, dict):
        new = axis(document) if axes else document
        if new is not document:
            _report(place, path, document, new)
        return new
    out = {}
    for old, value in document.items():
        here = (*path, str(old))
        new = axis(old) if axes else next((name for known, name in _PATHS.items() if _matches(known, here)), old)
        if new != old:
            if new in document:
                text = f"`{old}` and `{new}` are names of the same key"
                raise UserError(f"{place}: {'.'.join(here)}", text, f"remove `{old}`")
            _report(place, here, old, new)
        out[new] = current(value, place, (*path, str(new)))
    return out


def _matches(known: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return len(known) == len(path) and all(part in ("*", key) for part, key in zip(known, path, strict=True))


def _report(place: str, path: tuple[str, ...], old: str, new: str) -> None:
    """Print one line about an old name, once per process."""
    if place and old not in _reported:
        _reported.add(old)
        line = f"storelab: {place}: {'.'.join(path)}: the name `{old}` is deprecated; write `{new}`"
        print(line, file=sys.stderr)


def axis(name: Any) -> Any:
    """Return the new name of an axis or of its column, also with a role (`uploads.scale`).

    Other values are returned unchanged.
    """
    if not isinstance(name, str):
        return name
    role, dot, own = name.rpartition(".")
    return f"{role}{dot}{AXES[own]}" if own in AXES else name


def of_point(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point, or a role of a record, with the new names of its axes. The point's key does not change."""
    return {**point, "axes": {axis(name): value for name, value in point["axes"].items()}}


def of_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a plan.json with the new names of axes, and of the keys of stores, figures and claims."""
    out = {**plan, "points": [of_point(point) for point in plan["points"]]}
    if "workloads" in plan:
        out["workloads"] = {
            name: {**workload, "axes": [_declared(declared) for declared in workload["axes"]]}
            for name, workload in plan["workloads"].items()
        }
    if "together" in plan:
        coupled = plan["together"].items()
        out["together"] = {sweep: {**rows, "axes": [*map(axis, rows["axes"])]} for sweep, rows in coupled}
    own: dict[str, Any] = current({key: plan[key] for key in ("stores", "figures", "claims") if key in plan})
    return out | own


def _declared(declared: Mapping[str, Any]) -> dict[str, Any]:
    return {key: axis(value) if key in ("name", "column") else value for key, value in declared.items()}


def of_run(run: Any) -> Any:
    """Return the content of a run.json or failed.json with the new names of axes. Other content is unchanged."""
    if not isinstance(run, dict):
        return run
    out = dict(run)
    if _has_axes(run.get("point")):
        out["point"] = of_point(run["point"])
    if isinstance(run.get("roles"), list):
        out["roles"] = [of_point(role) if _has_axes(role) else role for role in run["roles"]]
    return out


def _has_axes(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("axes"), dict)

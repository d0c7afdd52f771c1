"""Expand sweeps with roles: several workloads at the same time, each with its axes, clients and times (docs/roles.md).

Each of these sweeps has a separate workload, `roles-<sweep>`. It has the axes of the whole point, and the axes of each
role with the role's name as prefix. Axes of a sweep or a role can vary together (`zip:`). A row of `zip` sets a value
of each of these axes. All rows are combined with all values of the other axes.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from storelab.core import units
from storelab.core.axes import roles as axes_of_roles
from storelab.core.axes.roles import PART
from storelab.core.campaign import Role, Sweep
from storelab.core.campaign.faults import resolved
from storelab.core.config import Config
from storelab.core.errors import UserError, require_known
from storelab.core.model import OF_ROLE, PREFIX, Axis, Workload
from storelab.core.plan import sweeps
from storelab.core.plan.sweeps import MAX_POINTS, buckets_filled, scaled, scaled_value, staged_for, sweep_axes

WHERE = "zip"


def names(sweep: Sweep, role: str = "") -> list[str]:
    """Return the plain names of the axes in `zip`, for the sweep itself or for one role."""
    parts = [axis.rpartition(OF_ROLE) for axis in sweep.zip]
    return [axis_name for name, _, axis_name in parts if name == role]


def rows(place: str, sweep: Sweep, workload: Workload, factor: float) -> list[dict[str, Any]]:
    """Return the rows of `zip` in order, each as axis -> value. Without `zip`, return one empty row.

    Values of axes in `scale_axes` are multiplied by `factor`. Raises UserError.
    """
    if not sweep.zip:
        return [{}]
    here, known = f"{place}.{WHERE}", {a.name: a for a in workload.axes}
    for axis in sweep.zip:
        problem = f"{workload.name} has no axis {axis!r}"
        require_known(f"{here}.{axis}", axis, known, problem, "its axes:")
        role, _, axis_name = axis.rpartition(OF_ROLE)
        if axis_name in (sweep.roles[role].axes if role else sweep.axes):
            raise UserError(f"{here}.{axis}", f"{axis} is also in `axes`", "remove one of them")
        if axis_name == PART.name:
            raise UserError(f"{here}.{axis}", "parts are numbered automatically", f"write {place}.parts: 24")
    length = len(next(iter(sweep.zip.values())))
    if length > MAX_POINTS:
        raise UserError(here, f"{length} rows are listed", f"list at most {MAX_POINTS}, the maximum number of points")
    scaled = [*sweep.scale_axes, *(f"{n}{OF_ROLE}{a}" for n, role in sweep.roles.items() for a in role.scale_axes)]
    columns = {
        axis: _column(place, known[axis], given, factor if axis in scaled else 1) for axis, given in sweep.zip.items()
    }
    found = list(zip(*columns.values(), strict=True))
    if len(set(found)) < length and (factor == 1 or not columns.keys() & set(scaled)):
        again = next(i for i, row in enumerate(found) if row in found[:i])
        problem = f"row {again + 1} repeats row {found.index(found[again]) + 1}"
        raise UserError(here, problem, "list it once; to measure it again, set `repetitions`")
    return [dict(zip(columns, row, strict=True)) for row in dict.fromkeys(found)]


def declared_rows(name: str, sweep: Sweep, workload: Workload, factor: float) -> dict[str, Any]:
    """Return the entry of a sweep in plan.json: the columns of the axes in `zip`, and their rows."""
    found = rows(f"sweeps.{name}", sweep, workload, factor)
    return {"axes": [workload.axis(a).column for a in sweep.zip], "rows": [list(row.values()) for row in found]}


def _column(place: str, axis: Axis, given: list[Any], factor: float) -> list[Any]:
    values = given if factor == 1 else [scaled_value(axis, value, factor, place, WHERE) for value in given]
    return [axis.parse(value, f"{place}.{WHERE}.{axis.name}") for value in values]


@contextmanager
def placed(config: Config) -> Iterator[None]:
    """Report errors in values of `zip` with the key `zip` instead of `axes`."""
    try:
        yield
    except UserError as error:
        found = re.fullmatch(r"sweeps\.(.+?)\.(?:roles\.([^.]+)\.)?axes\.([^.]+)", error.place)
        sweep = config.sweeps.get(found[1]) if found else None
        axis = OF_ROLE.join(filter(None, found.groups()[1:])) if found else ""
        if not found or not sweep or axis not in sweep.zip:
            raise
        raise UserError(f"sweeps.{found[1]}.{WHERE}.{axis}", error.problem, error.hint) from None


# Workloads that cannot be roles, because they need an idle store, two stores, or a cache between client and store.
ALONE = ("calibrate", "consistency", "launch", "probe", "replicate", "space")


def declared(config: Config, workloads: Mapping[str, Workload]) -> dict[str, Workload]:
    """Return the workloads of the configuration's sweeps with roles, by name. Raises UserError."""
    known = {name: w for name, w in workloads.items() if name not in ALONE}
    out = {}
    for name, sweep in config.sweeps.items():
        for role, requested in sweep.roles.items():
            problem = f"{requested.workload!r} cannot be the workload of a role"
            require_known(f"sweeps.{name}.roles.{role}.workload", requested.workload, known, problem, "one of:")
        if sweep.roles:
            out[f"{PREFIX}{name}"] = _workload(name, sweep, config, known)
    return out


def _workload(name: str, sweep: Sweep, config: Config, workloads: Mapping[str, Workload]) -> Workload:
    every = {role: workloads[requested.workload] for role, requested in sweep.roles.items()}
    parts = ", ".join(f"{role} ({w.name})" for role, w in every.items())
    writes = any(w.direction == "write" for w in every.values())
    axes = axes_of_roles.all_axes(config.faults, every, in_parts(sweep, every))
    return Workload(f"{PREFIX}{name}", axes, f"At the same time: {parts}.", direction="write" if writes else "read")


def in_parts(sweep: Sweep, roles: Mapping[str, Workload]) -> bool:
    """Return True if points of the sweep have the axis `part`.

    They have it if the sweep has `parts`, or if the workload of a role has this axis.
    """
    return bool(sweep.parts) or any(map(sweeps.has_parts, roles.values()))


class Roles:
    """The scaled roles of a sweep. Raises UserError if times or the number of objects of a role are impossible."""

    def __init__(self, config: Config, name: str, sweep: Sweep, workloads: Mapping[str, Workload]):
        self.config, self.place = config, f"sweeps.{name}"
        self.workloads = {role: workloads[requested.workload] for role, requested in sweep.roles.items()}
        self.whole = Workload(
            f"{PREFIX}{name}", axes_of_roles.point_axes(config.faults, in_parts(sweep, self.workloads)), ""
        )
        for role, requested in sweep.roles.items():
            for axis in requested.axes.keys() & {*axes_of_roles.WHOLE_NAMES}:
                hint = f"move it to {self.place}.axes"
                raise UserError(f"{self._at(role)}.axes.{axis}", f"{axis} is an axis of the whole point", hint)
            buckets_filled(self._at(role), requested, sweep, self.workloads[role])
        scale = config.scale
        self.sweep = scaled(sweep, scale, self.place, self.whole)
        self.roles = {
            role: scaled(requested, scale, self._at(role), self._role_workload(role), names(sweep, role))
            for role, requested in sweep.roles.items()
        }
        self.times = {role: self._times(role, requested) for role, requested in self.roles.items()}

    def _at(self, role: str) -> str:
        return f"{self.place}.roles.{role}"

    def _role_workload(self, role: str) -> Workload:
        """Return the role's workload with only the axes that belong to the role."""
        workload = self.workloads[role]
        return Workload(workload.name, axes_of_roles.role_axes(workload), "")

    def _times(self, role: str, requested: Role) -> tuple[int, int]:
        """Return begin and end of a role in ns after the start."""
        place, whole = self._at(role), self.sweep.duration
        begin = requested.begin.after(whole, self.config.scale)
        end = requested.end.after(whole, self.config.scale) if requested.end else whole
        text = units.human_duration
        for key, at, late in (("begin", begin, begin >= whole), ("end", end, end > whole)):
            if late:
                problem = f"{text(at)} is not within the run of {text(whole)}"
                raise UserError(f"{place}.{key}", problem, "set an earlier time, or a longer `duration`")
        if end <= begin:
            raise UserError(f"{place}.end", f"{text(end)} is not after `begin`, {text(begin)}", "set a later time")
        if self.sweep.warm_up >= end - begin:
            raise UserError(
                f"{self.place}.warm_up",
                f"{text(self.sweep.warm_up)} is not shorter than the role {role}, which lasts {text(end - begin)}",
                "set a shorter time, or a later `end` of the role",
            )
        return begin, end

    def columns(self) -> list[list[Any]]:
        """Return the values of every axis of the sweep's workload, in its order."""
        every = [
            sweep_axes(self._at(role), requested, self._role_workload(role)) for role, requested in self.roles.items()
        ]
        return [*sweep_axes(self.place, self.sweep, self.whole), *itertools.chain.from_iterable(every)]

    def fixed(self, axes: Mapping[str, Any]) -> tuple[dict[str, Any], None]:
        """Return the fixed parameters of the point with these axes: `roles`, and `acts` if it has a fault.

        The data set is None, because each role has a separate data set.
        """
        acts = self._acts(axes[axes_of_roles.FAULT.name])
        return {"roles": [self._entry(role, axes) for role in self.roles]} | ({"acts": acts} if acts else {}), None

    def _acts(self, fault: str) -> list[dict[str, Any]]:
        acts = self.config.faults.get(fault, ())
        return resolved(acts, self.sweep.duration, self.config.scale, f"faults.{fault}")

    def _entry(self, role: str, axes: Mapping[str, Any]) -> dict[str, Any]:
        workload, requested, (begin, end) = self.workloads[role], self.roles[role], self.times[role]
        shares = [a.name for a in workload.axes if a.name in axes_of_roles.WHOLE_NAMES]
        plain = {a.name: axes[self._name(role, a)] for a in workload.axes}
        fixed, dataset = staged_for(
            self.config, self._at(role), requested, workload, plain | {"buckets": axes["buckets"]}
        )
        if "objects" in workload.needs and "mix" not in fixed:  # a mix deletes only objects that it has created
            self._enough(role, fixed["objects"], plain, end - begin)
        head = {"name": role, "workload": workload.name, "begin_ns": begin, "end_ns": end, "shares": shares}
        return head | {"fixed": fixed} | ({"dataset": dataset} if dataset else {})

    @staticmethod
    def _name(role: str, axis: Axis) -> str:
        return axis.name if axis.name in axes_of_roles.WHOLE_NAMES else f"{role}{OF_ROLE}{axis.name}"

    def _enough(self, role: str, objects: int, plain: Mapping[str, Any], lasts_ns: int) -> None:
        """Raise UserError if a client gets no object, or if an open loop needs more objects than exist."""
        place, clients, rate = f"{self._at(role)}.objects", plain["clients"], plain.get("arrival_rate", 0)
        if objects < clients:
            problem = f"{objects} objects are too few for {clients} clients of {self.workloads[role].name}"
            raise UserError(place, problem, f"set at least {clients}")
        if (due := rate * plain.get("batch", 1) * lasts_ns // 10**9) > objects:
            problem = f"{due} operations are due in {units.human_duration(lasts_ns)}, but there are {objects} objects"
            raise UserError(place, problem, f"set at least {due}")

"""Sweeps with roles: several workloads at once, each with its own axes, clients and times (docs/roles.md). Pure.

Such a sweep has a workload of its own, `roles-<sweep>`: its axes are those of the whole point, and those of each role
under its name.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from storelab.core import units
from storelab.core.axes import roles as axes_of_roles
from storelab.core.campaign import Role, Sweep
from storelab.core.campaign.faults import resolved
from storelab.core.config import Config
from storelab.core.errors import UserError, require_known
from storelab.core.model import OF_ROLE, PREFIX, Axis, Workload
from storelab.core.plan import series, together
from storelab.core.plan.sweeps import buckets_filled, scaled, staged_for, sweep_axes

# Workloads that look at a store which does nothing else, that ask two stores, or one through a cache.
ALONE = ("calibrate", "consistency", "launch", "probe", "replicate", "space")


def declared(config: Config, workloads: Mapping[str, Workload]) -> dict[str, Workload]:
    """The workloads of the configuration's sweeps with roles, by name. Raises UserError."""
    known = {name: w for name, w in workloads.items() if name not in ALONE}
    out = {}
    for name, sweep in config.sweeps.items():
        for role, asked in sweep.roles.items():
            problem = f"no workload {asked.workload!r} that a role may have"
            require_known(f"sweeps.{name}.roles.{role}.workload", asked.workload, known, problem, "one of:")
        if sweep.roles:
            out[f"{PREFIX}{name}"] = _workload(name, sweep, config, known)
    return out


def _workload(name: str, sweep: Sweep, config: Config, workloads: Mapping[str, Workload]) -> Workload:
    every = {role: workloads[asked.workload] for role, asked in sweep.roles.items()}
    told = ", ".join(f"{role} ({w.name})" for role, w in every.items())
    writes = any(w.direction == "write" for w in every.values())
    axes = axes_of_roles.of(config.faults, every, in_parts(sweep, every))
    return Workload(f"{PREFIX}{name}", axes, f"At once: {told}.", direction="write" if writes else "read")


def in_parts(sweep: Sweep, roles: Mapping[str, Workload]) -> bool:
    """Whether points of the sweep have the axis `part`: it is measured in parts, or a role's workload asks for it."""
    return bool(sweep.parts) or any(map(series.keeps, roles.values()))


class Roles:
    """The roles of a sweep, scaled. Raises UserError where a role's times or number of objects cannot be."""

    def __init__(self, config: Config, name: str, sweep: Sweep, workloads: Mapping[str, Workload]):
        self.config, self.place = config, f"sweeps.{name}"
        self.workloads = {role: workloads[asked.workload] for role, asked in sweep.roles.items()}
        self.whole = Workload(
            f"{PREFIX}{name}", axes_of_roles.of_point(config.faults, in_parts(sweep, self.workloads)), ""
        )
        for role, asked in sweep.roles.items():
            for axis in asked.axes.keys() & {*axes_of_roles.WHOLE_NAMES}:
                mend = f"write it in {self.place}.axes"
                raise UserError(f"{self._at(role)}.axes.{axis}", f"{axis} is of the whole point", mend)
            buckets_filled(self._at(role), asked, sweep, self.workloads[role])
        scale = config.scale
        self.sweep = scaled(sweep, scale, self.place, self.whole)
        self.roles = {
            role: scaled(asked, scale, self._at(role), self._own(role), together.names(sweep, role))
            for role, asked in sweep.roles.items()
        }
        self.times = {role: self._times(role, asked) for role, asked in self.roles.items()}

    def _at(self, role: str) -> str:
        return f"{self.place}.roles.{role}"

    def _own(self, role: str) -> Workload:
        """The role's workload, with the axes that are its own alone."""
        workload = self.workloads[role]
        return Workload(workload.name, axes_of_roles.own(workload), "")

    def _times(self, role: str, asked: Role) -> tuple[int, int]:
        """When it begins and ends, in ns after the start."""
        place, whole = self._at(role), self.sweep.duration
        begin = asked.begin.after(whole, self.config.scale)
        end = asked.end.after(whole, self.config.scale) if asked.end else whole
        told = units.human_duration
        for key, at, late in (("begin", begin, begin >= whole), ("end", end, end > whole)):
            if late:
                problem = f"{told(at)} is not within the run of {told(whole)}"
                raise UserError(f"{place}.{key}", problem, "make it earlier, or raise `duration`")
        if end <= begin:
            raise UserError(f"{place}.end", f"ends at {told(end)}, and begins at {told(begin)}", "let it end later")
        if self.sweep.warm_up >= end - begin:
            raise UserError(
                f"{self.place}.warm_up",
                f"{told(self.sweep.warm_up)} leave nothing of role {role}, which lasts {told(end - begin)}",
                "make it shorter than that, or let the role last longer",
            )
        return begin, end

    def columns(self) -> list[list[Any]]:
        """The values of every axis of the sweep's workload, in its order."""
        every = [sweep_axes(self._at(role), asked, self._own(role)) for role, asked in self.roles.items()]
        return [*sweep_axes(self.place, self.sweep, self.whole), *itertools.chain.from_iterable(every)]

    def fixed(self, axes: Mapping[str, Any]) -> tuple[dict[str, Any], None]:
        """What is no axis of the point with these axes: `roles`, and `acts` where there is a fault. Its roles have the
        data sets."""
        acts = self._acts(axes[axes_of_roles.FAULT.name])
        return {"roles": [self._told(role, axes) for role in self.roles]} | ({"acts": acts} if acts else {}), None

    def _acts(self, fault: str) -> list[dict[str, Any]]:
        acts = self.config.faults.get(fault, ())
        return resolved(acts, self.sweep.duration, self.config.scale, f"faults.{fault}")

    def _told(self, role: str, axes: Mapping[str, Any]) -> dict[str, Any]:
        workload, asked, (begin, end) = self.workloads[role], self.roles[role], self.times[role]
        shares = [a.name for a in workload.axes if a.name in axes_of_roles.WHOLE_NAMES]
        plain = {a.name: axes[self._name(role, a)] for a in workload.axes}
        fixed, dataset = staged_for(self.config, self._at(role), asked, workload, plain | {"buckets": axes["buckets"]})
        if "objects" in workload.needs and "mix" not in fixed:  # those of a mix are not used up
            self._enough(role, fixed["objects"], plain, end - begin)
        head = {"name": role, "workload": workload.name, "begin_ns": begin, "end_ns": end, "shares": shares}
        return head | {"fixed": fixed} | ({"dataset": dataset} if dataset else {})

    @staticmethod
    def _name(role: str, axis: Axis) -> str:
        return axis.name if axis.name in axes_of_roles.WHOLE_NAMES else f"{role}{OF_ROLE}{axis.name}"

    def _enough(self, role: str, objects: int, plain: Mapping[str, Any], lasts_ns: int) -> None:
        """Raises UserError: not every client has an object, or an open loop runs out of them."""
        place, clients, rate = f"{self._at(role)}.objects", plain["clients"], plain.get("arrival_rate", 0)
        if objects < clients:
            problem = f"{objects} objects for {clients} clients: some have nothing to {self.workloads[role].name}"
            raise UserError(place, problem, f"give {clients} or more")
        if (due := rate * plain.get("batch", 1) * lasts_ns // 10**9) > objects:
            problem = f"{due} are due in {units.human_duration(lasts_ns)}, and there are {objects}"
            raise UserError(place, problem, f"give {due}")

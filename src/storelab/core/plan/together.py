"""Axes of a sweep that go together (`together:`): its rows, typed and scaled. Pure.

A row replaces a value of each of its axes at once; the rows are multiplied with the product of the other axes.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from storelab.core.axes.roles import PART
from storelab.core.campaign import Sweep
from storelab.core.config import Config
from storelab.core.errors import UserError, require_known
from storelab.core.model import OF_ROLE, Axis, Workload
from storelab.core.plan.sweeps import MOST_POINTS, scaled_value

WHERE = "together"


def names(sweep: Sweep, role: str = "") -> list[str]:
    """Its coupled axes: those of the sweep itself, or of a role, by their plain names."""
    parts = [axis.rpartition(OF_ROLE) for axis in sweep.together]
    return [own for name, _, own in parts if name == role]


def rows(place: str, sweep: Sweep, workload: Workload, factor: float) -> list[dict[str, Any]]:
    """Axis -> value of each row, in their order; one empty row where nothing goes together. Those in `scaled_axes` are
    multiplied by `factor`. Raises UserError."""
    if not sweep.together:
        return [{}]
    here, known = f"{place}.{WHERE}", {a.name: a for a in workload.axes}
    for axis in sweep.together:
        problem = f"{workload.name} has no axis {axis!r}"
        require_known(f"{here}.{axis}", axis, known, problem, "its axes:")
        role, _, own = axis.rpartition(OF_ROLE)
        if own in (sweep.roles[role].axes if role else sweep.axes):
            raise UserError(f"{here}.{axis}", f"{axis} stands in `axes` too", "write it in one of them")
        if own == PART.name:
            raise UserError(f"{here}.{axis}", "parts are numbered by themselves", f"write {place}.parts: 24")
    length = len(next(iter(sweep.together.values())))
    if length > MOST_POINTS:
        raise UserError(here, f"{length} rows are listed", f"a plan has at most {MOST_POINTS} points")
    scaled = [*sweep.scaled_axes, *(f"{n}{OF_ROLE}{a}" for n, role in sweep.roles.items() for a in role.scaled_axes)]
    columns = {
        axis: _column(place, known[axis], given, factor if axis in scaled else 1)
        for axis, given in sweep.together.items()
    }
    found = list(zip(*columns.values(), strict=True))
    if len(set(found)) < length and (factor == 1 or not columns.keys() & set(scaled)):
        again = next(i for i, row in enumerate(found) if row in found[:i])
        problem = f"row {again + 1} is row {found.index(found[again]) + 1} again"
        raise UserError(here, problem, "name it once; `repetitions` measures it again")
    return [dict(zip(columns, row, strict=True)) for row in dict.fromkeys(found)]


def told(name: str, sweep: Sweep, workload: Workload, factor: float) -> dict[str, Any]:
    """What plan.json says of the sweep of this name: the columns of its coupled axes, and the rows."""
    found = rows(f"sweeps.{name}", sweep, workload, factor)
    return {"axes": [workload.axis(a).column for a in sweep.together], "rows": [list(row.values()) for row in found]}


def _column(place: str, axis: Axis, given: list[Any], factor: float) -> list[Any]:
    values = given if factor == 1 else [scaled_value(axis, value, factor, place, WHERE) for value in given]
    return [axis.parse(value, f"{place}.{WHERE}.{axis.name}") for value in values]


@contextmanager
def placed(config: Config) -> Iterator[None]:
    """A mistake in the value of an axis that stands in `together` is told there, not in `axes`."""
    try:
        yield
    except UserError as error:
        found = re.fullmatch(r"sweeps\.(.+?)\.(?:roles\.([^.]+)\.)?axes\.([^.]+)", error.place)
        sweep = config.sweeps.get(found[1]) if found else None
        axis = OF_ROLE.join(filter(None, found.groups()[1:])) if found else ""
        if not found or not sweep or axis not in sweep.together:
            raise
        raise UserError(f"sweeps.{found[1]}.{WHERE}.{axis}", error.problem, error.mend) from None

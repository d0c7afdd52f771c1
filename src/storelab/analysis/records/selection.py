"""Selection of table rows by the values of their columns, and of related points of a plan.

* Series: points that differ only in their part, because the sweep is measured in parts (docs/soak.md).
* Couplings: axes that vary together in a sweep.
"""

import operator
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

SIGNS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
Where = Mapping[str, Any]


def select(table: pd.DataFrame, where: Where) -> pd.DataFrame:
    """Return the rows of a table that fulfil the conditions of `matching`."""
    return filter_rows(table, matching(table, where))


def filter_rows(table: pd.DataFrame, kept: np.ndarray) -> pd.DataFrame:
    """Return the rows of a table for which `kept` (shape (rows,), bool) is true.

    If no row is kept, the table is not copied, because copying takes time for each column.
    """
    return table[kept] if kept.any() else table.iloc[:0]


def matching(table: pd.DataFrame, where: Where) -> np.ndarray:
    """Return which rows of a table (shape (rows,), bool) fulfil every condition.

    A condition is a column with a value, several values, a comparison such as `>= 1000000`, or `least` or `most`. The
    last two select the smallest or largest value of the rows that fulfil the previous conditions. If the table does not
    have the column, no row fulfils the condition.
    """
    kept = np.ones(len(table), dtype=bool)
    for column, wanted in where.items():
        if column not in table or not kept.any():
            return np.zeros(len(table), dtype=bool)
        values = table[column]
        if wanted in ("least", "most"):
            left = values[kept]
            more = values == (left.min() if wanted == "least" else left.max())
        elif isinstance(wanted, str) and (found := re.fullmatch(r"(>=|<=|>|<) *(\S+)", wanted)):
            more = SIGNS[found[1]](values.astype("Float64"), float(found[2]))
        else:
            more = values.isin(list(wanted) if isinstance(wanted, list | tuple) else [wanted])
        kept &= more.fillna(False).to_numpy(bool)
    return kept


_PART = re.compile(r"(?<=[/_])part~(\d+)_")


def split_part(key: str) -> tuple[str, int]:
    """Split the key of a point into the name of its series (the key without the part) and the number of the part.

    The number is 0 for a point that does not belong to a series.
    """
    name, _, axes = key.rpartition("/")
    found = _PART.search(f"/{axes}")
    return (f"{name}{_PART.sub('', f'/{axes}')}", int(found[1])) if found else (key, 0)


def parts_of(keys: Iterable[str]) -> dict[str, list[str]]:
    """Return the series of these points: name of the series -> keys of its parts, in the order of the parts."""
    found: dict[str, list[tuple[int, str]]] = {}
    for key in keys:
        name, part = split_part(key)
        if part:
            found.setdefault(name, []).append((part, key))
    return {name: [key for _, key in sorted(parts)] for name, parts in found.items()}


def lengths_ns(plan: Mapping[str, Any]) -> dict[str, int]:
    """Return for each point that is a part of a series the planned duration of the whole series, in ns: key -> ns."""
    lasts = {p["key"]: p["fixed"]["duration_ns"] for p in plan["points"] if split_part(p["key"])[1]}
    return {key: sum(lasts[k] for k in keys) for keys in parts_of(lasts).values() for key in keys}


PointGroup = tuple[str, ...]  # workload, then the value of each of its axes as text


@dataclass(frozen=True)
class Coupling:
    """Axes (columns) that vary together in one or more sweeps.

    rows: values of the axes, in order; groups: the groups of points with these values; alone: the groups that belong
    only to these sweeps; columns: workload -> columns of its axes.
    """

    axes: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    groups: frozenset[PointGroup]
    alone: frozenset[PointGroup]
    columns: Mapping[str, Sequence[str]]

    @property
    def workloads(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def along(self, table: pd.DataFrame) -> pd.Series:
        """Return which rows of a table have values of this coupling."""
        return self._among(table, self.groups)

    def only(self, table: pd.DataFrame) -> pd.Series:
        """Return which rows of a table have values of this coupling and belong to no other sweep."""
        return self._among(table, self.alone)

    def _among(self, table: pd.DataFrame, groups: Collection[PointGroup]) -> pd.Series:
        found = pd.Series(False, index=table.index)
        for workload, columns in self.columns.items() if "workload" in table else ():
            rows = table[table["workload"] == workload].reindex(columns=columns)
            for place, values in zip(rows.index, rows.astype(object).itertuples(index=False), strict=True):
                found[place] = _group(workload, values) in groups
        return found


def _group(workload: str, values: Sequence[Any]) -> PointGroup:
    plain = ("" if value is None or pd.isna(value) else value for value in values)
    return workload, *(value if isinstance(value, str) else repr(float(value)) for value in plain)


def couplings_of(plan: Mapping[str, Any]) -> list[Coupling]:
    """Return the couplings of a plan, in its order. Sweeps with the same axes and rows share one coupling.

    Rows in which every axis has a value twice are part of a grid, such as clients and front-ends without the settings
    in which a front-end has no client. This is not a coupling, because the axes vary separately.
    """
    if not plan.get("together"):
        return []
    columns = {w: {a["name"]: a["column"] for a in workload["axes"]} for w, workload in plan["workloads"].items()}
    found: dict[tuple[Any, ...], dict[str, list[Any]]] = {}
    for sweep, coupled in plan["together"].items():
        points = [p for p in plan["points"] if p["sweep"] == sweep]
        known = found.setdefault(
            (tuple(coupled["axes"]), tuple(map(tuple, coupled["rows"]))), {"points": [], "workloads": []}
        )
        known["points"] += points
        known["workloads"] += [p["workload"] for p in points]
    out = []
    for (axes, rows), known in found.items():
        if all(len(set(values)) < len(values) for values in zip(*rows, strict=True)):
            continue
        alone, every = set(), set()
        for p in known["points"]:
            values = {columns[p["workload"]][name]: value for name, value in p["axes"].items()}
            alone.add(_group(p["workload"], list(values.values())))
            every |= {
                _group(p["workload"], list((values | dict(zip(axes, row, strict=True))).values())) for row in rows
            }
        used = {w: list(columns[w].values()) for w in dict.fromkeys(known["workloads"])}
        out.append(Coupling(axes, rows, frozenset(every), frozenset(alone), used))
    return out

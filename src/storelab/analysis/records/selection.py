"""Rows of a table, chosen by what its columns hold; and points of a plan that belong together. Pure.

* Series: points of a sweep in parts, which differ in their part only (docs/soak.md).
* Couplings: axes that go together in a sweep.
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
    """The rows of a table that are `matching`."""
    return taken(table, matching(table, where))


def taken(table: pd.DataFrame, kept: np.ndarray) -> pd.DataFrame:
    """The rows of a table that are kept (shape (rows,), bool). Each column of a wide table takes its time for that, but
    not where none is kept."""
    return table[kept] if kept.any() else table.iloc[:0]


def matching(table: pd.DataFrame, where: Where) -> np.ndarray:
    """Which rows of a table (shape (rows,), bool) fulfil every condition, column: a value, several values,
    `>= 1000000`, or `least` or `most` of what the conditions before it left. A column that the table lacks leaves no
    row."""
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
    """The key of a point without its part, which names its series, and the part; 0 where it is none."""
    name, _, axes = key.rpartition("/")
    found = _PART.search(f"/{axes}")
    return (f"{name}{_PART.sub('', f'/{axes}')}", int(found[1])) if found else (key, 0)


def parts_of(keys: Iterable[str]) -> dict[str, list[str]]:
    """Name of a series -> the keys of its parts, ascending."""
    found: dict[str, list[tuple[int, str]]] = {}
    for key in keys:
        name, part = split_part(key)
        if part:
            found.setdefault(name, []).append((part, key))
    return {name: [key for _, key in sorted(parts)] for name, parts in found.items()}


def lengths_ns(plan: Mapping[str, Any]) -> dict[str, int]:
    """Key of each part -> how long its series is measured in all, as planned."""
    lasts = {p["key"]: p["fixed"]["duration_ns"] for p in plan["points"] if split_part(p["key"])[1]}
    return {key: sum(lasts[k] for k in keys) for keys in parts_of(lasts).values() for key in keys}


PointGroup = tuple[str, ...]  # workload, then the value of each of its axes as text


@dataclass(frozen=True)
class Coupling:
    """Axes (columns) that go together in one or several sweeps, the rows of their values, in order, and the groups of
    points that lie along them. `alone`: those that no other sweep asks for."""

    axes: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    groups: frozenset[PointGroup]
    alone: frozenset[PointGroup]
    columns: Mapping[str, Sequence[str]]  # of the axes of each workload

    @property
    def workloads(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def along(self, table: pd.DataFrame) -> pd.Series:
        """Which rows of a table lie along it."""
        return self._among(table, self.groups)

    def only(self, table: pd.DataFrame) -> pd.Series:
        """Which rows lie along it, and stand in no other sweep."""
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
    """Those of a plan, in its order; sweeps with the same axes and rows have one."""
    if not plan.get("together"):
        return []
    columns = {w: {a["name"]: a["column"] for a in told["axes"]} for w, told in plan["workloads"].items()}
    found: dict[tuple[Any, ...], dict[str, list[Any]]] = {}
    for sweep, told in plan["together"].items():
        own = [p for p in plan["points"] if p["sweep"] == sweep]
        known = found.setdefault((tuple(told["axes"]), tuple(map(tuple, told["rows"]))), {"own": [], "names": []})
        known["own"] += own
        known["names"] += [p["workload"] for p in own]
    out = []
    for (axes, rows), known in found.items():
        alone, every = set(), set()
        for p in known["own"]:
            values = {columns[p["workload"]][name]: value for name, value in p["axes"].items()}
            alone.add(_group(p["workload"], list(values.values())))
            every |= {
                _group(p["workload"], list((values | dict(zip(axes, row, strict=True))).values())) for row in rows
            }
        used = {w: list(columns[w].values()) for w in dict.fromkeys(known["names"])}
        out.append(Coupling(axes, rows, frozenset(every), frozenset(alone), used))
    return out

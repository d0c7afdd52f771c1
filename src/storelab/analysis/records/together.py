"""Axes that go together in a sweep, as the plan tells them: which rows of a table lie along its rows. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

Group = tuple[str, ...]  # workload, then the value of each of its axes as text


@dataclass(frozen=True)
class Coupling:
    """Axes (columns) that go together in one or several sweeps, the rows of their values, in order, and the groups of
    points that lie along them. `alone`: those that no other sweep asks for."""

    axes: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    groups: frozenset[Group]
    alone: frozenset[Group]
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

    def _among(self, table: pd.DataFrame, groups: Collection[Group]) -> pd.Series:
        found = pd.Series(False, index=table.index)
        for workload, columns in self.columns.items() if "workload" in table else ():
            rows = table[table["workload"] == workload].reindex(columns=columns)
            for place, values in zip(rows.index, rows.astype(object).itertuples(index=False), strict=True):
                found[place] = _group(workload, values) in groups
        return found


def _group(workload: str, values: Sequence[Any]) -> Group:
    return workload, *(value if isinstance(value, str) else repr(float(value)) for value in map(_plain, values))


def _plain(value: Any) -> Any:
    return "" if value is None or pd.isna(value) else value


def of_plan(plan: Mapping[str, Any]) -> list[Coupling]:
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

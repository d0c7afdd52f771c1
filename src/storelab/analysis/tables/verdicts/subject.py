"""What a verdict is about: the runs of a subject, what is known of its best group, and what a rule is. May import: what
`tables` may.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Group:
    """Points that differ in `rep` alone: their axes (column -> value, None where the workload has no such axis) and a
    speed per run."""

    axes: Mapping[str, Any]
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(pd.Series(self.values).median())


@dataclass(frozen=True)
class Subject:
    """What a verdict is about. best: the group with the highest median; row: its values of throughput.csv and
    resources.csv.

    groups: all groups with a rate; points: all runs, also those that failed; curves: rows of scaling.csv (may be
    empty).
    """

    best: Group
    row: Mapping[str, Any]
    groups: tuple[Group, ...]
    points: pd.DataFrame
    curves: pd.DataFrame

    def number(self, name: str) -> float | None:
        """A value of the best group, None where it is not known."""
        value = self.row.get(name)
        return None if value is None or pd.isna(value) else float(value)

    @property
    def shared(self) -> bool:
        value = self.row.get("shared_host")
        return value is not None and not pd.isna(value) and bool(value)

    def along(self, axis: str) -> list[Group]:
        """The groups that differ from the best in this axis alone, the best among them, by its value."""
        same = {k: v for k, v in self.best.axes.items() if k != axis}
        found = [
            g
            for g in self.groups
            if g.axes.get(axis) is not None and {k: v for k, v in g.axes.items() if k != axis} == same
        ]
        return sorted(found, key=lambda g: g.axes[axis])


Test = Callable[[Subject], str | None]


@dataclass(frozen=True)
class Rule:
    """`verdict`: what limited; `test`: its evidence or None; `says`: when it fires, for the documentation."""

    verdict: str
    test: Test
    says: str

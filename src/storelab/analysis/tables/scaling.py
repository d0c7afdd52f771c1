"""`scaling.csv`: where each scaling curve stops rising, or falls, with its interval, and linearity.
docs/statistics.md explains it.

A curve is the speed (`speed`) of the points that differ in one axis alone; the unit is the run. `statistics.knees` has
the definitions.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, speed, words
from storelab.analysis.records import together
from storelab.analysis.statistics import knees
from storelab.core.axes import ALL

AXES = tuple(a.column for a in ALL.values() if a.curve)
TOGETHER = ", "  # between axes that go together
SHAPES = {  # in a sentence; {0}: how many
    knees.KNEE: "{0} reach{2} a knee",
    knees.PEAK: "{0} peak{1}",
    knees.RISING: "{0} still rise{1} at the end",
    knees.BENDING: "{0} bend{1} (the last step rises, but less than the steps before)",
    knees.LEVEL: "{0} do{2} not rise",
    knees.CANNOT_TELL: "{0} cannot be judged by the runs (scaling.csv only)",
}
# Columns: what of a curve, and which part of its interval.
PARTS = tuple(f"{n}_{p}" for n in ("knee", "plateau", "slope", "linearity") for p in ("value", "low", "high"))


def couplings(plan: Mapping[str, Any]) -> list[together.Coupling]:
    """Axes that go together."""
    return together.of_plan(plan)


def table(points: pd.DataFrame, axes: Mapping[str, str], coupled: Sequence[together.Coupling] = ()) -> pd.DataFrame:
    """One row per curve of AXES: identity (the axis itself null), axis, metric, values, least, most, n, curve, knee,
    plateau, slope, linearity. A curve along axes that go together, of which the first is one of AXES, runs over that
    one: `axis` names all of them (`front_ends, clients`), which are null.

    knee_ (the peak where `curve` says so), plateau_, slope_, linearity_ each with value, low, high; plateau in MB/s or
    1/s as `metric` says, slope in
    that per unit. `points`: points.csv of workloads that have a rate; runs with a speed of 0 are left out. `axes`:
    column -> dtype of the plan's axes.
    """
    rows = [head | _columns(knees.fit(x, y)) for head, x, y in curves(points, axes, coupled)]
    columns = ["store", "workload", *axes, "axis", "metric", "values", "least", "most", "n", "curve", *PARTS, "reason"]
    return pd.DataFrame(rows, columns=columns).astype(dict(axes))


def curves(
    points: pd.DataFrame, axes: Mapping[str, str], coupled: Sequence[together.Coupling] = ()
) -> Iterator[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
    """Each curve of `table`: what identifies it, the values of its axis and the speeds of its runs, shape (n,)."""
    by = ["store", "workload", *axes]
    runs = speed.of_points(points)
    runs = runs[runs["value"] > 0]
    for axis in (a for a in AXES if a in by):
        yield from _curves(runs[runs[axis].notna()], (axis,), by)
    for coupling in coupled:
        if coupling.axes[0] in AXES and len({row[0] for row in coupling.rows}) == len(coupling.rows):
            yield from _curves(runs[coupling.along(runs)], coupling.axes, by)


def _curves(
    runs: pd.DataFrame, axes: Sequence[str], by: Sequence[str]
) -> Iterator[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
    """The curves over the first of these axes, with which the others go."""
    others = [c for c in [*by, "metric"] if c not in axes]
    for key, group in groups.grouped(runs, others):
        x = group[axes[0]].to_numpy(dtype=float)
        values = np.unique(x)
        if len(values) >= knees.LEAST_VALUES:
            head = {"axis": TOGETHER.join(axes), "values": len(values), "n": len(x)}
            head |= {"least": int(values[0]), "most": int(values[-1])}
            yield key | head, x, group["value"].to_numpy(dtype=float)


def _columns(curve: knees.Curve) -> dict[str, Any]:
    parts = {column: attrgetter(column.replace("_", "."))(curve) for column in PARTS}
    return {"curve": curve.shape, "reason": curve.reason or None} | parts


def numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """curves; curves_shapes: how many have which shape, in words; the extremes of linearity over the curves of
    front-ends that the runs can tell. Absent data, no row."""
    if found.empty:
        return []
    counts = {text: int((found["curve"] == shape).sum()) for shape, text in SHAPES.items()}
    said = words.listed([text.format(n, *(("s", "es") if n == 1 else ("", ""))) for text, n in counts.items() if n])
    out: list[tuple[str, Any, str]] = [("curves", len(found), ""), ("curves_shapes", said, "")]
    known = (found["curve"] != knees.CANNOT_TELL) & found["linearity_low"].notna()
    rows = found[(found["axis"].str.split(TOGETHER).str[0] == "front_ends") & known]
    if len(rows):
        worst, best = (rows.loc[rows["linearity_value"].astype(float).agg(which)] for which in ("idxmin", "idxmax"))
        out.append(("linearity_front_ends", " to ".join(dict.fromkeys(map(linearity, (worst, best)))), ""))
    return out


def linearity(row: Mapping[str, Any]) -> str:
    """In words, to two decimals: 1 is proportional. Empty where there is none."""
    value, low, high = (words.number(row[f"linearity_{part}"], places=2) for part in ("value", "low", "high"))
    return "" if pd.isna(row["linearity_value"]) else f"{value} [{low}, {high}]"

"""`scaling.csv`: where each scaling curve stops rising, or falls, with its interval, and linearity.
docs/statistics.md explains it.

A curve is the speed (`speed`) of the points that differ in one axis alone; the unit is the run. `statistics.knees` has
the definitions.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, speed, words
from storelab.analysis.statistics import knees
from storelab.analysis.tables import NUMBERS, TABLE
from storelab.core.axes import ALL

AXES = tuple(a.column for a in ALL.values() if a.curve)
# Columns: what of a curve, and which part of its interval.
PARTS = tuple(f"{n}_{p}" for n in ("knee", "plateau", "slope", "linearity") for p in ("value", "low", "high"))


@TABLE("scaling", "rated", "axes")
def table(points: pd.DataFrame, axes: Mapping[str, str]) -> pd.DataFrame:
    """One row per curve of AXES: identity (the axis itself null), axis, metric, values, least, most, n, curve, knee,
    plateau, slope, linearity.

    knee_ (the peak where `curve` says so), plateau_, slope_, linearity_ each with value, low, high; plateau in MB/s or
    1/s as `metric` says, slope in
    that per unit. `points`: points.csv of workloads that have a rate; runs with a speed of 0 are left out. `axes`:
    column -> dtype of the plan's axes.
    """
    by = ["store", "workload", *axes]
    runs = speed.of_points(points)
    runs = runs[runs["value"] > 0]
    rows: list[dict[str, Any]] = []
    for axis in (a for a in AXES if a in by):
        others = [c for c in [*by, "metric"] if c != axis]
        for key, group in groups.grouped(runs[runs[axis].notna()], others):
            x = group[axis].to_numpy(dtype=float)
            values = np.unique(x)
            if len(values) >= knees.LEAST_VALUES:
                head = {
                    "axis": axis,
                    "values": len(values),
                    "least": int(values[0]),
                    "most": int(values[-1]),
                    "n": len(x),
                }
                rows.append(key | head | _columns(knees.fit(x, group["value"].to_numpy(dtype=float))))
    columns = [*by, "axis", "metric", "values", "least", "most", "n", "curve", *PARTS, "reason"]
    return pd.DataFrame(rows, columns=columns).astype(dict(axes))


def _columns(curve: knees.Curve) -> dict[str, Any]:
    parts = {column: attrgetter(column.replace("_", "."))(curve) for column in PARTS}
    return {"curve": curve.shape, "reason": curve.reason or None} | parts


@NUMBERS("scaling", "scaling")
def numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """curves, knees, curves_peaked, curves_rising (still rising or bending), curves_level, curves_unknown; the extremes
    of linearity over the curves of front-ends. Absent data, no row."""
    if found.empty:
        return []
    kinds = {
        "knees": [knees.KNEE],
        "curves_peaked": [knees.PEAK],
        "curves_rising": [knees.RISING, knees.BENDING],
        "curves_level": [knees.LEVEL],
        "curves_unknown": [knees.CANNOT_TELL],
    }
    out: list[tuple[str, Any, str]] = [("curves", len(found), "")]
    out += [(name, int(found["curve"].isin(shapes).sum()), "") for name, shapes in kinds.items()]
    rows = found[(found["axis"] == "front_ends") & found["linearity_low"].notna()]
    if len(rows):
        worst, best = (rows.loc[rows["linearity_value"].astype(float).agg(which)] for which in ("idxmin", "idxmax"))
        out.append(("linearity_front_ends", " to ".join(dict.fromkeys(map(linearity, (worst, best)))), ""))
    return out


def linearity(row: Mapping[str, Any]) -> str:
    """In words, to two decimals: 1 is proportional. Empty where there is none."""
    value, low, high = (words.number(row[f"linearity_{part}"], places=2) for part in ("value", "low", "high"))
    return "" if pd.isna(row["linearity_value"]) else f"{value} [{low}, {high}]"

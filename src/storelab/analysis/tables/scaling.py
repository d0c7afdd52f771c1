"""`scaling.csv`: the knee of each scaling curve with its interval, and linearity.
docs/statistics.md explains it.

A curve is the speed (`speed`) of the points that differ in one axis alone; the unit is the run.

* knee: the value of the axis beyond which the speed rises no more. Segmented regression (R. Quandt, JASA 53, 1958,
  873-880): up to the knee the speed follows a law, beyond it is level. Two laws are tried, since real curves keep to
  none exactly: a power of the axis (scatter in the logarithm) and a straight line (scatter relative to the speed).
  Interval by profile likelihood (D. M. Bates and D. G. Watts, *Nonlinear Regression Analysis*, 1988, section 6.1):
  every knee whose residual sum of squares, under the better law, is less than 1 + F(1, N - 3) / (N - 3) times the
  smallest.
* curve: `knee`; `still rising`: the last step still rises and nothing contradicts one law throughout; `bending`: it
  still rises, but less than before; `not rising`: no rise is seen at all; `cannot tell`. A step rises where the 95 %
  interval of its ratio (t, variance pooled over the values) lies above 1. Only `knee` has a knee and an upper bound;
  else the knee lies beyond `knee_low`, if anywhere.
* slope: of the straight line through the runs up to the knee, per unit of the axis (relative weights;
  scipy.optimize.curve_fit).
* linearity: slope of log speed against log value over all that was measured: 1 is proportional, 0 no gain.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from storelab.analysis.parts import groups, speed, words
from storelab.analysis.statistics.medians import CONFIDENCE
from storelab.analysis.tables import NUMBERS, TABLE
from storelab.core.axes import ALL

AXES = tuple(a.column for a in ALL.values() if a.curve)
LEAST_VALUES = 3
STEPS = 200  # knees tried between two measured values
# Columns: what of a curve, and which part of its interval.
PARTS = tuple(f"{n}_{p}" for n in ("knee", "plateau", "slope", "linearity") for p in ("value", "low", "high"))
KNEE, RISING, BENDING, LEVEL, CANNOT_TELL = "knee", "still rising", "bending", "not rising", "cannot tell"


@dataclass(frozen=True)
class Interval:
    """An estimate between `low` and `high` at 95 %; NaN: not known."""

    value: float
    low: float
    high: float


UNKNOWN = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Curve:
    """What `fit` found of runs (x, y); see the module's definitions. plateau and slope in the unit of y (per unit of
    x)."""

    shape: str = CANNOT_TELL
    knee: Interval = UNKNOWN
    plateau: Interval = UNKNOWN
    slope: Interval = UNKNOWN
    linearity: Interval = UNKNOWN
    reason: str = ""


def _t(df: int) -> float:
    return float(special.stdtrit(df, (1 + CONFIDENCE) / 2))


def _around(value: float, error: float, df: int) -> Interval:
    return Interval(value, value - _t(df) * error, value + _t(df) * error)


def _squares(z: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Residual sum of squares of the regression of y (n,) on each row of z (k, n); infinite where the slope is
    negative."""
    zc, yc = z - ((z * w).sum(1) / w.sum())[:, None], y - (y * w).sum() / w.sum()
    sxx, sxy = (w * zc**2).sum(1), (w * zc * yc).sum(1)
    slope = np.divide(sxy, sxx, out=np.zeros_like(sxx), where=sxx > 0)
    return np.where(slope >= 0, (w * yc**2).sum() - slope * sxy, np.inf)


def profile(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knees tried (ascending, from the least to the largest x) and the residual sum of squares with each, of the better
    law."""
    values = np.unique(x)
    ends = np.log(values)
    tried = [np.linspace(a, b, STEPS, endpoint=False) for a, b in itertools.pairwise(ends)]
    knees = np.exp(np.concatenate(tried))
    knees = np.append(knees, values[-1])
    z = np.minimum(x, knees[:, None])
    relative = np.array([np.exp(np.log(y[x == v]).mean()) for v in values])[np.searchsorted(values, x)] ** -2
    return knees, np.minimum(_squares(np.log(z), np.log(y), np.ones_like(y)), _squares(z, y, relative))


def _last_step_rises(x: np.ndarray, y: np.ndarray) -> bool:
    values = np.unique(x)
    groups = [np.log(y[x == v]) for v in values]
    df = len(y) - len(values)
    error = math.sqrt(
        sum(((g - g.mean()) ** 2).sum() for g in groups) / df * (1 / len(groups[-1]) + 1 / len(groups[-2]))
    )
    return _around(groups[-1].mean() - groups[-2].mean(), error, df).low > 0


def knee(x: np.ndarray, y: np.ndarray) -> tuple[str, Interval]:
    """Shape and knee. Needs N >= values + 2 runs, so that their scatter is known."""
    knees, squares = profile(x, y)
    best, free = int(np.argmin(squares)), len(y) - 3
    level = ((np.log(y) - np.log(y).mean()) ** 2).sum()
    if best == 0 or level <= squares[best] * (1 + 2 * special.fdtri(2, free, CONFIDENCE) / free):
        return LEVEL, UNKNOWN
    held = np.flatnonzero(squares <= squares[best] * (1 + special.fdtri(1, free, CONFIDENCE) / free))
    low, high = knees[max(held[0] - 1, 0)], knees[min(held[-1] + 1, len(knees) - 1)]  # outwards to the next one tried
    throughout, rises = held[-1] == len(knees) - 1, _last_step_rises(x, y)
    if not throughout and not rises:
        return KNEE, Interval(float(knees[best]), float(low), float(high))
    shape = (RISING if throughout else BENDING) if rises else CANNOT_TELL
    return shape, Interval(math.nan, float(low), math.nan)


def _slope(x: np.ndarray, y: np.ndarray) -> Interval:
    """Of the line through the runs, weighted by their relative scatter."""
    if len(np.unique(x)) < 2 or len(x) < 3:
        return UNKNOWN
    from scipy.optimize import curve_fit  # here: few campaigns have a curve, and it is slow to load

    sigma = np.array([y[x == v].mean() for v in x])
    (_, slope), covariance = curve_fit(lambda v, a, b: a + b * v, x, y, p0=(y.mean(), 0.0), sigma=sigma)
    return _around(float(slope), math.sqrt(covariance[1][1]), len(x) - 2)


def _linearity(x: np.ndarray, y: np.ndarray) -> Interval:
    (slope, _), covariance = np.polyfit(np.log(x), np.log(y), 1, cov=True)
    return _around(float(slope), math.sqrt(covariance[0][0]), len(x) - 2)


def _plateau(x: np.ndarray, y: np.ndarray, knee: float) -> Interval:
    """Geometric mean of the runs at and beyond the knee (at the last two values at least, which do not rise)."""
    logs = np.log(y[x >= min(knee, np.unique(x)[-2])])
    found = _around(logs.mean(), logs.std(ddof=1) / math.sqrt(len(logs)), len(logs) - 1)
    return Interval(*(float(np.exp(v)) for v in (found.value, found.low, found.high)))


def fit(x: np.ndarray, y: np.ndarray) -> Curve:
    """Of runs with axis value x > 0 and speed y > 0 (shapes (N,)). With too few runs the curve `cannot tell`, and
    `reason` says why."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    values = len(np.unique(x))
    if values < LEAST_VALUES:
        return Curve(reason=f"{values} values of the axis: {LEAST_VALUES} are the fewest")
    if len(y) < max(values + 2, 5):
        reason = f"{len(y)} runs at {values} values do not tell their scatter: repeat them"
        return Curve(linearity=_linearity(x, y), reason=reason)
    shape, found = knee(x, y)
    rising = x <= found.value if shape == KNEE else np.full(len(x), True)
    plateau = _plateau(x, y, found.value) if shape == KNEE else UNKNOWN
    return Curve(shape, found, plateau, _slope(x[rising], y[rising]), _linearity(x, y))


@TABLE("scaling", "rated", "axes")
def table(points: pd.DataFrame, axes: Mapping[str, str]) -> pd.DataFrame:
    """One row per curve of AXES: identity (the axis itself null), axis, metric, values, least, most, n, curve, knee,
    plateau, slope, linearity.

    knee_, plateau_, slope_, linearity_ each with value, low, high; plateau in MB/s or 1/s as `metric` says, slope in
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
            if len(values) >= LEAST_VALUES:
                head = {
                    "axis": axis,
                    "values": len(values),
                    "least": int(values[0]),
                    "most": int(values[-1]),
                    "n": len(x),
                }
                rows.append(key | head | _columns(fit(x, group["value"].to_numpy(dtype=float))))
    columns = [*by, "axis", "metric", "values", "least", "most", "n", "curve", *PARTS, "reason"]
    return pd.DataFrame(rows, columns=columns).astype(dict(axes))


def _columns(curve: Curve) -> dict[str, Any]:
    parts = {column: attrgetter(column.replace("_", "."))(curve) for column in PARTS}
    return {"curve": curve.shape, "reason": curve.reason or None} | parts


@NUMBERS("scaling", "scaling")
def numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """curves, knees, curves_rising (still rising or bending), curves_level, curves_unknown; the extremes of linearity
    over the curves of front-ends. Absent data, no row."""
    if found.empty:
        return []
    kinds = {
        "knees": [KNEE],
        "curves_rising": [RISING, BENDING],
        "curves_level": [LEVEL],
        "curves_unknown": [CANNOT_TELL],
    }
    out: list[tuple[str, Any, str]] = [("curves", len(found), "")]
    out += [(name, int(found["curve"].isin(shapes).sum()), "") for name, shapes in kinds.items()]
    rows = found[(found["axis"] == "front_ends") & found["linearity_low"].notna()]
    if len(rows):
        worst, best = (rows.loc[rows["linearity_value"].astype(float).agg(which)] for which in ("idxmin", "idxmax"))
        said = [words.spread([r[f"linearity_{part}"] for part in ("value", "low", "high")]) for r in (worst, best)]
        out.append(("linearity_front_ends", " to ".join(dict.fromkeys(said)), ""))
    return out

"""The shape of a scaling curve: where it stops rising, and whether it falls again. Pure.

A curve is the speed y > 0 of N runs at values x > 0 of one axis; the unit is the run.

* knee: the value beyond which the speed rises no more. Segmented regression (R. Quandt, JASA 53, 1958, 873-880): up to
  the knee the speed follows a law, beyond it is level. Two laws are tried, since real curves keep to none exactly: a
  power of the axis (scatter in the logarithm) and a straight line (scatter relative to the speed). Interval by profile
  likelihood (D. M. Bates and D. G. Watts, *Nonlinear Regression Analysis*, 1988, section 6.1): every knee whose
  residual sum of squares, under the better law, is less than 1 + F(1, N - 3) / (N - 3) times the smallest.
* peak: the value beyond which the speed falls. The curve has one where a tent (a rise, then a fall; powers, straight
  lines, or a line that falls with the logarithm) fits better than any knee: the F test of its further slope, at 1 %.
  The estimate is that of the best tent. Its interval rests on no law: it reaches from the neighbour below the first to
  the neighbour above the last of the values whose speed may be the highest (its mean logarithm is not lower than that
  of the fastest, by a one-sided t test at 2.5 % with the variance pooled over the values).
* shape: `knee`; `peak`; `still rising`: the last step still rises and nothing contradicts one law throughout;
  `bending`: it still rises, but less than before; `not rising`: no rise is seen at all; `cannot tell`. A step rises
  where the 95 % interval of its ratio (t, pooled variance) lies above 1.01. Only `knee` and `peak` have a value and an
  upper bound; else the knee lies beyond `low`, if anywhere.
* slope: of the straight line through the runs up to the knee or peak, per unit of the axis (relative weights;
  numpy.polyfit).
* plateau: speed at and beyond the knee. A curve with a peak has none.
* linearity: slope of log speed against log value over all that was measured: 1 is
  proportional, 0 no gain.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from storelab.analysis.statistics.medians import CONFIDENCE, student

LEAST_VALUES = 3
STEPS = 200  # knees tried between two measured values
PEAK_P = 0.01
MIN_RISE = 0.01  # of a step; full links are level to a few per mille, which few runs can tell from level
KNEE, PEAK, RISING, BENDING, LEVEL = "knee", "peak", "still rising", "bending", "not rising"
CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Interval:
    """An estimate between `low` and `high` at 95 %; NaN: not known."""

    value: float
    low: float
    high: float


UNKNOWN = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Curve:
    """What `fit` found of runs (x, y); see the module's definitions. `knee`: of the knee or of the peak, as `shape`
    says. plateau and slope in the unit of y (per unit of x)."""

    shape: str = CANNOT_TELL
    knee: Interval = UNKNOWN
    plateau: Interval = UNKNOWN
    slope: Interval = UNKNOWN
    linearity: Interval = UNKNOWN
    reason: str = ""


def _around(value: float, error: float, df: int) -> Interval:
    return Interval(value, value - student(df) * error, value + student(df) * error)


def _squares(z: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Residual sum of squares of the regression of y (n,) on each row of z (k, n); infinite where the slope is
    negative."""
    zc, yc = z - ((z * w).sum(1) / w.sum())[:, None], y - (y * w).sum() / w.sum()
    sxx, sxy = (w * zc**2).sum(1), (w * zc * yc).sum(1)
    slope = np.divide(sxy, sxx, out=np.zeros_like(sxx), where=sxx > 0)
    return np.where(slope >= 0, (w * yc**2).sum() - slope * sxy, np.inf)


def _tents(rise: np.ndarray, fall: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The same for two regressors, the rows of `rise` and `fall` (k, n); infinite where it does not rise and then
    fall."""
    up, down = (z - ((z * w).sum(1) / w.sum())[:, None] for z in (rise, fall))
    yc = y - (y * w).sum() / w.sum()
    uu, dd, ud = (w * up**2).sum(1), (w * down**2).sum(1), (w * up * down).sum(1)
    uy, dy = (w * up * yc).sum(1), (w * down * yc).sum(1)
    determinant = uu * dd - ud**2
    sound = determinant > 1e-9 * uu * dd
    determinant = np.where(sound, determinant, 1.0)
    a, b = (dd * uy - ud * dy) / determinant, (uu * dy - ud * uy) / determinant
    return np.where(sound & (a > 0) & (b < 0), (w * yc**2).sum() - a * uy - b * dy, np.inf)


def _tried(x: np.ndarray) -> np.ndarray:
    """Knees and peaks tried: ascending, evenly spaced in the logarithm between neighbouring values."""
    values = np.unique(x)
    spaced = [np.linspace(a, b, STEPS, endpoint=False) for a, b in itertools.pairwise(np.log(values))]
    return np.append(np.exp(np.concatenate(spaced)), values[-1])


def _relative(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Weights (n,) for a scatter relative to the speed."""
    values = np.unique(x)
    return np.array([np.exp(np.log(y[x == v]).mean()) for v in values])[np.searchsorted(values, x)] ** -2


def profile(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knees tried, and the residual sum of squares with each, of the better law."""
    knees = _tried(x)
    z = np.minimum(x, knees[:, None])
    return knees, np.minimum(_squares(np.log(z), np.log(y), np.ones_like(y)), _squares(z, y, _relative(x, y)))


def peaked(x: np.ndarray, y: np.ndarray, of_knee: float) -> Interval | None:
    """The peak, if a tent fits better than the best knee with its residual sum of squares `of_knee`."""
    free = len(y) - 4
    values = np.unique(x)
    logs = [np.log(y[x == v]) for v in values]
    means = np.array([g.mean() for g in logs])
    top = int(means.argmax())
    if free < 1 or top in (0, len(values) - 1):
        return None
    tried, relative = _tried(x), _relative(x, y)
    below, above = np.minimum(x, tried[:, None]), np.maximum(x, tried[:, None])
    folds = np.log(above) - np.log(tried)[:, None]
    squares = np.minimum.reduce(
        [
            _tents(np.log(below), folds, np.log(y), np.ones_like(y)),
            _tents(below, folds, y, relative),
            _tents(below, above - tried[:, None], y, relative),
        ]
    )
    best = int(squares.argmin())
    if not (of_knee - squares[best]) * free > squares[best] * special.fdtri(1, free, 1 - PEAK_P):
        return None
    df = len(y) - len(values)
    variance = sum(((g - m) ** 2).sum() for g, m in zip(logs, means, strict=True)) / df
    errors = np.sqrt(variance * (1 / np.array([len(g) for g in logs]) + 1 / len(logs[top])))
    may_be = np.flatnonzero(means[top] - means <= student(df) * errors)
    low, high = values[max(may_be[0] - 1, 0)], values[min(may_be[-1] + 1, len(values) - 1)]
    return Interval(float(np.clip(tried[best], low, high)), float(low), float(high))


def _last_step_rises(x: np.ndarray, y: np.ndarray) -> bool:
    values = np.unique(x)
    groups = [np.log(y[x == v]) for v in values]
    df = len(y) - len(values)
    error = math.sqrt(
        sum(((g - g.mean()) ** 2).sum() for g in groups) / df * (1 / len(groups[-1]) + 1 / len(groups[-2]))
    )
    return _around(groups[-1].mean() - groups[-2].mean(), error, df).low > math.log1p(MIN_RISE)


def knee(x: np.ndarray, y: np.ndarray) -> tuple[str, Interval]:
    """Shape, and the knee or peak. Needs N >= values + 2 runs, so that their scatter is known."""
    knees, squares = profile(x, y)
    best, free = int(np.argmin(squares)), len(y) - 3
    peak = peaked(x, y, float(squares[best]))
    if peak is not None:
        return PEAK, peak
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
    return _line(x, y, 1 / np.array([y[x == v].mean() for v in x]))


def _line(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> Interval:
    """Return the slope of a straight line."""
    (slope, _), covariance = np.polyfit(x, y, 1, w=weights, cov=True)
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
        few = f"{len(y)} runs at {values} values do not tell their scatter: repeat them"
        return Curve(linearity=_line(np.log(x), np.log(y)), reason=few)
    shape, found = knee(x, y)
    rising = x <= found.value if shape in (KNEE, PEAK) else np.full(len(x), True)
    plateau = _plateau(x, y, found.value) if shape == KNEE else UNKNOWN
    return Curve(shape, found, plateau, _slope(x[rising], y[rising]), _line(np.log(x), np.log(y)))

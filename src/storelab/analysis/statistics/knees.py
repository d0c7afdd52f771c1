"""The shape of a scaling curve: where it stops rising, and whether it falls again.

A curve is the speed y > 0 of N runs at values x > 0 of one axis; the unit is the run.

* knee: the value beyond which the speed no longer rises. It is found by segmented regression (R. Quandt, JASA 53, 1958,
  873-880): the speed follows a law up to the knee, and is constant beyond it. Two laws are tried, since real curves
  follow neither exactly: a power of the axis (scatter in the logarithm) and a straight line (scatter relative to the
  speed). The interval is computed from the profile likelihood (D. M. Bates and D. G. Watts, *Nonlinear Regression
  Analysis*, 1988, section 6.1). It contains every knee whose residual sum of squares, under the better law, is less
  than 1 + F(1, N - 3) / (N - 3) times the smallest one.
* peak: the value beyond which the speed falls. The curve has a peak if a tent fits better than any knee, by the F
  test of its additional slope at 1 %. A tent is a rise followed by a fall. Three forms are tried: two powers, two
  straight lines, and a straight line followed by a fall with the logarithm. The peak is taken from the best tent. Its
  interval does not assume a law. It is formed from the values whose speed may be the highest: their mean logarithm is
  not significantly lower than that of the fastest value, by a one-sided t test at 2.5 % with the variance pooled over
  the values. The interval extends from the neighbour below the first of these values to the neighbour above the last.
* shape: `knee`; `peak`; `still rising`: the last step still rises, and one law may be valid for all values; `bending`:
  the last step still rises, but less than the steps before; `not rising`: no rise is visible; UNDECIDED. A step rises
  if the 95 % interval of its ratio (t, pooled variance) is above 1.01. Only `knee` and `peak` have a value and an
  upper bound. For the other shapes, a knee can only be beyond `low`.
* slope: slope of the straight line through the runs up to the knee or peak, per unit of the axis (relative weights;
  numpy.polyfit).
* plateau: speed at and beyond the knee. A curve with a peak has no plateau.
* linearity: slope of log speed against log value over all measured values (1: proportional, 0: no gain).
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from storelab.analysis.statistics.medians import CONFIDENCE, student

MIN_VALUES = 3
STEPS = 200  # knees tried between two measured values
PEAK_P = 0.01
MIN_RISE = 0.01  # of a step; the rates over a full link differ by a few per mille, which could be taken for a rise
KNEE, PEAK, RISING, BENDING, LEVEL = "knee", "peak", "still rising", "bending", "not rising"
UNDECIDED = "undecided"


@dataclass(frozen=True)
class Interval:
    """An estimate between `low` and `high` at 95 %; NaN: not known."""

    value: float
    low: float
    high: float


UNKNOWN = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Curve:
    """The curve that `fit` found in runs (x, y), as defined in the module.

    knee: the knee, or the peak where `shape` is `peak`. plateau: in the unit of y; slope: per unit of x.
    """

    shape: str = UNDECIDED
    knee: Interval = UNKNOWN
    plateau: Interval = UNKNOWN
    slope: Interval = UNKNOWN
    linearity: Interval = UNKNOWN
    reason: str = ""


def _around(value: float, error: float, df: int) -> Interval:
    return Interval(value, value - student(df) * error, value + student(df) * error)


def _squares(z: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the residual sums of squares (k,) of the weighted regression of y (n,) on each row of z (k, n).

    A sum is infinite if the slope is negative.
    """
    zc, yc = z - ((z * w).sum(1) / w.sum())[:, None], y - (y * w).sum() / w.sum()
    sxx, sxy = (w * zc**2).sum(1), (w * zc * yc).sum(1)
    slope = np.divide(sxy, sxx, out=np.zeros_like(sxx), where=sxx > 0)
    return np.where(slope >= 0, (w * yc**2).sum() - slope * sxy, np.inf)


def _tents(rise: np.ndarray, fall: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the residual sums of squares (k,) of the regression of y on two regressors, rows of `rise` and `fall`.

    A sum is infinite if the fit does not rise and then fall. Shapes of `rise` and `fall`: (k, n).
    """
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
    """Return the knees and peaks to try, ascending, with equal ratios between neighbouring measured values."""
    values = np.unique(x)
    spaced = [np.linspace(a, b, STEPS, endpoint=False) for a, b in itertools.pairwise(np.log(values))]
    return np.append(np.exp(np.concatenate(spaced)), values[-1])


def _relative(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return weights (n,) for a regression whose scatter is proportional to the speed."""
    values = np.unique(x)
    return np.array([np.exp(np.log(y[x == v]).mean()) for v in values])[np.searchsorted(values, x)] ** -2


def profile(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the knees tried, and for each the residual sum of squares under the better of the two laws."""
    knees = _tried(x)
    z = np.minimum(x, knees[:, None])
    return knees, np.minimum(_squares(np.log(z), np.log(y), np.ones_like(y)), _squares(z, y, _relative(x, y)))


def peaked(x: np.ndarray, y: np.ndarray, of_knee: float) -> Interval | None:
    """Return the peak if a tent fits better than the best knee, else None.

    of_knee: the residual sum of squares of the best knee.
    """
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
    """Return the shape of a curve, and its knee or peak.

    To estimate the scatter, there must be at least two runs more than values of the axis.
    """
    knees, squares = profile(x, y)
    best, free = int(np.argmin(squares)), len(y) - 3
    peak = peaked(x, y, float(squares[best]))
    if peak is not None:
        return PEAK, peak
    level = ((np.log(y) - np.log(y).mean()) ** 2).sum()
    if best == 0 or level <= squares[best] * (1 + 2 * special.fdtri(2, free, CONFIDENCE) / free):
        return LEVEL, UNKNOWN
    held = np.flatnonzero(squares <= squares[best] * (1 + special.fdtri(1, free, CONFIDENCE) / free))
    low, high = knees[max(held[0] - 1, 0)], knees[min(held[-1] + 1, len(knees) - 1)]  # widened to the next knee tried
    throughout, rises = held[-1] == len(knees) - 1, _last_step_rises(x, y)
    if not throughout and not rises:
        return KNEE, Interval(float(knees[best]), float(low), float(high))
    shape = (RISING if throughout else BENDING) if rises else UNDECIDED
    return shape, Interval(math.nan, float(low), math.nan)


def _slope(x: np.ndarray, y: np.ndarray) -> Interval:
    """Return the slope of the straight line through the runs, for a scatter proportional to the speed."""
    if len(np.unique(x)) < 2 or len(x) < 3:
        return UNKNOWN
    return _line(x, y, 1 / np.array([y[x == v].mean() for v in x]))


def _line(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> Interval:
    """Return the slope of the straight line through the runs, with its interval."""
    (slope, _), covariance = np.polyfit(x, y, 1, w=weights, cov=True)
    return _around(float(slope), math.sqrt(covariance[0][0]), len(x) - 2)


def _plateau(x: np.ndarray, y: np.ndarray, knee: float) -> Interval:
    """Return the geometric mean of the runs at and beyond the knee. The last two values are always included."""
    logs = np.log(y[x >= min(knee, np.unique(x)[-2])])
    found = _around(logs.mean(), logs.std(ddof=1) / math.sqrt(len(logs)), len(logs) - 1)
    return Interval(*(float(np.exp(v)) for v in (found.value, found.low, found.high)))


def fit(x: np.ndarray, y: np.ndarray) -> Curve:
    """Fit the curve of runs with axis value x > 0 and speed y > 0 (shapes (N,)).

    With too few runs the shape is UNDECIDED, and `reason` explains why.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    values = len(np.unique(x))
    if values < MIN_VALUES:
        return Curve(reason=f"{values} values of the axis: at least {MIN_VALUES} are needed")
    if len(y) < max(values + 2, 5):
        few = f"{len(y)} runs at {values} values are too few to estimate their scatter: add repetitions"
        return Curve(linearity=_line(np.log(x), np.log(y)), reason=few)
    shape, found = knee(x, y)
    rising = x <= found.value if shape in (KNEE, PEAK) else np.full(len(x), True)
    plateau = _plateau(x, y, found.value) if shape == KNEE else UNKNOWN
    return Curve(shape, found, plateau, _slope(x[rising], y[rising]), _line(np.log(x), np.log(y)))

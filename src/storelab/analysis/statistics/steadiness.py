"""Steadiness of a window, and trends of a series, with tests that take autocorrelation into account.

Steadiness: a window is steady if its rate has no trend, no change of level, no swing and no stall. The window is given
as the numbers of completions in equal slices. Each shape is fitted by least squares to the slices divided by their
mean:

* trend: a straight line;
* level: one step, with at least an eighth of the window on either side;
* swing: a sine of 1.5 or more periods (at least four slices each, at most ten periods).

A shape is detected if the F statistic of its best fit is above a threshold, and if it changes the rate by at least 10 %
of the mean. Neighbouring slices are correlated even in a steady window (a cache that fills, a compaction, the
scheduler). With thresholds for independent slices, a quarter of the steady windows would be called unsteady. Our
thresholds were simulated: with a first-order autocorrelation of 0.6, each shape is detected in 1 % of 20 000 steady
windows, for any scatter. tests/unit/analysis/statistics/test_steadiness.py repeats the simulation, and
benchmarks/statistics_truth.py has the rates. If several shapes are detected, the window gets the name of the shape with
the smallest Bayesian information criterion (G. Schwarz, Annals of Statistics 6, 1978, 461-464).

* stall: two or more slices in a row, at least a twentieth of the window, with less than a tenth of the median slice.

Trends: a series rises, falls or stays level. These quantities are computed from the values in order of time:

* slope: the Theil-Sen slope, the median of the slopes of all pairs (P. K. Sen, JASA 63, 1968, 1379-1389);
* S: the number of rising pairs minus the number of falling pairs, for the Mann-Kendall test (H. B. Mann, Econometrica
  13, 1945, 245-259);
* tau: S divided by the number of pairs.

Neighbouring values are correlated even in a level series. The variance of S for independent values would therefore give
too many false trends. We use the variance for a stationary Gaussian series whose neighbours have the correlation
CORRELATION, as for the thresholds above. It has a closed form (K. H. Hamed and A. R. Rao, Journal of Hydrology 204,
1998, 182-196), so that it need not be estimated from a few values. The interval of the slope uses the same variance:
its ends are the slopes whose ranks are z sqrt(Var S) / 2 from the middle.

A series rises or falls if the test detects it at a false-positive rate of FALSE, and if the slope changes it by at
least MIN_TREND of the median (or another given change) from the first to the last value. The verdict is `too few` if
even a series that always rises could not be detected with this number of values.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np

STEADY, DRIFTING, SHIFTED, SWINGING, STALLED = "steady", "drifting", "level shift", "swinging", "stalled"
TOO_SHORT = "too short"
UNSTEADY = (DRIFTING, SHIFTED, SWINGING, STALLED)
MIN_CHANGE = 0.10  # minimum change as a fraction of the mean
STILL = 0.10  # fraction of the median slice; a slice with fewer completions is part of a stall
FALSE = 0.01  # false-positive rate of each shape in steady windows
CORRELATION = 0.6  # correlation of neighbouring slices
# Number of slices -> F above which a shape is detected: trend, level, swing.
THRESHOLDS = {10: (42.0, 60.0, 21.0), 20: (35.0, 58.0, 23.5), 40: (31.0, 51.0, 27.0)}
MAX_SLICES = max(THRESHOLDS)
_PARAMETERS = {DRIFTING: 2, SHIFTED: 3, SWINGING: 4}


@lru_cache
def _shapes(n: int) -> dict[str, list[np.ndarray]]:
    """Return the columns to fit for each shape, for n slices.

    Each entry of a list is one place of a step or one number of periods: orthonormal columns, (n, 1) or (n, 2).
    """
    t = (np.arange(n) + 0.5) / n
    edge = max(2, n // 8)
    periods = np.arange(1.5, min(n / 4, 10) + 0.1, 0.5)
    columns = {
        DRIFTING: [t[:, None]],
        SHIFTED: [(t > k / n).astype(float)[:, None] for k in range(edge, n - edge + 1)],
        SWINGING: [np.column_stack([np.sin(2 * np.pi * p * t), np.cos(2 * np.pi * p * t)]) for p in periods],
    }
    return {name: [np.linalg.qr(c - c.mean(0))[0] for c in kind] for name, kind in columns.items()}


def fits(slices: np.ndarray) -> dict[str, tuple[float, float, float]]:
    """Return, for each shape, the F statistic, the change and the information criterion of its best fit.

    The change is the largest minus the smallest fitted value, divided by the mean of the slices. slices: completions
    per slice, shape (n,), where n is a key of THRESHOLDS; their mean is above 0.
    """
    n = len(slices)
    y = slices / slices.mean() - 1
    total = float(y @ y)
    found = {}
    for name, kind in _shapes(n).items():
        fitted = max((q @ (q.T @ y) for q in kind), key=lambda f: float(f @ f))
        rest = max(total - float(fitted @ fitted), 1e-12 * n)
        free = _shapes(n)[name][0].shape[1]
        f = (float(fitted @ fitted) / free) / (rest / (n - free - 1))
        found[name] = (f, float(np.ptp(fitted)), n * np.log(rest / n) + _PARAMETERS[name] * np.log(n))
    return found


def stalled(slices: np.ndarray) -> bool:
    """Check whether completions (n,) stall for two or more slices in a row, at least a twentieth of the window."""
    still = slices < STILL * np.median(slices)
    longest = max((len(list(run)) for is_still, run in groupby(still) if is_still), default=0)
    return longest >= max(2, len(slices) / 20)


def label(slices: np.ndarray) -> str:
    """Return STEADY or one of UNSTEADY. slices: completions per slice, shape (n,), where n is a key of THRESHOLDS."""
    if stalled(slices):
        return STALLED
    detected = [
        (criterion, name)
        for (name, (f, change, criterion)), least in zip(fits(slices).items(), THRESHOLDS[len(slices)], strict=True)
        if f > least and change >= MIN_CHANGE
    ]
    return min(detected)[1] if detected else STEADY


FLAT, RISES, FALLS, TOO_FEW = "flat", "rises", "falls", "too few"
MIN_TREND = 0.05  # minimum trend as a fraction of the median
MAX_VALUES = 64  # in the test; longer series are averaged in groups, because the variance takes n^4 steps
Z95 = 1.959963984540054


@dataclass(frozen=True)
class Trend:
    """The trend of a series.

    n: number of values in the test; level: the median; slope: per unit of time, with its 95 % interval from low to high
    (infinite if it is not bounded); change: from the first to the last value; tau; p: two-sided p value of the
    Mann-Kendall test; verdict: FLAT, RISES, FALLS or TOO_FEW.
    """

    n: int
    level: float
    slope: float
    low: float
    high: float
    change: float
    tau: float
    p: float
    verdict: str


@lru_cache
def variance(n: int, correlation: float = CORRELATION) -> float:
    """Return the variance of S over n evenly spaced values of a stationary Gaussian series.

    correlation: the correlation of neighbouring values.
    """
    first, second = np.triu_indices(n, 1)
    r = correlation ** np.arange(n, dtype=float)
    spread = np.sqrt(2 * (1 - r[second - first]))  # standard deviation of the difference of a pair
    total = 0.0
    for i, j, s in zip(first, second, spread, strict=True):
        shared = r[abs(second - j)] - r[abs(first - j)] - r[abs(second - i)] + r[abs(first - i)]
        total += float(np.arcsin(np.clip(shared / (s * spread), -1, 1)).sum())
    return 2 / math.pi * total


def _p(s: float, n: int) -> float:
    """Return the two-sided p value of S over n values, with the correction for continuity."""
    z = max(0.0, abs(s) - 1) / math.sqrt(variance(n))
    return math.erfc(z / math.sqrt(2))


def enough(n: int) -> bool:
    """Check whether the test can detect a trend in n values that always rise."""
    return n > 2 and _p(n * (n - 1) / 2, n) <= FALSE


def _thinned(values: np.ndarray, size: int) -> np.ndarray:
    return np.array([piece.mean() for piece in np.array_split(values, size)])


def trend(times: np.ndarray, values: np.ndarray, least: float | None = None) -> Trend:
    """Return the trend of values (n,) at ascending times (n,). NaN and infinite values are ignored.

    least: the smallest change that counts as a trend; default: MIN_TREND of the median.
    """
    known = np.isfinite(values)
    times, values = times[known], values[known]
    level = float(np.median(values)) if len(values) else math.nan
    if len(values) > MAX_VALUES:
        times, values = _thinned(times, MAX_VALUES), _thinned(values, MAX_VALUES)
    n = len(values)
    if not enough(n):
        return Trend(n, level, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, TOO_FEW)
    first, second = np.triu_indices(n, 1)
    rise = values[second] - values[first]
    s, pairs = float(np.sign(rise).sum()), len(rise)
    slopes = np.sort(rise / (times[second] - times[first]))
    slope, half = float(np.median(slopes)), Z95 * math.sqrt(variance(n)) / 2
    low, high = math.floor(pairs / 2 - half), math.ceil(pairs / 2 + half)  # ranks below and above, from 0
    change, p = slope * float(times[-1] - times[0]), _p(s, n)
    verdict = FLAT
    if p <= FALSE and slope and abs(change) >= (MIN_TREND * abs(level) if least is None else least):
        verdict = RISES if slope > 0 else FALLS
    ends = (float(slopes[low]) if low >= 0 else -math.inf, float(slopes[high]) if high < pairs else math.inf)
    return Trend(n, level, slope, *ends, change, s / pairs, p, verdict)

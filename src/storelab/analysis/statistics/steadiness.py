"""Was a window steady? Tests for a trend, a change of level, a swing and a standstill that bear autocorrelation. Pure.

The window comes as completions in equal slices. Each shape is fitted by least squares to the slices over their mean:

* trend: a straight line;
* level: one step, with at least an eighth of the window on either side;
* swing: a sine of 1.5 or more periods (at least four slices each, at most ten periods).

A shape is told where its F statistic, of the best fit of its kind, lies above a threshold, and where it changes the
rate by at least 10 % of the mean. Neighbouring slices are alike even in a steady window (a cache that fills, a
compaction, the scheduler), so that the thresholds of independent slices accuse a quarter of such windows. Ours were
simulated: under first-order autocorrelation of 0.6 each shape is told in 1 % of 20 000 steady windows, whatever the
scatter (tests/unit/analysis/statistics/test_steadiness.py draws them anew; benchmarks/statistics_truth.py has the
rates). Of several shapes the one with the least Bayesian information criterion names the window (G. Schwarz, Annals of
Statistics 6, 1978, 461-464).

* stall: two slices in a row or more, at least a twentieth of the window, with less than a tenth of the median slice.

Trends of a series: does it rise, fall or stay? The Theil-Sen slope and the Mann-Kendall test.

Of values at times, in order of time:

* slope: the median of the slopes of all pairs (P. K. Sen, JASA 63, 1968, 1379-1389);
* S: the pairs that rise less those that fall (H. B. Mann, Econometrica 13, 1945, 245-259); tau is S over all pairs.

Neighbours are alike even in a series that stays, so that the variance of S for independent values accuses too many.
Ours is that of a stationary Gaussian series whose neighbours correlate by CORRELATION, as for the thresholds above, in
its closed form (K. H. Hamed and A. R. Rao, Journal of Hydrology 204, 1998, 182-196): it is not estimated from a few
values. The interval of the slope rests on it, too: the slopes whose ranks lie z sqrt(Var S) / 2 from the middle.

A series rises or falls where the test tells it with an error of FALSE, and where the slope makes a change of
LEAST_TREND of the median or more (or what else is given) from the first to the last value. Below as many values as
even a series that rises throughout could be told by, it is `too few`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np

STEADY, DRIFTING, SHIFTED, SWINGING, STALLED = "steady", "drifting", "level shift", "swinging", "stalled"
TOO_SHORT = "too short"
UNSTEADY = (DRIFTING, SHIFTED, SWINGING, STALLED)
LEAST_CHANGE = 0.10  # of the mean
STILL = 0.10  # of the median slice
FALSE, CORRELATION = 0.01, 0.6  # how often a shape is told of steady windows, whose neighbouring slices correlate so
# Number of slices -> F above which a shape is told: trend, level, swing.
THRESHOLDS = {10: (42.0, 60.0, 21.0), 20: (35.0, 58.0, 23.5), 40: (31.0, 51.0, 27.0)}
MOST = max(THRESHOLDS)
_PARAMETERS = {DRIFTING: 2, SHIFTED: 3, SWINGING: 4}


@lru_cache
def _shapes(n: int) -> dict[str, list[np.ndarray]]:
    """Shape -> orthonormal columns, (n, 1) or (n, 2), one for each place of a step and each number of periods."""
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
    """Shape -> its F, the change that it makes (largest less smallest value, over the mean) and its information
    criterion. `slices`: shape (n,), n of THRESHOLDS, with a mean above 0."""
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
    """Whether completions (n,) stand still for two slices in a row or more, and a twentieth of the window at least."""
    still = slices < STILL * np.median(slices)
    longest = max((len(list(run)) for stands, run in groupby(still) if stands), default=0)
    return longest >= max(2, len(slices) / 20)


def label(slices: np.ndarray) -> str:
    """One of STEADY and UNSTEADY for completions per slice, shape (n,) with n of THRESHOLDS. See the module."""
    if stalled(slices):
        return STALLED
    told = [
        (criterion, name)
        for (name, (f, change, criterion)), least in zip(fits(slices).items(), THRESHOLDS[len(slices)], strict=True)
        if f > least and change >= LEAST_CHANGE
    ]
    return min(told)[1] if told else STEADY


FLAT, RISES, FALLS, TOO_FEW = "flat", "rises", "falls", "too few"
LEAST_TREND = 0.05  # of the median
MOST_VALUES = 64  # values in the test: neighbours of longer series are put together, for the variance takes n^4 steps
Z95 = 1.959963984540054


@dataclass(frozen=True)
class Trend:
    """n: values in the test; level: the median; slope with its 95 % interval (infinite where it has no end), per unit
    of time; change: from the first to the last value; tau; p; what it is called."""

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
    """Variance of S over n values of a stationary Gaussian series, evenly spaced, whose neighbours correlate so."""
    first, second = np.triu_indices(n, 1)
    r = correlation ** np.arange(n, dtype=float)
    spread = np.sqrt(2 * (1 - r[second - first]))  # of the difference of a pair
    total = 0.0
    for i, j, s in zip(first, second, spread, strict=True):
        shared = r[abs(second - j)] - r[abs(first - j)] - r[abs(second - i)] + r[abs(first - i)]
        total += float(np.arcsin(np.clip(shared / (s * spread), -1, 1)).sum())
    return 2 / math.pi * total


def _p(s: float, n: int) -> float:
    """Two-sided, with the correction for continuity."""
    z = max(0.0, abs(s) - 1) / math.sqrt(variance(n))
    return math.erfc(z / math.sqrt(2))


def enough(n: int) -> bool:
    """Whether a series of n values that rises throughout can be told."""
    return n > 2 and _p(n * (n - 1) / 2, n) <= FALSE


def _thinned(values: np.ndarray, size: int) -> np.ndarray:
    return np.array([piece.mean() for piece in np.array_split(values, size)])


def trend(times: np.ndarray, values: np.ndarray, least: float | None = None) -> Trend:
    """Of values (n,) at ascending times (n,); those that are no number are left out. least: the least change that is
    told; default: LEAST_TREND of the median."""
    known = np.isfinite(values)
    times, values = times[known], values[known]
    level = float(np.median(values)) if len(values) else math.nan
    if len(values) > MOST_VALUES:
        times, values = _thinned(times, MOST_VALUES), _thinned(values, MOST_VALUES)
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
    if p <= FALSE and slope and abs(change) >= (LEAST_TREND * abs(level) if least is None else least):
        verdict = RISES if slope > 0 else FALLS
    ends = (float(slopes[low]) if low >= 0 else -math.inf, float(slopes[high]) if high < pairs else math.inf)
    return Trend(n, level, slope, *ends, change, s / pairs, p, verdict)

"""Does a series rise, fall or stay? Theil-Sen slope and Mann-Kendall test that bear autocorrelation. Pure.

Of values at times, in order of time:

* slope: the median of the slopes of all pairs (P. K. Sen, JASA 63, 1968, 1379-1389);
* S: the pairs that rise less those that fall (H. B. Mann, Econometrica 13, 1945, 245-259); tau is S over all pairs.

Neighbours are alike even in a series that stays, so that the variance of S for independent values accuses too many.
Ours is that of a stationary Gaussian series whose neighbours correlate by CORRELATION, as `steadiness` assumes it, in
its closed form (K. H. Hamed and A. R. Rao, Journal of Hydrology 204, 1998, 182-196): it is not estimated from a few
values. The interval of the slope rests on it, too: the slopes whose ranks lie z sqrt(Var S) / 2 from the middle.

A series rises or falls where the test tells it with an error of FALSE, and where the slope makes a change of
LEAST_CHANGE of the median or more (or what else is given) from the first to the last value. Below as many values as
even a series that rises throughout could be told by, it is `too few`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from storelab.analysis.statistics.steadiness import CORRELATION, FALSE

FLAT, RISES, FALLS, TOO_FEW = "flat", "rises", "falls", "too few"
LEAST_CHANGE = 0.05  # of the median
MOST = 64  # values in the test: neighbours of longer series are put together, for the variance takes n^4 steps
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
    told; default: LEAST_CHANGE of the median."""
    known = np.isfinite(values)
    times, values = times[known], values[known]
    level = float(np.median(values)) if len(values) else math.nan
    if len(values) > MOST:
        times, values = _thinned(times, MOST), _thinned(values, MOST)
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
    if p <= FALSE and slope and abs(change) >= (LEAST_CHANGE * abs(level) if least is None else least):
        verdict = RISES if slope > 0 else FALLS
    ends = (float(slopes[low]) if low >= 0 else -math.inf, float(slopes[high]) if high < pairs else math.inf)
    return Trend(n, level, slope, *ends, change, s / pairs, p, verdict)

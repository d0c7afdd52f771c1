"""Ratio of two groups of runs, with its interval and a verdict in words.

* One point: the ratio B / A is the Hodges-Lehmann shift of the logarithms. Its interval is the exact interval of Moses,
  which inverts the Mann-Whitney test (M. Hollander, D. A. Wolfe and E. Chicken, *Nonparametric Statistical Methods*,
  3rd ed. 2014, sections 4.2 and 4.3). It assumes only that A and B have the same scatter up to a factor. Its coverage
  is exact and part of the result. Runs can have outliers (a disturbed host). With outliers, Welch's interval on
  logarithms detects a difference half as often; docs/statistics.md has the figures. A 95 % interval needs at least 4
  runs in each group.
* All points together: the geometric mean of the ratios over all comparable points. Runs of one repetition were measured
  in one block and may all be slow. The repetition is therefore the unit, because it is the highest level that varies
  (T. Kalibera and R. Jones, *Rigorous Benchmarking in Reasonable Time*, ISMM 2013). The logarithms are averaged over
  the points of each repetition. The means of A and B are compared by Welch's test (B. L. Welch, Biometrika 34, 1947,
  28-35), because means over many points are almost normally distributed.
* A verdict is about speed: `faster` or `slower` if the interval excludes 1, else UNDECIDED. A lower latency counts as
  faster.

Corrections for many comparisons, and for campaigns of different days:

* Of a hundred points that do not differ, five have a 95 % interval that excludes 1. Over the points of a comparison we
  control the false discovery rate (Y. Benjamini and Y. Hochberg, J. R. Statist. Soc. B 57, 1995, 289-300). Then at most
  5 % of the points reported as different differ only by chance. If no point differs, 95 % of the comparisons report no
  difference. With a family-wise correction, exact tests of 6 runs (smallest p: 0.002) could not detect any difference
  among 24 or more points.
* Runs of one campaign share the conditions of its day: the state of disks and caches, and the traffic of other users.
  To compare campaigns of different days, the variance between days must be known. It is estimated from K campaigns
  that differ only in the day. The campaign is then the unit, the highest level that varies (Kalibera and Jones). If
  the variance between these campaigns is V, the difference of two other campaigns has the variance 2 V, and Student's
  t has K - 1 degrees of freedom.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import stdtr

from storelab.analysis.statistics.medians import CONFIDENCE, known, student

FASTER, SLOWER, UNDECIDED = "faster", "slower", "undecided"
COLUMNS = ("ratio", "low", "high", "coverage_percent", "p", "verdict", "reason")  # columns of a table in this order
MIN_REPS = 3  # repetitions needed on each side for an interval of all points together


@dataclass(frozen=True)
class Ratio:
    """The ratio B / A of `n_a` and `n_b` runs, between `low` and `high` (NaN: not known).

    coverage: the coverage of the interval, 0..1. verdict: FASTER, SLOWER or UNDECIDED. reason: why there is no
    interval, else empty. p: two-sided p value of the test that the interval inverts (NaN without an interval).
    """

    n_a: int
    n_b: int
    ratio: float
    low: float
    high: float
    coverage: float
    verdict: str
    reason: str = ""
    p: float = math.nan

    def row(self) -> dict[str, Any]:
        """Return the row of a table: n_a, n_b and COLUMNS."""
        values = {name: getattr(self, name) for name in ("n_a", "n_b", "ratio", "low", "high", "p", "verdict")}
        known = math.isfinite(self.low)
        return values | {"coverage_percent": 100 * self.coverage if known else math.nan, "reason": self.reason or None}


@lru_cache
def moses(n: int, m: int, confidence: float = CONFIDENCE) -> tuple[int, float]:
    """Return the rank k (from 1) of the interval of Moses, and its coverage.

    The k-th smallest and k-th largest of the n m differences bound the shift. k is 0 if n against m runs are too few
    for an interval of this confidence.
    """
    tail = _tail(n, m)
    k = int(np.searchsorted(tail, (1 - confidence) / 2, side="right"))
    return k, float(1 - 2 * tail[k - 1]) if k else 0.0


@lru_cache
def _tail(n: int, m: int) -> np.ndarray:
    """Return the probabilities that the Mann-Whitney statistic is at most 0 … n m, shape (n m + 1,).

    They hold for n against m runs that do not differ. The counts are the coefficients of the Gaussian binomial, the
    product of (1 - q^(m+i)) / (1 - q^i) for i = 1 … n.
    """
    counts = np.zeros(n * m + 1)
    counts[0] = 1.0
    for i in range(1, n + 1):
        counts[m + i :] -= counts[: max(0, len(counts) - m - i)].copy()
        for j in range(i):
            counts[j::i] = np.cumsum(counts[j::i])
    return np.cumsum(counts) / counts.sum()


def verdict(low: float, high: float, lower_is_better: bool = False) -> str:
    """Return the verdict for an interval of B / A."""
    if not (low > 1 or high < 1):
        return UNDECIDED
    return FASTER if (low > 1) != lower_is_better else SLOWER


def ratio(a: Iterable[float], b: Iterable[float], lower_is_better: bool = False) -> Ratio:
    """Return B / A of two groups of runs (shapes (n_a,), (n_b,), any unit; NaN is ignored). It never raises."""
    x, y = known(a), known(b)
    none = (len(x), len(y), math.nan, math.nan, math.nan, 0.0, UNDECIDED)
    if not len(x) or not len(y):
        return Ratio(*none, "no run on one side")
    if min(x.min(), y.min()) <= 0:
        return Ratio(*none, "a run with a value of 0 has no ratio")
    differences = np.sort(np.subtract.outer(np.log(y), np.log(x)).ravel())
    k, coverage = moses(len(x), len(y))
    middle = math.exp(np.median(differences))
    if not k:
        return Ratio(len(x), len(y), middle, math.nan, math.nan, 0.0, UNDECIDED, too_few(len(x), len(y)))
    low, high = math.exp(differences[k - 1]), math.exp(differences[-k])
    # Ties count for both sides, so that p is below 5 % only where the interval excludes 1.
    p = 2 * _tail(len(x), len(y))[min((differences <= 0).sum(), (differences >= 0).sum())]
    return Ratio(len(x), len(y), middle, low, high, coverage, verdict(low, high, lower_is_better), p=min(1.0, float(p)))


def too_few(n: int, m: int) -> str:
    """Return the message that n against m runs are too few for an interval."""
    few = "one run against one is" if n == m == 1 else f"{n} against {m} runs are"
    return f"{few} too few for a 95 % interval; 4 against 4 are enough"


def overall_ratio(
    a: Sequence[Mapping[int, float]], b: Sequence[Mapping[int, float]], lower_is_better: bool = False
) -> Ratio:
    """Return the geometric mean of B / A over points. n_a and n_b count repetitions.

    a[i] and b[i] are the runs of point i: repetition -> value (> 0). From the logarithm of each value, the mean of its
    point is subtracted. The value of a repetition is the mean of these differences, so that a missing run does not
    shift it. Points without a run on one side, or with a value of 0, are excluded.
    """
    sides: tuple[dict[int, list[float]], dict[int, list[float]]] = ({}, {})
    shifts = []
    for runs in zip(a, b, strict=True):
        logs = [{rep: math.log(v) for rep, v in side.items() if np.isfinite(v) and v > 0} for side in runs]
        if not all(logs) or any(v <= 0 for side in runs for v in side.values()):
            continue
        means = [float(np.mean(list(side.values()))) for side in logs]
        shifts.append(means[1] - means[0])
        for mean, side, reps in zip(means, logs, sides, strict=True):
            for rep, value in side.items():
                reps.setdefault(rep, []).append(value - mean)
    n, m = (len(reps) for reps in sides)
    if not shifts:
        return Ratio(n, m, math.nan, math.nan, math.nan, 0.0, UNDECIDED, "no comparable point")
    shift = float(np.mean(shifts))
    if min(n, m) < MIN_REPS:
        few = f"{n} against {m} repetitions are too few for an interval of the mean ratio"
        reason = f"{few}; {MIN_REPS} against {MIN_REPS} are enough"
        return Ratio(n, m, math.exp(shift), math.nan, math.nan, 0.0, UNDECIDED, reason)
    x, y = (np.array([np.mean(v) for v in reps.values()]) for reps in sides)
    return _welch(x - x.mean(), y - y.mean() + shift, lower_is_better)


def _welch(x: np.ndarray, y: np.ndarray, lower_is_better: bool) -> Ratio:
    """Return the ratio y / x from the difference of the means of logarithms, tested by Welch's test.

    x, y: logarithms, shapes (n,) and (m,).
    """
    shift, half = float(y.mean() - x.mean()), 0.0
    p = float(shift == 0)
    parts = [np.var(side, ddof=1) / len(side) for side in (x, y)]
    if any(parts):  # t is not defined without scatter; only artificial records have none
        df = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (x, y), strict=True))
        half = student(df) * math.sqrt(sum(parts))
        p = 2 * float(stdtr(df, -abs(shift) / math.sqrt(sum(parts))))
    low, middle, high = (math.exp(v) for v in (shift - half, shift, shift + half))
    return Ratio(len(x), len(y), middle, low, high, CONFIDENCE, verdict(low, high, lower_is_better), p=p)


def corrected(p: Sequence[float]) -> np.ndarray:
    """Return the p values (shape (m,)) corrected by Benjamini and Hochberg, in the same order.

    NaN (no test) stays NaN and is not counted as a comparison.
    """
    values = np.asarray(p, dtype=float)
    known = np.isfinite(values)
    out = np.where(known, values, math.nan)
    if known.sum() > 1:
        # Imported here because it is slow to load, and one value needs no correction.
        from scipy.stats import false_discovery_control

        out[known] = false_discovery_control(values[known])
    return out


def day_variance(logs: np.ndarray) -> tuple[float, int]:
    """Return the variance between days, averaged over points, and its degrees of freedom.

    logs: mean logarithms of the same points in K campaigns of different days, shape (points, K). A value is NaN if a
    campaign does not have the point. There are 0 degrees of freedom if no point is in two campaigns.
    """
    several = logs[np.isfinite(logs).sum(1) >= 2]
    if not len(several):
        return math.nan, 0
    return float(np.nanvar(several, axis=1, ddof=1).mean()), int(np.isfinite(several).sum(1).max()) - 1


def with_days(found: Ratio, variance: float, df: int, lower_is_better: bool = False) -> Ratio:
    """Return the ratio of two campaigns with the variance between days included.

    The interval covers both the interval of the runs and that of the days. p is the larger p value of the two. df: the
    degrees of freedom of `variance` (`day_variance`); below 1, the ratio is returned unchanged.
    """
    if df < 1 or not math.isfinite(found.low):
        return found
    error, middle = math.sqrt(2 * variance), math.log(found.ratio)
    reach = student(df) * error
    low, high = min(found.low, math.exp(middle - reach)), max(found.high, math.exp(middle + reach))
    p = max(found.p, 2 * float(stdtr(df, -abs(middle) / error)) if error else 0.0)
    return replace(found, low=low, high=high, p=p, verdict=verdict(low, high, lower_is_better))


def verdict_corrected(uncorrected: str, p_corrected: float) -> str:
    """Return the verdict of one ratio of many: the uncorrected one if the corrected p is below 5 %, else UNDECIDED."""
    return uncorrected if p_corrected < 1 - CONFIDENCE else UNDECIDED

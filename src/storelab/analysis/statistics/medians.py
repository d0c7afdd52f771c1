"""Statistics over repetitions: a median with an interval whose coverage is stated.

The unit is one run of a point, as T. Kalibera and R. Jones recommend (*Rigorous Benchmarking in Reasonable Time*, ISMM
2013). Medians and their intervals assume no distribution, as T. Hoefler and R. Belli recommend (*Scientific
Benchmarking of Parallel Computing Systems*, SC15, 2015, section 3.1.3). Plain order statistics (J.-Y. Le Boudec,
*Performance Evaluation of Computer and Communication Systems*, 2010, appendix A) can only reach the steps of the
binomial distribution: 96.9 % at 6 runs, 99.2 % at 8. From 6 runs on, we interpolate between neighbouring ranks as T. P.
Hettmansperger and S. J. Sheather do (*Confidence intervals based on interpolated order statistics*, Statistics &
Probability Letters 4, 1986, 75-79).

Quantiles of one run come from histograms. Some are known only by a lower bound.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

RANGE = "range"
INTERVAL = "95 % interval"
CONFIDENCE = 0.95
MIN_RUNS = 6  # of fewer runs, even minimum and maximum cover the median with less than 95 %: those of 5 with 93.75 %


@dataclass(frozen=True)
class Summary:
    """The median of `n` runs between `low` and `high` (same unit as the values; NaN where n is 0).

    kind: `range` (min-max, n < 6) or `95 % interval`. coverage: the probability (0..1) that the interval from low to
    high of independent runs contains the true median; see the function `coverage`.
    """

    n: int
    median: float
    low: float
    high: float
    kind: str
    coverage: float


def student(df: float) -> float:
    """Return the quantile of Student's t that bounds an interval of CONFIDENCE on both sides."""
    from scipy.special import stdtrit  # imported here because text and figures of few runs do not need scipy

    return float(stdtrit(df, (1 + CONFIDENCE) / 2))


def _covered(k: int, n: int) -> float:
    """Return the probability that the true median is between the k-th smallest and k-th largest (k from 1) of n values.

    It is 1 - 2 P(Bin(n, 1/2) <= k - 1). It is 0 or less if both ranks are the same, or in reverse order.
    """
    return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n


def known(values: Iterable[float | None]) -> np.ndarray:
    """Return the finite values (shape (n,)). None counts as not known."""
    x = np.asarray([*values], dtype=float)
    return x[np.isfinite(x)]


@lru_cache
def order_statistics(n: int) -> tuple[int, float]:
    """Return the largest k for which the k-th smallest and largest value cover the median with CONFIDENCE.

    The second value is their true coverage. k is 1 (minimum and maximum) if no k reaches CONFIDENCE.
    """
    k = max((k for k in range(1, n // 2 + 1) if _covered(k, n) >= CONFIDENCE), default=1)
    return k, max(0.0, _covered(k, n))


@lru_cache
def _weight(n: int) -> float:
    """Return the weight of the inner of two interpolated ranks: low = (1 - weight) x_(k) + weight x_(k+1)."""
    k, outer = order_statistics(n)
    part = (outer - CONFIDENCE) / (outer - _covered(k + 1, n))
    return (n - k) * part / (k + (n - 2 * k) * part)


@lru_cache
def coverage(n: int) -> float:
    """Return the probability that `low`-`high` of n independent runs contains the true median.

    Below 6 runs (minimum and maximum) it is exact for any continuous distribution. From 6 runs on it is computed for
    normally distributed runs, by quadrature. For other distributions it differs by less than a percentage point
    (docs/statistics.md). For any distribution it is between the coverages of the two interpolated ranks.
    """
    k, exact = order_statistics(n)
    if n < MIN_RUNS:
        return exact
    from scipy import special  # imported here because text and figures of fewer runs do not need scipy

    # The density of x_(k) at x <= 0 is multiplied by P(low > 0 | x_(k) = x), the probability that all n - k larger
    # values are above -x (1 - weight) / weight.
    least, weight = special.ndtri(special.betaincinv(k, n - k + 1, 1e-12)), _weight(n)
    nodes, weights = np.polynomial.legendre.leggauss(100)
    x = least * (1 - nodes) / 2
    logs = (k - 1) * special.log_ndtr(x) + (n - k) * special.log_ndtr(x * (1 - weight) / weight) - x**2 / 2
    density = np.exp(logs - special.betaln(k, n - k + 1)) / math.sqrt(2 * math.pi)
    return float(exact + least * (weights @ density))  # exact minus twice the integral from least to 0


def summarise(values: Iterable[float]) -> Summary:
    """Return the summary of the finite values (shape (n,), any unit). Without values, n is 0 and the rest is NaN."""
    x = np.sort(known(values))
    n = len(x)
    if n == 0:
        return Summary(0, np.nan, np.nan, np.nan, RANGE, np.nan)
    if n < MIN_RUNS:
        return Summary(n, float(np.median(x)), float(x[0]), float(x[-1]), RANGE, coverage(n))
    k, weight = order_statistics(n)[0], _weight(n)
    low, high = ((1 - weight) * x[outer] + weight * x[inner] for outer, inner in ((k - 1, k), (n - k, n - k - 1)))
    return Summary(n, float(np.median(x)), float(low), float(high), INTERVAL, coverage(n))


WIDTH = 1.02  # largest ratio of a bucket's upper end to its lower end


def enough(operations: float, level: float) -> bool:
    """Check whether there are enough operations to distinguish the quantile at this level (0..1) from the maximum."""
    return operations * (1 - level) >= 1 - 1e-9


def histogram_quantiles(upper: np.ndarray, count: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Return quantiles (unit of `upper`, shape of levels) of a histogram.

    The buckets end at `upper` (ascending) and contain `count` values. Counts need not be integers, because bins may be
    cut. The values in a bucket are assumed to be evenly spaced in the logarithm. The ends of a bucket differ by at most
    the factor WIDTH.
    """
    lower = np.maximum(upper / WIDTH, np.concatenate([[0], upper[:-1]]))
    after = np.cumsum(count)
    rank = np.minimum(np.ceil(np.asarray(levels) * after[-1] - 1e-9), after[-1])
    i = np.searchsorted(after, rank)
    share = np.clip((rank - (after[i] - count[i]) - 0.5) / count[i], 0, 1)
    return lower[i] * (upper[i] / lower[i]) ** share


def with_bounds(ended: pd.Series, bounds: pd.Series, levels: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the quantiles, and which of them are only lower bounds (both with the shape of `levels`).

    ended: duration -> number of operations that ended; bounds: lower bound of the duration -> number of operations that
    did not end. Together they must have at least one operation.
    """
    every = pd.concat([ended, bounds]).groupby(level=0).sum()
    rank = np.ceil(np.asarray(levels) * every.sum() - 1e-9)
    beyond = rank > ended.sum()
    known, least = (_ranked(counts, rank) for counts in (ended.groupby(level=0).sum(), every))
    return np.where(beyond, least, known), beyond


def _ranked(counts: pd.Series, rank: np.ndarray) -> np.ndarray:
    """Return the value at each rank (1 …). counts: value -> count, ascending.

    Ranks beyond the end get the last value, or NaN without values.
    """
    at = np.searchsorted(counts.cumsum(), rank).clip(max=len(counts) - 1)
    return counts.index.to_numpy(float)[at] if len(counts) else np.full(len(rank), np.nan)

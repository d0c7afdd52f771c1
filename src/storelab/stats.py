"""Statistics over repetitions (level 2, analysis): a median with an interval whose coverage is stated. Pure.

The unit is one run of a point. Medians and distribution-free intervals by order statistics, as T. Hoefler and R. Belli ask
for in *Scientific Benchmarking of Parallel Computing Systems*, SC15 (2015), section 3.1.3 (after J.-Y. Le Boudec,
*Performance Evaluation of Computer and Communication Systems*, 2010, appendix A).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import binom

RANGE = "range"
INTERVAL = "95 % interval"
LEAST = 6  # with fewer runs no pair of order statistics covers the median with 95 %: min-max of 5 reaches 93.75 %


@dataclass(frozen=True)
class Summary:
    """Median of `n` runs between `low` and `high` (same unit as the values; NaN where n is 0).

    kind: `range` (min-max, n < 6) or `95 % interval`. coverage: the probability, for independent runs of any continuous
    distribution, that low-high holds the true median (0..1).
    """

    n: int
    median: float
    low: float
    high: float
    kind: str
    coverage: float


@lru_cache
def order_statistics(n: int, confidence: float = 0.95) -> tuple[int, float]:
    """Rank k (from 1) so that the k-th smallest and k-th largest of n values bound the median, and the true coverage.

    Coverage = 1 - 2 P(Bin(n, 1/2) <= k - 1). The largest k that reaches `confidence`; k = 1 (min-max) where none does.
    """
    k = max(1, int(binom.ppf((1 - confidence) / 2, n, 0.5)))
    while k > 1 and 1 - 2 * binom.cdf(k - 1, n, 0.5) < confidence:
        k -= 1
    while k + 1 <= (n + 1) // 2 and 1 - 2 * binom.cdf(k, n, 0.5) >= confidence:
        k += 1
    return k, float(max(0.0, 1 - 2 * binom.cdf(k - 1, n, 0.5)))


def summarise(values: Iterable[float]) -> Summary:
    """Summary of the finite values (shape (n,), any unit). Never raises: no value gives n = 0 and NaN."""
    x = np.sort(np.asarray([v for v in values if v is not None and np.isfinite(v)], dtype=float))
    n = len(x)
    if n == 0:
        return Summary(0, np.nan, np.nan, np.nan, RANGE, np.nan)
    k, coverage = order_statistics(n)
    return Summary(n, float(np.median(x)), float(x[k - 1]), float(x[n - k]), INTERVAL if n >= LEAST else RANGE, coverage)

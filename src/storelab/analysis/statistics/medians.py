"""Statistics over repetitions: a median with an interval whose coverage is stated. Pure.

The unit is one run of a point. Medians with intervals that assume no distribution, as T. Hoefler and R. Belli ask for
in *Scientific Benchmarking of Parallel Computing Systems*, SC15 (2015), section 3.1.3, and T. Kalibera and R. Jones for
runs as the unit (*Rigorous Benchmarking in Reasonable Time*, ISMM 2013). Plain order statistics (J.-Y. Le Boudec,
*Performance Evaluation of Computer and Communication Systems*, 2010, appendix A) reach only the steps of the binomial
distribution: 96.9 % at 6 runs, 99.2 % at 8. From 6 runs on we interpolate between neighbouring ranks as T. P.
Hettmansperger and S. J. Sheather do (*Confidence intervals based on interpolated order statistics*, Statistics &
Probability Letters 4, 1986, 75-79).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.integrate import fixed_quad
from scipy.stats import beta, binom, norm
from scipy.stats.mstats import median_cihs

RANGE = "range"
INTERVAL = "95 % interval"
CONFIDENCE = 0.95
LEAST = 6  # with fewer runs no pair of order statistics covers the median with 95 %: min-max of 5 reaches 93.75 %


@dataclass(frozen=True)
class Summary:
    """Median of `n` runs between `low` and `high` (same unit as the values; NaN where n is 0).

    kind: `range` (min-max, n < 6) or `95 % interval`. coverage: the probability (0..1), for independent runs, that
    low-high holds the true median: see `coverage`.
    """

    n: int
    median: float
    low: float
    high: float
    kind: str
    coverage: float


@lru_cache
def order_statistics(n: int, confidence: float = CONFIDENCE) -> tuple[int, float]:
    """Rank k (from 1) so that the k-th smallest and k-th largest of n values bound the median, and the true coverage.

    Coverage = 1 - 2 P(Bin(n, 1/2) <= k - 1). The largest k that reaches `confidence`; k = 1 (min-max) where none does.
    """
    k = max(1, int(binom.ppf((1 - confidence) / 2, n, 0.5)))
    while k > 1 and 1 - 2 * binom.cdf(k - 1, n, 0.5) < confidence:
        k -= 1
    while k + 1 <= (n + 1) // 2 and 1 - 2 * binom.cdf(k, n, 0.5) >= confidence:
        k += 1
    return k, float(max(0.0, 1 - 2 * binom.cdf(k - 1, n, 0.5)))


@lru_cache
def coverage(n: int) -> float:
    """Probability that `low`-`high` of n independent runs holds the true median.

    Below 6 runs (min-max) it holds exactly for any continuous distribution. From 6 on it is that of normal runs, by
    quadrature; for other distributions it differs by less than a percent point (docs/statistics.md), and by order
    statistics alone it lies between those of the two ranks that are interpolated.
    """
    k, exact = order_statistics(n)
    if n < LEAST:
        return exact
    # the weight as SciPy has it, read off its interval of the ranks: low = (1 - weight) x_(k) + weight x_(k+1)
    weight = float(median_cihs(np.arange(1.0, n + 1), 1 - CONFIDENCE)[0]) - k

    # density of x_(k) at x <= 0, times P(low > 0 given it): all n - k values above x lie above -x (1 - weight) / weight
    def above(x: np.ndarray) -> np.ndarray:
        rest = norm.logsf(-x * (1 - weight) / weight) - norm.logsf(x)
        return beta.pdf(norm.cdf(x), k, n - k + 1) * norm.pdf(x) * np.exp((n - k) * rest)

    least = float(norm.ppf(beta.ppf(1e-12, k, n - k + 1)))
    return float(1 - 2 * (binom.cdf(k - 1, n, 0.5) + fixed_quad(above, least, 0, n=100)[0]))


def summarise(values: Iterable[float]) -> Summary:
    """Summary of the finite values (shape (n,), any unit). Never raises: no value gives n = 0 and NaN."""
    x = np.sort(np.asarray([v for v in values if v is not None and np.isfinite(v)], dtype=float))
    n = len(x)
    if n == 0:
        return Summary(0, np.nan, np.nan, np.nan, RANGE, np.nan)
    low, high = (x[0], x[-1]) if n < LEAST else median_cihs(x, 1 - CONFIDENCE)
    return Summary(n, float(np.median(x)), float(low), float(high), RANGE if n < LEAST else INTERVAL, coverage(n))

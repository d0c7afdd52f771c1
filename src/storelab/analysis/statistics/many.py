"""Many comparisons, and campaigns of several days. Pure.

* Of a hundred points that do not differ, five leave 1 out of their 95 % intervals. Over the points of a comparison we
  control the false discovery rate (Y. Benjamini and Y. Hochberg, J. R. Statist. Soc. B 57, 1995, 289-300): of the
  points called different, 5 % at most differ by chance alone, and where no point differs, 95 % of the comparisons say
  nothing at all. A family-wise correction would silence exact tests of 6 runs (their least p is 0.002) from 24 points
  on.
* Runs of one campaign share its day: the state of disks and caches, other people's traffic. Whoever compares campaigns
  of different days needs campaigns that differ in the day alone: they are the unit then, the highest level that varies
  (T. Kalibera and R. Jones, *Rigorous Benchmarking in Reasonable Time*, ISMM 2013). With the variance V of K such
  campaigns, a difference of two others scatters by 2 V, and Student's t has K - 1 degrees of freedom.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtr, stdtrit

from storelab.analysis.statistics.medians import CONFIDENCE
from storelab.analysis.statistics.ratios import CANNOT_TELL, Ratio, verdict


def corrected(p: Sequence[float]) -> np.ndarray:
    """p values (shape (m,)) corrected for their number, in the same order; NaN (no test) stays and does not count."""
    values = np.asarray(p, dtype=float)
    known = np.isfinite(values)
    out = np.where(known, values, math.nan)
    if known.sum() > 1:
        from scipy.stats import false_discovery_control  # here: slow to load, and one value needs no correction

        out[known] = false_discovery_control(values[known])
    return out


def day_variance(logs: np.ndarray) -> tuple[float, int]:
    """Variance of a campaign's logarithm between days, and its degrees of freedom. `logs`: mean logarithms of the same
    points in K campaigns, shape (points, K); NaN where a campaign lacks one. Over points their mean; 0 degrees where
    fewer than two campaigns have a point in common."""
    several = logs[np.isfinite(logs).sum(1) >= 2]
    if not len(several):
        return math.nan, 0
    return float(np.nanvar(several, axis=1, ddof=1).mean()), int(np.isfinite(several).sum(1).max()) - 1


def with_days(found: Ratio, variance: float, df: int, lower_is_better: bool = False) -> Ratio:
    """The same ratio with the wider of two intervals, its own and that of the days; the larger p of both."""
    if df < 1 or not math.isfinite(found.low):
        return found
    error, middle = math.sqrt(2 * variance), math.log(found.ratio)
    reach = float(stdtrit(df, (1 + CONFIDENCE) / 2)) * error
    low, high = min(found.low, math.exp(middle - reach)), max(found.high, math.exp(middle + reach))
    p = max(found.p, 2 * float(stdtr(df, -abs(middle) / error)) if error else 0.0)
    return replace(found, low=low, high=high, p=p, verdict=verdict(low, high, lower_is_better))


def verdict_corrected(own: str, p_corrected: float) -> str:
    """The verdict of a ratio among many: its own where the corrected p is below 5 %, else `cannot tell`."""
    return own if p_corrected < 1 - CONFIDENCE else CANNOT_TELL

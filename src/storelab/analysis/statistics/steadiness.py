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
"""

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

"""Quantiles of operations of which some are only known by a lower bound, compared with ranks of a list."""

import numpy as np
import pandas as pd

from storelab.analysis.statistics import medians

LEVELS = (0.5, 0.9, 0.99, 0.999)


def ranked(ended, bounds, level):
    """Return (quantile, whether it is a lower bound); operations that never ended come last."""
    need = level * (len(ended) + len(bounds)) - 1e-9
    for i, value in enumerate(sorted(ended)):
        if i + 1 >= need:
            return value, False
    return next(v for i, v in enumerate(sorted([*ended, *bounds])) if i + 1 >= need), True


def test_quantiles_with_lower_bounds():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        ended, bounds = rng.integers(1, 50, rng.integers(0, 300)), rng.integers(1, 90, rng.integers(1, 40))
        counts = (pd.Series(values).value_counts() for values in (ended, bounds))
        found = list(zip(*medians.with_bounds(*counts, LEVELS), strict=True))
        assert found == [ranked(ended, bounds, p) for p in LEVELS], seed


def test_quantile_needs_operations_beyond_it():
    cases = [(99, 0.99, False), (100, 0.99, True), (999, 0.999, False), (1000, 0.999, True), (1, 0.5, False)]
    for n, level, enough in [*cases, (2, 0.5, True)]:
        assert medians.enough(n, level) == enough, (n, level)

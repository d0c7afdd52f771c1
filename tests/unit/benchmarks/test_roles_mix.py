"""The benchmark of mixes recognises wrong gaps between arrivals, and wrong shares of operations."""

import math
import random

import pytest
import roles_mix


def test_wrong_gaps_and_shares_are_recognised():
    """Published values of Kolmogorov's distribution: Q(1.3581) = 0.05, Q(1.6276) = 0.01."""
    rng = random.Random(2)
    n = 40_000
    gaps = [rng.expovariate(1 / 50_000) for _ in range(n)]
    assert roles_mix.kolmogorov_smirnov(gaps, 50_000) > 0.01
    assert roles_mix.kolmogorov_smirnov(gaps, 51_500) < 1e-4, "3 % off"
    assert roles_mix.kolmogorov_smirnov([50_000] * n, 50_000) < 1e-6, "evenly spaced"
    for x, p in ((1.3581, 0.05), (1.6276, 0.01), (0.8276, 0.5)):
        # n values whose largest distance is d: the quantiles of the middle of each step, all moved by the rest.
        d = x / (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n))
        moved = [-math.log1p(-max(0.0, (i + 1) / n - d)) for i in range(n)]
        assert roles_mix.kolmogorov_smirnov(moved, 1.0) == pytest.approx(p, rel=0.02)
    right = ["GET"] * 50 + ["PUT"] * 15 + ["HEAD"] * 25 + ["DELETE"] * 10
    assert roles_mix.mix_error(right) == 0 and roles_mix.mix_error([*right[1:], "PUT"]) == pytest.approx(1)
    assert roles_mix.mix_error(["GET"] * 10) == 50

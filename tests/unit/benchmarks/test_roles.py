"""Test the parts of `benchmarks/roles.py`: distances of faults from their effects, gaps and shares of mixes."""

import math
import random

import pandas as pd
import pytest
import roles_events
import roles_mix


def line(failing, silent):
    """Make steps of 100 ms of a run of 2 s: errors in the failing ones, no operations in the silent ones."""
    steps = range(20)
    columns = {"second": [i / 10 for i in steps], "step_s": 0.1, "errors": [float(i in failing) for i in steps]}
    return pd.DataFrame(columns | {"operations": [0.0 if i in silent else 50.0 for i in steps]})


def test_distances_of_acts_from_moments_and_effects():
    for acts, moments, exact, seen in (
        ((0.82, 1.41), [0.82, 1.41], 0.0, 0.0),  # at their moments, within the steps that show it
        ((0.81, 1.41), [0.85, 1.41], 0.04, 0.0),
        ((0.82, 1.41), [0.82, 1.35], 0.06, 0.0),
        ((0.77, 1.41), [0.77, 1.41], 0.0, 0.03),  # 30 ms before the step of the first error
        ((0.82, 1.35), [0.82, 1.35], 0.0, 0.05),  # 50 ms before the step of the first answer
        ((0.93, 1.41), [0.93, 1.41], 0.0, 0.03),  # after it
    ):
        found = roles_events.of_run(line({8, 9}, range(9, 14)), pd.DataFrame({"begin_s": acts}), moments)
        assert found == (pytest.approx(exact), pytest.approx(seen)), (acts, moments)


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

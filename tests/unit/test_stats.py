"""Medians and their intervals: exact order statistics, true coverage."""

import math

import numpy as np
import pytest
from scipy.stats import binom, quantile_test

from storelab import stats


def test_no_value_and_one_value():
    empty = stats.summarise([math.nan, None])
    assert empty.n == 0 and math.isnan(empty.median) and empty.kind == "range"
    one = stats.summarise([3.0])
    assert (one.n, one.median, one.low, one.high, one.kind, one.coverage) == (1, 3.0, 3.0, 3.0, "range", 0.0)


@pytest.mark.parametrize(("n", "coverage"), [(2, 0.5), (3, 0.75), (5, 0.9375)])
def test_below_six_it_is_the_range(n, coverage):
    s = stats.summarise(range(n))
    assert (s.low, s.high, s.kind) == (0, n - 1, "range")
    assert s.coverage == pytest.approx(coverage)


@pytest.mark.parametrize("n", [6, 7, 8, 9, 10, 15, 20, 50, 101])
def test_interval_covers_at_least_95_percent_and_is_the_narrowest(n):
    k, coverage = stats.order_statistics(n)
    assert coverage >= 0.95
    assert coverage == pytest.approx(1 - 2 * binom.cdf(k - 1, n, 0.5))
    assert 1 - 2 * binom.cdf(k, n, 0.5) < 0.95
    values = np.arange(1.0, n + 1)
    s = stats.summarise(values)
    assert (s.low, s.high, s.kind) == (k, n + 1 - k, "95 % interval")
    theirs = quantile_test(values, p=0.5).confidence_interval(0.95)
    assert s.low >= theirs.low - 1e-9 and s.high <= theirs.high + 1e-9


def test_six_runs_reach_96_875_percent():
    assert stats.order_statistics(6) == (1, pytest.approx(0.96875))


def test_coverage_is_true():
    rng = np.random.default_rng(1)
    hits = 0
    for sample in rng.exponential(size=(4000, 9)):
        s = stats.summarise(sample)
        hits += s.low <= math.log(2) <= s.high
    assert hits / 4000 == pytest.approx(stats.order_statistics(9)[1], abs=0.01)

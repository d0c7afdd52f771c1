"""Trends of a series: slopes and tests, compared with scipy, brute force and draws of constant series."""

import itertools
import math

import numpy as np
import pytest
from statistics_truth import noise

from storelab.analysis.statistics import steadiness as t


def s_of(row):
    return sum(np.sign(b - a) for a, b in itertools.combinations(row, 2))


@pytest.mark.parametrize("n", [4, 12, 24])
def test_without_correlation_the_variance_is_that_of_mann(n):
    assert t.variance(n, 0.0) == pytest.approx(n * (n - 1) * (2 * n + 5) / 18)


@pytest.mark.parametrize(("n", "phi"), [(6, 0.6), (16, 0.6), (16, 0.3)])
def test_the_variance_of_correlated_series_is_that_of_draws(n, phi):
    rows = noise(np.random.default_rng(n), 3000, n, 1.0, phi)
    signs = sum(np.sign(rows[:, j] - rows[:, i]) for i, j in itertools.combinations(range(n), 2))
    assert np.var(signs) == pytest.approx(t.variance(n, phi), rel=0.1)


def test_the_slope_is_that_of_theil_and_sen_and_tau_that_of_kendall():
    from scipy import stats

    rng = np.random.default_rng(7)
    times = np.sort(rng.uniform(0, 24, 20))
    values = 100 + 3 * times + rng.normal(size=20)
    found, theirs = t.trend(times, values), stats.theilslopes(values, times)
    assert found.slope == pytest.approx(theirs[0]) and found.tau == pytest.approx(stats.kendalltau(times, values)[0])
    assert found.low < theirs[2] < found.slope < theirs[3] < found.high, "correlated values have less information"
    assert found.level == np.median(values) and found.change == pytest.approx(found.slope * np.ptp(times))
    assert found.verdict == t.RISES and t.trend(times, -values).verdict == t.FALLS


def test_the_interval_without_correlation_is_that_of_scipy(monkeypatch):
    from scipy import stats

    plain = t.variance
    monkeypatch.setattr(t, "variance", lambda n: plain(n, 0.0))
    rng = np.random.default_rng(8)
    times, values = np.arange(30.0), rng.normal(size=30)
    found, theirs = t.trend(times, values), stats.theilslopes(values, times, 0.95)
    slopes = np.sort([(values[j] - values[i]) / (j - i) for i, j in itertools.combinations(range(30), 2)])
    ours = np.searchsorted(slopes, (found.low, found.high))
    assert np.abs(ours - np.searchsorted(slopes, theirs[2:])).max() <= 1, "the rank is rounded outwards"
    assert found.p == pytest.approx(2 * stats.norm.sf((abs(s_of(values)) - 1) / math.sqrt(plain(30, 0.0))))


@pytest.mark.parametrize("n", [12, 24, 60])
@pytest.mark.parametrize("phi", [0.0, 0.6])
def test_series_that_stay_are_called_flat(n, phi):
    rows = 100 + noise(np.random.default_rng(n), 400, n, 20.0, phi)
    assert np.mean([t.trend(np.arange(n), row).verdict == t.FLAT for row in rows]) > 0.975


@pytest.mark.parametrize("n", [12, 24, 200])
def test_leak_and_decay_are_named(n):
    rng, times = np.random.default_rng(n), np.linspace(0, 10, n)
    rows = noise(rng, 50, n, 5.0, 0.6)
    assert np.mean([t.trend(times, 500 + 30 * times + e).verdict == t.RISES for e in rows]) == 1
    assert np.mean([t.trend(times, 500 - 30 * times + e).verdict == t.FALLS for e in rows]) == 1


def test_small_change_is_no_trend_above_minimum():
    times = np.arange(24.0)
    assert t.trend(times, 100 + 0.2 * times).verdict == t.FLAT, "4.6 % of the value"
    assert t.trend(times, 100 + 0.25 * times).verdict == t.RISES
    assert t.trend(times, 100 + 0.2 * times, 4.0).verdict == t.RISES
    assert t.trend(times, 100 + 0.2 * times, 5.0).verdict == t.FLAT
    nothing = t.trend(times, np.zeros(24))
    assert nothing.verdict == t.FLAT and nothing.p == 1 and nothing.slope == 0


@pytest.mark.parametrize("n", range(13))
def test_too_few_parts_show_no_trend(n):
    found = t.trend(np.arange(n, dtype=float), np.arange(n, dtype=float) + 1)
    assert (found.verdict == t.TOO_FEW) == (n < 10) == (not t.enough(n)) and found.n == n
    assert found.verdict in (t.TOO_FEW, t.RISES) and math.isnan(found.slope) == (n < 10)


def test_gaps_are_left_out_and_long_series_are_thinned():
    times = np.arange(30.0)
    values = np.where(times % 3 == 1, np.nan, 10 + times)
    found = t.trend(times, values)
    assert (found.n, found.slope, found.verdict) == (20, pytest.approx(1), t.RISES)
    long = t.trend(np.arange(1000.0), np.arange(1000.0))
    assert (long.n, long.slope, long.level) == (t.MAX_VALUES, pytest.approx(1), pytest.approx(499.5, abs=10))


def test_unbounded_interval_is_reported(monkeypatch):
    monkeypatch.setattr(t, "variance", lambda n: 1e9)
    monkeypatch.setattr(t, "enough", lambda n: True)
    found = t.trend(np.arange(12.0), np.arange(12.0))
    assert (found.low, found.high, found.verdict) == (-math.inf, math.inf, t.FLAT)

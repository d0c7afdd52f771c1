"""Steadiness of a window: rates of false and true alarms over synthetic windows, and the name of each shape."""

import math

import numpy as np
import pytest
from statistics_truth import noise

from storelab.analysis.statistics import steadiness as s

N = 40
T = (np.arange(N) + 0.5) / N


@pytest.mark.parametrize("phi", [0.0, 0.6])
@pytest.mark.parametrize("scatter", [0.03, 0.1])
def test_steady_windows_are_called_steady(phi, scatter):
    series = 1000 * (1 + noise(np.random.default_rng(1), 400, N, scatter, phi))
    assert np.mean([s.label(row) == s.STEADY for row in series]) > 0.94


SHAPES = {
    "half the window at 70 %": (np.where(T < 0.5, 1.0, 0.7), s.SHIFTED),
    "the first third at 140 %": (np.where(T < 0.33, 1.4, 1.0), s.SHIFTED),
    "a stall of 20 %": (np.where((T > 0.4) & (T < 0.6), 0.0, 1.0), s.STALLED),
    "a stall at the end": (np.where(T > 0.8, 0.0, 1.0), s.STALLED),
    "two stalls of 5 %": (np.where(((T > 0.2) & (T < 0.25)) | ((T > 0.7) & (T < 0.75)), 0.0, 1.0), s.STALLED),
    "a threefold swing of 2 periods": (1 + 0.5 * np.sin(4 * np.pi * T), s.SWINGING),
    "a threefold swing of 5 periods": (1 + 0.5 * np.sin(10 * np.pi * T + 1), s.SWINGING),
    "full and half speed in turn": (np.where(np.sin(6 * np.pi * T) > 0, 1.0, 0.5), s.SWINGING),
    "60 % more at the end": (1 + 0.6 * T, s.DRIFTING),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("phi", [0.0, 0.6])
def test_shapes_are_seen_and_named(name, phi):
    shape, word = SHAPES[name]
    series = 1000 * shape * (1 + noise(np.random.default_rng(2), 60, N, 0.05, phi))
    assert np.mean([s.label(row) == word for row in series]) > 0.9


def test_thresholds_are_the_99_percent_quantiles_of_autocorrelated_noise():
    """With new draws, each shape is found in about 1 % of the windows, by the F statistic only."""
    rows = 1 + noise(np.random.default_rng(3), 2000, N, 0.05, 0.6)
    f = np.array([[f for f, _, _ in s.fits(row).values()] for row in rows])
    found = (f > np.array(s.THRESHOLDS[N])).mean(axis=0)
    assert ((found > 0.003) & (found < 0.02)).all(), found


def test_f_statistic_of_a_line_is_that_of_linear_regression():
    from scipy.stats import linregress

    y = 100 + np.arange(N) + np.random.default_rng(4).normal(0, 5, N)
    r = linregress(np.arange(N), y).rvalue ** 2
    assert s.fits(y)[s.DRIFTING][0] == pytest.approx(r / (1 - r) * (N - 2))


def test_change_of_a_step_is_that_of_its_levels():
    assert s.fits(np.where(T < 0.5, 1.0, 0.7))[s.SHIFTED][1] == pytest.approx(0.3 / 0.85)


def test_a_change_below_10_percent_is_steady_however_regular():
    assert s.label(1000 * (1 + 0.04 * np.sin(6 * np.pi * T))) == s.STEADY
    assert s.label(1000 * (1 + 0.06 * np.sin(6 * np.pi * T))) == s.SWINGING


def test_one_slow_slice_is_no_stall():
    one = np.full(N, 100.0)
    one[7] = 0
    assert not s.stalled(one)
    one[8] = 9
    assert s.stalled(one)
    one[8] = 11
    assert not s.stalled(one)


@pytest.mark.parametrize("n", sorted(s.THRESHOLDS))
def test_every_number_of_slices_is_judged(n):
    assert s.label(np.full(n, 25.0)) == s.STEADY
    assert s.label(np.where(np.arange(n) < n / 2, 100.0, 10.5)) == s.SHIFTED


def test_shapes_are_ranked_by_information_criterion():
    """n log(rest / n) + parameters * log n (Bayes); a line has 2, a step 3 (its place), a swing 4 (its period)."""
    rng, n = np.random.default_rng(5), 40
    t = (np.arange(n) + 0.5) / n
    for _ in range(20):
        y = 1 + 0.3 * rng.random() * t + 0.3 * (t > rng.random()) + 0.05 * rng.normal(size=n)
        z = y / y.mean() - 1

        def rest(*columns, z=z):
            design = np.column_stack([np.ones(n), *columns])
            return float(((z - design @ np.linalg.lstsq(design, z, rcond=None)[0]) ** 2).sum())

        periods = np.arange(1.5, 10.01, 0.5)
        least = {
            s.DRIFTING: (2, rest(t)),
            s.SHIFTED: (3, min(rest(t > k / n) for k in range(5, 36))),
            s.SWINGING: (4, min(rest(np.sin(2 * np.pi * p * t), np.cos(2 * np.pi * p * t)) for p in periods)),
        }
        found = s.fits(y)
        for name, (parameters, left) in least.items():
            assert found[name][2] == pytest.approx(n * math.log(left / n) + parameters * math.log(n)), name

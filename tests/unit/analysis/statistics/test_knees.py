"""Curves that fall again: a peak is named, its interval holds the truth, and knees stay knees."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from storelab.analysis.statistics import knees

X = np.repeat([1.0, 2, 4, 8, 16, 32], 3)
RISES = {"proportional": lambda x: x, "power": lambda x: x**0.8, "line": lambda x: 1 + 0.7 * x}
FALLS = {"root": lambda r: r**-0.5, "inverse": lambda r: 1 / r, "log": lambda r: 1 - 0.25 * np.log2(r)}


def drawn(rng, shape, scatter):
    return shape * np.exp(rng.normal(0, scatter, len(shape)))


def test_the_example_of_the_docs():
    y = drawn(np.random.default_rng(1), np.repeat([100.0, 200, 400, 800, 600, 400], 3), 0.03)
    found = knees.fit(X, y)
    assert found.shape == "peak"
    assert (found.knee.low, found.knee.high) == (4, 16)
    assert found.knee.value == pytest.approx(8, rel=0.1)
    assert np.isnan(found.plateau.value)
    assert found.slope.value == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize("rise", RISES)
@pytest.mark.parametrize("fall", FALLS)
def test_peaks_are_named_and_their_interval_holds_the_truth(rise, fall):
    rng, found = np.random.default_rng(2), []
    for peak in (4, 6, 8):
        for _ in range(8):
            y = drawn(rng, RISES[rise](np.minimum(X, peak)) * FALLS[fall](np.maximum(X / peak, 1)), 0.05)
            shape, at = knees.knee(X, y)
            found.append(shape == "peak" and at.low <= peak <= at.high and at.low <= at.value <= at.high)
    assert np.mean(found) > 0.95


@pytest.mark.parametrize("shape", [np.minimum(X, 5), np.minimum(X, 8) ** 0.8, X, np.full(len(X), 1.0)])
def test_no_peak_where_nothing_falls(shape):
    rng = np.random.default_rng(3)
    named = [knees.knee(X, drawn(rng, 100.0 * shape, 0.05))[0] == "peak" for _ in range(60)]
    assert np.mean(named) <= 0.05


def test_a_curve_that_falls_from_the_start_has_no_peak():
    assert knees.knee(X, drawn(np.random.default_rng(4), 100 / X, 0.03))[0] == "not rising"


def test_a_tie_of_two_tops_lies_in_the_interval():
    """4 and 8 are equally fast: the peak may be at either, or beyond them up to their neighbours."""
    y = drawn(np.random.default_rng(5), np.repeat([100.0, 200, 400, 400, 200, 100], 3), 0.02)
    shape, at = knees.knee(X, y)
    assert (shape, at.low, at.high) == ("peak", 2, 16)


def test_residuals_of_a_tent_are_those_of_least_squares():
    """Against numpy's solver, one candidate at a time."""
    rng = np.random.default_rng(6)
    y = drawn(rng, np.minimum(X, 6) / np.maximum(X / 6, 1), 0.1)
    w = rng.uniform(0.5, 2, len(X))
    rise, fall = np.minimum(X, 6.0), np.maximum(X, 6.0)
    design = np.column_stack([np.ones_like(X), rise, fall]) * np.sqrt(w)[:, None]
    _, rest, _, _ = np.linalg.lstsq(design, y * np.sqrt(w), rcond=None)
    assert knees._tents(rise[None], fall[None], y, w)[0] == pytest.approx(rest[0])


def test_interval_of_peak_with_few_runs_at_top():
    """Two runs at the highest value, nine elsewhere: two means differ with the variance 1/2 + 1/9 of one run's."""
    seen = set()
    for seed, scatter in itertools.product(range(30), (0.02, 0.08)):
        rng = np.random.default_rng(seed)
        values, speeds, many = [1, 2, 4, 8, 16, 32], [100, 200, 400, 800, 720, 300], [9, 9, 9, 2, 9, 9]
        x, y = np.repeat(values, many).astype(float), np.repeat(speeds, many) * np.exp(rng.normal(0, scatter, 47))
        found = knees.fit(x, y)
        if found.shape != knees.PEAK:
            continue
        groups = [np.log(y[x == v]) for v in values]
        means, df = [g.mean() for g in groups], 47 - 6
        pooled, top = sum(((g - g.mean()) ** 2).sum() for g in groups) / df, int(np.argmax(means))
        bound = [stats.t.ppf(0.975, df) * math.sqrt(pooled * (1 / len(g) + 1 / len(groups[top]))) for g in groups]
        may = [i for i in range(6) if means[top] - means[i] <= bound[i]]
        seen.add(tuple(may))
        assert (found.knee.low, found.knee.high) == (values[max(may[0] - 1, 0)], values[min(may[-1] + 1, 5)])
    assert len(seen) > 1, "the neighbour is in some of the intervals"


# Knees, plateaus and slopes

FIVE = np.repeat([1.0, 2, 4, 8, 16], 4)


def scattered(y, spread=0.02):
    return drawn(np.random.default_rng(3), y, spread)


def test_knee_plateau_and_slope():
    c = knees.fit(FIVE, scattered(100 * np.minimum(FIVE, 5)))
    assert c.shape == "knee" and c.reason == ""
    assert c.knee.low <= 5 <= c.knee.high and c.knee.high / c.knee.low < 1.3
    assert c.plateau.low <= 500 <= c.plateau.high
    assert c.slope.low <= 100 <= c.slope.high and c.slope.value == pytest.approx(100, rel=0.05)
    assert c.linearity.value < 1


def test_slope_is_that_of_weighted_least_squares():
    """Compare with the closed form, with the residuals' scale; also for a nearly level line of small numbers."""
    for y in (scattered(100 * FIVE), scattered(2e-4 * (1 + FIVE / 1e4), 0.1)):
        w = np.array([y[x == FIVE].mean() for x in FIVE]) ** -2
        x, z = FIVE - (w * FIVE).sum() / w.sum(), y - (w * y).sum() / w.sum()
        slope = (w * x * z).sum() / (w * x**2).sum()
        error = np.sqrt((w * (z - slope * x) ** 2).sum() / (len(FIVE) - 2) / (w * x**2).sum())
        found, reach = knees.fit(FIVE, y).slope, stats.t(len(FIVE) - 2).ppf(0.975) * error
        assert (found.value, found.low, found.high) == pytest.approx((slope, slope - reach, slope + reach), rel=1e-9)


def test_still_rising_has_no_knee():
    c = knees.fit(FIVE, scattered(100 * FIVE))
    assert c.shape == "still rising" and np.isnan(c.knee.value) and np.isnan(c.knee.high) and np.isnan(c.plateau.value)
    assert c.knee.low > 8, "the knee lies beyond the last value but one"
    assert c.linearity.low <= 1 <= c.linearity.high and c.linearity.value == pytest.approx(1, abs=0.05)


def test_bending_still_rises_but_less():
    assert knees.fit(FIVE, scattered(100 * np.minimum(FIVE, 11))).shape == "bending"


def test_level_and_falling_do_not_rise():
    assert knees.fit(FIVE, scattered(np.full(len(FIVE), 100.0))).shape == "not rising"
    c = knees.fit(FIVE, scattered(100 / FIVE))
    assert c.shape == "not rising" and c.linearity.value == pytest.approx(-1, abs=0.05)


def test_noise_has_no_knee():
    x = np.repeat([1.0, 2, 4], 2)
    c = knees.fit(x, np.array([90.0, 150, 100, 160, 150, 210]))
    assert c.shape in ("cannot tell", "not rising") and np.isnan(c.knee.value)


def test_few_values_or_runs_have_a_reason():
    assert "2 values of the axis" in knees.fit(np.array([1, 2, 1, 2]), np.array([1, 2, 1, 2])).reason
    once = knees.fit(np.array([1, 2, 4]), np.array([100.0, 200, 380]))
    assert once.shape == "cannot tell" and "repeat them" in once.reason
    assert once.linearity.value == pytest.approx(0.96, abs=0.03)

"""Knees and peaks of curves, compared with closed forms, scipy and curves with a known truth."""

import itertools
import math
import warnings

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


def test_tie_of_two_peaks_is_in_the_interval():
    """4 and 8 are equally fast: the peak may be at either, or beyond them up to their neighbours."""
    y = drawn(np.random.default_rng(5), np.repeat([100.0, 200, 400, 400, 200, 100], 3), 0.02)
    shape, at = knees.knee(X, y)
    assert (shape, at.low, at.high) == ("peak", 2, 16)


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
    assert c.knee.low > 8, "the knee is beyond the second last value"
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
    assert c.shape in ("undecided", "not rising") and np.isnan(c.knee.value)
    once = knees.fit(np.array([1, 2, 4]), np.array([100.0, 200, 380]))
    assert once.shape == "undecided" and once.linearity.value == pytest.approx(0.96, abs=0.03)


def runs(values, speeds, n, scatter, seed=1):
    rng = np.random.default_rng(seed)
    x = np.repeat(np.array(values, float), n)
    y = np.repeat(np.array(speeds, float), n) * np.exp(rng.normal(0, scatter, len(x)))
    return x, y


def test_linearity_is_the_slope_of_the_logarithms_with_its_student_interval():
    x, y = runs([1, 2, 4, 8], [10, 19, 30, 50], 4, 0.05)
    truth = stats.linregress(np.log(x), np.log(y))
    reach = stats.t.ppf(0.975, len(x) - 2) * truth.stderr
    found = knees.fit(x, y).linearity
    expected = (truth.slope, truth.slope - reach, truth.slope + reach)
    assert (found.value, found.low, found.high) == pytest.approx(expected, rel=1e-6)


def test_the_slope_is_that_of_weighted_least_squares_up_to_the_knee():
    """Weights: one over the square of the mean speed at each value; standard error from the residuals."""
    x, y = runs([1, 2, 4, 8, 16], [10, 20, 40, 40, 40], 6, 0.01)
    found = knees.fit(x, y)
    assert found.shape == knees.KNEE and found.knee.low <= 4 <= found.knee.high
    keep = x <= found.knee.value
    design = np.column_stack([np.ones(keep.sum()), x[keep]])
    w = np.array([y[keep][x[keep] == v].mean() for v in x[keep]]) ** -2.0
    normal = np.linalg.inv(design.T @ (w[:, None] * design))
    fitted = normal @ design.T @ (w * y[keep])
    free = keep.sum() - 2
    error = math.sqrt(normal[1, 1] * (w * (y[keep] - design @ fitted) ** 2).sum() / free)
    reach = stats.t.ppf(0.975, free) * error
    expected = (fitted[1], fitted[1] - reach, fitted[1] + reach)
    assert (found.slope.value, found.slope.low, found.slope.high) == pytest.approx(expected, rel=1e-4)


def test_the_plateau_is_the_geometric_mean_beyond_the_knee():
    x, y = runs([1, 2, 4, 8, 16], [10, 20, 40, 40, 40], 6, 0.01)
    found = knees.fit(x, y)
    logs = np.log(y[x >= min(found.knee.value, 8)])
    reach = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
    expected = np.exp(logs.mean() + np.array([0, -reach, reach]))
    assert [found.plateau.value, found.plateau.low, found.plateau.high] == pytest.approx(expected, rel=1e-9)


def residual(z, y, w):
    """Compute the slope of the weighted straight line through y over z; infinite if it falls."""
    design = np.column_stack([np.ones_like(z), z]) * np.sqrt(w)[:, None]
    coefficients, *_ = np.linalg.lstsq(design, y * np.sqrt(w), rcond=None)
    left = ((y * np.sqrt(w) - design @ coefficients) ** 2).sum()
    return left if coefficients[1] >= -1e-12 else math.inf


def test_the_profile_is_the_better_of_two_laws():
    x, y = runs([1, 3, 7, 20], [10, 24, 40, 41], 3, 0.05)
    tried, squares = knees.profile(x, y)
    assert tried[0] == 1 and tried[-1] == pytest.approx(20) and len(tried) == 3 * 200 + 1 and (np.diff(tried) > 0).all()
    assert np.log(tried[100]) == pytest.approx(np.log(3) / 2)
    relative = np.array([math.exp(np.log(y[x == v]).mean()) for v in x]) ** -2.0
    for i in range(1, len(tried), 37):
        z = np.minimum(x, tried[i])
        assert squares[i] == pytest.approx(
            min(residual(np.log(z), np.log(y), np.ones_like(y)), residual(z, y, relative)), rel=1e-7
        )


def test_the_knees_interval_is_every_knee_that_the_f_test_holds():
    x, y = runs([1, 2, 4, 8, 16], [10, 20, 40, 40, 40], 3, 0.04, seed=3)
    tried, squares = knees.profile(x, y)
    free = len(y) - 3
    held = np.flatnonzero(squares <= squares.min() * (1 + stats.f.ppf(0.95, 1, free) / free))
    shape, found = knees.knee(x, y)
    assert shape == knees.KNEE and found.value == tried[squares.argmin()]
    assert (found.low, found.high) == (tried[held[0] - 1], tried[held[-1] + 1])


def test_f_test_finds_level_curve():
    """Nothing rises: the best knee explains no more than chance, by F with 2 and N - 3 degrees of freedom."""
    for seed in range(12):
        x, y = runs([1, 2, 4], [10, 10.4, 10.6], 4, 0.03, seed)
        _, squares = knees.profile(x, y)
        level = ((np.log(y) - np.log(y).mean()) ** 2).sum()
        f = (level - squares.min()) / 2 / (squares.min() / (len(y) - 3))
        found = squares.argmin() == 0 or f <= stats.f.ppf(0.95, 2, len(y) - 3)
        if knees.peaked(x, y, squares.min()) is None:
            assert (knees.knee(x, y)[0] == knees.LEVEL) == found


def test_the_last_step_rises_by_the_pooled_t_test():
    for seed in range(12):
        x, y = runs([1, 2, 4], [10, 20, 21.5], 4, 0.05, seed)
        groups = [np.log(y[x == v]) for v in (1, 2, 4)]
        pooled = sum(((g - g.mean()) ** 2).sum() for g in groups) / 9
        low = groups[2].mean() - groups[1].mean() - stats.t.ppf(0.975, 9) * math.sqrt(pooled * 2 / 4)
        assert knees._last_step_rises(x, y) == (low > math.log1p(knees.MIN_RISE))


FEW = "are too few to estimate their scatter: add repetitions"


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1, 1, 2, 2], [1, 1, 2, 2], "2 values of the axis: at least 3 are needed"),
        ([1, 2, 4, 4], [1, 2, 3, 3.1], f"4 runs at 3 values {FEW}"),
        ([1, 2, 4, 8, 8], [1, 2, 3, 4, 4.1], f"5 runs at 4 values {FEW}"),
    ],
)
def test_too_few(x, y, reason):
    found = knees.fit(np.array(x), np.array(y))
    assert found.shape == knees.UNDECIDED and found.reason == reason and math.isnan(found.knee.value)


def test_five_runs_at_three_values_are_enough():
    assert knees.fit([1, 2, 2, 4, 4], [10, 20, 20.1, 40, 40.3]).reason == ""


def by_least_squares(regressors, y, w):
    """Return (coefficients, residual sum of squares) of y on a constant and these, by numpy's solver."""
    root = np.sqrt(w)
    columns = np.column_stack([np.ones_like(y), *regressors]) * root[:, None]
    found = np.linalg.lstsq(columns, y * root, rcond=None)[0]
    return found[1:], float(((columns @ found - y * root) ** 2).sum())


def test_squares_of_a_line_are_those_of_the_solver_and_a_line_may_not_fall():
    rng = np.random.default_rng(3)
    y, w = rng.normal(5, 1, 9), rng.uniform(0.5, 2, 9)
    rows = np.vstack([rng.normal(0, 1, (30, 9)), np.full((1, 9), 4.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a regressor that never changes divides nothing by nothing
        found = knees._squares(rows, y, w)
    for z, squares in zip(rows[:-1], found[:-1], strict=True):
        (slope,), rest = by_least_squares([z], y, w)
        assert squares == (pytest.approx(rest) if slope > 0 else math.inf)
    assert found[-1] == pytest.approx((w * (y - np.average(y, weights=w)) ** 2).sum()), "it explains nothing"
    assert 5 < np.isinf(found).sum() < 25


def test_squares_of_a_tent_are_those_of_the_solver_and_a_tent_rises_and_falls():
    rng = np.random.default_rng(4)
    y, w = rng.normal(5, 1, 9), rng.uniform(0.5, 2, 9)
    up, down = rng.normal(0, 1, (60, 9)), rng.normal(0, 1, (60, 9))
    down[-1] = 2 * up[-1]  # two that are one
    found = knees._tents(up, down, y, w)
    for u, d, squares in zip(up[:-1], down[:-1], found[:-1], strict=True):
        (a, b), rest = by_least_squares([u, d], y, w)
        assert squares == (pytest.approx(rest) if a > 0 > b else math.inf)
    assert np.isinf(found[-1]) and 5 < np.isfinite(found).sum() < 30


def test_knees_are_tried_evenly_in_the_logarithm_between_the_values():
    tried = knees._tried(np.array([4.0, 1, 1, 10, 4]))
    assert len(tried) == 2 * knees.STEPS + 1 and tried[[0, knees.STEPS, -1]] == pytest.approx([1, 4, 10])
    steps = np.diff(np.log(tried))
    assert steps[:200] == pytest.approx(np.full(200, math.log(4) / 200))
    assert steps[200:] == pytest.approx(np.full(200, math.log(2.5) / 200))


def test_weights_are_those_of_the_geometric_mean_at_each_value():
    found = knees._relative(np.array([2.0, 1, 2, 1]), np.array([8.0, 3, 2, 3]))
    assert found == pytest.approx([1 / 16, 1 / 9, 1 / 16, 1 / 9])


def test_rise_of_less_than_a_percent_is_level():
    """A link is full from 2 clients on; the runs scatter less than its last 0.3 %."""
    x = np.repeat([1.0, 2, 4, 8], 3)
    scatter = np.tile([0.9999, 1.0, 1.0001], 4)
    for last, shape in ((1.003, knees.KNEE), (1.03, knees.BENDING)):
        y = np.repeat([10.0, 20, 20, 20 * last], 3) * scatter
        assert knees.knee(x, y)[0] == shape, last

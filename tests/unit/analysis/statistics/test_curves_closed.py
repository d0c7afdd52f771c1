"""Curves, ratios and wholes against closed forms, brute force and other code (scipy, statsmodels' definitions
written out).
"""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from storelab.analysis.statistics import knees, medians, ratios

PROPERTY = settings(max_examples=30, deadline=None, database=None, derandomize=True)


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
    assert (found.value, found.low, found.high) == pytest.approx(
        (truth.slope, truth.slope - reach, truth.slope + reach), rel=1e-6
    )


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
    assert (found.slope.value, found.slope.low, found.slope.high) == pytest.approx(
        (fitted[1], fitted[1] - reach, fitted[1] + reach), rel=1e-4
    )


def test_the_plateau_is_the_geometric_mean_beyond_the_knee():
    x, y = runs([1, 2, 4, 8, 16], [10, 20, 40, 40, 40], 6, 0.01)
    found = knees.fit(x, y)
    logs = np.log(y[x >= min(found.knee.value, 8)])
    reach = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
    expected = np.exp([logs.mean(), logs.mean() - reach, logs.mean() + reach])
    assert [found.plateau.value, found.plateau.low, found.plateau.high] == pytest.approx(expected, rel=1e-9)


def residual(z, y, w):
    """Of the weighted straight line through y over z; infinite where it falls."""
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


def test_a_level_curve_is_told_by_the_f_test():
    """Nothing rises: the best knee explains no more than chance, by F with 2 and N - 3 degrees of freedom."""
    for seed in range(12):
        x, y = runs([1, 2, 4], [10, 10.4, 10.6], 4, 0.03, seed)
        _, squares = knees.profile(x, y)
        level = ((np.log(y) - np.log(y).mean()) ** 2).sum()
        f = (level - squares.min()) / 2 / (squares.min() / (len(y) - 3))
        told = squares.argmin() == 0 or f <= stats.f.ppf(0.95, 2, len(y) - 3)
        if knees.peaked(x, y, squares.min()) is None:
            assert (knees.knee(x, y)[0] == knees.LEVEL) == told


def test_the_last_step_rises_by_the_pooled_t_test():
    for seed in range(12):
        x, y = runs([1, 2, 4], [10, 20, 21.5], 4, 0.05, seed)
        groups = [np.log(y[x == v]) for v in (1, 2, 4)]
        pooled = sum(((g - g.mean()) ** 2).sum() for g in groups) / 9
        low = groups[2].mean() - groups[1].mean() - stats.t.ppf(0.975, 9) * math.sqrt(pooled * 2 / 4)
        assert knees._last_step_rises(x, y) == (low > 0)


def test_the_peaks_interval_holds_the_values_that_may_be_the_highest():
    x, y = runs([1, 2, 4, 8, 16, 32], [100, 200, 400, 800, 780, 300], 4, 0.05, seed=2)
    found = knees.fit(x, y)
    assert found.shape == knees.PEAK and math.isnan(found.plateau.value)
    values = np.unique(x)
    groups = [np.log(y[x == v]) for v in values]
    means, df = [g.mean() for g in groups], len(y) - len(values)
    pooled, top = sum(((g - g.mean()) ** 2).sum() for g in groups) / df, int(np.argmax(means))
    may = [i for i in range(6) if (means[top] - means[i]) <= stats.t.ppf(0.975, df) * math.sqrt(pooled * 2 / 4)]
    assert (found.knee.low, found.knee.high) == (values[may[0] - 1], values[may[-1] + 1])
    assert found.knee.low <= found.knee.value <= found.knee.high


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1, 1, 2, 2], [1, 1, 2, 2], "2 values of the axis: 3 are the fewest"),
        ([1, 2, 4, 4], [1, 2, 3, 3.1], "4 runs at 3 values do not tell their scatter: repeat them"),
        ([1, 2, 4, 8, 8], [1, 2, 3, 4, 4.1], "5 runs at 4 values do not tell their scatter: repeat them"),
    ],
)
def test_too_few(x, y, reason):
    found = knees.fit(np.array(x), np.array(y))
    assert found.shape == knees.CANNOT_TELL and found.reason == reason and math.isnan(found.knee.value)


def test_five_runs_at_three_values_are_enough():
    assert knees.fit([1, 2, 2, 4, 4], [10, 20, 20.1, 40, 40.3]).reason == ""


# Ratios

speeds_ = st.lists(st.floats(0.5, 2.0).map(lambda v: round(v, 3)), min_size=1, max_size=7)


def tail(n, m):
    """P(U <= u), by going through every way to rank n against m runs."""
    counts = np.zeros(n * m + 1)
    for ranks in itertools.combinations(range(n + m), n):
        counts[sum(ranks) - n * (n - 1) // 2] += 1
    return np.cumsum(counts) / counts.sum()


@PROPERTY
@given(speeds_, speeds_)
def test_ratios_by_brute_force(a, b):
    found = ratios.ratio(a, b)
    pairs = sorted(math.log(y / x) for x in a for y in b)
    middle = (pairs[(len(pairs) - 1) // 2] + pairs[len(pairs) // 2]) / 2
    assert (found.n_a, found.n_b) == (len(a), len(b)) and found.ratio == pytest.approx(math.exp(middle), rel=1e-9)
    below = tail(len(a), len(b))
    k = int((below <= 0.025).sum())
    if not k:
        assert math.isnan(found.low) and math.isnan(found.p) and found.verdict == "cannot tell"
        single = "one run against one is" if len(a) == len(b) == 1 else f"{len(a)} against {len(b)} runs are"
        assert found.reason == f"{single} too few for a 95 % interval; 4 against 4 are enough"
        return
    assert (found.low, found.high) == pytest.approx((math.exp(pairs[k - 1]), math.exp(pairs[-k])), rel=1e-9)
    assert found.coverage == pytest.approx(1 - 2 * below[k - 1]) and found.row()["coverage_percent"] == pytest.approx(
        100 * found.coverage
    )
    least = min(sum(y <= x for x in a for y in b), sum(y >= x for x in a for y in b))
    assert found.p == pytest.approx(min(1, 2 * below[least]))
    assert found.verdict == ("faster" if found.low > 1 else "slower" if found.high < 1 else "cannot tell")
    assert (found.p < 0.05) == (found.low > 1 or found.high < 1)
    other = ratios.ratio(a, b, lower_is_better=True)
    assert other.verdict == {"faster": "slower", "slower": "faster"}.get(found.verdict, "cannot tell")


def test_what_has_no_ratio():
    assert ratios.ratio([], [1]).reason == ratios.ratio([1], [math.nan]).reason == "no run on one side"
    assert (
        ratios.ratio([0, 1], [1]).reason == ratios.ratio([1], [1, -1]).reason == "a run with a value of 0 has no ratio"
    )
    assert ratios.ratio([0, 1], [1]).n_a == 2 and ratios.ratio([1], [2]).row()["reason"]
    assert ratios.ratio([1] * 4, [2] * 4).row()["reason"] is None


def test_the_whole_by_hand():
    """Three points, four repetitions; one run is missing, one point has a zero and is left out."""
    rng = np.random.default_rng(4)
    a = [{rep: float(v) for rep, v in zip(range(1, 5), rng.uniform(1, 2, 4), strict=True)} for _ in range(3)]
    b = [{rep: float(v) for rep, v in zip(range(1, 5), rng.uniform(1, 2, 4), strict=True)} for _ in range(3)]
    del b[1][3]
    zero = {1: 0.0, 2: 1.0, 3: 1.0, 4: 1.0}
    found = ratios.whole([*a, zero, {}], [*b, a[0], b[0]])
    shift = np.mean(
        [np.mean(np.log(list(y.values()))) - np.mean(np.log(list(x.values()))) for x, y in zip(a, b, strict=True)]
    )
    sides = []
    for side in (a, b):
        means = [np.mean(np.log(list(p.values()))) for p in side]
        sides.append(
            [np.mean([math.log(p[r]) - m for p, m in zip(side, means, strict=True) if r in p]) for r in range(1, 5)]
        )
    error = math.sqrt(sum(np.var(s, ddof=1) / 4 for s in sides))
    df = stats.ttest_ind(*sides, equal_var=False).df
    reach = stats.t.ppf(0.975, df) * error
    assert found.ratio == pytest.approx(math.exp(shift), rel=1e-9)
    assert (found.low, found.high) == pytest.approx((math.exp(shift - reach), math.exp(shift + reach)), rel=1e-6)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(shift) / error, df), rel=1e-6) and (found.n_a, found.n_b) == (
        4,
        4,
    )


# Medians


@pytest.mark.parametrize("n", range(1, 16))
def test_order_statistics_by_counting(n):
    """Each of the 2^n ways in which n runs may lie below or above the true median."""

    def covered(k):
        return (
            sum(math.comb(n, i) for i in range(k, n - k + 1)) / 2**n
            if k <= n - k
            else max(0, 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n)
        )

    ranks = [k for k in range(1, n // 2 + 1) if covered(k) >= 0.95]
    k, found = medians.order_statistics(n)
    assert k == (ranks[-1] if ranks else 1) and found == pytest.approx(covered(k))


@pytest.mark.parametrize("n", [6, 7, 8, 11, 20])
def test_medians_interpolate_between_ranks(n):
    k = max(k for k in range(1, n // 2 + 1) if 1 - 2 * stats.binom.cdf(k - 1, n, 0.5) >= 0.95)
    outer, inner = (1 - 2 * stats.binom.cdf(j - 1, n, 0.5) for j in (k, k + 1))
    part = (outer - 0.95) / (outer - inner)
    weight = (n - k) * part / (k + (n - 2 * k) * part)
    x = np.sort(np.random.default_rng(n).uniform(size=n))
    found = medians.summarise([*x[::-1], math.nan])
    assert (found.n, found.median, found.kind) == (n, pytest.approx(np.median(x)), "95 % interval")
    assert found.low == pytest.approx(x[k - 1] + weight * (x[k] - x[k - 1])) and found.high == pytest.approx(
        x[n - k] - weight * (x[n - k] - x[n - k - 1])
    )


def by_least_squares(regressors, y, w):
    """(coefficients, residual sum of squares) of y on a constant and these, by numpy's solver."""
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

"""Ratios of two systems, compared with brute force and closed forms."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from storelab.analysis.statistics import ratios

PROPERTY = settings(max_examples=30, deadline=None, database=None, derandomize=True)


def test_ratio_without_interval_covers_nothing():
    for one in (ratios.ratio([], [1.0]), ratios.ratio([1.0], [0.0]), ratios.ratio([1.0], [2.0])):
        assert one.coverage == 0.0 and math.isnan(one.low) and one.verdict == ratios.UNDECIDED


def test_whole_without_scatter_is_its_own_interval():
    """All repetitions are the same: B is exactly 1.5 times A, or equal to it."""
    runs = [dict.fromkeys(range(8), speed) for speed in (2.0, 8.0)]
    found = ratios.overall_ratio(runs, [{rep: v * 1.5 for rep, v in side.items()} for side in runs])
    assert (found.low, found.ratio, found.high) == pytest.approx((1.5, 1.5, 1.5))
    assert (found.p, found.verdict) == (0.0, "faster")
    none = ratios.overall_ratio(runs, runs)
    assert (none.low, none.high, none.p, none.verdict) == (1.0, 1.0, 1.0, ratios.UNDECIDED)


def test_higher_rate_is_faster_and_longer_latency_slower():
    assert ratios.verdict(1.1, 1.2) == ratios.verdict(1.1, 1.2, False) == ratios.verdict(0.8, 0.9, True) == "faster"
    assert ratios.verdict(0.8, 0.9) == ratios.verdict(1.1, 1.2, True) == "slower"
    for interval in ((1.0, 1.2), (0.9, 1.0), (0.9, 1.1), (math.nan, math.nan)):
        assert ratios.verdict(*interval) == ratios.UNDECIDED
    assert ratios.ratio([10, 11, 12, 13], [20, 21, 22, 23]).verdict == "faster"


speeds_ = st.lists(st.floats(0.5, 2.0).map(lambda v: round(v, 3)), min_size=1, max_size=7)


def tail(n, m):
    """Compute P(U <= u) from every way to rank n against m runs."""
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
        assert math.isnan(found.low) and math.isnan(found.p) and found.verdict == "undecided"
        single = "one run against one is" if len(a) == len(b) == 1 else f"{len(a)} against {len(b)} runs are"
        assert found.reason == f"{single} too few for a 95 % interval; 4 against 4 are enough"
        return
    assert (found.low, found.high) == pytest.approx((math.exp(pairs[k - 1]), math.exp(pairs[-k])), rel=1e-9)
    assert found.coverage == pytest.approx(1 - 2 * below[k - 1])
    assert found.row()["coverage_percent"] == pytest.approx(100 * found.coverage)
    least = min(sum(y <= x for x in a for y in b), sum(y >= x for x in a for y in b))
    assert found.p == pytest.approx(min(1, 2 * below[least]))
    assert found.verdict == ("faster" if found.low > 1 else "slower" if found.high < 1 else "undecided")
    assert (found.p < 0.05) == (found.low > 1 or found.high < 1)
    other = ratios.ratio(a, b, lower_is_better=True)
    assert other.verdict == {"faster": "slower", "slower": "faster"}.get(found.verdict, "undecided")


def test_cells_without_ratio():
    assert ratios.ratio([], [1]).reason == ratios.ratio([1], [math.nan]).reason == "no run on one side"
    zero = "a run with a value of 0 has no ratio"
    assert ratios.ratio([0, 1], [1]).reason == ratios.ratio([1], [1, -1]).reason == zero
    assert ratios.ratio([0, 1], [1]).n_a == 2 and ratios.ratio([1], [2]).row()["reason"]
    assert ratios.ratio([1] * 4, [2] * 4).row()["reason"] is None


def test_whole_matches_explicit_formula():
    """Three points, four repetitions; one run is missing, one point has a zero and is left out."""
    rng = np.random.default_rng(4)
    a, b = ([dict(enumerate(rng.uniform(1, 2, 4).tolist(), 1)) for _ in range(3)] for _ in range(2))
    del b[1][3]
    zero = {1: 0.0, 2: 1.0, 3: 1.0, 4: 1.0}
    found = ratios.overall_ratio([*a, zero, {}], [*b, a[0], b[0]])
    levels, sides = [], []
    for side in (a, b):
        means = [np.mean(np.log(list(p.values()))) for p in side]
        levels.append(np.mean(means))
        both = list(zip(side, means, strict=True))
        sides.append([np.mean([math.log(p[r]) - m for p, m in both if r in p]) for r in range(1, 5)])
    shift = levels[1] - levels[0]
    error = math.sqrt(sum(np.var(s, ddof=1) / 4 for s in sides))
    df = stats.ttest_ind(*sides, equal_var=False).df
    reach = stats.t.ppf(0.975, df) * error
    assert found.ratio == pytest.approx(math.exp(shift), rel=1e-9)
    assert (found.low, found.high) == pytest.approx((math.exp(shift - reach), math.exp(shift + reach)), rel=1e-6)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(shift) / error, df), rel=1e-6)
    assert (found.n_a, found.n_b) == (4, 4)

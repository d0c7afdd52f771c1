"""Tests of bounds on ratios, orders and exponents, compared with closed forms, with known factors."""

import math

import numpy as np
import pytest
from scipy import stats

from storelab.analysis.statistics import judging
from storelab.analysis.statistics.judging import Bound

SCATTER = (0.97, 1.03, 0.98, 1.02, 0.99, 1.01)
WIDE = (0.5, 2.0, 0.6, 1.7, 0.8, 1.25)
ONE = Bound(1.0)


def around(*factors, scatter=SCATTER):
    return [[f * s for s in scatter] for f in factors]


def test_ratio_is_tested_against_its_bound():
    """b is 1.0 times a: more than half of it, less than twice; at the bound, p is large."""
    same = [1.0, 1.01, 0.99, 1.02, 0.98, 1.03]
    for factor, at, verdict in ((1, 0.5, "confirmed"), (1, 2.0, "refuted"), (2, 2.0, "undecided")):
        found = judging.ratio(same, [factor * v for v in reversed(same)], Bound(at))
        assert judging.verdict(found, Bound(at), found.p) == verdict, (factor, at)
        assert found.p > 0.5 if verdict == "undecided" else found.p < 0.05


def test_ratio_chosen_of_many_pairs_is_corrected():
    a, b = around(1, 2)
    alone = judging.ratio(a, b, ONE)
    assert alone.p == pytest.approx(2 / math.comb(12, 6)) and alone.reason == ""
    assert judging.ratio(a, b, ONE, 10).p == pytest.approx(10 * alone.p) and judging.ratio(a, b, ONE, 10**4).p == 1.0
    assert "too few" in judging.ratio(a[:3], b[:3], ONE).reason


def test_order_is_that_of_all_neighbours():
    """A rising order has the p of its weakest step; a fall counts for all steps (Bonferroni)."""
    base = [1.0, 1.01, 0.99, 1.02, 0.98, 1.03]
    rising = [[v * f for v in base] for f in (1, 2, 4)]
    assert judging.order(rising).p < 0.05
    weak = [base, [v * 1.02 for v in base], [v * 3 for v in base]]
    step, other = (judging.ratio(weak[i], weak[i + 1], ONE).p for i in (0, 1))
    assert judging.order(weak).p == step > other
    last = [v * 3 for v in base]
    fallen = judging.order([*rising, last])
    assert fallen.value == pytest.approx(0.75, rel=0.05)
    assert fallen.p == pytest.approx(min(1.0, judging.ratio(rising[2], last, ONE).p * 3))
    low, high, between = around(100, 200, 150)
    assert judging.order([low, high, between]).p == pytest.approx(2 * 2 / math.comb(12, 6))


def test_order_with_steps_of_too_few_runs():
    """Two runs against six have no test (2 / C(8, 2) is above 5 %); another step that surely falls still refutes."""
    few, low, high = [1.0, 1.01], *around(2, 4)
    found = judging.order([few, low, high])
    assert math.isnan(found.p) and "too few" in found.reason and found.value == pytest.approx(2, rel=0.05)
    found = judging.order([high, low, [9.0, 9.1]])
    alone = judging.ratio(high, low, ONE).p
    assert found.value == pytest.approx(0.5) and found.p == pytest.approx(2 * alone) and found.reason == ""
    found = judging.order([low, high, few])
    assert found.value == pytest.approx(0.25, rel=0.05) and math.isnan(found.p) and "too few" in found.reason
    level = judging.order([[5.0] * 6, [5.0] * 6, [1.0] * 2])
    assert level.value == pytest.approx(0.2) and math.isnan(level.p)
    assert math.isnan(judging.order([[5.0] * 6, [5.0] * 6, [9.0] * 2]).p), "a step of exactly 1 does not fall"
    none = judging.order([low, [], high])
    assert math.isnan(none.p) and "no run" in none.reason


def test_order_of_level_or_falling_steps():
    assert judging.order(around(1, 1, 1)).p == 1.0, "if all are equal, p is 1 for any number of steps"
    falling = around(4, 2, 2.001, 2.002)
    assert judging.order(falling).p == pytest.approx(3 * judging.ratio(falling[0], falling[1], ONE).p)
    fallen = judging.order(around(1.001, 1, 1, scatter=WIDE))
    assert fallen.value < 1 and fallen.p == 1.0, "no p above 1"


def test_exponent_is_that_of_linear_regression():
    """Compare with scipy's regression, another implementation."""
    x, y = np.repeat([1.0, 2, 5], 4), np.random.default_rng(1).lognormal(2, 0.3, 12)
    found, other = judging.slope(x, y, Bound(0.3)), stats.linregress(np.log(x), np.log(y))
    reach = stats.t.ppf(0.975, 10) * other.stderr
    expected = (other.slope, other.slope - reach, other.slope + reach)
    assert (found.value, found.low, found.high) == pytest.approx(expected)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(other.slope - 0.3) / other.stderr, 10))


def test_exponent_needs_repetitions():
    cases = [
        ([1, 2, 4], [1, 2, 4], False),  # a run at each value: no scatter
        ([1, 1, 2], [1, 1, 2], False),  # one degree of freedom
        ([1, 2, 4, 8], [1, 2, 4, 8], False),
        ([1, 1, 2, 2], [1.0, 1.1, 2.0, 2.2], True),
        ([1, 1, 2, 4, 8], [1.0, 1.1, 2.0, 4.0, 8.0], True),
    ]
    for x, y, known in cases:
        found = judging.slope(x, y, Bound(0.5))
        assert found.value == pytest.approx(1, abs=0.06), x
        assert math.isfinite(found.p) == math.isfinite(found.low) == known == (found.reason == ""), x
        assert known or f"{len(x)} runs at {len(set(x))} values" in found.reason


def test_exponent_without_scatter_or_of_zeros():
    found = judging.slope([1, 1, 2, 2], [3, 3, 3, 3], Bound(0.5))
    assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 0), "certain on both sides of the bound"
    for x, y in (([1, 0, 2, 2], [1, 1, 2, 2]), ([1, 1, 2, 2], [1, -1, 2, 2]), ([1, 1, 2, 2], [1, 0, 2, 2])):
        found = judging.slope(x, y, ONE)
        assert "no exponent" in found.reason and judging.verdict(found, ONE, found.p) == "undecided"

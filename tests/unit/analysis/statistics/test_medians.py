"""Medians and their intervals: interpolated order statistics, true coverage."""

import math
import re

import numpy as np
import pytest
from paths import ROOT
from scipy.stats import binom, quantile_test

from storelab.analysis.statistics import medians


def test_no_value_and_one_value():
    empty = medians.summarise([math.nan, None])
    assert empty.n == 0 and math.isnan(empty.median) and empty.kind == "range"
    one = medians.summarise([3.0])
    assert (one.n, one.median, one.low, one.high, one.kind, one.coverage) == (1, 3.0, 3.0, 3.0, "range", 0.0)


@pytest.mark.parametrize(("n", "coverage"), [(2, 0.5), (3, 0.75), (5, 0.9375)])
def test_below_six_it_is_the_range(n, coverage):
    s = medians.summarise(range(n))
    assert (s.low, s.high, s.kind) == (0, n - 1, "range")
    assert s.coverage == pytest.approx(coverage)


@pytest.mark.parametrize("n", [6, 7, 8, 9, 10, 15, 20, 50, 101])
def test_rank_covers_at_least_95_percent_and_is_the_narrowest(n):
    k, coverage = medians.order_statistics(n)
    assert coverage >= 0.95
    assert coverage == pytest.approx(1 - 2 * binom.cdf(k - 1, n, 0.5))
    assert 1 - 2 * binom.cdf(k, n, 0.5) < 0.95


@pytest.mark.parametrize("n", [6, 7, 8, 9, 10, 15, 20, 50, 101])
def test_interval_lies_between_the_two_ranks_that_it_interpolates(n):
    k, _ = medians.order_statistics(n)
    s = medians.summarise(np.arange(1.0, n + 1))
    assert k <= s.low < k + 1 and s.high == pytest.approx(n + 1 - s.low) and s.kind == "95 % interval"
    # plain order statistics, never narrower
    theirs = quantile_test(np.arange(1.0, n + 1), p=0.5).confidence_interval(0.95)
    assert s.low >= theirs.low - 1e-9 and s.high <= theirs.high + 1e-9


def test_six_runs():
    """Sheather's interval by hand: at n = 6 the weight of the second rank is 0.357."""
    assert medians.order_statistics(6) == (1, pytest.approx(0.96875))
    outer, inner = 0.96875, 1 - 2 * binom.cdf(1, 6, 0.5)
    i = (outer - 0.95) / (outer - inner)
    weight = 5 * i / (1 + 4 * i)
    s = medians.summarise([1, 2, 4, 8, 16, 32])
    assert (s.low, s.high) == (pytest.approx(1 + weight), pytest.approx(32 - 16 * weight))


def test_the_page_states_the_coverage_of_the_code():
    page = (ROOT / "docs/statistics.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([\d.]+)(?: \(range\))? \| ([\d.]+) \|$", page, re.M)
    assert len(rows) >= 10
    for n, covers, plain in rows:
        found = (medians.coverage(int(n)), medians.order_statistics(int(n))[1])
        assert [f"{100 * part:.1f}" for part in found] == [covers, plain], n


def test_ranks_that_hold_the_median_by_counting():
    """The runs above the median are one of 2^n equally likely subsets; the k-th of n is below or above it in some."""
    for n in range(1, 40):
        holds = [1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n for k in range(n + 1)]
        k = max([k for k in range(1, n + 1) if n - k + 1 > k and holds[k] >= 0.95] or [1])
        assert medians.order_statistics(n) == (k, pytest.approx(max(0, holds[k]))), n


def test_coverage_is_that_of_drawn_normal_runs():
    """Draw 400 000 samples, whose true median is 0; low and high are those of `summarise`."""
    for n in (6, 7, 12):
        x = np.sort(np.random.default_rng(n).normal(size=(400_000, n)), axis=1)
        one = medians.summarise(np.arange(n, dtype=float))
        ends = []
        for at in (one.low, one.high):
            k, part = int(at), at % 1
            ends.append(x[:, k] if not part else (1 - part) * x[:, k] + part * x[:, k + 1])
        assert medians.coverage(n) == pytest.approx(np.mean((ends[0] <= 0) & (ends[1] >= 0)), abs=0.002), n
        outer, inner = (1 - 2 * binom.cdf(int(one.low) + more, n, 0.5) for more in (0, 1))
        assert inner <= medians.coverage(n) <= outer, "between two ranks"


@pytest.mark.parametrize("n", range(1, 16))
def test_order_statistics_by_counting(n):
    """Yield each of the 2^n ways in which n runs may be below or above the true median."""

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
    k = max(k for k in range(1, n // 2 + 1) if 1 - 2 * binom.cdf(k - 1, n, 0.5) >= 0.95)
    outer, inner = (1 - 2 * binom.cdf(j - 1, n, 0.5) for j in (k, k + 1))
    part = (outer - 0.95) / (outer - inner)
    weight = (n - k) * part / (k + (n - 2 * k) * part)
    x = np.sort(np.random.default_rng(n).uniform(size=n))
    found = medians.summarise([*x[::-1], math.nan])
    assert (found.n, found.median, found.kind) == (n, pytest.approx(np.median(x)), "95 % interval")
    assert found.low == pytest.approx(x[k - 1] + weight * (x[k] - x[k - 1])) and found.high == pytest.approx(
        x[n - k] - weight * (x[n - k] - x[n - k - 1])
    )

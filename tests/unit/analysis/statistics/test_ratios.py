"""Ratios of two systems: what has no interval, and repetitions without scatter."""

import math

import pytest

from storelab.analysis.statistics import ratios


def test_ratio_without_interval_covers_nothing():
    for one in (ratios.ratio([], [1.0]), ratios.ratio([1.0], [0.0]), ratios.ratio([1.0], [2.0])):
        assert one.coverage == 0.0 and math.isnan(one.low) and one.verdict == ratios.CANNOT_TELL


def test_whole_without_scatter_is_its_own_interval():
    """Every repetition alike: B is 1.5 times A to the last digit, or equal to it."""
    runs = [dict.fromkeys(range(8), speed) for speed in (2.0, 8.0)]
    found = ratios.whole(runs, [{rep: v * 1.5 for rep, v in side.items()} for side in runs])
    assert (found.low, found.ratio, found.high) == pytest.approx((1.5, 1.5, 1.5))
    assert (found.p, found.verdict) == (0.0, "faster")
    none = ratios.whole(runs, runs)
    assert (none.low, none.high, none.p, none.verdict) == (1.0, 1.0, 1.0, ratios.CANNOT_TELL)


def test_higher_rate_is_faster_and_longer_latency_slower():
    assert ratios.verdict(1.1, 1.2) == ratios.verdict(1.1, 1.2, False) == ratios.verdict(0.8, 0.9, True) == "faster"
    assert ratios.verdict(0.8, 0.9) == ratios.verdict(1.1, 1.2, True) == "slower"
    for interval in ((1.0, 1.2), (0.9, 1.0), (0.9, 1.1), (math.nan, math.nan)):
        assert ratios.verdict(*interval) == ratios.CANNOT_TELL
    assert ratios.ratio([10, 11, 12, 13], [20, 21, 22, 23]).verdict == "faster"

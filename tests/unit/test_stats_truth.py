"""The benchmark of the statistics, with fewer draws and wider bounds."""

import numpy as np
import statistics_truth as truth


def test_median_covers():
    rng = np.random.default_rng(1)
    for source in truth.SOURCES:
        assert 0.90 <= truth.coverage(rng, 300, source, 6) <= 0.99


def test_a_group_against_itself_cannot_tell_and_5_percent_is_seen():
    rng = np.random.default_rng(2)
    assert truth.cannot_tell(rng, 400, "normal", truth.POWER_RUNS) >= 0.91
    assert truth.power(rng, 400, "normal", truth.POWER_RUNS) >= 0.74
    assert truth.power(rng, 400, "normal", truth.POWER_RUNS, 0.95) == 0  # slower is never called faster


def test_the_whole_covers_though_repetitions_are_slow_together():
    assert truth.whole(np.random.default_rng(3), 200, 4, 0.02) >= 0.89


def test_knees_are_held_and_named():
    rng = np.random.default_rng(4)
    for law in truth.LAWS:
        held, named = truth.knees(rng, 60, law, 8.0, 3, 0.03)
        assert held >= 0.85 and named >= 0.85
    held, named = truth.knees(rng, 60, "proportional", 100.0, 3, 0.03)
    assert held >= 0.9 and named >= 0.85


def test_drifts_are_seen_and_steady_windows_are_not_accused():
    rng = np.random.default_rng(5)
    assert truth.drifting(rng, 300, 0.0, 0.1) <= 0.09
    assert truth.drifting(rng, 300, 0.3, 0.05) >= 0.9
    assert truth.drifting(rng, 300, 0.3, 0.1) >= 0.5

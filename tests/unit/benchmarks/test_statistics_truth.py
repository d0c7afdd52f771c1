"""Test the statistics with `benchmarks/statistics_truth.py`, with fewer draws and wider bounds."""

import numpy as np
import pytest
import statistics_truth as truth


def test_median_covers_the_truth():
    rng = np.random.default_rng(1)
    for source in truth.USUAL:
        assert 0.90 <= truth.coverage(rng, 300, source, 6) <= 0.99


def test_rates_of_long_operations_are_unbiased():
    """Counting completions misses them all if they are constant."""
    rng = np.random.default_rng(12)
    loops = [truth.Loop(law, 1.3, 12) for law in ("constant", "gamma")] + [truth.Loop("gamma", 0.2, 4, ramp=0.3)]
    found = truth.of_loops(rng, 60, [*loops, truth.Loop("constant", 0.3, 4, slower=3)])
    assert max(map(abs, found["rate_bias"])) <= 0.03 and min(found["rate_coverage"]) >= 0.85
    assert found["counted_bias"][0] == -1
    assert abs(truth.open_loop(rng, 400, 5, 40)) <= 0.02


def test_bimodal_runs_have_the_documented_lower_coverage():
    assert 0.86 <= truth.coverage(np.random.default_rng(8), 600, "bimodal", 6) <= 0.93


def test_equal_groups_are_undecided_and_5_percent_is_seen():
    rng = np.random.default_rng(2)
    assert truth.undecided(rng, 400, "normal", truth.POWER_RUNS) >= 0.91
    assert truth.power(rng, 400, "normal", truth.POWER_RUNS) >= 0.74
    assert truth.power(rng, 400, "normal", truth.POWER_RUNS, 0.95) == 0  # slower is never called faster


def test_total_covers_when_repetitions_are_slow_together():
    assert truth.whole(np.random.default_rng(3), 200, 4, 0.02) >= 0.89


def test_knees_are_found_and_named():
    rng = np.random.default_rng(4)
    for law in truth.LAWS:
        held, named = truth.knees(rng, 60, law, 8.0, 3, 0.03)
        assert held >= 0.85 and named >= 0.85
    held, named = truth.knees(rng, 60, "proportional", 100.0, 3, 0.03)
    assert held >= 0.9 and named >= 0.85


def test_peaks_are_found_and_named():
    rng = np.random.default_rng(5)
    for fall in truth.FALLS:
        named, held = truth.peaks(rng, 40, "power", fall, 3, 0.03)
        assert named >= 0.9 and held >= 0.9


def test_only_unsteady_windows_are_called_unsteady():
    rng = np.random.default_rng(6)
    assert truth.unsteady(rng, 400, np.ones(40), 0.05, 0.6) <= 0.05
    assert all(truth.unsteady(rng, 60, shape, 0.05, 0.6) >= 0.9 for shape in truth.shapes(40).values())


@pytest.mark.heavy
def test_changes_between_days_need_10_percent():
    rng = np.random.default_rng(7)
    assert truth.between_days(rng, 150, 3, 0.01, 1.0) <= 0.12
    assert truth.between_days(rng, 150, 6, 0.01, 0.9) >= 0.8

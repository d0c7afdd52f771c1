"""Check the change points of a series.

They are compared with an exhaustive search over all places and orders, with SciPy's tests, and with series of known
changes.
"""

import itertools
import math

import numpy as np
import pytest
import statistics_truth as truth
from scipy.stats import linregress, ttest_ind

from storelab.analysis.history import series


def every_place(n: int, most: int):
    """Return all ways to cut n entries into segments of 2 or more."""
    for m in range(1, most + 1):
        for places in itertools.combinations(range(2, n - 1), m):
            if all(b - a >= 2 for a, b in itertools.pairwise([0, *places, n])):
                yield places


def worth(values: np.ndarray, places: tuple[int, ...]) -> float:
    """Compute the criterion by its definition: the unexplained rest of the segments, and a price for each change."""
    n = len(values)
    left = sum(np.var(part) * len(part) for part in np.split(values, places))
    return -n * math.log(left / (np.var(values) * n)) - series.PENALTY * len(places) * math.log(n)


@pytest.mark.parametrize("seed", range(12))
def test_the_places_are_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 13))
    values = rng.normal(size=n) + 4 * (np.arange(n) >= rng.integers(2, n - 2)) * (seed % 2)
    best = max(every_place(n, n // 2 - 1), key=lambda places: worth(values, places))
    assert series.find_changes(values).places == best


def test_p_is_the_part_of_all_orders():
    """For 8 entries, brute force tries all 40320 orders; 999 of them give p to some thousandths."""
    values = np.array([0.1, -0.3, 0.2, 0.05, 2.9, 3.2, 3.05, 2.8])
    cuts = list(every_place(8, 3))
    orders = np.array(list(itertools.permutations(values)))
    best = np.full(len(orders), -np.inf)
    total = ((values - values.mean()) ** 2).sum()
    for places in cuts:
        parts = np.split(orders, places, axis=1)
        left = sum(part.var(axis=1) * part.shape[1] for part in parts)
        price = series.PENALTY * len(places) * math.log(8)
        best = np.maximum(best, -8 * np.log(left / total) - price)
    own = max(worth(values, places) for places in cuts)
    exact = float((best >= own - 1e-9).mean())
    assert series.find_changes(values).p == pytest.approx(exact, abs=0.02) and exact < 0.05


def test_p_of_a_series_without_a_change_is_large_and_always_the_same():
    values = np.random.default_rng(5).normal(size=20)
    found = series.find_changes(values)
    assert found.p > 0.2 and series.find_changes(values) == found
    assert series.significant_steps(values, found.places, found.p) == []


def test_p_knows_neither_unit_nor_level():
    values = np.random.default_rng(6).normal(size=16) + 3 * (np.arange(16) > 9)
    assert series.find_changes(1e6 + 1e-3 * values) == series.find_changes(values)


@pytest.mark.parametrize(
    ("n", "places"), [(12, (6,)), (24, (4,)), (24, (8, 16)), (40, (10, 20, 30)), (60, (10, 20, 30, 40, 50))]
)
def test_known_changes_are_found_where_they_are(n, places):
    level = sum((np.arange(n) >= at) * (1.0 if i % 2 else -1.0) for i, at in enumerate(places))
    values = level + np.random.default_rng(n).normal(0, 0.05, n)
    found = series.find_changes(values)
    assert found.places == places and found.p < 0.05
    steps = series.significant_steps(values, found.places, found.p)
    assert [s.at for s in steps] == list(places)
    assert [s.shift for s in steps] == pytest.approx([1.0 if i % 2 else -1.0 for i in range(len(places))], abs=0.12)


def test_one_slow_day_is_no_level():
    values = np.random.default_rng(7).normal(0, 0.02, 20)
    values[9] -= 1
    found = series.find_changes(values)
    assert series.significant_steps(values, found.places, found.p) == []


def test_too_few_entries_and_no_scatter():
    few = series.find_changes([1.0] * 7)
    assert math.isnan(few.p) and few.places == () and "7; 8 are enough" in few.reason
    assert series.find_changes([2.0] * 9) == series.Changes(9, 1.0, ())
    step = [0.0] * 6 + [1.0] * 6
    found = series.find_changes(step)
    assert found.places == (6,) and found.p < 0.05
    (result,) = series.significant_steps(step, found.places, found.p)
    assert (result.shift, result.low, result.high) == pytest.approx((1.0, 1.0, 1.0))


def test_a_step_has_the_interval_of_students_t():
    values = np.random.default_rng(8).normal(size=15) + 2 * (np.arange(15) >= 6)
    (step,) = series.steps(values, [6])
    theirs = ttest_ind(values[6:], values[:6]).confidence_interval(0.95)
    assert (step.low, step.high) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize("seed", range(5))
def test_the_newest_is_a_further_value_of_its_stretch(seed):
    """Compare with a regression on an indicator of the newest entry."""
    values = np.random.default_rng(seed).normal(size=9)
    values[-1] += seed
    theirs = linregress([0.0] * 8 + [1.0], values)
    found = series.judge_newest(values, [])
    assert (found.before, found.shift) == (8, pytest.approx(theirs.slope)) and found.p == pytest.approx(theirs.pvalue)
    assert (found.low > 0 or found.high < 0) == (found.p < 0.05)


def test_newest_entry_is_compared_with_its_stretch():
    """Compare with least squares with an indicator for each segment.

    The level is 5 before the change and 1 after it; the scatter is that of both segments.
    """
    rng = np.random.default_rng(9)
    values = np.concatenate([rng.normal(5, 0.1, 6), rng.normal(1, 0.1, 5), [1.05]])
    design = np.zeros((12, 3))
    design[:6, 0], design[6:, 1], design[11, 2] = 1, 1, 1
    solved, rest, *_ = np.linalg.lstsq(design, values, rcond=None)
    error = math.sqrt(rest[0] / 9 * np.linalg.inv(design.T @ design)[2, 2])
    found = series.judge_newest(values, [6])
    assert found.before == 5 and found.shift == pytest.approx(solved[2])
    assert (found.high - found.low) / 2 == pytest.approx(2.2621571627 * error)  # t of 9 degrees of freedom
    assert series.judge_newest(values, []).p > 0.05 > series.judge_newest([*values[:-1], 2.0], [6]).p


def test_too_few_to_judge_the_newest():
    for n in (1, 2, 3):
        found = series.judge_newest([1.0] * n, [])
        assert found.before == 0 and f"newest: {n}; 4 are enough" in found.reason and math.isnan(found.p)
    assert series.judge_newest([1.0] * 4, []).p == 1 and series.judge_newest([1.0, 1.0, 1.0, 2.0], []).p == 0


@pytest.mark.heavy
def test_false_and_true_as_the_benchmark_has_them():
    """With few draws and wide bounds."""
    rng = np.random.default_rng(10)
    assert truth.changed(rng, 40, truth.ENTRIES["skewed"], 12) <= 0.15
    found, placed = truth.levels(rng, 8, 24, (8, 16), 5.0)
    assert found >= 0.9 and placed >= 0.8
    assert truth.newest_detected(rng, 40, truth.ENTRIES["normal"], 12) <= 0.15
    assert truth.newest_detected(rng, 12, truth.ENTRIES["normal"], 12, 6.0) >= 0.8

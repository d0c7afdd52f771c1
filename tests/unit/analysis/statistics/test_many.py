"""Many comparisons and several days: closed forms, and rates of error over synthetic campaigns."""

import numpy as np
import pytest

from storelab.analysis.statistics import ratios


def test_correction_is_benjamini_and_hochbergs():
    """The example of their paper (1995, section 3.2): 15 p values, of which four are rejected at 5 %."""
    words = "0.0001 0.0004 0.0019 0.0095 0.0201 0.0278 0.0298 0.0344 0.0459 0.324 0.4262 0.5719 0.6528 0.759 1"
    p = [float(word) for word in words.split()]
    q = ratios.corrected(p)
    assert (q < 0.05).sum() == 4
    assert q[3] == pytest.approx(0.0095 * 15 / 4)


def test_points_without_a_test_do_not_count():
    q = ratios.corrected([0.01, float("nan"), 0.5])
    assert q[0] == pytest.approx(0.02)
    assert np.isnan(q[1])
    assert len(ratios.corrected([])) == 0
    assert [ratios.verdict_corrected("faster", p) for p in (0.049, 0.0501)] == ["faster", "undecided"]


@pytest.mark.parametrize("n", [6, 8])
def test_only_true_differences_are_reported(n):
    rng = np.random.default_rng(1)
    quiet, seen = [], []
    for _ in range(60):
        found = [ratios.ratio(np.exp(rng.normal(0, 0.03, n)), np.exp(rng.normal(0, 0.03, n))) for _ in range(50)]
        quiet.append(not (ratios.corrected([r.p for r in found]) < 0.05).any())
        slow = [ratios.ratio(np.exp(rng.normal(0, 0.03, n)), 0.9 * np.exp(rng.normal(0, 0.03, n))) for _ in range(10)]
        q = ratios.corrected([r.p for r in [*slow, *found[10:]]])
        seen.append(
            np.mean(
                [ratios.verdict_corrected(r.verdict, v) == ratios.SLOWER for r, v in zip(slow, q[:10], strict=True)]
            )
        )
    assert np.mean(quiet) > 0.9
    assert np.mean(seen) > 0.8


def test_day_variance_is_the_mean_of_the_points_variances():
    logs = np.array([[0.0, 0.1, 0.2], [1.0, 1.0, 1.0], [5.0, np.nan, np.nan]])
    variance, df = ratios.day_variance(logs)
    assert variance == pytest.approx(0.005)  # of 0.01 and 0; the third has one day only
    assert df == 2


def test_no_day_no_variance():
    assert ratios.day_variance(np.array([[1.0], [2.0]]))[1] == 0
    found = ratios.ratio([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6])
    assert ratios.with_days(found, float("nan"), 0) == found


def test_days_widen_by_student_t():
    """By hand: t(2) = 4.303 at 95 %, and two campaigns with a variance of 0.0001."""
    narrow = ratios.Ratio(6, 6, 1.05, 1.04, 1.06, 0.96, ratios.FASTER, p=0.002)
    wide = ratios.with_days(narrow, 0.0001, 2)
    reach = 4.302653 * np.sqrt(0.0002)
    assert wide.high == pytest.approx(1.05 * np.exp(reach), rel=1e-6)
    assert wide.low == pytest.approx(1.05 * np.exp(-reach), rel=1e-6)
    assert wide.verdict == ratios.UNDECIDED
    assert wide.p > 0.05
    assert ratios.with_days(narrow, 1e-10, 2).verdict == ratios.FASTER
    assert ratios.with_days(narrow, 1e-10, 2).low == pytest.approx(1.04)

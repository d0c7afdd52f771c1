"""Curves that fall again: a peak is named, its interval holds the truth, and knees stay knees."""

import numpy as np
import pytest

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


def test_a_curve_that_falls_from_the_start_has_no_peak():
    assert knees.knee(X, drawn(np.random.default_rng(4), 100 / X, 0.03))[0] == "not rising"


def test_a_tie_of_two_tops_lies_in_the_interval():
    """4 and 8 are equally fast: the peak may be at either, or beyond them up to their neighbours."""
    y = drawn(np.random.default_rng(5), np.repeat([100.0, 200, 400, 400, 200, 100], 3), 0.02)
    shape, at = knees.knee(X, y)
    assert (shape, at.low, at.high) == ("peak", 2, 16)


def test_residuals_of_a_tent_are_those_of_least_squares():
    """Against numpy's solver, one candidate at a time."""
    rng = np.random.default_rng(6)
    y = drawn(rng, np.minimum(X, 6) / np.maximum(X / 6, 1), 0.1)
    w = rng.uniform(0.5, 2, len(X))
    rise, fall = np.minimum(X, 6.0), np.maximum(X, 6.0)
    design = np.column_stack([np.ones_like(X), rise, fall]) * np.sqrt(w)[:, None]
    _, rest, _, _ = np.linalg.lstsq(design, y * np.sqrt(w), rcond=None)
    assert knees._tents(rise[None], fall[None], y, w)[0] == pytest.approx(rest[0])

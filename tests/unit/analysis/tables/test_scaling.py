"""Knees, plateaus and linearity of imagined scaling curves."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from storelab.analysis.latex.scaling import knees as latex
from storelab.analysis.statistics import knees
from storelab.analysis.tables import scaling

X = np.repeat([1.0, 2, 4, 8, 16], 4)


def scattered(y: np.ndarray, spread: float = 0.02) -> np.ndarray:
    return y * np.exp(np.random.default_rng(3).normal(0, spread, len(y)))


def test_knee_plateau_and_slope():
    c = knees.fit(X, scattered(100 * np.minimum(X, 5)))
    assert c.shape == "knee" and c.reason == ""
    assert c.knee.low <= 5 <= c.knee.high and c.knee.high / c.knee.low < 1.3
    assert c.plateau.low <= 500 <= c.plateau.high
    assert c.slope.low <= 100 <= c.slope.high and c.slope.value == pytest.approx(100, rel=0.05)
    assert c.linearity.value < 1


def test_the_slope_is_that_of_weighted_least_squares():
    """By the closed form, with the residuals' own scale; also where the line is nearly level and its numbers are small."""
    for y in (scattered(100 * X), scattered(2e-4 * (1 + X / 1e4), 0.1)):
        w = np.array([y[x == X].mean() for x in X]) ** -2
        x, z = X - (w * X).sum() / w.sum(), y - (w * y).sum() / w.sum()
        slope = (w * x * z).sum() / (w * x**2).sum()
        error = np.sqrt((w * (z - slope * x) ** 2).sum() / (len(X) - 2) / (w * x**2).sum())
        found, reach = knees.fit(X, y).slope, stats.t(len(X) - 2).ppf(0.975) * error
        assert (found.value, found.low, found.high) == pytest.approx((slope, slope - reach, slope + reach), rel=1e-9)


def test_still_rising_has_no_knee():
    c = knees.fit(X, scattered(100 * X))
    assert c.shape == "still rising" and np.isnan(c.knee.value) and np.isnan(c.knee.high) and np.isnan(c.plateau.value)
    assert c.knee.low > 8, "the knee lies beyond the last value but one"
    assert c.linearity.low <= 1 <= c.linearity.high and c.linearity.value == pytest.approx(1, abs=0.05)


def test_bending_still_rises_but_less():
    assert knees.fit(X, scattered(100 * np.minimum(X, 11))).shape == "bending"


def test_level_and_falling_do_not_rise():
    assert knees.fit(X, scattered(np.full(len(X), 100.0))).shape == "not rising"
    c = knees.fit(X, scattered(100 / X))
    assert c.shape == "not rising" and c.linearity.value == pytest.approx(-1, abs=0.05)


def test_noise_cannot_tell():
    x = np.repeat([1.0, 2, 4], 2)
    c = knees.fit(x, np.array([90.0, 150, 100, 160, 150, 210]))
    assert c.shape in ("cannot tell", "not rising") and np.isnan(c.knee.value)


def test_too_few_values_or_runs_say_why():
    assert "2 values of the axis" in knees.fit(np.array([1, 2, 1, 2]), np.array([1, 2, 1, 2])).reason
    once = knees.fit(np.array([1, 2, 4]), np.array([100.0, 200, 380]))
    assert (
        once.shape == "cannot tell"
        and "repeat them" in once.reason
        and once.linearity.value == pytest.approx(0.96, abs=0.03)
    )


def points(**fixed) -> pd.DataFrame:
    rows = [
        {
            "store": "s",
            "workload": "get",
            "object_size_bytes": size,
            "clients": c,
            "front_ends": f,
            "rep": r,
            "state": "ok",
            **fixed,
        }
        | {
            "overlap_rate_per_s": 100.0 * f * min(c, 4) * (1 + 0.01 * r),
            "overlap_throughput_mb_per_s": 10.0 * f * min(c, 4) * (1 + 0.01 * r),
        }
        for size in (4000, 10_000_000)
        for c in (1, 2, 4, 8)
        for f in (1, 2, 3)
        for r in (1, 2, 3)
    ]
    return pd.DataFrame(rows)


AXES = {"object_size_bytes": "Int64", "clients": "Int64", "front_ends": "Int64"}


def test_table_has_a_curve_for_each_axis_with_the_others_held():
    table = scaling.table(points(), AXES)
    assert len(table) == 2 * 3 + 2 * 4
    clients = table[table["axis"] == "clients"]
    assert (
        clients["clients"].isna().all()
        and set(clients["front_ends"]) == {1, 2, 3}
        and set(clients["curve"]) == {"knee"}
    )
    assert clients["knee_low"].max() <= 4 <= clients["knee_high"].min()
    large = clients[(clients["metric"] == "throughput") & (clients["front_ends"] == 1)].iloc[0]
    assert large["plateau_value"] == pytest.approx(40.8, rel=0.01)
    ends = table[table["axis"] == "front_ends"]
    assert set(ends["curve"]) == {"still rising"} and ends["linearity_value"].to_numpy() == pytest.approx(1, abs=0.02)
    said = {name: value for name, value, _ in scaling.numbers(table)}
    assert (said["knees"], said["curves_rising"], said["curves"]) == (6, 8, 14)
    assert said["linearity_front_ends"].startswith("1.0")
    text = latex(table)
    assert text.count("still rising") == 8 and r"Clients 1--8" in text


def test_a_peak_is_named_in_table_numbers_paper_and_verdict():
    """The example of a client that gets in its own way: 100, 200, 400, 800, 600, 400."""
    rows = points()
    rows = rows[(rows["front_ends"] == 1) & (rows["object_size_bytes"] == 4000) & (rows["rep"] < 4)]
    speeds = dict(zip((1, 2, 4, 8, 16, 32), (100.0, 200, 400, 800, 600, 400), strict=True))
    rows = pd.concat([rows[rows["clients"] == 1].assign(clients=c, overlap_rate_per_s=v) for c, v in speeds.items()])
    rows["overlap_rate_per_s"] *= 1 + 0.01 * rows["rep"]
    table = scaling.table(rows, AXES)
    (found,) = table[table["axis"] == "clients"].to_dict("records")
    assert (found["curve"], found["knee_value"]) == ("peak", pytest.approx(8, rel=0.1))
    assert 4 <= found["knee_low"] <= 8 <= found["knee_high"] <= 16 and np.isnan(found["plateau_value"])
    assert ("curves_peaked", 1, "") in scaling.numbers(table) and "peak 8" in latex(table)


def test_two_values_make_no_curve_and_no_table():
    rows = points()
    rows = rows[rows["clients"].isin([1, 2]) & (rows["front_ends"] == 1)]
    table = scaling.table(rows, AXES)
    assert table.empty and "curve" in table and scaling.numbers(table) == []


def test_failed_and_idle_runs_are_left_out():
    rows = points()
    rows.loc[rows["rep"] == 3, "state"] = "invalid"
    rows.loc[rows["rep"] == 2, ["overlap_rate_per_s", "overlap_throughput_mb_per_s"]] = 0.0
    table = scaling.table(rows, AXES)
    assert set(table["n"]) == {3, 4} and table["reason"].str.contains("repeat them").all()


def test_linearity_is_told_from_the_least_to_the_most_in_two_decimals():
    parts = ("linearity_value", "linearity_low", "linearity_high")
    rows = [(0.5, 0.25, 0.75), (-0.00003, -0.00006, -0.000003), (1.0, 0.99, 1.01)]
    table = pd.DataFrame([dict(zip(parts, r, strict=True)) | {"axis": "front_ends", "curve": "knee"} for r in rows])
    said = {name: value for name, value, _ in scaling.numbers(table)}
    assert said["linearity_front_ends"] == "0.00 [0.00, 0.00] to 1.00 [0.99, 1.01]"
    assert said["curves"] == said["knees"] == 3

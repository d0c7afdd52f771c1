"""Curves of a campaign: knees, plateaus and linearity along each axis, with the others held."""

import itertools

import numpy as np
import pandas as pd
import pytest

from storelab.analysis.latex.rates import knees as latex
from storelab.analysis.tables import throughput

AXES = {"object_size_bytes": "Int64", "clients": "Int64", "front_ends": "Int64"}


def points() -> pd.DataFrame:
    """Return runs whose rate grows with the front-ends, and with up to four clients."""
    every = itertools.product((4000, 10_000_000), (1, 2, 4, 8), (1, 2, 3), (1, 2, 3))
    rows = [(size, c, f, r, 100.0 * f * min(c, 4) * (1 + 0.01 * r)) for size, c, f, r in every]
    table = pd.DataFrame(rows, columns=["object_size_bytes", "clients", "front_ends", "rep", "overlap_rate_per_s"])
    table["overlap_throughput_mb_per_s"] = table["overlap_rate_per_s"] / 10
    return table.assign(store="s", workload="get", state="ok")


def quoted(table: pd.DataFrame) -> dict:
    return {name: value for name, value, _ in throughput.scaling_numbers(table)}


def test_each_axis_has_curves_with_the_others_held():
    table = throughput.scaling_table(points(), AXES)
    assert len(table) == 2 * 3 + 2 * 4
    clients = table[table["axis"] == "clients"]
    assert clients["clients"].isna().all() and set(clients["front_ends"]) == {1, 2, 3}
    assert set(clients["curve"]) == {"knee"} and clients["knee_low"].max() <= 4 <= clients["knee_high"].min()
    large = clients[(clients["metric"] == "throughput") & (clients["front_ends"] == 1)].iloc[0]
    assert large["plateau_value"] == pytest.approx(40.8, rel=0.01)
    ends = table[table["axis"] == "front_ends"]
    assert set(ends["curve"]) == {"still rising"} and ends["linearity_value"].to_numpy() == pytest.approx(1, abs=0.02)
    found = quoted(table)
    assert found["curves"] == 14 and found["curves_shapes"] == "6 reach a knee and 8 still rise at the end"
    assert found["linearity_front_ends"].startswith("1.0")
    assert latex(table).count("still rising") == 8 and r"Clients 1--8" in latex(table)


def test_peak_is_named_in_table_numbers_and_paper():
    """A client whose workers slow each other down: 100, 200, 400, 800, 600, 400."""
    rows = points().query("front_ends == 1 and object_size_bytes == 4000 and clients == 1")
    speeds = dict(zip((1, 2, 4, 8, 16, 32), (100.0, 200, 400, 800, 600, 400), strict=True))
    rows = pd.concat([rows.assign(clients=c, overlap_rate_per_s=v) for c, v in speeds.items()])
    rows["overlap_rate_per_s"] *= 1 + 0.01 * rows["rep"]
    table = throughput.scaling_table(rows, AXES)
    (found,) = table[table["axis"] == "clients"].to_dict("records")
    assert (found["curve"], found["knee_value"]) == ("peak", pytest.approx(8, rel=0.1))
    assert 4 <= found["knee_low"] <= 8 <= found["knee_high"] <= 16 and np.isnan(found["plateau_value"])
    assert "1 peaks" in quoted(table)["curves_shapes"] and "peak 8" in latex(table)


def test_two_values_make_no_curve():
    table = throughput.scaling_table(points().query("clients in (1, 2) and front_ends == 1"), AXES)
    assert table.empty and "curve" in table and throughput.scaling_numbers(table) == []


def test_invalid_and_idle_runs_are_left_out():
    rows = points()
    rows.loc[rows["rep"] == 3, "state"] = "invalid"
    rows.loc[rows["rep"] == 2, ["overlap_rate_per_s", "overlap_throughput_mb_per_s"]] = 0.0
    table = throughput.scaling_table(rows, AXES)
    assert set(table["n"]) == {3, 4} and table["reason"].str.contains("add repetitions").all()


def test_linearity_is_quoted_from_least_to_most():
    parts = ("linearity_value", "linearity_low", "linearity_high")
    rows = [(0.5, 0.25, 0.75), (-0.00003, -0.00006, -0.000003), (1.0, 0.99, 1.01)]
    found = quoted(pd.DataFrame(rows, columns=parts).assign(axis="front_ends", curve="knee"))
    assert found["linearity_front_ends"] == "0.00 [0.00, 0.00] to 1.00 [0.99, 1.01]"
    assert found["curves"] == 3 and found["curves_shapes"] == "3 reach a knee"
    table = pd.DataFrame([*rows, (-0.59, -8.28, 7.11)], columns=parts).assign(axis="front_ends")
    found = quoted(table.assign(curve=["knee", "bending", "peak", "undecided"]))
    assert found["linearity_front_ends"] == "0.00 [0.00, 0.00] to 1.00 [0.99, 1.01]", (
        "values without enough runs are not extremes"
    )
    assert [
        part in found["curves_shapes"] for part in ("1 bends", "1 peaks", "1 cannot be judged", "rise at", "0")
    ] == [
        *[True] * 3,
        *[False] * 2,
    ]

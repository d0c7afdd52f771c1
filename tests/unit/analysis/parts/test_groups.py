"""Groups of rows (`parts/groups.py`), compared with groups that plain Python finds row by row."""

import math

import numpy as np
import pandas as pd
import pytest

from storelab.analysis.parts import groups

BY = ["store", "clients", "size", "engine", "fraction", "nothing", "unknown"]


def rows(n, seed):
    """Return axes that vary, have one value, are null in some rows or in all; of every kind that tables have."""
    draw = np.random.default_rng(seed)
    pick = lambda *values: [values[i] for i in draw.integers(0, len(values), n)]  # noqa: E731
    frame = {"store": pick("a", "b"), "clients": pick(1, 2, 4), "size": pick(4096, None), "engine": ["s5cmd"] * n}
    frame |= {"fraction": pick(100.0, None, 0.1), "nothing": [None] * n, "unknown": [None] * n, "value": range(n)}
    kinds = {"store": "string", "clients": "Int64", "size": "Int64", "fraction": "float64", "nothing": "Int64"}
    return pd.DataFrame(frame).astype(kinds)


def key_of(row):
    return tuple(None if pd.isna(row[c]) else row[c] for c in BY)


@pytest.mark.parametrize("seed", range(8))
def test_groups_are_those_found_row_by_row(seed):
    frame = rows(25, seed)
    expected = {}
    for row in frame.to_dict("records"):
        expected.setdefault(key_of(row), []).append(row["value"])
    found = {key_of(key): group["value"].tolist() for key, group in groups.grouped(frame, BY)}
    assert found == expected
    # null comes last, as pandas sorts
    order = [*found]
    assert order == sorted(expected, key=lambda key: [(v is None, 0 if v is None else v) for v in key])
    assert all(list(key) == BY for key, _ in groups.grouped(frame, BY)), "in the requested order"


def test_one_group_has_all_rows_and_none_without_rows():
    frame = rows(25, 1)
    alike = frame[frame.index == 3]
    (key, group), *more = groups.grouped(alike, BY)
    assert not more and key_of(key) == key_of(alike.iloc[0].to_dict()) and group["value"].tolist() == [3]
    assert [*groups.grouped(frame.iloc[:0], BY)] == []


def test_value_with_nulls_is_not_constant():
    for values in ([None, 1, 1], [1, None, 1], [1, 1, None]):
        frame = pd.DataFrame({"store": "a", "clients": pd.array(values, "Int64"), "value": range(3)})
        found = [(k["clients"] is pd.NA or pd.isna(k["clients"]), len(g)) for k, g in groups.grouped(frame, BY[:2])]
        assert found == [(False, 2), (True, 1)]


def test_values_of_records_and_of_csv_are_alike():
    """CSV has no integers next to a missing value, and writes truth values as words."""
    given = [4000, True, "4 kB", None, math.nan]
    read = pd.Series([4000.0, "True", "4 kB", pd.NA, None], dtype=object)
    assert groups.comparable(given) == groups.comparable(read) == [4000.0, "True", "4 kB", None, None]
    assert groups.comparable(pd.Series([True, False])) == ["True", "False"] and groups.comparable(
        ["1"]
    ) != groups.comparable([1])


def test_summaries_count_runs():
    rows = pd.DataFrame(
        {
            **{"g": ["x", "x", "y", "x"], "speed_mb": [1.0, None, 4.0, 3.0]},
            **{"other_s": [1.0, 2.0, 4.0, 6.0], "text": ["a", None, "b", "c"]},
        }
    )
    metrics = [("speed", "mb"), ("other", "s")]
    columns = ["g", *groups.COUNTS, *groups.spread(metrics), "text"]

    def made(**options):
        return groups.summarised(rows, ["g"], metrics, columns, {"text": "joined"}, **options).set_index("g")

    plain, counted, whole = made(), made(counted="speed_mb"), made(complete=True)
    assert list(plain["n"]) == [3, 1] and list(counted["n"]) == [2, 1] and list(plain["interval"]) == ["range"] * 2
    assert list(plain["coverage_percent"]) == [75.0, 0.0] and list(counted["coverage_percent"]) == [50.0, 0.0]
    speeds, others = ([f"{name}_{part}_{unit}" for part in ("median", "low", "high")] for name, unit in metrics)
    assert plain.loc["x", speeds].tolist() == [2.0, 1.0, 3.0] and plain.loc["x", others].tolist() == [2.0, 1.0, 6.0]
    assert whole.loc["x", speeds].isna().all(), "not known in one of the runs"
    assert whole.loc["x", "other_median_s"] == 2.0 and whole.loc["y", "speed_median_mb"] == 4.0
    assert list(plain["text"]) == ["a, c", "b"]
    assert groups.joined([None, math.nan]) is None and groups.joined([1, 1, 2]) == "1, 2"
    assert groups.summarised(rows[:0], ["g"], metrics, columns).empty

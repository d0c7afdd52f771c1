"""Groups of rows (`parts/groups.py`): held against groups that are found row by row, in plain Python."""

import numpy as np
import pandas as pd
import pytest

from storelab.analysis.parts import groups

BY = ["store", "clients", "size", "engine", "fraction", "nothing", "unknown"]


def rows(n, seed):
    """Axes that vary, that have one value, that are null in some rows, and in all; of every kind that tables have."""
    draw = np.random.default_rng(seed)
    pick = lambda *values: [values[i] for i in draw.integers(0, len(values), n)]  # noqa: E731
    frame = {"store": pick("a", "b"), "clients": pick(1, 2, 4), "size": pick(4096, None), "engine": ["s5cmd"] * n}
    frame |= {"fraction": pick(100.0, None, 0.1), "nothing": [None] * n, "unknown": [None] * n, "value": range(n)}
    kinds = {"store": "string", "clients": "Int64", "size": "Int64", "fraction": "float64", "nothing": "Int64"}
    return pd.DataFrame(frame).astype(kinds)


def told(row):
    return tuple(None if pd.isna(row[c]) else row[c] for c in BY)


@pytest.mark.parametrize("seed", range(8))
def test_groups_are_those_found_row_by_row(seed):
    frame = rows(25, seed)
    expected = {}
    for row in frame.to_dict("records"):
        expected.setdefault(told(row), []).append(row["value"])
    found = {told(key): group["value"].tolist() for key, group in groups.grouped(frame, BY)}
    assert found == expected
    # null comes last, as pandas sorts
    order = [*found]
    assert order == sorted(expected, key=lambda key: [(v is None, 0 if v is None else v) for v in key])
    assert all(list(key) == BY for key, _ in groups.grouped(frame, BY)), "in the order that was asked for"


def test_one_group_has_all_rows_and_none_without_rows():
    frame = rows(25, 1)
    alike = frame[frame.index == 3]
    (key, group), *more = groups.grouped(alike, BY)
    assert not more and told(key) == told(alike.iloc[0].to_dict()) and group["value"].tolist() == [3]
    assert [*groups.grouped(frame.iloc[:0], BY)] == []


def test_a_value_beside_nulls_is_no_single_value():
    for values in ([None, 1, 1], [1, None, 1], [1, 1, None]):
        frame = pd.DataFrame({"store": "a", "clients": pd.array(values, "Int64"), "value": range(3)})
        found = [(k["clients"] is pd.NA or pd.isna(k["clients"]), len(g)) for k, g in groups.grouped(frame, BY[:2])]
        assert found == [(False, 2), (True, 1)]

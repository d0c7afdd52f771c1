"""collections.csv: the speed of garbage collection, the remaining garbage, and how uploads slowed down."""

from pathlib import Path

import made_records
import pandas as pd
import pytest
from garbage_rows import make_table

from storelab.analysis.latex import roles as latex
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import releases
from storelab.core import records


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path)


def test_times_and_rates_are_those_of_all_tries(table):
    first = table.iloc[0]
    assert (first["mark_s"], first["sweep_s"], first["deletes"], first["deletes_per_s"]) == (3, 9, 900, 100)
    assert (first["tries"], first["failures"], first["retries"], first["requests"]) == (3, 4, 5, 3)
    assert (first["kept"], first["dropped"], first["dead_mb"], first["factor"]) == (2, 7, 3, 0.001)
    assert list(table["workers"]) == [40, 40, 40, 400, 400]
    assert first["system"] == "alpha, replica-2" and table["system"].iloc[-1] == "beta"
    assert list(table["role"].fillna("")) == ["deletions"] * 4 + [""]
    assert list(table["deletes_per_s"]) == [100, 300, 900, 900, 90]


def test_uploads_are_a_ratio_to_those_before(table):
    assert table["uploads_during_ratio"].iloc[0] == pytest.approx(0.6)
    assert table["uploads_after_ratio"].iloc[0] == pytest.approx(1.1)
    assert table["uploads_during_ratio"].iloc[1] == pytest.approx(0.8)
    assert table["uploads_during_ratio"].iloc[2:].isna().all(), "no rate was known before"
    assert table["uploads_after_ratio"].iloc[1:].isna().all()


def test_summary_is_over_valid_runs(table):
    found = releases.collections_summary(table)
    assert list(found["n"]) == [2, 1, 1] and list(found["workers"]) == [40, 400, 400]
    one = found.iloc[0]
    assert [one[f"deletes_per_s_{p}"] for p in ("median", "low", "high")] == [200, 100, 300]
    assert [one[f"uploads_during_ratio_{p}"] for p in ("median", "low", "high")] == pytest.approx([0.7, 0.6, 0.8])
    assert (one["lingering"], one["failures"], one["dead"]) == (4, 5, 900)
    numbers = [("dead", 900, ""), ("alive", 50, ""), ("rate", 900, "per second"), ("lingering", 4, "")]
    uploads = [("uploads", "70.0 [60.0, 80.0]", "%"), ("uploads_where", "alpha, replica-2", "")]
    expected = [(f"collected_{name}", *rest) for name, *rest in numbers + uploads]
    assert releases.collections_numbers(table) == expected
    assert [name for name, *_ in releases.collections_numbers(table.iloc[4:])] == [name for name, *_ in expected[:4]]


def test_paper_has_row_for_each_point(table):
    lines = [line for line in latex.collected(table).splitlines() if line.endswith(r"\\") and "&" in line]
    cells = [[cell.strip() for cell in line.removesuffix(r"\\").split("&")] for line in lines[1:]]
    assert len(cells) == 3 and all(len(row) == len(lines[0].split("&")) == 12 for row in cells)
    assert cells[0][0] == "alpha, replica-2; 40 workers per client"
    assert cells[0][1:5] == ["2", "50", "900", "3"]
    assert cells[0][5:8] == ["200 [100, 300]", "6", "70.0 [60.0, 80.0]"]
    assert cells[0][9:] == ["6", "4", "0"] and cells[0][8] == "110"
    assert cells[2][0] == "beta; 400 workers per client" and cells[2][5] == "90" and cells[2][7:9] == ["--", "--"]


def test_campaign_without_collection_has_columns_only():
    campaign = Campaign(Path(), {}, {}, {})
    made = releases.collections_table(campaign, pd.DataFrame(), pd.DataFrame())
    assert list(made) == list(releases.COLLECTION_COLUMNS) and made.empty
    assert releases.collections_numbers(made) == []


def test_days_of_roles_are_not_releases(tmp_path):
    row = dict.fromkeys(records.DAYS, 0) | {"state": "x", "reason": "x"}
    runs = {"k": {"point": {"fixed": {"roles": []}}}}
    assert releases.days_of_runs(made_records.campaign(tmp_path, "days", records.DAYS, {"k": [row]}, runs)).empty

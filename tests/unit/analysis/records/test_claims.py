"""The list of findings of 2015 that claims are judged on: complete, and measurable with the campaigns that it names."""

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from paths import ROOT
from throughput_rows import runs

from storelab.analysis.records import published
from storelab.analysis.tables import claims
from storelab.analysis.tables import claims as table_of
from storelab.core import plan as planning
from storelab.core.axes import ALL
from storelab.core.campaign.claims import NEEDS
from storelab.stores import config
from storelab.workloads import WORKLOADS


@cache
def planned_points(campaign: str):
    return planning.make(config.load(ROOT / "config.yaml", overrides={"campaign": campaign}), WORKLOADS)


def test_findings_are_complete():
    known = published.findings()
    assert len(known) >= 30 and {c["rule"] for c in known.values()} == set(NEEDS)
    campaigns = {p.stem for p in (ROOT / "campaigns").glob("*.yaml")}
    for name, claim in known.items():
        assert set(claim["campaigns"]) <= campaigns, name
        value, unit = published.printed_number(claim["published"])
        assert math.isfinite(value) == bool(claim["published"]), name
        assert (
            claim["says"].endswith(".")
            and claims.query_text(claim)
            and claims.expected(claim)
            and isinstance(unit, str)
        )
    assert published.printed_number(known["five_buckets_double_uploads"]["published"]) == (pytest.approx(118 / 50), "")
    assert published.printed_number(known["accounts_double_uploads"]["published"]) == (1400, "files/s")
    times = 320.92 / (758.42 * 12 / 11918)
    assert published.printed_number(known["few_entries_cost_420_times"]["published"])[0] == pytest.approx(times)


def test_campaigns_have_what_findings_compare():
    """Each campaign that a finding names has its workloads, and two values or more of the axis that it compares."""
    for name, claim in published.findings().items():
        for campaign in claim["campaigns"]:
            points = planned_points(campaign)
            workload = claim["where"].get("workload")
            wanted = workload if isinstance(workload, list) else [workload]
            own = [p for p in points if workload is None or p.workload in wanted]
            assert own, f"{name}: {campaign} has no {workload}"
            if claim["along"] and claim["rule"] != "level" and claim["along"] not in ("store", "workload", "does"):
                columns = {a.column: a.name for a in ALL.values()}
                values = {p.axes.get(columns[claim["along"]]) for p in own} - {None}
                assert len(values) > 1, f"{name}: {campaign} has one value of {claim['along']}"


def found_of(name: str, *parts: pd.DataFrame) -> str:
    """Return the judgement of a finding of the list on these runs."""
    rows = {"throughput": pd.concat(parts, ignore_index=True)}
    return table_of.judged({name: published.findings()[name]}, rows)["verdict"].iloc[0]


def test_more_accounts_are_not_more_buckets():
    """One account has 1 or 100 buckets; 2100 buckets have 21 accounts, which double the rate."""

    def of(workload: str, gain: float) -> list[pd.DataFrame]:
        grid = ((1, 1, 100), (100, 1, 100 * gain), (2100, 21, 200))
        return [runs(v, workload=workload, object_size_bytes=4000, buckets=b, accounts=a) for b, a, v in grid]

    assert found_of("buckets_bring_uploads", *of("put", 1.0)) == "refuted"
    assert found_of("buckets_bring_uploads", *of("put", 1.5)) == "confirmed"
    assert found_of("buckets_leave_downloads", *of("get", 1.0)) == "confirmed"
    assert found_of("buckets_leave_downloads", *of("get", 1.5)) == "refuted"
    assert found_of("buckets_bring_uploads", of("put", 1.5)[2]) == "not measured here"


def test_three_copies_are_those_of_one_campaign():
    def of(store: str, factor: float) -> list[pd.DataFrame]:
        sides = (("put", 100), ("get", 100 * factor))
        return [runs(v, workload=w, store=store, object_size_bytes=4000) for w, v in sides]

    name = "replicated_downloads_double_uploads"
    assert found_of(name, *of("ceph-copies", 2.0), *of("ceph-shards", 1.0)) == "confirmed"
    assert found_of(name, *of("ceph-copies", 1.2), *of("ceph-shards", 2.0)) == "refuted"
    assert found_of(name, *of("ceph-shards", 2.0)) == "not measured here"
    assert "ceph-copies" in {p.store for p in planned_points("ihep")}


def test_published_number_is_one_row():
    number = {"value": None, "unit": "", "table": "uds_headlines", "column": "value", "over": {}}
    for rows in ({}, {"system": "uds1_2013"}):
        with pytest.raises(ValueError, match="rows match"):
            published.printed_number(number | {"rows": rows})
    assert (
        published.printed_number({"value": 1.54, "unit": "x"}) == (1.54, "x") and published.printed_number({})[1] == ""
    )


def said(**more):
    return {"value": None, "unit": "", "table": "", "column": "value", "rows": {}, "over": {}} | more


def test_a_printed_number_is_a_value_a_cell_or_a_cell_over_another():
    assert math.isnan(published.printed_number(None)[0]) and published.printed_number(None)[1] == ""
    assert published.printed_number(said(value=2, unit="MB/s")) == (2.0, "MB/s")
    table = published.load("uds_headlines")
    at = table.index[~table.duplicated(["system", "quantity", "setting"], keep=False) & table["setting"].notna()][0]
    row = table.loc[at]
    cell = said(table="uds_headlines", rows={c: row[c] for c in ("system", "quantity", "setting")})
    assert published.printed_number(cell) == (row["value"], row["unit"]), "the table's own unit"
    assert published.printed_number(cell | {"unit": "of mine"}) == (row["value"], "of mine")
    with pytest.raises(ValueError, match="rows match"):
        published.printed_number(cell | {"rows": {}})


def test_a_table_without_units_gives_none():
    threads = published.load("uds1_2012_single_client_threads")
    assert "unit" not in threads
    rows = {"operation": "upload", "object_size_printed": "4 kB", "threads": 1}
    one = threads.loc[np.logical_and.reduce([threads[c] == v for c, v in rows.items()]), "files_per_s"].item()
    cell = said(table="uds1_2012_single_client_threads", column="files_per_s", rows=rows)
    assert published.printed_number(cell) == (one, "")
    most = threads[(threads["operation"] == "upload") & (threads["object_size_printed"] == "4 kB")].iloc[-1]
    over = published.printed_number(
        cell | {"rows": rows | {"threads": most["threads"]}, "over": {"threads": 1}, "unit": "times"}
    )
    assert over == (pytest.approx(most["files_per_s"] / one), "times")

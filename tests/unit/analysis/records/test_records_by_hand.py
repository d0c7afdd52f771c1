"""What is read from records: windows to the nanosecond, bins, schemas, parts and acts, against plain counts made
here.
"""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from storelab.analysis.records import cells, claims, published, roles, scan, series, windows
from storelab.analysis.records.campaign import Campaign
from storelab.core import records

S, MS = 10**9, 10**6


def campaign_of(folder, tables, **more):
    """Key -> name of a table (`ops.0`) -> its columns; more: key -> what its run.json says beside the least."""
    runs = {}
    for key, files in tables.items():
        for name, columns in files.items():
            kinds = records.OPS if name.startswith("ops") else records.TABLES.get(name.partition(".")[0], records.READS)
            path = folder / "raw" / key / f"{name}.parquet"
            records.write_table(path, {c: k for c, k in kinds.items() if c in columns or name[0] != "m"}, columns)
        over = AGREED + 10
        run = {"start_ns": AGREED, "deadline_ns": over, "clients": [{"client": 0, "start_ns": AGREED, "end_ns": over}]}
        run |= {"files": dict.fromkeys(f"{name}.parquet" for name in files)}
        run["point"] = {"fixed": {"warm_up_ns": 2}, "axes": {"clients": 1}}
        runs[key] = run | more.get(key, {})
    return Campaign(folder, {"points": [], "workloads": {}}, runs, {})


AGREED = 10**18  # ns: about as late as records are


def operations(*ends, errors=()):
    n = len(ends)
    said = [errors[i] if i < len(errors) else None for i in range(n)]
    return {"client": [0] * n, "count": [1] * n, "bytes": [7] * n, "end_ns": [AGREED + e for e in ends], "error": said}


# Windows


@pytest.mark.parametrize("ends", [(1,), (-3, 0, 1, 2, 3, 9, 10, 11, 12), (2,), (3,), (10,), (14,), ()])
def test_windows_to_the_nanosecond(tmp_path, ends):
    """Agreed at 0, warm until 2, over at 10 ns: each window holds what ends in (begin, end]."""
    row = windows.operations(campaign_of(tmp_path, {"k": {"ops.0": operations(*ends)}})).loc["k"]
    last = max(ends, default=10)
    for name, begin, end in (("overlap", 2, 10), ("first_done", 0, 10), ("last_done", 0, last)):
        inside = sum(begin < e <= end for e in ends)
        told = [row[f"{name}_{c}"] for c in ("operations", "bytes", "errors")]
        assert told == [inside, 7 * inside, 0], name
        assert [row[f"{name}_{c}_s"] * S for c in ("begin", "end", "length")] == pytest.approx(
            [begin, end, end - begin]
        )
        assert row[f"{name}_rate_per_s"] == pytest.approx(inside / (end - begin) * S)
        assert row[f"{name}_throughput_mb_per_s"] == pytest.approx(7 * inside / (end - begin) * S / 1e6)
    assert row["tail_s"] * S == pytest.approx(max(0, last - 10)) and row["operations"] == len(ends)


def test_what_hung_is_no_last_completion(tmp_path):
    row = windows.operations(campaign_of(tmp_path, {"k": {"ops.0": operations(5, 30, errors=(None, "Hung"))}})).loc["k"]
    assert row["last_done_end_s"] * S == pytest.approx(5) and (row["operations"], row["errors"]) == (1, 1)
    row = windows.operations(campaign_of(tmp_path, {"k": {"ops.0": operations(30, errors=("Hung",))}})).loc["k"]
    assert row["last_done_end_s"] * S == pytest.approx(10), "no completion: until the first client's end"


def test_completions_come_in_a_hundred_slices_for_each_client(tmp_path):
    """An operation ends in the middle of each hundredth; one more fails, and of the other client there is one."""
    ends = [10 * i + 5 for i in range(99)] + [1000]
    ops = operations(*ends, 13, errors=[None] * 100 + ["SlowDown"])
    found = windows.completions(campaign_of(tmp_path, {"k": {"ops.0": ops}}), "k")
    assert len(found) == 100 and found["second"].tolist() == pytest.approx([(10 * i + 5) / S for i in range(100)])
    assert set(found["operations_per_s"].round()) == {1e8} and found["mb_per_s"].tolist() == pytest.approx([700] * 100)
    two = ops | {"client": [0] * 100 + [1], "error": [None] * 101}
    found = windows.completions(campaign_of(tmp_path, {"k": {"ops.0": two}}), "k")
    assert len(found) == 200 and found.groupby("client")["operations_per_s"].sum().to_dict() == {0: 1e10, 1: 1e8}
    many = ops | {"count": [3] * 101}
    found = windows.completions(campaign_of(tmp_path, {"k": {"ops.0": many | {"error": [None] * 101}}}), "k", 10)
    assert found["operations_per_s"].mul(100 / S).round(6).tolist() == [33, *[30] * 9]
    none = windows.completions(campaign_of(tmp_path, {"k": {}}), "k")
    assert none.empty and [*none] == [*found] == ["second", "client", "operations_per_s", "mb_per_s"]


# Files of several schemas


def test_records_of_older_schemas_have_the_later_columns_as_null(tmp_path):
    """The monitor's `files` came with schema 4; a run of before has null there, whatever stands beside it."""
    least = {"host": ["n"], "what": ["host"], "name": ["n"], "time_ns": [1]}
    tables = {"old": {"monitor.n": least}, "new": {"monitor.n": least | {"files": [12]}}}
    campaign = campaign_of(tmp_path, tables, old={"schema": 3}, new={"schema": 4})
    rows = scan.connect(campaign, "monitor").execute("SELECT key, files FROM rows ORDER BY key").fetchall()
    assert rows == [("new", 12), ("old", None)]
    only = campaign_of(tmp_path, {"old": {"monitor.n": least}}, old={"schema": 3})
    assert scan.connect(only, "monitor").execute("SELECT files FROM rows").fetchall() == [(None,)]
    assert scan.ADDED == {
        "ops": {"intended_ns": "BIGINT", "endpoint": "SMALLINT"},
        "monitor": {"files": "BIGINT"},
    }, "docs/records.md, `schema`: 1 had no `intended_ns`, 2 no `endpoint`, 3 no `files` of the monitor"


def test_runs_that_name_no_schema_are_read_beside_others(tmp_path):
    tables = {k: {"ops.0": operations(*range(n))} for k, n in (("none", 3), ("two", 4), ("four", 5))}
    campaign = campaign_of(tmp_path, tables, two={"schema": 2}, four={"schema": 4})

    def counted(keys=None):
        con = scan.connect(campaign, "ops", keys)
        return dict(con.execute("SELECT key, count(*) FROM rows GROUP BY key").fetchall()) if con else None

    assert counted() == {"none": 3, "two": 4, "four": 5}
    assert counted(iter(["none", "four", "gone"])) == {"none": 3, "four": 5}
    assert counted([]) is None and scan.connect(campaign, "reads") is None


def test_bounds_of_a_run(tmp_path):
    """From the last client's start, and the warm-up, to the first one's end, at the latest the deadline."""
    clients = [(1, 9), (3, 30), (None, None)]
    clients = [{"start_ns": b and AGREED + b, "end_ns": e and AGREED + e} for b, e in clients]
    fixed = {"fixed": {"warm_up_ns": 2, "bin_ns": 50}}
    told = {"k": {"clients": clients, "point": fixed}, "none": {"clients": []}}
    found = scan.bounds(campaign_of(tmp_path, {"k": {}, "none": {}}, **told)).set_index("key")
    assert found.loc["k"].to_dict() == {
        **{"agreed_ns": AGREED, "overlap_begin_ns": AGREED + 5, "first_end_ns": AGREED + 9, "bin_ns": 50}
    }
    assert found.loc["none"].tolist() == [AGREED, AGREED + 2, AGREED + 10, 100 * MS]


# Latencies of bins


def test_the_longest_of_a_bin_is_the_end_of_its_last_bucket():
    """(upper end in ms, operations): 1000 up to 1 ms, then one of 500 ms; and a cell with a single bucket."""
    first = pd.DataFrame({"upper_ns": [MS, 2 * MS, 500 * MS], "operations": [600, 400, 1]}).assign(cell=0)
    other = pd.DataFrame({"upper_ns": [3 * MS], "operations": [5]}).assign(cell=1)
    found = cells._of_buckets(pd.concat([first, other]).assign(key="k", role="up"))
    assert found["cell"].tolist() == [0, 1] and found["latency_max_ms"].tolist() == [500, 3]
    assert found.loc[0, "latency_p50_ms"] == pytest.approx(1, rel=0.02) and found.loc[0, "latency_p99_ms"] <= 2
    assert found.loc[0, ["latency_p50_ms", "latency_p90_ms"]].is_monotonic_increasing
    few = found.loc[1, ["latency_p50_ms", "latency_p90_ms", "latency_p99_ms"]].isna().tolist()
    assert few == [False, True, True], "5 operations tell a half, and no tenth"


# Acts of a fault

ACT = {"kind": "act", "actor": "osd.0"}


@pytest.mark.parametrize(
    ("acts", "at", "undone"),
    [
        ([("command", 0, 0)], 0, True),  # at the very first nanosecond
        ([("command", 3, 7), ("command", 4, 5)], 7, True),
        ([("command", 3, None)], 3, True),
        ([("kill", 3, 3)], 99, False),
        ([("kill", 3, 3), ("restart", 5, 8)], 8, True),
        ([("hang", 3, 3), ("restart", 5, 8)], 8, True),
        ([("hang", 3, 3), ("heal", 5, 8)], 99, False),
        ([("slow", 3, 3), ("cut", 4, 4), ("heal", 5, 8)], 8, True),
        ([("restart", 5, 8), ("kill", 9, 9)], 99, False),
        ([("upgrade", 3, 6)], 6, True),
    ],
)
def test_when_the_last_harm_was_undone(acts, at, undone):
    events = [ACT | {"act": act, "time_ns": begun, "done_ns": done} for act, begun, done in acts]
    for order in itertools.permutations(events):
        run = {"deadline_ns": 99, "events": [*order]}
        assert (roles.undone_ns(run), roles.was_undone(run)) == (at, undone)


def test_a_run_without_acts():
    for run in ({}, {"events": None}, {"events": [{"kind": "state", "time_ns": 3}]}):
        assert roles.events(run, "act") == [] and roles.faulted_ns(run) is None and roles.was_undone(run)


def test_what_undoes_the_harm_of_another_actor_undoes_nothing():
    events = [ACT | {"act": "kill", "time_ns": 3}, ACT | {"act": "restart", "time_ns": 5, "actor": "osd.1"}]
    assert roles.undone_ns({"deadline_ns": 99, "events": events}) == 99


# Series


def test_each_part_knows_how_long_its_series_lasts():
    def point(key, lasts):
        return {"key": key, "fixed": {"duration_ns": lasts}, "duration_ns": {"duration_ns": -1}}

    soak, other = ([f"a/put/clients~{c:04d}_part~{n:04d}_rep~001" for n in (2, 1, 3)] for c in (1, 2))
    told = [*zip(soak, (5, 10, 20), strict=True), *zip(other, (1, 1, 1), strict=True), ("a/put/rep~001", 1000)]
    plan = {"points": [point(*p) for p in told]}
    assert series.lengths_ns(plan) == dict.fromkeys(soak, 35) | dict.fromkeys(other, 3)
    assert [*series.of(soak).values()] == [[soak[1], soak[0], soak[2]]] and series.of(["a/put/rep~001"]) == {}


# What was printed


def said(**more):
    return {"value": None, "unit": "", "table": "", "column": "value", "rows": {}, "over": {}} | more


def test_a_printed_number_is_a_value_a_cell_or_a_cell_over_another():
    assert math.isnan(claims.printed(None)[0]) and claims.printed(None)[1] == ""
    assert claims.printed(said(value=2, unit="MB/s")) == (2.0, "MB/s")
    table = published.load("uds_headlines")
    at = table.index[~table.duplicated(["system", "quantity", "setting"], keep=False) & table["setting"].notna()][0]
    row = table.loc[at]
    cell = said(table="uds_headlines", rows={c: row[c] for c in ("system", "quantity", "setting")})
    assert claims.printed(cell) == (row["value"], row["unit"]), "the table's own unit"
    assert claims.printed(cell | {"unit": "of mine"}) == (row["value"], "of mine")
    with pytest.raises(ValueError, match="rows are"):
        claims.printed(cell | {"rows": {}})


def test_a_table_without_units_gives_none():
    threads = published.load("uds1_2012_single_client_threads")
    assert "unit" not in threads
    rows = {"operation": "upload", "object_size_printed": "4 kB", "threads": 1}
    one = threads.loc[np.logical_and.reduce([threads[c] == v for c, v in rows.items()]), "files_per_s"].item()
    cell = said(table="uds1_2012_single_client_threads", column="files_per_s", rows=rows)
    assert claims.printed(cell) == (one, "")
    most = threads[(threads["operation"] == "upload") & (threads["object_size_printed"] == "4 kB")].iloc[-1]
    over = claims.printed(cell | {"rows": rows | {"threads": most["threads"]}, "over": {"threads": 1}, "unit": "times"})
    assert over == (pytest.approx(most["files_per_s"] / one), "times")


def test_places_of_printed_numbers_are_a_list_with_what_each_needs():
    places = published.places()
    assert isinstance(places, list) and {p["table"] for p in places} <= set(published.NAMES)
    assert all(p["columns"] and len(published.standing(p)) and [*published.standing(p)] == p["columns"] for p in places)

"""Tables from example records whose rates are known exactly (tests/support/make_examples.py), and from measured examples."""

import warnings

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from make_examples import ONE_EACH, make
from paths import DATA

from storelab.analysis.latex import points as latex
from storelab.analysis.records import campaign as loading
from storelab.analysis.records import windows
from storelab.analysis.tables import build
from storelab.core import evidence, records
from storelab.core.errors import UserError

MEASURED = sorted(p.parents[1] for p in (DATA).glob("*/raw/plan.json"))


@pytest.fixture
def fresh(tmp_path):
    """A small campaign that a test may harm."""
    sweeps = {"upload": {"workload": "put", "duration": "4 s", "axes": {"clients": [1, 2]}}}
    make(tmp_path, failed=(), sweeps=sweeps, repetitions=2)
    return tmp_path


def one(table: pd.DataFrame, **wanted) -> pd.Series:
    rows = table
    for column, value in wanted.items():
        rows = rows[rows[column] == value]
    assert len(rows) == 1, rows
    return rows.iloc[0]


def test_every_planned_point_has_a_row(example):
    t = build.read(example, "points")
    assert len(t) == 90 and t["key"].is_unique
    assert list(t["order"]) == list(range(1, 91))
    failed = one(t, state="failed")
    assert failed["reason"].startswith("client 3 did not arrive") and pd.isna(failed["overlap_rate_per_s"])


def test_windows_of_one_point(example):
    """One client, 100 uploads/s: overlap 1-4 s, first done 0-4 s, last done until 4.5 s, one failure at 2 s."""
    r = one(build.read(example, "points"), workload="put", object_size_bytes=4000, clients=1, front_ends=1, rep=1)
    assert (r["overlap_begin_s"], r["overlap_end_s"], r["overlap_length_s"]) == (1, 4, 3)
    assert (r["overlap_operations"], r["overlap_bytes"], r["overlap_errors"]) == (300, 1_200_000, 1)
    assert r["overlap_rate_per_s"] == 100 and r["overlap_throughput_mb_per_s"] == pytest.approx(0.4)
    assert (r["first_done_operations"], r["first_done_length_s"], r["first_done_rate_per_s"]) == (400, 4, 100)
    assert (r["last_done_operations"], r["last_done_length_s"], r["last_done_rate_per_s"]) == (450, 4.5, 100)
    assert r["tail_s"] == 0.5 and r["operations"] == 450 and r["errors"] == 1 and r["steadiness"] == "steady"


def test_overlap_begins_with_the_latest_client(example):
    """Four clients, the last 3 ms late: 3 ms of the window are gone, and with them no whole operation but the completions in it."""
    r = one(build.read(example, "points"), workload="get", object_size_bytes=4000, clients=4, front_ends=1, rep=1)
    assert r["overlap_begin_s"] == pytest.approx(1.003) and r["lateness_max_ms"] == 3 and r["clients_joined"] == 4
    assert r["overlap_operations"] == 4 * 600  # 200/s each, at multiples of 5 ms: 1.005 ... 4.000
    assert r["overlap_rate_per_s"] == pytest.approx(2400 / 2.997)


def test_cpu_hosts_and_engine(example):
    r = one(build.read(example, "points"), workload="get", object_size_bytes=4000, clients=2, front_ends=1, rep=1)
    assert r["client_cpu_s"] == 1.5 and r["client_cpu_percent"] == pytest.approx(100 * 1.5 / 8)
    assert r["server_cpu_percent"] == 25 and r["host_cpu_percent"] == 75
    assert (
        r["shared_host"]
        and r["connections_max"] == 16
        and r["requests_per_operation"] == "GET 2"
        and r["engine_version"] == "2.3.0"
    )


def test_medians_over_runs(example):
    r = one(build.read(example, "throughput"), workload="put", object_size_bytes=4000, clients=1, front_ends=1)
    assert (r["n"], r["interval"], r["coverage_percent"]) == (3, "range", 75)
    assert (r["rate_median_per_s"], r["rate_low_per_s"], r["rate_high_per_s"]) == (100, 99, 101)
    assert r["errors"] == 3 and r["reps_failed"] == 0
    short = one(
        build.read(example, "throughput"), workload="put", object_size_bytes=10_000_000, clients=4, front_ends=1
    )
    assert (short["n"], short["reps_planned"], short["reps_failed"]) == (2, 3, 1)


def test_sparse_reads(example):
    r = one(build.read(example, "sparse"), entry_fraction_percent=0.1, clients=1)
    assert (r["entries"], r["branches"], r["baskets"], r["reads"]) == (10, 500, 4000, 240)
    assert (r["needed_median_mb_per_read"], r["wire_median_mb_per_read"], r["requests_median_per_read"]) == (2, 12, 6)
    assert r["amplification_median_ratio"] == 6 and r["share_amplification_median_ratio"] == pytest.approx(12 / 0.08)
    assert (r["reads_median_per_s"], r["entries_median_per_s"]) == (20, 200)
    assert (r["needed_median_mb_per_s"], r["wire_median_mb_per_s"]) == (40, 240)
    assert r["transfer_median_s_per_read"] == pytest.approx(0.01)


def test_numbers_and_environment(example):
    value = build.read(example, "numbers").set_index("name")["value"]
    assert value["points"] == "90" and value["points_measured"] == "89" and value["points_failed"] == "1"
    assert (
        float(value["best_metadata_download"]) == pytest.approx(1600, rel=1e-3)
        and value["best_metadata_download_clients"] == "4 clients"
    )
    assert value["amplification_most"] == "6.0" and value["amplification_most_entry_fraction"] == "0.1 %"
    assert build.read(example, "numbers")["name"].is_unique
    env = build.read(example, "environment")
    assert one(env, group="engine s5cmd", item="requests_per_operation.GET")["value"] == "2"
    assert one(env, item="cpu_model")["points"] == 89


def test_completions_of_one_point(example):
    t = windows.completions(loading.load(example), "alpha/put/clients~0002_rep~001", slices=10)
    assert sorted(t["client"].unique()) == [0, 1] and len(t) == 20
    assert (t["operations_per_s"] * 0.45).sum() == pytest.approx(450 + 400)


def test_a_window_is_too_short_to_tell_or_has_as_many_slices_as_it_bears():
    """10 000 operations, and a swing of 8 periods: 40 slices show it; 20, and 10, of which each holds a period, do not."""
    seconds = (np.arange(40) + 0.5) / 40
    swing = 250 * (1 + 0.5 * np.sin(16 * np.pi * seconds + 1))
    assert windows.label(np.full(40, 25), 5) == "steady"
    assert windows.label(swing, 5) == "swinging"
    assert windows.label(swing, 3.9) == "steady", "a slice below a bin of 100 ms"
    assert windows.label(swing, 5, 500) == "swinging" and windows.label(swing, 5, 501) == "steady", "two a slice"
    assert windows.label(np.full(40, 25), 1.9) == windows.label(np.full(40, 49 / 40), 5) == "too short"
    assert windows.label(np.full(40, 10), 5, 81) == "too short" != windows.label(np.full(40, 10), 5, 80)
    assert windows.in_flight({"clients": 3, "workers": 4, "batch": 10, "object_size": 5}) == 120


def test_points_that_were_tried_more_than_once_say_so(tmp_path):
    """In table, numbers and paper: one failed twice in the end, one was measured at its second try, then tried once more."""
    failed, again = "alpha/put/rep~001", "alpha/put/rep~002"
    make(tmp_path, failed=(failed,), repetitions=3, sweeps={"upload": ONE_EACH["upload"]})
    for key, name in ((failed, "failed.json"), (again, "run.json")):
        path = tmp_path / "raw" / key / name
        told = records.read_json(path)
        records.write_summed(
            path, told | {"earlier": [{"time_ns": 5, "outcome": "failed", "reason": "a_node is silent"}]}
        )
    late = {"schema": 1, "point": told["point"], "time_ns": told["start_ns"] + 1, "reason": "stopped", "earlier": []}
    records.write_summed(tmp_path / "raw" / again / "later.json", late)
    evidence.write_sums(tmp_path / "raw")
    build.build(tmp_path)
    points = build.read(tmp_path, "points").set_index("key")
    assert list(points["tries"]) == [{failed: 2, again: 3}.get(key, 1) for key in points.index]
    assert points.loc[failed, "other_tries"] == "failed: a_node is silent" and points.loc[failed, "state"] == "failed"
    assert points.loc[again, "other_tries"] == "failed: a_node is silent; failed: stopped"
    assert points.loc[again, "state"] == "ok" and points["other_tries"].isna().sum() == 1
    assert one(build.read(tmp_path, "numbers"), name="points_tried_again")["value"] == "2"
    assert r"a\_node is silent; failed: stopped" in latex.tried(points.reset_index())


def test_a_workload_without_data_and_a_campaign_without_any(tmp_path):
    make(tmp_path / "some", failed=("read_entries", "put"), sweeps=ONE_EACH)
    build.build(tmp_path / "some")
    assert build.read(tmp_path / "some", "sparse").empty and set(
        build.read(tmp_path / "some", "throughput")["workload"]
    ) == {"get"}
    make(tmp_path / "none", failed=("read_entries", "put", "get"), sweeps=ONE_EACH)
    build.build(tmp_path / "none")
    assert build.read(tmp_path / "none", "throughput").empty and set(
        build.read(tmp_path / "none", "points")["state"]
    ) == {"failed"}


def test_an_altered_record_stops_the_build(fresh):
    path = next((fresh / "raw").rglob("ops.0.parquet"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match="wrong checksum"):
        build.build(fresh)
    assert not (fresh / "tables").exists()


def test_a_missing_point_is_named_with_the_count(fresh):
    for key in ("clients~0002_rep~001", "rep~002"):
        (fresh / "raw/alpha/put" / key / "run.json").unlink()
    with pytest.raises(UserError, match=r"alpha/put/.*raw record is missing \(2 files are gone\)"):
        build.build(fresh)
    evidence.write_sums(fresh / "raw")
    for name in ("ops.0.parquet", "ops.1.parquet"):
        (fresh / "raw/alpha/put/rep~002" / name).unlink(missing_ok=True)
    evidence.write_sums(fresh / "raw")
    wanted = r"alpha/put/.*was not measured \(2 of 4 points\); .*`make measure CAMPAIGN=%s`"
    with pytest.raises(UserError, match=wanted % fresh.name):
        build.build(fresh)
    path = fresh / "raw/plan.json"
    told = records.read_json(path)
    records.write_summed(path, {k: v for k, v in told.items() if k not in records.SUM_KEYS} | {"file": "other"})
    evidence.write_sums(fresh / "raw")
    with pytest.raises(UserError, match=wanted % f"other CONFIG=name={fresh.name}"):
        build.build(fresh)


def test_a_missing_parquet_file_stops_the_build(fresh):
    next((fresh / "raw").rglob("ops.0.parquet")).unlink()
    with pytest.raises(UserError, match=r"ops\.0\.parquet.*missing"):
        build.build(fresh)


def test_a_record_of_another_point_is_refused(fresh):
    a, b = (fresh / "raw/alpha/put" / k / "run.json" for k in ("rep~001", "rep~002"))
    a.write_bytes(b.read_bytes())
    evidence.write_sums(fresh / "raw")
    with pytest.raises(UserError, match="another point"):
        build.build(fresh)


def test_seal(fresh):
    first = loading.seal(fresh)
    assert first["points"] == 4 and evidence.seal_of(fresh / "raw") == first and loading.seal(fresh) == first
    (fresh / "raw/alpha/put/rep~001/run.json").touch()
    build.build(fresh)
    records.write_json(fresh / "raw/note.json", {})
    evidence.write_sums(fresh / "raw")
    with pytest.raises(UserError, match="sealed"):
        build.build(fresh)


def test_seal_refuses_failures_unless_told(tmp_path):
    make(tmp_path, failed=("alpha/put/rep~002",), sweeps=ONE_EACH)
    with pytest.raises(UserError, match=r"1 of 9 points.*did not arrive"):
        loading.seal(tmp_path)
    assert loading.seal(tmp_path, with_failures=True)["failed"] == 1


def test_a_table_that_is_read_has_plain_columns(example):
    """Those of pandas' own texts, or frames of one block per column, make each choice of rows of a wide table slow."""
    table = build.read(example, "points")
    assert {str(t) for t in table.dtypes} <= {"object", "float64", "int64", "bool"}
    assert table["store"].map(type).unique().tolist() == [str]
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.PerformanceWarning)
        table["one_more"] = 1


@pytest.mark.heavy
def test_same_records_give_the_same_tables(example, tmp_path):
    make(tmp_path)
    for path in build.build(tmp_path):
        assert path.read_bytes() == (example / "tables" / path.name).read_bytes()


@pytest.mark.parametrize("folder", MEASURED, ids=lambda p: p.name)
def test_measured_examples_are_readable(folder, tmp_path):
    copy = tmp_path / folder.name
    copy.mkdir()
    (copy / "raw").symlink_to(folder / "raw")
    build.build(copy)
    t = build.read(copy, "points")
    ok = t[t["state"] == "ok"]
    assert len(t) == len(records.read_json(folder / "raw/plan.json")["points"])
    for _, row in ok.iterrows():  # counted without DuckDB
        ops = [pq.read_table(path) for path in (folder / "raw" / row["key"]).glob("ops.*.parquet")]
        good = [pc.sum(t.filter(pc.is_null(t["error"]))["count"]).as_py() or 0 for t in ops]
        assert row["operations"] == sum(good) > 0
        run = records.read_json(folder / "raw" / row["key"] / "run.json")
        begin = max(c.get("start_ns") or run["start_ns"] for c in run["clients"]) + run["point"]["fixed"]["warm_up_ns"]
        end = min(min(c.get("end_ns") or run["deadline_ns"], run["deadline_ns"]) for c in run["clients"])
        assert row["overlap_length_s"] == pytest.approx((end - begin) / 1e9)

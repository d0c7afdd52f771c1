"""points.csv: windows, CPU and hosts of points whose rates are known; tries; what the text quotes of all points."""

import statistics
import warnings

import pandas as pd
import pytest
from make_examples import ONE_EACH, make
from throughput_rows import only_row

from campaigns import built
from storelab.analysis.latex import campaign as latex
from storelab.analysis.records.campaign import load
from storelab.analysis.statistics import steadiness
from storelab.analysis.tables import build, points
from storelab.core import integrity, records

S = 10**9


@pytest.fixture(scope="module")
def table():
    return build.read(built("example"), "points")


def check(row, **expected):
    assert row[[*expected]].to_dict() == pytest.approx(expected)


def test_every_planned_point_has_a_row(table):
    assert len(table) == 90 and table["key"].is_unique
    assert list(table["order"]) == list(range(1, 91))
    failed = only_row(table, state="failed")
    assert failed["reason"].startswith("client 3 did not arrive") and pd.isna(failed["overlap_rate_per_s"])


def test_windows_of_one_point(table):
    """One client, 100 uploads/s: overlap 1-4 s, first done 0-4 s, last done until 4.5 s, one failure at 2 s."""
    row = only_row(table, workload="put", object_size_bytes=4000, clients=1, front_ends=1, rep=1)
    check(row, overlap_begin_s=1, overlap_end_s=4, overlap_length_s=3, overlap_rate_per_s=100)
    check(row, overlap_operations=300, overlap_bytes=1_200_000, overlap_errors=1, overlap_throughput_mb_per_s=0.4)
    check(row, first_done_operations=400, first_done_length_s=4, first_done_rate_per_s=100)
    check(row, last_done_operations=450, last_done_length_s=4.5, last_done_rate_per_s=100)
    check(row, tail_s=0.5, operations=450, errors=1)
    assert row["steadiness"] == "steady"


def test_overlap_begins_with_latest_client(table):
    """Of four clients, the last is 3 ms late: the window is 3 ms shorter, and the rate is the same."""
    row = only_row(table, workload="get", object_size_bytes=4000, clients=4, front_ends=1, rep=1)
    check(row, overlap_begin_s=1.003, lateness_max_ms=3, clients_joined=4)
    assert row["overlap_rate_per_s"] == pytest.approx(800, rel=1e-3)
    assert row["overlap_operations"] == 4 * 600  # 200/s each, at multiples of 5 ms: 1.005 ... 4.000


def test_cpu_hosts_and_engine(table):
    row = only_row(table, workload="get", object_size_bytes=4000, clients=2, front_ends=1, rep=1)
    check(row, client_cpu_s=1.5, client_cpu_percent=100 * 1.5 / 8, server_cpu_percent=25, host_cpu_percent=75)
    names = ("shared_host", "connections_max", "requests_per_operation", "engine_version")
    assert [row[name] for name in names] == [True, 16, "GET 2", "2.3.0"]


def test_table_is_read_with_plain_columns(table):
    """Arrow's texts and frames of one block per column make each selection of rows of a wide table slow."""
    assert {str(t) for t in table.dtypes} <= {"object", "float64", "int64", "bool"}
    assert table["store"].map(type).unique().tolist() == [str]
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.PerformanceWarning)
        other = table.copy()
        other["one_more"] = 1


def test_tries_of_points(tmp_path):
    """One point failed twice; one was measured at its second try, and a later try failed."""
    failed, again = "alpha/put/rep~001", "alpha/put/rep~002"
    make(tmp_path, failed=(failed,), repetitions=3, sweeps={"upload": ONE_EACH["upload"]})
    earlier = {"earlier": [{"time_ns": 5, "outcome": "failed", "reason": "a_node is silent"}]}
    for key, name in ((failed, "failed.json"), (again, "run.json")):
        content = records.read_json(tmp_path / "raw" / key / name)
        records.write_summed(tmp_path / "raw" / key / name, content | earlier)
    late = {
        "schema": 1,
        "point": content["point"],
        "time_ns": content["start_ns"] + 1,
        "reason": "stopped",
        "earlier": [],
    }
    records.write_summed(tmp_path / "raw" / again / "later.json", late)
    integrity.write_sums(tmp_path / "raw")
    table = build.Tables(load(tmp_path))["points"].set_index("key")
    assert list(table["tries"]) == [{failed: 2, again: 3}.get(key, 1) for key in table.index]
    assert table.loc[failed, ["other_tries", "state"]].tolist() == ["failed: a_node is silent", "failed"]
    assert table.loc[again, ["other_tries", "state"]].tolist() == ["failed: a_node is silent; failed: stopped", "ok"]
    assert table["other_tries"].isna().sum() == 1 and ("points_tried_again", 2, "") in points.numbers(table)
    assert r"a\_node is silent; failed: stopped" in latex.tried(table.reset_index())


# Columns of one record

RUN = {"clients": [{"cpu_user_s": 1.0, "cpu_system_s": 2.0}, {}], "start_ns": 0, "deadline_ns": 4 * S}


def test_cpu_of_older_records():
    """They have no seconds and no cores; a client may lack its times."""
    found = points._run_columns(RUN)
    expected = {"client_cpu_s": 3.0, "client_cpu_percent": None, "other_cpu_percent": None, "connections_max": None}
    expected |= {"lateness_max_ms": 0, "nodes": 1, "shared_host": False}
    assert {name: found[name] for name in expected} == expected
    found = points._run_columns(RUN | {"host": {"cores": 2, "cpu_busy_s": 4.0, "server_cpu_s": 0.5}})
    assert [found[f"{who}_cpu_percent"] for who in ("client", "host", "other")] == [37.5, 50.0, 6.25]


def test_clients_use_at_most_what_the_host_used():
    """A client that decodes for seconds after its deadline used 128 % of the host, by its own count."""
    host = {"cores": 2, "cpu_busy_s": 7.0, "server_cpu_s": 0.5}
    found = points._run_columns(RUN | {"clients": [{"cpu_user_s": 8.0, "cpu_system_s": 2.0}], "host": host})
    assert found["client_cpu_s"] == 10.0 and found["other_cpu_percent"] == 0.0
    assert found["client_cpu_percent"] == found["host_cpu_percent"] == 87.5


def test_store_that_shares_host_of_clients():
    daemons = {"store": {"deployment": {"daemons": ["x"]}}}
    elsewhere = {"store": {"on_this_host": False, "deployment": {"daemons": ["x"]}}}
    local = [{"endpoint": "http://127.0.0.1:1"}, {"endpoint": "http://10.0.0.1"}]
    cases = [
        (daemons, True),
        (daemons | {"nodes": ["n"], "shared_machine": False}, False),
        (elsewhere, False),
        ({"clients": local}, False),
        ({"clients": local[:1]}, True),
    ]
    for change, shared in cases:
        assert points._run_columns(RUN | change)["shared_host"] is shared, change


def test_loopback_endpoints():
    here = ("http://127.0.0.1:1", "http://[::1]:9", "http://localhost", "http://a.localhost")
    assert all(points.loopback(url) for url in here)
    assert not any(points.loopback(url) for url in ("http://10.0.0.1", "http://localhost.example", ""))


# What the text quotes


def rows(**columns):
    n = len(next(iter(columns.values())))
    base = {
        **{"workload": "get", "state": "ok", "store": "a", "tries": 1, "operations": 5, "errors": 0, "hung": 0},
        **{"cut_off": 0, "pause_longest_ms": 0.0, "last_done_bytes": 10, "steadiness": "steady", "shared_host": False},
        **{"nodes": 1, "clients": 1, "duration_s": 4.0, "warm_up_s": 1.0, "other_cpu_percent": 0.0},
        **{"started": "2025-01-01T00:00:00Z", "lateness_max_ms": 0.0, "tail_s": 0.0},
    }
    return pd.DataFrame({k: [v] * n for k, v in base.items()} | columns)


def quoted(**columns):
    return {name: value for name, value, _ in points.numbers(rows(**columns))}


def test_runs_are_counted_by_steadiness():
    words = [*steadiness.UNSTEADY, *steadiness.UNSTEADY, "steady", "steady", "steady", "too short"]
    found = quoted(steadiness=words)
    bad = 2 * len(steadiness.UNSTEADY)
    assert (found["unsteady"], found["too_short"], found["steadiness_of"]) == (bad, 1, bad + 4)
    assert found["steadiness_told"] == f"3 were steady, {bad} not steady and 1 too short to judge"
    assert found["points"] == found["points_measured"] == len(words)


def test_hung_and_paused_runs_are_counted():
    pauses = [points.PAUSED_MS, points.PAUSED_MS - 1, 900.0]
    found = quoted(hung=[0, 3, 4], cut_off=[2, 0, 5], pause_longest_ms=pauses)
    assert (found["hung"], found["hung_runs"], found["hung_unknown"], found["paused"]) == (7, 2, 2, 2)
    assert found["pause_longest"] == max(900.0, points.PAUSED_MS)
    none = quoted(hung=[None, None], cut_off=[None, None], pause_longest_ms=[None, None])
    assert not {"hung", "hung_runs", "paused", "pause_longest"} & set(none) and none["hung_unknown"] == 0


def test_disturbed_runs_and_hosts_are_counted():
    """docs/records.md: a run is disturbed above 10 % of the host."""
    found = quoted(other_cpu_percent=[9.5, 10.0, 10.5, 11.5])
    assert (found["disturbed"], found["disturbed_from"]) == (2, 10)
    other = [0.0, 10, 11, 90.0, None]
    shared = [True, False, True, None, False]
    found = quoted(other_cpu_percent=other, nodes=[1, 2, 3, None, 1], shared_host=shared)
    assert (found["disturbed"], found["other_cpu_most"]) == (2, 90.0)
    assert found["other_cpu_median"] == statistics.median(other[:4])
    names = ("over_nodes", "nodes_most", "shared_host", "shared_host_of")
    assert [found[name] for name in names] == [2, 3, 2, "2 of the 5"]
    assert quoted(shared_host=[True, True])["shared_host_of"] == "all 2"


def test_days_tries_and_states_are_counted():
    found = quoted(
        **{"started": ["2025-03-02T01", "2025-03-01T23", "2025-03-09T00"], "state": ["ok", "ok", "failed"]},
        **{"tries": [1, 3, 2], "tail_s": [0.5, 2.5, 9.0], "lateness_max_ms": [4.0, 3.0, 9.0]},
        **{"clients": [1, 4, 16], "operations": [5, 6, 100]},
    )
    assert found["measured_on"] == "2025-03-01 to 2025-03-02" and found["points_tried_again"] == 2
    assert (found["points"], found["points_measured"], found["points_failed"]) == (3, 2, 1)
    assert (found["tail_most"], found["lateness_most"], found["operations"]) == (2.5, 4.0, 11)
    assert found["clients_most"] == "16 clients"


def test_sums_over_valid_runs():
    found = quoted(errors=[1, 2, 6], operations=[10, 20, 60], state=["ok", "invalid", "ok"])
    assert (found["errors"], found["operations"]) == (7, 70)
    for workloads, count, operations in ((["calibrate"] * 2, 2, 5), (["calibrate", "get"], 1, 3)):
        found = quoted(workload=workloads, operations=[2, 3])  # calibrations count only where there is nothing else
        assert (found["points"], found["operations"]) == (count, operations), workloads

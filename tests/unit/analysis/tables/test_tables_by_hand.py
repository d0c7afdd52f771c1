"""Small tables whose every cell is worked out by hand: resources, space, consistency, capabilities, groups, speeds, calibrations."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest
from scipy import stats

from storelab.analysis import sizing
from storelab.analysis.parts import groups, speed
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import calibration, latency, points, resources, verdicts
from storelab.analysis.tables.numbers import environment
from storelab.analysis.tables.systems import capabilities, consistency, space
from storelab.core import calibration as planned
from storelab.core import records
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.workloads import WORKLOADS
from storelab.workloads.calibrate import workload as calibrate

S = 10**9


# Values


def test_values_are_alike_whether_a_record_or_csv_tells_them():
    """CSV has no integers beside a gap, and truths as words."""
    told = [4000, True, "4 kB", None, math.nan]
    read = pd.Series([4000.0, "True", "4 kB", pd.NA, None], dtype=object)
    assert groups.alike(told) == groups.alike(read) == [4000.0, "True", "4 kB", None, None]
    assert groups.alike(pd.Series([True, False])) == ["True", "False"] and groups.alike(["1"]) != groups.alike([1])


# Resources of a run

HOST = {
    "cores": 4,
    "seconds": 5.0,
    "cpu_busy_s": 12.0,
    "server_cpu_s": 2.5,
    "monitor_cpu_s": 0.05,
    "ports": 20_000,
    "connections_opened": 50,
}
NETWORK = {
    "lo": {"rx_bytes": 10, "tx_bytes": 20, "rx_packets": 1, "tx_packets": 2, "link_bits_per_s": None},
    "eth0": {"rx_bytes": 500_000_000, "tx_bytes": 4, "rx_packets": 300, "tx_packets": 1000, "link_bits_per_s": 10**9},
}
CLIENTS = [
    {"cpu_user_s": 4.0, "cpu_system_s": 1.0, "connections_max": 8},
    {"cpu_user_s": 1.0, "cpu_system_s": None, "connections_max": None},
]
SEEN = {
    "host_memory": 3000.0,
    "client_rss": 200.0,
    "open": 7,
    "established": 30,
    "time_wait": 400,
    "time_wait_more": 100,
    "two_hosts": 430,
    "one_host": 415,
}


def of_run(shared=False, seen=SEEN, operations=2000.0, moved=4e9, **changes):
    run = {
        "start_ns": 0,
        "deadline_ns": 8 * S,
        "clients": CLIENTS,
        "host": HOST | {"network": NETWORK},
        "environment": {"memory_bytes": 8_000_000_000},
    }
    return resources.of_run(run | changes, operations, moved, shared, seen)


def test_resources_of_a_run():
    expected = {
        **{
            "cores": 4,
            "host_ports": 20_000,
            "interface": "eth0",
            "network_mb_per_s": 100.0,
            "packets_per_s": 200.0,
            "link_percent": 80.0,
        },
        **{
            "client_user_cores": 1.0,
            "client_system_cores": 0.2,
            "client_cpu_cores": 1.2,
            "client_user_s_per_1000": 2.5,
            "client_system_s_per_1000": 0.5,
        },
        **{
            "client_user_s_per_gb": 1.25,
            "client_system_s_per_gb": 0.25,
            "server_cpu_cores": 0.5,
            "host_cpu_percent": 60.0,
            "monitor_percent": 1.0,
        },
        **{
            "opened_per_operation": 0.025,
            "host_memory_mb": 3000.0,
            "client_rss_mb": 200.0,
            "established_sockets": 30,
            "time_wait_sockets": 400,
        },
        **{"time_wait_more_sockets": 100, "open_sockets": 8, "host_memory_percent": 37.5, "ports_percent": 2.15},
    }
    assert of_run() == pytest.approx(expected) and of_run(shared=True)["ports_percent"] == pytest.approx(2.075)
    assert of_run(seen=SEEN | {"open": 99})["open_sockets"] == 99


def test_what_nobody_saw_is_in_no_column():
    bare = of_run(seen={}, operations=0, moved=0, host={}, clients=[{"cpu_user_s": 4.0}])
    assert bare["client_user_cores"] == 0.5, "of the 8 s between start and deadline"
    assert (
        bare["client_user_s_per_1000"] is None
        and bare["client_user_s_per_gb"] is None
        and bare["host_cpu_percent"] is None
    )
    assert "open_sockets" not in bare and "ports_percent" not in bare and "interface" not in bare
    assert resources.busiest({"network": NETWORK}, 0) == {} and resources.busiest({}, 5) == {}
    old = {"eth0": {"rx_bytes": 5_000_000, "tx_bytes": 10_000_000}}
    assert resources.busiest({"network": old}, 5.0) == {"interface": "eth0", "network_mb_per_s": 2.0}


def campaign_of(tmp_path, key="k", run=None, **tables):
    """A campaign of one point with these tables beside: name -> rows."""
    run = {
        "schema": 3,
        "start_ns": 0,
        "deadline_ns": 9 * S,
        "clients": [],
        "point": {"fixed": {"warm_up_ns": 0}},
        "files": {},
    } | (run or {})
    for name, (kinds, rows) in tables.items():
        records.write_table(
            tmp_path / "raw" / key / f"{name}.0.parquet", kinds, {c: [r.get(c) for r in rows] for c in kinds}
        )
        run["files"][f"{name}.0.parquet"] = {}
    return Campaign(tmp_path, {"points": [], "workloads": {}, "stores": {}}, {key: run}, {})


def test_the_most_of_every_moment(tmp_path):
    """Of several hosts the largest value; clients: summed per moment, the largest moment of each host, summed over the hosts."""
    hosts = [
        ("a", 1, 50, 10, 100),
        ("a", 2, 90, 31, 60),
        ("a", 3, 70, 20, 130),
        ("b", 1, 80, 50, 20),
        ("b", 2, 10, 5, 25),
    ]
    rows = [
        {"host": h, "what": "host", "name": "", "time_ns": t, "rss_bytes": m * 10**6, "established": e, "time_wait": w}
        for h, t, m, e, w in hosts
    ]
    clients = [
        ("a", "0", 1, 10, 1),
        ("a", "1", 1, 20, 2),
        ("a", "0", 2, 25, 4),
        ("a", "1", 2, 1, None),
        ("b", "2", 1, 7, 9),
    ]
    rows += [
        {"host": h, "what": "client", "name": n, "time_ns": t, "rss_bytes": m * 10**6, "sockets": s}
        for h, n, t, m, s in clients
    ]
    rows += [{"host": "a", "what": "server", "name": "x", "time_ns": 1, "rss_bytes": 10**12}]
    found = resources.samples(campaign_of(tmp_path, monitor=(records.MONITOR, rows))).loc["k"].to_dict()
    assert found == {
        **{
            "host_memory": 90.0,
            "established": 50,
            "time_wait": 130,
            "time_wait_more": 130 - 100,
            "two_hosts": 150,
            "one_host": 140,
        },
        **{"client_rss": 30.0 + 7.0, "open": 4 + 9},
    }


def test_numbers_of_resources():
    table = pd.DataFrame(
        {
            "monitor_median_percent": [0.5, 0.7],
            "ports_median_percent": [None, None],
            "client_rss_median_mb": [3.0, None],
        }
    )
    assert (
        resources.numbers(table) == [("monitor_cost_most", 0.7, "%"), ("client_memory_most", 3.0, "MB")]
        and resources.numbers(table[:0]) == []
    )


# Space


def test_space():
    observed = {"objects": 4, "stored_bytes": 2_000_000, "used_before_bytes": 1000, "used_after_put_bytes": 6_001_000, "used_after_delete_bytes": 501_000, "used_after_reclaim_bytes": 1000, "delete_s": 0.5, "reclaim_s": 2.0}  # fmt: skip
    other = observed | {
        "objects": 6,
        "used_after_put_bytes": 8_001_000,
        "used_after_delete_bytes": 701_000,
        "reclaim_s": 4.0,
    }
    runs = {
        "a": {"observed": observed},
        "b": {"observed": other},
        "c": {},
        "d": {"observed": observed | {"stored_bytes": 0}},
    }
    rows = pd.DataFrame({"key": list("abcd"), "store": "s", "workload": "space", "state": ["ok"] * 4})
    t = space.table(SimpleNamespace(runs=runs), rows, ["store", "workload"])
    assert len(t) == 1
    assert t.iloc[0].drop(["interval", "store", "workload"]).to_dict() == pytest.approx(
        {
            **{"n": 2, "coverage_percent": 50.0, "objects": 5.0, "stored_mb": 2.0, "delete_s": 0.5, "reclaim_s": 3.0},
            **{f"raw_per_byte_after_put_{p}_ratio": v for p, v in (("median", 3.5), ("low", 3.0), ("high", 4.0))},
            **{f"raw_per_byte_after_delete_{p}_ratio": v for p, v in (("median", 0.3), ("low", 0.25), ("high", 0.35))},
            **{f"raw_per_byte_after_reclaim_{p}_ratio": 0.0 for p in ("median", "low", "high")},
        }
    )


# Groups


def test_groups_count_and_summarise():
    rows = pd.DataFrame(
        {
            "g": ["x", "x", "y", "x"],
            "speed_mb": [1.0, None, 4.0, 3.0],
            "other_s": [1.0, 2.0, 4.0, 6.0],
            "text": ["a", None, "b", "c"],
        }
    )
    metrics = [("speed", "mb"), ("other", "s")]
    columns = ["g", *groups.COUNTS, *groups.spread(metrics), "said"]

    def made(**options):
        return groups.summarised(
            rows, ["g"], metrics, columns, lambda g: {"said": groups.joined(g["text"])}, **options
        ).set_index("g")

    plain, counted, whole = made(), made(counted="speed_mb"), made(complete=True)
    assert list(plain["n"]) == [3, 1] and list(counted["n"]) == [2, 1] and list(plain["interval"]) == ["range"] * 2
    assert list(plain["coverage_percent"]) == [75.0, 0.0] and list(counted["coverage_percent"]) == [50.0, 0.0]
    assert plain.loc["x", ["speed_median_mb", "speed_low_mb", "speed_high_mb"]].tolist() == [2.0, 1.0, 3.0]
    assert plain.loc["x", ["other_median_s", "other_low_s", "other_high_s"]].tolist() == [2.0, 1.0, 6.0]
    assert whole.loc["x", ["speed_median_mb", "speed_low_mb", "speed_high_mb"]].isna().all(), (
        "not known in one of the runs"
    )
    assert whole.loc["x", "other_median_s"] == 2.0 and whole.loc["y", "speed_median_mb"] == 4.0
    assert (
        list(plain["said"]) == ["a, c", "b"]
        and groups.joined([None, math.nan]) is None
        and groups.joined([1, 1, 2]) == "1, 2"
    )
    assert groups.summarised(rows[:0], ["g"], metrics, columns, dict).empty


def test_a_speed_is_the_throughput_from_one_megabyte_on():
    rows = [
        ("get", 999_999, None, "ok"), ("get", 10**6, None, "ok"), ("get_range", 10**9, 4000, "ok"), ("get_range", 10, 10**6, "ok"),
        ("delete", 10**9, None, "ok"), ("put", 10**7, None, "invalid"), ("put", 10**7, None, "ok"),
    ]  # fmt: skip
    t = pd.DataFrame(rows, columns=["workload", "object_size_bytes", "range_size_bytes", "state"])
    t = t.assign(
        overlap_rate_per_s=[1.0, 2, 3, 4, 5, 6, None], overlap_throughput_mb_per_s=[10.0, 20, 30, 40, 50, 60, 70]
    )
    found = speed.of_points(t)
    assert list(zip(found["metric"], found["value"], strict=True)) == [
        ("rate", 1),
        ("throughput", 20),
        ("rate", 3),
        ("throughput", 40),
        ("rate", 5),
        ("throughput", 70),
    ]
    t["latency_p99_ms"] = [None, 5.0, None, None, None, 9.0, 7.0]
    more = speed.with_latencies(t)
    assert list(zip(more["metric"], more["value"], strict=True))[6:] == [("latency_p99", 5.0), ("latency_p99", 7.0)]
    assert [speed.said(m) for m in ("throughput", "rate", "latency_p50", "latency_p99", "speed")] == [
        "throughput [MB/s]",
        "rate [1/s]",
        "latency p50 [ms]",
        "latency p99 [ms]",
        "speed",
    ]
    assert [speed.kind(m) for m in ("throughput", "rate", "latency_p50")] == ["speed", "speed", "latency_p50"]


def test_hosts_of_loopback():
    assert [
        points.loopback(u)
        for u in (
            "http://127.0.0.1:1",
            "http://[::1]:9",
            "http://localhost",
            "http://a.localhost",
            "http://10.0.0.1",
            "http://localhost.example",
            "",
        )
    ] == [True] * 4 + [False] * 3


def test_cpu_of_a_record_without_a_host():
    """Older records: no seconds, no cores; a client may lack its times."""
    run = {"clients": [{"cpu_user_s": 1.0, "cpu_system_s": 2.0}, {}], "start_ns": 0, "deadline_ns": 4 * S}
    found = points._run_columns(run)
    assert found["client_cpu_s"] == 3.0 and found["client_cpu_percent"] is None and found["other_cpu_percent"] is None
    assert (
        found["lateness_max_ms"] == 0
        and found["connections_max"] is None
        and found["nodes"] == 1
        and found["shared_host"] is False
    )
    found = points._run_columns(run | {"host": {"cores": 2, "cpu_busy_s": 4.0, "server_cpu_s": 0.5}})
    assert (
        found["client_cpu_percent"] == 37.5 and found["host_cpu_percent"] == 50.0 and found["other_cpu_percent"] == 6.25
    )


def test_clients_use_no_more_of_a_host_than_the_host_used():
    """A client that decodes for seconds behind its deadline used 128 % of the host, by its own count."""
    run = {"clients": [{"cpu_user_s": 8.0, "cpu_system_s": 2.0}], "start_ns": 0, "deadline_ns": 4 * S}
    host = {"cores": 2, "cpu_busy_s": 7.0, "server_cpu_s": 0.5}
    found = points._run_columns(run | {"host": host})
    assert found["client_cpu_s"] == 10.0 and found["client_cpu_percent"] == found["host_cpu_percent"] == 87.5
    assert found["other_cpu_percent"] == 0.0


def test_hosts_of_a_record():
    run = {"clients": [{"cpu_user_s": 1.0, "cpu_system_s": 2.0}, {}], "start_ns": 0, "deadline_ns": 4 * S}
    daemons = run | {"store": {"deployment": {"daemons": ["x"]}}}
    assert points._run_columns(daemons)["shared_host"] is True
    assert points._run_columns(daemons | {"nodes": ["n"], "shared_machine": False})["shared_host"] is False
    assert (
        points._run_columns(run | {"store": {"on_this_host": False, "deployment": {"daemons": ["x"]}}})["shared_host"]
        is False
    )
    local = [{"endpoint": "http://127.0.0.1:1"}, {"endpoint": "http://10.0.0.1"}]
    assert (
        points._run_columns(run | {"clients": local})["shared_host"] is False
        and points._run_columns(run | {"clients": local[:1]})["shared_host"] is True
    )


def test_the_environment_is_counted_and_sorted():
    run = {"store": {"name": "s", "kind": "k"}, "engine": {"name": "e", "version": "1", "settings": {"b": [1, 2], "a": None}}, "environment": {"packages": {"z": "1", "a": "2"}, "cores": 2}, "clients": [{"host": "x"}, {"host": "y"}], "checks": [{"name": "c", "ok": True}, {"name": "d", "ok": False}]}  # fmt: skip
    other = run | {"environment": {"cores": 4}, "clients": [{"host": "x"}]}
    t = environment(SimpleNamespace(runs={"one": run, "two": other, "three": run}))
    rows = [tuple(r) for r in t.itertuples(index=False)]
    assert rows == sorted(rows) and set(rows) == {
        *{
            ("store s", "kind", "k", 3),
            ("engine e", "version", "1", 3),
            ("engine e", "settings.b", "1, 2", 3),
            ("engine e", "settings.a", "", 3),
        },
        *{
            ("engine e", "requests_per_operation", "", 3),
            ("environment", "packages", "a 2, z 1", 2),
            ("environment", "cores", "2", 2),
        },
        *{
            ("environment", "cores", "4", 1),
            ("clients", "hosts", "2", 2),
            ("clients", "hosts", "1", 1),
            ("checks", "c", "passed", 3),
            ("checks", "d", "failed", 3),
        },
    }


# Consistency


@pytest.mark.parametrize(("anomalies", "tried"), [(0, 1), (0, 100), (1, 100), (7, 20), (19, 20)])
def test_the_upper_bound_is_where_so_few_would_be_one_in_twenty(anomalies, tried):
    bound = consistency.upper_bound(anomalies, tried)
    assert stats.binom.cdf(anomalies, tried, bound) == pytest.approx(0.05)


def test_bounds_at_the_ends():
    assert consistency.upper_bound(5, 5) == 1.0 and math.isnan(consistency.upper_bound(0, 0))
    for wrong in ((-1, 5), (6, 5)):
        with pytest.raises(ValueError, match="anomalies of"):
            consistency.upper_bound(*wrong)


def test_a_row_of_consistency():
    tries = pd.DataFrame({"point": ["a", "a", "b"], "tried": [10, 20, 30], "anomalies": [1, 0, 2], "errors": [4, 0, 1]})
    wrong = pd.DataFrame(
        {
            "lasted_ns": [2 * S, None, 6 * S],
            "watched_ns": [7 * S, 9 * S, 8 * S],
            "evidence": ["first", "second", "third"],
        }
    )
    of = {"store": "s", "scenario": "overwrite", "same_front_end": True}
    found = consistency._row(of, tries, wrong)
    assert found == {
        **{"store": "s", "scenario": "overwrite", "front_end": "same", "runs": 2, "tried": 60, "anomalies": 3, "errors": 5, "fraction": 0.05},
        **{"fraction_upper95": pytest.approx(stats.beta.ppf(0.95, 4, 57)), "never_right": 1, "lasted_median_s": 4.0, "lasted_max_s": 6.0, "watched_max_s": 9.0, "example": "first"},
    }  # fmt: skip
    none = consistency._row(of | {"same_front_end": False}, tries.assign(tried=0, anomalies=0), wrong[:0])
    assert (
        none["front_end"] == "other"
        and none["fraction"] is None
        and none["lasted_max_s"] is None
        and none["example"] is None
        and none["never_right"] == 0
    )


# Capabilities


@pytest.mark.parametrize(
    ("given", "answer", "evidence", "asked"),
    [
        ([("yes", "a"), ("yes", "b")], "yes", "a", 2),
        ([("error", "x"), ("yes", "b"), ("not tried", "c")], "yes", "b", 1),
        ([("not tried", "c"), ("error", "x")], "error", "x", 0),
        ([("not tried", "c"), ("not tried", "d")], "not tried", "c", 0),
        ([("no", "n"), ("yes", "a"), ("yes", "b")], "unclear", "2 x yes (a); 1 x no (n)", 3),
    ],
)
def test_what_clients_and_runs_agree_on(given, answer, evidence, asked):
    found = capabilities.agreed(pd.DataFrame(given, columns=["answer", "evidence"]))
    assert found == {"answer": answer, "evidence": evidence, "asked": asked}


# Calibrations


def test_numbers_of_ceilings():
    ceilings = pd.DataFrame({"target": ["network"] * 3 + ["memory"], "drift_percent": [-8.0, 2.0, None, 50.0]})
    runs = pd.DataFrame(
        {"state": ["ok", "ok", "failed", "ok"], "workload": ["calibrate", "calibrate", "calibrate", "get"]}
    )
    t = pd.DataFrame(
        {
            "ceiling_percent": [50.0, 97.5, None],
            "bound_by": [None, "client", None],
            "workload": ["get", "put", "put"],
            "object_size_bytes": [4000, 10**6, 7],
        }
    )
    found = {name: (value, unit) for name, value, unit in calibration.numbers(runs, t, ceilings)}
    assert found["calibration_ceilings"] == (3, "") and found["calibration_runs"] == (2, "")
    assert found["calibration_drift_median"] == (5.0, "%") and found["calibration_drift_most"] == (8.0, "%")
    assert found["ceiling_groups"] == (2, "") and found["client_bound"] == (1, "")
    assert found["ceiling_percent_most"] == (97.5, "%") and found["ceiling_percent_most_workload"] == ("put", "")
    assert found["ceiling_percent_most_object_size"] == ("1 MB", "")
    assert [n for n, *_ in calibration.numbers(runs, t, ceilings[3:])] == ["bound_from", "idle_below"]


POINT = SimpleNamespace(
    sweep="one", axes={"operation": "get", "target": "network", "engine": "loadgen", "range_size": 0}
)


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({}, None), ({"operation": "put"}, None), ({"operation": "delete"}, None), ({"operation": "get_range", "range_size": 5}, None),
        ({"operation": "get_range"}, "range_size"), ({"operation": "copy"}, "operation"), ({"target": "memory"}, "operation"),
        ({"target": "memory", "operation": "copy"}, "engine"), ({"target": "memory", "operation": "copy", "engine": "none"}, None),
        ({"target": "tmpfs", "operation": "write", "engine": "none"}, None), ({"target": "disk", "operation": "read", "engine": "none"}, None),
        ({"target": "disk", "operation": "copy", "engine": "none"}, "operation"), ({"engine": "none"}, "engine"),
    ],
)  # fmt: skip
def test_what_can_be_calibrated(axes, said):
    p = SimpleNamespace(sweep="one", axes=POINT.axes | axes)
    if said is None:
        calibrate.CALIBRATE.possible(p)
        return
    with pytest.raises(UserError) as error:
        calibrate.CALIBRATE.possible(p)
    assert error.value.place == f"sweeps.one.axes.{said}"


def test_names_to_delete(monkeypatch):
    assert (calibrate.DELETIONS, calibrate.MOST_DELETIONS) == (100_000, 800_000)
    monkeypatch.setattr(calibrate, "DELETIONS", 100)
    monkeypatch.setattr(calibrate, "MOST_DELETIONS", 800)
    names = calibrate._names(SimpleNamespace(axes={"clients": 3, "batch": 1}))
    assert (
        [len(n) for n in names] == [100] * 3
        and names[1][0] == (0, "put/1/0000000")
        and names[2][-1] == (0, "put/2/0000099")
    )
    assert [len(n) for n in calibrate._names(SimpleNamespace(axes={"clients": 4, "batch": 10}))] == [200] * 4


def test_a_stand_in_has_the_axes_of_its_operation():
    values = {a.name: a.default for a in planned.AXES} | {"operation": "put", "clients": 3, "object_size": 77}
    found = calibrate.stand_in(Point("n", "calibrate", values, 1, "k", "s", 1, 0))
    assert found.workload == "put" and set(found.axes) == {a.name for a in WORKLOADS["put"].axes}
    assert (found.axes["clients"], found.axes["object_size"], found.axes["buckets"]) == (3, 77, 1)


@pytest.mark.parametrize(
    ("settings", "axes", "https"),
    [({"endpoint": "https://x"}, {}, True), ({"endpoint": "http://x"}, {}, False), ({"endpoint": ["https://x", "http://y"]}, {}, True), ({"endpoint": []}, {}, False), ({}, {}, False), ({"tls": True}, {}, True), ({"tls": True}, {"scheme": "http"}, False), ({}, {"scheme": "https"}, True), ({"tls": True}, {"scheme": "default"}, True)],
)  # fmt: skip
def test_whether_clients_speak_https(settings, axes, https):
    assert planned.encrypted(SimpleNamespace(**settings), axes) is https


# Subjects of verdicts


def test_what_tells_subjects_apart():
    axes = {
        "store": "s",
        "workload": "get",
        "engine": "loadgen",
        "clients": 4,
        "object_size_bytes": 4000,
        "payload": "unsigned",
        "balance": "client",
        "max_range_gap_bytes": None,
        "own_axis": 3,
    }
    assert verdicts.said(axes) == ["4 kB objects", "payload unsigned", "own axis 3"]
    assert [verdicts.units_of(*w) for w in (("get", True), ("get", False), ("delete", False))] == [
        "MB/s",
        "objects/s",
        "operations/s",
    ]
    assert verdicts.VARIED == (
        "clients",
        "workers",
        "buckets",
        "accounts",
        "front_ends",
        "part_size_bytes",
        "parallel_parts",
        "batch",
        "offset",
        "keys_per_worker",
        "page_size",
        "merge",
        "max_range_gap_bytes",
        "thrift",
        "max_amplification",
    )


# Latencies


def test_latencies_of_single_operations(tmp_path):
    """Nearest rank over those that began in the window (1 s, 9 s]; of an open loop from when they were due."""
    ms = 10**6
    took = [7 * ms + i * 1000 for i in range(200)]
    begun = [2 * S + i * ms for i in range(200)]
    rows = [
        {
            "client": 0,
            "op": "GET",
            "count": 1,
            "start_ns": b + 3 * ms,
            "intended_ns": b,
            "first_byte_ns": b + t // 2,
            "end_ns": b + t,
        }
        for b, t in zip(begun, took, strict=True)
    ]
    outside = [
        rows[0] | {"intended_ns": b, "start_ns": b, "end_ns": b + 5 * S, "first_byte_ns": b + 1} for b in (S, 9 * S + 1)
    ]
    edges = [
        rows[0] | {"intended_ns": b, "start_ns": b, "end_ns": b + 6 * ms, "first_byte_ns": b + 1}
        for b in (S + 1, 9 * S)
    ]
    failed = [rows[0] | {"error": "SlowDown", "end_ns": begun[0] + 5 * S}] * 3
    run = {"clients": [{"start_ns": 0}], "point": {"fixed": {"warm_up_ns": S}}}
    c = campaign_of(tmp_path, run=run, ops=(records.OPS, [*rows, *outside, *edges, *failed]))
    c.plan["points"].append({"key": "k", "workload": "get", "axes": {"arrival_rate": 100}})
    found = latency.runs(c).iloc[0]
    every = sorted([*took, 6 * ms, 6 * ms])
    assert (found["operations"], found["failed"], found["loop"], found["binned"]) == (202, 3, "open", False)
    for name, level in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert found[f"latency_{name}"] == every[math.ceil(level * 202) - 1] / 1e6
    assert math.isnan(found["latency_p999"]) and found["latency_max"] == every[-1] / 1e6 == pytest.approx(7.199)
    firsts = sorted([*(t // 2 for t in took), 1, 1])
    assert found["ttfb_p50"] == firsts[100] / 1e6 and found["ttfb_p99"] == firsts[math.ceil(0.99 * 202) - 1] / 1e6
    assert [
        latency.enough(n, p) for n, p in ((99, 0.99), (100, 0.99), (999, 0.999), (1000, 0.999), (1, 0.5), (2, 0.5))
    ] == [False, True, False, True, False, True]


# Records for an operation


def test_bytes_of_records(tmp_path):
    for key, sizes in (
        ("a", {"ops.0.parquet": 300, "run.json": 50}),
        ("b", {"ops.0.parquet": 500, "ops.1.parquet": 200, "monitor.0.parquet": 40}),
    ):
        for name, size in sizes.items():
            (tmp_path / "raw" / key).mkdir(parents=True, exist_ok=True)
            (tmp_path / "raw" / key / name).write_bytes(bytes(size))
    runs = {"a": {"clients": [{"operations": 100}]}, "b": {"clients": [{"operations": 300}, {"operations": 100}]}}
    c = Campaign(tmp_path, {}, runs, {})
    assert sizing.record_bytes(c) == (1000 / 500, 90 / 3)
    found = sizing.estimate(c, 10, 4, 60, 2.0)
    assert found == {
        "operations a point": 1200,
        "records a point": 1200 * 2 + 10 * 30,
        "records of the campaign": 4 * 2700,
        "files of the campaign": 4 * 12,
    }
    with pytest.raises(UserError, match="no operation"):
        sizing.record_bytes(Campaign(tmp_path, {}, {"a": {"clients": [{"operations": 0}]}}, {}))

"""resources.csv: from monitors whose samples are known, and from older records; the figures of one client's threads."""

import pandas as pd
import pytest
from drawn_texts import texts
from example_monitor import PORTS

from campaigns import built
from storelab.analysis.figures import catalogue, plots
from storelab.analysis.figures.draw import draw
from storelab.analysis.records import published
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import build, resources
from storelab.core import records

S, MB = 10**9, 10**6


@pytest.fixture(scope="module")
def table():
    return build.read(built("threads"), "resources")


def of_store(table: pd.DataFrame, store: str) -> pd.Series:
    known = table[table["workload"].eq("put") & table["object_size_bytes"].eq(4000) & table["store"].eq(store)]
    (row,) = known[known["workers"].eq(16) & known["buckets"].eq(5)].to_dict("records")
    return pd.Series(row)


def test_resources_of_a_group(table):
    """One client, 100 uploads/s of 4 kB for 4.5 s: 0.5 s user, 0.25 s system in 4 s; both ends are on this host."""
    row = of_store(table, "alpha")
    assert (row["n"], row["interval"], row["cores"], row["interface"]) == (1, "range", 2, "lo")
    expected = {"client_user_median_s_per_1000": 1000 * 0.5 / 450, "opened_median_per_operation": 40 / 450}
    expected |= {"client_system_median_s_per_gb": 1e9 * 0.25 / (450 * 4000), "client_user_median_cores": 0.125}
    expected |= {"client_system_median_cores": 0.0625, "client_cpu_median_cores": 0.1875}
    expected |= {"server_cpu_median_cores": 0.5, "host_cpu_median_percent": 75, "monitor_median_percent": 0.5}
    expected |= {"client_rss_median_mb": 80, "host_memory_median_mb": 2000, "host_memory_median_percent": 25}
    expected |= {"open_median_sockets": 16, "established_median_sockets": 32, "time_wait_median_sockets": 300}
    expected |= {"time_wait_more_median_sockets": 200, "ports_median_percent": 100 * (300 + 32 / 2) / PORTS}
    expected |= {"network_median_mb_per_s": 6, "packets_median_per_s": 2000}
    assert row[[*expected]].to_dict() == pytest.approx(expected)
    assert pd.isna(row["link_median_percent"])


def test_memory_is_that_of_all_clients_at_one_moment():
    found = build.read(built("example"), "resources").query("workload == 'get' and clients == 4")
    assert set(found["client_rss_median_mb"]) == {320} and set(found["open_median_sockets"]) == {32}


def test_records_without_monitor_have_nulls(table):
    row = of_store(table, "beta")
    names = ("client_cpu_median_cores", "host_cpu_median_percent", "open_median_sockets")
    assert [row[name] for name in names] == [0.1875, 75, 8]
    unknown = ["client_rss_median_mb", "time_wait_median_sockets", "ports_median_percent", "network_median_mb_per_s"]
    assert row[[*unknown, "monitor_median_percent"]].isna().all()


def test_numbers_of_resources(table):
    found = {name: (value, unit) for name, value, unit in resources.numbers(table)}
    assert found["monitor_cost_most"] == (0.5, "%") and found["client_memory_most"] == (80, "MB")
    unknown = {"ports_median_percent": [None, None], "client_rss_median_mb": [3.0, None]}
    some = pd.DataFrame({"monitor_median_percent": [0.5, 0.7]} | unknown)
    assert resources.numbers(some) == [("monitor_cost_most", 0.7, "%"), ("client_memory_most", 3.0, "MB")]
    assert resources.numbers(some[:0]) == resources.numbers(pd.DataFrame()) == []


# One run

HOST = {"cores": 4, "seconds": 5.0, "cpu_busy_s": 12.0, "server_cpu_s": 2.5, "monitor_cpu_s": 0.05}
HOST |= {"ports": 20_000, "connections_opened": 50}
NETWORK = {
    "lo": {"rx_bytes": 10, "tx_bytes": 20, "rx_packets": 1, "tx_packets": 2, "link_bits_per_s": None},
    "eth0": {"rx_bytes": 500_000_000, "tx_bytes": 4, "rx_packets": 300, "tx_packets": 1000, "link_bits_per_s": 10**9},
}
CLIENTS = [{"cpu_user_s": 4.0, "cpu_system_s": 1.0, "connections_max": 8}]
CLIENTS.append({"cpu_user_s": 1.0, "cpu_system_s": None, "connections_max": None})
SEEN = {"host_memory": 3000.0, "client_rss": 200.0, "open": 7, "established": 30, "time_wait": 400}
SEEN |= {"time_wait_more": 100, "two_hosts": 430, "one_host": 415}


def of_run(shared=False, seen=SEEN, operations=2000.0, moved=4e9, **changes):
    run = {"start_ns": 0, "deadline_ns": 8 * S, "clients": CLIENTS, "host": HOST | {"network": NETWORK}}
    run |= {"environment": {"memory_bytes": 8_000_000_000}} | changes
    return resources.run_values(run, operations, moved, shared, seen)


def test_resources_of_a_run():
    expected = {
        **{"cores": 4, "host_ports": 20_000, "interface": "eth0", "network_mb_per_s": 100.0, "packets_per_s": 200.0},
        **{"link_percent": 80.0, "client_user_cores": 1.0, "client_system_cores": 0.2, "client_cpu_cores": 1.2},
        **{"client_user_s_per_1000": 2.5, "client_system_s_per_1000": 0.5, "client_user_s_per_gb": 1.25},
        **{"client_system_s_per_gb": 0.25, "server_cpu_cores": 0.5, "host_cpu_percent": 60.0, "monitor_percent": 1.0},
        **{"opened_per_operation": 0.025, "host_memory_mb": 3000.0, "client_rss_mb": 200.0, "time_wait_sockets": 400},
        **{"established_sockets": 30, "time_wait_more_sockets": 100, "open_sockets": 8, "host_memory_percent": 37.5},
        "ports_percent": 2.15,
    }
    assert of_run() == pytest.approx(expected) and of_run(shared=True)["ports_percent"] == pytest.approx(2.075)
    assert of_run(seen=SEEN | {"open": 99})["open_sockets"] == 99


def test_cpu_after_the_deadline_is_no_core_of_the_run():
    """The clients took 6 s in all, the host 4.5 s until the deadline: 0.9 cores of 5 s, as points.csv has it."""
    late = of_run(host=HOST | {"network": NETWORK, "cpu_busy_s": 4.5})
    assert [late[f"client_{kind}_cores"] for kind in ("cpu", "user", "system")] == pytest.approx([0.9, 0.75, 0.15])
    assert late["client_user_s_per_1000"] == 2.5, "the cost of an operation does not change"


def test_unknown_resources_have_no_column():
    bare = of_run(seen={}, operations=0, moved=0, host={}, clients=[{"cpu_user_s": 4.0}])
    assert bare["client_user_cores"] == 0.5, "of the 8 s between start and deadline"
    assert {bare[f"client_user_s_per_{unit}"] for unit in ("1000", "gb")} == {None} == {bare["host_cpu_percent"]}
    assert not {"open_sockets", "ports_percent", "interface"} & set(bare)


def test_busiest_interface():
    old = {"eth0": {"rx_bytes": 5_000_000, "tx_bytes": 10_000_000}}
    assert resources.busiest({"network": old}, 5.0) == {"interface": "eth0", "network_mb_per_s": 2.0}
    assert resources.busiest({"network": NETWORK}, 0) == {} == resources.busiest({}, 5)


def test_samples_are_the_largest_of_every_moment(tmp_path):
    """Of several hosts the largest value; clients are summed per moment, and the largest moments over the hosts."""
    hosts = [
        ("a", 1, 50, 10, 100),
        ("a", 2, 90, 31, 60),
        ("a", 3, 70, 20, 130),
        ("b", 1, 80, 50, 20),
        ("b", 2, 10, 5, 25),
    ]
    names = ("host", "time_ns", "rss_bytes", "established", "time_wait")
    rows = [dict(zip(names, row, strict=True)) | {"what": "host", "name": ""} for row in hosts]
    clients = [("a", "0", 1, 10, 1), ("a", "1", 1, 20, 2), ("a", "0", 2, 25, 4), ("a", "1", 2, 1, None)]
    clients.append(("b", "2", 1, 7, 9))
    names = ("host", "name", "time_ns", "rss_bytes", "sockets")
    rows += [dict(zip(names, row, strict=True)) | {"what": "client"} for row in clients]
    rows += [{"host": "a", "what": "server", "name": "x", "time_ns": 1, "rss_bytes": 10**6}]
    columns = {c: [r[c] * MB if c == "rss_bytes" else r.get(c) for r in rows] for c in records.MONITOR}
    records.write_table(tmp_path / "raw/k/monitor.0.parquet", records.MONITOR, columns)
    run = {"schema": 3, "start_ns": 0, "deadline_ns": 9 * S, "clients": [], "files": {"monitor.0.parquet": {}}}
    run["point"] = {"fixed": {"warm_up_ns": 0}}
    found = resources.samples(Campaign(tmp_path, {"points": [], "workloads": {}, "stores": {}}, {"k": run}, {}))
    assert found.loc["k"].to_dict() == {
        **{"host_memory": 90.0, "established": 50, "time_wait": 130, "time_wait_more": 130 - 100},
        **{"two_hosts": 150, "one_host": 140, "client_rss": 30.0 + 7.0, "open": 4 + 9},
    }


# Figures of one client


@pytest.mark.parametrize("name", ["threads", "client_resources"])
def test_figures_of_one_client(name):
    table = build.read(built("threads"), catalogue.FIGURES[name].table)
    fig = draw(catalogue.FIGURES[name], table[table["store"] == "alpha"])
    shown = texts(fig)
    parts = ("upload, 1 bucket", "download, 5 buckets", "4 kB objects", "10 MB objects", "Workers per client")
    assert [part for part in (*parts, "1 client", "s5cmd", "n = 1 run") if part not in shown] == []
    ticks = list(fig.axes[0].get_xticks())
    if name == "threads":
        assert {1, 4} < set(ticks) and max(ticks) == 200, "with the threads of 2012"
        assert [ax.get_ylabel() for ax in fig.axes] == ["objects/s", "MB/s"]
    else:
        assert ticks == [1, 4, 16] and len(fig.axes) == 6 and "TCP sockets" in shown
        assert "Memory of the clients [MB]" in shown and "CPU of the clients [cores]" in shown
    caption = catalogue.caption(catalogue.FIGURES[name], table)
    assert "n = 1 run" in caption and "{" not in caption


def test_no_figure_without_threads_or_monitor(table):
    threads, resources_ = catalogue.FIGURES["threads"], catalogue.FIGURES["client_resources"]
    assert draw(threads, build.read(built("one_each"), "throughput")) is None is draw(threads, pd.DataFrame())
    assert draw(resources_, table[table["store"] == "beta"]) is None, "no sockets and memory were recorded"


def test_labels_of_many_threads_do_not_overlap():
    threads = sorted(published.load("uds1_2012_single_client_threads")["threads"].unique())
    assert plots._spaced_ticks(threads, 9) == [1, 4, 8, 20, 40, 100, 200]
    assert plots._spaced_ticks(threads, 5) == [1, 4, 12, 40, 200]
    assert plots._spaced_ticks([1, 2, 4, 8, 16], 9) == [1, 2, 4, 8, 16]

"""Resources from imagined monitors whose samples are known; records of before there was one; the figures of one client's threads."""

import pandas as pd
import pytest
from drawn_texts import texts
from example_monitor import PORTS
from make_examples import ONE_EACH, make
from paths import DATA

from storelab.analysis.figures import catalogue, plots
from storelab.analysis.figures.draw import draw
from storelab.analysis.records import published
from storelab.analysis.records.campaign import load
from storelab.analysis.tables import build, resources

MEASURED = sorted(p.parents[1] for p in (DATA).glob("*/raw/plan.json"))
SWEEPS = {
    name: {
        "workload": workload,
        "duration": "4 s",
        "axes": {"object_size": ["4 kB", "10 MB"], "workers": [1, 4, 16], "buckets": [1, 5]},
    }
    for name, workload in (("up", "put"), ("down", "get"))
}


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("threads")
    make(folder, use_stores=["alpha", "beta"], sweeps=SWEEPS, repetitions=2, failed=())
    build.build(folder, ["resources", "throughput"])
    return folder


def one(table: pd.DataFrame, **wanted) -> pd.Series:
    for column, value in wanted.items():
        table = table[table[column] == value]
    assert len(table) == 1
    return table.iloc[0]


def test_what_a_group_used(example):
    """One client, 100 uploads/s of 4 kB for 4.5 s (and one more each second in the second run): 0.5 s user, 0.25 s system in 4 s."""
    r = one(
        build.read(example, "resources"), store="alpha", workload="put", object_size_bytes=4000, workers=16, buckets=5
    )
    assert (r["n"], r["interval"], r["cores"], r["interface"]) == (2, "range", 2, "lo")
    assert r["client_user_high_s_per_1000"] == pytest.approx(1000 * 0.5 / 450)
    assert r["client_system_high_s_per_gb"] == pytest.approx(1e9 * 0.25 / (450 * 4000))
    assert (r["client_user_median_cores"], r["client_system_median_cores"], r["client_cpu_median_cores"]) == (
        0.125,
        0.0625,
        0.1875,
    )
    assert (r["server_cpu_median_cores"], r["host_cpu_median_percent"]) == (0.5, 75)
    assert (r["client_rss_median_mb"], r["host_memory_median_mb"], r["host_memory_median_percent"]) == (80, 2000, 25)
    assert (r["open_median_sockets"], r["established_median_sockets"]) == (16, 32)
    assert (r["time_wait_median_sockets"], r["time_wait_more_median_sockets"]) == (300, 200)
    assert r["ports_median_percent"] == pytest.approx(100 * (300 + 32 / 2) / PORTS), (
        "both ends of a connection are on this host"
    )
    assert r["opened_high_per_operation"] == pytest.approx(40 / 450)
    assert (r["network_median_mb_per_s"], r["packets_median_per_s"]) == (6, 2000) and pd.isna(r["link_median_percent"])
    assert r["monitor_median_percent"] == pytest.approx(0.5)


def test_memory_is_that_of_all_clients_at_one_moment(tmp_path):
    make(
        tmp_path, sweeps={"d": {"workload": "get", "duration": "4 s", "axes": {"clients": 3}}}, repetitions=1, failed=()
    )
    build.build(tmp_path, ["resources"])
    r = build.read(tmp_path, "resources").iloc[0]
    assert (r["client_rss_median_mb"], r["open_median_sockets"]) == (240, 24)


def test_records_without_a_monitor_have_nulls(example):
    r = one(
        build.read(example, "resources"), store="beta", workload="put", object_size_bytes=4000, workers=16, buckets=5
    )
    assert (
        r["client_cpu_median_cores"] == 0.1875 and r["host_cpu_median_percent"] == 75 and r["open_median_sockets"] == 8
    )
    for column in (
        "client_rss_median_mb",
        "time_wait_median_sockets",
        "ports_median_percent",
        "network_median_mb_per_s",
        "monitor_median_percent",
    ):
        assert pd.isna(r[column]), column


@pytest.mark.parametrize("folder", MEASURED, ids=lambda p: p.name)
def test_measured_records_of_older_versions(folder):
    table = build.Tables(load(folder))["resources"]
    assert len(table) and table["client_cpu_median_cores"].notna().all()


def test_the_busiest_interface_and_its_link():
    nic = {"rx_packets": 10, "tx_packets": 2000, "link_bits_per_s": 10**9}
    network = {"lo": {"rx_bytes": 5, "tx_bytes": 5}, "eth0": nic | {"rx_bytes": 100, "tx_bytes": 236_000_000}}
    assert resources.busiest({"network": network}, 2.0) == {
        "interface": "eth0",
        "network_mb_per_s": 118.0,
        "packets_per_s": 1000.0,
        "link_percent": pytest.approx(94.4),
    }
    assert resources.busiest({"network": {"lo": {"rx_bytes": 2e6, "tx_bytes": 1e6}}}, 2.0) == {
        "interface": "lo",
        "network_mb_per_s": 1.0,
    }
    assert resources.busiest({}, 2.0) == {}


def test_numbers_of_the_text(example):
    found = {name: (value, unit) for name, value, unit in resources.numbers(build.read(example, "resources"))}
    assert found["monitor_cost_most"] == (0.5, "%") and found["client_memory_most"] == (80, "MB")
    assert resources.numbers(pd.DataFrame()) == []


@pytest.mark.parametrize("name", ["threads", "client_resources"])
def test_figures_of_one_client(example, name):
    table = build.read(example, catalogue.FIGURES[name].table)
    fig = draw(catalogue.FIGURES[name], table[table["store"] == "alpha"])
    said = texts(fig)
    for part in (
        "upload, 1 bucket",
        "download, 5 buckets",
        "4 kB objects",
        "10 MB objects",
        "Workers per client",
        "1 client",
        "s5cmd",
        "n = 2 runs",
    ):
        assert part in said, part
    ticks = list(fig.axes[0].get_xticks())
    if name == "threads":
        assert {1, 4} < set(ticks) and max(ticks) == 200, "with the threads of 2012"
        assert [ax.get_ylabel() for ax in fig.axes] == ["objects/s", "MB/s"]
    else:
        assert ticks == [1, 4, 16]
        assert (
            len(fig.axes) == 6
            and "TCP sockets" in said
            and "Memory of the clients [MB]" in said
            and "CPU of the clients [cores]" in said
        )
    assert "n = 2 runs" in catalogue.caption(catalogue.FIGURES[name], table) and "{" not in catalogue.caption(
        catalogue.FIGURES[name], table
    )


def test_no_threads_no_figure(tmp_path, example):
    make(tmp_path, failed=("read_entries",), repetitions=1, sweeps=ONE_EACH)
    build.build(tmp_path, ["throughput"])
    assert draw(catalogue.FIGURES["threads"], build.read(tmp_path, "throughput")) is None
    old = build.read(example, "resources")
    assert draw(catalogue.FIGURES["client_resources"], old[old["store"] == "beta"]) is None, (
        "nothing was recorded of sockets and memory"
    )
    assert draw(catalogue.FIGURES["threads"], pd.DataFrame()) is None


def test_labels_of_many_threads_stay_apart():
    threads = sorted(published.load("uds1_2012_single_client_threads")["threads"].unique())
    assert plots._apart(threads, 9) == [1, 4, 8, 20, 40, 100, 200] and plots._apart(threads, 5) == [1, 4, 12, 40, 200]
    assert plots._apart([1, 2, 4, 8, 16], 9) == [1, 2, 4, 8, 16]


def test_what_was_published_of_threads():
    found = {r["name"].removeprefix("published_single_"): r["value"] for r in published.numbers()}
    assert (found["small_upload_one_thread"], found["small_download_threads"]) == (7.3, 12)
    assert (found["large_threads"], found["memory_threads"]) == (16, 150)
    assert published.headline("uds1_2013", "upload 4 kB", published.ACCOUNTS) == 1400

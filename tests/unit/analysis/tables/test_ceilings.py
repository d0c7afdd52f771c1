"""Ceilings: which points measure them, and which points came near them; from examples whose rates are known exactly."""

import itertools
import json
import math

import golden
import pandas as pd
import pytest
from make_examples import PER_CLIENT, jitter, make

from storelab.analysis.figures import catalogue, panels
from storelab.analysis.figures.draw import draw
from storelab.analysis.latex import write
from storelab.analysis.tables import build
from storelab.analysis.tables import calibration as calibrated
from storelab.core import calibration, config, evidence, plan, records, stores
from storelab.core.errors import UserError
from storelab.measure import check
from storelab.stores import all_stores
from storelab.workloads import WORKLOADS

SWEEPS = {
    "up": {"workload": "put", "axes": {"object_size": ["4 kB", "10 MB"], "clients": [1, 2], "front_ends": [1, 2]}},
    "down": {"workload": "get", "axes": {"clients": 2, "workers": 4, "buckets": [1, 3]}},
}


def configured(**more) -> config.Config:
    stores = {
        "a": {"kind": "seaweedfs"},
        "far": {"kind": "s3", "endpoint": ["https://a", "https://b"]},
        "web": {"kind": "nginx"},
    }
    base = {"campaign": "x", "name": "x", "stores": stores, "use_stores": ["a"], "repetitions": 2, "sweeps": SWEEPS}
    return config.Config.model_validate(base | more)


def planned(**more) -> list:
    return plan.make(configured(**more), WORKLOADS)


def ceilings(points, **wanted) -> list:
    return [p for p in points if p.workload == "calibrate" and all(p.axes[k] == v for k, v in wanted.items())]


def test_each_distinct_client_has_one_ceiling_before_and_one_after():
    points = planned()
    for phase in ("before", "after"):
        found = [
            (p.axes["operation"], p.axes["object_size"], p.axes["clients"], p.axes["workers"])
            for p in ceilings(points, target="network", phase=phase)
        ]
        uploads = [("put", size, clients, 8) for size, clients in itertools.product((4000, 10_000_000), (1, 2))]
        assert sorted(found) == sorted([*uploads, ("get", 4000, 2, 4)])
    assert {p.rep for p in ceilings(points)} == {1} and {p.store for p in ceilings(points)} == {"nullserver"}


def test_stat_and_list_have_ceilings():
    """Each with its own keys and pages; a listing lasts for four rounds at 200 000 keys/s; no memory is copied."""
    sweeps = {
        "asked": {"workload": "stat", "axes": {"clients": 2, "buckets": [1, 2]}},
        "listed": {
            "workload": "list",
            "axes": {"keys": [1000, 400_000], "page_size": 100, "prefix_depth": 1, "workers": 4},
        },
    }
    points = [p for p in planned(sweeps=sweeps) if p.workload == "calibrate"]
    known = {
        (p.axes["operation"], p.axes["engine"], p.axes["keys"], p.axes["page_size"], p.axes["prefix_depth"])
        for p in points
    }
    assert known == {
        ("stat", "obstore", 0, 1000, 0),
        ("list", "loadgen", 1000, 100, 1),
        ("list", "loadgen", 400_000, 100, 1),
    }
    assert len(points) == 6 and {p.axes["target"] for p in points} == {"network"}
    lasts = {p.axes["keys"]: p.fixed["duration_ns"] / 1e9 for p in points}
    assert lasts == {0: 2, 1000: 2, 400_000: 4 * 4 * 400_000 / 200_000}


def test_memory_and_tmpfs_are_measured_once():
    local = [p.axes for p in ceilings(planned()) if p.axes["target"] != "network"]
    found = {(a["target"], a["operation"], a["object_size"], a["clients"], a["workers"]) for a in local}
    assert len(found) == len(local) == 5 and {(a["phase"], a["engine"]) for a in local} == {("before", "none")}
    assert (
        ("memory", "copy", 10_000_000, 2, 1) in found
        and ("tmpfs", "write", 4000, 2, 4) in found
        and ("tmpfs", "read", 4000, 2, 8) in found
    )
    assert not [
        a for p in ceilings(planned(sweeps={"r": {"workload": "get_range"}})) if (a := p.axes)["target"] == "tmpfs"
    ]


def test_before_comes_first_and_after_last_and_the_rest_is_as_without():
    points, without = planned(use_stores=["a", "far"]), planned(use_stores=["a", "far"], calibrate=False)
    phases = [p.axes.get("phase", "between") for p in points]
    assert [k for k, _ in itertools.groupby(phases)] == ["before", "between", "after"]
    assert [p.key for p in points if p.workload != "calibrate"] == [p.key for p in without]
    assert [p.order for p in points] == list(range(1, len(points) + 1)) and [p.key for p in points] == [
        p.key for p in planned(use_stores=["a", "far"])
    ]


def test_https_has_a_ceiling_of_its_own():
    assert {p.axes["scheme"] for p in ceilings(planned(use_stores=["far"]), target="network")} == {"https"}
    sweeps = {"up": {"workload": "put", "axes": {"scheme": ["default", "https"]}}}
    assert sorted(p.axes["scheme"] for p in ceilings(planned(sweeps=sweeps), target="network", phase="after")) == [
        "default",
        "https",
    ]


def test_what_has_no_ceiling():
    """Reads of ROOT files, and protocols that the null server does not speak."""
    for more in (
        {"sweeps": {"r": {"workload": "read_entries"}}},
        {"use_stores": ["web"], "sweeps": {"up": {"workload": "put", "axes": {"engine": "fsspec"}}}},
    ):
        points = planned(**more)
        assert points and not ceilings(points)


def test_a_large_object_gets_the_time_that_it_needs_whatever_the_scale():
    size = {"up": {"workload": "put", "axes": {"object_size": ["4 kB", "1 GB"], "workers": 4}}}
    for scale in (1, 0.1):
        seconds = {
            p.axes["object_size"]: p.fixed["duration_ns"] / 1e9
            for p in ceilings(planned(sweeps=size, scale=scale), target="network")
        }
        assert seconds == {4000: 2, 10**9: 32}
    huge = ceilings(
        planned(sweeps={"up": {"workload": "put", "axes": {"object_size": "10 GB", "workers": 64}}}), target="network"
    )
    assert {p.fixed["duration_ns"] for p in huge} == {calibration.LONGEST_NS}


def test_links_between_hosts_get_longer():
    """At 100 Mbit/s a client of objects of 1 MB ends 25 in 2 s: the last one alone is 5 % of what is left of the window."""
    found = ceilings(planned(launcher={"kind": "srun"}))
    assert {(p.axes["target"] == "network", p.fixed["duration_ns"] // 10**9) for p in found} == {(True, 10), (False, 2)}


def test_one_more_sweep_changes_no_ceiling_of_the_others():
    before = {p.key: p.fixed for p in ceilings(planned())}
    more = {
        p.key: p.fixed
        for p in ceilings(
            planned(sweeps=SWEEPS | {"long": {"workload": "get", "duration": "60 s", "axes": {"clients": 1}}})
        )
    }
    assert len(more) == len(before) + 2 and all(more[k] == fixed for k, fixed in before.items())


def test_the_null_server_is_there_without_being_named():
    assert configured().stores["nullserver"].port == 25000 and "nullserver" not in configured(calibrate=False).stores
    own = configured(stores={"a": {"kind": "seaweedfs"}, "mine": {"kind": "nullserver", "port": 26000}})
    assert set(own.stores) == {"a", "mine"} and {p.store for p in ceilings(plan.make(own, WORKLOADS))} == {"mine"}
    with pytest.raises(ValueError, match="a store of another kind is called 'nullserver'; give it another name"):
        configured(stores={"nullserver": {"kind": "seaweedfs"}}, use_stores=["nullserver"])


def test_its_settings_stand_in_the_plan():
    settings = configured()
    data = plan.to_json(settings, plan.make(settings, WORKLOADS), WORKLOADS)
    assert set(data["stores"]) == {"a", "nullserver"}
    assert set(plan.to_json(configured(calibrate=False), planned(calibrate=False), WORKLOADS)["stores"]) == {"a"}


def test_which_kinds_have_a_ceiling():
    assert {kind for kind in stores.KINDS if stores.has_ceiling(kind)} == {
        "seaweedfs",
        "ceph",
        "versitygw",
        "minio",
        "garage",
        "rclone",
        "s3",
    }


@pytest.mark.parametrize(
    ("store", "workload", "axes", "line"),
    [
        ("nullserver", "put", {}, "sweeps.s.workload: put at store nullserver (kind nullserver), which keeps nothing; only the workload"),
        ("a", "calibrate", {}, "sweeps.s.workload: calibrate at store a (kind seaweedfs), which keeps what it is given; calibrate at one"),
        ("nullserver", "calibrate", {"operation": "copy"}, "sweeps.s.axes.operation: 'copy' does not go with target 'network'; one of: put"),
        ("nullserver", "calibrate", {"target": "memory"}, "sweeps.s.axes.operation: 'get' does not go with target 'memory'; one of: copy"),
        (
            "nullserver",
            "calibrate",
            {"operation": "delete", "engine": "s5cmd"},
            "sweeps.s.axes.engine: 's5cmd' does no delete at target 'network'; one of: obstore, loadgen",
        ),
        ("nullserver", "calibrate", {"operation": "copy", "target": "memory"}, "axes.engine: 'loadgen' does no copy at target 'memory'; one of: none"),
        ("nullserver", "calibrate", {"operation": "get_range", "engine": "obstore"}, "sweeps.s.axes.range_size: get_range needs one"),
    ],
)  # fmt: skip
def test_what_cannot_be_calibrated_is_refused(tmp_path, store, workload, axes, line):
    settings = configured(use_stores=[store], sweeps={"s": {"workload": workload, "axes": axes}}, state=str(tmp_path))
    with pytest.raises(UserError) as caught:
        check.rights(settings, plan.make(settings, WORKLOADS), WORKLOADS, all_stores(settings))
    assert line in str(caught.value)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """alpha shares the clients' host, beta does not; against the null server a client reaches 1.2 times its rate with two front-ends."""
    folder = tmp_path_factory.mktemp("calibrated")
    axes = {"object_size": ["4 kB", "10 MB"], "clients": [1, 2], "front_ends": [1, 2]}
    sweeps = {
        "up": {"workload": "put", "duration": "4 s", "axes": axes},
        "entries": {"workload": "read_entries", "duration": "4 s"},
    }
    stores = {
        "alpha": {"kind": "seaweedfs"},
        "beta": {"kind": "s3", "endpoint": ["https://s3.example.org", "https://s4.example.org"]},
    }
    make(folder, failed=(), calibrate=True, use_stores=["alpha", "beta"], stores=stores, sweeps=sweeps, repetitions=2)
    build.build(folder)
    return folder


def test_the_table_of_ceilings(example):
    t = build.read(example, "calibration")
    network = t[t["target"] == "network"]
    assert len(network) == 8 and set(network["scheme"]) == {"http", "https"}
    r = network[
        (network["scheme"] == "https") & (network["object_size_bytes"] == 4000) & (network["clients"] == 2)
    ].iloc[0]
    assert (r["before_rate_per_s"], r["after_rate_per_s"], r["rate_per_s"]) == pytest.approx((480, 456, 480), rel=0.01)
    assert (
        r["drift_percent"] == pytest.approx(-5, abs=0.3)
        and r["throughput_mb_per_s"] == pytest.approx(1.92, rel=0.01)
        and r["runs"] == 2
    )
    done = pd.Series(build.read(example, "points").set_index("key")["operations"])
    assert r["client_cpu_ms_per_operation"] == pytest.approx(
        1000 * 1.5 / done["nullserver/calibrate/operation~put_engine~s5cmd_clients~0002_scheme~https_rep~001"]
    )
    local = t[t["target"] != "network"]
    assert (
        set(local["target"]) == {"memory", "tmpfs"}
        and local["after_rate_per_s"].isna().all()
        and local["drift_percent"].isna().all()
    )


def test_points_near_their_ceiling_are_client_bound_where_the_cores_are_not_shared(example):
    for name in ("points", "throughput"):
        t = build.read(example, name)
        t = t[t["workload"] == "put"]
        near = t["front_ends"] == 2
        own = t["object_size_bytes"].map(
            PER_CLIENT["put"]
        )  # a client's rate with one front-end; the ceiling is 2.4 of it
        told = own * t["front_ends"] + (t["rep"].map(jitter) if name == "points" else 0.5)  # of two runs: 0 and 1 more
        assert t["ceiling_percent"].tolist() == pytest.approx((100 * told / (2.4 * own)).tolist(), rel=0.02)
        assert (t["bound_by"].eq("client") == (near & (t["store"] == "beta"))).all()
    rest = build.read(example, "points")
    rest = rest[rest["workload"] != "put"]
    assert (
        rest["ceiling_percent"].isna().all()
        and rest["bound_by"].isna().all()
        and set(rest["workload"]) == {"read_entries", "calibrate"}
    )


LINKED = {"lo": 0, "eth0": 120}  # MB that the interfaces of a node carried in their busier direction
IDLE = {"client_cpu_s": 0.2, "server_cpu_s": 0.1, "cpu_busy_s": 0.6}  # of 4 s, on two cores: 8 % busy


@pytest.mark.parametrize(
    ("carried", "host", "alpha", "beta"),
    [
        (LINKED, IDLE, "link", "link"),
        ({"lo": 500, "eth0": 120}, IDLE, "shared cores", "client"),  # most of it stayed on the host
        *(
            pytest.param(carried, host, "shared cores", "client", marks=pytest.mark.heavy)
            for carried, host in (
                ({"lo": 0, "eth0": 10}, IDLE),  # the interface did not carry what was moved
                ({}, IDLE),  # an older record
                (LINKED, IDLE | {"cpu_busy_s": 5.0}),  # 62 % of the host busy
                (LINKED, IDLE | {"server_cpu_s": None}),  # nobody knows the null server's
            )
        ),
    ],
)
def test_a_link_of_its_own_binds_although_the_host_is_shared(tmp_path, carried, host, alpha, beta):
    """Points with two front-ends reach 83 to 88 % of a ceiling: that of the link, if the bytes went over it and the processors idled."""
    stores = {"alpha": {"kind": "seaweedfs"}, "beta": {"kind": "s3", "endpoint": ["https://s3.example.org"] * 2}}
    axes = {"object_size": "4 kB", "clients": [1, 2], "front_ends": [1, 2], "workers": 8}
    sweeps = {"up": {"workload": "put", "duration": "4 s", "axes": axes}}
    make(tmp_path, failed=(), calibrate=True, use_stores=list(stores), stores=stores, sweeps=sweeps, repetitions=2)
    counters = {nic: {"rx_bytes": mb * 10**6, "tx_bytes": 1} for nic, mb in carried.items()}
    for path in (tmp_path / "raw").rglob("run.json"):
        run = json.loads(path.read_text())
        run["host"] |= host
        run["clients"] = [c | {"bytes": 100_000_000} for c in run["clients"]]
        watched = {"watched": run["host"] | {"network": counters}}
        run["nodes"] = [watched | {"node": c["client"], "ranks": [c["client"]]} for c in run["clients"]]
        records.write_summed(path, run | {"coordinator": run["host"], "shared_machine": True})
    evidence.write_sums(tmp_path / "raw")
    build.build(tmp_path, ["points", "throughput", "calibration"])
    for name in ("points", "throughput"):
        t = build.read(tmp_path, name)
        t = t[t["workload"] == "put"]
        assert (t["ceiling_of"] == t["store"].map({"alpha": alpha, "beta": beta})).all()
        binds = t["ceiling_of"].where((t["front_ends"] == 2) & (t["ceiling_of"] != "shared cores"))
        assert t["bound_by"].fillna("").tolist() == binds.fillna("").tolist()
    numbers = calibrated.numbers(*(build.read(tmp_path, name) for name in ("points", "throughput", "calibration")))
    value = {name: number for name, number, _ in numbers}
    assert [value["link_bound"], value["client_bound"]] == [2 * (alpha, beta).count(w) for w in ("link", "client")]


def test_one_worker_that_computes_all_the_time_is_no_link():
    """Of eight cores it keeps one busy: the host is idle, the worker is not."""
    host = {"cores": 8, "seconds": 10.0, "cpu_busy_s": 9.0, "client_cpu_s": 5.0, "server_cpu_s": 3.0}
    point = {"axes": {"engine": "obstore", "clients": 1, "workers": 1}}
    run = {"point": point, "host": host, "coordinator": host, "clients": [], "shared_machine": True}
    assert calibrated.busy_percent(run) == pytest.approx(80)
    many = run | {"point": {"axes": {"engine": "obstore", "clients": 1, "workers": 16}}}
    assert calibrated.busy_percent(many) == pytest.approx(100 * 9 / 80)
    thread = run | {"point": {"axes": {"engine": "fsspec", "clients": 2, "workers": 16}}}  # one interpreter thread each
    assert calibrated.busy_percent(thread) == pytest.approx(40)
    apart = run | {
        "shared_machine": False,
        "coordinator": host | {"cores": 2, "cpu_busy_s": 19.0, "server_cpu_s": 18.0},
    }
    assert calibrated.busy_percent(apart | {"point": many["point"]}) == pytest.approx(95)  # the server's host is full
    assert calibrated.busy_percent(run | {"host": host | {"server_cpu_s": None}}) is None


def test_the_sealed_testbed_is_bound_by_its_links():
    """Each client has a link of 100 Mbit/s, each front-end one of 150: the clients' bind while they can carry less, i.e. while
    100 n < 150 m with n clients and m front-ends, and n alone where a front-end serves one client only."""
    rows = pd.read_csv(golden.GOLDEN / "testbed2015" / "expected" / "tables" / "throughput.csv")
    for r in rows.itertuples():
        per_front_end = math.ceil(r.clients / r.front_ends)
        assert (r.bound_by == "link") == (100 * per_front_end < 150), (r.workload, r.clients, r.front_ends)
    assert rows["shared_host"].all() and len(rows) == 24


def test_a_calibration_is_no_result_of_a_store(example):
    assert set(build.read(example, "throughput")["workload"]) == {"put", "read_entries"}
    assert not {"operation", "target", "phase"} & set(build.read(example, "throughput").columns)
    value = build.read(example, "numbers").set_index("name")["value"]
    assert (
        value["stores"] == "two storage systems"
        and value["points"] == "36"
        and value["best_metadata_upload_store"] in ("alpha", "beta")
    )
    assert (
        value["calibration_ceilings"] == "8"
        and value["client_bound"] == "4"
        and float(value["calibration_drift_most"]) == pytest.approx(5, abs=0.3)
    )


def test_without_calibration_nothing_is_claimed(tmp_path):
    make(tmp_path, failed=(), repetitions=1, sweeps={"up": {"workload": "put", "duration": "4 s"}})
    build.build(tmp_path, ["calibration", "points", "throughput"])
    assert (
        build.read(tmp_path, "calibration").empty
        and list(build.read(tmp_path, "calibration").columns) == calibrated.COLUMNS
    )
    for name in ("points", "throughput"):
        t = build.read(tmp_path, name)
        assert t["bound_by"].isna().all() and t["ceiling_percent"].isna().all()
    assert not panels.bound(build.read(tmp_path, "throughput")).any()


def test_client_bound_points_are_open_and_shared_ones_say_their_cpu(example):
    table = build.read(example, "throughput")
    fig = draw(catalogue.FIGURES["metadata_upload"], table)
    said = " ".join(fig.get_supxlabel().split())
    assert "open symbols: bound by the client" in said and "CPU: clients" in said and "server 25 % of the host" in said
    hollow = [len(line.get_xdata()) for ax in fig.axes for line in ax.lines if line.get_markerfacecolor() == "white"]
    assert hollow == [2]  # beta with two front-ends, at 1 and 2 clients
    assert "Open symbols: bound by the client" in catalogue.caption(catalogue.FIGURES["metadata_upload"], table)
    alone = draw(catalogue.FIGURES["metadata_upload"], table[table["store"] == "alpha"])
    assert "open symbols" not in alone.get_supxlabel() and "Open symbols" not in catalogue.caption(
        catalogue.FIGURES["metadata_upload"], table[table["store"] == "alpha"]
    )
    assert "CPU: clients" in " ".join(
        draw(catalogue.FIGURES["entries"], build.read(example, "sparse")).get_supxlabel().split()
    )


def test_in_the_paper(example, tmp_path):
    from storelab.analysis.figures import write as drawing

    drawing.build(example)
    write.build(example)
    tex = {p.stem: p.read_text() for p in (example / "tex").glob("*.tex")}
    assert r"\HasCalibrationtrue" in tex["figures"] and r"\HasClientBoundtrue" in tex["figures"]
    assert (
        r"\newcommand{\NumClientBound}{4}" in tex["numbers"]
        and "80~\\%" in tex["numbers"].split("NumBoundFrom")[1][:12]
    )
    rows = [
        line for line in tex["table_calibration"].splitlines() if line.startswith(("put", "memory", "write", "read"))
    ]
    assert len(rows) == len(build.read(example, "calibration")) and any("https" in r and r"& -5 &" in r for r in rows)
    bound = [line for line in tex["table_throughput"].splitlines() if line.endswith(r"c \\")]
    assert len(bound) == 4 and all(line.startswith("beta") for line in bound)


def test_a_campaign_of_calibrations_alone_has_its_table(tmp_path):
    sweep = {"workload": "calibrate", "axes": {"operation": ["put", "get"], "engine": "obstore"}}
    make(
        tmp_path,
        failed=(),
        stores={"null": {"kind": "nullserver"}},
        use_stores=["null"],
        sweeps={"c": sweep},
        repetitions=3,
    )
    build.build(tmp_path, ["calibration", "throughput"])
    t = build.read(tmp_path, "calibration")
    assert (
        len(t) == 2
        and set(t["runs"]) == {3}
        and t["after_rate_per_s"].isna().all()
        and build.read(tmp_path, "throughput").empty
    )

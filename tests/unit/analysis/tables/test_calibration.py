"""Ceilings of clients in tables, figures and the paper: from exactly known rates, and from drawn ones."""

import copy
import math
from collections import Counter, defaultdict

import drawn_cells
import pandas as pd
import pytest
from make_examples import make
from tex_files import TexFiles

from campaigns import built
from storelab.analysis.figures import catalogue, panels
from storelab.analysis.figures.draw import draw
from storelab.analysis.records.campaign import Campaign, load
from storelab.analysis.tables import build, calibration


@pytest.fixture(scope="module")
def tables():
    return {name: build.read(built("calibrated"), name) for name in ("points", "throughput", "calibration", "sparse")}


def test_table_of_ceilings(tables):
    t = tables["calibration"]
    network = t[t["target"] == "network"]
    assert len(network) == 8 and set(network["scheme"]) == {"http", "https"}
    row = network.query("scheme == 'https' and object_size_bytes == 4000 and clients == 2").iloc[0]
    rates = row[["before_rate_per_s", "after_rate_per_s", "rate_per_s"]]
    assert rates.tolist() == pytest.approx((480, 456, 480), rel=0.01)
    assert row["drift_percent"] == pytest.approx(-5, abs=0.3) and row["runs"] == 2
    assert row["throughput_mb_per_s"] == pytest.approx(1.92, rel=0.01)
    key = "nullserver/calibrate/operation~put_engine~s5cmd_clients~0002_scheme~https_rep~001"
    done = tables["points"].set_index("key").loc[key, "operations"]
    assert row["client_cpu_ms_per_operation"] == pytest.approx(1000 * 1.5 / done)
    local = t[t["target"] != "network"]
    assert set(local["target"]) == {"memory", "tmpfs"}
    assert local[["after_rate_per_s", "drift_percent"]].isna().all(axis=None)


def test_points_near_ceiling_are_client_bound(tables):
    """The ceiling is 2.4 times the rate with one front-end; beta shares no cores with the clients."""
    for name in ("points", "throughput"):
        t = tables[name][tables[name]["workload"] == "put"]
        assert t["ceiling_percent"].tolist() == pytest.approx((100 * t["front_ends"] / 2.4).tolist(), rel=0.02), name
        assert (t["bound_by"].eq("client") == (t["front_ends"].eq(2) & t["store"].eq("beta"))).all()
    rest = tables["points"][tables["points"]["workload"] != "put"]
    assert rest[["ceiling_percent", "bound_by"]].isna().all(axis=None)
    assert set(rest["workload"]) == {"read_entries", "calibrate"}


LINKED = {"lo": 0, "eth0": 120}  # MB that the interfaces of a node carried in their busier direction
IDLE = {"client_cpu_s": 0.2, "server_cpu_s": 0.1, "cpu_busy_s": 0.6}  # of 4 s, on two cores: 8 % busy
APART = ("shared cores", "client")
LINKS = [  # what a node carried, its host, the ceilings of alpha and beta
    (LINKED, IDLE, ("link", "link")),
    ({"lo": 500, "eth0": 120}, IDLE, APART),  # most of it stayed on the host
    ({"lo": 0, "eth0": 10}, IDLE, APART),  # the interface did not carry what was moved
    ({}, IDLE, APART),  # an older record
    (LINKED, IDLE | {"cpu_busy_s": 5.0}, APART),  # 62 % of the host busy
    (LINKED, IDLE | {"server_cpu_s": None}, APART),  # the null server's CPU is not known
]


def test_separate_link_binds_although_host_is_shared():
    """Points with two front-ends reach 83 % of the link, if the bytes went over it and the processors were idle."""
    loaded = load(built("calibrated"))
    kept = [p for p in loaded.points if p["workload"] != "read_entries" and p["axes"]["object_size"] == 4000]
    runs = {p["key"]: loaded.runs[p["key"]] for p in kept}
    loaded = Campaign(loaded.folder, loaded.plan | {"points": kept}, runs, {})
    for carried, host, ceilings in LINKS:
        campaign = copy.deepcopy(loaded)
        counters = {nic: {"rx_bytes": mb * 10**6, "tx_bytes": 1} for nic, mb in carried.items()}
        for run in campaign.runs.values():
            run["host"] |= host
            run["clients"] = [c | {"bytes": 100_000_000} for c in run["clients"]]
            watched = {"watched": run["host"] | {"network": counters}}
            run["nodes"] = [watched | {"node": c["client"], "ranks": [c["client"]]} for c in run["clients"]]
            run |= {"coordinator": run["host"], "shared_machine": True}
        made = build.Tables(campaign)
        for name in ("points", "throughput"):
            t = made[name][made[name]["workload"] == "put"]
            of = t["store"].map(dict(zip(("alpha", "beta"), ceilings, strict=True)))
            assert t["ceiling_of"].tolist() == of.tolist(), (carried, host)
            binds = of.where((t["front_ends"] == 2) & (of != "shared cores"))
            assert t["bound_by"].fillna("").tolist() == binds.fillna("").tolist(), (carried, host)
        numbers = calibration.numbers(*(made[name] for name in ("points", "throughput", "calibration")))
        value = {name: number for name, number, _ in numbers}
        found = [value["link_bound"], value["client_bound"]]
        assert found == [2 * ceilings.count(w) for w in ("link", "client")], (carried, host)


def test_busy_worker_is_not_a_link():
    """One of eight cores is busy all the time: the host is idle, the worker is not."""
    host = {"cores": 8, "seconds": 10.0, "cpu_busy_s": 9.0, "client_cpu_s": 5.0, "server_cpu_s": 3.0}
    run = {"host": host, "coordinator": host, "clients": [], "shared_machine": True}
    apart = {"shared_machine": False, "coordinator": host | {"cores": 2, "cpu_busy_s": 19.0, "server_cpu_s": 18.0}}
    cases = [  # engine, clients, workers, changes to the record, percent
        ("obstore", 1, 1, {}, 80),
        ("obstore", 1, 16, {}, 100 * 9 / 80),
        ("fsspec", 2, 16, {}, 40),  # one interpreter thread each
        ("obstore", 1, 16, apart, 95),  # the server's host is full
        ("obstore", 1, 1, {"host": host | {"server_cpu_s": None}}, None),
    ]
    for engine, clients, workers, change, percent in cases:
        point = {"axes": {"engine": engine, "clients": clients, "workers": workers}}
        found = calibration.busy_percent(run | change | {"point": point})
        assert found == (None if percent is None else pytest.approx(percent)), (engine, workers, change)


@pytest.mark.heavy
def test_sealed_testbed_is_bound_by_its_links():
    """Check that the links of the clients are the limit while 120 n < 180 m.

    Each of n clients has a link of 120 Mbit/s and each of m front-ends one of 180 Mbit/s, independent of the
    calibration.
    """
    rows = pd.read_csv(built("throughput2015") / "tables" / "throughput.csv")
    for r in rows.itertuples():
        carried = 8 * r.throughput_median_mb_per_s / min(120 * r.clients, 180 * r.front_ends)
        assert (r.bound_by == "link") == (carried >= 0.85), (r.workload, r.clients, r.front_ends)
        assert (r.link_of == "clients") == (120 * math.ceil(r.clients / r.front_ends) < 180)
    assert rows["shared_host"].all() and len(rows) == 60


def test_calibration_is_not_a_result_of_a_store(tables):
    assert set(tables["throughput"]["workload"]) == {"put", "read_entries"}
    assert not {"operation", "target", "phase"} & set(tables["throughput"].columns)
    value = build.read(built("calibrated"), "numbers").set_index("name")["value"]
    expected = {"stores": "two storage systems", "points": "18", "calibration_ceilings": "8", "client_bound": "4"}
    assert value[[*expected]].to_dict() == expected and value["best_metadata_upload_store"] in ("alpha", "beta")
    assert float(value["calibration_drift_most"]) == pytest.approx(5, abs=0.3)


def test_campaign_without_calibration_has_no_ceilings():
    folder = built("one_each")
    ceilings = build.read(folder, "calibration")
    assert ceilings.empty and list(ceilings.columns) == calibration.COLUMNS
    for name in ("points", "throughput"):
        assert build.read(folder, name)[["bound_by", "ceiling_percent"]].isna().all(axis=None), name
    assert not panels.bound(build.read(folder, "throughput")).any()
    assert str(build.Tables(load(folder))["points"]["ceiling_rate_per_s"].dtype) == "Float64"


def test_client_bound_points_are_half_filled(tables):
    known, table = catalogue.FIGURES["metadata_upload"], tables["throughput"]
    table = pd.concat([table, table[table["clients"] == 2].assign(clients=4, bound_by=None)])
    fig = draw(known, table)
    shown = " ".join(fig.get_supxlabel().split())
    assert (
        "filled symbols: bound by the client" in shown
        and "CPU: clients" in shown
        and "server 25 % of the host" in shown
    )
    half = [len(line.get_xdata()) for ax in fig.axes for line in ax.lines if line.get_fillstyle() == "bottom"]
    assert half == [2]  # beta with two front-ends, at 1 and 2 clients
    assert "Half-filled symbols: bound by the client" in catalogue.caption(known, table)
    assert "half-filled" not in panels.symbols(table[table["store"] == "alpha"])
    assert draw(catalogue.FIGURES["entries"], tables["sparse"]) is None, "too few values"


def test_paper_has_table_of_ceilings(tables):
    tex = TexFiles("calibrated")
    assert "4~groups of points are bound by the client" in tex["paper"]
    assert r"A point above 80~\% of its ceiling" in tex["paper"]
    starts = ("put", "memory", "write", "read")
    rows = [line for line in tex["table_calibration"].splitlines() if line.startswith(starts)]
    assert len(rows) == len(tables["calibration"]) and any("https" in r and r"& -5 &" in r for r in rows)
    bound = [line for line in tex["table_throughput"].splitlines() if line.endswith(r"c \\")]
    assert len(bound) == 4 and all(line.startswith("beta") for line in bound)


def test_campaign_of_calibrations_only_has_its_table(tmp_path):
    sweep = {"workload": "calibrate", "axes": {"operation": ["put", "get"], "engine": "obstore"}}
    stores = {"stores": {"null": {"kind": "nullserver"}}, "stores_to_measure": ["null"]}
    make(tmp_path, failed=(), sweeps={"c": sweep}, repetitions=3, **stores)
    made = build.Tables(load(tmp_path))
    t = made["calibration"]
    assert len(t) == 2 and set(t["runs"]) == {3} and t["after_rate_per_s"].isna().all() and made["throughput"].empty


# Given rows


def test_numbers_of_ceilings():
    ceilings = pd.DataFrame({"target": ["network"] * 3 + ["memory"], "drift_percent": [-8.0, 2.0, None, 50.0]})
    runs = pd.DataFrame({"state": ["ok", "ok", "failed", "ok"], "workload": ["calibrate"] * 3 + ["get"]})
    t = {"ceiling_percent": [50.0, 105.5, None, 105.0], "bound_by": [None, "client", None, None]}
    t |= {"workload": ["get", "put", "put", "get"]}
    t = pd.DataFrame(t | {"object_size_bytes": [4000, 10**6, 7, 4000]})
    found = {name: (value, unit) for name, value, unit in calibration.numbers(runs, t, ceilings)}
    expected = {
        **{"calibration_ceilings": (3, ""), "calibration_runs": (2, ""), "ceiling_groups": (3, "")},
        "ceiling_exceeded": (1, ""),
        **{"calibration_drift_median": (5.0, "%"), "calibration_drift_most": (8.0, "%"), "client_bound": (1, "")},
        **{"ceiling_percent_most": (105.5, "%"), "ceiling_percent_most_workload": ("put", "")},
        "ceiling_percent_most_object_size": ("1 MB", ""),
    }
    assert {name: found[name] for name in expected} == expected
    assert [n for n, *_ in calibration.numbers(runs, t, ceilings[3:])] == ["bound_from", "idle_below", "link_full"]


def test_group_is_bound_above_80_percent_of_its_ceiling():
    """docs/calibration.md: shared cores bind nothing."""
    cases = [(79.5, "link", None), (80.5, "link", "link"), (80.0, "client", None), (99.0, "shared cores", None)]
    cases += [(104.5, "client", "client"), (105.5, "client", None)]  # a rate above it contradicts the ceiling
    for percent, of, bound in cases:
        runs = pd.DataFrame({"ceiling_rate_per_s": pd.array([1000.0, 900.0], "Float64"), "ceiling_of": [of, of]})
        found = calibration.ceiling_columns(runs, 10 * percent)
        assert (found["ceiling_rate_per_s"], found["ceiling_percent"]) == (1000.0, pytest.approx(percent))
        assert (found["ceiling_of"], found["bound_by"]) == (of, bound), (percent, of)
        for used, by in ((92.0, "link"), (91.9, bound)):
            link = {"link_bits_per_s": 10**8, "link_used_percent": used}
            assert calibration.ceiling_columns(runs.assign(**link), 10 * percent)["bound_by"] == by, (percent, of, used)


# Every cell of a drawn campaign, by plain loops


def rate_of(run):
    return drawn_cells.rate(run, run.every)


def busy(run):
    """Return what clients and server took of the workers' time, or the busy part of the host's cores if it is more."""
    workers = run.point.axes["clients"] * run.point.axes["workers"]
    took = run.host["client_cpu_s"] / 5 + run.host["server_cpu_s"] / 5
    return 100 * max(took / workers, run.host["cpu_busy_s"] / 5 / 4)


AGREE = ("operation", "engine", "object_size", "range_size", "batch", "clients", "workers", "part_size")
AGREE += ("parallel_parts", "clients_per_node", "payload")
SIZES = {name: f"{name}_bytes" for name in ("object_size", "range_size", "part_size")}


def test_every_cell_of_drawn_calibrations():
    table, kinds, seen = drawn_cells.table("calibration"), defaultdict(dict), Counter()
    for run in drawn_cells.runs().values():
        if run.point.workload == "calibrate":
            axes = run.point.axes
            kinds[axes["target"], *(axes[a] for a in AGREE)][axes["phase"]] = run
    assert len(table) == len(kinds) and len(kinds) > 4
    for kind, phases in kinds.items():
        rates = {phase: rate_of(run) for phase, run in phases.items()}
        best, rows = phases[max(rates, key=rates.get)], table
        for name, value in zip(("target", *AGREE), kind, strict=True):
            column = SIZES.get(name, name)
            rows = rows[rows[column].astype(object) == value] if column in rows else rows
        assert len(rows) == 1, kind
        count = sum(op["count"] for op in best.every)
        expected = {
            **{"before_rate_per_s": rates["before"], "after_rate_per_s": rates.get("after")},
            **{"rate_per_s": max(rates.values()), "throughput_mb_per_s": max(rates.values()) * 1000 / 1e6},
            "drift_percent": 100 * (rates["after"] / rates["before"] - 1) if "after" in rates else None,
            **{"runs": len(phases), "client_cpu_ms_per_operation": 1000 * sum(0.75 + c for c in range(best.n)) / count},
            **{"over_link": best.over_link(), "busy_percent": busy(best), "duration_s": best.duration / drawn_cells.S},
            **{"scheme": best.point.axes["scheme"] if best.point.axes["scheme"] == "https" else "http"},
        }
        drawn_cells.check(rows.iloc[0], expected | drawn_cells.cpu([best]), kind)
        seen.update([("link", best.over_link()), ("idle", busy(best) < 50)])
    assert len(seen) == 4, "over a link and not, busy and idle"


def test_every_ceiling_of_drawn_points():
    """The larger rate of before and after, of the same operation, engine, size, clients; of a link, or the clients."""
    table, same = drawn_cells.table("points").set_index("key"), ("engine", "object_size", "clients", "workers")
    ceilings, found = defaultdict(list), Counter()
    for run in drawn_cells.runs().values():
        if run.point.workload == "calibrate" and run.point.axes["target"] == "network":
            ceilings[run.point.axes["operation"], *(run.point.axes[a] for a in same)].append(run)
    for key, run in drawn_cells.runs().items():
        expected = {"ceiling_rate_per_s": None, "bound_by": None}
        if run.point.sweep in ("single", "due", "binned"):
            best = max(ceilings[run.point.workload, *(run.point.axes[a] for a in same)], key=rate_of)
            percent = float(100 * table.loc[key, "overlap_rate_per_s"] / rate_of(best))
            of = "link" if best.over_link() and busy(best) < 50 else "client"
            expected = {"ceiling_rate_per_s": rate_of(best), "ceiling_percent": percent, "ceiling_of": of}
            expected["bound_by"] = of if 80 < percent <= 105 else None
            found.update([of])
        drawn_cells.check(table.loc[key], expected, key)
    assert sum(found.values()) == 5 * 3 and set(found) <= {"link", "client"}

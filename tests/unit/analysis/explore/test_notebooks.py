"""Notebooks: what each shows, against values computed in another way; they run on any campaign without a user."""

import ast
import collections
import html as html_module
import itertools
import json
import re
import shutil
from functools import cache
from pathlib import Path

import IPython.display
import make_examples
import nbformat
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import several
from matplotlib.figure import Figure
from nbconvert import HTMLExporter
from paths import DATA, ROOT

import campaigns
import readplan
from storelab.analysis.explore import (
    drill,
    faults,
    opened,
    operations,
    overview,
    reads,
    scaling,
    systems,
    verdicts,
)
from storelab.analysis.explore.picker import Picker
from storelab.analysis.figures import catalogue
from storelab.analysis.report import page
from storelab.analysis.tables import verdicts as rules
from storelab.core import integrity, records
from storelab.core.errors import UserError

NOTEBOOKS = {p.stem: json.loads(p.read_text())["cells"] for p in sorted((ROOT / "notebooks").glob("*.ipynb"))}
CODE = {name: [c for c in cells if c["cell_type"] == "code"] for name, cells in NOTEBOOKS.items()}
UPLOADS = {"small": {"workload": "put", "axes": {"engine": "obstore", "object_size": "4321 B", "clients": [1, 2]}}}
S = 10**9


LAB = ("broad", "compared", "several", "soak")
SEALED = sorted(path.parents[1].name for path in ROOT.glob("results/*/raw/plan.json"))


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """Return a folder with `results/` of several campaigns with tables."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "results").mkdir()
    for name in LAB:
        (folder / "results" / name).symlink_to(campaigns.built(name))
    return folder


@pytest.fixture(scope="session")
def staged(tmp_path_factory):
    """Return two campaigns with the baskets of a staged file, without and with a measured link: link -> folder."""
    folders = {}
    for link in (None, {**reads.farther(reads.MADE_UP, 0.003), "header_bytes": 600}):
        folder = tmp_path_factory.mktemp("staged") / "reads"
        shutil.copytree(DATA / "examples" / "raw", folder / "raw")
        for path in folder.glob("raw/*/read_entries/*/run.json"):
            run = json.loads(path.read_text())
            run["clients"][0]["engine"] |= {"link": link} if link else {}
            records.write_summed(path, run)
        integrity.write_sums(folder / "raw")
        folders[link is not None] = folder
    return folders


@pytest.fixture(scope="session")
def lonely(tmp_path_factory):
    """Return a campaign of two uploads, whose size no other campaign has."""
    folder = tmp_path_factory.mktemp("alone") / "lonely"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make_examples, "per_client", lambda point: 100)
        make_examples.make(folder, failed=(), sweeps=UPLOADS, repetitions=1)
    opened.open_campaign(folder)
    return folder


@pytest.fixture(scope="session")
def kept():
    """Return objects that are opened once for all tests."""
    return cache(opened.open_campaign)


@pytest.fixture
def there(lab, kept, monkeypatch):
    """Return a function that runs a notebook on a campaign and returns its picker, which keeps what it showed."""
    monkeypatch.chdir(lab)
    shown: list[object] = []
    monkeypatch.setattr(IPython.display, "display", lambda *objects, **_: shown.extend(objects))

    def run(notebook, campaign, **parameters):
        folder = Path(campaign) if "/" in str(campaign) else lab / "results" / campaign
        monkeypatch.setenv(opened.NAMED, str(folder))
        if not parameters:
            monkeypatch.setattr(opened, "open_campaign", lambda place, filters=None: kept(place))
        shown.clear()
        names: dict[str, object] = {}
        for cell in CODE[notebook]:
            exec("".join(cell["source"]), names)
            if "parameters" in cell["metadata"].get("tags", []):
                names |= parameters
        picker = names["pick"]
        picker.names = names
        IPython.display.display(picker.selection_text())
        assert len(shown) == 1 + sum(map(len, picker.shown)) and all(picker.shown)
        return picker

    return run


@pytest.fixture
def undrawn_figures(monkeypatch):
    """Replace each declared figure that has rows by an empty one."""
    empty = {"title": "", "caption": "", "note": "", "panels": []}
    monkeypatch.setattr(
        opened.charts, "drawn_chart", lambda f, table, *more: empty if len(f.captioned_rows(table)) else None
    )


def of_kind(things, kind):
    return [thing for thing in things if isinstance(thing, kind)]


def frames(picker, place):
    return of_kind(picker.shown[place], pd.DataFrame)


def ops(raw, key):
    """Return run.json of a point, and its operations row by row."""
    run = json.loads((raw / key / "run.json").read_text())
    files = sorted((raw / key).glob("ops.*.parquet"))
    return run, [row for path in files for row in pq.read_table(path).to_pylist()]


def csv(name, table):
    return pd.read_csv(campaigns.built(name) / "tables" / f"{table}.csv")


# --- the files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_cells_are_short_calls_without_outputs(name):
    """Code that notebooks share is in the package; a notebook begins with three sentences."""
    heading, sentences = "".join(NOTEBOOKS[name][0]["source"]).split("\n\n")
    assert heading.startswith("# ") and len(re.findall(r"[.?](?= |$)", sentences)) == 3 and "?" in sentences
    first, *others = CODE[name]
    assert first["metadata"]["tags"] == ["parameters"] and not any(c["outputs"] for c in CODE[name])
    parameters = {n.targets[0].id for n in ast.parse("".join(first["source"])).body}
    assert parameters == {"campaign", "filters"}
    for cell in others:
        body = ast.parse("".join(cell["source"])).body
        assert len(cell["source"]) <= 8
        assert all(isinstance(n, ast.Import | ast.ImportFrom | ast.Assign | ast.Expr) for n in body)


def test_page_lists_all_notebooks():
    page = (ROOT / "docs/notebooks.md").read_text()
    assert [name for name in NOTEBOOKS if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_last_cell_loads_the_raw_operations(name, there, undrawn_figures):
    """Every row of ops.parquet of the systems, with its point, in a DataFrame that a cell continues with."""
    picker = there(name, "broad")
    folder = campaigns.built("broad")
    frame, shown = picker.names["ops"], eval("".join(CODE[name][-1]["source"]).splitlines()[-1], dict(picker.names))
    points = csv("broad", "points")
    keys = points.loc[points["store"].isin(["alpha", "beta"]) & (points["state"] != "failed"), "key"]
    recorded = collections.Counter({key: n for key in keys if (n := len(ops(folder / "raw", key)[1]))})
    assert collections.Counter(frame["key"]) == recorded and shown is not None


def test_operations_are_those_of_the_records(example):
    o = opened.open_campaign(example)
    key = next(p["key"] for p in o.plan["points"] if p["workload"] == "get" and p["axes"]["clients"] == 4)
    other = next(p["key"] for p in o.plan["points"] if p["workload"] == "put" and p["key"] in o.campaign.runs)
    frame = o.operations([key, other])
    point = next(p for p in o.plan["points"] if p["key"] == key)
    run, rows = ops(example / "raw", key)
    mine = frame[frame["key"] == key].sort_values(["client", "end_s"])
    rows = sorted(rows, key=lambda r: (r["client"], r["end_ns"]))
    assert set(mine["store"]) == {point["store"]} and set(mine["workload"]) == {"get"} and set(mine["rep"]) == {1}
    assert set(mine["clients"]) == {4}, "an axis that differs between the points is a column"
    assert mine["end_s"].tolist() == pytest.approx([(r["end_ns"] - run["start_ns"]) / S for r in rows])
    assert mine["bytes"].sum() == sum(r["bytes"] for r in rows)
    assert collections.Counter(mine["error"].dropna()) == collections.Counter(filter(None, (r["error"] for r in rows)))
    assert o.operations([]).empty and {"key", "op", "latency_ms", "error"} <= {*o.operations([])}


def test_latencies_of_operations_are_in_milliseconds(lab):
    """The latency counts from when an operation was due, or began; a bin has neither."""
    o = opened.open_campaign(lab / "results/several")
    key = next(iter(o.campaign.runs))
    run, rows = ops(o.campaign.raw, key)
    frame = o.operations([key])
    begun = [(r["end_ns"], r["intended_ns"] or r["start_ns"]) for r in rows if r["start_ns"] and not r["latency_hist"]]
    assert sorted(frame["latency_ms"].dropna()) == pytest.approx(sorted((end - at) / 1e6 for end, at in begun))
    starts = sorted((at - run["start_ns"]) / S for _, at in begun)
    assert sorted(frame["begin_s"].dropna()) == pytest.approx(starts) and len(starts) > 10


# --- explore --------------------------------------------------------------------------------------


def test_explore_shows_points_and_medians(there, example, undrawn_figures):
    picker = there("explore", example)
    plan = json.loads((example / "raw/plan.json").read_text())
    states, each = frames(picker, 1)
    planned = collections.Counter(p["workload"] for p in plan["points"])
    assert states.groupby("workload")["points"].sum().to_dict() == planned
    assert states[states["state"] == "failed"]["points"].tolist() == [1]
    (failed,) = picker.opened.campaign.failures
    assert each["key"].tolist() == [failed], "if there are many points, the invalid ones are listed"
    assert of_kind(picker.shown[1], str)[0].startswith("89 valid points not listed")

    (medians,) = frames(picker, 2)
    for row in medians[medians["workload"] == "get"].to_dict("records"):
        one = make_examples.PER_CLIENT["get"][row["object_size_bytes"]]  # 0, 1 and -1 more in the three runs
        assert row["rate_median_per_s"] == pytest.approx(row["clients"] * row["front_ends"] * one, rel=2e-3)
    assert len(medians[medians["workload"] == "get"]) == 12


def test_explore_puts_the_calibration_last(lab):
    """209 points are planned, those of the near-null server first."""
    o = opened.open_campaign(lab / "results/broad")
    assert o.table("points")["store"].iloc[0] == "nullserver"
    states, *others = overview.points(o)
    stores = states["store"].tolist()
    assert stores == sorted(stores[: stores.index("nullserver")]) + ["nullserver"] * stores.count("nullserver")
    assert sum(len(table) for table in of_kind(others, pd.DataFrame)) < overview.MAX_LISTED


def test_filters_choose_in_all_that_is_shown(there, example, undrawn_figures):
    picker = there("explore", example, filters={"workload": ["get"], "object_size_bytes": [4000]})
    states, each = frames(picker, 1)
    assert set(states["workload"]) == {"get"} and states["points"].sum() == len(each) == 18
    (medians,) = frames(picker, 2)
    assert len(medians) == 6 and "get" in drill.measured(picker.opened)[0][0]
    assert picker.selection_text() == f"Campaign {example.name}: Workload get; Objects 4 kB"
    kept = len(picker.opened.table("environment"))
    assert kept == len(picker.opened.full_table("environment")) > 0, "a table without this column is not filtered"


def test_rows_without_engine_or_size_remain():
    rows = pd.DataFrame({"engine": ["a", "b", None], "clients": [1, 2, 3]})
    assert opened.kept(rows, {"engine": ["b"], "store": ["x"]})["clients"].tolist() == [2, 3]
    assert len(opened.kept(rows, {"engine": []})) == 3


def test_all_figures_of_a_campaign_are_shown(lab, there):
    index = json.loads((campaigns.typeset("several") / "figures/index.json").read_text())["figures"]
    (shown,) = overview.figures(opened.open_campaign(lab / "results/several"))
    assert isinstance(shown, opened.Charts) and len(shown.figures) > 2
    assert {name: chart["caption"] for name, chart in shown.figures.items()} == {
        name: entry["caption"] for name, entry in index.items()
    }


# --- drill ----------------------------------------------------------------------------------------


def test_drill_leads_from_a_figure_to_the_clients_and_errors_of_a_point(example, kept):
    o, figure = kept(example), "throughput_download"
    symbol = drill.symbols(o, figure)[0][1]
    key = drill.points(o, figure, symbol)[0][1]
    shown = list(drill.down(o, figure, symbol, key))
    row, behind, *tables = of_kind(shown, pd.DataFrame)
    assert len(row) == 1 and row["n"].iloc[0] == (behind["state"] == "ok").sum()
    whole = o.full_table(catalogue.figures_of_plan(o.plan)[figure].table).loc[symbol]
    for one in behind["key"]:  # every point agrees with the row in all axes that it has
        point = next(p for p in o.plan["points"] if p["key"] == one)
        assert (point["store"], point["workload"]) == (whole["store"], whole["workload"])
        assert (point["axes"]["clients"], point["axes"].get("front_ends", 1)) == (whole["clients"], whole["front_ends"])
    assert key == behind["key"].iloc[0]
    _, rows = ops(example / "raw", key)
    clients = next(f for f in tables if "first_end_s" in f)
    truth = collections.Counter((r["client"], r["error"] is None) for r in rows)
    assert clients["operations"].tolist() == [truth[c, True] for c in clients["client"]]
    assert clients["errors"].tolist() == [truth[c, False] for c in clients["client"]] == [1] * len(clients)
    assert clients["mb"].sum() == pytest.approx(sum(r["bytes"] for r in rows if r["error"] is None) / 1e6)
    (errors,) = (f for f in tables if "error" in f)
    assert errors[["error", "operations", "first_s"]].to_numpy().tolist() == [["SlowDown", 1, 2.0]] * len(clients)
    *_, windows = (f for f in tables if "window" in f)
    overlap = windows[windows["window"] == "overlap"].iloc[0]
    run, rows = ops(example / "raw", key)
    latest = max(c["start_ns"] for c in run["clients"]) - run["start_ns"]
    begin, end = (latest + make_examples.WARM_UP) / S, make_examples.DURATION / S
    assert (overlap["begin_s"], overlap["end_s"]) == (begin, end)
    ax = of_kind(shown, Figure)[0].axes[0]
    band = ax.patches[0].get_extents().bounds  # on the screen: x, y, width, height
    across = ax.transData.transform([(begin, 0), (end, 0)])[:, 0]
    assert (band[0], band[0] + band[2]) == pytest.approx(tuple(across))
    after = [(r["end_ns"] - run["start_ns"]) / S for r in rows if r["error"] is None]
    assert overlap["operations"] == sum(begin < s <= end for s in after)


def test_drill_opens_on_detailed_records(lab):
    """The first figure and most of its symbols are of s5cmd, which reports neither workers nor the start."""
    campaign = opened.open_campaign(lab / "results/broad").campaign
    tells = {p["key"]: 2 * (p["axes"].get("engine") == "loadgen") for p in campaign.points}
    o = opened.Opened(campaign, known={"details": tells})
    usual = [name for name, _ in drill.figures(opened.Opened(campaign, known={"details": dict.fromkeys(tells, 0)}))]
    figures = [name for name, _ in drill.figures(o)]
    content = {
        name: [tells[drill.points(o, name, place)[0][1]] for _, place in drill.symbols(o, name)]
        for name in figures[:-1]
    }
    assert sorted(figures) == sorted(usual) and figures[-1] == usual[-1] == drill.ANY
    assert max(content[usual[0]]) == 0 and content[figures[0]][0] == 2
    best = [max(values) for values in content.values()]
    assert best == sorted(best, reverse=True) and {*best} == {0, 2}
    assert tells[drill.measured(o)[0][1]] == 2
    clients = {p["key"]: p["axes"].get("clients", 1) for p in campaign.points}
    o = opened.Opened(campaign, known={"details": clients})
    symbols = [clients[drill.points(o, usual[0], place)[0][1]] for _, place in drill.symbols(o, usual[0])]
    assert symbols == sorted(symbols, reverse=True) and len({*symbols}) > 1


def test_details_are_workers_and_starts(lab, kept):
    """Compare with the records of each point, row by row."""
    for name in ("broad", "several"):
        o = opened.open_campaign(lab / "results" / name)
        for key in list(o.campaign.runs)[::20]:
            rows = ops(o.campaign.raw, key)[1]
            truth = sum(any(r[column] is not None for r in rows) for column in ("worker", "start_ns"))
            assert drill._details(o).get(key, 0) == truth, key


def test_drill_offers_every_point_that_counts(example, kept):
    o = kept(example)
    name, figure = drill.figures(o)[-1]
    keys = {key for _, key in drill.points(o, figure, drill.symbols(o, figure)[0][1])}
    points = o.full_table("points")
    assert name == drill.ANY and keys == {*points.loc[points["state"] == "ok", "key"]}
    key = next(iter(keys))
    assert "".join(of_kind(drill.down(o, figure, drill.ANY, key), str)).startswith("#### ")


def test_latencies_over_time_are_counted_in_buckets(lab):
    """Single operations and bins against the records, each step by its end."""
    o = opened.open_campaign(lab / "results/several")
    key = next(p["key"] for p in o.plan["points"] if p["sweep"] == "faults" and p["axes"]["fault"] == "killed")
    run, rows = ops(o.campaign.raw, key)
    steps = 7
    found = operations.latencies(o.campaign, key, steps)
    step = -(-(run["deadline_ns"] - run["start_ns"]) // steps)
    good = [r for r in rows if r["error"] is None and (r["start_ns"] or r["latency_hist"])]
    truth = collections.Counter()
    for r in good:
        at = min(max((r["end_ns"] - run["start_ns"] - 1) // step, 0), steps - 1)
        truth[at] += sum(b["count"] for b in r["latency_hist"]) if r["latency_hist"] else 1
    assert found.groupby("step")["operations"].sum().to_dict() == truth
    assert found["second"].tolist() == pytest.approx([(s + 0.5) * step / S for s in found["step"]])
    took = np.sort([r["end_ns"] - r["start_ns"] for r in good if r["start_ns"]])
    buckets = [b for r in good for b in r["latency_hist"] or ()]
    took = np.sort([*took, *np.repeat([b["upper_ns"] for b in buckets], [b["count"] for b in buckets])])
    upper = np.sort(np.repeat(found["upper_ns"], found["operations"]))
    assert (took <= upper * 1.001).all() and (upper <= took * 1.021).all()


def test_a_stall_interrupts_the_lines_of_latency():
    rows = [("GET", s, s + 0.5, 1e6 * (s + 1), 200) for s in (0, 1, 4)]
    buckets = pd.DataFrame(rows, columns=["op", "step", "second", "upper_ns", "operations"])
    (ax,) = drill.latency_picture(buckets, (1.0, 4.0)).axes
    p50 = next(line for line in ax.lines if line.get_label() == "p50")
    assert p50.get_xdata().tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert p50.get_ydata() == pytest.approx([1, 2, np.nan, np.nan, 5], rel=0.02, nan_ok=True)


def test_the_symbols_of_a_figure_are_the_rows_that_it_draws(example, kept):
    """Downloads of 10 MB: 1, 2 and 4 clients with one and two front-ends, each of three runs."""
    o = kept(example)
    symbols = drill.symbols(o, "throughput_download")
    names = [found for found, _ in symbols]
    assert names[:2] == ["1 client, 1 front-end", "1 client, 2 front-ends"] and len(names) == 6
    points = [key for _, place in symbols for _, key in drill.points(o, "throughput_download", place)]
    large = [p for p in o.plan["points"] if p["workload"] == "get" and p["axes"]["object_size"] == 10**7]
    assert sorted(points) == sorted(p["key"] for p in large)


def test_drill_shows_workers_errors_and_the_slowest_of_one_client(lab):
    """Closed forms of tests/support/several.py: an actor that is killed at 4.02 s."""
    o = opened.open_campaign(lab / "results/several")
    key = next(p["key"] for p in o.plan["points"] if p["sweep"] == "faults" and p["axes"]["fault"] == "killed")
    rep = int(key[-3:])
    tables_of = [f for f in drill.show_point(o, key) if isinstance(f, pd.DataFrame)]
    (errors,) = (f for f in tables_of if "error" in f)
    by_status = errors.groupby("status")["operations"].sum().to_dict()
    assert by_status == {503: (several.noticed(rep) - several.KILLED) * 20 // 1000, 0: (4200 - several.KILLED) // 100}
    assert set(errors["error"]) == {"Refused"} and errors["first_s"].min() >= several.KILLED / 1000

    one = [f for f in drill.show_point(o, key, client=1) if isinstance(f, pd.DataFrame)]
    (few,) = (f for f in one if "error" in f)
    assert set(few["client"]) == {1} and 0 < few["operations"].sum() < errors["operations"].sum()
    workers, slowest = (next(f for f in one if c in f) for c in ("p50_ms", "ms"))
    assert next(f for f in one if "p50_ms" in f and "worker" in f)["worker"].tolist() == [0]
    _, rows = ops(o.campaign.raw, key)
    took = sorted((r["end_ns"] - r["start_ns"]) / 1e6 for r in rows if r["client"] == 1 and r["error"] is None)
    assert slowest["ms"].tolist() == pytest.approx(took[::-1][: drill.SLOWEST])
    assert len(workers)


def test_drill_reports_why_a_point_has_no_record(there, example):
    o = opened.open_campaign(example)
    key = next(iter(o.campaign.failures))
    heading, found = drill.show_point(o, key)
    assert (
        heading.startswith("#### ") and "client 3 did not arrive" in found and "\\_all\\_" in found
    )  # text, no markup


# --- compare --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def pair():
    return csv("compared", "points")


def test_compare_shows_the_ratio_of_two_systems(there, pair):
    picker = there("compare", "compared", filters={"workload": ["get"]})
    side = systems.first(picker.opened)[0][1]
    a, b = side[1], systems.second(picker.opened, side)[0][1][1]
    ok = pair[(pair["state"] == "ok") & (pair["workload"] == "get")]
    speeds = {s: ok[ok["store"] == s]["overlap_throughput_mb_per_s"].to_numpy() for s in (a, b)}
    pairwise = [y / x for x, y in itertools.product(speeds[a], speeds[b])]
    (shown,) = frames(picker, 0)
    row = shown[shown["measure"].str.startswith("throughput")].iloc[0]
    assert a != b and row["A"] == pytest.approx(np.median(speeds[a]), rel=1e-6)
    assert row["B / A"] == pytest.approx(np.exp(np.median(np.log(pairwise))), rel=1e-6)  # Hodges and Lehmann
    assert row["low"] < row["B / A"] < row["high"]
    assert row["B is"] in ("faster", "slower") or row["low"] < 1 < row["high"]
    text = "\n".join(of_kind(picker.shown[0], str))
    assert f"A is compared:{a}, B is compared:{b}" in text and "Held fixed: get: obstore" in text
    assert len(of_kind(picker.shown[0], Figure)) == 1


def test_compare_offers_only_what_has_a_point_in_common(there, lab):
    """Brute force over both plans: same workload, same values of all axes that either of them has off its default."""
    o = opened.open_campaign(lab / "results/compared")
    a = systems.first(o)[0][1]
    menu = [side for _, side in systems.second(o, a)]

    def points(folder, store):
        plan = json.loads((folder / "raw/plan.json").read_text())
        usual = {w: {x["name"]: x["default"] for x in d["axes"]} for w, d in plan["workloads"].items()}
        return [
            (p["workload"], {k: v for k, v in p["axes"].items() if v != usual[p["workload"]][k]})
            for p in plan["points"]
            if p["store"] == store and p["workload"] in ("put", "get")  # all other workloads of A
        ]

    mine = points(*a)
    for folder in opened.named():
        for store in {p["store"] for p in json.loads((folder / "raw/plan.json").read_text())["points"]}:
            common = any(p in mine for p in points(folder, store)) and (folder, store) != a
            assert ((folder, store) in [(f.absolute(), s) for f, s in menu]) == common, (folder, store)
    assert len(menu) >= 2


def test_unknown_axis_is_at_its_default():
    def plan(**axes):
        content = {"get": {"axes": [{"name": "size", "default": 1}, {"name": "later", "default": 0}]}}
        return {"workloads": content, "points": [{"store": "s", "workload": "get", "axes": axes}]}

    older = systems._planned(plan(size=4), "s")
    assert older == systems._planned(plan(size=4, later=0), "s") != systems._planned(plan(size=4, later=1), "s")
    assert systems._planned(plan(size=4), "t") == set()


@pytest.mark.heavy
def test_compare_reports_a_missing_second_system(there, lonely):
    assert there("compare", lonely).shown == [[systems.NONE], [systems.ALONE]]


def test_compare_does_not_begin_with_the_calibration(there):
    """The near-null server is the first store of the campaign, and has nothing in common with any other."""
    picker = there("compare", "broad")
    assert "nullserver" not in " ".join(name for name, _ in systems.first(picker.opened))
    (table,) = frames(picker, 0)
    assert len(table) > 1 and "A is broad:alpha, B is broad:beta" in of_kind(picker.shown[0], str)[0]


def test_compare_begins_with_what_has_most_in_common(lab):
    campaign, other = opened.open_campaign(lab / "results/broad").campaign, Path("elsewhere")
    here = campaign.folder
    plans = {(here, "alpha"): {1}, (here, "beta"): {2, 3}, (other, "x"): {2}, (other, "y"): {2, 3}, (other, "z"): {4}}
    o = opened.Opened(campaign, known={"plans": {side: frozenset(points) for side, points in plans.items()}})
    assert [side[1] for _, side in systems.first(o)] == ["beta", "alpha"]
    assert [side for _, side in systems.second(o, (here, "beta"))] == [(other, "y"), (other, "x")]
    assert systems.second(o, (here, "alpha")) == [] and systems.campaigns(o) == [("elsewhere", other)]


@pytest.mark.parametrize("workload", ["roles-tenants", "probe", "calibrate"])
def test_compare_offers_only_points_with_a_rate(workload):
    plan = {"workloads": {workload: {"axes": []}}, "points": [{"store": "s", "workload": workload, "axes": {}}]}
    content = {"workloads": {"get": {"axes": []}}, "points": [{"store": "s", "workload": "get", "axes": {}}]}
    assert systems._planned(plan, "s") == set() != systems._planned(content, "s")


@pytest.fixture
def upgraded(tmp_path, monkeypatch):
    """Return a campaign of two, `before` and `after`, which differ in one store's name and in one size."""
    for name, sizes in (("before", ["4 kB", "10 MB"]), ("after", ["4 kB"])):
        axes = {"engine": "obstore", "object_size": sizes, "clients": [1, 2, 4]}
        sweeps = {"up": {"workload": "put", "axes": axes}}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(make_examples, "per_client", lambda point, n=100 if name == "before" else 120: n)
            make_examples.make(tmp_path / "results" / name, failed=(), sweeps=sweeps, repetitions=1)
    monkeypatch.chdir(tmp_path)
    return opened.open_campaign(tmp_path / "results" / "before")


def test_overlay_draws_what_two_campaigns_have_in_common(upgraded):
    ((_, other),) = systems.campaigns(upgraded)
    x = systems.along(upgraded, other)[0][1]
    charts, table = systems.overlay(upgraded, other, x)
    (panel,) = charts.figures["overlay"]["panels"]
    drawn = {line["name"]: dict(zip(line["x"], line["y"], strict=True)) for line in panel["lines"]}
    every = {
        f"{name}: alpha": opened.open_campaign(upgraded.folder.parent / name).full_table("throughput")
        for name in ("before", "after")
    }
    small = {name: rows[rows["object_size_bytes"] == 4000] for name, rows in every.items()}
    truth = {name: dict(zip(rows["clients"], rows["rate_median_per_s"], strict=True)) for name, rows in small.items()}
    assert x == "clients" and drawn.keys() == truth.keys()
    assert all(drawn[name] == pytest.approx(truth[name], rel=1e-6) for name in truth)
    assert len(table) == sum(map(len, truth.values())) == 6


# --- then and now ---------------------------------------------------------------------------------


def test_then_and_now_shows_published_and_measured_numbers(there):
    picker = there("then_and_now", "broad")
    (statements,) = frames(picker, 0)
    uploads = statements[(statements["what"] == "Uploads") & (statements["measure"] == "per client")]
    then = uploads[uploads["source"] != "measured"]
    assert {50.0, 118.0} <= set(then["printed"])  # files/s of one client in 2012, in 1 and 5 buckets
    throughput = csv("broad", "throughput")
    small = throughput[(throughput["workload"] == "put") & (throughput["object_size_bytes"] <= 8192)]
    ours = uploads[uploads["source"] == "measured"]
    best = (small["rate_median_per_s"] / small["clients"]).groupby(small["store"]).max()
    assert len(best) == 2 and sorted(ours["median"]) == pytest.approx(sorted(best))
    assert len(of_kind(picker.shown[0], opened.Charts)) == 1

    (threads,) = frames(picker, 1)
    assert threads.iloc[0]["rate_median_per_s"] == 7.3 and (threads["source"] == "measured").any()
    (jobs,) = frames(picker, 2)
    assert set(jobs["source"]) == {"measured", "published"}
    (selections,) = frames(picker, 3)
    assert set(selections["source"]) == {"measured", "published"}

    claims = csv("broad", "claims")
    found, (counts, judged) = picker.shown[4][0], frames(picker, 4)
    held = collections.Counter(claims["verdict"])
    assert f"{claims['claim'].nunique()} findings" in found and f"; {held['not measured here']} of them" in found
    assert counts["confirmed"].sum() == held["confirmed"] and len(judged) == len(claims) - held["not measured here"]


def test_then_and_now_reports_missing_data(there):
    picker = there("then_and_now", "several")
    words = (
        "This campaign has no result in a measure",
        "This campaign has no measurement of one client",
        "This campaign has no jobs",
        "This campaign has no reads.",
    )
    assert [shown[0].startswith(text) for shown, text in zip(picker.shown, words, strict=False)] == [True] * 4


# --- faults ---------------------------------------------------------------------------------------


def test_faults_shows_what_was_done_and_how_the_store_recovered(there):
    picker = there("faults", "several")
    events, recovery = frames(picker, 0)
    acts = events[events["kind"] == "act"]
    assert acts[acts["name"] == "kill"]["begin_s"].tolist() == [several.KILLED / 1000] * 3
    assert acts[acts["name"] == "restart"]["begin_s"].tolist() == [several.RESTARTED / 1000] * 3
    found = sorted(events[events["name"] == "degraded"]["begin_s"])
    assert found == [several.noticed(rep) / 1000 for rep in (1, 2, 3)]
    uploads = recovery[(recovery["role"] == "uploads") & (recovery["source"] == "measured")].iloc[0]
    failed = [(several.noticed(r) - several.KILLED) * 20 // 1000 + (4200 - several.KILLED) // 100 for r in (1, 2, 3)]
    assert uploads["failed_median_operations"] == sorted(failed)[1]
    chart = picker.shown[0][0].figures["timeline_faults"]
    assert chart["panels"] and chart["caption"].startswith("Operations per second and latency")


def test_campaign_without_faults_has_one_note(there):
    picker = there("faults", "broad")
    assert picker.shown == [[f"{faults.NONE} Campaigns with faults: several."]]


# --- verdicts -------------------------------------------------------------------------------------


def test_verdicts_show_evidence_and_what_to_try(there):
    picker = there("verdicts", "broad")
    known = csv("broad", "verdicts")
    counts, rows, *others = frames(picker, 0)
    assert counts.drop(columns="deployment").sum().to_dict() == collections.Counter(known["verdict"])
    assert rows["verdict"].tolist() == known["verdict"].tolist()
    place = verdicts.subjects(picker.opened)[0][1]
    row = known.loc[place]
    assert row["verdict"] != rules.NOT_KNOWN, "a known limit is shown first"
    text = "\n".join(of_kind(picker.shown[0], str))
    assert opened.escaped(row["evidence"]) in text and opened.escaped(verdicts.advice(row["verdict"])) in text
    (groups,) = others
    column = "throughput_median_mb_per_s" if row["unit"] == "MB/s" else "rate_median_per_s"
    assert groups[column].iloc[0] == pytest.approx(row["best"]) and groups[column].is_monotonic_decreasing
    (charts,) = of_kind(picker.shown[0], opened.Charts)
    (panels,) = (figure["panels"] for figure in charts.figures.values())
    assert panels[0]["y"]["label"] == "Operations/s"


def test_each_verdict_has_the_groups_that_it_is_about(lab):
    o = opened.open_campaign(lab / "results/broad")
    for _, row in o.full_table("verdicts").iterrows():
        groups = verdicts._groups(o, row)
        column = "throughput_median_mb_per_s" if row["unit"] == "MB/s" else "rate_median_per_s"
        assert groups[column].iloc[0] == pytest.approx(row["best"], rel=1e-6)


def test_each_rule_has_an_advice():
    assert [rule.verdict for rule in rules.RULES if not verdicts.advice(rule.verdict)] == []
    assert (
        verdicts.advice(rules.NOT_KNOWN, "more runs; a calibration")
        == "Missing data that would show the limit: more runs; a calibration."
    )
    assert not [begin for begin in verdicts.TRY if not any(r.verdict.startswith(begin) for r in rules.RULES)]


def test_verdicts_report_a_missing_rate(there):
    assert there("verdicts", "several").shown == [[verdicts.NONE]]


# --- scaling --------------------------------------------------------------------------------------


def test_scaling_shows_each_curve_with_its_runs(there):
    picker = there("scaling", "broad")
    known, points = csv("broad", "scaling"), csv("broad", "points")
    figure, found, table = picker.shown[0]
    assert table["shape"].tolist() == known["curve"].tolist()
    assert found == f"The picture shows {len(figure.axes)} of {len(known)} curves; the table has all of them."
    points = points[points["state"] == "ok"]
    for ax, row in zip(figure.axes, known.to_dict("records"), strict=False):
        own = points[points["store"].eq(row["store"]) & points["workload"].eq(row["workload"])]
        own = own[own[row["axis"]].notna()]
        held = ("engine", "object_size_bytes", "clients", "workers", "buckets", "front_ends")
        for column in (c for c in held if c != row["axis"] and not pd.isna(row[c])):
            own = own[own[column] == row[column]]
        value = "overlap_throughput_mb_per_s" if row["metric"] == "throughput" else "overlap_rate_per_s"
        dots = next(line for line in ax.lines if line.get_linestyle() == "None")
        both = (dots.get_data(), (own[row["axis"]], own[value]))
        shown, truth = (np.array(sorted(zip(*xy, strict=True))) for xy in both)
        assert shown == pytest.approx(truth)
        assert len(own) == row["n"]


@pytest.mark.heavy
def test_scaling_marks_a_knee_and_its_interval(there):
    picker = there("scaling", campaigns.built("throughput2015"))
    known = csv("throughput2015", "scaling")
    figure, *_, table = picker.shown[0]
    ended = known[known["curve"].isin(["knee", "peak"])]
    first = table.iloc[0]
    assert len(ended) and first["shape"] in ("knee", "peak") and len(table) == len(known)
    assert first["knee_value"] == pytest.approx(ended.iloc[0]["knee_value"])
    marked = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert marked == pytest.approx([first["knee_value"]])
    assert "The picture shows 12 of 26 curves; the table has all of them." in of_kind(picker.shown[0], str)


def test_scaling_reports_a_missing_curve(there):
    assert there("scaling", "soak").shown == [[scaling.NONE]]


# --- reads ----------------------------------------------------------------------------------------


def test_what_if_uses_planner_on_measured_link(there, staged, undrawn_figures):
    picker = there("sparse", staged[True])
    o = picker.opened
    (plans,), text = frames(picker, 1), of_kind(picker.shown[1], str)[0]
    assert "a measured link" in text and "1 % of the volume" in text
    clients = [client for run in o.campaign.runs.values() for client in run["clients"]]
    found = next(c["engine"]["link"] for c in clients if (c.get("engine") or {}).get("link"))
    file = reads.files(o)[0][1]
    baskets = pq.read_table(file).to_pylist()
    sizes = collections.Counter()
    for b in baskets:
        sizes[b["branch"]] += b["size"]
    picked = reads.chosen(pd.DataFrame(baskets), 1)
    smallest = sorted(sizes.values())[: picked["branch"].nunique() + 1]
    # whole branches, the smallest ones
    assert len(picked) == sum(b["branch"] in set(picked["branch"]) for b in baskets)
    assert picked["size"].sum() == sum(smallest[:-1]) <= sum(sizes.values()) / 100 < sum(smallest)
    mine = sorted(zip(picked["offset"], picked["size"], strict=True))

    for row, added in zip(plans.to_dict("records"), reads.ROUND_TRIPS_MS, strict=True):
        # Its requests, computed again: neighbours are merged over gaps up to that of the plan.
        merged = [[mine[0][0], sum(mine[0])]]
        for offset, size in mine[1:]:
            if offset - merged[-1][1] <= row["its gap [B]"]:
                merged[-1][1] = max(merged[-1][1], offset + size)
            else:
                merged.append([offset, offset + size])
        asked = sum(end - begin for begin, end in merged)
        heads = row["its requests"] * found.get("header_bytes", 700)
        assert row["its wire [MB]"] == pytest.approx((asked + heads) / 1e6, rel=1e-6)
        assert row["its requests"] >= len(merged) and row["quickest plan [s]"] <= row["time of that [s]"]
        assert row["quickest plan [s]"] > added / 1000
    assert plans["quickest plan [s]"].is_monotonic_increasing and plans["its requests"].is_monotonic_decreasing


def test_a_farther_link_has_a_longer_round_trip_and_waits_for_it_in_flight():
    link = reads.farther(reads.MADE_UP, 0.064)
    assert link["rtt_s"] == pytest.approx(0.065) and link["request_s"] == pytest.approx(0.001)
    assert reads.farther(reads.MADE_UP, 0)["request_s"] == reads.MADE_UP["request_s"]
    assert readplan.Link(**link).parallel == 64


def test_unmeasured_link_is_called_hypothetical(there, staged):
    picker = there("sparse", staged[False])
    assert "MADE-UP" in of_kind(picker.shown[1], str)[0]
    _, selections = frames(picker, 0)
    assert len(selections) == len(pd.read_csv(staged[False] / "tables/sparse.csv"))


def test_tables_of_reads_are_complete_and_narrow(there):
    """Values that are the same in all rows are printed once; all rows and all columns that differ are shown."""
    picker = there("sparse", "broad")
    one, every = frames(picker, 0)
    known = csv("broad", "sparse")
    shown = next(text for text in of_kind(picker.shown[0], str) if text.startswith("In all rows: "))
    wanted = [c for c in (*reads.SELECTION, *reads.METRICS) if c in known and known[c].notna().any()]
    same = [c for c in wanted if c in reads.SELECTION and known[c].nunique(dropna=False) == 1]
    assert len(every) == len(known) and [c for c in wanted if c not in same] == [c for c in every if c in wanted]
    assert same and all(opened.escaped(c) in shown for c in same) and not {*same} & {*every}
    assert len(one) == len(csv("broad", "table2"))
    html = opened.table_html(every)
    assert html.count("<tr") == len(known) + 1 and "overflow: auto" in html and "_<wbr>" in html


def test_notebook_without_reads_has_one_note(there, lonely, undrawn_figures):
    picker = there("sparse", lonely)
    nothing = "This campaign has no staged file whose baskets are known, so that there are no reads to plan."
    assert picker.shown == [["This campaign has no reads."], [nothing]]


# --- the picker -----------------------------------------------------------------------------------


def test_usual_campaign_is_the_reference_then_the_first(tmp_path, monkeypatch):
    monkeypatch.delenv(opened.NAMED, raising=False)
    names = ["jobs", "reference", "soak"]
    results = tmp_path / "lab" / "results"
    for name in names:
        (results / name).mkdir(parents=True)
        (results / name / "raw").symlink_to(campaigns.built("soak") / "raw")
    monkeypatch.chdir(results / "soak")  # below the folder that has results
    assert opened.place() == results / "reference" and opened.place("soak") == results / "soak"
    assert [p.name for p in opened.named()] == names
    monkeypatch.setenv(opened.NAMED, str(results / "jobs"))
    assert opened.place().name == "jobs" and opened.place("soak").name == "soak"
    monkeypatch.delenv(opened.NAMED)
    (results / "reference" / "raw").unlink()
    assert opened.place().name == "jobs"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="contains no measured campaign"):
        opened.place()
    with pytest.raises(UserError, match="nowhere: is not a measured campaign"):
        opened.place("nowhere")


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"stores": ["alpha"]}, "filters: stores: is not a filter of this campaign; use one of: store, workload"),
        ({"store": "alpha"}, r"filters: store: is 'alpha', not a list; write \['alpha'\]"),
        ({"store": ["gamma"]}, "filters: store: no point has 'gamma'; use one of: alpha"),
    ],
)
def test_a_filter_that_no_point_has_is_refused(example, kept, filters, said):
    with pytest.raises(UserError, match=said):
        opened.filtered(kept(example).campaign, filters)


def test_outdated_tables_are_made_again(lonely, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(opened.tables, "build", made.append)
    shutil.copytree(lonely, tmp_path / "c")
    points = tmp_path / "c/tables/points.csv"
    assert opened.open_campaign(tmp_path / "c").name == "c" and made == []
    was = points.read_bytes()
    points.write_bytes(was.replace(b"key", b"kez", 1))
    opened.open_campaign(tmp_path / "c")
    assert made == [tmp_path / "c"]
    points.write_bytes(was)
    opened.open_campaign(tmp_path / "c")
    assert len(made) == 1
    (tmp_path / "c/tables/noise.csv").unlink()
    opened.open_campaign(tmp_path / "c")
    assert len(made) == 2


def test_later_menu_follows_earlier_choice():
    wishes = {"a": lambda o: [("x", 1), ("y", 2)], "b": lambda o, a: [(str(a), 10 * a)]}
    menus, chosen = opened.resolved(None, wishes | {"c": 5})
    assert chosen == {"a": 1, "b": 10, "c": 5} and list(menus) == ["a", "b"]
    _, chosen = opened.resolved(None, wishes, {"a": 2, "b": 10})
    assert chosen == {"a": 2, "b": 20}  # what was wanted is gone
    assert opened.resolved(None, {"a": lambda o: []})[1] == {"a": None}


def test_menus_show_what_is_chosen(lab, monkeypatch):
    """With a user: menus of campaign, filters and points."""
    w = pytest.importorskip("ipywidgets")
    monkeypatch.delenv(opened.NAMED, raising=False)
    monkeypatch.chdir(lab)
    shown = []
    monkeypatch.setattr(IPython.display, "display", lambda *objects: shown.extend(objects))
    picker = Picker("several")
    picker._ipython_display_()
    (panel,) = shown
    campaigns, lists = panel.children
    assert [name for name, _ in campaigns.options] == [p.name for p in opened.named()]
    picker.show(lambda o, point: [point], point=drill.measured)
    drop = next(box for box in shown[1:] if isinstance(box, w.VBox)).children[0]
    first, second = (key for _, key in drill.measured(picker.opened)[:2])
    assert picker.shown == [[first]]
    drop.value = second
    assert picker.shown == [[second]]
    by = {one.description: one for one in lists.children}
    assert sorted(by) == ["Workload"]  # all points have one store, and roles have engines and sizes
    by["Workload"].value = ("roles-tenants",)
    assert set(picker.opened.table("points")["workload"]) == {"roles-tenants"} and "tenants" in picker.shown[0][0]
    campaigns.value = next(folder for name, folder in campaigns.options if name == "soak")
    assert picker.opened.name == "soak" and picker.shown[0][0] in picker.opened.campaign.runs
    assert picker.opened.filters == {}


def test_records_contain_only_text():
    assert opened.escaped("<b>*a*_[x](y)`$`</b>") == "&lt;b&gt;\\*a\\*\\_\\[x\\](y)\\`\\$\\`&lt;/b&gt;"
    html = opened.table_html(pd.DataFrame({"a": ["<script>"] * 501, "b": [1234.5678] * 501}))
    assert "<script>" not in html and "1235" in html and "… 1 more row" in html


def test_frame_of_charts_fetches_nothing():
    """Text of records stays text; the document has library, data and a policy."""
    hostile = "</script></iframe><img src=//x onerror=alert(1)>"
    figure = {"title": hostile, "caption": hostile, "note": "", "panels": []}
    shown = opened.displayable(opened.Charts({hostile: figure})).data
    (document,) = re.findall(r'srcdoc="([^"]*)"', shown)
    assert re.fullmatch(r'<div><iframe [^<>"]*"[^"]*" srcdoc="[^"]*"></iframe></div>', shown)
    text = html_module.unescape(document)
    assert hostile not in text and page.read(text)["figures"] == {hostile: figure}
    assert "default-src 'none'" in text and len(page.read(text)["library"]) > 10**6
    assert not re.search(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=""", text)


def test_a_mistake_is_one_line(there, example):
    picker = there("scaling", "soak")
    picker.render(0, systems.ratios, {"a": (example, "alpha"), "b": (example, "gamma")})
    (line,) = picker.shown[0]
    assert "is not a store with a run in this campaign" in line and "\n" not in line


# --- all campaigns --------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("campaign", [*LAB, *SEALED])
def test_notebooks_run_on_every_campaign(campaign, there, undrawn_figures):
    for notebook in NOTEBOOKS:
        assert there(notebook, campaigns.built(campaign)).shown


def test_saved_notebook_makes_no_network_requests():
    """The options of the rule, and the template of nbconvert: no script, style or picture comes from elsewhere."""
    options = dict(re.findall(r"--HTMLExporter\.(\w+)=([^\s\"]+)", (ROOT / "rules" / "notebooks.smk").read_text()))
    assert set(options) == {"require_js_url", "mathjax_url"}
    fetched = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>""")
    node = nbformat.read(ROOT / "notebooks" / "explore.ipynb", as_version=4)
    assert fetched.search(HTMLExporter().from_notebook_node(node)[0]), "without an option it asks"
    assert fetched.findall(HTMLExporter(**options).from_notebook_node(node)[0]) == []

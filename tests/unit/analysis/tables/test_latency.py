"""Latency: quantiles are exact, of bins to 2 %; operations that hang or never begin give lower bounds."""

import math
import re
from collections import Counter

import drawn_cells
import numpy as np
import pandas as pd
import pytest
from drawn_texts import texts
from make_examples import T0, S, make
from tex_files import TexFiles
from throughput_rows import spread

from campaigns import built
from storelab.analysis.figures import catalogue, panels
from storelab.analysis.figures.draw import draw
from storelab.analysis.latex.rates import latencies
from storelab.analysis.records.campaign import load
from storelab.analysis.tables import build, latency, points
from storelab.core import integrity, records
from storelab.engines.common import bins

MS = 1_000_000
START = T0 + 10 * S  # agreed start of the first point; its overlap window is 1 s to 4 s after it, the drain ends at 9 s
QUANTILES = ("latency_p50", "latency_p90", "latency_p99", "latency_max")


@pytest.fixture(scope="module")
def table():
    return build.read(built("timed"), "latency").query("workload == 'get'")


@pytest.fixture
def one(tmp_path):
    """Return `one(columns, facts, axes, head)`: the tables of a point of 4 s with one client of 8 workers."""

    def write(columns: dict, facts: dict | None = None, axes: dict | None = None, **head) -> build.Tables:
        chosen = {"engine": "obstore", "workers": 8} | (axes or {})
        make(tmp_path, sweeps={"d": {"workload": "get", "duration": "4 s", "axes": chosen}}, repetitions=1)
        folder = next((tmp_path / "raw").rglob("run.json")).parent
        n = len(columns["end_ns"])
        ops = {"client": [0] * n, "op": ["GET"] * n, "count": [1] * n, "bytes": [1] * n} | columns
        records.write_table(folder / "ops.0.parquet", records.OPS, ops)
        run = records.read_json(folder / "run.json") | head
        run["clients"][0]["engine"] = facts or {}
        records.finish(folder, run)
        integrity.write_sums(tmp_path / "raw")
        return build.Tables(load(tmp_path))

    return write


def only(table: pd.DataFrame) -> dict:
    (row,) = table.to_dict("records")
    return row


def quoted(tables: build.Tables) -> dict:
    return {name: value for name, value, _ in points.numbers(tables["points"])}


# Campaigns of known latencies


def test_figures_name_loops_and_loads(table):
    shown = {name: texts(draw(catalogue.FIGURES[f"latency_{name}"], table)) for name in ("closed", "open", "spectrum")}
    parts = {
        "closed": ("closed loop", "p99", "time to first byte", "alpha: GET 4 kB", "alpha: GET 10 MB", "Latency [ms]"),
        "open": ("open loop", "Operations due per second", "less than 99 %"),
        "spectrum": ("closed loop, fewest in flight", "closed loop, most in flight", "open loop, most due", "Quantile"),
    }
    missing = [(n, part) for n in parts for part in parts[n] if part not in shown[n].replace("\n", " ")]
    assert not missing, missing
    spectrum = draw(catalogue.FIGURES["latency_spectrum"], table)
    assert "32 in flight" in {t.get_text() for ax in spectrum.axes for t in ax.texts}
    assert all(ax.get_yscale() == "log" for ax in spectrum.axes)


def test_figure_cuts_too_many_panels(table):
    many = pd.concat([table.assign(store=f"s{i:02d}") for i in range(12)])
    fig = draw(catalogue.FIGURES["latency_closed"], many)
    assert len(fig.axes) == panels.max_panels() == 15 and "15 of 24 panels" in texts(fig).replace("\n", " ")
    caption = catalogue.caption(catalogue.FIGURES["latency_closed"], many)
    assert caption.endswith("Shown: 15 of 24 panels, all are in latency.csv.")


def test_paper_has_section_of_latency():
    tex = TexFiles("timed")
    assert all(part in tex["table_latency"] for part in ("closed, 8", "open, 400/s*", "TTFB"))
    assert re.search(r"In 1 of the \d+ groups of points the system did not keep up", tex["paper"])
    assert r"\section{Latency}" in tex["paper"] and "In the table, the smallest median was" in tex["paper"]


# One point, whose operations are given


def test_bins_agree_within_two_percent(one):
    ends = [START + i * 4 * MS for i in range(1, 1000)]
    starts = [e - (1 + i * 37 % 100) * MS for i, e in enumerate(ends)]
    single = latency.runs(one({"start_ns": starts, "end_ns": ends})["campaign"]).iloc[0]
    both = one(bins.binned(START, starts, ends, "GET", sums={"bytes": [1] * len(ends)}))
    binned = latency.runs(both["campaign"]).iloc[0]
    assert binned["binned"] and not single["binned"] and abs(binned["operations"] - single["operations"]) < 30
    for metric in QUANTILES:  # 2 % of the bucket, and other operations at the edges of the window
        assert binned[metric] == pytest.approx(single[metric], rel=0.03), metric
    assert pd.isna(binned["ttfb_p50"])


def test_binned_and_single_operations_count_together(one):
    ends = [START + i * 4 * MS for i in range(1, 1000)]
    starts = [e - 10 * MS for e in ends]
    binned = bins.binned(START, starts, ends, "GET", sums={"bytes": [1] * len(ends)})
    n = len(binned["end_ns"])
    both = {name: [*values, *[None] * len(ends)] for name, values in binned.items()}
    both |= {"start_ns": [None] * n + [s - 10 * MS for s in starts], "end_ns": [*binned["end_ns"], *ends]}
    both |= {name: [*binned[name], *[1] * len(ends)] for name in ("count", "bytes")} | {"op": ["GET"] * (n + len(ends))}
    row = latency.runs(one(both)["campaign"]).iloc[0]
    assert row["binned"] and 1480 < row["operations"] < 1520 and row["latency_p50"] == pytest.approx(10, rel=0.02)
    assert row["latency_p90"] == pytest.approx(20, rel=0.02)


def test_window_cuts_bins_at_its_edges(one):
    """1000 operations/s in bins, and a client that ends 50 ms before the deadline: the rate is still 1000/s."""
    ends = [START + i * MS for i in range(1, 4001)]
    t = one(bins.binned(START, [e - MS for e in ends], ends, "GET", sums={"bytes": [10] * len(ends)}))
    next(iter(t["campaign"].runs.values()))["clients"][0]["end_ns"] -= 50 * MS
    row = only(t["points"])
    assert row["overlap_rate_per_s"] == pytest.approx(1000)
    assert (row["overlap_operations"], row["overlap_bytes"], row["steadiness"]) == (2950, 29500, "steady")
    assert (row["first_done_operations"], row["last_done_operations"], row["operations"]) == (3950, 4000, 4000)


def test_delete_of_many_objects_has_one_latency(one):
    ends = [START + i * 20 * MS for i in range(1, 201)]
    ops = {"op": ["DELETE_MULTI"] * 200, "count": [500] * 200, "bytes": [0] * 200, "end_ns": ends}
    t = one(ops | {"start_ns": [e - 20 * MS for e in ends]})
    assert only(t["points"])["overlap_rate_per_s"] == pytest.approx(25_000)
    row = latency.runs(t["campaign"]).iloc[0]
    assert (row["op"], row["operations"], row["latency_p50"]) == ("DELETE_MULTI", 149, 20)


def test_unknown_starts_have_rate_without_latency(one):
    t = one({"end_ns": [START + i * 10 * MS for i in range(1, 401)]})
    row = only(t["points"])
    assert row["overlap_rate_per_s"] == pytest.approx(100, rel=1e-3)
    assert pd.isna(row["latency_p50_ms"]) and t["latency"].empty


def test_nearest_rank_over_operations_begun_in_window(one):
    """The window is (1 s, 4 s]; in an open loop, operations count from when they were due."""
    took = [7 * MS + i * 1000 for i in range(200)]
    due = [START + 2 * S + i * MS for i in range(200)]
    rows = [(b, b + 3 * MS, b + t // 2, b + t, None) for b, t in zip(due, took, strict=True)]
    rows += [(b, b, b + 1, b + 5 * S, None) for b in (START + S, START + 4 * S + 1)]  # outside
    rows += [(b, b, b + 1, b + 6 * MS, None) for b in (START + S + 1, START + 4 * S)]  # at the edges
    rows += [(due[0], due[0], due[0] + 1, due[0] + 5 * S, "SlowDown")] * 3
    names = ("intended_ns", "start_ns", "first_byte_ns", "end_ns", "error")
    t = one(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), axes={"arrival_rate": 100})
    found, every = latency.runs(t["campaign"]).iloc[0], sorted([*took, 6 * MS, 6 * MS])
    assert (found["operations"], found["failed"], found["loop"], found["binned"]) == (202, 3, "open", False)
    for name, level in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert found[f"latency_{name}"] == every[math.ceil(level * 202) - 1] / 1e6, name
    assert math.isnan(found["latency_p999"]) and found["latency_max"] == every[-1] / 1e6 == pytest.approx(7.199)
    firsts = sorted([*(t // 2 for t in took), 1, 1])
    assert found["ttfb_p50"] == firsts[100] / 1e6 and found["ttfb_p99"] == firsts[math.ceil(0.99 * 202) - 1] / 1e6


# Operations that hang or never begin


def flows(busy: list[int], hung: list[int]) -> dict:
    """Return operations of one worker that end after each of `busy` ms from 1 s on, and operations of others that begin
    at `hung` (ms after the start) and are given up at 9 s.
    """
    ends = START + S + np.cumsum(busy) * MS
    starts, gone = ends - np.array(busy) * MS, START + np.array(hung, dtype=np.int64) * MS
    n, m = len(busy), len(hung)
    rows = {"start_ns": [*(starts + 1), *gone], "end_ns": [*(ends + 1), *[START + 9 * S] * m]}
    rows |= {"error": [None] * n + ["Hung"] * m, "bytes": [1] * n + [0] * m}
    return rows | {"status": [200] * n + [0] * m}


def test_hung_workers_make_run_invalid(one):
    """300 operations of 10 ms, and 7 that began in the warm-up: no table shows the run as good."""
    reason = "7 operations hung"
    facts = {"hung": 7, "hung_s": 24.5, "not_begun": 0}
    t = one(flows([10] * 299, [500] * 7), facts, valid=False, budget={"reason": reason})
    point, row = only(t["points"]), only(t["errors"])
    assert (point["state"], point["reason"], point["errors"], point["hung"]) == ("invalid", reason, 7, 7)
    assert point["operations"] == 299 and point["overlap_rate_per_s"] == pytest.approx(299 / 3)
    assert point["tail_s"] == 0, "an abandoned operation is not complete"
    assert (row["error"], row["operations"], row["first_s"], row["latency_p50_ms"]) == ("Hung", 7, 9.0, 8500.0)
    assert point["latency_lower_bounds"] == "latency_p99, latency_max" and point["latency_p50_ms"] == pytest.approx(10)
    assert point["latency_p99_ms"] == 8500, "304 of 306: one of the seven"
    numbers = quoted(t)
    assert (numbers["hung"], numbers["hung_runs"], numbers["hung_unknown"]) == (7, 1, 0)
    assert t["latency"].empty, "the run is in no median"


def test_lower_bounds_reach_table_and_paper(one):
    """1 of 999 hangs: p50 to p99 are known, the maximum is a lower bound."""
    t = one(flows([2] * 990 + [5] * 8, [3990]), {"hung": 1, "hung_s": 0.01, "not_begun": 0})
    row = only(t["latency"])
    assert row["lower_bounds"] == "latency_max" and row["latency_max_median_ms"] == 5010
    assert pd.isna(row["latency_p999_median_ms"]), "999 operations are too few"
    assert (row["operations"], row["failed"], row["hung"]) == (998, 0, 1)
    assert [row[f"latency_{n}_median_ms"] for n in ("p50", "p90", "p99")] == pytest.approx([2, 2, 2], rel=1e-5)
    text = latencies(t["latency"])
    assert len(re.findall(r"\\geq\$ ?5", text)) == 1 and "operations hung" in text


def test_p999_is_bound_where_its_tail_hangs(one):
    row = only(one(flows([2] * 1400, [3990, 3000]), {"hung": 2, "hung_s": 1.01})["latency"])
    assert row["lower_bounds"] == "latency_p999, latency_max" and row["latency_p999_median_ms"] == 5010
    assert row["latency_max_median_ms"] == 6000 and row["latency_p99_median_ms"] == pytest.approx(2, rel=1e-5)


def test_ttfb_is_null_where_its_tail_hangs(one):
    columns = flows([10] * 200, [2000] * 5)
    first = [begin + 3 * MS for begin in columns["start_ns"][:200]]
    row = only(one(columns | {"first_byte_ns": first + [None] * 5}, {"hung": 5, "hung_s": 10.0})["latency"])
    assert row["ttfb_p50_median_ms"] == pytest.approx(3) and pd.isna(row["ttfb_p99_median_ms"])


def test_hung_operations_in_bins(one):
    """5000 operations of 1 ms as bins, and 100 that hung since 4 s before they were given up."""
    starts = [START + S + i * 1000 * 500 for i in range(5000)]
    ended = bins.binned(START, starts, [s + MS for s in starts], "GET", sums={"bytes": 1})
    gone = bins.binned(START, [START + 5 * S] * 100, [START + 9 * S] * 100, "GET", ["Hung"] * 100, sums={"bytes": 0})
    both = {name: [*ended[name], *gone[name]] for name in ended}
    t = one({"client": [0] * len(both["end_ns"])} | both, {"hung": 100, "hung_s": 1.0})
    row = only(t["latency"])
    assert (row["hung"], row["operations"], row["lower_bounds"].split(", ")[0]) == (100, 5000, "latency_p99")
    assert row["latency_p50_median_ms"] == pytest.approx(1, rel=0.02)
    assert 4000 / 1.0404 < row["latency_p99_median_ms"] <= 4000, "not more than what is known"
    assert t["points"]["tail_s"][0] < 0.1 and t["points"]["hung"][0] == 100


def test_operations_never_begun_waited_until_deadline(one):
    """100 operations a second are due over 4 s; the last 100 never began, a third of the window of 3 s.

    p50 (150th of 300) and TTFB lack no operation; p90 is the 30th longest of those that were due last.
    """
    due = START + S + np.arange(1, 201) * 10 * MS
    ops = {"start_ns": due + MS, "intended_ns": due, "end_ns": due + 5 * MS, "first_byte_ns": due + 2 * MS}
    row = only(one(ops, {"hung": 0, "hung_s": 0.0, "not_begun": 100}, {"arrival_rate": 100})["latency"])
    assert (row["not_begun"], row["hung"], row["lower_bounds"]) == (100, 0, "latency_p90, latency_p99, latency_max")
    assert row["latency_p50_median_ms"] == 5 and row["ttfb_p50_median_ms"] == 2 and pd.isna(row["ttfb_p99_median_ms"])
    waits = sorted([5.0] * 200 + [10.0 * i for i in range(100)])
    assert row["latency_max_median_ms"] == 990 and row["latency_p90_median_ms"] == waits[269]
    assert row["completed_percent"] == pytest.approx(100 * 200 / 300)


def test_records_of_every_age_report_hung_operations(one):
    """Cases: engine, records of its client; hung and cut off as the table has them."""
    cases = [("obstore", {"cut_off": 3}, 3, None), ("loadgen", {"cut_off": 0, "hung": 2}, 2, None)]
    cases += [("s5cmd", {"cut_off": 3, "hung": None}, None, 3), ("s5cmd", {"cut_off": 3}, None, 3)]
    cases.append(("planned", {}, None, None))
    for engine, facts, hung, cut_off in cases:
        t = one(flows([10] * 3, []), facts, engine={"name": engine, "version": "1", "settings": {}})
        point = only(t["points"])
        found = [None if pd.isna(point[c]) else point[c] for c in ("hung", "cut_off")]
        assert found == [hung, cut_off], (engine, facts)
        assert quoted(t)["hung_unknown"] == int(bool(cut_off))


# Pauses of the client


def pause(*longest: tuple[int, int]) -> dict:
    lengths = [length for _, length in longest]
    content = {"count": len(lengths), "sum_ns": sum(lengths), "longest_ns": max(lengths, default=0)}
    return {"pauses": content | {"longest": [list(p) for p in longest]}}


def test_tail_during_pauses_of_client(one):
    """4 of 400 operations of 2 ms took 50 ms; the client paused in three of them, and twice during fast ones."""
    busy = [2] * 100 + [50] + [2] * 100 + [50] * 3 + [2] * 196
    columns = flows(busy, [])
    slow = [i for i, length in enumerate(busy) if length == 50]
    stood = [(int(columns["start_ns"][i]) + 5 * MS, 40 * MS) for i in slow[1:]]
    t = one(columns, pause(*stood, *[(int(columns["start_ns"][i]), MS) for i in (10, 250)]))
    point, row = only(t["points"]), only(t["latency"])
    assert (point["pauses_ms"], point["pause_longest_ms"]) == (122, 40)
    assert row["paused_percent"] == 75 and row["latency_p99_median_ms"] == pytest.approx(2, rel=1e-5)
    assert "dagger" in latencies(t["latency"]) and quoted(t)["paused"] == 0, "below 100 ms"


def test_tail_without_pauses(one):
    for facts, percent, longest in ((pause(), 0, 0), ({}, None, None), (pause((0, 200 * MS)), 0, 200)):
        t = one(flows([2] * 100 + [50] + [2] * 100, []), facts)
        row, point = only(t["latency"]), only(t["points"])
        found = [None if pd.isna(v) else v for v in (row["paused_percent"], point["pause_longest_ms"])]
        assert found == [percent, longest] and "dagger" not in latencies(t["latency"])
        assert quoted(t).get("paused") == (None if longest is None else longest == 200), "no number without a watch"


# What the text quotes


def latency_row(loop: str, p50: float, p99: float, bounds: str = "") -> dict[str, object]:
    row = {"store": "alpha", "workload": "get", "arrival_rate": None, "n": 3, "op": "GET", "loop": loop}
    row |= {"concurrency": p50}
    row |= spread("latency_p50", "ms", p50) | spread("latency_p99", "ms", p99)
    return row | {latency.BOUNDS: bounds, "completed_percent": 50.0 if loop == "open" else None}


def test_text_quotes_least_median_and_longest_tail():
    rows = [latency_row("closed", 2, 9), latency_row("closed", 5, 40, "latency_p99"), latency_row("open", 7, 70)]
    content = {name: value for name, value, _ in latency.numbers(pd.DataFrame(rows))}
    assert content["latency_closed_least"] == "2.00 [1.80, 2.20]"
    assert content["latency_closed_longest"] == "at least 40.0 [36.0, 44.0]", "hung operations: a lower bound"
    assert content["latency_open_longest"] == "70.0 [63.0, 77.0]"
    assert (content["latency_open_groups"], content["latency_open_behind"]) == (1, 1)
    assert {"latency_closed_least_where", "latency_closed_longest_where"} <= {*content}


def test_quantile_needs_one_operation_beyond_it():
    content = {name: value for name, value, _ in latency.definitions()}
    assert (content["latency_fewest"], content["latency_fewest_highest"]) == (100, 1000)


def test_ends_of_loads():
    """Return the smallest and the largest load of each loop; of an open loop the smallest only on request."""
    row = {"store": "s", "workload": "get", "engine": "e", "object_size_bytes": 1, "n": 1, "op": "GET"}
    closed = [row | {"loop": "closed", "concurrency": n, "arrival_rate": None} for n in (8, 2, 4)]
    opened = [row | {"loop": "open", "concurrency": 9, "arrival_rate": n} for n in (300, 100, 200)]
    rows = pd.DataFrame([*closed, *opened]).assign(latency_p50_median_ms=1.0)
    assert latency.ends(rows).index.tolist() == latency.ends(rows, True).index.tolist() == [1, 0, 4, 3]
    assert latency.ends(rows, False).index.tolist() == [1, 0, 3]


def test_ends_have_one_setting():
    """Both ends are warm, with the most front-ends of the most loads, whichever was the fastest."""
    names = ["front_ends", "access", "n", "concurrency", "latency_p50_median_ms"]
    values = [(1, "cold", 2), (1, "warm", 2), (4, "warm", 2), (1, "warm", 8), (4, "warm", 8), (4, "once", 8)]
    values += [(9, "warm", 8)]  # with one load only
    rows = pd.DataFrame([(f, a, 1, load, 9.0 - i) for i, (f, a, load) in enumerate(values)], columns=names)
    rows = rows.assign(op="GET", loop="closed")
    rows.insert(0, "store", "s"), rows.insert(1, "workload", "get")
    found = latency.ends(rows)
    assert found.index.tolist() == [2, 4] and set(found["setting"]) == {"4 front-ends"}
    cold_only = latency.ends(rows[rows["access"] == "cold"])
    assert cold_only.index.tolist() == [0] and "cold" in cold_only["setting"][0]


def test_spectrum_has_panels_that_compare():
    """One system at one load has no panel; for two systems at one load, the title states it."""
    row = {"store": "a", "workload": "get", "engine": "e", "object_size_bytes": 1000, "n": 1, "op": "GET"}
    row |= {"loop": "closed", "concurrency": 8, "interval": "range"}
    row |= {k: v for name in latency.NAMES for k, v in spread(f"latency_{name}", "ms", 5.0).items()}
    alone = pd.DataFrame([row])
    figure = catalogue.FIGURES["latency_spectrum"]
    assert draw(figure, alone) is None and figure.count(alone) == 0
    fig = draw(figure, pd.DataFrame([row, row | {"store": "b"}]))
    assert fig.axes[0].get_title() == "GET 1 kB, 8 in flight" and not fig.axes[0].texts
    assert [t.get_text() for t in fig.legends[0].get_texts()] == ["a, closed loop", "b, closed loop"]


# Every cell of a drawn campaign, by plain loops

LEVELS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
ORDER = [*(f"latency_{n}" for n in LEVELS), "latency_max"]


def bounded(ended, least, level):
    """Return (quantile, whether it is a lower bound): operations of `least` are longer than all that ended."""
    rank = math.ceil(round(level * (len(ended) + len(least)), 6))
    return (sorted(ended)[rank - 1], False) if rank <= len(ended) else (sorted(ended + least)[rank - 1], True)


def spread_in_buckets(uppers):
    """Return values of a histogram, evenly spaced in their logarithm within their bucket."""
    counts, out, last = Counter(uppers), [], 0.0
    for upper in sorted(counts):
        low = max(upper / 1.02, last)
        out += [low * (upper / low) ** ((i + 0.5) / counts[upper]) for i in range(counts[upper])]
        last = upper
    return out


def expected_of(run):
    """Return column -> value in ms of one run, from its drawn operations."""
    single, ttfb, binned = [], [], any("latency_hist" in op for op in run.every)
    of = {"ended": [], "failed": [], "Hung": []}
    for op in run.every:
        kind = {None: "ended", "Hung": "Hung"}.get(op["error"], "failed")
        if "latency_hist" in op:
            if run.begin < op["end_ns"] and (op["end_ns"] <= run.first_end or kind == "Hung"):
                of[kind] += [b["upper_ns"] for b in op["latency_hist"] for _ in range(b["count"])]
            continue
        begun = op.get("intended_ns") or op["start_ns"]
        if begun <= run.first_end and (begun > run.begin or kind == "Hung"):
            took = op["end_ns"] - begun
            of[kind].append(round(1.02 ** math.ceil(math.log(took) / math.log(1.02))) if binned else took)
            single.append((op["client"], begun, op["end_ns"], kind))
            if kind == "ended" and op.get("first_byte_ns"):
                ttfb.append(op["first_byte_ns"] - begun)
    missed = []
    for engine in run.engines:
        waited = [i * run.n * S / run.point.axes["arrival_rate"] for i in range(engine.get("not_begun") or 0)]
        missed += [w for w in waited if w < run.duration - run.warm_up]
    out = {"binned": binned, "operations": len(of["ended"]), "failed": len(of["failed"]), "hung": len(of["Hung"])}
    least = ([u / 1.02 for u in of["Hung"]] if binned else of["Hung"]) + missed
    values, names = of["ended"], []
    every, plain = len(values) + len(least), spread_in_buckets(values) if binned and not least else values
    for name, level in LEVELS.items():
        value, bound = bounded(plain, least, level)
        known = every >= round(1 / (1 - level))
        out[f"latency_{name}"] = value / MS if known else None
        names += [f"latency_{name}"] if known and bound else []
    out |= {"not_begun": len(missed), "latency_max": max(values + least) / MS}
    out["bounds"] = {*names, "latency_max"} if least else set()
    for name in ("p50", "p99"):
        value, bound = bounded(ttfb, least, LEVELS[name]) if ttfb else (None, True)
        known = not binned and len(ttfb) >= round(1 / (1 - LEVELS[name])) and not bound
        out[f"ttfb_{name}"] = value / MS if known else None
    watched = all("pauses" in e for e in run.engines) and not binned and every >= 100
    out["paused"] = paused(run, single, int(bounded(plain, least, 0.99)[0])) if watched else None
    return out


def paused(run, single, longer):
    """Return the percentage of the tail that was in flight while its own client did not run."""
    tail = [(c, b, e) for c, b, e, kind in single if kind == "ended" and e - b > longer]
    stood = {c: engine["pauses"]["longest"] for c, engine in enumerate(run.engines)}
    met = [any(b < at + ns and e > at for at, ns in stood[c]) for c, b, e in tail]
    return 100 * sum(met) / len(met) if met else 0.0


@pytest.mark.parametrize("sweep", ["single", "due", "binned"])
def test_every_cell_of_latency(sweep):
    table, seen = drawn_cells.table("latency"), Counter()
    for group in drawn_cells.groups(sweep):
        of_runs, axes, op = [expected_of(r) for r in group], group[0].point.axes, group[0].point.workload.upper()
        expected = {c: sum(o[c] for o in of_runs) for c in ("operations", "failed", "hung", "not_begun")}
        expected |= drawn_cells.counted(group) | drawn_cells.cpu(group) | {"shared_host": False, "duration_s": 4.0}
        expected |= {"loop": "open" if sweep == "due" else "closed", "binned": any(o["binned"] for o in of_runs)}
        bounds = set().union(*(o["bounds"] for o in of_runs))
        expected["lower_bounds"] = ", ".join(m for m in ORDER if m in bounds) or None
        waits = [o["paused"] for o in of_runs if o["paused"] is not None]
        expected |= {"paused_percent": max(waits, default=None), "concurrency": axes["clients"] * axes["workers"]}
        expected |= dict.fromkeys(("access_proven", "disk_reads_percent", "first_over_again"))  # for cold reads only
        done = [100 * (o["operations"] + o["failed"]) / (r.length * 150) for o, r in zip(of_runs, group, strict=True)]
        expected["completed_percent"] = min(*done, 100.0) if sweep == "due" else None
        for metric in (*ORDER, "ttfb_p50", "ttfb_p99"):
            values = [o[metric] for o in of_runs]
            expected |= drawn_cells.spread(metric, "ms", [] if None in values else values)
        drawn_cells.check(drawn_cells.row_of(table, group[0], op=op), expected, group[0].point.key)
        assert set(expected) | drawn_cells.identity() == set(table.columns) - {"op"}
        seen.update(k for k in ("hung", "not_begun", "failed") if expected[k])
        seen.update({"paused"} if waits and max(waits) else set())
    assert seen["failed"] and seen["hung"] and bool(seen["not_begun"]) == (sweep == "due")
    assert bool(seen["paused"]) == (sweep != "binned"), "the drawn runs have every case"


def test_every_latency_of_points():
    """The median and p99 of the only kind of operation of a run, its pauses, and what never began."""
    table = drawn_cells.table("points").set_index("key")
    for key, run in drawn_cells.runs().items():
        watched = [330.0 + c for c, engine in enumerate(run.engines) if "pauses" in engine]
        expected = {"duration_s": run.duration / S, "warm_up_s": run.warm_up / S, "hung": None}
        expected |= {"pauses_ms": max(watched, default=None), "pause_longest_ms": max(watched, default=math.nan) - 30}
        waiting = [engine.get("not_begun") for engine in run.engines]
        expected["not_begun"] = None if None in waiting else sum(waiting)
        if run.point.sweep in ("single", "due", "binned"):
            known = expected_of(run)
            expected |= {f"{name}_ms": known[name] for name in ("latency_p50", "latency_p99", "ttfb_p50")}
            expected["latency_lower_bounds"] = ", ".join(m for m in ORDER if m in known["bounds"]) or None
        drawn_cells.check(table.loc[key], expected, key)

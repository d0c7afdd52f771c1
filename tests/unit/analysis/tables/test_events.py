"""Events processed: rates of the window and totals of the run, the figure with published points, the numbers."""

import math
from operator import itemgetter

import drawn_cells
import pandas as pd
import pytest
from tex_files import TexFiles
from throughput_rows import only_row

from campaigns import built
from storelab.analysis.figures import catalogue
from storelab.analysis.figures import events as figures_events
from storelab.analysis.figures.draw import draw
from storelab.analysis.parts import groups
from storelab.analysis.records import published
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import build, reads
from storelab.core import records

S = 10**9


@pytest.fixture(scope="module")
def table():
    return build.read(built("timed"), "events")


def test_rates_of_window_and_totals_of_run(table):
    """Jobs without a cache make 10 steps/s, of 20 events and 100 kB in 10 requests."""
    assert len(table) == 3 * 2 * 2 and set(table["nodes"]) == {1}
    row = only_row(table, engine="fsspec", cache="none", navigation="scan", clients=1)
    expected = {"n": 1, "events_median_per_s": 200, "events_low_per_s": 200, "processed_median_events": 800}
    expected |= dict.fromkeys((f"{n}_median_mb_per_s" for n in ("wire", "needed", "asked")), 1.0)
    expected |= {"wire_median_bytes_per_event": 5000, "requests_median_per_event": 0.5, "amplification_median_ratio": 1}
    expected |= {"opening_median_mb": 1.0, "opening_median_requests": 3, "moved_median_mb": 5.0}
    assert row[[*expected]].to_dict() == pytest.approx(expected)
    ahead = only_row(table, cache="readahead", navigation="random", clients=2)
    expected = {"amplification_median_ratio": 3, "wire_median_bytes_per_event": 15_000}
    assert ahead[[*expected, "requests_median_per_event"]].tolist() == [*expected.values(), 0.05]


def test_steps_in_window_shorter_than_a_second(tmp_path):
    """One event in one step of a second, which ends half a second after the window; the next begins later."""
    names = (
        "client",
        "entries",
        "needed_bytes",
        "asked_bytes",
        "wire_bytes",
        "requests",
        "start_ns",
        "end_ns",
        "open_ns",
    )
    steps = [(0, 1, 1000, 1500, 2000, 2, S + 1, 2 * S, 0), (0, 7, 5, 5, 5, 5, 8 * S, 9 * S, 0)]
    columns = dict(zip(names, map(list, zip(*steps, strict=True)), strict=True))
    records.write_table(tmp_path / "raw" / "k" / "reads.0.parquet", records.READS, columns)
    opening = {"requests": 1, "asked_bytes": 1, "wire_bytes": 1}
    client = {"client": 0, "start_ns": 1, "end_ns": S + S // 2 + 1, "engine": {"opening": opening}}
    run = {"schema": 3, "start_ns": 1, "deadline_ns": 10 * S, "clients": [client], "files": {"reads.0.parquet": {}}}
    run["point"] = {"workload": "events", "fixed": {"warm_up_ns": S}, "axes": {"clients": 1}}
    plan = {"points": [{"key": "k", "workload": "events", "axes": {}, "store": "s"}], "workloads": {}, "stores": {}}
    row = reads.event_runs(Campaign(tmp_path, plan, {"k": run}, {})).loc["k"]
    assert row["events_per_s"] == pytest.approx(1) and row["wire_mb_per_s"] == pytest.approx(0.002)
    found = row[["wire_bytes_per_event", "needed_bytes_per_event", "requests_per_event", "amplification_ratio"]]
    assert found.tolist() == pytest.approx([2000, 1000, 2, 2])
    assert (row["processed_events"], row["moved_mb"]) == (0, 0), "no step was complete when the first job stopped"


def test_campaign_without_events_has_columns_only():
    found = build.read(built("one_each"), "events")
    assert found.empty and set(groups.spread(reads.EVENT_METRICS)) < set(found.columns)
    assert draw(catalogue.FIGURES["events_throughput"], found) is None and reads.events_numbers(found) == []


def test_unknown_wire_bytes_are_not_zero(table):
    rows = table.assign(**{f"wire_{part}_mb_per_s": math.nan for part in ("median", "low", "high")})
    lines = figures_events.events_throughput(rows).axes[0].lines
    assert len(lines) >= 3 and max(line.get_xdata().max() for line in lines if len(line.get_xdata())) > 0
    moved = {n: v for n, v, _ in reads.events_numbers(rows)}["events_scan_most_moved"]
    assert moved == pytest.approx(10.0, rel=1e-3)


def test_figure_keeps_published_points_on_separate_axes(table):
    fig = figures_events.events_throughput(table)
    assert len(fig.axes) == 4
    printed = published.load("hepix_2010_storage_lab").dropna()
    panels = zip(fig.axes[::2], fig.axes[1::2], ("scan", "random"), ("CMS", "ATLAS"), strict=True)
    for ours, theirs, navigation, use_case in panels:
        assert navigation in ours.get_title() and "measured here" in ours.get_title()
        assert theirs.get_title().startswith("published: HEPiX 2010") and use_case in theirs.get_title()
        assert "MB/s" in ours.get_xlabel() and "Events/s" in ours.get_ylabel() and "millions" in theirs.get_ylabel()
        case = printed[printed["use_case"] == use_case]
        drawn = sorted((x, y) for line in theirs.lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True))
        assert drawn == sorted(zip(case["mb_per_s"], case["events"] / 1e6, strict=True))
        assert theirs.get_facecolor() != ours.get_facecolor()
        rows = table[table["navigation"] == navigation]
        measured = set(zip(rows["wire_median_mb_per_s"], rows["events_median_per_s"], strict=True))
        points = {(x, y) for line in ours.lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}
        assert measured <= points and max(y for _, y in points) < 10_000
        assert [t.get_text() for t in ours.texts] == ["2"] * 3, "the number of jobs at the end of each line"
    shown = [t.get_text() for t in fig.legends[0].get_texts()]
    assert shown == ["alpha, no cache", "alpha, planned", "alpha, readahead of 1 MiB"]


def test_text_compares_settings_on_equal_terms():
    value = build.read(built("timed"), "numbers").set_index("name")["value"]
    names = ("jobs", "most_setting", "least_setting")
    assert [value[f"events_scan_{name}"] for name in names] == ["2 jobs", "planned", "no cache"]
    assert float(value["events_random_factor"]) == pytest.approx(50 / 5, rel=1e-3)
    assert float(value["events_random_least_moved"]) == pytest.approx(3.0, rel=1e-3)
    assert float(value["published_cache_factor"]) == pytest.approx(4024395 / 895540)


def test_planned_reads_are_compared_with_largest_window():
    """On `a` 2 MiB read ahead move 4 kB for an event and planned reads 1 kB, on `b` both 2 kB."""
    names = ["store", "workload", "engine", "navigation", "clients", "cache", "read_ahead_bytes", "n"]
    names += ["events_median_per_s", "wire_median_mb_per_s", "asked_median_mb_per_s"]
    rows = [("a", "readahead", 2**21, 100, 0.4), ("a", "readahead", 2**17, 10, 0.01), ("a", "none", 0, 5, 0.001)]
    rows += [("b", "readahead", 2**21, 100, 0.2)]
    planned = [("a", "none", 0, 300, 0.3), ("b", "none", 0, 50, 0.1)]
    every = [*(("fsspec", *r) for r in rows), *(("planned", *r) for r in planned)]
    found = [(store, "events", engine, "random", 4, c, a, 1, e, mb, 0.0) for engine, store, c, a, e, mb in every]
    table = pd.DataFrame(found, columns=names).assign(thrift=0, max_amplification=0)
    content = {name.removeprefix("events_random_"): value for name, value, _ in reads.events_numbers(table)}
    assert (content["planned"], content["planned_moved"]) == ("0.500 to 3", "0.250 to 1")
    assert content["planned_fewer"] == "1 of 2 systems" and content["factor_span"] == "2 to 60"


def test_paper_has_section_of_events():
    tex = TexFiles("timed", "events_throughput")
    assert tex["table_events"].count("emph{") == 2
    assert all(part in tex["table_events"] for part in ("2 jobs", "readahead of 1~MiB", "15~kB"))
    assert r"Figure~\ref{fig:events_throughput} shows the events" in tex["paper"]
    assert "In the scan, 2 jobs" in tex["paper"]


def test_names_of_settings():
    base = {"engine": "fsspec", "cache": "none", "read_ahead_bytes": 0, "thrift": 0, "max_amplification": 0}
    cases = [
        ({}, "no cache"),
        ({"cache": "all"}, "whole file kept"),
        ({"cache": "blockcache", "read_ahead_bytes": 4096}, "blockcache of 4 KiB"),
        ({"engine": "planned", "max_amplification": 3}, "planned, at most 3"),
    ]
    for change, name in cases:
        assert reads.setting(base | change) == name, change


def test_verdicts_distinguish_settings():
    what = build.read(built("timed"), "verdicts").query("workload == 'events'")["what"].tolist()
    one = "file S, 100 % of volume, random navigation, cache readahead, 1 MiB read ahead, steps of 20 events, 2 files"
    assert len(set(what)) == 4 and one in what


def test_many_lines_have_colour_of_system_and_marker_of_setting():
    rows = pd.DataFrame([(s, f"{s}, {c}", c) for s in "abc" for c in "wxyz"], columns=["store", "series", "setting"])
    order, key = figures_events._looks(rows)
    colours = {s: {order[f"{s}, {c}"][0] for c in "wxyz"} for s in "abc"}
    markers = {c: {order[f"{s}, {c}"][1] for s in "abc"} for c in "wxyz"}
    assert all(len(own) == 1 for own in (*colours.values(), *markers.values()))
    assert len(set.union(*colours.values())) == 3 and len(set.union(*markers.values())) == 4
    assert [line.get_label() for line in key] == [*"abc", *"wxyz"]
    few, same = figures_events._looks(rows[rows["store"] == "a"])
    assert few == same and len({colour for colour, _ in few.values()}) == 4


# Every cell of a drawn campaign, by plain loops


def expected_of(run):
    rows = drawn_cells.without_openings(run)
    done = [r for r in rows if r["end_ns"] <= run.first_end]
    known = all(r["wire_bytes"] is not None for r in rows)
    rates = {n: drawn_cells.rate(run, rows, itemgetter(f"{n}_bytes")) for n in ("needed", "asked", "wire")}
    processed = drawn_cells.rate(run, rows, itemgetter("entries"))
    out = {f"{n}_mb_per_s": rates[n] / 1e6 for n in rates} | {"events_per_s": processed}
    out |= {f"{n}_bytes_per_event": rates[n] / processed for n in ("wire", "needed")}
    out["requests_per_event"] = drawn_cells.rate(run, rows, itemgetter("requests")) / processed
    out |= {"amplification_ratio": rates["wire"] / rates["needed"], "processed_events": sum(r["entries"] for r in done)}
    opened = [(r["opening"] or {"wire_bytes": 0})["wire_bytes"] for r in done]
    out["moved_mb"] = sum(r["wire_bytes"] + o for r, o in zip(done, opened, strict=True)) / 1e6 if known else math.nan
    return out | drawn_cells.openings(rows)


def test_every_cell_of_events():
    table, groups = drawn_cells.table("events"), drawn_cells.groups("jobs")
    for group in groups:
        of_runs = [expected_of(r) for r in group]
        expected = drawn_cells.counted(group) | drawn_cells.cpu(group)
        expected |= {"nodes": group[0].n, "shared_host": False, "duration_s": 4.0, "few": drawn_cells.few(group)}
        for column in of_runs[0]:
            name, _, unit = column.partition("_")
            expected |= drawn_cells.spread(name, unit, [o[column] for o in of_runs])
        assert set(expected) | drawn_cells.identity() == set(table.columns)
        drawn_cells.check(drawn_cells.row_of(table, group[0]), expected, group[0].point.key)
    assert len(groups) == len(table) == 4 and {len(g) for g in groups} == {2, 3}

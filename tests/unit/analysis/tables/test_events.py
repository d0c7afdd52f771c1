"""Events processed: the table from steps whose rates are known exactly, the figure beside the published points, the text's numbers."""

import pandas as pd
import pytest
from make_examples import EVENTS, make

from storelab.analysis.figures import catalogue, write
from storelab.analysis.figures.draw import draw
from storelab.analysis.figures.reading import events as figures_events
from storelab.analysis.latex import write as latex
from storelab.analysis.records import published
from storelab.analysis.tables import build, events


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    make(folder, sweeps=EVENTS, repetitions=3, failed=("alpha/events/step~0020_clients~0002_files~0002_rep~003",))
    build.build(folder)
    write.build(folder)
    latex.build(folder)
    return folder


@pytest.fixture(scope="module")
def table(built):
    return build.read(built, "events")


def one(table: pd.DataFrame, **wanted) -> pd.Series:
    rows = table
    for column, value in wanted.items():
        rows = rows[rows[column] == value]
    assert len(rows) == 1, rows
    return rows.iloc[0]


def test_rates_are_of_the_window_and_totals_of_the_whole_run(table):
    """Two jobs without a cache: 10, 11, 9 steps/s by repetition, of 20 events and 100 kB in 10 requests; the third repetition failed for 2 jobs."""
    assert len(table) == 3 * 2 * 2 and set(table["nodes"]) == {1}
    r = one(table, engine="fsspec", cache="none", navigation="scan", clients=1)
    assert r["n"] == 3 and (r["events_median_per_s"], r["events_low_per_s"], r["events_high_per_s"]) == (200, 180, 220)
    assert (r["wire_median_mb_per_s"], r["needed_median_mb_per_s"], r["asked_median_mb_per_s"]) == (1.0, 1.0, 1.0)
    assert (r["wire_median_bytes_per_event"], r["requests_median_per_event"], r["amplification_median_ratio"]) == (
        5000,
        0.5,
        1.0,
    )
    assert (r["processed_median_events"], r["processed_high_events"]) == (800, 880), (
        "four seconds, the warm-up too; nothing of the grace"
    )
    assert r["moved_median_mb"] == pytest.approx(5.0) and (r["opening_median_mb"], r["opening_median_requests"]) == (
        1.0,
        3,
    )
    two = one(table, engine="fsspec", cache="none", navigation="scan", clients=2)
    assert two["n"] == 2 and (two["events_low_per_s"], two["events_high_per_s"]) == pytest.approx((400, 440), rel=1e-3)
    ahead = one(table, cache="readahead", navigation="random", clients=2)
    assert (
        ahead["amplification_median_ratio"] == 3
        and ahead["wire_median_bytes_per_event"] == 15_000
        and ahead["requests_median_per_event"] == 0.05
    )


def test_a_campaign_without_events_has_an_empty_table_with_its_columns(tmp_path):
    make(tmp_path, sweeps={"up": {"workload": "put", "duration": "4 s", "axes": {}}}, repetitions=1)
    build.build(tmp_path, ["events"])
    found = build.read(tmp_path, "events")
    assert found.empty and set(events.COLUMNS) < set(found.columns)
    assert draw(catalogue.FIGURES["events_throughput"], found) is None and events.numbers(found) == []


def test_wire_bytes_that_nobody_told_are_no_zero(built, table, monkeypatch):
    rows = table.assign(
        wire_median_mb_per_s=float("nan"), wire_low_mb_per_s=float("nan"), wire_high_mb_per_s=float("nan")
    )
    fig = figures_events.events_throughput(rows)
    assert (
        len(fig.axes[0].lines) >= 3
        and max(line.get_xdata().max() for line in fig.axes[0].lines if len(line.get_xdata())) > 0
    )
    assert {n: v for n, v, _ in events.numbers(rows)}["events_scan_most_moved"] == pytest.approx(10.0, rel=1e-3)


def test_the_figure_keeps_published_points_on_axes_of_their_own(table):
    fig = figures_events.events_throughput(table)
    assert len(fig.axes) == 4
    printed = published.load("hepix_2010_storage_lab").dropna()
    for ours, theirs, navigation, use_case in zip(
        fig.axes[::2], fig.axes[1::2], ("scan", "random"), ("CMS", "ATLAS"), strict=True
    ):
        assert navigation in ours.get_title() and "measured here" in ours.get_title()
        assert theirs.get_title().startswith("published: HEPiX 2010") and use_case in theirs.get_title()
        assert "MB/s" in ours.get_xlabel() and "Events/s" in ours.get_ylabel() and "millions" in theirs.get_ylabel()
        case = printed[printed["use_case"] == use_case]
        drawn = sorted((x, y) for line in theirs.lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True))
        assert drawn == sorted(zip(case["mb_per_s"], case["events"] / 1e6, strict=True))
        assert theirs.get_facecolor() != ours.get_facecolor()
        rows = table[table["navigation"] == navigation]
        measured = sorted(zip(rows["wire_median_mb_per_s"], rows["events_median_per_s"], strict=True))
        points = {(x, y) for line in ours.lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}
        assert set(measured) <= points and max(y for _, y in points) < 10_000
        assert sorted(t.get_text() for t in ours.texts) == sorted(["1", "2"] * 3), (
            "the number of jobs stands beside each point"
        )
    said = [t.get_text() for t in fig.legends[0].get_texts()]
    assert said == ["alpha, no cache", "alpha, planned", "alpha, readahead of 1 MiB"]


def test_the_text_compares_settings_on_equal_terms(built):
    value = build.read(built, "numbers").set_index("name")["value"]
    assert (
        value["events_scan_jobs"] == "2 jobs"
        and value["events_scan_most_setting"] == "planned"
        and value["events_scan_least_setting"] == "no cache"
    )
    assert float(value["events_random_factor"]) == pytest.approx(50 / 5, rel=1e-3) and float(
        value["events_random_least_moved"]
    ) == pytest.approx(3.0, rel=1e-3)
    assert float(value["published_cache_factor"]) == pytest.approx(4024395 / 895540)


def test_the_paper_has_a_section_of_them(built):
    text = (built / "tex" / "table_events.tex").read_text()
    assert text.count("emph{") == 2 and "2 jobs" in text and "readahead of 1~MiB" in text and "15~kB" in text
    assert r"\input{sections/events}" in (built / "tex" / "sections.tex").read_text()
    flags = (built / "tex" / "figures.tex").read_text()
    assert r"\HasEventsThroughputtrue" in flags and r"\HasEventsScantrue" in flags and "grey ground" in flags


def test_settings_in_words():
    base = {"engine": "fsspec", "cache": "none", "read_ahead_bytes": 0, "thrift": 0, "max_amplification": 0}
    said = [
        events.setting(base | more)
        for more in ({}, {"cache": "all"}, {"cache": "blockcache", "read_ahead_bytes": 4096})
    ]
    assert said == ["no cache", "whole file kept", "blockcache of 4 KiB"]
    assert events.setting(base | {"engine": "planned", "max_amplification": 3}) == "planned, at most 3"


def test_verdicts_tell_the_settings_apart(built):
    found = build.read(built, "verdicts")
    what = found[found["workload"] == "events"]["what"].tolist()
    assert (
        len(set(what)) == 4
        and "file S, 100 % of volume, random navigation, cache readahead, 1 MiB read ahead, steps of 20 events, 2 files"
        in what
    )


def test_of_too_many_lines_the_colour_is_the_system_and_the_marker_the_setting():
    rows = pd.DataFrame([(s, f"{s}, {c}", c) for s in "abc" for c in "wxyz"], columns=["store", "series", "setting"])
    order, key = figures_events._looks(rows)
    colours = {s: {order[f"{s}, {c}"][0] for c in "wxyz"} for s in "abc"}
    markers = {c: {order[f"{s}, {c}"][1] for s in "abc"} for c in "wxyz"}
    assert all(len(own) == 1 for own in (*colours.values(), *markers.values()))
    assert len(set.union(*colours.values())) == 3 and len(set.union(*markers.values())) == 4
    assert [line.get_label() for line in key] == [*"abc", *"wxyz"]
    few, same = figures_events._looks(rows[rows["store"] == "a"])
    assert few == same and len({colour for colour, _ in few.values()}) == 4

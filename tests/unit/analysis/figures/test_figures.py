"""Figures: those with data are drawn with units, bars and n, the others are left out; same tables, same bytes."""

import shutil
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import combinations, pairwise

import pandas as pd
import pytest
from drawn_texts import texts
from make_examples import METADATA, ONE_EACH, make
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from storelab.analysis.figures import catalogue, panels, plots, write
from storelab.analysis.figures.draw import draw
from storelab.analysis.figures.specification import Curve, Measure, Specification
from storelab.analysis.figures.throughput import MB_PER_S, PER_S, limits
from storelab.analysis.latex import rates as latex_rates
from storelab.analysis.tables import build
from storelab.analysis.tables.throughput import numbers
from storelab.core import records
from storelab.core.errors import UserError

ELSEWHERE = {  # figures of campaigns with several systems, roles, parts, other workloads
    *("systems", "front_ends", "buckets", "space", "latency_closed", "latency_open", "latency_spectrum"),
    *("errors_over_time", "metadata_stat", "metadata_list", "threads", "client_resources", "volume", "replay"),
    *("phases", "role_phases", "soak", "releases", "launches", "gaps", "front", "events_throughput", "events_bars"),
    *("distributions", "earlier"),
}
OF_ONE_SYSTEM = [name for name in catalogue.FIGURES if name not in ELSEWHERE]


RATE = Measure((Curve("rate", "ps"),), "Rate")


@pytest.mark.parametrize("name", OF_ONE_SYSTEM)
def test_each_figure_says_what_it_shows(example, name):
    fig = draw(catalogue.FIGURES[name], build.read(example, catalogue.FIGURES[name].table))
    shown = texts(fig)
    assert (
        ("Clients" in shown or name == "entries") and "n = " in shown and "range" in shown and "share one host" in shown
    )
    assert ("10 MB" in shown and "MB/s" in shown) if name.startswith("throughput") else True
    assert ("4 kB" in shown and "objects/s" in shown) if name.startswith("metadata") else True
    if name != "entries":
        assert "1 front-end" in shown and "2 front-ends" in shown and "s5cmd" in shown
        assert list(fig.axes[0].get_xticks()) == [1, 2, 4]


def test_operations_without_bytes_are_shown_as_rate(tmp_path):
    sweeps = {k: s | {"axes": s["axes"] | {"clients": [1, 2, 4]}} for k, s in METADATA.items()}
    make(tmp_path, sweeps=sweeps, repetitions=2)
    build.build(tmp_path, ["throughput"])
    table = build.read(tmp_path, "throughput")
    rates = table.set_index(["workload", "object_size_bytes", "clients"])["rate_median_per_s"]
    assert rates["stat", 4000, 2] > 9 * rates["stat", 10**7, 2] > 0 and (table["throughput_median_mb_per_s"] == 0).all()
    shown = texts(draw(catalogue.FIGURES["metadata_stat"], table))
    assert "HEAD requests [objects/s]" in shown and "4 kB" in shown and "10 MB" in shown and "MB/s" not in shown
    best = {name: value for name, value, _ in numbers(table)}
    assert best["best_metadata_stat"] == rates["stat", 4000, 4] and not {n for n in best if "throughput" in n}
    keys = table[table["workload"] == "list"].set_index(["page_size", "clients"])["rate_median_per_s"]
    assert keys[1000, 2] == pytest.approx(2 * 5.5 * 1000, rel=0.1) and best["best_metadata_list"] == keys.max()
    shown = texts(draw(catalogue.FIGURES["metadata_list"], table))
    assert "Keys listed [keys/s]" in shown and "1000 keys" in shown and "pages of 100" in shown and "n = 2" in shown
    typeset = latex_rates.throughput(table)
    assert "keys/s" in typeset


@pytest.fixture(scope="module")
def reads(tmp_path_factory):
    """Return a campaign with reads by volume with two engines, and with replayed ranges."""
    folder = tmp_path_factory.mktemp("reads")
    volume = {"volume_fraction": [100, 1], "clients": [1, 2, 4]}
    sweeps = {
        "v": {"workload": "read_volume", "duration": "4 s", "axes": volume | {"engine": ["uproot-s3fs", "planned"]}},
        "r": {"workload": "replay", "duration": "4 s", "axes": volume | {"merge": ["planned", "gap"]}},
    }
    make(folder, sweeps=sweeps, repetitions=2)
    build.build(folder, ["sparse"])
    return folder


def test_reads_by_volume_and_replays_have_separate_figures(reads):
    table = build.read(reads, "sparse")
    assert set(table.loc[table["workload"] == "read_volume", "entry_fraction_percent"]) == {100}
    assert draw(catalogue.FIGURES["entries"], table) is None
    for name, words in (
        ("volume", ("100 % of volume, planned", "1 % of volume, uproot-s3fs", "entries/s", "Volume [%], 1 client")),
        ("replay", ("1 % of volume, fixed gap", "Selections read [1/s]", "obstore")),
        ("phases", ("Time of one read [ms]", "transfer", "deserialise")),
    ):
        fig = draw(catalogue.FIGURES[name], table)
        shown = texts(fig) + str([t.get_text() for t in fig.axes[0].get_yticklabels()])
        assert "n = 2" in shown or "2 runs" in shown
        assert all(w in shown for w in words), shown
        assert "planned" in catalogue.caption(catalogue.FIGURES[name], table) or name == "replay"
    bars = draw(catalogue.FIGURES["phases"], table).axes[0]
    assert len(bars.patches) == 4 * 4 and {round(p.get_width()) for p in bars.patches} == {100, 20}


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    """Ranges replayed with fixed gaps, and planned by thrift and bound; copies of a read."""
    folder = tmp_path_factory.mktemp("requests")
    replay = {"workload": "replay", "duration": "4 s"}
    volume = {"volume_fraction": [100, 1]}
    sweeps = {
        "gaps": replay | {"axes": volume | {"merge": "gap", "max_range_gap": ["0 B", "32 KiB", "1 MiB"]}},
        "front": replay | {"axes": volume | {"thrift": [0, 15], "max_amplification": [0, 3]}},
        "copies": {
            "workload": "read_volume",
            "duration": "4 s",
            "axes": volume | {"clients": [1, 2, 4], "buckets": [1, 2]},
        },
    }
    make(folder, sweeps=sweeps, repetitions=2)
    build.build(folder, ["sparse"])
    return build.read(folder, "sparse")


def by_clients(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of one client as rows of 1, 2 and 4 clients."""
    return pd.concat([rows.assign(clients=n) for n in (1, 2, 4)], ignore_index=True)


def test_gaps_and_the_front(requests):
    fig = draw(catalogue.FIGURES["gaps"], requests)
    assert all(w in texts(fig) for w in ("Largest gap merged", "Requests of one read", "1 % of volume", "n = 2"))
    assert [t.get_text() for t in fig.axes[0].get_xticklabels()] == ["0", "32 KiB", "1 MiB"]
    dashed = [line for line in fig.axes[1].lines if line.get_linestyle() == "--"]
    assert {line.get_ydata()[0] for line in dashed} == {8, 16}  # what the planner asked for, of both selections
    fig = draw(catalogue.FIGURES["front"], requests)
    shown = [{t.get_text() for t in ax.texts} for ax in fig.axes]
    labels = {"0 B", "32 KiB", "1 MiB", "least time", "at most 3×", "thrift 15", " needed"}
    assert labels == shown[0] and len(shown) == 2
    for name, word in (("front", "thrift"), ("gaps", "obstore")):
        assert word in catalogue.caption(catalogue.FIGURES[name], requests)
    one = requests[(requests["max_range_gap_bytes"] == 32768) | (requests["merge"] != "gap")]
    assert draw(catalogue.FIGURES["gaps"], one) is None


def test_a_row_of_panels_for_each_number_of_copies(requests):
    fig = draw(catalogue.FIGURES["volume"], requests)
    titles = ["alpha, one bucket", "alpha, a copy in each of 2 buckets"]
    assert [ax.get_title() for ax in fig.axes if ax.get_title()] == titles
    replayed = draw(catalogue.FIGURES["replay"], by_clients(requests))  # the other requests have separate figures
    assert len(replayed.legends[0].get_texts()) == 4
    old = requests[requests["workload"] == "read_volume"].drop(columns="buckets")
    assert len(draw(catalogue.FIGURES["volume"], old).axes) == 3


def test_eight_curves_of_two_axes_become_panels(reads):
    """Four volumes by two readers have a row for each reader, with the colours of the volumes.

    Eight volumes by one reader have an ordered palette.
    """
    table = build.read(reads, "sparse")
    table = table[table["workload"] == "read_volume"]

    def of(volumes, engines):
        rows = table[table["volume_fraction_percent"].eq(100) & table["engine"].isin(engines)]
        every = pd.concat([rows.assign(volume_fraction_percent=v) for v in volumes], ignore_index=True)
        return panels.layout_of(catalogue.FIGURES["volume"], every)

    both = of([100, 50, 10, 1], ["planned", "uproot-s3fs"])
    assert both.series == [f"{v} % of volume" for v in (100, 50, 10, 1)] and len(both.panels) == 6
    assert [p.heading for p in both.panels if p.heading] == ["alpha, planned", "alpha, uproot-s3fs"]
    three = of([100, 50, 1], ["planned", "uproot-s3fs"])
    assert len(three.panels) == 3 and len(three.series) == 6
    one = of([100, 75, 50, 20, 10, 5, 2, 1], ["planned"])
    assert one.ordered and len(one.panels) == 3 and len(one.series) == 8


def lines_of(ax) -> dict[str, list[list[tuple[float, float]]]]:
    """Return the dashed and dotted lines of a panel, in the order of their ends, by dash."""
    found = {"--": [], ":": []}
    for line in ax.lines:
        if line.get_linestyle() in found and len(line.get_xdata()):
            found[line.get_linestyle()].append([*zip(line.get_xdata(), line.get_ydata(), strict=True)])
    return found


def test_ceilings_of_engines_are_drawn_over_their_points(example):
    """50 objects of 10 MB a second; none where cores are shared, or where the links are known."""
    table, known = build.read(example, "throughput"), catalogue.FIGURES["throughput_download"]
    rows = table.query("workload == 'get' and object_size_bytes == 10e6")
    points = sorted({(c, 500.0) for c in rows["clients"]})
    far = table.assign(nodes=4, ceiling_rate_per_s=50.0, ceiling_of="client")
    for changed, drawn in ((far, [points]), (table, []), (far.assign(ceiling_of="shared cores"), [])):
        ax = draw(known, changed).axes[0]
        assert lines_of(ax) == {"--": [], ":": drawn}
        assert [t.get_text() for t in ax.texts] == ["ceiling of s5cmd"] * len(drawn)
    linked = far.assign(ceiling_of="link")
    assert lines_of(draw(known, linked).axes[0])[":"] == [points]
    assert lines_of(draw(known, linked.assign(link_bits_per_s=8e9)).axes[0])[":"] == []
    both = pd.concat([far.assign(ceiling_rate_per_s=90.0, engine="loadgen").query("clients == 1"), far])
    ax = draw(known, both).axes[0]
    ends = [line[-1] for line in lines_of(ax)[":"]]
    assert [y for _, y in ends] == [900.0, 500.0] and ends[0][0] < 2 and ends[1][0] == points[-1][0]
    assert [t.get_text() for t in ax.texts] == ["ceiling of loadgen", "ceiling of s5cmd"]


def test_links_are_named_and_drawn_over_points_near_them(example):
    """Clients have 100 MB/s each, front-ends 150: with 1, 2 and 4 clients, 1 or 2 of them."""
    table, known = build.read(example, "throughput"), catalogue.FIGURES["throughput_download"]
    rows = table[table["workload"] == "get"]
    bits = pd.concat([8e8 * rows["clients"], 12e8 * rows["front_ends"]], axis=1).min(axis=1)
    of = (8e8 * rows["clients"] <= 12e8 * rows["front_ends"]).map({True: "clients", False: "front-ends"})
    linked = rows.assign(link_bits_per_s=bits, link_of=of, link_used_percent=90.0)
    ax = draw(known, linked).axes[0]
    clients = sorted({(c, 100.0 * c) for c in rows["clients"][of == "clients"]})
    *dashed, last = lines_of(ax)["--"]
    assert dashed[0] == clients and {y for line in dashed[1:] for _, y in line} <= {150.0, 300.0}
    assert len({y for _, y in last}) == 1
    assert [t.get_text() for t in ax.texts] == ["clients' links", *["front-ends' links"] * len(dashed)]
    assert "half of it or more" in catalogue.caption(known, linked)
    far = linked.assign(link_used_percent=49.0)
    assert lines_of(draw(known, far).axes[0])["--"] == [] and "half of it" not in catalogue.caption(known, far)
    small = draw(catalogue.FIGURES["metadata_download"], linked).axes[0]
    assert lines_of(small)["--"][0] == [(c, mb * 1e6 / 4000) for c, mb in clients], "objects of 4 kB a second"


def test_lines_of_links_are_left_out_where_they_mean_nothing():
    """Objects of two sizes have no common limit in objects a second; HEAD requests move no payload."""
    row = {"workload": "put", "object_size_bytes": 4000, "clients": 8, "engine": "obstore", "front_ends": 2}
    row |= {"link_bits_per_s": 8e8, "link_of": "front-ends", "link_used_percent": 90.0, "ceiling_rate_per_s": None}
    per_s, mb = (Measure((curve,), "") for curve in (PER_S, MB_PER_S))
    cases = [
        ([row], per_s, [25_000]),
        ([row, row | {"object_size_bytes": 8000, "clients": 4}], per_s, []),
        ([row, row | {"object_size_bytes": 8000, "clients": 4}], mb, [100]),
        ([row | {"workload": "stat"}], per_s, []),
        ([row, row | {"clients": 999, "link_used_percent": 1.0}], mb, [100]),
    ]
    for rows, measure, values in cases:
        found = list(limits(pd.DataFrame(rows), measure))
        assert [line.at.max() for line in found] == values, rows
    (short,) = limits(pd.DataFrame(cases[-1][0]), mb)
    assert list(short.at.index) == pytest.approx([8 - 8 / 3, 8 + 8 / 3]), "no line reaches zero on any axis"


def test_captions_name_ceilings_and_shared_cores(example):
    table = build.read(example, "throughput")
    far = table.assign(nodes=4, ceiling_rate_per_s=50.0, ceiling_of="client")
    # the example's clients and server share a host
    for name, words, where in (("throughput_download", "near-null server", far), ("front_ends", "cannot show", table)):
        captions = {id(t): catalogue.caption(catalogue.FIGURES[name], t) for t in (far, table)}
        assert [words in caption for caption in captions.values()] == [where is far, where is table], name


def test_the_bars_are_the_range(example):
    table = build.read(example, "throughput")
    fig = draw(catalogue.FIGURES["metadata_upload"], table)
    bars = [c for c in fig.axes[0].collections if hasattr(c, "get_segments")]
    ends = {round(y, 6) for bar in bars for segment in bar.get_segments() for y in segment[:, 1]}
    rows = table[(table["workload"] == "put") & (table["object_size_bytes"] == 4000)]
    assert {round(v, 6) for v in rows["rate_low_per_s"]} | {round(v, 6) for v in rows["rate_high_per_s"]} <= ends


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """Return throughput.csv of downloads by 4 and 8 workers of 1, 2 and 4 clients, from two stores."""
    folder = tmp_path_factory.mktemp("workers")
    axes = {"object_size": "10 MB", "clients": [1, 2, 4], "workers": [4, 8]}
    sweeps = {"d": {"workload": "get", "duration": "4 s", "axes": axes}}
    make(folder, stores_to_measure=["alpha", "beta"], sweeps=sweeps, repetitions=6)
    build.build(folder, ["throughput", "points"])
    return folder, build.read(folder, "throughput")


def test_one_panel_per_store_and_a_curve_per_swept_axis(workers):
    fig = draw(catalogue.FIGURES["throughput_download"], workers[1])
    assert [ax.get_title() for ax in fig.axes] == ["alpha", "beta"]
    assert "4 workers" in texts(fig) and "95 % interval" in texts(fig) and "some clients share" in texts(fig)


@pytest.mark.heavy
def test_without_data_nothing_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(Figure, "savefig", lambda figure, sink, **options: sink.write(b""))
    sizes = {"object_size": ["4 kB", "10 MB"], "clients": [1, 2, 4], "front_ends": [1, 2, 3]}
    sweeps = ONE_EACH | {"download": ONE_EACH["download"] | {"axes": sizes}}
    make(tmp_path, failed=("put", "read_entries"), sweeps=sweeps)
    build.build(tmp_path)
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/entries.pdf").write_text("of an older state")
    write.build(tmp_path)
    index = records.read_json(tmp_path / "figures/index.json")["figures"]
    rates = {"throughput_download", "metadata_download", "front_ends"}
    assert set(index) == {*rates, "errors_over_time", "distributions", "earlier"}
    assert not (tmp_path / "figures/entries.pdf").exists() and (tmp_path / "figures/metadata_download.pdf").exists()
    empty, others = (
        pd.DataFrame({"workload": [], "n": []}),
        {k: v for k, v in catalogue.FIGURES.items() if k != "entries"},
    )
    assert [name for name, spec in others.items() if draw(spec, empty) is not None] == []


def test_sweep_reports_number_of_omitted_points():
    """Store a has a curve; of b and c one value of x was measured each, and of d none."""
    spec = Specification(table="t", caption="", measures=(RATE,), title="", swept=True, hue=())
    columns = {"store": [*"aaabcd"], "clients": [1, 2, 4, 1, 2, 4], "n": 3, "rate_median_ps": [1.0, 2, 3, 4, 5, None]}
    rows = pd.DataFrame(columns, index=range(5, 11))
    assert panels.layout(spec, rows).left == "all but 2 points at fewer than 3 values of clients, all are in t.csv"
    assert panels.layout(spec, rows[:3]).left == "" and panels.layout(spec, rows[3:]) is None


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ({"clients": [1, 2, 4]}, ""),
        ({"clients": [1, 2, 2], "engine": [*"xxy"]}, "2 values of clients"),
        ({"clients": 1, "store": [*"abc"]}, ""),
        ({"clients": 1, "store": [*"aab"]}, "1 value of clients"),
        ({"clients": 1, "store": [*"aab"], "page_size": [1, 2, 4]}, ""),
        ({"clients": 1, "rate_median_ps": [float("nan")] * 3}, ""),
    ],
)
def test_figure_needs_three_values_or_systems(rows, reason):
    """A figure that can turn its axis to `page_size` does so."""
    other = Specification(
        table="t", caption="", measures=(RATE,), title="", hue=(), panels=("workload",), x="page_size"
    )
    spec = replace(other, x="clients", otherwise=other if "page_size" in rows else None)
    table = rates(**{"rate_median_ps": [1.0, 2.0, 3.0]} | rows)
    fig = draw(spec, table)
    assert (fig is None) is (bool(reason) or "rate_median_ps" in rows)
    assert fig is not None or panels.too_few(spec, table) == reason
    assert fig is None or fig.axes[0].get_xlabel() == ("Page" if "page_size" in rows else "Clients")


def test_points_of_one_x_are_apart():
    ax = drawn(rates(store=[*"abc"], rate_median_ps=[1.0, 2.0, 3.0]), more=("store",), panels=())[0]
    places = sorted(float(c.lines[0].get_xdata()[0]) for c in ax.containers)
    assert min(b - a for a, b in pairwise(places)) > 0.2 * (ax.get_xlim()[1] - ax.get_xlim()[0])


def test_few_operations_are_open_and_bound_points_half_filled():
    """A metric that is not a rate has no open points."""
    rows = rates(clients=[1, 2, 4], rate_median_ps=[1.0, 2.0, 3.0], few=[True, False, pd.NA], engine="e")
    rows = rows.rename(columns=lambda name: name.replace("_ps", "_per_s")).assign(bound_by=[None, None, "link"])
    for unit, opened in (("per_s", [1.0]), ("ms", [])):
        known = rows.rename(columns=lambda name, unit=unit: name.replace("_per_s", f"_{unit}"))
        spec = Specification(table="t", caption="{shared}", measures=(Measure((Curve("rate", unit),), "R"),), title="")
        fig = draw(replace(spec, hue=()), known)
        lines = [line for line in fig.axes[0].lines if line.get_linestyle() == "None" and len(line.get_xdata()) == 1]
        assert [line.get_xdata()[0] for line in lines if line.get_markerfacecolor() == "white"] == opened
        assert [line.get_xdata()[0] for line in lines if line.get_fillstyle() == "bottom"] == [4.0]
        for result in (texts(fig), catalogue.caption(spec, known).replace("H", "h").replace("O", "o")):
            assert "half-filled symbols: bound by the link" in result
            assert ("open symbols: rates of fewer than 10 operations" in result) is bool(opened)


def test_runs_are_dots_behind_their_median(workers):
    """Six runs of each of three numbers of clients, in two series; none of a failed run."""
    folder, table = workers
    points = build.read(folder, "points")
    ax = draw(catalogue.FIGURES["throughput_download"], table, points).axes[0]
    dots = [p for p in ax.collections if isinstance(p, PathCollection) for p in p.get_offsets()]
    own = points.query("store == 'alpha'")["overlap_throughput_mb_per_s"]
    assert sorted(y for _, y in dots) == pytest.approx(sorted(own)) and len(own) == 36
    ax = draw(catalogue.FIGURES["throughput_download"], table, points.assign(state="failed")).axes[0]
    assert not [p for p in ax.collections if isinstance(p, PathCollection) and len(p.get_offsets())]


def test_labels_cover_no_point_and_no_other_label():
    with plots.style():
        fig, (ax,) = plots.grid(1, 2.5, "note")
        points = [(0.5 + 0.002 * i, 0.5, f"label {i}", "black") for i in range(8)]
        ax.set(xlim=(0, 1), ylim=(0, 1))
        plots.place_labels(fig, [ax], [points])
        fig.draw_without_rendering()
        boxes = [Text.get_window_extent(t) for t in ax.texts]
    assert len(boxes) == 8 and not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    assert not any(box.contains(*ax.transData.transform((x, y))) for box in boxes for x, y, *_ in points)


def rates(**columns) -> pd.DataFrame:
    """Return a table of groups: one store for each `rate_median_ps`, and clients 1, 2 for two values of one store."""
    rows = pd.DataFrame({"store": "a", "workload": "get", "clients": 1, "n": 3, "interval": "range"} | columns)
    values = rows["rate_median_ps"]
    return rows.assign(rate_low_ps=values * 0.9, rate_high_ps=values * 1.1)


def drawn(rows: pd.DataFrame, *measures: Measure, **more) -> list:
    spec = Specification(table="t", caption="", measures=measures or (RATE,), title="T", hue=(), **more)
    return draw(spec, rows).axes


def test_panels_that_are_compared_share_their_axis_of_values():
    """A store without values has no mark at either end, and a note. 110 is the end of the highest bar."""
    rows = rates(store=[*"aabbc"], clients=[1, 2, 1, 2, 1], rate_median_ps=[10.0, 20.0, 50.0, 100.0, None])
    a, b, c = drawn(rows, RATE, Measure((Curve("rate", "ps"),), "Rate in other words", where={"store": "a"}))
    assert a.get_ylim() == b.get_ylim() and b.get_ylim()[0] == 0 and 110 <= b.get_ylim()[1] < 130
    assert c.get_ylabel() == "Rate in other words" and 22 <= c.get_ylim()[1] < 30
    columns = drawn(rows, RATE, Measure((Curve("rate", "ps"),), "Other"), columns=True)
    assert len({ax.get_ylim() for ax in columns[::2]}) == len({ax.get_ylim() for ax in columns[1::2]}) == 1
    assert [[t.get_text() for t in ax.texts] for ax in columns] == [[]] * 4 + [["not recorded"]] * 2


def test_panels_share_a_logarithmic_axis_if_values_need_it():
    rows = rates(store=[*"aaabbb"], clients=[1, 2, 4] * 2, rate_median_ps=[1.0, 2.0, 2.0, 100.0, 200.0, 150.0])
    axes = drawn(rows)
    assert {ax.get_yscale() for ax in axes} == {"log"} and len({ax.get_ylim() for ax in axes}) == 1
    low, high = axes[0].get_ylim()
    assert 0 < low <= 0.9 and 220 <= high < 1000
    ticks = [sorted(v for v in ax.get_yticks() if low <= v <= high) for ax in axes]
    assert ticks[0] == ticks[1] and ticks[0][0] <= 2 and ticks[0][-1] >= 100, "fraction of the shared range"
    latencies = drawn(rows, Measure((Curve("rate", "ps"),), "Latency [ms]", scale="log"))
    assert len({ax.get_ylim() for ax in latencies}) == 1


def test_a_panel_without_values_stretches_no_axis():
    rows = rates(store=[*"aaab"], clients=[1, 2, 4, 1], rate_median_ps=[1000.0, 90000.0, 1500.0, None])
    axes = drawn(rows, columns=True)
    assert {ax.get_yscale() for ax in axes} == {"log"} and {ax.get_ylim()[0] > 100 for ax in axes} == {True}


def test_a_zero_has_a_place_on_a_logarithmic_axis():
    axes = drawn(rates(store=[*"aabc"], clients=[1, 2, 1, 1], rate_median_ps=[0.0, 200.0, 1.0, 1.0]))
    assert {ax.get_yscale() for ax in axes} == {"symlog"} and len({ax.get_ylim() for ax in axes}) == 1
    assert axes[1].get_ylim()[0] == 0 and 220 < axes[1].get_ylim()[1] < 1000


def test_panels_of_categories_share_their_axis_of_values():
    rows = rates(store=[*"aaabbb"], engine=[*"xyzxyz"], rate_median_ps=[10.0, 20.0, 20.0, 50.0, 100.0, 50.0])
    a, b = drawn(rows, x="engine")
    assert a.get_xlim() == b.get_xlim() and a.get_xlim()[0] == 0 and a.get_xlim()[1] >= 110
    assert (a.get_xlabel(), a.get_ylabel()) == ("Rate", "")
    wide = drawn(rates(store=[*"aaabbb"], engine=[*"xyzxyz"], rate_median_ps=[1.0, 2, 2, 50, 100, 50]), x="engine")
    assert {ax.get_xscale() for ax in wide} == {"log"} and len({ax.get_xlim() for ax in wide}) == 1


def test_all_panels_have_space_for_names_inside():
    curves = (Curve("rate", "ps", "this"), Curve("rate", "ps", "that", ":"))
    rows = rates(clients=[1, 2, 4], rate_median_ps=[10.0, 9.0, 9.0])
    plain, named = drawn(rows), drawn(rows, Measure(curves, "Rate"))
    assert named[0].get_ylim()[1] == pytest.approx(1.28 * plain[0].get_ylim()[1])
    assert [t.get_text() for t in named[0].get_legend().get_texts()] == ["this", "that"]


@pytest.mark.parametrize("shown", [2, 10])
def test_a_figure_with_its_legend_is_no_higher_than_a_page(shown):
    with plots.style():
        fig, cells = plots.grid(shown, 3.0, "a note")
        plots.key(fig, plots.looks([f"curve {i}" for i in range(40)], ordered=True), "A title")
    write.CANVASES["png"](fig)
    fig.get_layout_engine().execute(fig)
    low, high = (min(ax.get_position().height for ax in cells) * fig.get_figheight(), fig.get_figheight())
    assert low > 0.5 and high <= panels.PAGE and (shown == 2 or high == panels.PAGE)


def test_title_of_legend_has_what_is_constant(workers):
    table = workers[1].query("store == 'alpha'")
    legend = draw(catalogue.FIGURES["throughput_download"], table).legends[0]
    assert legend.get_title().get_text() == "Download of 10 MB objects (s5cmd), 1 front-end"
    assert [t.get_text() for t in legend.get_texts()] == ["4 workers per client", "8 workers per client"]
    one = draw(catalogue.FIGURES["throughput_download"], table[table["workers"] == 4]).legends[0]
    # one curve is named by what is constant
    assert legend.get_title().get_text().startswith(one.get_title().get_text())
    assert [t.get_text() for t in one.get_texts()] == ["1 front-end"]


@pytest.mark.parametrize("kind", ["pdf", "png"])
def test_same_table_same_bytes(example, kind):
    table = build.read(example, "throughput")
    first, second = (write.render(draw(catalogue.FIGURES["metadata_upload"], table), kind) for _ in range(2))
    assert first == second and b"CreationDate" not in first


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.heavy)])
def test_old_file_kinds_of_drawn_figure_are_removed(example, tmp_path, jobs):
    """An old figure must not remain."""
    shutil.copytree(example, tmp_path / "c", ignore=lambda at, _: ["figures"] if at == str(example) else [])
    names, figures = ["metadata_upload", "entries"], tmp_path / "c" / "figures"
    figures.mkdir()
    for name in (*names, "phases"):
        (figures / f"{name}.png").write_text("of an older state")
    write.build(tmp_path / "c", names, jobs, ["pdf"])
    made = {f"{name}.{kind}" for name in names for kind in ("json", "pdf")}
    assert {p.name for p in figures.iterdir()} == {*made, "phases.png"}
    assert "png" not in records.read_json(figures / "metadata_upload.json")


def test_files_of_the_user_stay_next_to_figures(example, tmp_path, monkeypatch):
    folder = tmp_path / "c" / "figures"
    folder.mkdir(parents=True)
    shutil.copytree(example / "raw", tmp_path / "c/raw")
    records.write_summed(folder / "gone.json", {"table": "throughput.csv", "empty": True})
    (folder / "mine.json").write_text('{"mark": "bar"}')
    (folder / "list.json").write_text("[1]")
    (folder / "broken.json").write_text("{")
    for name in ("gone", "mine", "list", "broken"):
        (folder / f"{name}.pdf").touch()
    monkeypatch.setattr(write, "_write_all", lambda *_: [])
    monkeypatch.setattr(write, "index", lambda folder: folder)
    write.build(tmp_path / "c")
    names = ("mine", "list", "broken")
    assert {p.name for p in folder.iterdir()} == {f"{name}.{kind}" for name in names for kind in ("json", "pdf")}


def test_killed_drawing_process_is_reported(example, tmp_path, monkeypatch):
    class Killed:
        def __init__(self, *_):
            pass

        def submit(self, *_):
            done = Future()
            done.set_running_or_notify_cancel()
            done.set_exception(BrokenProcessPool("A process in the process pool was terminated abruptly"))
            return done

        def shutdown(self, **_):
            pass

    monkeypatch.setattr(write, "ProcessPoolExecutor", Killed)
    shutil.copytree(example / "raw", tmp_path / "c/raw")
    with pytest.raises(UserError, match=r"figures: a process that draws ended unexpectedly.*--jobs 1"):
        write.build(tmp_path / "c", ["metadata_upload", "entries"], 2)


@pytest.mark.heavy
def test_several_processes_draw_the_same(example, tmp_path, monkeypatch):
    names, drawn, bare = ["metadata_upload", "entries", "phases"], [], tmp_path / "bare"
    shutil.copytree(example / "raw", bare / "raw")
    for i, jobs in enumerate((1, 2, 2)):
        if i == 2:  # this process takes none, so that the other one draws them all
            monkeypatch.setattr(Future, "cancel", lambda future: False)
        with pytest.raises(UserError, match="tables"):  # it would hang, if the error did not come out of its process
            write.build(bare, names, jobs)
        folder = tmp_path / str(i)
        shutil.copytree(example, folder, ignore=lambda at, _: ["figures"] if at == str(example) else [])
        paths = write.build(folder, names, jobs)
        drawn.append([(p.name, p.read_bytes()) for p in paths])
    assert drawn[0] == drawn[1] == drawn[2] and len(drawn[0]) == 9
    with pytest.raises(KeyError, match="no_such_figure"):
        write.build(folder, ["no_such_figure", "entries"], 2)


def test_other_settings_of_gap_sweep_have_separate_panels(requests):
    """No value of a varied axis is chosen by itself, and the caption states the values that a figure holds fixed."""
    rows = requests[(requests["workload"] == "replay")]
    two = pd.concat([rows.assign(front_ends=n) for n in (1, 2)], ignore_index=True)
    for name, count in (("gaps", 2), ("front", 4)):
        titles = [ax.get_title() for ax in draw(catalogue.FIGURES[name], two).axes if ax.get_title()]
        assert len(titles) == count and sum("2 front-ends" in title for title in titles) == count // 2
    caption = catalogue.caption(catalogue.FIGURES["replay"], by_clients(rows))
    assert caption.endswith("Shown: only gap 32 KiB, thrift 0, max amplification 0, all are in sparse.csv.")

"""Latency from imagined records: quantiles of single rows are exact, of bins to 2 %; open and closed loop; too few operations give none."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from make_examples import LATENCY, REFUSED, T0, S, make

from storelab.analysis.figures import catalogue, panels
from storelab.analysis.figures import write as drawing
from storelab.analysis.figures.draw import draw
from storelab.analysis.latex import write as latex
from storelab.analysis.records import scan, windows
from storelab.analysis.records.campaign import Campaign, load
from storelab.analysis.statistics import quantiles
from storelab.analysis.tables import build, latency
from storelab.core import evidence, records
from storelab.engines.common import bins


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("latency")
    make(path, sweeps=LATENCY | {"refused": REFUSED}, invalid=("refused",), calibrate=False)
    build.build(path)
    drawing.build(path)
    latex.build(path)
    return path


@pytest.fixture
def one(tmp_path):
    """A campaign of one point with one client, whose operations a test may write anew."""
    make(
        tmp_path,
        sweeps={"d": {"workload": "get", "duration": "4 s", "axes": {"engine": "obstore"}}},
        repetitions=1,
        calibrate=False,
    )

    def write(**columns) -> Campaign:
        folder = next((tmp_path / "raw").rglob("run.json")).parent
        n = len(columns["end_ns"])
        records.write_table(
            folder / "ops.0.parquet",
            records.OPS,
            {"client": [0] * n, "op": ["GET"] * n, "count": [1] * n, "bytes": [1] * n} | columns,
        )
        records.finish(folder, records.read_json(folder / "run.json"))
        evidence.write_sums(tmp_path / "raw")
        return load(tmp_path)

    return write


START = T0 + 10 * S  # agreed start of the first point of a plan; its overlap window is 1 s to 4 s after it


def expected(folder, key: str) -> np.ndarray:
    """Latencies in ms of the successful operations begun, or due, in the window of a point, from its Parquet files."""
    campaign = load(folder)
    edges = scan.bounds(campaign).set_index("key").loc[key]
    rows = pa.concat_tables([pq.read_table(p) for p in (folder / "raw" / key).glob("ops.*.parquet")])
    begun = pc.coalesce(
        rows["intended_ns"], rows["start_ns"]
    ).to_numpy()  # whole numbers: floats know UTC to 256 ns only
    inside = rows["error"].is_null().to_numpy() & (begun > edges["overlap_begin_ns"]) & (begun <= edges["first_end_ns"])
    return (rows["end_ns"].to_numpy() - begun)[inside] / 1e6


def test_quantiles_are_exact_over_single_rows(folder):
    t = build.read(folder, "points")
    for _, r in t[(t["state"] == "ok") & (t["object_size_bytes"] == 4000)].iterrows():
        wanted = np.quantile(expected(folder, r["key"]), [0.5, 0.99], method="inverted_cdf")
        assert [r["latency_p50_ms"], r["latency_p99_ms"]] == pytest.approx(wanted)


def test_medians_over_runs(folder):
    t = build.read(folder, "latency")
    row = t[(t["clients"] == 4) & (t["object_size_bytes"] == 4000)].iloc[0]
    of_runs = [
        np.quantile(expected(folder, f"alpha/get/engine~obstore_clients~0004_rep~{i:03d}"), 0.99, method="inverted_cdf")
        for i in (1, 2, 3)
    ]
    assert row["latency_p99_median_ms"] == pytest.approx(np.median(of_runs)) and row[
        "latency_p99_high_ms"
    ] == pytest.approx(max(of_runs))
    assert (row["n"], row["interval"], row["loop"], row["concurrency"], row["op"]) == (3, "range", "closed", 32, "GET")
    assert (
        row["ttfb_p50_median_ms"] == pytest.approx(row["latency_p50_median_ms"] / 2)
        and row["latency_max_median_ms"] == 100
    )
    assert not row["binned"] and row["failed"] == 12, "one failed operation of each client and run begins in the window"


def test_too_few_operations_give_no_quantile(folder):
    t = build.read(folder, "latency").query("object_size_bytes == 10000000 and clients == 1").iloc[0]
    assert t["operations"] == 180 and t["latency_p90_median_ms"] == 91 and pd.isna(t["latency_p99_median_ms"])
    assert (
        quantiles.enough(100, 0.99)
        and not quantiles.enough(99, 0.99)
        and quantiles.enough(1000, 0.999)
        and not quantiles.enough(999, 0.999)
    )


def test_an_open_loop_counts_from_when_an_operation_was_due(folder):
    t = build.read(folder, "latency").query("loop == 'open'").set_index("arrival_rate")
    closed = (
        build.read(folder, "latency").query("loop == 'closed' and clients == 1 and object_size_bytes == 4000").iloc[0]
    )
    assert (
        list(t.index) == [100, 200, 400] and (t["latency_p50_median_ms"] > closed["latency_p50_median_ms"] + 15).all()
    )
    assert t["completed_percent"].tolist() == pytest.approx([100, 100, 50], abs=0.5) and pd.isna(
        closed["completed_percent"]
    )


def test_invalid_runs_are_in_no_median(folder):
    t = build.read(folder, "latency")
    assert set(t["engine"]) == {"obstore"} and (build.read(folder, "points")["state"] == "invalid").sum() == 6


def test_bins_give_the_same_within_two_percent(folder, one):
    ends = [START + i * 4_000_000 for i in range(1, 1000)]
    starts = [e - (1 + i * 37 % 100) * 1_000_000 for i, e in enumerate(ends)]
    single = latency.runs(one(start_ns=starts, end_ns=ends)).iloc[0]
    binned = latency.runs(one(**bins.binned(START, starts, ends, "GET", sums={"bytes": [1] * len(ends)}))).iloc[0]
    assert binned["binned"] and not single["binned"] and abs(binned["operations"] - single["operations"]) < 30
    for metric in ("latency_p50", "latency_p90", "latency_p99", "latency_max"):
        assert binned[metric] == pytest.approx(single[metric], rel=0.03), (
            "2 % of the bucket, and other operations at the window's edges"
        )
    assert pd.isna(binned["ttfb_p50"])


def test_clients_in_bins_beside_clients_in_single_rows(one):
    """One client of a run may be binned and another not: all their latencies count."""
    ends = [START + i * 4_000_000 for i in range(1, 1000)]
    starts = [e - 10_000_000 for e in ends]
    some = bins.binned(START, starts, ends, "GET", sums={"bytes": [1] * len(ends)})
    n = len(some["end_ns"])
    both = {k: [*v, *[None] * len(ends)] for k, v in some.items()} | {
        "start_ns": [None] * n + [s - 10_000_000 for s in starts]
    }
    both |= {
        "end_ns": [*some["end_ns"], *ends],
        "count": [*some["count"], *[1] * len(ends)],
        "bytes": [*some["bytes"], *[1] * len(ends)],
        "op": ["GET"] * (n + len(ends)),
    }
    row = latency.runs(one(**both)).iloc[0]
    assert row["binned"] and 1480 < row["operations"] < 1520 and row["latency_p50"] == pytest.approx(10, rel=0.02)
    assert row["latency_p90"] == pytest.approx(20, rel=0.02)


def test_windows_cut_bins_at_their_edges(one):
    """1000 operations/s in bins, and a client that ends 50 ms before the deadline: the rate is 1000/s nevertheless."""
    ends = [START + i * 1_000_000 for i in range(1, 4001)]
    campaign = one(**bins.binned(START, [e - 1_000_000 for e in ends], ends, "GET", sums={"bytes": [10] * len(ends)}))
    campaign.runs[campaign.points[0]["key"]]["clients"][0]["end_ns"] -= 50_000_000
    row = windows.operations(campaign).iloc[0]
    assert (
        row["overlap_rate_per_s"] == pytest.approx(1000)
        and row["overlap_operations"] == 2950
        and row["overlap_bytes"] == 29500
    )
    assert (row["first_done_operations"], row["last_done_operations"], row["operations"]) == (3950, 4000, 4000)
    assert row["steadiness"] == "steady"


def test_a_delete_of_many_objects_is_one_latency_and_many_deletions(one):
    ends = [START + i * 20_000_000 for i in range(1, 201)]
    campaign = one(
        op=["DELETE_MULTI"] * 200,
        count=[500] * 200,
        bytes=[0] * 200,
        start_ns=[e - 20_000_000 for e in ends],
        end_ns=ends,
    )
    assert windows.operations(campaign).iloc[0]["overlap_rate_per_s"] == pytest.approx(25_000)
    row = latency.runs(campaign).iloc[0]
    assert (row["op"], row["operations"], row["latency_p50"]) == ("DELETE_MULTI", 149, 20)


def test_engines_that_know_no_start_have_rates_and_no_latency(one):
    campaign = one(end_ns=[START + i * 10_000_000 for i in range(1, 401)])
    assert windows.operations(campaign).iloc[0]["overlap_rate_per_s"] == 100 and latency.runs(campaign).empty
    build.build(campaign.folder, ["latency", "points"])
    assert (
        build.read(campaign.folder, "latency").empty
        and build.read(campaign.folder, "points")["latency_p50_ms"].isna().all()
    )


def texts(fig) -> str:
    legends = [t.get_text() for legend in fig.legends for t in (*legend.get_texts(), legend.get_title())]
    return "\n".join(
        [
            *legends,
            fig.get_supxlabel().replace("\n", " "),
            *(f"{ax.get_xlabel()} {ax.get_ylabel()} {ax.get_title()}" for ax in fig.axes),
        ]
    )


def test_figures_say_which_loop(folder):
    t = build.read(folder, "latency")
    closed, opened, spectrum = (draw(catalogue.FIGURES[f"latency_{n}"], t) for n in ("closed", "open", "spectrum"))
    for part in (
        "closed loop",
        "p99",
        "time to first byte",
        "n = 3 runs",
        "range",
        "alpha: GET 4 kB",
        "alpha: GET 10 MB",
        "Latency [ms]",
        "one host",
        "stalls",
    ):
        assert part in texts(closed), part
    for part in ("open loop", "Operations due per second", "less than 99 %"):
        assert part in texts(opened), part
    for part in ("closed loop, fewest in flight", "closed loop, most in flight", "open loop, most due", "Quantile"):
        assert part in texts(spectrum), part
    assert "32 in flight" in {t.get_text() for ax in spectrum.axes for t in ax.texts}
    assert all(ax.get_yscale() == "log" for fig in (closed, opened, spectrum) for ax in fig.axes)
    assert "open loop" in catalogue.caption(catalogue.FIGURES["latency_open"], t) and "3 runs" in catalogue.caption(
        catalogue.FIGURES["latency_closed"], t
    )


def test_too_many_panels_are_cut_and_said(folder):
    t = build.read(folder, "latency")
    many = pd.concat([t.assign(store=f"s{i:02d}") for i in range(12)])
    fig = draw(catalogue.FIGURES["latency_closed"], many)
    assert len(fig.axes) == panels.room() == 15 and "15 of 24 panels" in texts(fig)
    caption = catalogue.caption(catalogue.FIGURES["latency_closed"], many)
    assert caption.endswith("Shown: 15 of 24 panels, all are in latency.csv.")


def test_the_papers_section(folder):
    table = (folder / "tex" / "table_latency.tex").read_text()
    assert "closed, 8" in table and "open, 400/s*" in table and "did not keep up" in table and "TTFB" in table
    numbers = (folder / "tex" / "numbers.tex").read_text()
    assert (
        r"\NumLatencyClosedLeastWhere}{GET, 4~kB objects, on alpha" in numbers
        and r"\NumLatencyOpenBehind}{1}" in numbers
    )
    assert "sections/latency" in (folder / "tex" / "sections.tex").read_text()

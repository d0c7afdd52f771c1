"""LaTeX of latency.csv: quantiles at the least and at the most load."""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.latex import FILE, FLAGS, HEADLINES, SECTION
from storelab.analysis.latex.headlines import Headline, closed, interval, runs
from storelab.analysis.latex.parts import THIN, escape, floating, row, spread
from storelab.analysis.parts import speed, words
from storelab.analysis.tables import latency
from storelab.core import units

BESIDE = ("latency_p90", "latency_p99", "latency_p999", "latency_max", "ttfb_p50")  # columns behind the median

AT_LEAST, PAUSED = r"$\geq$", r"$^\dagger$"
WHY_AT_LEAST = f"{AT_LEAST}: some operations hung, or were due and never began; the quantile is at least so long."


def at_least(r: pd.Series, metric: str) -> str:
    """The mark of a metric that is a lower bound in a row of latency.csv."""
    told = r[latency.BOUNDS]
    return AT_LEAST if not pd.isna(told) and metric in str(told).split(", ") else ""


def _load(r: pd.Series) -> str:
    if r["loop"] == "closed":
        return f"closed, {r['concurrency']:g}"
    behind = r["completed_percent"] < latency.KEPT_UP
    return f"open, {words.grouped(f'{r.arrival_rate:.0f}')}/s{'*' if behind else ''}"


@FILE("table_latency", "latency")
def latencies(table: pd.DataFrame) -> str:
    """Latency of each system, op and size at the least and the most load, closed and open loop."""
    rows = latency.ends(table)
    if rows.empty:
        return ""
    engines = rows["engine"].nunique() > 1
    settings = rows["setting"].nunique() > 1
    lines = []
    for _, r in rows.sort_values(["op", "store", "loop"], kind="stable").iterrows():
        size = next((units.format_size(int(r[c])) for c in latency.SIZES if c in r and not pd.isna(r[c])), "")
        cells = [words.deployment(r), *([str(r["engine"])] if engines else []), latency.operation(r), size]
        cells += [*([r["setting"]] if settings else []), _load(r), f"{r['n']:g}"]
        values = [at_least(r, m) + words.number(r[f"{m}_median_ms"], gap=THIN) for m in BESIDE]
        if not pd.isna(r["paused_percent"]) and r["paused_percent"] >= latency.PAUSED:
            values[BESIDE.index("latency_p99")] += PAUSED
        median = at_least(r, "latency_p50") + spread(r, "latency_p50", "ms")
        lines.append(row([*map(escape, cells), median, *values]))
    marks = " A star: the system did not keep up with what was due." if any("*" in text for text in lines) else ""
    if any(PAUSED in text for text in lines):
        marks += (
            f" {PAUSED}: in one of the runs the client itself stood still during {latency.PAUSED:g} \\% or more of the "
            "operations that took longer."
        )
    if any(AT_LEAST in text for text in lines):
        marks += f" {WHY_AT_LEAST}"
    binned = (
        f" Quantiles from histograms are known to {100 * (latency.WIDTH - 1):g} %."
        if rows["binned"].astype(bool).any()
        else ""
    )
    caption = (
        "Latency in ms, by system, operation and size, at the least and at the most load: closed loop with so many "
        "operations in flight, open loop with so many operations due per second"
        + ("" if settings or not rows["setting"].iloc[0] else f"; all with {escape(rows['setting'].iloc[0])}")
        + ". Median of n runs of each run's "
        "quantile, for p50 with [low, high]; TTFB: median time to the first byte. A dash: too few operations, "
        "or not known to the engine." + escape(binned) + marks
    )
    head = [
        "System",
        *(["Engine"] if engines else []),
        "",
        "Size",
        *(["Setting"] if settings else []),
        "Loop, load",
        "n",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "TTFB",
    ]
    return floating("l" * (len(head) - 8) + "r" * 8, caption, "tab:latency", head, lines)


@SECTION("latency", "latency")
@FLAGS("latency", "latency")
def flags(table: pd.DataFrame) -> dict[str, bool]:
    """Whether a latency is shown."""
    return {"latency": bool(len(latency.shown(table)))}


@HEADLINES("latency", "latency")
def headlines(table: pd.DataFrame) -> Iterator[Headline]:
    """p50 and p99 of the smallest operation with the fewest in flight, a download if there is one."""
    rows = closed(latency.ends(table))
    rows = rows[rows["workload"].isin(speed.MOVING)] if len(rows) else rows
    for system, known in rows.groupby("deployment") if len(rows) else []:
        sizes = known.reindex(columns=["range_size_bytes", "object_size_bytes"]).astype(float).bfill(axis=1).iloc[:, 0]
        order = known.assign(moved=sizes, first=known["op"].map({"GET": 0, "PUT": 1}).fillna(2))
        r = order.sort_values(["first", "moved", "concurrency", "latency_p50_median_ms"], kind="stable").iloc[0]
        quantiles = [
            f"{q}~{at_least(r, f'latency_{q}')}{' '.join(interval(r, f'latency_{q}', 'ms'))}"
            for q in ("p50", "p99")
            if pd.notna(r[f"latency_{q}_median_ms"])
        ]
        load = ", ".join(filter(None, [r["setting"], f"{r['concurrency']:g} in flight, "]))
        size = units.format_size(int(r["moved"]))
        yield Headline(
            system=str(system),
            kind="Latency",
            unit="ms",
            asks="how long an operation takes",
            lines=(*quantiles, escape(f"{r['op']} {size}, {load}") + runs(r)),
            value=f"{' and '.join(quantiles)}~ms",
            of=f"for a {words.value_text('workload', r['workload'])}",
            where=escape(f"{size}, {load}") + runs(r),
            size=-float(r["latency_p50_median_ms"]),
            verb="needed",
        )

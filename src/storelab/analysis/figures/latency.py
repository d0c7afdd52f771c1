"""Figures of single operations: latency against load, quantiles and distributions of latency, and errors.

Latency is shown against concurrency (closed loop) and against the arrival rate (open loop). `tables.latency` defines
the quantiles, `tables.errors` the errors and their classes.
"""

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from storelab.analysis.figures.panels import PAGE, max_panels, side_by_side, varying, with_series
from storelab.analysis.figures.specification import Curve, Function, Measure, Specification
from storelab.analysis.parts import groups, labels
from storelab.analysis.tables import errors, latency
from storelab.analysis.tables.resources import BUSY, COARSE, PLACE, shown, unpacked
from storelab.core import units
from storelab.core.axes import DEPLOYMENT_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# --- latency against load, and by quantile ---

CURVES = (
    Curve("latency_p50", "ms", "p50"),
    Curve("latency_p99", "ms", "p99"),
    Curve("latency_p999", "ms", "p99.9"),
    Curve("ttfb_p50", "ms", "time to first byte, p50", ":"),
)
LOOPS = {
    "closed": "closed loop: a worker starts an operation when its last one has ended, and sends nothing while the "
    "system stalls",
    "open": "open loop: operations are due at a constant rate, and latency counts from the due time",
}
DASHES = {"closed": "--", "open": ":"}
SPECTRUM = {0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9"}
LOADS = ("clients", "workers", "arrival_rate")  # axes that do not distinguish panels
HEIGHT = 2.4  # height of a panel of the figure `latency_spectrum` in inches


def _size(row: pd.Series) -> str:
    """Return the size of the range that an operation moves, or of the object if there is no range."""
    return next((units.format_size(int(row[c])) for c in latency.SIZES if c in row and not pd.isna(row[c])), "")


def _against(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the rows with the column `place`, the number of the panel.

    There is one panel for each deployment, op, size, and value of every other axis. If several rows of a panel have the
    same value of `column`, only the row with the fewest clients is returned.
    """
    rows = latency.shown(rows)
    rows = rows[rows[column].fillna(0) > 0]
    apart = ("clients", "workers") if column == "concurrency" else (column,)
    first = ["store", "op", "workload", *(c for c in latency.SIZES if c in rows)]
    by = [*first, *(c for c in labels.axes_of(rows) if c not in (*apart, *first))]
    rows = rows.assign(place=rows.groupby(by, dropna=False).ngroup()) if len(rows) else rows.assign(place=0)
    return rows.sort_values(["place", column, "clients"], kind="stable").drop_duplicates(["place", column])


def _heading(first: pd.Series, rows: pd.DataFrame) -> str:
    """Return the title of a panel: deployment, op, size, and the other axes that distinguish the panels."""
    known = (*LOADS, *DEPLOYMENT_NAMES, *latency.SIZES)
    same = rows.loc[rows["op"] == first["op"], "workload"].nunique() > 1
    more = [labels.value_text("workload", first["workload"])] if same else []
    more += [labels.value_text(c, first[c]) for c in labels.axes_of(rows) if c not in known and rows[c].nunique() > 1]
    return ", ".join(filter(None, [f"{labels.deployment(first)}: {first['op']} {_size(first)}".strip(), *more]))


def _not_kept_up(rows: pd.DataFrame) -> pd.Series:
    """Return for which rows the system did not complete the operations that were due."""
    return rows["completed_percent"].astype(float) < latency.KEPT_UP


def _note(rows: pd.DataFrame) -> str:
    binned = f"; from histograms, to {100 * (latency.WIDTH - 1):g} %" if rows["binned"].astype(bool).any() else ""
    loop = LOOPS[rows["loop"].iloc[0]]
    behind = (
        f"; open symbols: less than {latency.KEPT_UP:g} % of the due operations were done"
        if _not_kept_up(rows).any()
        else ""
    )
    return f"{binned}. {loop[0].upper()}{loop[1:]}{behind}"


def _curves(loop: str, column: str, x_label: str, legend: str, caption: str) -> Specification:
    """Return the figure of quantiles against a column of counts, with one panel per deployment, op and size."""
    return Specification(
        table="latency",
        where={"loop": loop},
        prepare=lambda rows: _against(rows, column),
        measures=(Measure(CURVES, "Latency [ms]", scale="log"),),
        x=column,
        x_label=x_label,
        by_curve=True,
        panels=("place",),
        heading=_heading,
        swept=True,
        hollow=_not_kept_up,
        note=_note,
        height=2.2,
        title=legend,
        caption=caption,
    )


def _spectrum_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the figure `latency_spectrum`, with the columns system, load, panel and place.

    The rows are closed loops with the fewest and the most operations in flight, and open loops with the most operations
    due. Panels with only one row are excluded.
    """
    rows = latency.shown(latency.ends(table, open_least=False), "latency_p90")
    if rows.empty:
        return rows
    several = "engine" in rows and rows["engine"].nunique() > 1
    system = [", ".join([labels.deployment(r), *([r["engine"]] if several else [])]) for _, r in rows.iterrows()]
    load = pd.Series([r[latency.load_column(r["loop"])] for _, r in rows.iterrows()], index=rows.index)
    panel = [f"{latency.operation(r)} {_size(r)}".strip() for _, r in rows.iterrows()]
    rows = rows.assign(system=system, load=load.astype(float), panel=panel)
    rows = rows[rows.groupby("panel")["panel"].transform("size") > 1]
    places = {name: i for i, name in enumerate(dict.fromkeys(rows["panel"]))}
    rows = rows.assign(place=rows["panel"].map(places).astype(int))
    return rows.sort_values(["place", "system", "loop", "load"])


def latency_spectrum(table: pd.DataFrame) -> "Figure | None":
    """Return the figure of latency by quantile, with one panel per op and size, and one curve per system and load.

    The colour shows the deployment (and engine), the line style the load. The result is None without data.
    """
    from storelab.analysis.figures import plots

    rows = _spectrum_rows(table)
    if rows.empty:
        return None
    rows = rows[rows["place"] < max_panels()]
    palette, panels = plots.looks(sorted(rows["system"].unique())), list(rows.groupby("panel", sort=False))
    handles: dict[str, Any] = {}
    ends: list[list[tuple[float, float, str, Any]]] = []
    with plots.style():
        fig, cells = plots.grid(len(panels), HEIGHT, plots.subtitle(rows))
        for ax, (name, part) in zip(cells, panels, strict=True):
            ends.append([])
            for i, (_, r) in enumerate(part.iterrows()):
                closed_rows = part[(part["system"] == r["system"]) & (part["loop"] == "closed")]
                light = r["loop"] == "closed" and r["load"] < closed_rows["load"].max()
                look = dict(zip(("color", "marker"), palette[r["system"]], strict=True))
                look["linestyle"] = "-" if light else DASHES[r["loop"]]
                ends[-1].append(_quantiles(ax, r, 1 + 0.05 * (i - (len(part) - 1) / 2), look))
                kind = "fewest in flight" if light else "most in flight" if closed_rows["load"].nunique() > 1 else ""
                kind = "most due" if r["loop"] == "open" else kind
                label = ", ".join(filter(None, [r["system"], f"{r['loop']} loop", kind]))
                handles.setdefault(label, plots.Line2D([], [], label=label, **look))
            ax.set(xscale="log", xlim=(1.6, 12_000), xlabel="Quantile of the operations")  # room for labels
            ax.set_xticks([1 / (1 - p) for p in SPECTRUM], list(SPECTRUM.values()))
            ax.set_xticks([], minor=True)
            if part[["loop", "load"]].drop_duplicates().shape[0] == 1:  # the title states the only load
                name, ends[-1] = f"{name}, {ends[-1][0][2]}", []
            plots.title(ax, name, side_by_side(len(panels)))
        plots.time_axis(cells, [part["latency_p50_median_ms"] for _, part in panels], "Latency [ms]")
        plots.add_labels(cells, side_by_side(len(panels)))
        plots.key(fig, list(handles.values()), "Latency by quantile")
        plots.place_labels(fig, cells, ends)
    return fig


def _quantiles(ax: "Axes", row: pd.Series, aside: float, look: dict[str, Any]) -> tuple[float, float, str, Any]:
    """Draw a curve through the known quantiles, and return its end (x, y), its load in words, and its colour.

    aside: factor by which the curve is shifted sideways, so that no curve hides another.
    """
    levels = zip(latency.LEVELS, latency.NAMES, strict=True)
    known = [(p, f"latency_{n}") for p, n in levels if not pd.isna(row[f"latency_{n}_median_ms"])]
    y, low, high = ([row[f"{m}_{part}_ms"] for _, m in known] for part in ("median", "low", "high"))
    bars = [[v - w for v, w in zip(y, low, strict=True)], [w - v for v, w in zip(y, high, strict=True)]]
    ax.errorbar([aside / (1 - p) for p, _ in known], y, bars, elinewidth=1, capsize=2.5, **look)
    load = f"{labels.grouped(f'{row.load:.0f}')} {'due/s' if row['loop'] == 'open' else 'in flight'}"
    return aside / (1 - known[-1][0]), y[-1], load, look["color"]


LATENCY_CLOSED = _curves(
    "closed",
    "concurrency",
    "Operations in flight (clients times workers)",
    "Latency against concurrency, closed loop",
    "Latency against the operations in flight, closed loop ({engine}, runs of {seconds} s): quantiles of each run, "
    "and the time to the first byte. A closed loop sends nothing while the system stalls, so that only one operation "
    "per worker records a stall. Medians of the runs; {bars}. {shared}",
)
LATENCY_OPEN = _curves(
    "open",
    "arrival_rate",
    "Operations due per second",
    "Latency against load, open loop",
    "Latency against the operations due per second, open loop ({engine}, runs of {seconds} s): quantiles of each "
    "run, counted from "
    "when an operation was due. Open symbols: the system did not keep up. Medians of the runs; {bars}. {shared}",
)
LATENCY_SPECTRUM = Function(
    table="latency",
    function=latency_spectrum,
    count=lambda table: rows["panel"].nunique() if len(rows := _spectrum_rows(table)) else 0,
    most=max_panels(),
    counted_as="panels",
    caption="Latency by quantile, by system, loop and load; the load is at the end of each curve or in the title. "
    "Medians of the runs; {bars}. {shared}",
)

# --- distributions of times and resources ---

COLUMNS = {  # quantities in a column of panels, which have different line styles -> label of the axis
    ("operation_time",): "Time of an operation [ms]",
    ("traffic",): "Loopback of the host [MB/s]",
    ("received", "sent"): "Network of a host [MB/s]",
    ("cpu",): "CPU of a client [cores]",
    ("memory",): "Memory of a client [MB]",
}
SOLID_AND_DOTTED = ("-", ":")
LINE_HEIGHT = 1.45  # height of a line of panels in inches
MAX_LINES = int(PAGE / LINE_HEIGHT) - 1  # one line less than fits on a page, because the caption needs room
LETTERS = 120  # maximum number of characters of a line of the legend
FLAT = 1.1  # a resource is not shown if the ratio of its largest to its smallest value is below this
SERIES = 6  # maximum number of curves of a panel that readers can distinguish


def _places(table: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the rows of each line of panels. There is one line for each operation and size."""
    by = [c for c in ("workload", "object_size_bytes") if c in table]
    return (
        [rows_of_place for _, rows_of_place in shown(table).groupby(by, dropna=False, sort=True)] if len(table) else []
    )


def distributions(table: pd.DataFrame) -> "Figure | None":
    """Return the figure of cumulative distributions at the largest number of clients, or None without data.

    Each operation and size has a line of panels, and each quantity a column. Each combination of deployment, engine and
    other settings that vary has a curve.
    """
    from storelab.analysis.figures import plots

    if not (places := _places(table)[:MAX_LINES]):
        return None
    rows = groups.labelled(pd.concat(places))
    distinguishing = varying(rows, ("engine",), {*PLACE, *BUSY, "quantity"})
    several = ["deployment"] if rows["deployment"].nunique() > 1 else []
    rows = with_series(rows, [*several, *distinguishing], usual=True)
    lines = [_few(rows.loc[rows.index.isin(place.index)]) for place in places]
    looks = plots.looks(list(dict.fromkeys(name for line_rows, _ in lines for name in line_rows["series"])))
    columns = {q: label for q, label in COLUMNS.items() if _varies(rows[rows["quantity"].isin(q)])}
    if not columns:
        return None
    with plots.style():
        note = "Samples of all runs in the window in which all clients are active; percent of samples up to a value"
        fig = plots.sheet(LINE_HEIGHT * len(places) + 0.9, note)
        cells = fig.subplots(len(places), len(columns), squeeze=False, sharex="col")
        for line, (line_rows, left) in zip(cells, lines, strict=True):
            for ax, quantities in zip(line, columns, strict=True):
                least = _least(rows[rows["quantity"].isin(quantities)])
                _panel(ax, line_rows, quantities, {n: c for n, (c, _) in looks.items()}, least)
            look = {"transform": line[0].transAxes, "fontsize": 7, "va": "bottom"}
            line[0].text(0, 1.05, _line_heading(line_rows) + left, **look).set_in_layout(False)  # wider than its panel
            line[0].set_title(" ", fontsize=7)  # reserves the space for the text
            line[0].set_ylabel("%")
        for column, label in zip(cells.T, columns.values(), strict=True):
            column[-1].set_xlabel(textwrap.fill(label, 20 if len(columns) < 5 else 15), fontsize=7)
            plots.plain_numbers(column[-1].xaxis, np.divide(*column[-1].get_xlim()[::-1]), 5)
        _key(fig, {name: colour for name, (colour, _) in looks.items()})
    return fig


def _key(fig: "Figure", colours: dict[str, object]) -> None:
    """Draw the legend with the names of the curves in small letters, because there can be many."""
    from storelab.analysis.figures import plots

    handles = [plots.Line2D([], [], color=c, label=name) for name, c in colours.items()]
    columns = max(1, min(4, len(handles), LETTERS // (max(map(len, colours)) + 8)))
    fig.set_figheight(min(fig.get_figheight() + 0.13 * (-(-len(handles) // columns) - 1), PAGE))
    title = {"title": "Distributions of times and resources", "title_fontsize": 9.5}
    fig.legend(handles=handles, loc="outside upper center", frameon=False, ncols=columns, fontsize=6.5, **title)


def _few(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the rows of up to SERIES settings, and a note about the settings that are not shown.

    If there are more settings, only the one with the shortest mean time of each deployment is used.
    """
    names = list(dict.fromkeys(rows["series"]))
    if len(names) <= SERIES:
        return rows, ""
    times = rows[rows["quantity"] == "operation_time"]
    times = times if len(times) else rows
    fastest = times.loc[times.groupby("deployment", sort=False)["mean"].idxmin(), "series"].unique()[:SERIES]
    which = f"{len(fastest)} of {len(names)} settings, the fastest of each system"
    return rows[rows["series"].isin(fastest)], f", {which} (all are in distributions.csv)"


def _line_heading(rows: pd.DataFrame) -> str:
    """Return the heading of a line of panels, such as `seaweedfs: download of 4 kB, 21 clients`.

    If there are several deployments, the heading does not name one.
    """
    first = rows.iloc[0]
    size = first.get("object_size_bytes")
    what = labels.value_text("workload", first["workload"])
    what += "" if size is None or pd.isna(size) else f" of {units.format_size(int(size))}"
    one = f"{first['deployment']}: " if rows["deployment"].nunique() == 1 else ""
    return f"{one}{what}, {_clients(rows)}"


def _clients(rows: pd.DataFrame) -> str:
    """Return the number of clients as text: `4 clients` or `2 to 4 clients`."""
    least, most = int(rows["clients"].min()), int(rows["clients"].max())
    return labels.plural(most, "client") if least == most else f"{least} to {most} clients"


def _varies(rows: pd.DataFrame) -> bool:
    """Return True if a quantity was recorded. A resource must also vary by at least a factor FLAT."""
    if rows.empty or (rows["quantity"] == "operation_time").any():
        return len(rows) > 0
    return not 0 < rows["most"].max() < FLAT * rows["least"].min()


def _least(rows: pd.DataFrame) -> float:
    """Return the value at which the curves of a column of panels begin.

    It is the smallest value. If there are zeros, it is lower, because zeros are drawn there.
    """
    if not rows["zeros"].any():
        return float(rows["least"].min())
    buckets = [histogram.index.min() for h in rows["histogram"] if len(histogram := unpacked(h))]
    return 10.0 ** ((min(buckets, default=0) - 1) / COARSE)


def _panel(
    ax: "Axes", rows: pd.DataFrame, quantities: tuple[str, ...], colours: dict[str, object], least: float
) -> None:
    """Draw cumulative distributions on a logarithmic axis, on which zeros are at `least`."""
    import seaborn as sns

    from storelab.analysis.figures import plots

    ax.set_xscale("log")
    for quantity, dash in zip(quantities, SOLID_AND_DOTTED, strict=False):
        parts = []
        for _, r in rows[rows["quantity"] == quantity].iterrows():
            counts = unpacked(r["histogram"])
            inside = np.clip(10.0 ** (counts.index.to_numpy(float) / COARSE), r["least"], r["most"])
            places = [least, *inside]
            parts.append(pd.DataFrame({"x": places, "of": [r["zeros"], *counts], "series": r["series"]}))
        if parts:
            look = {"palette": colours, "stat": "percent", "linestyle": dash, "linewidth": 1, "legend": False}
            sns.ecdfplot(pd.concat(parts), x="x", weights="of", hue="series", ax=ax, **look)
    ax.set(xlabel="", ylabel="", ylim=(0, 104))
    ax.tick_params(labelsize=6.5)
    if not ax.lines:
        plots.write_inside(ax, "not recorded", color="0.35")


DISTRIBUTIONS = Function(
    table="distributions",
    function=distributions,
    count=lambda table: len(_places(table)),
    most=MAX_LINES,
    counted_as="operations and sizes",
    caption="Cumulative distributions at the largest number of clients, by system and engine: times of "
    "operations that succeeded; bytes per second that the busiest interface of a client's host received (solid) and "
    "sent (dotted; the loopback interface carries both ends of each connection); CPU and resident "
    "memory of a client with its child processes. Bytes, CPU and memory are samples of the monitor, up "
    "to five per second. If a curve begins above 0 %, this fraction of the samples was zero. A resource "
    f"that varies by less than {100 * (FLAT - 1):.0f} % is not shown.",
)

# --- errors over time ---

MAX_RUNS, MAX_CLASSES = 6, 5
TITLE = 52  # maximum number of characters of a line above a panel
REST = "other errors"


def errors_over_time(table: pd.DataFrame) -> "Figure | None":
    """Return the figure of operations per second by class over time, for the runs with the most errors.

    Crosses mark seconds with few failed operations. The result is None without data.
    """
    from storelab.analysis.figures import plots

    if "run_fraction" not in table or table.empty:
        return None
    worst = _worst(table)
    rows = table[table["key"].isin(worst.head(MAX_RUNS))]
    totals = rows[rows["class"] != errors.GOOD].groupby("class")["operations"].sum()
    classes = list(totals.sort_values(ascending=False, kind="stable").index[:MAX_CLASSES])
    if len(totals) > MAX_CLASSES:
        rows = rows.assign(**{"class": rows["class"].where(rows["class"].isin([errors.GOOD, *classes]), REST)})
        classes.append(REST)
    tones = plots.tones()
    colours = {errors.GOOD: "0.8"} | dict(zip(classes, [tones[i] for i in (3, 0, 1, 2, 4, 7)], strict=False))
    with plots.style():
        fig, cells = plots.grid(rows["key"].nunique(), 1.9, _error_note(table, len(worst)))
        for ax, (_, run) in zip(cells, rows.groupby("key", sort=False), strict=True):
            _stack(ax, run, colours)
            ax.yaxis.set_major_formatter(lambda v, _: labels.grouped(f"{v:g}", plots.THIN))
        plots.key(fig, [plots.Patch(color=c, label=n) for n, c in colours.items()], "Operations that ended, by outcome")
    return fig


def _worst(table: pd.DataFrame) -> pd.Series:
    """Return the key of the worst run of each group of points, which is the first one in the table."""
    return (
        table[["key"]]
        .assign(group=table["key"].map(lambda key: key.rpartition("rep~")[0]))
        .drop_duplicates("group")["key"]
    )


def _error_note(table: pd.DataFrame, groups: int) -> str:
    which = (
        f"The {MAX_RUNS} worst of {groups} groups of points with errors, with the worst run of each"
        if groups > MAX_RUNS
        else "The worst run of each group of points with errors"
    )
    budget = (
        f"above the failure budget of {100 * table['failure_budget'].iloc[0]:g} % of its operations a run is invalid"
    )
    return f"{which}; {budget}. Counts per second; crosses: too few failures to be visible"


def _stack(ax: "Axes", run: pd.DataFrame, colours: dict[str, object]) -> None:
    """Draw one run as stacked steps of one second."""
    seconds = np.arange(int(run["second"].max()) + 1)
    counts = run.groupby(["class", "second"])["operations"].sum()
    below = np.zeros(len(seconds))
    for name, colour in colours.items():
        if name not in counts.index.get_level_values(0):
            continue
        y = counts[name].reindex(seconds, fill_value=0).to_numpy(float)
        ax.stairs(below + y, np.append(seconds, seconds[-1] + 1), baseline=below, fill=True, color=colour, linewidth=0)
        below = below + y
    top = 1.12 * max(below.max(), 1)
    failed = run[run["class"] != errors.GOOD].groupby("second")["operations"].sum()
    small = failed[failed < 0.01 * top].index
    ax.plot(small + 0.5, below[small] + 0.05 * top, "x", color="black", markersize=3, markeredgewidth=0.7)
    first = run.iloc[0]
    state = "INVALID, " if first["state"] == "invalid" else ""
    settings = ", ".join(labels.key_text(first["key"]))
    ax.set_title(
        f"{textwrap.fill(settings, TITLE)}\n{state}{100 * first['run_fraction']:.2g} % failed",
        fontsize=7,
    )
    ax.set(xlim=(0, seconds[-1] + 1), ylim=(0, top), xlabel="Seconds from the agreed start", ylabel="Operations/s")


ERRORS_OVER_TIME = Function(
    table="errors_over_time",
    function=errors_over_time,
    count=lambda table: len(_worst(table)),
    most=MAX_RUNS,
    counted_as="groups of points with errors",
    caption="Operations that ended in each second, by outcome, of the runs with the largest fractions of failed "
    "operations. Single runs. {shared}",
)

"""Figures of jobs that process events, drawn as by HEPiX in 2010, together with its published values."""

import itertools
import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from storelab.analysis.figures.panels import MAX_COLOURS, few, varying, with_series
from storelab.analysis.figures.specification import MIN_VALUES, Curve, Function
from storelab.analysis.parts import labels
from storelab.analysis.parts.groups import joined
from storelab.analysis.records import published
from storelab.analysis.tables import reads
from storelab.analysis.tables.earlier import MEASURED, NAVIGATION, PUBLISHED, best_settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from storelab.analysis.figures.plots import Label, Looks

# --- events against throughput ---

USE_CASE = {"scan": "CMS", "random": "ATLAS"}  # navigation -> use case of 2010
PLAIN = " vanilla"  # suffix of the names of systems that were read without a matching client cache
EVENTS = Curve("events", "per_s")
PAPER = "0.96"  # background of published panels, to distinguish them from our measurements


def events_throughput(table: pd.DataFrame) -> "Figure | None":
    """Return the figure of events/s against MB/s, or None without data.

    Each navigation has a row of panels, each store and client setting a line, and each number of jobs a point. The
    panels on the right show the published points on separate axes.
    """
    from storelab.analysis.figures import plots

    if table.empty:
        return None
    rows = table.assign(moved=table["wire_median_mb_per_s"].fillna(table["asked_median_mb_per_s"]))
    rows = rows[rows["moved"].notna() & rows["events_median_per_s"].notna()]
    if rows.empty:
        return None
    rows = _with_settings(rows)
    order, key = _looks(rows)
    found = [n for n in reads.NAVIGATIONS if (rows["navigation"] == n).any()]
    ends: list[list[Label]] = []
    with plots.style():
        fig, cells = plots.grid(2 * len(found), 2.9, plots.subtitle(rows), 2)
        for ours, theirs, navigation in zip(cells[::2], cells[1::2], found, strict=True):
            shown = rows[rows["navigation"] == navigation]
            ends.append(_draw_measured(ours, shown, order))
            ours.set_title(f"{navigation}: measured here")
            _draw_published(theirs, USE_CASE[navigation], plots.MARKERS)
        values = [rows.loc[rows["navigation"] == n, "events_median_per_s"] for n in found]
        plots.value_axis(cells[: 2 * len(found) : 2], values, "Events/s", factor=20)
        files = joined(rows["file_size"].map("file {}".format))
        plots.key(fig, key, f"Events against throughput, by number of jobs ({files})")
        plots.place_labels(fig, cells[: 2 * len(found) : 2], ends)
    return fig


def points(table: pd.DataFrame) -> int:
    """Return the number of points of the navigation that has most."""
    return int(table["navigation"].value_counts().max()) if len(table) else 0


def _looks(rows: pd.DataFrame) -> "tuple[Looks, Looks | list[Any]]":
    """Return the look of each line, and the entries of the legend.

    If there are more lines than MAX_COLOURS, the colour shows the store and the marker shows the setting.
    """
    from storelab.analysis.figures import plots

    lines = list(rows[["series", "store", "setting"]].drop_duplicates().itertuples(index=False))
    if len(lines) <= MAX_COLOURS:
        order = plots.looks([line.series for line in lines])
        return order, order
    stores, settings = (plots.looks(list(dict.fromkeys(rows[c]))) for c in ("store", "setting"))
    key = [plots.Line2D([], [], color=colour, label=name) for name, (colour, _) in stores.items()]
    key += [plots.Line2D([], [], color="0.35", ls="none", marker=m, label=name) for name, (_, m) in settings.items()]
    return {line.series: (stores[line.store][0], settings[line.setting][1]) for line in lines}, key


def _with_settings(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the columns `setting` and `series`.

    `setting` describes the client and the other axes that vary; `series` is the store and the setting.
    """
    rows = rows.assign(engine=[reads.setting(r) for _, r in rows.iterrows()])
    rows = rows.drop(columns=[c for c in reads.CLIENT if c != "engine" and c in rows])
    rows = with_series(rows, varying(rows, ("engine",), {"clients", "navigation", "files"}))
    rows = rows.assign(setting=rows["series"], series=rows["store"] + ", " + rows["series"])
    return rows.sort_values("series", kind="stable")


def _draw_measured(ax: "Axes", rows: pd.DataFrame, order: "Looks") -> "list[Label]":
    """Draw the measured lines, and return labels with the number of jobs for the end of each line."""
    from storelab.analysis.figures import plots

    ends: list[Label] = []
    if _wide(rows["moved"]):
        rows = rows[rows["moved"] > 0]  # reads only from caches moved 0 bytes, which a logarithmic axis cannot show
    for name, (colour, marker) in order.items():
        line = rows[rows["series"] == name].sort_values("clients")
        if line.empty:
            continue
        y = line["events_median_per_s"]
        known = line["wire_median_mb_per_s"].notna().all()
        low, high = (line[f"{'wire' if known else 'asked'}_{part}_mb_per_s"] for part in ("low", "high"))
        bars = {"yerr": plots.bars(line, "events", "per_s"), "xerr": [line["moved"] - low, high - line["moved"]]}
        ax.errorbar(line["moved"], y, **bars, color=colour, marker=marker, capsize=2, elinewidth=0.8)
        plots.mark(ax, line["moved"], y, (colour, marker), few(line, EVENTS))
        for _, last in line.tail(1).iterrows() if line["clients"].nunique() > 1 else ():
            ends.append((last["moved"], last["events_median_per_s"], f"{last['clients']:g}", colour))
    x = rows["moved"]
    if _wide(x):
        ax.set(xscale="log", xlim=(x.min() / 1.6, x.max() * 1.6))
    else:
        ax.set_xlim(0, 1.12 * x.max() if x.max() > 0 else 1)
    ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    ax.set_xlabel("Throughput into the node [MB/s]")
    return ends


def _wide(x: pd.Series) -> bool:
    known = x[x > 0]
    return bool(len(known)) and known.max() / known.min() > 20


def _draw_published(ax: "Axes", use_case: str, markers: list[str]) -> None:
    """Draw the published points of a use case on a grey background.

    Systems are grey, except the system that was read in two ways, which is black.
    """
    printed = published.load("hepix_2010_storage_lab").dropna()
    printed = printed[printed["use_case"] == use_case]
    tuned = {n.removesuffix(PLAIN) for n in printed["solution"] if n.endswith(PLAIN)}
    shown = list(dict.fromkeys(printed["solution"]))
    marks = dict(zip(shown, itertools.cycle(markers), strict=False))
    for name in shown:
        line = printed[printed["solution"] == name].sort_values("threads")
        highlighted = name.removesuffix(PLAIN) in tuned
        look = {
            "color": "0.1" if highlighted else "0.55",
            "linestyle": ":" if name.endswith(PLAIN) else "-",
            "marker": marks[name],
        }
        ax.plot(line["mb_per_s"], line["events"] / 1e6, **look, markersize=3.5, linewidth=0.8, label=name)
    jobs = sorted(printed["threads"].unique())
    ax.set(
        facecolor=PAPER,
        xlim=(0, math.ceil(printed["mb_per_s"].max() / 100) * 100),
        ylim=(0, 1.55 * printed["events"].max() / 1e6),  # room for the names
        xlabel="Throughput into ten nodes [MB/s]",
        ylabel="Events in their period [millions]",
        title=f"published: HEPiX 2010, {use_case}, {jobs[0]} to {jobs[-1]} jobs",
    )
    ax.legend(
        fontsize=4.6,
        ncols=3,
        loc="upper center",
        frameon=False,
        borderaxespad=0.2,
        columnspacing=0.7,
        handlelength=1.8,
        labelspacing=0.3,
    )


EVENTS_THROUGHPUT = Function(
    table="events",
    where={"workload": "events"},
    function=events_throughput,
    count=points,
    least=MIN_VALUES,
    counted_as="points",
    caption="Events that the jobs processed per second against the throughput into the node (bytes on the wire; for "
    "local files, bytes requested), by setting of the client; a line goes from the fewest jobs to the number at its "
    "end, each job on a separate file. Medians; {bars}. {shared} On grey, in other units: the points published "
    "by HEPiX in 2010 for other systems and machines; dotted: read without a matching client cache.",
)

# --- bars by system and number of jobs ---

BAR = 0.062  # height of a bar in inches
MIN_SYSTEMS = 4  # a panel has room for at least this number of systems
HATCHED = {"hatch": "//////", "edgecolor": "white", "linewidth": 0}
FEW = "; hatched: rates of fewer than 10 operations"


def events_bars(table: pd.DataFrame) -> "Figure | None":
    """Return the figure of events as bars by system and number of jobs, or None without data.

    Each navigation has a row of panels. The left panel has the measured events/s of each system at its best client
    setting. The right panel has the published values as hollow bars, in millions of events in their period.
    """
    from storelab.analysis.figures import plots

    ours = best_settings(table) if len(table) else table
    if ours.empty:
        return None
    theirs = table[table["source"] == PUBLISHED]
    found = [n for n in NAVIGATION.values() if n in set(ours["navigation"])]
    jobs = sorted({int(j) for j in pd.concat([ours["jobs"], theirs["jobs"]])})
    colours = dict(zip(jobs, plots.tones(len(jobs), "viridis"), strict=True))
    heights = [max(_bars(side[side["navigation"] == n]) for side in (ours, theirs)) for n in found]
    with plots.style():
        inches = [max(1.4, BAR * h + 0.5) for h in heights]
        note = f"Medians, {labels.bars_text(ours)}; hollow on grey: published 2010, in other units"
        note += FEW if ours["few"].any() else ""
        fig = plots.sheet(sum(inches) + 0.9, note)
        cells = fig.subplots(len(found), 2, squeeze=False, height_ratios=inches)
        for (left, right), n in zip(cells, found, strict=True):
            _panel(left, ours[ours["navigation"] == n], colours, hollow=False)
            left.set(title=f"{n}: measured here", xlabel="Events/s")
            _panel(right, theirs[theirs["navigation"] == n], colours, hollow=True)
            right.set(
                title=f"published 2010: HEPiX, {USE_CASE[n]}",
                xlabel="Events in their period [millions]",
                facecolor=PAPER,
            )
        handles = [plots.Patch(color=c, label=f"{j} jobs" if j > 1 else "1 job") for j, c in colours.items()]
        plots.key(fig, handles, "Events by system and number of jobs")
    return fig


def _bars(rows: pd.DataFrame) -> int:
    """Return the height of the bars of a panel, in units of one bar."""
    return int(rows["system"].nunique() * (max(rows["jobs"].nunique(), 2) + 1))


def _panel(ax: "Axes", rows: pd.DataFrame, colours: dict[int, Any], hollow: bool) -> None:
    """Draw the bars of each system, the most events on top. Values that the source does not print are marked."""
    from storelab.analysis.figures import plots

    value = rows["events"].astype(float) / 1e6 if hollow else rows["events_per_s"].astype(float)
    name = rows["system"].where(rows["setting"].isna(), rows["system"] + "\n" + rows["setting"].fillna(""))
    rows = rows.assign(value=value, name=name)
    names = list(rows.groupby("name")["value"].max().sort_values().index)
    jobs = sorted({int(j) for j in rows["jobs"]})
    step = 0.8 / max(len(jobs), 1)
    for r in rows.to_dict("records"):
        y = names.index(r["name"]) + 0.4 - step * (jobs.index(int(r["jobs"])) + 0.5)
        colour = colours[int(r["jobs"])]
        if pd.isna(r["value"]):
            ax.text(0, y, " not printed", fontsize=4, va="center", color="0.4")
            continue
        look = {"facecolor": "white", "edgecolor": colour, "linewidth": 0.8} if hollow else {"color": colour}
        look |= HATCHED if r["few"] is True else {}
        ax.barh(y, r["value"], 0.85 * step, **look)
        if r["source"] == MEASURED:
            reach = [[r["value"] - r["events_low_per_s"]], [r["events_high_per_s"] - r["value"]]]
            ax.errorbar(r["value"], y, xerr=reach, color="0.2", elinewidth=0.7, capsize=1.2, fmt="none")
    ax.set_yticks(range(len(names)), names, fontsize=6)
    ax.set_ylim(min(len(names) - MIN_SYSTEMS, 0) - 0.55, len(names) - 0.45)
    ax.set_xlim(left=0)
    ax.grid(visible=False, axis="y")
    plots.plain_numbers(ax.xaxis)


EVENTS_BARS = Function(
    table="storage_lab",
    where={"workload": "events"},
    function=events_bars,
    count=lambda table: points(table[table["source"] == MEASURED]) if len(table) else 0,
    least=MIN_VALUES,
    counted_as="points",
    caption="Events that the jobs processed, by system and number of jobs (bars, the fewest jobs on top); each system "
    "with the client setting that processed the most events at the largest number of jobs. {bars}. {shared} "
    "Hollow, on grey and in other units: published in 2010 for other systems, files and machines, counted over "
    "an undisclosed period.",
)

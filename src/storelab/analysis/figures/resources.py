"""Figures of one client: rates against its threads, and what it used meanwhile (level 3, analysis).

After experiment 1 of the evaluations (docs/campaigns.md): threads 1 to 200 of one client, which ran out of sockets and memory.
Tables in, `Figure` out, or None where no more than one number of workers was measured.
"""

import math

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from storelab.analysis.figures.plots import MARKERS, canvas, count_axis, curves, legend, style, subtitle, value_axis, with_series
from storelab.analysis.figures.systems import labelled
from storelab.analysis.parts import words
from storelab.analysis.tables import numbers
from storelab.core import units

OPERATIONS = ("put", "get", "get_range", "delete")
PANELS = (  # heading, unit, (metric, dash, name) of each kind of line
    (
        "TCP sockets",
        "",
        (("open", "sockets", "-", "open at the clients"), ("time_wait_more", "sockets", ":", "TIME_WAIT, more than before")),
    ),
    ("Memory of the clients", "MB", (("client_rss", "mb", "-", "resident, at most"),)),
    ("CPU of the clients", "cores", (("client_user", "cores", "-", "user"), ("client_system", "cores", ":", "system"))),
)


def against_workers(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table of groups that show the threads of one client: of the least number of clients, in a closed loop, where
    more than one number of workers was measured; with `deployment` and `moved`, the bytes of one operation."""
    if "workers" not in table or table.empty:
        return table.iloc[:0]
    rows = table[table["workload"].isin(OPERATIONS) & table["workers"].notna()]
    if "arrival_rate" in rows:
        rows = rows[rows["arrival_rate"].fillna(0) == 0]
    rows = rows[rows["clients"] == rows["clients"].min()]
    swept = rows.groupby(["store", "workload", "object_size_bytes"], dropna=False)["workers"].transform("nunique") > 1
    rows = labelled(rows[swept]) if len(rows) else rows
    if rows.empty:
        return rows
    ranged = rows["workload"] == "get_range"
    moved = rows["object_size_bytes"].astype(float)
    if "range_size_bytes" in rows:
        moved = moved.mask(ranged, rows["range_size_bytes"].astype(float))
    return rows.assign(moved=moved.mask(rows["workload"] == "delete", 0))


def _with_curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Add `series`: the operation, and what else was swept beside the workers and differs within a panel."""
    panels = [part for _, part in rows.groupby(["deployment", "object_size_bytes"])]
    fixed = [c for c in words.axes_of(rows) if all(part[c].nunique(dropna=False) <= 1 for part in panels)]
    ranges = [c for c in ("range_size_bytes", "offset") if c in rows and rows[c].nunique() <= 1]
    return with_series(rows, "workload", ("workers", *fixed, *ranges))


def _panels(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(deployment and size, rows), small objects first."""
    several = rows["deployment"].nunique() > 1
    return [
        (f"{deployment}, {units.format_size(int(size))} objects" if several else f"{units.format_size(int(size))} objects", part)
        for (size, deployment), part in rows.groupby(["object_size_bytes", "deployment"])
    ]


def _title(rows: pd.DataFrame, what: str) -> str:
    stores = f"{rows['deployment'].iloc[0]}, " if rows["deployment"].nunique() == 1 else ""
    return f"{what}: {stores}{words.plural(rows['clients'].min(), 'client')} ({numbers.joined(rows['engine'])})"


def threads(table: pd.DataFrame) -> Figure | None:
    """Objects/s of small and MB/s of large objects against the workers of each client (`throughput.csv`)."""
    rows = against_workers(table)
    rows = rows[rows["rate_median_per_s"].notna()] if len(rows) else rows
    if rows.empty:
        return None
    rows = _with_curves(rows)
    order, panels = list(dict.fromkeys(rows["series"])), _panels(rows)
    columns = min(len(panels), 2)
    with style():
        fig, grid = canvas(math.ceil(len(panels) / columns), columns, 2.3, subtitle(rows))
        cells = [ax for line in grid for ax in line]
        for ax, (name, part) in zip(cells, panels, strict=False):
            large = (part["moved"] >= numbers.LARGE).all()
            metric, label = (("throughput", "mb_per_s"), "MB/s") if large else (("rate", "per_s"), "objects/s")
            curves(ax, part, "workers", metric, order)
            count_axis(ax, part["workers"], "Workers per client")
            value_axis(ax, part[f"{metric[0]}_median_{metric[1]}"], label)
            ax.set_title(name)
        for ax in cells[len(panels) :]:
            ax.remove()
        legend(fig, order, _title(rows, "Threads"))
    return fig


def client_resources(table: pd.DataFrame) -> Figure | None:
    """Sockets, memory and CPU of the client against its workers, a row per object size and deployment (`resources.csv`)."""
    rows = against_workers(table)
    rows = rows[rows["time_wait_more_median_sockets"].notna() | rows["client_rss_median_mb"].notna()] if len(rows) else rows
    if rows.empty:
        return None
    rows = _with_curves(rows)
    order, panels = list(dict.fromkeys(rows["series"])), _panels(rows)
    with style():
        fig, grid = canvas(len(panels), 3, 2.1, subtitle(rows))
        for line, (name, part) in zip(grid, panels, strict=True):
            for ax, (heading, unit, kinds) in zip(line, PANELS, strict=True):
                _kinds(ax, part, kinds, order)
                count_axis(ax, part["workers"], "Workers per client", 5)
                shown = pd.concat([part[f"{metric}_median_{u}"].astype(float) for metric, u, _, _ in kinds])
                value_axis(ax, shown, f"{heading} [{unit}]" if unit else heading)
                if ax.get_yscale() == "log" and (shown <= 0).any():  # none has a place too
                    label = ax.yaxis.get_major_formatter()
                    ax.set_yscale("symlog", linthresh=1)
                    ax.set_ylim(bottom=0)
                    ax.yaxis.set_major_formatter(label)
                _kinds_named(ax, kinds)
            line[1].set_title(name)
        legend(fig, order, _title(rows, "What the client used"))
    return fig


def _kinds(ax: Axes, rows: pd.DataFrame, kinds: tuple[tuple[str, str, str, str], ...], order: list[str]) -> None:
    """Curves of several quantities in one panel: the first as all curves are, the others dotted and hollow; what is which inside."""
    for i, (metric, unit, dash, _) in enumerate(kinds):
        known = rows[rows[f"{metric}_median_{unit}"].notna()]
        if known.empty:
            continue
        if i == 0:
            curves(ax, known, "workers", (metric, unit), order)
            continue
        colours = dict(zip(order, sns.color_palette("colorblind", max(len(order), 1)), strict=False))
        for name, line in known.groupby("series", sort=False):
            y = line[f"{metric}_median_{unit}"]
            bars = [y - line[f"{metric}_low_{unit}"], line[f"{metric}_high_{unit}"] - y]
            look = {"color": colours[name], "linestyle": dash, "marker": MARKERS[order.index(name) % len(MARKERS)], "markersize": 4}
            ax.errorbar(line["workers"], y, bars, **look, markerfacecolor="white", capsize=2.5, elinewidth=1)
    sns.despine(ax=ax)


def _kinds_named(ax: Axes, kinds: tuple[tuple[str, str, str, str], ...]) -> None:
    """Which line is what, above the curves, where there are several kinds."""
    if len(kinds) < 2:
        return
    low, high = ax.get_ylim()
    room = 0.12 * len(kinds)
    ax.set_ylim(top=high * (high / max(low, 1)) ** room if ax.get_yscale() != "linear" else high * (1 + room))
    marks = [Line2D([], [], color="0.3", linestyle=dash, label=name) for _, _, dash, name in kinds]
    ax.legend(handles=marks, fontsize=6, frameon=False, loc="upper left", borderaxespad=0.1, handlelength=1.8)

"""The figure of series: rate, latency, failures, memory and open files over hours, a mark for each part. May import:
what `figures` may."""

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from storelab.analysis.figures.specification import Function
from storelab.analysis.parts import words
from storelab.analysis.statistics import steadiness
from storelab.analysis.tables.soak import titles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 3  # series side by side
# Metric of each row of panels: its label, columns of soak.csv with their metrics of soak_trends.csv.
ROWS = (
    ("Operations/s", {"rate_per_s": "rate"}),
    ("p99 [ms]", {"latency_p99_ms": "latency_p99"}),
    ("Failed [%]", {"errors_percent": "errors"}),
    ("Memory [MB]", {"client_rss_mb": "client_rss", "server_rss_mb": "server_rss"}),
    ("Open files", {"client_files": "client_files", "server_files": "server_files"}),
)
STORE = "black"


def soak(table: pd.DataFrame, *beside: pd.DataFrame) -> "Figure | None":
    """A column of panels for each of the first series; None without a valid part. What rises or falls (of the table
    beside) has its slope as a dashed line."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from storelab.analysis.figures import plots

    if table.empty:
        return None
    rows = table[table["state"] == "ok"].fillna({"role": ""})
    names = list(dict.fromkeys(rows["series"]))[:MOST]
    if not names:
        return None
    rows, found = rows[rows["series"].isin(names)], beside[0].fillna({"role": ""})
    shown = [row for row in ROWS if any(c in rows and rows[c].notna().any() for c in row[1])]
    tones, known = plots.tones(), list(dict.fromkeys(rows["role"]))
    colours = {role: tones[i % len(tones)] for role, i in zip(known, (0, 1, 2, 4, 5, 9, 6, 7, 8, 3), strict=False)}
    with plots.style():
        fig = Figure(figsize=(plots.WIDTH, 1.15 * len(shown) + 1.1), layout="constrained")
        cells = fig.subplots(len(shown), len(names), squeeze=False, sharex="col")
        for (label, columns), axes in zip(shown, cells, strict=True):
            drawn = []
            for ax, name in zip(axes, names, strict=True):
                own, told = rows[rows["series"] == name], found[found["series"] == name]
                lines = list(_lines(own, told, columns, colours))
                for hours, values, slope, look in lines:
                    ax.plot(hours, values, markersize=2.5, linewidth=0.8, **look)
                    if slope is not None:
                        ax.plot(hours, slope, color=look["color"], linestyle=(0, (4, 2)), linewidth=1.4)
                drawn.append(pd.Series(np.concatenate([np.array([]), *(line[1] for line in lines)]), dtype=float))
            plots.value_axis(list(axes), drawn, label, float("inf"))
            _none_failed(label, axes, drawn)
        named = titles(table["series"])
        for ax, name in zip(cells[0], names, strict=True):
            ax.set_title(textwrap.fill(_title(named[name], rows[rows["series"] == name]), 70 // len(names)), fontsize=7)
        for ax in cells[-1]:
            ax.set_xlabel("Hours from the begin of the first part")
        for own in cells:
            for ax in own[1:]:
                ax.set_ylabel("")
        fig.align_ylabels(cells[:, 0])
        handles = [
            Line2D([], [], color=c, marker="o", markersize=3, label=role or "clients") for role, c in colours.items()
        ]
        if any(c in rows and rows[c].notna().any() for c in ("server_rss_mb", "server_files")):
            handles.append(Line2D([], [], color=STORE, marker="s", markersize=3, label="store"))
        if found[found["series"].isin(names)]["trend"].isin([steadiness.RISES, steadiness.FALLS]).any():
            handles.append(Line2D([], [], color="0.3", linestyle=(0, (4, 2)), label="slope of what rises or falls"))
        plots.key(fig, handles, "Part by part")
    return fig


def _lines(
    rows: pd.DataFrame, found: pd.DataFrame, columns: dict[str, str], colours: dict[str, Any]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None, dict[str, Any]]]:
    """Hours, values, the slope where there is a trend, and looks of each line of a panel."""
    for column, metric in columns.items():
        if column.startswith("server_"):
            once = rows.drop_duplicates("key").sort_values("hour")
            yield *_line(once, found, "", column, metric), {"color": STORE, "marker": "s"}
        else:
            for role, own in rows.groupby("role", sort=False):
                yield *_line(own, found, str(role), column, metric), {"color": colours[str(role)], "marker": "o"}


def _line(
    rows: pd.DataFrame, found: pd.DataFrame, role: str, column: str, metric: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    hours, values = (rows[c].to_numpy(float) for c in ("hour", column))
    told = found[(found["role"] == role) & (found["metric"] == metric)]
    told = told[told["trend"].isin([steadiness.RISES, steadiness.FALLS])]
    if told.empty:
        return hours, values, None
    slope = float(told["slope_per_hour"].iloc[0])
    return hours, values, np.nanmedian(values - slope * hours) + slope * hours


def _none_failed(label: str, axes: "np.ndarray[Any, Any]", drawn: list[pd.Series]) -> None:
    if not label.startswith("Failed"):
        return
    ax: Axes
    for ax, values in zip(axes, drawn, strict=True):
        if not values.sum():
            ax.text(0.5, 0.5, "no failed operation", transform=ax.transAxes, ha="center", va="center", fontsize=6.5)


def _title(said: str, rows: pd.DataFrame) -> str:
    lasts = words.span(rows["duration_s"], "s")
    return f"{said} ({words.plural(rows['part'].nunique(), 'part')} of {lasts})"


def _count(table: pd.DataFrame) -> int:
    return int(table.loc[table["state"] == "ok", "series"].nunique()) if len(table) else 0


FIGURES = {
    "soak": Function(
        table="soak",
        beside=("soak_trends",),
        where={"part": ">= 1"},
        function=soak,
        count=_count,
        most=MOST,
        things="series",
        caption="One part after the other: rate, p99 of the latency, failed operations, memory and open files of "
        "clients and store, by role, at the middle of each part. Clients are started anew for each part, the store "
        "lives through all of them. Dashed: the Theil-Sen slope of what rises or falls. {shared}",
    ),
}

"""Figures that compare systems and deployments (level 3, analysis): side by side, against front-ends, against buckets, space.

After experiments 4, 5 and 9 of the evaluations (docs/campaigns.md). Tables in, `Figure` out, or None without data.
"""

import math

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from storelab.analysis.figures.plots import (
    MARKERS,
    canvas,
    client_bound,
    count_axis,
    curves,
    fewer,
    hollow,
    legend,
    limits,
    style,
    subtitle,
    value_axis,
    with_series,
)
from storelab.analysis.parts import words
from storelab.analysis.tables import numbers
from storelab.core import units

METRICS = {
    "metadata_upload": ("Uploads", ("rate", "per_s"), "objects/s"),
    "metadata_download": ("Downloads", ("rate", "per_s"), "objects/s"),
    "throughput_upload": ("Upload", ("throughput", "mb_per_s"), "MB/s"),
    "throughput_download": ("Download", ("throughput", "mb_per_s"), "MB/s"),
}


def labelled(rows: pd.DataFrame) -> pd.DataFrame:
    """Add `deployment`: store, redundancy, data servers, backing and scheme in words, as far as they are chosen."""
    return rows.assign(deployment=[words.deployment(r) for _, r in rows.iterrows()])


def comparable(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of a class that stand side by side in `systems`: measured, of one number of front-ends and of buckets (the least)."""
    rows = numbers.of_class(table, name)
    metric, unit = METRICS[name][1]
    rows = rows[rows[f"{metric}_median_{unit}"].notna()] if len(rows) else rows
    for column in ("front_ends", "buckets", "accounts", "clients"):
        if len(rows) and column in rows:
            rows = rows[rows[column] == rows[column].min()]
    return labelled(rows) if len(rows) else rows


def systems(table: pd.DataFrame) -> Figure | None:
    """Every deployment in a line: rate of small objects, throughput of large ones, up and down; a marker per engine."""
    parts = {name: comparable(table, name) for name in METRICS}
    parts = {name: rows for name, rows in parts.items() if len(rows)}
    every = pd.concat(parts.values()) if parts else pd.DataFrame()
    if every.empty or every["deployment"].nunique() < 2:
        return None
    order = sorted(every["deployment"].unique(), reverse=True)
    engines = sorted(every["engine"].unique())
    colours, columns = sns.color_palette("colorblind", len(engines)), min(len(parts), 2)
    with style():
        fig, grid = canvas(math.ceil(len(parts) / columns), columns, 0.6 + 0.2 * len(order), subtitle(every))
        cells = [ax for line in grid for ax in line]
        for place, (ax, (name, rows)) in enumerate(zip(cells, parts.items(), strict=False)):
            what, (metric, unit), shown = METRICS[name]
            median, low, high = (f"{metric}_{part}_{unit}" for part in ("median", "low", "high"))
            for i, engine in enumerate(engines):
                own = rows[rows["engine"] == engine]
                y = [order.index(d) + 0.24 * ((len(engines) - 1) / 2 - i) for d in own["deployment"]]
                bars = [own[median] - own[low], own[high] - own[median]]
                ax.errorbar(own[median], y, xerr=bars, fmt=MARKERS[i], color=colours[i], markersize=5, capsize=2.5, elinewidth=1)
                hollow(ax, own[median], pd.Series(y, index=own.index), client_bound(own), colours[i], MARKERS[i], 5)
            ax.set_yticks(range(len(order)), order if place % columns == 0 else [""] * len(order))
            ax.set_ylim(-0.6, len(order) - 0.4)
            if rows[median].max() > 20 * rows[median].min() > 0:
                ax.set_xscale("log")
                ax.xaxis.set_major_locator(LogLocator(numticks=6))
                ax.xaxis.set_minor_formatter(NullFormatter())
            else:
                ax.set_xlim(left=0)
            ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.6g}".replace(",", "\u2009")))
            sizes = " and ".join(units.format_size(int(s)) for s in sorted(rows["object_size_bytes"].unique()))
            ax.set_xlabel(f"{what} of {sizes} [{shown}]")
            sns.despine(ax=ax)
        for ax in cells[len(parts) :]:
            ax.remove()
        legend(fig, engines, f"Systems side by side, {words.plural(every['clients'].min(), 'client')}; by engine")
    return fig


def _against(table: pd.DataFrame, column: str, title: str, label: str) -> Figure | None:
    """Rates against an axis that counts something: a panel per class of operation and deployment, at the most clients."""
    panels = []
    for name, (what, metric, shown) in METRICS.items():
        rows = numbers.of_class(table, name)
        if column not in rows or rows.empty:
            continue
        rows = labelled(rows[rows[f"{metric[0]}_median_{metric[1]}"].notna()])
        for (deployment, size), part in rows.groupby(["deployment", "object_size_bytes"]):
            if part[column].nunique() > 1:
                panels.append((f"{deployment}, {what.lower()} of {units.format_size(int(size))}", part, metric, shown))
    if not panels:
        return None
    panels = [(name, fewer(part, column), metric, shown) for name, part, metric, shown in panels]
    every = pd.concat(part for _, part, _, _ in panels)
    # What differs between panels only stands in no curve's name.
    fixed = [c for c in words.axes_of(every) if all(part[c].nunique() <= 1 for _, part, _, _ in panels)]
    every = with_series(every, "clients" if column == "front_ends" else "accounts", (column, *fixed))
    small = subtitle(every)
    if column == "front_ends" and every["shared_host"].astype(bool).any() and not limits(every).any():
        small += "; it cannot tell what more front-ends would bring"
    order = list(dict.fromkeys(every["series"]))
    columns = min(len(panels), 2)
    with style():
        fig, grid = canvas(math.ceil(len(panels) / columns), columns, 2.2, small)
        cells = [ax for line in grid for ax in line]
        for ax, (name, part, metric, shown) in zip(cells, panels, strict=False):
            part = part.assign(series=every.loc[part.index, "series"]).sort_values(column)
            curves(ax, part, column, metric, order)
            count_axis(ax, part[column], label)
            value_axis(ax, part[f"{metric[0]}_median_{metric[1]}"], shown)
            ax.set_title(name)
        for ax in cells[len(panels) :]:
            ax.remove()
        legend(fig, order, title)
    return fig


def front_ends(table: pd.DataFrame) -> Figure | None:
    """Rates against the number of front-ends (experiment 4), a curve per number of clients."""
    return _against(table, "front_ends", "Scaling with front-ends", "Front-ends")


def buckets(table: pd.DataFrame) -> Figure | None:
    """Rates against the number of buckets (experiment 5), a curve per number of accounts."""
    return _against(table, "buckets", "Scaling with buckets and accounts", "Buckets")


STATES = {"put": "after the uploads", "delete": "some seconds after their deletion", "reclaim": "after the store was told to reclaim"}


def space(table: pd.DataFrame) -> Figure | None:
    """Raw bytes used for each byte stored: after the uploads, after their deletion, after reclaiming; a panel per object size."""
    rows = table[table["raw_per_byte_after_put_median_ratio"].notna()] if len(table) else table
    if rows.empty:
        return None
    rows = labelled(rows)
    order, sizes = sorted(rows["deployment"].unique(), reverse=True), sorted(rows["object_size_bytes"].unique())
    colours = sns.color_palette("colorblind", len(STATES))
    with style():
        fig, grid = canvas(
            1, len(sizes), 0.6 + 0.28 * len(order), f"Medians, {words.bars_text(rows)}; dashed: one raw byte for each byte stored"
        )
        for place, (ax, size) in enumerate(zip(grid[0], sizes, strict=True)):
            part = rows[rows["object_size_bytes"] == size]
            ax.axvline(1, color="0.5", linewidth=0.8, linestyle="--", zorder=0)
            for i, state in enumerate(STATES):
                median, low, high = (part[f"raw_per_byte_after_{state}_{p}_ratio"] for p in ("median", "low", "high"))
                y = [order.index(d) + 0.2 * (1 - i) for d in part["deployment"]]
                ax.errorbar(median, y, xerr=[median - low, high - median], fmt=MARKERS[i], color=colours[i], capsize=2.5, markersize=5)
            ax.set_yticks(range(len(order)), order if place == 0 else [""] * len(order))
            ax.set_ylim(-0.6, len(order) - 0.4)
            ax.set_xlim(left=min(0.0, ax.get_xlim()[0]))
            ax.set_title(f"{units.format_size(int(size))} objects")
            sns.despine(ax=ax)
        fig.supylabel("")
        for ax in grid[0]:
            ax.set_xlabel("Raw bytes used for each byte stored")
        legend(fig, list(STATES.values()), "Space")
    return fig

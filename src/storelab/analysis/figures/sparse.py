"""Figures of reads of ROOT files: by volume (the paper's 9 to 11), by entries (its 12 to 14), replayed; time by phase (level 3, analysis)."""

import itertools
import re

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from storelab.analysis.figures.plots import MARKERS, WIDTH, canvas, count_axis, curves, legend, style, subtitle, value_axis, with_series
from storelab.analysis.parts import words
from storelab.analysis.tables import numbers

READS = ("read_volume", "read_entries")  # workloads that decode
PHASES = ("plan", "transfer", "decompress", "deserialise")
X_LABEL = {"entry_fraction_percent": "Entries read [%]", "volume_fraction_percent": "Volume [%]"}
WORK = {"entries": ("entries", "per_s", "Useful work [entries/s]"), "reads": ("reads", "per_s", "Selections read [1/s]")}
PLAIN = {"max_range_gap_bytes": 32768, "thrift": 0, "max_amplification": 0}
MOST_BARS = 24


def volume(table: pd.DataFrame) -> Figure | None:
    """`read_volume`, a row per store: curves by part of the volume."""
    return _selections(table, "read_volume", "volume_fraction_percent", "entries", "Reads of the smallest branches of a ROOT file")


def entries(table: pd.DataFrame) -> Figure | None:
    """`read_entries`, a row per store: curves by fraction of the entries."""
    return _selections(table, "read_entries", "entry_fraction_percent", "entries", "Reads of random entries of a ROOT file")


def replay(table: pd.DataFrame) -> Figure | None:
    """`replay`, a row per store: curves by part of the volume; selections instead of entries, for nothing is decoded."""
    return _selections(table, "replay", "volume_fraction_percent", "reads", "Ranges of a ROOT file, replayed")


def _selections(table: pd.DataFrame, workload: str, fraction: str, work: str, title: str) -> Figure | None:
    """MB/s on the wire and useful work against clients; read amplification against the fraction at the least number of clients. A row of
    panels for each store and number of buckets (1: one file shared by all; more: copies)."""
    rows = table[table["workload"] == workload]
    rows = _plain(rows[rows["entries_median_per_s"].notna()]) if len(rows) else rows
    if rows.empty:
        return None
    rows = rows.assign(buckets=rows["buckets"].fillna(1) if "buckets" in rows else 1)  # records older than that axis
    rows = with_series(rows, fraction, ("clients", "buckets"))
    rows = rows.sort_values([fraction], ascending=False, kind="stable")
    order, places = list(dict.fromkeys(rows["series"])), list(rows.groupby(["store", "buckets"]))
    name, unit, label = WORK[work]
    with style():
        fig, grid = canvas(len(places), 3, 2.2, subtitle(rows))
        for line, ((store, buckets), part) in zip(grid, places, strict=True):
            curves(line[0], part, "clients", ("wire", "mb_per_s"), order)
            value_axis(line[0], part["wire_median_mb_per_s"], "Throughput on the wire [MB/s]")
            curves(line[1], part, "clients", (name, unit), order)
            value_axis(line[1], part[f"{name}_median_{unit}"], label, factor=10)
            for ax in line[:2]:
                count_axis(ax, part["clients"])
            _amplification(line[2], part, fraction)
            copies = "one bucket" if buckets == 1 else f"a copy in each of {buckets:g} buckets"
            line[1].set_title(f"{store}, {copies}" if rows["buckets"].nunique() > 1 else store)
        legend(fig, order, f"{title} ({numbers.joined(rows['engine'])})")
    return fig


def _plain(rows: pd.DataFrame) -> pd.DataFrame:
    """Where the making of requests was swept: least time, no bound, the default gap. `figures_gaps` shows the others."""
    for column, usual in PLAIN.items():
        if column in rows and rows[column].nunique() > 1:
            rows = rows[rows[column] == (usual if (rows[column] == usual).any() else rows[column].min())]
    return rows


def _amplification(ax: Axes, rows: pd.DataFrame, fraction: str) -> None:
    """Bytes on the wire over those of the baskets needed, and over the entries' share of the volume, against the fraction, at the least
    number of clients; the ideal is 1."""
    least = rows["clients"].min()
    rows = with_series(rows[rows["clients"] == least].drop(columns="series"), "engine", ("clients", fraction))
    names, shown = list(dict.fromkeys(rows["series"])), []
    ax.axhline(1, color="0.5", linewidth=0.8, linestyle="--", zorder=0)
    metrics = [("amplification", "wire / needed baskets", "-")]
    if fraction == "entry_fraction_percent":
        metrics.insert(0, ("share_amplification", "wire / share of entries", ":"))
    for metric, label, dash in metrics:
        for name, tone, marker in zip(names, sns.color_palette("dark:0.6", len(names)), itertools.cycle(MARKERS), strict=False):
            line = rows[(rows["series"] == name) & rows[f"{metric}_median_ratio"].notna()].sort_values(fraction)
            y = line[f"{metric}_median_ratio"]
            spread = [y - line[f"{metric}_low_ratio"], line[f"{metric}_high_ratio"] - y]
            said = f"{label.split()[2]}, {name}" if len(names) > 1 else label
            if len(line):
                ax.errorbar(line[fraction], y, spread, color=tone, marker=marker, linestyle=dash, capsize=2.5, label=said)
            shown.append(y)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.xaxis.set_major_locator(FixedLocator(sorted(rows[fraction].unique())))
    ax.xaxis.set_minor_locator(NullLocator())
    value_axis(ax, pd.concat(shown), "Amplification", factor=20)
    ax.set_xlabel(f"{X_LABEL[fraction]}, {words.plural(least, 'client')}")
    if lines := len(ax.containers):
        low, high = ax.get_ylim()  # room for the legend above the curves
        ax.set_ylim(top=high * (high / low) ** (0.16 * lines) if ax.get_yscale() == "log" else high * (1 + 0.16 * lines))
        ax.legend(fontsize=6, frameon=False, loc="upper right", borderaxespad=0, handlelength=1.6)
    sns.despine(ax=ax)


def phases(table: pd.DataFrame) -> Figure | None:
    """One bar for each selection and engine, stacked by phase: seconds of one read, at the least number of clients."""
    rows = table[table["workload"].isin(READS)]
    rows = rows[rows["transfer_median_s_per_read"].notna()] if len(rows) else rows
    if rows.empty:
        return None
    rows = _plain(rows[rows["clients"] == rows["clients"].min()])
    if "buckets" in rows and rows["buckets"].notna().any():
        rows = rows[rows["buckets"] == rows["buckets"].min()]
    parts = [with_series(part, "engine", ("clients",)) for _, part in rows.groupby("workload", sort=False)]
    rows = pd.concat(parts).head(MOST_BARS)
    kinds = rows["workload"].map({"read_volume": "by volume", "read_entries": "by entries"})
    names = [", ".join(filter(None, said)) for said in zip(kinds, rows["series"], strict=True)]
    if rows["store"].nunique() > 1:
        names = [f"{store}: {name}" for store, name in zip(rows["store"], names, strict=True)]
    with style():
        fig, ((ax,),) = canvas(1, 1, 0.28 * len(rows) + 1.0, re.sub(r"; bars: [^;]*", "", subtitle(rows)))
        fig.set_figwidth(WIDTH)
        left = pd.Series(0.0, index=rows.index)
        palette = dict(zip(PHASES, sns.color_palette("colorblind", len(PHASES)), strict=True))
        for phase, colour in palette.items():
            spent = 1000 * rows[f"{phase}_median_s_per_read"].fillna(0)
            ax.barh(range(len(rows)), spent, left=left, color=colour, height=0.7, label=phase)
            left += spent
        ax.set_yticks(range(len(rows)), names, fontsize=7)
        ax.invert_yaxis()
        ax.set_xlabel("Time of one read [ms]")
        fig.legend(loc="outside upper center", ncols=len(PHASES), frameon=False, fontsize=7, title="Where the time of a read goes")
        sns.despine(ax=ax)
    return fig

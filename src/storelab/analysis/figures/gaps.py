"""Figures of how ranges become requests: what a fixed gap costs, and the front between time and bytes (level 3, analysis).

Rows of `sparse.csv` at the least number of clients: `replay` with the axis `merge`, and readers that merge over a fixed gap beside those
that plan. A selection is what is read: file, part of the entries, part of the volume.
"""

import itertools
from collections.abc import Iterable

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from storelab.analysis.figures.plots import MARKERS, canvas, legend, style, subtitle, value_axis
from storelab.analysis.parts import words
from storelab.core import units
from storelab.core.engines import merges

WORKLOADS = ("replay", "read_volume", "read_entries")
SELECTION = ("entry_fraction_percent", "volume_fraction_percent", "scale", "codec")
METRICS = (
    ("amplification", "ratio", "Amplification (wire / needed)"),
    ("requests", "per_read", "Requests of one read"),
    ("transfer", "s_per_read", "Transfer of one read [s]"),
)
GAP, THRIFT, BOUND = "max_range_gap_bytes", "thrift", "max_amplification"
SMALLEST = 1024  # where a gap of nothing stands on a logarithmic axis
MOST_PANELS = 4


def _fixed(rows: pd.DataFrame) -> pd.Series:
    """Which rows merge over a fixed gap; the others plan."""
    merge = rows["merge"] == "gap" if "merge" in rows else pd.Series(False, index=rows.index)
    return merge.where(rows["workload"] == "replay", rows["engine"].map(merges) == "gap").fillna(False).astype(bool)


def chosen(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first of WORKLOADS in which a selection was read with several fixed gaps, with `fixed` and `selection` (in words);
    nothing where there is none. Copies, front-ends and the like: the first value of each."""
    if GAP not in table or table.empty:
        return table.iloc[:0]
    for workload in WORKLOADS:
        rows = table[(table["workload"] == workload) & table["transfer_median_s_per_read"].notna()]
        if rows.empty:
            continue
        rows = rows[rows["clients"] == rows["clients"].min()]
        rows = rows.assign(fixed=_fixed(rows))
        free = {"store", "workload", "engine", "clients", "merge", GAP, THRIFT, BOUND, *SELECTION}
        for axis in words.axes_of(rows):
            if axis not in free and rows[axis].nunique() > 1:
                rows = rows[rows[axis] == sorted(rows[axis].dropna())[0]]
        if workload == "replay" and rows["engine"].nunique() > 1:  # one transport for both
            rows = rows[rows["engine"] == sorted(rows["engine"])[-1]]
        said = [c for c in SELECTION if c in rows and rows[c].nunique() > 1] or ["volume_fraction_percent"]
        rows = rows.assign(
            selection=[", ".join(words.value_text(c, v) for c, v in zip(said, r, strict=True)) for r in rows[said].to_numpy()]
        )
        many = rows[rows["fixed"]].groupby(["store", "selection"])[GAP].nunique()
        kept = set(many[many > 1].index)
        rows = rows[[place in kept for place in zip(rows["store"], rows["selection"], strict=True)]]
        if len(rows):
            return rows.sort_values(["store", "volume_fraction_percent"], kind="stable")
    return table.iloc[:0]


def gaps(table: pd.DataFrame) -> Figure | None:
    """Amplification, requests and transfer time against the gap; the planner's own (least time) as a dashed line."""
    rows = chosen(table)
    if rows.empty:
        return None
    order, stores = list(dict.fromkeys(rows["selection"])), sorted(rows["store"].unique())
    palette = dict(zip(order, sns.color_palette("colorblind", len(order)), strict=True))
    with style():
        fig, grid = canvas(len(stores), len(METRICS), 2.2, subtitle(rows))
        for line, store in zip(grid, stores, strict=True):
            part = rows[rows["store"] == store]
            for ax, (name, unit, label) in zip(line, METRICS, strict=True):
                for (selection, colour), marker in zip(palette.items(), itertools.cycle(MARKERS), strict=False):
                    _against_gap(ax, part[part["selection"] == selection], (name, unit), colour, marker)
                value_axis(ax, part[f"{name}_median_{unit}"], label, factor=20)
                _gap_axis(ax, part.loc[part["fixed"], GAP])
            line[1].set_title(store)
        legend(fig, order, "Ranges merged over a fixed gap (symbols), and planned (dashed)")
    return fig


def _against_gap(ax: Axes, rows: pd.DataFrame, metric: tuple[str, str], colour: tuple[float, ...], marker: str) -> None:
    median, low, high = (f"{metric[0]}_{part}_{metric[1]}" for part in ("median", "low", "high"))
    fixed = rows[rows["fixed"]].sort_values(GAP)
    bars = [fixed[median] - fixed[low], fixed[high] - fixed[median]]
    ax.errorbar(fixed[GAP].clip(lower=SMALLEST), fixed[median], bars, color=colour, marker=marker, capsize=2.5)
    free = rows[~rows["fixed"] & (rows[THRIFT].fillna(0) == 0) & (rows[BOUND].fillna(0) == 0)]
    for value in free[median].head(1):
        ax.axhline(value, color=colour, linestyle="--", linewidth=1, zorder=1)
    sns.despine(ax=ax)


def _gap_axis(ax: Axes, values: pd.Series) -> None:
    ticks = sorted({max(int(v), SMALLEST) for v in values})
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: "0" if v <= SMALLEST and (values == 0).any() else units.format_size(round(v))))
    ax.tick_params(axis="x", labelrotation=45)
    ax.set_xlabel("Largest gap merged")


def front(table: pd.DataFrame) -> Figure | None:
    """Transfer time against bytes on the wire, one panel per store and selection: fixed gaps, and plans by thrift and bound."""
    rows = chosen(table)
    rows = rows[rows["wire_median_mb_per_read"].notna()] if len(rows) else rows
    if rows.empty or rows["fixed"].all():
        return None
    panels = list(rows.groupby(["store", "selection"], sort=False))[:MOST_PANELS]
    columns = min(2, len(panels))
    with style():
        fig, grid = canvas(-(-len(panels) // columns), columns, 2.6, subtitle(rows))
        cells = [ax for line in grid for ax in line]
        for ax, ((store, selection), part) in zip(cells, panels, strict=False):
            for kind, colour, marker in zip((True, False), sns.color_palette("colorblind", 2), MARKERS, strict=False):
                _points(ax, part[part["fixed"] == kind], kind, colour, marker)
            needed = part["needed_median_mb_per_read"].median()
            ax.axvline(needed, color="0.5", linestyle=":", linewidth=1, zorder=0)
            ax.annotate(" needed", (needed, 0.01), xycoords=("data", "axes fraction"), fontsize=6.5, color="0.35")
            value_axis(ax, part["transfer_median_s_per_read"], "Transfer of one read [s]", factor=3)
            wide = part["wire_median_mb_per_read"].max() / needed
            if wide > 3:
                ax.set_xscale("log")
                ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if wide < 300 else (1,)))
                ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
                ax.xaxis.set_minor_formatter(NullFormatter())
            ax.margins(0.25, 0.12)
            ax.set_xlabel("On the wire, one read [MB]")
            ax.set_title(f"{store}, {selection}")
        for ax in cells[len(panels) :]:
            ax.remove()
        legend(fig, ["fixed gap", "planned"], "Time against bytes: what lies lower left is better")
    return fig


def _points(ax: Axes, rows: pd.DataFrame, fixed: bool, colour: tuple[float, ...], marker: str) -> None:
    rows = rows.sort_values("wire_median_mb_per_read")
    x, y = rows["wire_median_mb_per_read"], rows["transfer_median_s_per_read"]
    bars = [y - rows["transfer_low_s_per_read"], rows["transfer_high_s_per_read"] - y]
    ax.errorbar(x, y, bars, color=colour, marker=marker, linestyle="-" if fixed else "--", capsize=2.5, linewidth=0.8)
    for (a, b), names in _together(zip(x, y, (_name(row, fixed) for _, row in rows.iterrows()), strict=True)).items():
        ax.annotate(", ".join(names), (a, b), (4, 4 if fixed else -9), textcoords="offset points", fontsize=6, color=colour)
    sns.despine(ax=ax)


def _together(points: Iterable[tuple[float, float, str]]) -> dict[tuple[float, float], list[str]]:
    """Names by place; what lies within a tenth of another place stands with it, or its name would hide the other."""
    out: dict[tuple[float, float], list[str]] = {}
    for x, y, name in points:
        near = next((p for p in out if abs(x / p[0] - 1) < 0.1 and abs(y / p[1] - 1) < 0.1), (x, y))
        out.setdefault(near, []).append(name)
    return out


def _name(row: pd.Series, fixed: bool) -> str:
    """`32.8 kB`; `thrift 4`; `at most 3`; `least time`."""
    if fixed:
        return units.format_size(int(row[GAP]))
    if row[BOUND]:
        return f"at most {row[BOUND]:g}×"
    return f"thrift {row[THRIFT]:g}" if row[THRIFT] else "least time"

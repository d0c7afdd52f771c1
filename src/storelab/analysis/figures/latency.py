"""Figures of latency (level 3, analysis): against concurrency (closed loop), against the arrival rate (open loop), and its spectrum.

Tables in, `Figure` out, or None without data. What the quantiles are: `latency`. Both axes of time are logarithmic.
"""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from storelab.analysis.figures.plots import MARKERS, canvas, count_axis, key, style, subtitle
from storelab.analysis.parts import words
from storelab.analysis.tables import latency
from storelab.core import units
from storelab.core.axes import DEPLOYMENT_NAMES

CURVES = {"latency_p50": "p50", "latency_p99": "p99", "latency_p999": "p99.9", "ttfb_p50": "time to first byte, p50"}
MOST_PANELS = 8
TITLE = 46  # characters of a panel's title on a line
LOOPS = {
    "closed": "closed loop: a worker begins when its last operation has ended, and asks nothing while the system stalls",
    "open": "open loop: operations fall due at a constant rate, and latency counts from then",
}
DASHES = {"closed": "--", "open": ":"}
THIN = "\u2009"
SPECTRUM = {0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9"}


def _size(row: pd.Series) -> str:
    """Of the range, else of the object."""
    return next((units.format_size(int(row[c])) for c in latency.SIZES if c in row and not pd.isna(row[c])), "")


def _panels(rows: pd.DataFrame, apart: Sequence[str]) -> pd.DataFrame:
    """Add `panel`: deployment, op, size, and each axis that varies and is not in `apart`, in words."""
    sizes = [c for c in latency.SIZES if c in rows]
    varying = [c for c in words.axes_of(rows) if c not in (*apart, *DEPLOYMENT_NAMES, *sizes) and rows[c].nunique() > 1]
    said = []
    for _, r in rows.iterrows():
        parts = [f"{words.deployment(r)}: {r['op']} {_size(r)}".strip(), *(words.value_text(c, r[c]) for c in varying if not pd.isna(r[c]))]
        said.append(", ".join(filter(None, parts)))
    return rows.assign(panel=said).sort_values(["store", "op", *sizes, "panel"], kind="stable")


def _fewest(rows: pd.DataFrame) -> pd.DataFrame:
    """With too many panels: only the least of front-ends, buckets, accounts, one after the other; then the first panels."""
    for column in ("front_ends", "buckets", "accounts"):
        if column in rows and rows["panel"].nunique() > MOST_PANELS:
            rows = rows[(rows[column] == rows[column].min()) | rows[column].isna()]
    return rows[rows["panel"].isin(list(dict.fromkeys(rows["panel"]))[:MOST_PANELS])]


def _note(rows: pd.DataFrame, loop: str, every: int) -> str:
    left = f"; {rows['panel'].nunique()} of {every} panels, all are in latency.csv" if rows["panel"].nunique() < every else ""
    binned = f"; from histograms, to {100 * (latency.WIDTH - 1):g} %" if rows["binned"].astype(bool).any() else ""
    return f"{subtitle(rows)}{binned}{left}. {LOOPS[loop][0].upper()}{LOOPS[loop][1:]}"


def time_axis(ax: Axes, label: str) -> None:
    """Milliseconds on a logarithmic axis, in plain numbers."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    low, high = low / 1.15, high * 1.15
    ax.set_ylim(low, high)
    subs = (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
    ax.yaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.6g}".replace(",", THIN)))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_ylabel(label)
    sns.despine(ax=ax)


def _line(ax: Axes, x: pd.Series, rows: pd.DataFrame, metric: str, place: int) -> None:
    """Medians with bars low-high in colour and marker `place`; open symbols where the system did not keep up."""
    colour, marker = sns.color_palette("colorblind")[place], MARKERS[place]
    y, low, high = (rows[f"{metric}_{part}_ms"].astype(float) for part in ("median", "low", "high"))
    ax.errorbar(x, y, [y - low, high - y], color=colour, linestyle=":" if metric.startswith("ttfb") else "-", elinewidth=1, capsize=2.5)
    behind = (rows["completed_percent"].astype(float) < latency.KEPT_UP).to_numpy()
    for chosen, fill in ((~behind, colour), (behind, "white")):
        ax.plot(x[chosen], y[chosen], linestyle="", marker=marker, color=colour, markerfacecolor=fill, markersize=5)


def _against(table: pd.DataFrame, loop: str, column: str, label: str, title: str) -> Figure | None:
    """Quantiles against a column that counts something: a panel per deployment, op and size."""
    rows = latency.shown(table)
    rows = rows[(rows["loop"] == loop) & (rows[column].fillna(0) > 0)] if column in rows else rows.iloc[:0]
    if rows.empty:
        return None
    rows = _panels(rows, ("clients", "workers") if column == "concurrency" else (column,))
    every, rows = rows["panel"].nunique(), _fewest(rows)
    panels, shown = list(dict.fromkeys(rows["panel"])), [m for m in CURVES if rows[f"{m}_median_ms"].notna().any()]
    columns = min(len(panels), 2)
    behind = (rows["completed_percent"].astype(float) < latency.KEPT_UP).any()
    note = _note(rows, loop, every) + (f"; open symbols: less than {latency.KEPT_UP:g} % of what was due was done" if behind else "")
    with style():
        fig, grid = canvas(math.ceil(len(panels) / columns), columns, 2.2, note)
        cells = [ax for line in grid for ax in line]
        for ax, name in zip(cells, panels, strict=False):
            part = rows[rows["panel"] == name].sort_values([column, "clients"]).drop_duplicates(column)
            for metric in shown:
                known = part[part[f"{metric}_median_ms"].notna()]
                _line(ax, known[column].astype(float), known, metric, list(CURVES).index(metric))
            count_axis(ax, part[column], label)
            time_axis(ax, "Latency [ms]")
            ax.set_title(textwrap.fill(name, TITLE))
        for ax in cells[len(panels) :]:
            ax.remove()
        _key(fig, shown, title)
    return fig


def _key(fig: Figure, shown: list[str], title: str) -> None:
    palette, order = sns.color_palette("colorblind"), list(CURVES)
    handles = [
        mpl.lines.Line2D(
            [],
            [],
            color=palette[order.index(m)],
            marker=MARKERS[order.index(m)],
            linestyle=":" if m.startswith("ttfb") else "-",
            label=CURVES[m],
        )
        for m in shown
    ]
    key(fig, handles, title)


def latency_closed(table: pd.DataFrame) -> Figure | None:
    """Latency against clients * workers, closed loop. Of several with the same product, the one with the fewest clients."""
    label = "Operations in flight (clients times workers)"
    return _against(table, "closed", "concurrency", label, "Latency against concurrency, closed loop")


def latency_open(table: pd.DataFrame) -> Figure | None:
    """Latency against the arrival rate, open loop."""
    return _against(table, "open", "arrival_rate", "Operations due per second", "Latency against load, open loop")


def latency_spectrum(table: pd.DataFrame) -> Figure | None:
    """Latency by quantile, a panel per op and size, a curve per system and load: the closed loop at the least and the most operations in
    flight, the open loop at the most operations due."""
    rows = latency.ends(latency.shown(table, "latency_p90"), open_least=False)
    return None if rows.empty else _spectrum(rows)


def _spectrum(rows: pd.DataFrame) -> Figure:
    """A colour for each deployment (and engine), dashes for the load."""
    several = "engine" in rows and rows["engine"].nunique() > 1
    system = [", ".join([words.deployment(r), *([r["engine"]] if several else [])]) for _, r in rows.iterrows()]
    load = pd.Series([r[latency.load_column(r["loop"])] for _, r in rows.iterrows()], index=rows.index)
    panel = [f"{r['op']} {_size(r)}".strip() for _, r in rows.iterrows()]
    rows = rows.assign(system=system, load=load.astype(float), panel=panel).sort_values(["system", "loop", "load"])
    palette = dict(zip(rows["system"].unique(), zip(sns.color_palette("colorblind"), MARKERS, strict=True), strict=False))
    panels = sorted(rows["panel"].unique(), key=list(panel).index)[:MOST_PANELS]
    rows = rows[rows["panel"].isin(panels) & rows["system"].isin(list(palette))]
    handles = {}
    columns = min(len(panels), 2)
    with style():
        fig, grid = canvas(math.ceil(len(panels) / columns), columns, 2.4, subtitle(rows))
        cells = [ax for line in grid for ax in line]
        for ax, name in zip(cells, panels, strict=False):
            part = rows[rows["panel"] == name]
            for i, (_, r) in enumerate(part.iterrows()):
                light = (
                    r["loop"] == "closed" and r["load"] < part[(part["system"] == r["system"]) & (part["loop"] == "closed")]["load"].max()
                )
                look = dict(zip(("color", "marker"), palette[r["system"]], strict=True)) | {
                    "linestyle": "-" if light else DASHES[r["loop"]]
                }
                _quantiles(
                    ax,
                    r,
                    1 + 0.05 * (i - (len(part) - 1) / 2),
                    look,
                    len(part[["loop", "load"]].drop_duplicates()) > 1 or i == len(part) - 1,
                )
                kind = "most due" if r["loop"] == "open" else "fewest in flight" if light else "most in flight"
                said = f"{r['system']}, {r['loop']} loop, {kind}"
                handles.setdefault(said, mpl.lines.Line2D([], [], label=said, **look))
            ax.set_xscale("log")
            ax.set_xlim(1.6, 1250)
            ax.xaxis.set_major_locator(FixedLocator([1 / (1 - p) for p in SPECTRUM]))
            ax.xaxis.set_minor_locator(NullLocator())
            ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: SPECTRUM.get(round(1 - 1 / v, 4), "")))
            ax.set_xlabel("Quantile of the operations")
            time_axis(ax, "Latency [ms]")
            ax.set_title(name)
        for ax in cells[len(panels) :]:
            ax.remove()
        key(fig, list(handles.values()), "Latency by quantile")
    return fig


def _quantiles(ax: Axes, row: pd.Series, aside: float, look: dict[str, Any], said: bool) -> None:
    """One curve through the quantiles that are known, with bars, a little aside so that no curve hides another; `said`: its load too."""
    known = [(p, f"latency_{n}") for p, n in zip(latency.LEVELS, latency.NAMES, strict=True) if not pd.isna(row[f"latency_{n}_median_ms"])]
    y, low, high = ([row[f"{m}_{part}_ms"] for _, m in known] for part in ("median", "low", "high"))
    bars = [[v - w for v, w in zip(y, low, strict=True)], [w - v for v, w in zip(y, high, strict=True)]]
    if not said:
        return
    load = f"{words.grouped(f'{row.load:.0f}', THIN)} {'due/s' if row['loop'] == 'open' else 'in flight'}"
    ax.annotate(load, (aside / (1 - known[-1][0]), y[-1]), xytext=(0, 5), textcoords="offset points", fontsize=6, ha="center", color="0.3")
    ax.errorbar([aside / (1 - p) for p, _ in known], y, bars, elinewidth=1, capsize=2.5, **look)

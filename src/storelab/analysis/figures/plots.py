"""What the figures share: style, canvas, curves with bars, legends and axes (level 3, analysis). Draws, knows no workload."""

import textwrap
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from storelab.analysis.parts import words

WIDTH = 6.3  # inches: \textwidth of the paper, so that the fonts stand there at their size
STYLE = {
    **sns.axes_style("ticks"),
    "axes.grid": True,
    "grid.color": "0.9",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 5,
    "pdf.fonttype": 42,
    "axes.linewidth": 0.6,
}
LETTERS = 14.5  # of a legend in an inch; a handle takes as much as 9
MOST_CURVES = 4  # of one axis
WIDE = 16  # from this factor between least and most clients on, their axis is logarithmic
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "*"]


def style() -> AbstractContextManager[None]:
    """The house's style, while drawing and saving."""
    return mpl.rc_context(STYLE)


def with_series(rows: pd.DataFrame, always: str, apart: Iterable[str]) -> pd.DataFrame:
    """Add `series`: in words the value of `always` and of each axis that varies and is not in `apart`; sorted by them."""
    varying = [c for c in words.axes_of(rows) if c not in (always, *apart) and rows[c].nunique() > 1]
    names = [always, *varying]
    rows = rows.sort_values([*names, "clients"])
    said = [[words.value_text(c, v) for c, v in zip(names, values, strict=True)] for values in rows[names].itertuples(index=False)]
    return rows.assign(series=[", ".join(filter(None, parts)) or "as configured" for parts in said])


def fewer(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Where an axis was swept beside `column` with more values than curves can be told apart: its least and its most."""
    for axis in ("workers", "clients", "buckets"):
        if axis != column and axis in rows and rows[axis].nunique() > MOST_CURVES:
            rows = rows[rows[axis].isin([rows[axis].min(), rows[axis].max()])]
    return rows


def subtitle(rows: pd.DataFrame) -> str:
    """What the bars are; where client and server share a host, with the share of its cores that each took; what open symbols are."""
    shared = rows["shared_host"].astype(bool)
    note = "; client and server share one host" if shared.all() else "; some clients share the server's host" if shared.any() else ""
    note += words.cpu_shares(rows[shared]) if shared.any() else ""
    note += "; open symbols: client-bound" if client_bound(rows).any() else ""
    return f"Medians, {words.bars_text(rows).replace('minimum to maximum', 'min to max')}{note}"


def client_bound(rows: pd.DataFrame) -> pd.Series:
    """Which rows came near what the client could do at most (false where nobody knows)."""
    if "client_bound" not in rows:
        return pd.Series(False, index=rows.index)
    return rows["client_bound"].map(lambda v: not pd.isna(v) and str(v) == "True").astype(bool)


def canvas(rows: int, columns: int, height: float, small: str) -> tuple[Figure, list[list[Axes]]]:
    """An empty figure with a small line of what the bars are; no pyplot, so that nothing outlives the call."""
    fig = Figure(figsize=(WIDTH if columns > 1 else 4.7, height * rows + 0.75), layout="constrained")
    fig.supxlabel(textwrap.fill(small, 110 if columns > 1 else 90), fontsize=7, color="0.35")
    return fig, fig.subplots(rows, columns, squeeze=False).tolist()


def curves(ax: Axes, rows: pd.DataFrame, x: str, y: tuple[str, str], order: list[str]) -> None:
    """Medians of metric y = (name, unit) with bars low-high against x, one colour and marker per series; client-bound ones are open."""
    median, low, high = (f"{y[0]}_{part}_{y[1]}" for part in ("median", "low", "high"))
    palette = dict(zip(order, sns.color_palette("colorblind", max(len(order), 1)), strict=False))
    markers = {s: MARKERS[i % len(MARKERS)] for i, s in enumerate(order)}
    least, most = rows[x].min(), rows[x].max()
    for i, name in enumerate(order):  # a little apart sideways, so that no bar hides another
        line = rows[rows["series"] == name]
        step = 0.012 * (i - (len(order) - 1) / 2)
        aside = line[x] * (most / least) ** step if most / least >= WIDE else line[x] + ((most - least) or 1) * step
        bars = [line[median] - line[low], line[high] - line[median]]
        ax.errorbar(aside, line[median], bars, fmt="none", ecolor=palette[name], elinewidth=1, capsize=2.5)
        sns.lineplot(
            x=aside, y=line[median], color=palette[name], marker=markers[name], errorbar=None, ax=ax, markeredgewidth=0.5, markersize=6
        )
        hollow(ax, aside, line[median], client_bound(line), palette[name], markers[name])
    sns.despine(ax=ax)


def limits(rows: pd.DataFrame) -> pd.Series:
    """Which rows have a ceiling that was measured between the real hosts: of clients on several nodes."""
    if "nodes" not in rows or "ceiling_rate_per_s" not in rows:
        return pd.Series(False, index=rows.index)
    return ((rows["nodes"].fillna(1) > 1) & rows["ceiling_rate_per_s"].notna()).astype(bool)


def network_limit(ax: Axes, rows: pd.DataFrame, metric: tuple[str, str]) -> None:
    """What the clients of several nodes reach at a near-null server, against their number, where the calibration knows."""
    known = rows[limits(rows)]
    if known.empty:
        return
    unit = known["object_size_bytes"].astype(float) / 1e6 if metric[0] == "throughput" else 1.0
    line = (known["ceiling_rate_per_s"].astype(float) * unit).groupby(known["clients"]).max()
    ax.plot(line.index, line, color="0.35", linestyle=":", linewidth=1, zorder=1)
    ax.annotate(
        "network limit", (line.index[-1], line.iloc[-1]), (-2, 3), textcoords="offset points", fontsize=6.5, color="0.35", ha="right"
    )


def hollow(ax: Axes, x: pd.Series, y: pd.Series, chosen: pd.Series, colour: Any, marker: str, size: float = 6) -> None:
    """Open symbols over those that are chosen."""
    chosen = chosen.to_numpy(bool)
    if chosen.any():
        ax.plot(x[chosen], y[chosen], ls="none", marker=marker, mfc="white", mec=colour, ms=size, zorder=4)


def legend(fig: Figure, order: list[str], title: str) -> None:
    """The series above the panels, below the figure's title."""
    colours = sns.color_palette("colorblind", max(len(order), 1))
    key(fig, [mpl.lines.Line2D([], [], color=colours[i], marker=MARKERS[i % len(MARKERS)], label=s) for i, s in enumerate(order)], title)


def key(fig: Figure, handles: Sequence[Any], title: str) -> None:
    """These handles above the panels, in as many columns as fit (at most 4), below the figure's title."""
    longest = max((len(h.get_label()) for h in handles), default=0)
    fig.legend(
        handles=handles,
        loc="outside upper center",
        frameon=False,
        title=title,
        title_fontsize=9.5,
        ncols=max(1, min(len(handles), 4, int(fig.get_figwidth() * LETTERS) // (longest + 9))),
    )


def _apart(ticks: list[int], labels: int) -> list[int]:
    """The ticks that can bear a label on a logarithmic axis with room for so many: the last, and going down what is far enough."""
    least, kept = (ticks[-1] / ticks[0]) ** (1 / labels), ticks[-1:]
    for tick in reversed(ticks[:-1]):
        if kept[-1] / tick >= least and (tick == ticks[0] or tick / ticks[0] >= least):
            kept.append(tick)
    return kept[::-1]


def count_axis(ax: Axes, values: Iterable[float], label: str = "Clients", labels: int = 9) -> None:
    """Ticks at the measured numbers (of clients …); logarithmic where they span a factor WIDE or more, with at most so many labels."""
    ticks = sorted({int(v) for v in values})
    if ticks[-1] / ticks[0] >= WIDE:
        ax.set_xscale("log", base=2)
        ticks = _apart(ticks, labels)
    if len(ticks) > 12:
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    else:
        ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    pad = 0.35 if len(ticks) == 1 else 0
    ax.set_xlim(ax.get_xlim()[0] - pad, ax.get_xlim()[1] + pad)
    ax.set_xlabel(label)


def value_axis(ax: Axes, values: pd.Series, label: str, factor: float = 50) -> None:
    """From zero, or logarithmic where the medians span more than `factor`; plain numbers."""
    known = values[values > 0]
    if len(known) and known.max() / known.min() > factor:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if known.max() / known.min() < 300 else (1,)))
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_ylim(0, max(ax.get_ylim()[1], 1.08 * known.max() if len(known) else 1))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.6g}".replace(",", "\u2009")))
    ax.set_ylabel(label)

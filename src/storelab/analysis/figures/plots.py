"""Functions for drawing that all figures use: style, grid of panels, colours, legends and axes.

This module does not depend on workloads.
"""

import itertools
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch  # noqa: F401  (for the figures, which load this module when they draw)
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from storelab.analysis.figures.panels import MAX_COLOURS, MIN_HEIGHTS, PAGE, on_one_host, side_by_side, symbols
from storelab.analysis.parts import labels
from storelab.core import units

WIDTH = 6.3  # width of a figure in inches, equal to \textwidth of the paper, so that fonts are not scaled
STYLE = {
    **sns.axes_style("ticks"),
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
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
LETTERS = 14.5  # number of characters per inch in a legend; a handle is as wide as 9 characters
WIDE = 16  # from this ratio of largest to smallest number of clients on, their axis is logarithmic
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "*"]
THIN = "\u2009"
Label = tuple[float, float, str, Any]  # x, y, text, colour
Looks = dict[str, tuple[Any, str]]  # colour and marker of each name


def style() -> AbstractContextManager[None]:
    """Return a context with the common style of all figures, for drawing and saving."""
    return mpl.rc_context(STYLE)


def tones(number: int | None = None, palette: str = "colorblind") -> list[Any]:
    """Return colours of a palette. The default is all colours of a palette for colour-blind readers."""
    return sns.color_palette(palette, number)


def looks(names: Sequence[str], ordered: bool = False) -> Looks:
    """Return colour and marker for each name.

    Colour-blind readers can distinguish the colours. If there are too many names, or if the names are values of one
    quantity (`ordered`), the palette is sequential.
    """
    colours = tones(max(len(names), 1))
    if ordered or len(names) > MAX_COLOURS:  # the light end of the palette is not used, because it is hard to see
        colours = [tuple(c[:3]) for c in mpl.colormaps["viridis"](np.linspace(0, 0.88, len(names)))]
    return {name: (colours[i], MARKERS[i % len(MARKERS)]) for i, name in enumerate(names)}


def subtitle(rows: pd.DataFrame) -> str:
    """Return the line below the panels: kind of the bars, and meaning of open symbols.

    If client and server share a host, the line states which share of its cores each of them used.
    """
    host = on_one_host(rows)
    note = f"; {host}{labels.cpu_shares(rows[rows['shared_host'].astype(bool)])}" if host else ""
    note += symbols(rows, "; ")
    return f"Medians, {labels.bars_text(rows).replace('minimum to maximum', 'min to max')}{note}"


def grid(panels: int, height: float, small: str, columns: int = 0) -> tuple[Figure, list[Axes]]:
    """Return an empty figure and its panels, row by row. small: text of the line below the panels.

    pyplot is not used, because it would keep a reference to the figure.
    """
    columns = columns or side_by_side(panels)
    lines = -(-panels // columns)
    height = min(height, max(MIN_HEIGHTS[1], PAGE / lines))
    size = (WIDTH if columns > 1 else 4.7, min(height * lines + 0.75, PAGE))
    fig = Figure(figsize=size, layout="constrained")
    fig.supxlabel(textwrap.fill(small, 110 if columns > 1 else 90), fontsize=7, color="0.35")
    cells = fig.subplots(lines, columns, squeeze=False).ravel().tolist()
    for ax in cells[panels:]:
        ax.remove()
    return fig, cells[:panels]


def sheet(height: float, small: str = "") -> Figure:
    """Return an empty figure that is as wide as the text of the paper. small: text of the line below the panels."""
    fig = Figure(figsize=(WIDTH, height), layout="constrained")
    if small:
        fig.supxlabel(small, fontsize=7, color="0.35")
    return fig


def bars(rows: pd.DataFrame, metric: str, unit: str) -> list[pd.Series]:
    """Return the lengths of the error bars below and above the median of a metric."""
    low, median, high = (rows[f"{metric}_{part}_{unit}"].astype(float) for part in ("low", "median", "high"))
    return [median - low, high - median]


def role_colours(roles: pd.Series) -> dict[str, Any]:
    """Return the colour of each role, in order of appearance."""
    tones, order = sns.color_palette("colorblind"), (0, 1, 2, 4, 5, 9, 6, 7, 8, 3)
    return {role: tones[i] for role, i in zip(dict.fromkeys(roles), order, strict=False)}


def write_inside(ax: Axes, text: str, size: float = 7, **look: Any) -> None:
    """Write a text in the middle of a panel, for example the reason why it is empty."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", fontsize=size, **look)


def title(ax: Axes, text: str, columns: int) -> None:
    """Set the title of a panel, and break it into lines that fit its width."""
    ax.set_title(textwrap.fill(text, {1: 60, 2: 46}.get(columns, 33)), fontsize=8 if columns < 3 else 6.5)


def add_labels(cells: Sequence[Axes], columns: int) -> None:
    """Hide repeated labels of axes, and break the labels of small panels into lines.

    If panels in a column have the same x label, only the lowest shows it. If neighbours in a row have the same y label,
    only the first shows it.
    """
    high = cells[0].figure.get_figheight() / max(1, len(cells) // columns)
    texts = [(ax.get_xlabel(), ax.get_ylabel()) for ax in cells]
    for i, ax in enumerate(cells):
        if i + columns < len(cells) and texts[i][0] == texts[i + columns][0]:
            ax.xaxis.label.set_visible(False)
        if i % columns and texts[i][1] == texts[i - 1][1]:
            ax.yaxis.label.set_visible(False)
        if columns > 2 and len(ax.get_xlabel()) > 28:
            ax.set_xlabel(textwrap.fill(ax.get_xlabel(), 28))
        if high < 2 and len(ax.get_ylabel()) > 18:
            ax.set_ylabel(textwrap.fill(ax.get_ylabel(), 18))


def key(fig: Figure, handles: Sequence[Any] | Looks, title: str) -> None:
    """Draw the title of the figure, and the legend with at most 4 columns between title and panels.

    handles: entries of the legend, or names with their looks.
    """
    if isinstance(handles, dict):
        handles = [Line2D([], [], color=c, marker=m, label=name) for name, (c, m) in handles.items()]
    longest = max((len(h.get_label()) for h in handles), default=0)
    columns = max(1, min(len(handles), 4, int(fig.get_figwidth() * LETTERS) // (longest + 9)))
    title = textwrap.fill(title, int(fig.get_figwidth() * LETTERS))
    more = -(-len(handles) // columns) - 1 + title.count("\n")
    fig.set_figheight(min(fig.get_figheight() + 0.16 * more, PAGE))  # otherwise the panels would shrink
    fig.legend(
        handles=handles,
        loc="outside upper center",
        frameon=False,
        title=title,
        title_fontsize=9.5,
        ncols=columns,
    )


def mark(
    ax: Axes, x: pd.Series, y: pd.Series, look: tuple[Any, str], opened: pd.Series, half: pd.Series | None = None
) -> None:
    """Draw open and half-filled symbols over some of the points. opened, half: which points (shape of x)."""
    faces = (({"fillstyle": "bottom", "mfcalt": "white"}, half), ({"mfc": "white"}, opened))
    for face, chosen in ((face, rows.to_numpy(bool)) for face, rows in faces if rows is not None):
        if chosen.any():
            ax.plot(x[chosen], y[chosen], ls="none", color=look[0], marker=look[1], ms=5, zorder=4, **face)


def _spaced_ticks(ticks: list[int], at_most: int) -> list[int]:
    """Return the ticks that get a label on a logarithmic axis. The last tick always gets one.

    at_most: the number of labels for which there is room.
    """
    least, kept = (ticks[-1] / ticks[0]) ** (1 / at_most), ticks[-1:]
    for tick in reversed(ticks[:-1]):
        if kept[-1] / tick >= least and (tick == ticks[0] or tick / ticks[0] >= least):
            kept.append(tick)
    return kept[::-1]


def place_labels(fig: Figure, cells: Sequence[Axes], texts: Sequence[Sequence[Label]]) -> None:
    """Write the labels of each panel. The figure is laid out first, because the sizes of the panels are needed."""
    fig.draw_without_rendering()
    for ax, labels_of_panel in zip(cells, texts, strict=True):
        if labels_of_panel:
            _place_labels(ax, labels_of_panel)


def _place_labels(ax: Axes, texts: Sequence[Label], size: float = 6) -> None:
    """Write each label next to its point, at a place where it does not cover a point or another label, if possible.

    If a label is far from its point, a thin line connects them.
    """
    scale, wide, high = ax.figure.dpi / 72, 0.58 * size, 1.15 * size  # width of a letter and height of a line in points
    points = ax.transData.transform([(x, y) for x, y, *_ in texts]) / scale
    left, low, right, top = (v / scale for v in ax.get_window_extent().extents)
    taken = [(x - 2.5, y - 2.5, x + 2.5, y + 2.5) for x, y in points]
    for line in ax.lines:
        ends = line.get_transform().transform(line.get_xydata()) / scale
        drawn = () if line.get_linestyle() in ("None", "none", "") else itertools.pairwise(ends)
        taken += [(x - 1, y - 1, x + 1, y + 1) for one, other in drawn for x, y in np.linspace(one, other, 25)]
    for (x, y), (*at, text, colour) in sorted(zip(points, texts, strict=True), key=lambda one: -one[0][1]):
        boxes = []
        for far, angle in itertools.product((5, 10, 16, 24, 34, 46), np.arange(12) * np.pi / 6):
            dx, dy = far * np.cos(angle), far * np.sin(angle)
            width = wide * len(text)
            begin = x + dx - width * (0.5 - 0.5 * np.cos(angle))
            boxes.append((dx, dy, (begin, y + dy - high / 2, begin + width, y + dy + high / 2)))
        inside = [b for b in boxes if b[2][0] > left and b[2][1] > low and b[2][2] < right and b[2][3] < top] or boxes
        dx, dy, box = next((b for b in inside if not any(_cross(b[2], other) for other in taken)), inside[0])
        taken.append(box)
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2}
        text = ax.annotate(
            text,
            tuple(at),
            ((box[0] + box[2]) / 2 - x, dy),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=size,
            color=colour,
            arrowprops=line if np.hypot(dx, dy) > 10 else None,
        )
        text.set_in_layout(False)


def _cross(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def is_wide(values: Iterable[float], scale: str = "auto") -> bool:
    """Return True if the values need a logarithmic axis."""
    least, most = min(values := list(values)), max(values)
    return least > 0 and (scale == "log" or (scale == "auto" and most / least >= WIDE))


def count_axis(
    ax: Axes,
    values: Iterable[float],
    label: str = "Clients",
    max_labels: int = 9,
    scale: str = "auto",
    names: Mapping[int, str] | None = None,
) -> None:
    """Set up the x axis for counts (for example of clients), with ticks at the measured values.

    The axis is logarithmic if the values span a factor of at least WIDE. It then has at most `max_labels` labels.
    names: labels to show instead of the numbers.
    """
    ticks = sorted({int(v) for v in values})
    if is_wide(ticks, scale):
        ax.set_xscale("log", base=2)
        ticks = _spaced_ticks(ticks, max_labels)
    elif names and len(ticks) > max_labels:
        ticks = ticks[:: -(-len(ticks) // max_labels)]
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True) if len(ticks) > 12 else FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda v, _: names.get(round(v), "") if names else f"{v:g}")
    pad = 0.35 if len(ticks) == 1 else 0
    ax.set_xlim(ax.get_xlim()[0] - pad, ax.get_xlim()[1] + pad)
    ax.set_xlabel(label)


def log_axis(ax: Axes, values: Iterable[float], label: str, sizes: bool = False) -> None:
    """Set up a logarithmic x axis for percentages, or for bytes (`sizes`), with ticks at the measured values.

    On an axis of bytes, 0 is drawn at SMALLEST.
    """
    values = list(values)
    ax.set_xscale("log", base=2 if sizes else 10)
    ax.xaxis.set_major_locator(FixedLocator(sorted({max(int(v), SMALLEST) if sizes else v for v in values})))
    ax.xaxis.set_minor_locator(NullLocator())
    shown = (
        (lambda v: "0" if v <= SMALLEST and 0 in values else units.format_size(round(v))) if sizes else "{:g}".format
    )
    ax.xaxis.set_major_formatter(lambda v, _: shown(v))
    ax.tick_params(axis="x", labelrotation=45 if sizes else 0)
    ax.set_xlabel(label)


SMALLEST = 1024  # position in bytes at which 0 is drawn on a logarithmic axis of sizes


def plain_numbers(axis: Axis, span: float = 0, ticks: int | None = None) -> None:
    """Format ticks as plain numbers with separated thousands.

    span: the ratio of the ends of a logarithmic axis. If it is below 6, the axis has few ticks at round numbers. If it
    is below 300, the ticks are at 1, 2 and 5 times powers of ten, otherwise only at powers of ten. ticks: maximum
    number of ticks.
    """
    axis.set_major_formatter(lambda v, _: f"{v:,.6g}".replace(",", THIN))
    if span:
        logarithmic = LogLocator(subs=(1, 2, 5) if span < 300 else (1,), numticks=ticks)
        axis.set_major_locator(MaxNLocator(4) if span < 6 else logarithmic)
        axis.set_minor_formatter(NullFormatter())


def value_axis(axes: Sequence[Axes], values: Sequence[pd.Series], label: str, factor: float = 50) -> None:
    """Set up the value axis of panels that are compared, with the same range for all.

    The axis starts at zero. It is logarithmic if the medians of all panels span more than `factor`. It then has a
    position for 0 if one of them is 0. values: the values of each panel.
    """
    every = pd.concat([pd.Series(dtype=float), *values]).dropna()
    known = every[every > 0]
    span = known.max() / known.min() if len(known) else 1
    most = known.max() if len(known) else 1
    scale = "linear" if span <= factor else "symlog" if (every <= 0).any() else "log"
    near_zero = {"linthresh": 10 ** math.floor(math.log10(known.min()))} if scale == "symlog" else {}
    for ax in axes if scale != "linear" else ():
        ax.set_yscale(scale, **near_zero)
    one_range(axes, values)
    for ax in axes:
        if scale != "log":
            room = 1.3 if scale == "symlog" else 1.08 if len(known) else 1
            ax.set_ylim(0, max(ax.get_ylim()[1], room * most))
        plain_numbers(ax.yaxis, span if ax.get_yscale() == "log" else 0)
        ax.set_ylabel(label)


def time_axis(axes: Sequence[Axes], values: Sequence[pd.Series], label: str) -> None:
    """Set up a logarithmic axis of milliseconds with plain numbers, and the same range for all panels.

    values: the values of each panel.
    """
    for ax in axes:
        ax.set_yscale("log")
    one_range(axes, values)
    for ax in axes:
        low, high = ax.get_ylim()
        low, high = low / 1.15, high * 1.15
        ax.set_ylim(low, high)
        plain_numbers(ax.yaxis, high / low, 12)
        ax.set_ylabel(label)


def one_range(axes: Sequence[Axes], values: Sequence[pd.Series], which: str = "y") -> None:
    """Set the same range for all panels, so that readers can compare them. Panels without values are ignored."""
    ends = [getattr(ax, f"get_{which}lim")() for ax, v in zip(axes, values, strict=True) if v.notna().any()]
    for ax in axes if ends else ():
        ax.set(**{f"{which}lim": (min(e[0] for e in ends), max(e[1] for e in ends))})

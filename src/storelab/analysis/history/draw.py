"""The figure of a history: a panel for each series, its medians over time, the level of each stretch, what changed.

May import: what this folder may.
"""

import io
import itertools
import math

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from storelab.analysis.compare import sides
from storelab.analysis.figures import plots
from storelab.analysis.history import environment
from storelab.analysis.history.series import History, Series
from storelab.analysis.parts import speed, words
from storelab.analysis.statistics import ratios

MOST = 60  # panels
HEIGHT = 1.9  # inches of a panel
LOOKS = {ratios.FASTER: ("tab:green", "-"), ratios.SLOWER: ("tab:red", "--")}  # told apart without colour, too
OTHER = "0.6"  # where the environment changed


def figure(found: History) -> Figure:
    """Wholes first, then what changed or is another in the newest entry, then the others; at most MOST panels."""
    frame = found.frame()
    points = frame[frame["workload"] != sides.ALL]
    said = [*sides.described(points), *(f"all {s.points} points" for s in found.series if s.workload == sides.ALL)]
    each = sorted(zip(said, found.series, strict=True), key=lambda pair: _place(pair[1]))
    left = f"; {len(each) - MOST} more series stand in the table" if len(each) > MOST else ""
    small = f"bars: 95 % interval of the median, below 6 runs the range; levels: mean of the medians of a stretch{left}"
    at = pd.to_datetime([e.measured for e in found.entries], utc=True).tz_localize(None).to_numpy()
    moved = [
        at[i] for i in range(1, len(at)) if environment.differences(found.entries[i - 1].facts, found.entries[i].facts)
    ]
    with plots.style():
        fig, cells = plots.grid(min(len(each), MOST), HEIGHT, small)
        for ax, (name, s) in zip(cells, each, strict=False):
            _panel(ax, s, at, moved)
            plots.title(ax, f"{name}: {s.metric.replace('_', ' ')}", 2)
        handles = [Line2D([], [], color=c, linestyle=d, label=f"from here on {v}") for v, (c, d) in LOOKS.items()]
        handles.append(Line2D([], [], color=OTHER, linestyle=":", label="store, engine or host changed"))
        plots.key(fig, handles, "")
    return fig


def _place(s: Series) -> int:
    if s.workload == sides.ALL:
        return 0
    return 1 if s.steps or s.verdict != ratios.CANNOT_TELL else 2


def _panel(ax: Axes, s: Series, at: np.ndarray, moved: list[np.datetime64]) -> None:
    x = at[[v.entry for v in s.values]]
    y, low, high = (np.array([getattr(v, part) for v in s.values]) for part in ("median", "low", "high"))
    bars = [np.nan_to_num(y - low), np.nan_to_num(high - y)]
    colour = plots.tones(1)[0]
    for when in moved:
        ax.axvline(when, color=OTHER, linestyle=":", linewidth=0.8, zorder=1)
    ax.errorbar(x, y, yerr=np.maximum(bars, 0), color=colour, fmt="o", markersize=3, elinewidth=0.8, capsize=1.5)
    ends = [0, *(i for i, v in enumerate(s.values) if v.entry in {c.at for c in s.steps}), len(s.values)]
    for begin, end in itertools.pairwise(ends):
        if (y[begin:end] > 0).all():
            level = math.exp(float(np.log(y[begin:end]).mean()))
            ax.plot([x[begin], x[end - 1]], [level, level], color=colour, linewidth=1, alpha=0.6)
    for change in s.steps:
        mark, dash = LOOKS[change.verdict]
        ax.axvline(at[change.at], color=mark, linestyle=dash, linewidth=1, zorder=1)
        text = f"x{words.number(change.ratio)}"
        place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 6.5}
        ax.annotate(text, (at[change.at], 1), (2, -7), color=mark, **place)
    locator = AutoDateLocator(minticks=2, maxticks=5)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    plots.plain_numbers(ax.yaxis)
    ax.set_ylabel("ratio to the oldest" if s.workload == sides.ALL else speed.UNITS[s.metric])


def svg(fig: Figure) -> str:
    """For a page: text stays text, and the same history gives the same letters."""
    sink = io.BytesIO()
    with plots.style(), mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "storelab"}):
        fig.savefig(sink, format="svg", metadata={"Date": None})
    text = sink.getvalue().decode()
    return text[text.index("<svg") :]

"""Output of `storelab history`: a history as text, as a page and as a figure.

The figure has a panel for each series, with its medians over time, the level of each stretch, and the changes.
"""

import io
import itertools
import math
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from storelab.analysis import compare
from storelab.analysis.figures import plots
from storelab.analysis.history import entries
from storelab.analysis.history.series import Change, History, Series
from storelab.analysis.pages import Page, Section
from storelab.analysis.parts import groups, labels
from storelab.analysis.statistics import ratios

HEAD = ("point", "measure", "oldest", "newest", "newest / before", "newest is", "changes")


def page(campaign: Path, found: History, drawn: bool = False) -> Page:
    """Return the page about a history. drawn: include the figure, which takes some seconds."""
    first, last = found.entries[0], found.entries[-1]
    n = len(found.entries)
    title = f"{campaign}: {labels.plural(n, 'entry') if n == 1 else f'{n} entries'}, {first.name} to {last.name}"
    under = (
        "Medians over the runs of an entry, in brackets their 95 % interval (with fewer than 6 runs the range); for "
        "all points together, the ratio to the oldest entry. The newest entry is compared with the entries since the "
        "last change, with the 95 % interval of the difference that a further entry would have."
    )
    newest = _newest(found)
    if drawn:
        newest.drawing = svg(figure(found))
        newest.shows = f"medians over time of {labels.plural(len(found.series), 'series')}; the table has their numbers"
    return Page(title, under, [newest, _changes(found), _entries(found)])


def names(found: History) -> list[str]:
    """Return one label for each series, in the order of the series."""
    points = found.frame()
    points = points[points["workload"] != compare.ALL]
    wholes = [f"all {s.points} points" for s in found.series if s.workload == compare.ALL]
    return [*compare.described(points), *wholes]


def _newest(found: History) -> Section:
    last = len(found.entries) - 1
    out = Section(f"The newest entry, {found.entries[-1].name}", HEAD)
    for name, s in zip(names(found), found.series, strict=True):
        newest = next((v for v in s.values if v.entry == last), None)
        out.rows.append(
            [
                name,
                groups.metric_text(s.metric),
                labels.number(s.values[0].median),
                labels.spread([newest.median, newest.low, newest.high]) if newest else "--",
                labels.spread(s.ratio),
                s.verdict if s.lasts else "missing",
                str(len(s.steps)),
            ]
        )
    points = found.frame()
    points = points[points["workload"] != compare.ALL]
    out.lines += [f"Held fixed: {text}" for text in compare.in_common(points)]
    reasons = [(s.reason, s.workload) for s in found.series if s.reason]
    out.lines += [f"No verdict: {reason}" for reason in dict.fromkeys(reason for reason, _ in reasons)]
    if (tested := sum(math.isfinite(s.newest.p) for s in found.series if s.workload != compare.ALL)) > 1:
        out.lines.append(
            f"Corrected for {tested} series (Benjamini and Hochberg): of the series that are reported as different, at "
            "most 5 % differ only by chance."
        )
    return out


def change_text(name: str, s: Series, change: Change) -> str:
    """Return a change in words, such as `get, 4 kB objects: rate x0.86 [0.80, 0.92], slower`."""
    ratio = labels.spread([change.ratio, change.low, change.high])
    return f"{name}: {s.metric.replace('_', ' ')} x{ratio}, {change.verdict}"


def _changes(found: History) -> Section:
    """Return the section about changes of levels and of environments, entry by entry."""
    out, series_names = Section("Changes"), dict(zip(map(id, found.series), names(found), strict=True))
    for i, (before, entry) in enumerate(zip(found.entries, found.entries[1:], strict=False), 1):
        with_it = entries.differences(before.facts, entry.facts)
        levels = found.changed_at(i)
        if not levels and not with_it:
            continue
        out.lines.append(f"{entry.name}, compared with {before.name}:")
        out.lines += [f"  {change_text(series_names[id(s)], s, c)}" for s, c in levels]
        out.lines += ["  no change of level"] if not levels else []
        out.lines += [f"  {line}" for line in with_it] or ["  no change of the environment was recorded"]
    if not out.lines:
        out.lines.append("None.")
    return out


def _entries(found: History) -> Section:
    out = Section("Entries", ("entry", "measured", "sealed", "runs", "folder"))
    for e in found.entries:
        out.rows.append([e.name, e.measured, e.sealed, str(int((e.side.points["state"] == "ok").sum())), str(e.folder)])
    return out


def table(found: History) -> pd.DataFrame:
    """Return one row per series and entry.

    Columns: store, workload, axes, metric, entry, measured, n, median, low, high, unit. At the first entry of a
    stretch, change, change_low, change_high and verdict are its ratio to the previous stretch with interval and
    verdict.
    """
    head, out = found.frame(), []
    for row, s in zip(head.to_dict("records"), found.series, strict=True):
        steps = {c.at: c for c in s.steps}
        for v in s.values:
            step, entry = steps.get(v.entry), found.entries[v.entry]
            entry_row = {"entry": entry.name, "measured": entry.measured, "n": v.n}
            entry_row |= {"median": v.median, "low": v.low, "high": v.high, "unit": groups.UNITS.get(s.metric, "ratio")}
            entry_row |= {"unit": "ratio"} if s.workload == compare.ALL else {}
            entry_row |= {"change": step.ratio, "change_low": step.low, "change_high": step.high} if step else {}
            out.append(row | entry_row | ({"verdict": step.verdict} if step else {}))
    mine = ["entry", "measured", "n", "median", "low", "high", "unit", "change", "change_low", "change_high", "verdict"]
    return pd.DataFrame(out, columns=[*head.columns, *mine]).astype(head.dtypes.to_dict())


# --- the figure ---

MAX_PANELS = 60
HEIGHT = 1.9  # height of a panel in inches
LOOKS = {ratios.FASTER: ("tab:green", "-"), ratios.SLOWER: ("tab:red", "--")}  # colour and line style
OTHER = "0.6"  # colour of lines that mark a change of the environment


def figure(found: History) -> Figure:
    """Return a figure with up to MAX_PANELS series.

    Series of all points together are first, followed by series with a change, and the others.
    """
    each = sorted(zip(names(found), found.series, strict=True), key=lambda pair: _place(pair[1]))
    left = f"; {len(each) - MAX_PANELS} more series are in the table" if len(each) > MAX_PANELS else ""
    small = "bars: 95 % interval of the median, with fewer than 6 runs the range; levels: mean of the medians of a "
    small += f"stretch{left}"
    at = pd.to_datetime([e.measured for e in found.entries], utc=True).tz_localize(None).to_numpy()
    moved = [
        at[i] for i in range(1, len(at)) if entries.differences(found.entries[i - 1].facts, found.entries[i].facts)
    ]
    with plots.style():
        fig, cells = plots.grid(min(len(each), MAX_PANELS), HEIGHT, small)
        for ax, (name, s) in zip(cells, each, strict=False):
            _panel(ax, s, at, moved)
            plots.title(ax, f"{name}: {s.metric.replace('_', ' ')}", 2)
        handles = [Line2D([], [], color=c, linestyle=d, label=f"{v} from here on") for v, (c, d) in LOOKS.items()]
        handles.append(Line2D([], [], color=OTHER, linestyle=":", label="store, engine or host changed"))
        plots.key(fig, handles, "")
    return fig


def _place(s: Series) -> int:
    if s.workload == compare.ALL:
        return 0
    return 1 if s.steps or s.verdict != ratios.UNDECIDED else 2


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
        text = f"x{labels.number(change.ratio)}"
        place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 6.5}
        ax.annotate(text, (at[change.at], 1), (2, -7), color=mark, **place)
    locator = AutoDateLocator(minticks=2, maxticks=5)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    plots.plain_numbers(ax.yaxis)
    ax.set_ylabel("ratio to the oldest" if s.workload == compare.ALL else groups.UNITS[s.metric])


def svg(fig: Figure) -> str:
    """Return the figure as SVG for a page. Text is not converted to paths, and equal histories give equal bytes."""
    sink = io.BytesIO()
    with plots.style(), mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "storelab"}):
        fig.savefig(sink, format="svg", metadata={"Date": None})
    text = sink.getvalue().decode()
    return text[text.index("<svg") :]

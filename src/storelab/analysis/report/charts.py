"""Describe the figures as data for the page: the content of the printed figures, with value, interval, n and points.

For a figure with a specification, panels and lines are those that `draw` draws, and axes, titles and scales are read
from the matplotlib figure. For other figures, everything is read from the matplotlib figure (`drawn_panels`): axes with
their labels, lines, areas, bars, and texts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgb
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle, StepPatch
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FixedLocator

from storelab.analysis.figures import catalogue, draw, panels, plots
from storelab.analysis.figures.specification import Declared, Reference, Specification
from storelab.analysis.parts import groups

_PARTS = (("v", "median"), ("l", "low"), ("h", "high"))
BEHIND = "points_behind"  # a column that is added to tables: the points of each row
FILTERS = {"store": "store", "engine": "engine", "size": "object_size_bytes"}  # filter of points -> column of a table


def charts_of_plan(
    plan: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], behind: Mapping[str, list[str]]
) -> dict[str, Any]:
    """Return the charts of the figures that have data, by name, in the order of the paper.

    behind: name of a table -> the points of each row (`build.behind`).
    """
    known = {name: groups.with_column(table, BEHIND, behind[name]) for name, table in tables.items()}
    found = {}
    for name, figure in catalogue.figures_of_plan(plan).items():
        chart_data = drawn_chart(figure, known[figure.table], *(known[other] for other in figure.further_tables))
        if chart_data is not None:
            found[name] = chart_data | {"own": name in plan.get("figures", {})}
    return found


def drawn_chart(figure: Declared, table: pd.DataFrame, *further: pd.DataFrame) -> dict[str, Any] | None:
    """Return the chart of a figure, or None if the tables have no data for it. further: its `further_tables`."""
    shown = panels.layout_of(figure, table)
    fig = draw.draw(figure, table, *further, shown=shown)
    return None if fig is None else chart(figure, table, fig, shown)


def chart(figure: Declared, table: pd.DataFrame, fig: Figure, shown: panels.Layout | None) -> dict[str, Any]:
    """Return the chart of a figure: title, caption, note, table, panels, and `filtered` (True: filters apply to it).

    fig: the figure as drawn; shown: the panels of a specification.
    """
    legend = fig.legends[0].get_title().get_text() if fig.legends else ""
    return {
        "title": one_line(legend),
        "caption": catalogue.caption(figure, table, shown),
        "note": one_line(fig.get_supxlabel()),
        "table": figure.table,
        "filtered": isinstance(figure, Specification),
        "panels": _panels(shown.figure, shown, fig) if shown else drawn_panels(fig),
    }


def _panels(figure: Specification, shown: panels.Layout, fig: Figure) -> list[dict[str, Any]]:
    looks = draw.looks_of(figure, shown)
    text = draw.is_text(shown.rows[figure.x])
    names = draw.categories(shown.rows[figure.x]) if text else []
    out = []
    for i, (ax, panel) in enumerate(zip(fig.axes, shown.panels, strict=True)):
        content = frame(ax) | {"value": "x" if text else "y"}
        if figure.columns:  # the middle panel has the heading of the row
            row = shown.panels[i - i % shown.columns :][: shown.columns]
            content["title"] = next((p.heading for p in row if p.heading), "")
        shown_panel, look = (
            (panel, looks) if text or not panel.measure.hue else draw.with_separate_series(panel, figure)
        )
        if text:
            content["y"]["names"] = {str(place): name for place, name in enumerate(names)}
        content["lines"] = _lines(figure, shown_panel, look, names)
        content["lines"] += _references(figure, panel, looks)
        content["levels"] = _levels(figure, panel, looks)
        out.append(content)
    return out


def _lines(
    figure: Specification, panel: panels.Panel, looks: plots.Looks, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the lines of a panel. For categories, these are the points of each series, slightly shifted."""
    x, out = panel.measure.x or figure.x, []
    for series, place, curve, rows in draw.lines_of(figure, panel, looks):
        if rows.empty:
            continue
        rows = rows if names else rows.sort_values(x)
        colour, marker = looks[series]
        several = len(panel.measure.curves) > 1 and curve.name != series
        marks = dict(zip(("open", "half"), draw.marked(figure, rows, curve), strict=True))
        is_single = bool(panel.measure.hue) and len(looks) == 1
        values = {part: _numbers(rows[curve.column(name)]) for part, name in _PARTS}
        if names:
            step = 0.48 / max(2, len(looks)) * ((len(looks) - 1) / 2 - place)
            at = _numbers(names.index(c) + step for c in rows[x])
            where = {"x": values["v"], "y": at, "at": [str(c) for c in rows[x]]}
        else:
            at = _numbers(rows[x])
            if x.endswith("_bytes"):  # 0 is drawn at SMALLEST
                at = [None if v is None else max(v, float(plots.SMALLEST)) for v in at]
            where = {"x": at, "y": values["v"]}
        out.append(
            {
                "name": curve.name if is_single else ", ".join(filter(None, (series, curve.name if several else ""))),
                "colour": to_hex(colour),
                "marker": marker,
                "dash": "none" if names else curve.dash,
                **where,
                "low": values["l"],
                "high": values["h"],
                "n": _numbers(rows["n"]) if "n" in rows else [None] * len(rows),
                "interval": [str(kind) for kind in rows["interval"]] if "interval" in rows else [],
                **{name: [bool(v) for v in of] for name, of in marks.items() if of is not None},
                "behind": list(rows[BEHIND]) if BEHIND in rows else [],
                **{name: _texts(rows, column) for name, column in FILTERS.items() if column in rows},
            }
        )
    return out


def _references(figure: Specification, panel: panels.Panel, looks: plots.Looks) -> list[dict[str, Any]]:
    """Return the references that have several points along x (published values and limits) as lines."""
    out = []
    for line in _reference_values(figure, panel):
        if isinstance(line.at, pd.Series):
            spread = line.spread if line.spread is not None else pd.Series(np.nan, index=line.at.index)
            out.append(
                {
                    "name": line.label,
                    "colour": _colour(line, looks),
                    "marker": line.marker or "none",
                    "dash": "none" if line.marker else line.dash,
                    "full": False,
                    "x": _numbers(line.at.index),
                    "y": _numbers(line.at),
                    "low": _numbers(line.at - spread),
                    "high": _numbers(line.at + spread),
                    "reference": True,
                }
            )
    return out


def _levels(figure: Specification, panel: panels.Panel, looks: plots.Looks) -> list[dict[str, Any]]:
    """Return the references that are single values, which are drawn as lines across the panel."""
    return [
        {"at": float(line.at), "name": line.label, "colour": _colour(line, looks), "dash": line.dash}
        for line in _reference_values(figure, panel)
        if not isinstance(line.at, pd.Series)
    ]


def _reference_values(figure: Specification, panel: panels.Panel) -> list[Reference]:
    return list(figure.references(panel.every, panel.measure)) if figure.references else []


def _colour(line: Reference, looks: plots.Looks) -> str:
    return to_hex(looks[line.series][0] if line.series else draw.OTHERS)


def _number(value: Any, digits: int = 7) -> float | None:
    """Return a value rounded to this number of digits, or None if it is null or not finite."""
    value = float("nan") if value is None or value is pd.NA else float(value)
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None


def _numbers(values: Iterable[Any], digits: int = 9) -> list[float | None]:
    return [_number(v, digits) for v in values]


def _texts(rows: pd.DataFrame, column: str) -> list[str]:
    """Return the values of a filter as text. Whole numbers have no decimal point."""
    return ["" if pd.isna(v) else f"{v:.0f}" if isinstance(v, int | float) else str(v) for v in rows[column]]


# --- read from a drawing ---

NO_LINE = ("None", "none", "", " ")
SCALES = ("linear", "log", "symlog")


def one_line(text: str) -> str:
    """Return a text of a figure on one line. In the figure, it is broken between words and after hyphens."""
    return " ".join(re.sub(r"(?<=\w)-\n(?=\w)", "-", text).split())


def frame(ax: Axes) -> dict[str, Any]:
    """Return a panel with its title and axes, but without content."""
    return {
        "title": one_line(ax.get_title()),
        "x": _axis(ax.xaxis, ax.get_xlabel()),
        "y": _axis(ax.yaxis, ax.get_ylabel()),
        "value": "y",
        "lines": [],
        "levels": [],
    }


def _axis(axis: Axis, label: str) -> dict[str, Any]:
    """Return label and scale of an axis, and the texts of its ticks (`names`) if they are fixed.

    `reverse` is set if the values increase downwards, or to the left.
    """
    out: dict[str, Any] = {
        "label": one_line(label),
        "scale": axis.get_scale() if axis.get_scale() in SCALES else "linear",
    }
    locator = axis.get_major_locator()
    if isinstance(locator, FixedLocator):
        places = [float(place) for place in locator.locs]
        texts = axis.get_major_formatter().format_ticks(places)
        out["names"] = {f"{p:.9g}": t.replace(plots.THIN, " ") for p, t in zip(places, texts, strict=True)}
    if axis.get_inverted():
        out["reverse"] = True
    return out


def drawn_panels(fig: Figure) -> list[dict[str, Any]]:
    """Return the panels of a figure.

    A panel without a title gets the title of the panel above it, and follows that panel.
    """
    found, titles = [], dict[int, str]()
    for ax in fig.axes:
        content, spec = drawn_panel(ax), ax.get_subplotspec()
        column = spec.colspan.start if spec is not None else len(titles)
        titles[column] = content["title"] = content["title"] or titles.get(column, "")
        found.append(content)
    order = list(dict.fromkeys(content["title"] for content in found))
    return sorted(found, key=lambda content: order.index(content["title"]))


def drawn_panel(ax: Axes) -> dict[str, Any]:
    """Return the complete content of a panel."""
    legends = [*ax.figure.legends, *filter(None, [ax.get_legend()])]
    out = frame(ax)
    if out["x"]["scale"] == "linear" and not out["x"].get("names"):
        out["x"]["range"] = _numbers(ax.get_xlim(), 7)
    if out["y"].get("names") and not out["x"].get("names"):  # categories, and values along x
        out["value"] = "x"
    out["lines"], used = _with_bars(ax, legends, out["value"] == "x")
    for line in ax.lines:
        if line in used or not len(line.get_xdata()):
            continue
        if (level := _across(ax, line)) is not None:
            out["levels"].append(level)
        elif line.get_transform() != ax.transData:  # marks above the panel, in a separate row
            out.setdefault("marks", []).append(_line(line, legends))
        else:
            out["lines"].append(_line(line, legends))
    areas, bands = _areas(ax, legends)
    out |= {"areas": areas} if areas else {}
    out |= {"bands": bands} if bands else {}
    words = [(t, _place(ax, t)) for t in ax.texts]
    positioned = [place | {"text": t.get_text()} for t, place in words if place]
    other_texts = [one_line(t.get_text()) for t, place in words if not place]
    out |= {"words": positioned} if positioned else {}
    out |= {"texts": other_texts} if other_texts else {}
    return out


def _place(ax: Axes, text: Text) -> dict[str, float | None]:
    """Return the position of a text that belongs to a value.

    y is None for a text at the top of the panel. For a text that does not belong to a value, the result is empty.
    """
    if not isinstance(text, Annotation):
        return {}
    if text.xycoords == "data":
        return {"x": _number(text.xy[0]), "y": _number(text.xy[1])}
    return {"x": _number(text.xy[0]), "y": None} if text.xycoords == ax.get_xaxis_transform() else {}


def _with_bars(ax: Axes, legends: list[Legend], lying: bool) -> tuple[list[dict[str, Any]], set[Line2D]]:
    """Return the lines with error bars, and all matplotlib lines that are parts of them.

    lying: the bars are along x.
    """
    index, other = (0, 1) if lying else (1, 0)
    out, used = [], set()
    for container in ax.containers:
        if not isinstance(container, ErrorbarContainer) or container.lines[0] is None:
            continue
        line, caps, bars = container.lines
        used |= {line, *caps}
        ends: dict[float, tuple[float, float]] = {}
        for collection in bars:
            for segment in collection.get_segments():
                if len(segment) == 2 and segment[0][other] == segment[1][other]:
                    low, high = sorted((float(segment[0][index]), float(segment[1][index])))
                    ends[float(segment[0][other])] = (low, high)
        line_data = _line(line, legends, str(container.get_label()))
        at = [float(place) for place in (line.get_ydata() if lying else line.get_xdata())]
        for i, part in enumerate(("low", "high")):
            line_data[part] = [_number(ends[x][i]) if x in ends else None for x in at]
        out.append(line_data)
    return out, used


def _line(line: Line2D, legends: list[Legend], label: str = "") -> dict[str, Any]:
    dash = str(line.get_linestyle())
    marker = str(line.get_marker())
    return {
        "name": ", ".join(filter(None, (_name(line, legends, label or str(line.get_label())), _dashed(line, legends)))),
        "colour": to_hex(line.get_color()),
        "marker": "none" if marker in NO_LINE else marker,
        "dash": "none" if dash in NO_LINE else dash,
        "width": float(line.get_linewidth()),
        "opacity": 1.0 if line.get_alpha() is None else float(line.get_alpha()),
        "full": line.get_markerfacecolor() not in ("white", "none"),
        "step": str(line.get_drawstyle()).startswith("steps"),
        "x": _numbers(line.get_xdata(), 7),
        "y": _numbers(line.get_ydata(), 7),
    }


def _across(ax: Axes, line: Line2D) -> dict[str, Any] | None:
    """Return the description of a line across the whole panel, or None for other lines."""
    look = {"name": "", "colour": to_hex(line.get_color()), "dash": str(line.get_linestyle())}
    if line.get_transform() == ax.get_yaxis_transform(which="grid") and list(line.get_xdata()) == [0, 1]:
        return {"at": _number(line.get_ydata()[0]), **look}
    if line.get_transform() == ax.get_xaxis_transform(which="grid") and list(line.get_ydata()) == [0, 1]:
        return {"at": _number(line.get_xdata()[0]), "along": "x", **look}
    return None


def _areas(ax: Axes, legends: list[Legend]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the areas of a panel (steps and bars), and its bands from bottom to top."""
    areas, bands = [], []
    for patch in ax.patches:
        look = {"name": _name(patch, legends, str(patch.get_label())), "colour": to_hex(patch.get_facecolor())}
        if isinstance(patch, StepPatch):
            values, edges, base = patch.get_data()
            under = np.broadcast_to(0.0 if base is None else base, len(values))
            sides = {"x": edges[:-1], "x2": edges[1:], "y": under, "y2": values}
            visible = np.asarray(values) != under  # parts without height are omitted
            areas.append(look | {k: _numbers(np.asarray(v)[visible], 7) for k, v in sides.items()})
        elif isinstance(patch, Rectangle) and patch.get_data_transform() == ax.get_xaxis_transform(which="grid"):
            bands.append(look | {"from": _number(patch.get_x()), "to": _number(patch.get_x() + patch.get_width())})
        elif isinstance(patch, Rectangle):
            left, low = patch.get_xy()
            sides = {"x": left, "x2": left + patch.get_width(), "y": low, "y2": low + patch.get_height()}
            areas.append(look | {k: [_number(v)] for k, v in sides.items()})
    return areas, bands


def _name(artist: Line2D | Patch, legends: Iterable[Legend], label: str) -> str:
    """Return the label of an artist, or the text of the entry with its colour in a legend.

    If several entries have this colour, the line style decides.
    """
    if label and not label.startswith("_"):
        return one_line(label)
    colour = _colour_of(artist)
    found = [
        (t.get_text(), h)
        for legend in legends
        for t, h in zip(legend.get_texts(), legend.legend_handles, strict=False)
        if h is not None and _colour_of(h) == colour
    ]
    if len(found) > 1 and isinstance(artist, Line2D):
        dash, marker = artist.get_linestyle(), artist.get_marker()
        lines = [(t, h) for t, h in found if isinstance(h, Line2D)]
        alike = [(t, h) for t, h in lines if h.get_linestyle() == dash and h.get_marker() == marker]
        found = alike or lines or found
    return one_line(found[0][0]) if found else ""


def _dashed(line: Line2D, legends: Iterable[Legend]) -> str:
    """Return the meaning of a line style, if a legend explains it by a grey line.

    An entry such as `latency: p50` only applies to the panel with the label `Latency`. Without an entry, the text is
    empty.
    """
    about = line.axes.get_ylabel().split(" ")[0].lower() if line.axes is not None else ""
    for legend in legends:
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=False):
            entry = text.get_text()
            if (
                isinstance(handle, Line2D)
                and handle.get_linestyle() == line.get_linestyle() not in NO_LINE
                and handle.get_marker() in NO_LINE
                and len(set(to_rgb(handle.get_color()))) == 1 < len(set(to_rgb(line.get_color())))
            ):
                topic, colon, quantity = entry.partition(": ")
                if not colon or topic == about:
                    return quantity or entry
    return ""


def _colour_of(artist: Any) -> str:
    return to_hex(artist.get_color() if isinstance(artist, Line2D) else artist.get_facecolor())

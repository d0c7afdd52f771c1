"""The figures as data of the page: what the printed ones show, with the value, its interval, n and the points of each.

A specification gives its panels and lines as `draw` draws them; axes, titles and scales are read from the printed
figure itself. A figure that no specification says is read from its drawing (`drawn`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from storelab.analysis.figures import catalogue, draw, panels, plots
from storelab.analysis.figures.specification import Declared, Reference, Specification
from storelab.analysis.parts import groups
from storelab.analysis.report import drawn

_PARTS = (("v", "median"), ("l", "low"), ("h", "high"))
BEHIND = "points_behind"  # a column of the tables while they are drawn
FILTERS = {"store": "store", "engine": "engine", "size": "object_size_bytes"}  # of a point: column of a table


def of(plan: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], behind: Mapping[str, list[str]]) -> dict[str, Any]:
    """Name -> the figure, of all that the campaign has data for, in the order of the paper."""
    known = {name: groups.with_column(table, BEHIND, behind[name]) for name, table in tables.items()}
    found = {}
    for name, figure in catalogue.of(plan).items():
        told = drawn_chart(figure, known[figure.table], *(known[other] for other in figure.beside))
        if told is not None:
            found[name] = told | {"own": name in plan.get("figures", {})}
    return found


def drawn_chart(figure: Declared, table: pd.DataFrame, *beside: pd.DataFrame) -> dict[str, Any] | None:
    """Return the chart of a figure and its tables; None where they have no data for it."""
    shown = panels.of(figure, table)
    fig = draw.draw(figure, table, *beside, shown=shown)
    return None if fig is None else chart(figure, table, fig, shown)


def chart(figure: Declared, table: pd.DataFrame, fig: Figure, shown: panels.Layout | None) -> dict[str, Any]:
    """A figure: title, caption, the small line below, panels, whether filters can choose among its values. shown: the
    panels of a specification."""
    legend = fig.legends[0].get_title().get_text() if fig.legends else ""
    return {
        "title": drawn.one_line(legend),
        "caption": catalogue.caption(figure, table, shown),
        "note": drawn.one_line(fig.get_supxlabel()),
        "table": figure.table,
        "filtered": isinstance(figure, Specification),
        "panels": _panels(shown.figure, shown, fig) if shown else drawn.panels(fig),
    }


def _panels(figure: Specification, shown: panels.Layout, fig: Figure) -> list[dict[str, Any]]:
    looks = draw.looks_of(figure, shown)
    text = draw.is_text(shown.rows[figure.x])
    names = draw.categories(shown.rows[figure.x]) if text else []
    out = []
    for i, (ax, panel) in enumerate(zip(fig.axes, shown.panels, strict=True)):
        told = drawn.frame(ax) | {"value": "x" if text else "y"}
        if figure.columns:  # the one in the middle bears the heading of all in the row
            row = shown.panels[i - i % shown.columns :][: shown.columns]
            told["title"] = next((p.heading for p in row if p.heading), "")
        own, look = (panel, looks) if text or not panel.measure.hue else draw.with_own(panel, figure)
        if text:
            told["y"]["names"] = {str(place): name for place, name in enumerate(names)}
        told["lines"] = _lines(figure, own, look, names)
        told["lines"] += _references(figure, panel, looks)
        told["levels"] = _levels(figure, panel, looks)
        out.append(told)
    return out


def _lines(
    figure: Specification, panel: panels.Panel, looks: plots.Looks, names: Sequence[str]
) -> list[dict[str, Any]]:
    """The lines of a panel; of categories the points of each series, a little apart."""
    x, out = panel.measure.x or figure.x, []
    for series, place, curve, rows in draw.lines_of(figure, panel, looks):
        if rows.empty:
            continue
        rows = rows if names else rows.sort_values(x)
        colour, marker = looks[series]
        several = len(panel.measure.curves) > 1 and curve.name != series
        marks = dict(zip(("open", "half"), draw.marked(figure, rows, curve), strict=True))
        alone = bool(panel.measure.hue) and len(looks) == 1
        values = {part: _numbers(rows[curve.column(name)]) for part, name in _PARTS}
        if names:
            step = 0.48 / max(2, len(looks)) * ((len(looks) - 1) / 2 - place)
            at = _numbers(names.index(c) + step for c in rows[x])
            where = {"x": values["v"], "y": at, "at": [str(c) for c in rows[x]]}
        else:
            at = _numbers(rows[x])
            if x.endswith("_bytes"):  # 0 has a place on the axis
                at = [None if v is None else max(v, float(plots.SMALLEST)) for v in at]
            where = {"x": at, "y": values["v"]}
        out.append(
            {
                "name": curve.name if alone else ", ".join(filter(None, (series, curve.name if several else ""))),
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
    """What others published, and limits along x: lines without points of ours."""
    out = []
    for line in _given(figure, panel):
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
    """Values to compare with, across the panel."""
    return [
        {"at": float(line.at), "name": line.label, "colour": _colour(line, looks), "dash": line.dash}
        for line in _given(figure, panel)
        if not isinstance(line.at, pd.Series)
    ]


def _given(figure: Specification, panel: panels.Panel) -> list[Reference]:
    return list(figure.references(panel.every, panel.measure)) if figure.references else []


def _colour(line: Reference, looks: plots.Looks) -> str:
    return to_hex(looks[line.series][0] if line.series else draw.OTHERS)


def _numbers(values: Iterable[Any]) -> list[float | None]:
    """As the tables have them; None for no value."""
    found = (float("nan") if v is None or v is pd.NA else float(v) for v in values)
    return [float(f"{v:.9g}") if np.isfinite(v) else None for v in found]


def _texts(rows: pd.DataFrame, column: str) -> list[str]:
    """Values of a filter: whole numbers without a point."""
    return ["" if pd.isna(v) else f"{v:.0f}" if isinstance(v, int | float) else str(v) for v in rows[column]]

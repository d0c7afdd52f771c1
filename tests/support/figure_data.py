"""Read the data of a drawn figure: its panels, and their series by the text of the legend.

A description has titles, axes, points, intervals, bars and steps with six significant digits. It does not have the
style.
"""

import contextlib
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.ticker import FixedLocator

NEAR = 0.07  # maximum relative shift of curves, which prevents overlapping bars
CAPS = ("|", "_", 0, 1, 2, 3)  # markers of the ends of error bars


@contextlib.contextmanager
def drawn(folder: Path) -> Iterator[dict[str, Any]]:
    """Describe figures that are saved below `folder` during the block, instead of rendering them.

    At the end of the block, the dictionary has the description of each figure by file name.
    """
    described: list[dict[str, Any]] = []
    found: dict[str, Any] = {}

    def savefig(fig: Figure, target: Any, *_: Any, **__: Any) -> None:
        described.append(describe(fig))
        text = f"figure {len(described) - 1}".encode()
        target.write(text) if hasattr(target, "write") else Path(target).write_bytes(text)

    unplaced = mock.patch.object(ConstrainedLayoutEngine, "execute", lambda *_: None)
    with unplaced, mock.patch.object(Figure, "savefig", savefig):
        yield found
    for path in sorted([*folder.glob("*.pdf"), *folder.glob("*.png")]):
        shown = described[int(path.read_bytes().split()[1])]
        if found.setdefault(path.stem, shown) != shown:
            raise AssertionError(f"{path.name}: the PDF and the PNG file have different data")


def describe(fig: Figure) -> dict[str, Any]:
    """Return the texts and data of a figure, independent of the kind of artists."""
    words = [t for t in (getattr(fig, f"get_{n}")() for n in ("suptitle", "supxlabel", "supylabel")) if t]
    legends = list(fig.legends)
    return {
        "words": [" ".join(t.split()) for t in words],
        "legends": [legend_words(one) for one in legends],
        "panels": [panel(ax, [*legends, *filter(None, [ax.get_legend()])]) for ax in fig.axes],
    }


def legend_words(legend: Legend) -> dict[str, Any]:
    return {"title": legend.get_title().get_text(), "labels": [t.get_text() for t in legend.get_texts()]}


def panel(ax: Axes, legends: list[Legend]) -> dict[str, Any]:
    """Return title, axes and series of a panel. The key `lines` has the lines across the whole panel."""
    series: dict[str, dict[str, list[Any]]] = {}

    def add(name: str, kind: str, items: Iterable[Any]) -> None:
        known = series.setdefault(name, {}).setdefault(kind, [])
        known += [item for item in items if item not in known]

    lines = []
    for line in ax.lines:
        if (across := _across(ax, line)) is not None:
            lines.append(across)
        elif not _cap(line) and len(line.get_xdata()):
            add(label(line, legends), "points", _points(ax, line.get_xdata(), line.get_ydata()))
    # markers of single runs, which belong to a symbol
    for marks in (c for c in ax.collections if c.get_gid() != "runs"):
        if isinstance(marks, LineCollection):
            add(label(marks, legends), "intervals", filter(None, (_interval(ax, s) for s in marks.get_segments())))
        elif isinstance(marks, PathCollection):
            add(label(marks, legends), "points", _points(ax, *zip(*marks.get_offsets().tolist(), strict=True)))
        elif isinstance(marks, PolyCollection):
            for path in marks.get_paths():
                add(label(marks, legends), "bands", _points(ax, *zip(*path.vertices.tolist(), strict=True)))
    for patch in ax.patches:
        if isinstance(patch, StepPatch):
            values, edges, base = patch.get_data()
            under = base if base is not None and getattr(base, "__len__", None) else [base or 0] * len(values)
            add(
                label(patch, legends),
                "steps",
                [[number(e), number(v - u)] for e, v, u in zip(edges, values, under, strict=False)],
            )
        elif isinstance(patch, Rectangle):
            add(label(patch, legends), "bars", [_bar(ax, patch)])
    for kinds in series.values():
        for items in kinds.values():
            items.sort(key=lambda item: json.dumps(item))
    own = ax.get_legend()
    return {
        "title": " ".join(ax.get_title().split()),
        "x": {"label": ax.get_xlabel(), "scale": ax.get_xscale()},
        "y": {"label": ax.get_ylabel(), "scale": ax.get_yscale()},
        **({"legend": legend_words(own)} if own else {}),
        "texts": sorted(t.get_text() for t in ax.texts),
        "lines": sorted(lines),
        "series": {
            name: {kind: items for kind, items in kinds.items() if items}
            for name, kinds in sorted(series.items())
            if any(kinds.values())
        },
    }


def number(value: Any) -> Any:
    """Round a number to six significant digits. Return None for NaN."""
    value = float(value)
    return None if math.isnan(value) else float(f"{value:.6g}")


def _cap(line: Line2D) -> bool:
    """Return True if a line is the end mark of an error bar."""
    return line.get_marker() in CAPS and line.get_linestyle() in ("None", "none", "", " ")


def _across(ax: Axes, line: Line2D) -> list[Any] | None:
    """Return [axis, value] of a line across the whole panel."""
    if line.get_transform() == ax.get_yaxis_transform(which="grid"):
        return ["y", number(line.get_ydata()[0])]
    if line.get_transform() == ax.get_xaxis_transform(which="grid"):
        return ["x", number(line.get_xdata()[0])]
    return None


def _points(ax: Axes, xs: Iterable[Any], ys: Iterable[Any]) -> list[list[Any]]:
    return [[place(ax, ax.xaxis, x), place(ax, ax.yaxis, y)] for x, y in zip(xs, ys, strict=True)]


def _interval(ax: Axes, segment: Any) -> list[Any] | None:
    """Return [x, low, high] of an interval, [[low, high], y] of a horizontal one, and None if it has no length."""
    if len(segment) != 2:
        return None
    (x0, y0), (x1, y1) = segment
    if x0 == x1 and y0 != y1:
        return [place(ax, ax.xaxis, x0), *sorted((number(y0), number(y1)))]
    if y0 == y1 and x0 != x1:
        return [sorted((number(x0), number(x1))), place(ax, ax.yaxis, y0)]
    return None


def _bar(ax: Axes, bar: Rectangle) -> list[Any]:
    """Return [category, length] of a bar. Bars are horizontal if the y axis has the categories."""
    if categories(ax, ax.yaxis):
        return [place(ax, ax.yaxis, bar.get_y() + bar.get_height() / 2), number(bar.get_width())]
    return [place(ax, ax.xaxis, bar.get_x() + bar.get_width() / 2), number(bar.get_height())]


def categories(ax: Axes, axis: Axis) -> dict[float, str]:
    """Return position -> name of an axis with names at 0, 1, 2, …. One of several panels can have the names for all."""
    own, which = _ticks(axis), "yaxis" if axis is ax.yaxis else "xaxis"
    if own is None:
        return {}
    for other in [axis, *(getattr(a, which) for a in ax.figure.axes)]:
        found = other.get_major_formatter().format_ticks(own) if _ticks(other) == own else []
        if any(found) and not all(_numeric(t) for t in found):
            return dict(zip(own, found, strict=True))
    return {}


def _ticks(axis: Axis) -> list[float] | None:
    """Return the ticks of an axis if they are fixed at the integers from 0 on."""
    if axis.get_scale() != "linear" or not isinstance(axis.get_major_locator(), FixedLocator):
        return None
    locs = [float(t) for t in axis.get_major_locator().locs]
    return locs if locs == [float(i) for i in range(len(locs))] else None


def _numeric(text: str) -> bool:
    try:
        float(text.replace("\u2009", "").replace("\u2212", "-"))
    except ValueError:
        return False
    return True


def place(ax: Axes, axis: Axis, value: Any) -> Any:
    """Return the category at a coordinate, or the number.

    If ticks are at the measured values, return the nearest tick, because curves are shifted a little.
    """
    if known := categories(ax, axis):
        return known[min(known, key=lambda at: abs(at - float(value)))]
    value = float(value)
    if axis is ax.xaxis and isinstance(axis.get_major_locator(), FixedLocator):
        to = axis.get_transform().transform
        low, high = (float(to(v)) for v in sorted(axis.get_view_interval()))
        near = min(
            axis.get_major_locator().locs, key=lambda tick: abs(float(to(tick)) - float(to(value))), default=None
        )
        aside = math.inf if near is None else abs(float(to(near)) - float(to(value)))
        if aside < NEAR * (high - low) or (aside < math.inf and axis.get_scale() == "linear"):
            return number(near)
    return number(value)


def look(artist: Any) -> dict[str, Any]:
    """Return colour, marker and dashes of an artist, if it has them."""
    out: dict[str, Any] = {}
    if isinstance(artist, Line2D):
        out["colour"] = artist.get_color()
        if artist.get_marker() not in ("None", "none", None, "", " "):
            out["marker"] = str(artist.get_marker())
        if artist.get_linestyle() not in ("None", "none", "", " "):
            out["dash"] = artist.get_linestyle()
    elif isinstance(artist, LineCollection):
        out["colour"] = artist.get_colors()[0] if len(artist.get_colors()) else None
    elif isinstance(artist, PathCollection | PolyCollection):
        out["colour"] = artist.get_facecolors()[0] if len(artist.get_facecolors()) else None
    else:
        out["colour"] = artist.get_facecolor()
    if out.get("colour") is not None:
        out["colour"] = mpl.colors.to_hex(out["colour"])
    return out


def label(artist: Any, legends: list[Legend]) -> str:
    """Return the texts of an artist in all legends, or its label if no legend has it."""
    mine, words = look(artist), []
    for one in legends:
        texts = [t.get_text() for t in one.get_texts()]
        looks = [look(h) for h in one.legend_handles if h is not None]
        kinds = [k for k in ("colour", "marker", "dash") if len({x.get(k) for x in looks}) > 1] or ["colour"]
        fit = [
            t
            for t, x in zip(texts, looks, strict=False)
            if all(mine[k] == x.get(k) for k in kinds if k in mine and k in x)
            and any(k in mine and k in x for k in kinds)
        ]
        if fit:
            words.append(" | ".join(fit))
    own = str(artist.get_label())
    return " / ".join(words) or ("" if own.startswith("_") else own)


def describe_campaign(campaign: Path, folder: Path) -> dict[str, Any]:
    """Draw all figures of a campaign in `folder`, and return their descriptions in the order of the index."""
    from storelab.analysis.figures import write

    for part in ("raw", "tables"):
        (folder / part).symlink_to(campaign / part)
    with drawn(folder / "figures") as figures:
        write.build(folder)
    index = json.loads((folder / "figures" / "index.json").read_text())["figures"]
    assert {*index} == {*figures}
    return {name: figures[name] for name in index}

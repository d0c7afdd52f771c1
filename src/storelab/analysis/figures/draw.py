"""Draw the figure of a specification as a matplotlib Figure, without access to files.

Medians have bars from low to high. Each series has a colour and a marker, and each curve of a measure has a line style.
Small dots are single runs. Symbols of points with few operations are open, and those of points limited by client or
link are half-filled. Curves of many values are lines with a band. If the column on the x axis contains text, its values
are categories, which are drawn as rows of dots instead of curves.
"""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from storelab.analysis.figures import panels, plots
from storelab.analysis.figures.specification import (
    MIN_VALUES,
    Curve,
    Declared,
    Function,
    Measure,
    Reference,
    Specification,
    select,
)
from storelab.analysis.parts import labels

INSIDE = 25  # maximum number of characters of a line in a legend inside a panel
OTHERS = "0.35"  # colour of published points
MANY, SYMBOLS = 30, 6  # above MANY values of x, curves are lines with about SYMBOLS symbols


def draw(
    figure: Declared, table: pd.DataFrame, *further: pd.DataFrame, shown: panels.Layout | None = None
) -> Figure | None:
    """Return the figure of a table, or None if the table has no data for it.

    further: the figure's `further_tables`; shown: the panels of the figure, if they are known.
    """
    if isinstance(figure, Function):
        few = figure.least > 1 and figure.count(table) < figure.least
        return None if few else figure.function(table, *further)
    assert isinstance(figure, Specification)
    if not (shown := shown or panels.layout_of(figure, table)):
        return None
    figure, rows = shown.figure, shown.rows
    note = plots.subtitle(rows) + (figure.note(rows) if figure.note else "") + (f"; {shown.left}" if shown.left else "")
    looks = looks_of(figure, shown)
    runs = further[0] if further else None
    names = categories(rows[figure.x]) if is_text(rows[figure.x]) else []
    with plots.style():
        fig, cells = plots.grid(len(shown.panels), figure.height + figure.line * len(names), note, shown.columns)
        drawn = []
        for i, (ax, panel) in enumerate(zip(cells, shown.panels, strict=True)):
            if names:
                drawn.append(_dots(ax, figure, panel, looks, names, i % shown.columns == 0, runs))
            else:
                drawn.append(_curves(ax, figure, panel, looks, runs))
            plots.title(ax, panel.heading, 1 if figure.columns else shown.columns)
        for measure, label, axes, values in _compared(cells, shown.panels, drawn):
            if names:
                _lengths(axes, values, measure, label)
            else:
                _values(axes, values, measure, label)
                _inside(axes, measure, looks)
        plots.add_labels(cells, shown.columns)
        dashes = {c.name: c.dash for c in figure.measures[0].curves} if figure.by_curve else {}
        handles = [
            Line2D([], [], color=c, marker=m, label=s, linestyle=dashes.get(s, "-")) for s, (c, m) in looks.items()
        ]
        handles += _published(figure, shown)
        title = figure.title.format(**panels.fields(rows))
        plots.key(fig, handles, ", ".join(filter(None, (title, shown.common))))
    return fig


def _compared(
    cells: Sequence[Axes], shown: Sequence[panels.Panel], values: Sequence[pd.Series]
) -> Iterator[tuple[Measure, str, list[Axes], list[pd.Series]]]:
    """Yield (measure, label, axes, values) for each group of panels whose values have the same label.

    Readers compare the panels of a group, so that they get the same range of values.
    """
    groups: dict[str, list[int]] = {}
    for i, panel in enumerate(shown):
        label = panel.measure.label.format(**panels.fields(panel.rows))
        groups.setdefault(label, []).append(i)
    for label, indices in groups.items():
        yield shown[indices[0]].measure, label, [cells[i] for i in indices], [values[i] for i in indices]


def is_text(values: pd.Series) -> bool:
    """Return True if a column contains text instead of numbers."""
    return not pd.api.types.is_numeric_dtype(values)


def categories(values: pd.Series) -> list[str]:
    """Return the categories from the lowest line to the highest, in the order that the figure sets, else by name."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return [name for name in values.cat.categories[::-1] if (values == name).any()]
    return sorted(values.unique(), reverse=True)


def looks_of(spec: Specification, shown: panels.Layout) -> plots.Looks:
    """Return the colour and marker of each series.

    If the curves of a measure have separate colours (`by_curve`), return those of the curves with data.
    """
    if not spec.by_curve:
        return plots.looks(shown.series, shown.ordered)
    curves = spec.measures[0].curves
    looks = plots.looks([c.name for c in curves])
    return {c.name: looks[c.name] for c in curves if shown.rows[c.column()].notna().any()}


def lines_of(spec: Specification, panel: panels.Panel, looks: plots.Looks) -> list[tuple[str, int, Any, pd.DataFrame]]:
    """Return (name of the series, its index in `looks`, curve, rows) for each line of a panel."""
    out = []
    for curve in (c for c in panel.measure.curves if c.column() in panel.rows):
        known = panel.rows[panel.rows[curve.column()].notna()]
        if spec.by_curve:
            out += [(curve.name, list(looks).index(curve.name), curve, known)] if curve.name in looks else []
        else:
            out += [(name, i, curve, known[known["series"] == name]) for i, name in enumerate(looks)]
    return out


def marked(spec: Specification, rows: pd.DataFrame, curve: Curve) -> tuple[pd.Series, pd.Series | None]:
    """Return which points of a curve have open symbols, and which have half-filled ones (None: none)."""
    return (spec.hollow(rows), None) if spec.hollow else (panels.few(rows, curve), panels.bound(rows))


def with_separate_series(panel: panels.Panel, spec: Specification) -> tuple[panels.Panel, plots.Looks]:
    """Return a panel whose measure has separate series (`Measure.hue`), and their looks in dark and light greys.

    The series are named by the values that are not the default of their axis.
    """
    x = panel.measure.x or spec.x
    rows = panel.rows.drop(columns="series", errors="ignore")
    axes = panels.varying(rows, (panel.measure.hue,), {"clients", x, spec.x})
    distinguishing = [c for c in axes if rows[c].nunique() > 1]
    rows = panels.with_series(rows, distinguishing, usual=True)
    names = list(dict.fromkeys(rows["series"]))
    greys = plots.tones(len(names), "dark:0.6")
    return panels.Panel(panel.heading, rows, panel.measure, panel.every), dict(
        zip(names, zip(greys, plots.MARKERS * 9, strict=False), strict=False)
    )


def _runs(
    ax: Axes,
    points: pd.DataFrame | None,
    rows: pd.DataFrame,
    at: pd.Series,
    curve: Curve,
    colour: Any,
    orient: str = "v",
) -> None:
    """Draw the single runs of these rows as small dots behind their medians. points: table with one row per run."""
    value, by = f"overlap_{curve.metric}_{curve.unit}", list(rows.columns[: rows.columns.get_loc("n")])
    if points is None or value not in points or (rows["n"] < 2).all():
        return
    runs = rows[by].assign(at=at).merge(points.loc[points["state"] == "ok", [*by, value]], on=by)
    x, y = (value, "at") if orient == "h" else ("at", value)
    look = {"color": colour, "alpha": 0.4, "size": 2.5, "zorder": 1.5}
    sns.stripplot(runs, x=x, y=y, orient=orient, native_scale=True, jitter=False, ax=ax, gid="runs", **look)


def _curves(
    ax: Axes, spec: Specification, panel: panels.Panel, looks: plots.Looks, runs: pd.DataFrame | None
) -> pd.Series:
    """Draw the curves of a panel and its x axis; return the values on the y axis."""
    measure, x = panel.measure, panel.measure.x or spec.x
    if measure.hue:
        panel, looks = with_separate_series(panel, spec)
    others = [float(at) for line in _published_points(spec, panel) for at in line.at.index]
    places, drawn = pd.Series([*panel.places(x).astype(float), *others]), [pd.Series(dtype=float)]
    ticks = ("sizes" if x.endswith("_bytes") else "percent") if x.endswith(("_bytes", "_percent")) else "counts"
    long = places.nunique() > MANY and not measure.hue
    for name, place, curve, rows in lines_of(spec, panel, looks):
        rows = rows.sort_values(x)
        step = 0 if long else _step(places, len(looks)) * (place - (len(looks) - 1) / 2)
        at = _shifted(rows[x].astype(float), places, step, ticks, spec.x_scale)
        if long:
            _line(ax, at, rows, curve, looks[name], place / len(looks))
        else:
            _curve(ax, at, rows, curve, looks[name])
            _runs(ax, runs, rows, at, curve, looks[name][0])
        if measure.hue and len(rows):  # if there are several series, the line style distinguishes the curves
            which = f"{curve.name.split()[2]}, " if len(measure.curves) > 1 else ""
            label = f"{which}{name}" if len(looks) > 1 else curve.name
            ax.containers[-1].set_label(textwrap.fill(label, INSIDE))
        plots.mark(ax, at, rows[curve.column()], looks[name], *marked(spec, rows, curve))
        drawn.append(rows[curve.column()].astype(float))
    levels = _references(ax, spec, panel, looks)
    label = (measure.x_label or spec.x_label or labels.heading(x)).format(
        **panels.fields(select(panel.every, measure.where))
    )
    if ticks == "counts":
        plots.count_axis(ax, places, label, spec.labels, spec.x_scale, spec.x_names)
    else:
        plots.log_axis(ax, places, label, ticks == "sizes")
    return pd.concat([*drawn, pd.Series(levels, dtype=float)])


def _curve(ax: Axes, at: pd.Series, rows: pd.DataFrame, curve: Curve, look: tuple[Any, str]) -> None:
    """Draw medians with bars from low to high."""
    colour, marker = look
    bars = {"yerr": plots.bars(rows, curve.metric, curve.unit), "elinewidth": 1, "capsize": 2.5}
    ax.errorbar(at, rows[curve.column()].astype(float), **bars, color=colour, marker=marker, linestyle=curve.dash)


def _line(ax: Axes, at: pd.Series, rows: pd.DataFrame, curve: Curve, look: tuple[Any, str], share: float) -> None:
    """Draw medians with a band from low to high and a few symbols.

    If there are many values, there is no room for a symbol at each value, or for shifted curves. share: position of the
    first symbol of this curve, as a fraction of the distance between symbols.
    """
    colour, marker = look
    y, low, high = (rows[curve.column(part)].astype(float) for part in ("median", "low", "high"))
    every = max(1, len(rows) // SYMBOLS)
    ax.plot(at, y, color=colour, marker=marker, markevery=(int(share * every), every), linestyle=curve.dash)
    ax.fill_between(at, low, high, color=colour, alpha=0.25, linewidth=0)


def _step(places: pd.Series, series: int) -> float:
    """Return the distance between two series as a fraction of the axis. It is larger if there are few positions."""
    return 0.8 / series if places.nunique() == 1 else 0.02 if places.nunique() <= MIN_VALUES else 0.012


def _shifted(x: pd.Series, every: pd.Series, step: float, ticks: str, scale: str) -> pd.Series:
    """Return positions that are slightly shifted sideways, so that no bar hides another.

    every: all positions on the axis; step: shift as a fraction of the axis.
    """
    least = plots.SMALLEST if ticks == "sizes" else 0
    x, every = x.clip(lower=least), every.clip(lower=least)
    if ticks != "counts" or plots.is_wide(every, scale):
        return x * ((every.max() / every.min()) if every.nunique() > 1 else 2.0) ** step
    return x + ((every.max() - every.min()) or 1) * step


def _values(axes: list[Axes], values: list[pd.Series], measure: Measure, label: str) -> None:
    """Set up the value axis of panels that are compared."""
    if measure.scale == "log":
        plots.time_axis(axes, values, label)
    else:
        plots.value_axis(axes, values, label, measure.log_from if measure.scale == "auto" else float("inf"))
    for ax, ticks in zip(axes, values, strict=True):
        if not ticks.notna().any():
            plots.write_inside(ax, "not recorded", color="0.35")


def _lengths(axes: list[Axes], values: list[pd.Series], measure: Measure, label: str) -> None:
    """Set up the value axis (x) of panels with categories."""
    every = pd.concat(values)
    log = measure.scale == "log" or (measure.scale == "auto" and every.max() > 20 * every.min() > 0)
    for ax in axes if log else ():
        ax.set_xscale("log")
    plots.one_range(axes, values, "x")
    for ax in axes:
        if not log:
            low, high = ax.get_xlim()
            ax.set_xlim(min(0.0, low) if every.min() < 0 else 0, max(high, 1.04 * every.max()))
        plots.plain_numbers(ax.xaxis, *((float("inf"), 6) if log else ()))
        ax.set_xlabel(label)


def _references(ax: Axes, spec: Specification, panel: panels.Panel, looks: plots.Looks) -> list[float]:
    """Draw the reference lines of a panel, and return the values that its value axis has to include."""
    levels = []
    for line in spec.references(panel.every, panel.measure) if spec.references else ():
        if line.marker and isinstance(line.at, pd.Series):
            bars = {"yerr": line.spread, "elinewidth": 0.8, "capsize": 2}
            ax.errorbar(line.at.index, line.at, **bars, fmt=line.marker, color=OTHERS, mfc="white", zorder=1.5)
            levels += list(line.at)
            continue
        colour = looks[line.series][0] if line.series else "0.35"
        look = {"color": colour, "linestyle": line.dash, "linewidth": 1, "zorder": 1}
        if isinstance(line.at, pd.Series):
            ax.plot(line.at.index, line.at, **look)
            places = panel.places(panel.measure.x or spec.x).astype(float)
            # At the left edge of the panel, there is no room for a label that ends at the point.
            left = line.at.index[-1] < places.min() + (places.max() - places.min()) / 4
            end = 0 if left else -1
            place, align = (line.at.index[end], line.at.iloc[end]), "left" if left else "right"
        else:
            (ax.axvline if is_text(panel.rows[spec.x]) else ax.axhline)(line.at, **look)
            place, align = (ax.get_xlim()[0], line.at), "left"
            levels += [line.at] if line.series else []
        if line.label:
            ax.annotate(line.label, place, (-2, 3), textcoords="offset points", fontsize=6, color=colour, ha=align)
    return levels


def _published_points(spec: Specification, panel: panels.Panel) -> list[Reference]:
    """Return the published points in a panel."""
    lines = spec.references(panel.every, panel.measure) if spec.references else ()
    return [line for line in lines if line.marker and isinstance(line.at, pd.Series)]


def _published(spec: Specification, shown: panels.Layout) -> list[Line2D]:
    """Return the legend entries of published points."""
    lines = [line for panel in shown.panels for line in _published_points(spec, panel)]
    look = {"color": OTHERS, "markerfacecolor": "white", "linestyle": "none"}
    return [Line2D([], [], marker=m, label=text, **look) for text, m in {r.label: r.marker for r in lines}.items()]


def _inside(axes: list[Axes], measure: Measure, looks: plots.Looks) -> None:
    """Draw a legend inside each panel, which shows its separate series, or the line style of each curve.

    All panels get the space that the largest legend needs.
    """
    marks: list[list[Any]] = [[] for _ in axes]
    if measure.hue:
        marks = [[c for c in ax.containers if not str(c.get_label()).startswith("_")] for ax in axes]
    elif len(measure.curves) > 1 and not any(c.name in looks for c in measure.curves):
        marks = [[Line2D([], [], color="0.3", linestyle=c.dash, label=c.name) for c in measure.curves] for _ in axes]
    room = 0.14 * max(sum(1 + m.get_label().count("\n") for m in handles) for handles in marks)
    for ax, handles in zip(axes, marks, strict=True):
        low, high = ax.get_ylim()
        at = ax.transScale.inverted().transform((0, _scaled(ax, high) + room * (_scaled(ax, high) - _scaled(ax, low))))
        ax.set_ylim(top=at[1])
        if handles:
            ax.legend(
                handles=handles,
                fontsize=6,
                frameon=False,
                loc="upper right" if measure.hue else "upper left",
                borderaxespad=0.1,
                handlelength=1.8,
            ).set_in_layout(False)


def _scaled(ax: Axes, value: float) -> float:
    """Return the position of a value on the scale of the y axis, for example its logarithm."""
    return float(ax.yaxis.get_transform().transform(value))


def _dots(
    ax: Axes,
    spec: Specification,
    panel: panels.Panel,
    looks: plots.Looks,
    names: list[str],
    first: bool,
    runs: pd.DataFrame | None,
) -> pd.Series:
    """Draw a line for each category, with a dot and a bar for each series, and return the values."""
    drawn = []
    for name, place, curve, rows in lines_of(spec, panel, looks):
        colour, marker = looks[name]
        value, bars = rows[curve.column()].astype(float), plots.bars(rows, curve.metric, curve.unit)
        y = pd.Series(
            [names.index(c) + 0.48 / max(2, len(looks)) * ((len(looks) - 1) / 2 - place) for c in rows[spec.x]],
            index=rows.index,
        )
        ax.errorbar(value, y, xerr=bars, fmt=marker, color=colour, capsize=2.5, elinewidth=1)
        _runs(ax, runs, rows, y, curve, colour, "h")
        plots.mark(ax, value, y, looks[name], *marked(spec, rows, curve))
        drawn.append(value)
    _references(ax, spec, panel, looks)
    ax.set_ylabel("")
    ax.set_yticks(range(len(names)), names if first else [""] * len(names))
    ax.set_ylim(-0.6, len(names) - 0.4)
    return pd.concat([pd.Series(dtype=float), *drawn])

"""Arrange the rows of a table into the panels of a figure, and name their curves.

This module does not draw. If a panel would have more than MAX_COLOURS curves, it is split into several panels. `left`
describes all data that the figure does not show, for example because they do not fit on a page.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from storelab.analysis.figures.specification import (
    MIN_VALUES,
    Curve,
    Declared,
    Function,
    Measure,
    Specification,
    select,
)
from storelab.analysis.parts import groups, labels
from storelab.analysis.tables.calibration import EXCEEDED, LINK, SHARED
from storelab.core import units

MAX_COLOURS = 10  # number of colours that readers can distinguish
NEAR_LINK = 50  # percent of the capacity of the links, from which on a figure shows this capacity
NARROW = 6  # maximum number of curves if measures are side by side, because their panels are small
FEW = "open symbols: rates of fewer than 10 operations"
PAGE = 8.85  # maximum height in inches, which leaves room for a caption of six lines
MIN_HEIGHTS = {1: 1.45, 3: 1.75}  # panels in a row -> minimum height of a panel; titles of three panels need more room
AS_CONFIGURED = "as configured"  # the name of a curve with all axes at their default
NAMES = (
    "store",
    "deployment",
    "op",
    "loop",
    "role",
    "phase",
    "coupled",
)  # columns whose values need no further words
ORDERED_FROM = 7  # from this number of values of one quantity on, the palette is sequential


def bound(rows: pd.DataFrame) -> pd.Series:
    """Return which rows are near the limit of their client or link (False if this is not known)."""
    return rows["bound_by"].notna() if "bound_by" in rows else pd.Series(False, index=rows.index)


def few(rows: pd.DataFrame, curve: Curve) -> pd.Series:
    """Return which rates of a curve are marked in the tables, because they depend on few operations."""
    rate = curve.unit.endswith("per_s") and "few" in rows
    return (rows["few"] if rate else pd.Series(False, index=rows.index)).fillna(False).astype(bool)


def symbols(rows: pd.DataFrame, before: str = "") -> str:
    """Return a note that explains open and half-filled symbols, or an empty string if these rows have none.

    before: text that precedes the explanation.
    """
    texts = [f"half-filled symbols: {labels.bound_text(rows)}"] if bound(rows).any() else []
    texts += [FEW] if "few" in rows and rows["few"].fillna(False).any() else []
    return before + "; ".join(texts) if texts else ""


def on_one_host(rows: pd.DataFrame) -> str:
    """Return a note if clients share the host of the server, else an empty string."""
    shared = rows["shared_host"].astype(bool) if "shared_host" in rows else pd.Series([False])
    if shared.all():
        return "client and server share one host"
    return "some clients share the server's host" if shared.any() else ""


def rated(figure: Declared, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows. If the figure does not show rates, it has no open symbols, and the column `few` is removed."""
    measures = figure.measures if isinstance(figure, Specification) else ()
    rates = any(curve.unit.endswith("per_s") for measure in measures for curve in measure.curves)
    return rows if rates else rows.drop(columns="few", errors="ignore")


def limits(rows: pd.DataFrame) -> pd.Series:
    """Return which rows have a ceiling that was measured over the network, with clients on several nodes."""
    if "nodes" not in rows or "ceiling_rate_per_s" not in rows:
        return pd.Series(False, index=rows.index)
    return ((rows["nodes"].fillna(1) > 1) & rows["ceiling_rate_per_s"].notna()).astype(bool)


def links(rows: pd.DataFrame) -> pd.Series:
    """Return which rows used at least NEAR_LINK percent of the known capacity of the links."""
    if "link_used_percent" not in rows:
        return pd.Series(False, index=rows.index)
    return (rows["link_used_percent"] >= NEAR_LINK).fillna(False).astype(bool)


def ceilings(rows: pd.DataFrame) -> pd.Series:
    """Return which rows have a ceiling that figures show.

    The ceilings must have been measured with clients on several nodes. A ceiling of cores that client and server share
    means little, and a ceiling that a rate exceeded is wrong. If the capacity of the links is known, it is shown
    instead of a ceiling of links.
    """
    if not limits(rows).any():
        return pd.Series(False, index=rows.index)
    other = rows["ceiling_of"].isin([SHARED, *([LINK] if rows["link_bits_per_s"].notna().any() else [])])
    wrong = (rows["ceiling_percent"] > EXCEEDED).fillna(False).astype(bool)
    return rows["ceiling_rate_per_s"].notna() & ~other & ~wrong


def side_by_side(panels: int) -> int:
    """Return the number of columns in which this number of panels is arranged."""
    return 3 if panels == 3 or panels > 8 else min(panels, 2)


def max_panels(width: int = 3) -> int:
    """Return the maximum number of panels on a page with `width` panels in a row."""
    return int(PAGE / MIN_HEIGHTS[width]) * width


@dataclass(frozen=True)
class Panel:
    """A panel of a figure.

    `rows` have a `series` and a value of the measure. `every` also includes rows without a value, for reference lines.
    """

    heading: str
    rows: pd.DataFrame
    measure: Measure
    every: pd.DataFrame

    def places(self, x: str) -> pd.Series:
        """Return the positions on the axis x."""
        return select(self.every, self.measure.where)[x].dropna()


@dataclass(frozen=True)
class Layout:
    """The panels of a figure, row by row.

    `rows`: all rows that the panels show. `columns`: number of panels side by side. `series`: names of the curves.
    `ordered`: the series are values of one quantity. `left`: text about data that no panel shows. `common`: the
    settings that all curves have in common, if there are several curves.
    """

    figure: Specification
    panels: list[Panel]
    rows: pd.DataFrame
    columns: int
    series: list[str]
    ordered: bool
    left: str
    common: str = ""


def known(rows: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """Return the rows of a measure that have a median for at least one of its curves."""
    rows = select(rows, measure.where)
    columns = [c.column() for c in measure.curves if c.column() in rows]
    return rows[rows[columns].notna().any(axis=1)] if len(rows) and columns else rows.iloc[:0]


def value_label(column: str, value: object) -> str:
    """Return a value of a column in words, or an empty string for a null value."""
    return "" if pd.isna(value) else str(value) if column in NAMES else labels.value_text(column, value)


def with_series(rows: pd.DataFrame, names: list[str], usual: bool = False) -> pd.DataFrame:
    """Return the rows with the column `series`: the values of these axes in words.

    The rows are sorted by the axes, then by clients. usual: omit values that are the default of their axis.
    """
    rows = rows.sort_values([*names, *(["clients"] if "clients" in rows else [])])
    series = []
    for values in rows[names].itertuples(index=False):
        shown = [(c, v) for c, v in zip(names, values, strict=True) if not (usual and labels.is_default(c, v))]
        series.append(", ".join(filter(None, (value_label(c, v) for c, v in shown))) or AS_CONFIGURED)
    return rows.assign(series=series)


def varying(rows: pd.DataFrame, always: Sequence[str], apart: set[str], more: Sequence[str] = ()) -> list[str]:
    """Return the columns `always`, followed by all columns of `more` and all axes that vary and are not in `apart`."""
    others = (c for c in (*more, *labels.axes_of(rows)) if c not in {*always, *apart} and rows[c].nunique() > 1)
    return [*always, *others]


def _groups(spec: Specification, rows: pd.DataFrame, by: list[str]) -> list[tuple[Measure, pd.DataFrame]]:
    """Return (measure, rows) for each panel. If measures are side by side, return it for each row of panels."""
    out = []
    for measure in spec.measures[:1] if spec.columns else spec.measures:
        part = rows if spec.columns else known(rows, measure)
        out += [(measure, group) for _, group in (part.groupby(by, dropna=False) if by else [((), part)]) if len(group)]
    return [(m, g) for m, g in out if not spec.swept or g[spec.x].nunique() >= MIN_VALUES]


def _measured(spec: Specification, rows: pd.DataFrame) -> int:
    """Return how many rows have a median for at least one measure."""
    return len({i for measure in spec.measures for i in known(rows, measure).index})


def _drawn(spec: Specification, rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the rows that are in at least one panel."""
    return rows.loc[list(dict.fromkeys(i for _, g in _groups(spec, rows, by) for i in g.index))]


def _names(spec: Specification, rows: pd.DataFrame, by: list[str]) -> tuple[list[str], list[str], pd.DataFrame]:
    """Return (axes that distinguish curves, columns that distinguish panels, rows).

    If there are too many curves and the figure shows a sweep, curves of a single point are removed first. If there are
    still too many, the values of an axis get separate panels. The axis with the fewest values is used first, and an
    axis that sets the colours is used last.
    """
    most = NARROW if spec.columns else MAX_COLOURS
    while True:
        names = [c for c in _distinguishing(spec, rows, by) if c not in by]
        several = sorted((c for c in names if rows[c].nunique() > 1), key=lambda c: (c in spec.hue, rows[c].nunique()))
        groups = [g for _, g in _groups(spec, rows, by)]
        crowded = max(len(g[names].drop_duplicates()) for g in groups) > most
        swept = rows.groupby([*by, *names], dropna=False)[spec.x].transform("nunique") > 1
        if spec.swept and len(rows[names].drop_duplicates()) > most and not swept.all() and swept.any():
            rows = _drawn(spec, rows[swept], by)
        elif not crowded or len(several) < 2:
            return names, by, rows
        else:
            by = [*by, several[0]]
            rows = _drawn(spec, rows, by)


def _distinguishing(spec: Specification, rows: pd.DataFrame, by: list[str]) -> list[str]:
    apart = {spec.x, *by, *spec.apart}
    if spec.within:
        groups = [g for _, g in _groups(spec, rows, by)]
        apart |= {c for c in labels.axes_of(rows) if all(g[c].nunique() <= 1 for g in groups)}
    return varying(rows, spec.hue, apart, [c for c in spec.more if c in rows])


def _heading(spec: Specification, group: pd.DataFrame, rows: pd.DataFrame, measure: Measure, more: list[str]) -> str:
    first = group.iloc[0]
    text = (
        spec.heading(first, rows)
        if spec.heading
        else ", ".join(filter(None, (value_label(c, first[c]) for c in spec.panels)))
    )
    return ", ".join(filter(None, [text.replace("{what}", measure.what), *(value_label(c, first[c]) for c in more)]))


def layout(spec: Specification, rows: pd.DataFrame, left: Sequence[str] = ()) -> Layout | None:
    """Return the panels of a figure, or None if there are none.

    left: texts about rows that were removed before.
    """
    by = list(spec.panels)
    if spec.otherwise and values_of(spec, rows) < MIN_VALUES:
        spec = spec.otherwise
    if systems(rows) < spec.least:
        spec = replace(spec, swept=True)
    if not _groups(spec, rows, by):
        return None
    names: list[str] = []
    common = ""
    left, every = list(left), _measured(spec, rows)
    rows = _drawn(spec, rows, by)
    if not spec.by_curve and "series" not in rows:
        names, by, rows = _names(spec, rows, by)
        names, common = _distinguishing_axes(spec, rows, names)
        rows = with_series(rows, names)
        rows = rows.sort_values([spec.falling], ascending=False, kind="stable") if spec.falling else rows
    if len(rows) < every:
        few = f"fewer than {MIN_VALUES} values of {labels.heading(spec.x).lower()}"
        left.append(f"all but {labels.plural(every - len(rows), 'point')} at {few}")
    series = [] if spec.by_curve else list(dict.fromkeys(rows["series"]))
    parts = _groups(spec, rows, by)
    most = max_panels(1 if spec.columns else 3)
    left += [f"{most} of {len(parts)} panels"] if len(parts) > most else []
    panels: list[Panel] = []
    for measure, group in parts[:most]:
        heading = _heading(spec, group, rows, measure, by[len(spec.panels) :])
        measures = spec.measures if spec.columns else (measure,)  # the middle panel has the heading
        panels += [
            Panel(heading if i == len(measures) // 2 else "", known(group, m), m, group) for i, m in enumerate(measures)
        ]
    several = [c for c in names if rows[c].nunique() > 1]
    ordered = len(several) == 1 and len(series) >= ORDERED_FROM and pd.api.types.is_numeric_dtype(rows[several[0]])
    shown = rows[rows.index.isin([i for p in panels for i in p.every.index])]
    columns = len(spec.measures) if spec.columns else side_by_side(len(panels))
    return Layout(spec, panels, shown, columns, series, ordered, _with_table(spec, left), common)


def systems(rows: pd.DataFrame) -> int:
    """Return the number of systems that the rows compare."""
    return max((rows[c].nunique() for c in ("store", "deployment") if c in rows), default=0)


def values_of(spec: Specification, rows: pd.DataFrame) -> int:
    """Return the largest number of values on the x axis of a panel."""
    unswept = replace(spec, swept=False)
    return max((g[spec.x].nunique() for _, g in _groups(unswept, rows, list(spec.panels))), default=0)


def too_few(spec: Declared, table: pd.DataFrame) -> str:
    """Return the number of values of a figure that is not drawn, as a text such as `2 values of clients`.

    Without data, the text is empty.
    """
    if isinstance(spec, Function):
        number = spec.count(table) if spec.least > 1 else 0
        return f"{number} {spec.counted_as}" if 0 < number < spec.least else ""
    assert isinstance(spec, Specification)
    rows = spec.captioned_rows(table)
    rows, spec = spec.prepare(rows) if len(rows) else rows, spec.otherwise or spec
    number = values_of(spec, rows) if len(rows) else 0
    return f"{labels.plural(number, 'value')} of {labels.heading(spec.x).lower()}" if number else ""


def _distinguishing_axes(spec: Specification, rows: pd.DataFrame, names: list[str]) -> tuple[list[str], str]:
    """Return the axes that distinguish curves, and a text with the settings that all curves have in common.

    Settings that the title shows are not in the text. If there is only one curve, all axes are returned, because they
    name this curve.
    """
    several = [c for c in names if rows[c].nunique(dropna=False) > 1]
    in_title = {"engine": "{engine}", "object_size_bytes": "{sizes}", "clients": "{clients}"}
    one = [c for c in names if c not in several and in_title.get(c, "{}") not in spec.title]
    return (
        (several, ", ".join(filter(None, (value_label(c, rows[c].iloc[0]) for c in one)))) if several else (names, "")
    )


def layout_of(spec: Declared, table: pd.DataFrame) -> Layout | None:
    """Return the panels of a figure. The result is None without data, and for a `Function`.

    This can take as long as drawing. A caller that needs both the figure and the caption should use the result for
    both.
    """
    if not isinstance(spec, Specification):
        return None
    rows = rated(spec, spec.captioned_rows(table))
    rows = spec.prepare(rows) if len(rows) else rows
    return layout(spec, rows, _fixed_values(spec, table)) if len(rows) else None


def _fixed_values(figure: Declared, table: pd.DataFrame) -> list[str]:
    values = [labels.value_text(c, v) or f"{c.replace('_', ' ')} {v:g}" for c, v in figure.at(table).items()]
    return [f"only {', '.join(values)}"] if values else []


def left(figure: Declared, table: pd.DataFrame, shown: Layout | None = None) -> str:
    """Return a note about the data that the figure does not show, and the table that contains them.

    If the figure shows all data, the text is empty. shown: the panels of the figure, if they are known.
    """
    if isinstance(figure, Specification):
        shown = shown or layout_of(figure, table)
        return shown.left if shown else ""
    assert isinstance(figure, Function)
    every, parts = figure.count(table), _fixed_values(figure, table)
    parts += [f"{figure.most} of {every} {figure.counted_as}"] if every > figure.most else []
    return _with_table(figure, parts)


def _with_table(figure: Declared, parts: Sequence[str]) -> str:
    return f"{', '.join(parts)}, all are in {figure.table}.csv" if parts else ""


def fields(rows: pd.DataFrame) -> dict[str, str]:
    """Return the fields of templates of titles and captions: name of the field -> text.

    The fields are the object sizes, the engines, the smallest number of clients, and the deployment (empty if there are
    several).
    """
    sizes = sorted(rows["object_size_bytes"].dropna().unique()) if "object_size_bytes" in rows else []
    one = rows["deployment"].iloc[0] if "deployment" in rows and rows["deployment"].nunique() == 1 else ""
    return {
        "sizes": " and ".join(units.format_size(int(s)) for s in sizes),
        "engine": (groups.joined(rows["engine"]) or "") if "engine" in rows else "",
        "clients": labels.plural(rows["clients"].min(), "client")
        if "clients" in rows and rows["clients"].notna().any()
        else "",
        "deployment": f"{one}, " if one else "",
    }

"""Data types that describe a figure: its table, rows, axes and texts.

`draw.draw` makes the figure of a `Specification`. A `Function` is a figure that a specification cannot describe. It
loads matplotlib when it is called. Both are registered in `catalogue`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from storelab.analysis.records.selection import Where, select

if TYPE_CHECKING:  # matplotlib is slow to load, and names and captions do not need it
    from matplotlib.figure import Figure

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MIN_VALUES = 3  # minimum number of values on an axis, or of systems compared; a table shows fewer values better
Rows = Callable[[pd.DataFrame], pd.DataFrame]


def same(rows: pd.DataFrame) -> pd.DataFrame:
    """Return all rows unchanged."""
    return rows


def figure_name(stem: str, text: str) -> str:
    """Return `stem_text` as the name of a figure, which has only lower-case letters and `_`."""
    plain = "".join(f"_{DIGITS[int(c)]}_" if c.isdigit() else c if c.isalpha() else "_" for c in text.lower())
    return "_".join(filter(None, [stem, *plain.split("_")]))


@dataclass(frozen=True)
class Curve:
    """A metric of a table, with its line style, and its name if a panel has several curves.

    The table has the columns `<metric>_median_<unit>`, `<metric>_low_<unit>` and `<metric>_high_<unit>`.
    """

    metric: str
    unit: str
    name: str = ""
    dash: str = "-"

    def column(self, part: str = "median") -> str:
        return f"{self.metric}_{part}_{self.unit}"


@dataclass(frozen=True)
class Reference:
    """A reference line at a value of the metric, or through points (x, y).

    series: the series whose colour the line has; default: grey. marker: draw published values as hollow points without
    a line, with their spread and an entry in the legend.
    """

    at: float | pd.Series
    dash: str = "--"
    label: str = ""
    series: str | None = None
    marker: str = ""
    spread: pd.Series | None = None


@dataclass(frozen=True)
class Measure:
    """A kind of panel: its curves, the label of their axis, and settings that differ from the rest of the figure."""

    curves: tuple[Curve, ...]
    label: str
    what: str = ""  # used in titles of panels
    where: Where = field(default_factory=dict)
    log_from: float = 50  # the axis is logarithmic if the medians span more than this factor
    scale: str = "auto"
    x: str = ""  # column of the x axis; "": as in the figure
    x_label: str = ""
    hue: str = ""  # axis whose values are separate series, named inside the panel


@dataclass(frozen=True, kw_only=True)
class Declared:
    """The properties that all figures have.

    `where` and `rows` select the rows that the caption describes. For each column in `held`, the figure shows only one
    value: the given value if it was measured, otherwise the smallest. The caption states this value. Each column in
    `several` must have more than one value in the plan. `caption` is a template with the fields of `catalogue.caption`.
    """

    table: str
    caption: str
    where: Where = field(default_factory=dict)
    rows: Rows = same
    held: Mapping[str, Any] = field(default_factory=dict)
    several: tuple[str, ...] = ()
    further_tables: tuple[str, ...] = ()  # further tables that the figure needs
    published: Callable[[pd.DataFrame], str] | None = (
        None  # further text of the caption, for example about published values
    )

    def captioned_rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the table that the caption describes."""
        rows = self.rows(select(table, self.where))
        for column, value in self.at(table).items():
            rows = rows[rows[column].isna() | (rows[column] == value)]
        return rows

    def at(self, table: pd.DataFrame) -> dict[str, Any]:
        """Return the value that the figure shows, for each column in `held` that varies: column -> value."""
        rows = self.rows(select(table, self.where))
        varying = {c: usual for c, usual in self.held.items() if c in rows and rows[c].nunique() > 1}
        return {c: usual if (rows[c] == usual).any() else rows[c].min() for c, usual in varying.items()}


@dataclass(frozen=True, kw_only=True)
class Specification(Declared):
    """A figure that `draw.draw` makes."""

    measures: tuple[Measure, ...]
    title: str  # title of the legend: a template with the fields of `panels.fields`
    # Selects further rows and adds columns; a column `series` names the curves instead of the axes.
    prepare: Rows = same
    x: str = "clients"  # a column of text makes categories, which are drawn on the y axis
    x_label: str = ""  # label of the x axis; "": the name of the axis
    x_scale: str = "auto"  # scale of an axis of counts; axes of sizes and percentages are always logarithmic
    x_names: Mapping[int, str] = field(default_factory=dict)  # tick labels in place of numbers
    labels: int = 9  # maximum number of labelled ticks
    hue: tuple[str, ...] = ("engine",)  # the first axes that distinguish curves; all others that vary follow
    more: tuple[str, ...] = ()  # further columns that distinguish curves, if they vary
    by_curve: bool = False  # use a colour for each curve of a measure instead of the axes
    apart: tuple[str, ...] = ()  # axes that do not distinguish curves
    within: bool = False  # axes that vary only between panels do not distinguish curves
    falling: str = ""  # sort the series by falling values of this column
    panels: tuple[str, ...] = ("store",)
    # function that returns the title of a panel from its first row and all rows
    heading: Callable[[pd.Series, pd.DataFrame], str] | None = None
    columns: bool = False  # use a column of panels for each measure, instead of one panel after the other
    otherwise: "Specification | None" = None  # replaces this figure if x has too few values
    least: int = MIN_VALUES  # from this number of systems on, panels can have fewer values of x
    swept: bool = False  # require MIN_VALUES values of x in a panel, even if MIN_VALUES systems are compared
    hollow: Rows | None = None  # selects the open symbols; default: rates of few operations
    references: Callable[[pd.DataFrame, Measure], Iterable[Reference]] | None = None
    note: Callable[[pd.DataFrame], str] | None = None  # further text for the line below the panels
    height: float = 2.3  # height of a panel in inches
    line: float = 0.0  # additional inches for each category


@dataclass(frozen=True, kw_only=True)
class Function(Declared):
    """A figure that a specification cannot describe.

    function: takes the table and the `further_tables`, and returns the Figure, or None without data. The figure is made
    of items, such as panels or bars: `counted_as` names them, and `count` returns how many a table has. The figure
    requires at least `least` items and shows up to `most`.
    """

    function: Callable[..., "Figure | None"]
    count: Callable[[pd.DataFrame], int] = len
    least: int = 1
    most: float = float("inf")
    counted_as: str = "rows"

"""What a figure is: pure data that says which rows of which table are drawn, against what, and in which words.

`Specification`: `draw.draw` makes the figure. `Function`: a figure that no specification can say; it loads matplotlib
when it is called. Both are registered in `catalogue`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from storelab.analysis.records.selection import Where, select

if TYPE_CHECKING:  # slow to load, and names and captions need none of it
    from matplotlib.figure import Figure

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MIN_VALUES = 3  # values on an axis, or systems compared, that make a figure; a table shows fewer better
Rows = Callable[[pd.DataFrame], pd.DataFrame]


def same(rows: pd.DataFrame) -> pd.DataFrame:
    """All rows, as they are."""
    return rows


def spelt(stem: str, text: str) -> str:
    """`stem_text` in small letters and `_`, as figures' names are."""
    plain = "".join(f"_{DIGITS[int(c)]}_" if c.isdigit() else c if c.isalpha() else "_" for c in text.lower())
    return "_".join(filter(None, [stem, *plain.split("_")]))


@dataclass(frozen=True)
class Curve:
    """A metric of a table (columns `<metric>_median_<unit>`, `_low_`, `_high_`), its dash, and its name beside
    other curves."""

    metric: str
    unit: str
    name: str = ""
    dash: str = "-"

    def column(self, part: str = "median") -> str:
        return f"{self.metric}_{part}_{self.unit}"


@dataclass(frozen=True)
class Reference:
    """A line to compare with: at a value of the metric, or through points (x, y); in the colour of a series, or
    grey. marker: hollow points that nothing joins, with their spread, named in the legend: what others published."""

    at: float | pd.Series
    dash: str = "--"
    label: str = ""
    series: str | None = None
    marker: str = ""
    spread: pd.Series | None = None


@dataclass(frozen=True)
class Measure:
    """What one kind of panel shows: curves, the label of their axis, and what differs from the rest of the figure."""

    curves: tuple[Curve, ...]
    label: str
    what: str = ""  # in titles of panels
    where: Where = field(default_factory=dict)
    log_from: float = 50  # logarithmic where the medians span more than this factor
    scale: str = "auto"
    x: str = ""  # "": as the figure
    x_label: str = ""
    hue: str = ""  # series of its own, named inside the panel


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What every figure has. `where` and `rows` choose the rows that the caption tells of. Of a column of `held`, which
    this figure is not about, it shows one value (this one, if it was measured; else the least), and says so. Each
    column of `several` has more than one value in a plan that can have the figure. `caption`: template, its fields are
    those of `catalogue.caption`."""

    table: str
    caption: str
    where: Where = field(default_factory=dict)
    rows: Rows = same
    held: Mapping[str, Any] = field(default_factory=dict)
    several: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # further tables that it needs
    published: Callable[[pd.DataFrame], str] | None = None  # more of the caption, such as what others published

    def told(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of its table that the caption tells of."""
        rows = self.rows(select(table, self.where))
        for column, value in self.at(table).items():
            rows = rows[rows[column].isna() | (rows[column] == value)]
        return rows

    def at(self, table: pd.DataFrame) -> dict[str, Any]:
        """The value at which each column of `held` is shown, of those that vary."""
        rows = self.rows(select(table, self.where))
        varying = {c: usual for c, usual in self.held.items() if c in rows and rows[c].nunique() > 1}
        return {c: usual if (rows[c] == usual).any() else rows[c].min() for c, usual in varying.items()}


@dataclass(frozen=True, kw_only=True)
class Specification(Declared):
    """A figure that `draw.draw` makes."""

    measures: tuple[Measure, ...]
    title: str  # of the legend: a template, its fields are those of `draw.fields`
    # Further choice, and columns to draw by; a column `series` names the curves, if the axes shall not.
    prepare: Rows = same
    x: str = "clients"  # a column of text makes categories, which stand on the other axis
    x_label: str = ""  # "": the axis in words
    x_scale: str = "auto"  # of counts; sizes and percents are logarithmic
    x_names: Mapping[int, str] = field(default_factory=dict)  # what stands at a number, where it is not the number
    labels: int = 9  # most ticks with a label
    hue: tuple[str, ...] = ("engine",)  # the first axes that tell curves apart; all others that vary follow
    more: tuple[str, ...] = ()  # columns that do so too, where they vary
    by_curve: bool = False  # a colour for each curve of a measure instead
    apart: tuple[str, ...] = ()  # axes that tell no curves apart
    within: bool = False  # axes that vary between panels only tell no curves apart
    falling: str = ""  # series in falling order of this column
    panels: tuple[str, ...] = ("store",)
    heading: Callable[[pd.Series, pd.DataFrame], str] | None = None  # of a panel, from its first row and all rows
    columns: bool = False  # a column of panels for each measure, instead of one panel after the other
    otherwise: "Specification | None" = None  # in place of this figure where x has too few values
    least: int = MIN_VALUES  # systems from which a panel may have fewer values of x; 1: where the user declared it
    swept: bool = False  # only panels with MIN_VALUES values of x, even where MIN_VALUES systems are compared
    hollow: Rows | None = None  # which points are open; default: rates of few operations
    references: Callable[[pd.DataFrame, Measure], Iterable[Reference]] | None = None
    note: Callable[[pd.DataFrame], str] | None = None  # more in the small line
    height: float = 2.3  # inches of a panel
    line: float = 0.0  # inches more for each category


@dataclass(frozen=True, kw_only=True)
class Function(Declared):
    """A figure that no specification can say. function: its table, and those `beside` it, to the Figure, None without
    data. It needs `least` of `things` and shows up to `most`; count: how many of them a table has."""

    function: Callable[..., "Figure | None"]
    count: Callable[[pd.DataFrame], int] = len
    least: int = 1
    most: float = float("inf")
    things: str = "rows"

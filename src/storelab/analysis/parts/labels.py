"""Labels for figures, reports and LaTeX: axes, counts, numbers and intervals as text.

`core.axes` defines the words of each axis.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from storelab.analysis.statistics import medians
from storelab.core import units
from storelab.core.axes import BY_COLUMN, DEPLOYMENT_NAMES
from storelab.core.model import OF_ROLE, PREFIX


def counted(n: int, noun: str) -> str:
    """Return a count and its noun as in prose, with small numbers as words: `one client`, `13 clients`."""
    small = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    return f"{small[n] if n < len(small) else n} {noun}{'' if n == 1 else 's'}"


def plural(n: float, noun: str) -> str:
    """Return a count and its noun with the number in digits: `1 client` or `2 clients`."""
    return f"{int(n)} {noun}{'' if n == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Return the names as a list in prose: `a`, `a and b` or `a, b and c`. Without names, return an empty string."""
    return " and ".join([", ".join(names[:-1]), *names[-1:]] if len(names) > 1 else names)


OPERATIONS = {
    "put": "upload",
    "get": "download",
    "get_range": "download of a range",
    "delete": "deletion",
    "stat": "HEAD request",
    "list": "listing",
    "mix": "mixed operations",
    "publish": "publication",
    "replicate": "replication",
    "launch": "starts of applications",
    "collect_garbage": "garbage collection",
}


def split_role(column: str) -> tuple[str, str]:
    """Split `uploads.workers` into role and column. The role is empty for a column of the whole point."""
    role, _, name = column.rpartition(OF_ROLE)
    return role, name


def heading(column: str) -> str:
    """Return the heading of an axis column in a printed table, such as `Uploads: workers` for an axis of a role."""
    role, column = split_role(column)
    if role:
        text = heading(column)
        return f"{role.capitalize()}: {text[0].lower()}{text[1:]}"
    axis = BY_COLUMN.get(column)
    plain = column.removesuffix("_bytes").removesuffix("_percent").replace("_", " ").capitalize()
    return (axis.heading if axis else "") or plain


def value_text(column: str, value: Any) -> str:
    """Return an axis value in words, with its unit, such as `2 front-ends`.

    The text is empty for a null value, and for a value without words, such as the default of a deployment.
    """
    if value is None or pd.isna(value):
        return ""
    if column == "workload":
        return OPERATIONS.get(value, value.removeprefix(PREFIX).replace("_", " "))
    role, column = split_role(column)
    if role:
        text = value_text(column, value)
        return f"{role}: {text}" if text else ""
    axis, plain = BY_COLUMN.get(column), value if isinstance(value, str) else f"{value:g}"
    if axis is None or not axis.words:
        return f"{column.replace('_', ' ')} {plain}"
    if plain in axis.values:
        return axis.values[plain]
    if axis.noun:
        plain = plural(value, axis.noun)
    elif axis.kind == "size":
        plain = units.format_size(int(value))
    elif axis.kind == "int":
        plain = grouped(plain if "e" not in plain else f"{value:.0f}")
    return axis.words.format(plain)


def settings(values: Iterable[tuple[str, Any]]) -> str:
    """Return axis values in words, grouped by role: `killed; uploads: obstore, 2 clients`. values: (column, value)."""
    texts: dict[str, list[str]] = {}
    for column, value in values:
        role, axis = split_role(column)
        if text := value_text(axis, value):
            texts.setdefault(role, []).append(text)
    return "; ".join(f"{role}: {', '.join(found)}" if role else ", ".join(found) for role, found in texts.items())


def is_default(column: str, value: Any) -> bool:
    """Check whether an axis has its default value."""
    axis = BY_COLUMN.get(split_role(column)[1])
    return axis is not None and not pd.isna(value) and value == axis.default


def key_text(key: str) -> list[str]:
    """Split the key of a point into words: `alpha/get/clients~0002_rep~001` gives `alpha`, `get`, `clients 2`, `rep 1`.

    Names of axes can contain `_`, values cannot.
    """
    store, workload, axes = key.split("/")
    texts = [
        f"{name.replace(OF_ROLE, ': ').replace('_', ' ')} {int(value) if value.isdigit() else value}"
        for name, value in re.findall("([^~]+)~([^_]*)_?", axes)
    ]
    return [store, workload, *texts]


def deployment(row: Any) -> str:
    """Return a store and its deployment as text, such as `ceph, ec-2-1, https`.

    row: mapping with `store` and the axes of a deployment.
    """
    texts = [value_text(c, row[c]) for c in DEPLOYMENT_NAMES if c in row and not pd.isna(row[c])]
    return ", ".join([row["store"], *filter(None, texts)])


def cell(column: str, value: Any) -> str:
    """Return an axis value for a table cell. Numbers have no unit, except sizes."""
    if value is None or pd.isna(value):
        return ""
    if column.endswith("_bytes"):
        return units.format_size(int(value))
    return value if isinstance(value, str) else f"{value:g}"


def axes_of(table: pd.DataFrame) -> list[str]:
    """Return the axis columns of a table of groups, which are those between the columns `workload` and `n`."""
    return list(table.columns[2 : table.columns.get_loc("n")])


def span(values: Iterable[float], unit: str) -> str:
    """Return the smallest and the largest value as text: `4 s` or `2 s to 10 s`. Without values, it is empty."""
    known = sorted({float(v) for v in values if not pd.isna(v)})
    ends = [f"{v:g} {unit}".strip() for v in dict.fromkeys((known[0], known[-1]))] if known else []
    return " to ".join(ends)


def runs_text(n: Iterable[int]) -> str:
    """Return the smallest and the largest number of runs as text: `3 runs` or `2 to 3 runs`."""
    counts = sorted({int(i) for i in n})
    return plural(counts[0], "run") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs"


def bars_text(rows: pd.DataFrame) -> str:
    """Return what the error bars of a figure show: `n = 3 runs; bars: range (minimum to maximum)`.

    Single runs have no bars.
    """
    kinds, several = {medians.RANGE: "range (minimum to maximum)"}, rows[rows["n"] > 1]
    shown = " or ".join(kinds.get(k, k) for k in sorted(several["interval"].unique(), reverse=True))
    return f"n = {runs_text(rows['n'])}{f'; bars: {shown}' if shown else ''}"


def cpu_shares(rows: pd.DataFrame) -> str:
    """Return the CPU shares of these rows as text: `; CPU: clients 40-60 %, server 30-45 % of the host`.

    The text is empty if no share is known.
    """
    parts = []
    for who, noun in (("client", "clients"), ("server", "server")):
        column = f"{who}_cpu_percent"
        known = rows[column].dropna().astype(float) if column in rows else []
        if len(known):
            ends = dict.fromkeys(f"{v:.0f}" for v in (known.min(), known.max()))
            parts.append(f"{noun} {'-'.join(ends)} %")
    return f"; CPU: {', '.join(parts)} of the host" if parts else ""


def bound_text(rows: pd.DataFrame) -> str:
    """Return the legend of a figure's open symbols: `bound by the client`, `the link`, or both.

    rows: with the column `bound_by`.
    """
    return f"bound by the {' or the '.join(sorted(rows['bound_by'].dropna().unique()))}"


def interval_text(n: Iterable[int]) -> str:
    """Describe the intervals of groups with these numbers of runs, with their true coverage of the median.

    The text is empty if no group has two runs, because one run has no interval.
    """
    counts, parts = sorted({int(i) for i in n if i > 1}), []
    few = [i for i in counts if i < medians.MIN_RUNS]
    for what, chosen in (
        ("the range (minimum to maximum)", few),
        ("a 95 % interval by interpolated order statistics", [i for i in counts if i not in few]),
    ):
        if chosen:
            cover = span([float(f"{100 * medians.coverage(i):.3g}") for i in chosen], "%")
            parts.append(f"{what} of {runs_text(chosen)}, which covers the true median with a probability of {cover}")
    return "; ".join(parts)


def grouped(text: str, gap: str = " ") -> str:
    """Return a decimal number with a gap between its thousands: `12 345.6`. Numbers of four digits have no gap."""
    whole, point, tail = text.partition(".")
    if len(whole.lstrip("-")) > 4:
        whole = f"{int(whole):,}".replace(",", gap)
    return whole + point + tail


def decimals(value: float, significant: int = 3) -> int:
    """Return the number of decimals that show `significant` digits of the value.

    It is negative if digits before the decimal point are rounded.
    """
    if not value or not math.isfinite(value):
        return 0
    return significant - 1 - int(f"{value:.{significant - 1}e}".partition("e")[2])  # exponent after rounding


def number(value: float, significant: int = 3, places: int | None = None, gap: str = " ") -> str:
    """Return a number as text, with its thousands separated, or `--` for a null value.

    Whole numbers are exact. Others are rounded to `significant` digits. If `places` is given, all numbers have this
    number of decimals.
    """
    if value is None or pd.isna(value):
        return "--"
    if places is None:
        places = 0 if float(value).is_integer() else decimals(value, significant)
    return grouped(f"{round(float(value), places):z.{max(places, 0)}f}", gap)  # z: no minus sign before a 0


def spread(values: Sequence[float], gap: str = " ") -> str:
    """Return (median, low, high) as the text `median [low, high]`, or `--` without a median.

    The median has 3 significant digits, or up to 5 if the interval is narrow. The number of digits of low and high
    depends on the width of the interval. Without an interval, or with one of width 0, there are no brackets.
    """
    median, low, high = (float(v) if not pd.isna(v) else math.nan for v in values)
    if math.isnan(median):
        return "--"
    if not high > low:
        return number(median, gap=gap)
    places = decimals(median)
    width = decimals(high - low, 1)
    places = max(places, min(width, decimals(median, 5)))
    ends = (number(v, places=min(places, max(decimals(v), width)), gap=gap) for v in (low, high))
    return f"{number(median, places=places, gap=gap)} [{', '.join(ends)}]"

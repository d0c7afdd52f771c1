"""Campaigns for notebooks: verified records, tables with filters, and the output of views.

IPython is loaded when something is displayed.
"""

import html
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from storelab.analysis.explore import operations
from storelab.analysis.figures.specification import Declared
from storelab.analysis.figures.write import render
from storelab.analysis.parts import derived, labels
from storelab.analysis.records.campaign import Campaign, load
from storelab.analysis.report import charts, page
from storelab.analysis.tables import build as tables
from storelab.core import calibration, integrity
from storelab.core.errors import UserError

NAMED = "STORELAB_CAMPAIGN_DIR"  # environment variable with the folder of the campaign; it replaces the menus
USUAL = "reference"
FILTERS = ("store", "workload", "engine", "object_size_bytes")  # columns that can have a filter
Filters = Mapping[str, Sequence[Any]]
Menu = list[tuple[str, Any]]  # entries of a menu: text and value
Chosen = tuple[dict[str, Menu], dict[str, Any]]


def results() -> Path:
    """Return the folder `results` in the current folder, or in the nearest parent folder that has one."""
    here = Path.cwd()
    return next((p / "results" for p in (here, *here.parents) if (p / "results").is_dir()), here / "results")


def named() -> list[Path]:
    """Return the folders of all measured campaigns, sorted by name."""
    return sorted(p.parents[1] for p in results().glob("*/raw/plan.json"))


def place(campaign: str | Path | None = None) -> Path:
    """Return the folder of a campaign. Raises UserError if the campaign does not exist.

    campaign: a name or a folder; default: the campaign in the environment, else `reference`, else the first measured
    campaign.
    """
    wanted = campaign or os.environ.get(NAMED)
    if wanted is None:
        known = named()
        if not known:
            raise UserError(str(results()), "contains no measured campaign", "measure one with `storelab run demo`")
        return next((p for p in known if p.name == USUAL), known[0])
    for folder in (Path(wanted), results() / wanted):
        if (folder / "raw" / integrity.PLAN).exists():
            return folder
    fix = "name a measured campaign, such as results/reference"
    raise UserError(str(wanted), "is not a measured campaign (no raw/plan.json)", fix)


@dataclass(frozen=True)
class Opened:
    """A campaign with filters: column -> accepted values. A column without a filter accepts all values."""

    campaign: Campaign
    filters: Filters = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)  # cache of the views
    _read: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    @property
    def folder(self) -> Path:
        return self.campaign.folder

    @property
    def plan(self) -> dict[str, Any]:
        return self.campaign.plan

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    def full_table(self, name: str) -> pd.DataFrame:
        """Return a whole table, without applying the filters."""
        if name not in self._read:
            self._read[name] = tables.read(self.folder, name)
        return self._read[name]

    def table(self, name: str) -> pd.DataFrame:
        """Return the rows of a table that match the filters.

        Rows without an engine or a size are included. A row with the key of a point is included if the point matches.
        """
        rows = self.full_table(name)
        if self.filters and "key" in rows and name != "points":
            rows = rows[rows["key"].isin(self.table("points")["key"])]
        return kept(rows, self.filters)

    def operations(self, keys: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the raw operations of points (`explore.operations.operations`).

        keys: keys of the points; default: all points that match the filters, without the calibration.
        """
        wanted = systems(self.table("points"))["key"] if keys is None else keys
        return operations.operations(self.campaign, wanted)


def systems(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without those of the calibration, which measures no system."""
    return rows[rows["workload"] != calibration.WORKLOAD]


def kept(rows: pd.DataFrame, filters: Filters) -> pd.DataFrame:
    """Return the rows that have an accepted value, or a null value, in each filtered column."""
    for column, values in filters.items():
        if values and column in rows:
            rows = rows[rows[column].isin(list(values)) | rows[column].isna()]
    return rows


def choices(plan: Mapping[str, Any]) -> dict[str, Menu]:
    """Return the possible filters of a campaign: column -> menu of the values of its planned points."""
    columns = {w: {a["name"]: a["column"] for a in declared["axes"]} for w, declared in plan["workloads"].items()}
    found: dict[str, set[Any]] = {column: set() for column in FILTERS}
    for point in plan["points"]:
        row = {columns[point["workload"]][name]: value for name, value in point["axes"].items()} | point
        for column in FILTERS:
            if row.get(column) is not None:
                found[column].add(row[column])
    return {c: [(labels.cell(c, v), v) for v in sorted(values)] for c, values in found.items() if values}


def filtered(campaign: Campaign, filters: Filters | None) -> Opened:
    """Return the opened campaign with these filters.

    Raises UserError if the campaign does not have a filter, or if no point has one of its values.
    """
    known = choices(campaign.plan)
    for column, values in (filters or {}).items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise UserError(f"filters: {column}", f"is {values!r}, not a list", f"write [{values!r}]")
        if column not in known:
            raise UserError(f"filters: {column}", "is not a filter of this campaign", f"use one of: {', '.join(known)}")
        had = [value for _, value in known[column]]
        if strange := [v for v in values if v not in had]:
            listed = ", ".join(map(str, had))
            raise UserError(f"filters: {column}", f"no point has {strange[0]!r}", f"use one of: {listed}")
    return Opened(campaign, {c: tuple(v) for c, v in (filters or {}).items()})


def open_campaign(folder: Path, filters: Filters | None = None) -> Opened:
    """Verify the records of a campaign, and return the opened campaign.

    The tables are written again if one is missing or damaged, or if they were made from other records or by another
    version. Raises UserError if the records were altered or are missing.
    """
    campaign = load(folder)
    there = all((folder / "tables" / f"{name}.csv").exists() for name in tables.NAMES)
    if not there or derived.damaged_tables(folder, tables.NAMES):
        tables.build(folder)
    return filtered(campaign, filters)


def resolved(now: Opened, options: Mapping[str, Any], wanted: Mapping[str, Any] | None = None) -> Chosen:
    """Return the menus of the options that are functions, and the chosen values of all options.

    A function is called with the opened campaign and the previous options, and returns a menu. The chosen value is the
    one in `wanted` if the menu has it, else the first value of the menu, or None if the menu is empty.
    """
    menus: dict[str, Menu] = {}
    chosen: dict[str, Any] = {}
    for name, option in options.items():
        if not callable(option):
            chosen[name] = option
            continue
        menus[name] = option(now, **chosen)
        values = [value for _, value in menus[name]]
        requested = (wanted or {}).get(name)
        chosen[name] = requested if requested in values else values[0] if values else None
    return menus, chosen


# --- output of views ---

DPI, PIXELS = 200, 125  # resolution of a picture, and pixels of the screen per inch of the picture
MAX_ROWS, MAX_LETTERS = 500, 200  # maximum numbers of rows of a displayed table, and of letters of a cell
SHORT = 40  # maximum number of rows of a table that is displayed without a scroll bar


@dataclass(frozen=True)
class Charts:
    """The interactive figures of one output: name -> chart (`report.charts`)."""

    figures: Mapping[str, Any]


Displayable = str | pd.DataFrame | Figure | Charts  # Markdown, a table, a picture, interactive figures


def escaped(text: str) -> str:
    """Return Markdown that shows a text literally. It is used for texts of records, which are not trusted."""
    for sign in "\\`*_[]#|$~":
        text = text.replace(sign, f"\\{sign}")
    return html.escape(text, quote=False)


def charted(figures: Mapping[str, tuple[Declared, list[pd.DataFrame]]]) -> Charts | None:
    """Return the interactive form of figures, or None if no figure has data. figures: name -> (figure, its tables)."""
    found = {name: charts.drawn_chart(figure, *tables) for name, (figure, tables) in figures.items()}
    known = {name: chart for name, chart in found.items() if chart is not None}
    return Charts(known) if known else None


def compact(rows: pd.DataFrame, columns: Iterable[str], same: Collection[str]) -> Iterator[Displayable]:
    """Show a table with those of the given columns that have values.

    To make the table narrow, columns of `same` with only one value are shown as a line above it.
    """
    rows = rows[[c for c in columns if c in rows]].dropna(axis="columns", how="all")
    constant = [c for c in rows if c in same and len(rows) > 1 and rows[c].nunique(dropna=False) == 1]
    if constant:
        first = rows.iloc[0]
        yield escaped(f"In all rows: {', '.join(f'{c} {labels.cell(c, first[c])}' for c in constant)}")
    yield rows.drop(columns=constant)


def displayable(item: Displayable) -> Any:
    """Return the object that IPython displays for an output of a view."""
    from IPython.display import HTML, Image, Markdown

    if isinstance(item, str):
        return Markdown(item)
    if isinstance(item, pd.DataFrame):
        return HTML(table_html(item))
    if isinstance(item, Charts):
        return HTML(page.frame(item.figures, page.packed_libraries()))
    return Image(render(item, "png", DPI), format="png", width=round(PIXELS * item.get_figwidth()))


def table_html(table: pd.DataFrame) -> str:
    """Return a table as HTML in a box that scrolls.

    At most MAX_ROWS rows are included, followed by the number of the other rows. Numbers have four digits, text is
    left-aligned, and long headings are broken after `_`.
    """
    more = len(table) - MAX_ROWS
    text = [i for i, column in enumerate(table, start=1) if not pd.api.types.is_numeric_dtype(table[column])]
    name = "-".join(["storelab-text", *map(str, text)])
    cells = ", ".join(f".{name} {kind}:nth-child({i})" for i in text for kind in ("td", "th"))
    style = f".{name} {{font-size: 11px !important}} .{name} th, .{name} td {{padding: 3px 5px !important}}"
    style += f" .{name} th {{position: sticky; top: 0; background: Canvas; vertical-align: bottom}}"
    style += f" {cells} {{text-align: left !important}}" if text else ""
    box = "overflow: auto; margin-bottom: 1em" + ("; max-height: 44em" if len(table) > SHORT else "")
    with pd.option_context("display.max_colwidth", MAX_LETTERS):
        body = table.head(MAX_ROWS).to_html(
            index=False, na_rep="", border=0, classes=name, float_format=lambda v: labels.number(v, 4, gap="\u202f")
        )
    body = re.sub(r"<th>[^<]*</th>", lambda heading: heading[0].replace("_", "_<wbr>"), body)
    left = f"<p>… {labels.plural(more, 'more row')}</p>" if more > 0 else ""
    return f'<style>{style}</style><div style="{box}">{body}</div>{left}'

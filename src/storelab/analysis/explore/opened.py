"""A campaign that a notebook has opened: verified records, tables through filters, and the output of views.

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

NAMED = "STORELAB_CAMPAIGN_DIR"  # in the environment: the folder of the campaign, without menus
USUAL = "reference"
FILTERS = ("store", "workload", "engine", "object_size_bytes")  # columns that may be filtered
Filters = Mapping[str, Sequence[Any]]
Menu = list[tuple[str, Any]]  # what can be chosen: in words, and its value
Chosen = tuple[dict[str, Menu], dict[str, Any]]


def results() -> Path:
    """Return the folder of campaigns: `results` of this folder, or of the nearest one above it that has one."""
    here = Path.cwd()
    return next((p / "results" for p in (here, *here.parents) if (p / "results").is_dir()), here / "results")


def named() -> list[Path]:
    """Return the folders of all measured campaigns, sorted by name."""
    return sorted(p.parents[1] for p in results().glob("*/raw/plan.json"))


def place(campaign: str | Path | None = None) -> Path:
    """Return the folder of a campaign.

    campaign: a name or a folder; default: the campaign in the environment, else `reference`, else the first one that
    exists. Raises UserError: there is no such campaign.
    """
    wanted = campaign or os.environ.get(NAMED)
    if wanted is None:
        known = named()
        if not known:
            raise UserError(str(results()), "contains no measured campaign", "measure one: `storelab run demo`")
        return next((p for p in known if p.name == USUAL), known[0])
    for folder in (Path(wanted), results() / wanted):
        if (folder / "raw" / integrity.PLAN).exists():
            return folder
    raise UserError(str(wanted), "is not a measured campaign (no raw/plan.json)", "name one like results/reference")


@dataclass(frozen=True)
class Opened:
    """A campaign with filters: column -> accepted values; a column without a filter accepts all."""

    campaign: Campaign
    filters: Filters = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)  # found once, by views
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
        """Return a table as it was written, without the filters."""
        if name not in self._read:
            self._read[name] = tables.read(self.folder, name)
        return self._read[name]

    def table(self, name: str) -> pd.DataFrame:
        """Return the rows of a table that match the filters.

        Rows without an engine or a size are kept. A row with the key of a point is kept if its point is.
        """
        rows = self.full_table(name)
        if self.filters and "key" in rows and name != "points":
            rows = rows[rows["key"].isin(self.table("points")["key"])]
        return kept(rows, self.filters)

    def operations(self, keys: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the raw operations as `explore.operations.operations` gives them.

        keys: points; default: all that the filters leave, without the calibration.
        """
        wanted = systems(self.table("points"))["key"] if keys is None else keys
        return operations.operations(self.campaign, wanted)


def systems(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of measured systems, without those of the calibration."""
    return rows[rows["workload"] != calibration.WORKLOAD]


def kept(rows: pd.DataFrame, filters: Filters) -> pd.DataFrame:
    """Return the rows with an accepted value, or no value, in each filtered column."""
    for column, values in filters.items():
        if values and column in rows:
            rows = rows[rows[column].isin(list(values)) | rows[column].isna()]
    return rows


def choices(plan: Mapping[str, Any]) -> dict[str, Menu]:
    """Return the possible filters of this campaign: column -> the values of the planned points, as text."""
    columns = {w: {a["name"]: a["column"] for a in declared["axes"]} for w, declared in plan["workloads"].items()}
    found: dict[str, set[Any]] = {column: set() for column in FILTERS}
    for point in plan["points"]:
        row = {columns[point["workload"]][name]: value for name, value in point["axes"].items()} | point
        for column in FILTERS:
            if row.get(column) is not None:
                found[column].add(row[column])
    return {c: [(labels.cell(c, v), v) for v in sorted(values)] for c, values in found.items() if values}


def filtered(campaign: Campaign, filters: Filters | None) -> Opened:
    """Return the campaign with these filters.

    Raises UserError: the campaign has no such filter, or no point has such a value.
    """
    known = choices(campaign.plan)
    for column, values in (filters or {}).items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise UserError(f"filters: {column}", f"is {values!r}", f"a list, such as [{values!r}]")
        if column not in known:
            raise UserError(f"filters: {column}", "is not a filter of this campaign", f"one of: {', '.join(known)}")
        had = [value for _, value in known[column]]
        if strange := [v for v in values if v not in had]:
            listed = ", ".join(map(str, had))
            raise UserError(f"filters: {column}", f"no point has {strange[0]!r}", f"one of: {listed}")
    return Opened(campaign, {c: tuple(v) for c, v in (filters or {}).items()})


def open_campaign(folder: Path, filters: Filters | None = None) -> Opened:
    """Verify the records of a campaign, and open it.

    The tables are written again if one is missing or damaged, or if they were made from other records or by another
    version. Raises UserError.
    """
    campaign = load(folder)
    there = all((folder / "tables" / f"{name}.csv").exists() for name in tables.NAMES)
    if not there or derived.damaged_tables(folder, tables.NAMES):
        tables.build(folder)
    return filtered(campaign, filters)


def resolved(now: Opened, options: Mapping[str, Any], wanted: Mapping[str, Any] | None = None) -> Chosen:
    """Return the menu of each option that is a function, and the chosen value of every option.

    Such a function gets the opened campaign and the options before it, and returns a menu. The chosen value is the
    wanted one if the menu has it, else the first one of the menu, or None if the menu is empty.
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


# --- what views yield ---

DPI, PIXELS = 200, 125  # of a picture: dots that it has in an inch, and points of the screen that show them
MAX_ROWS, MAX_LETTERS = 500, 200  # of a table on the screen: rows, letters of a cell
SHORT = 40  # rows of a table that is shown in full; a longer or wider one is scrolled, not cut


@dataclass(frozen=True)
class Charts:
    """The interactive figures of one output: name -> figure, as `report.charts` describes it for the page."""

    figures: Mapping[str, Any]


Displayable = str | pd.DataFrame | Figure | Charts  # Markdown, a table, a picture, interactive figures


def escaped(text: str) -> str:
    """Return Markdown that shows this text literally: names and reasons in records are untrusted."""
    for sign in "\\`*_[]#|$~":
        text = text.replace(sign, f"\\{sign}")
    return html.escape(text, quote=False)


def charted(figures: Mapping[str, tuple[Declared, list[pd.DataFrame]]]) -> Charts | None:
    """Return the interactive form of figures, each with its tables; None if no figure has data."""
    found = {name: charts.drawn_chart(figure, *tables) for name, (figure, tables) in figures.items()}
    known = {name: chart for name, chart in found.items() if chart is not None}
    return Charts(known) if known else None


def compact(rows: pd.DataFrame, columns: Iterable[str], same: Collection[str]) -> Iterator[Displayable]:
    """Show those of the given columns that have a value.

    Columns of `same` with only one value are printed as a line above, to keep the table narrow.
    """
    rows = rows[[c for c in columns if c in rows]].dropna(axis="columns", how="all")
    constant = [c for c in rows if c in same and len(rows) > 1 and rows[c].nunique(dropna=False) == 1]
    if constant:
        first = rows.iloc[0]
        yield escaped(f"In all rows: {', '.join(f'{c} {labels.cell(c, first[c])}' for c in constant)}")
    yield rows.drop(columns=constant)


def displayable(item: Displayable) -> Any:
    """Return what IPython displays."""
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

    It has at most MAX_ROWS rows and states how many are left out. Numbers have four digits, text is left-aligned, and
    long headings are broken after `_`.
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

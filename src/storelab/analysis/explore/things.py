"""What views yield, and how IPython displays it. IPython is loaded when something is displayed."""

import html
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from storelab.analysis.figures.specification import Declared
from storelab.analysis.figures.write import render
from storelab.analysis.parts import words
from storelab.analysis.report import charts, library, page

DPI, PIXELS = 200, 125  # of a picture: dots that it has in an inch, and points of the screen that show them
MAX_ROWS, MAX_LETTERS = 500, 200  # of a table on the screen: rows, letters of a cell
SHORT = 40  # rows of a table that is shown in full; a longer or wider one is scrolled, not cut


@dataclass(frozen=True)
class Charts:
    """Interactive figures of one output: name -> the figure, as `report.charts` describes it for the page."""

    figures: Mapping[str, Any]


Thing = str | pd.DataFrame | Figure | Charts  # Markdown, a table, a picture, interactive figures


def escaped(text: str) -> str:
    """Return Markdown that shows this text literally: names and reasons in records are untrusted."""
    for sign in "\\`*_[]#|$~":
        text = text.replace(sign, f"\\{sign}")
    return html.escape(text, quote=False)


def charted(figures: Mapping[str, tuple[Declared, list[pd.DataFrame]]]) -> Charts | None:
    """Return the interactive form of figures, each with its tables; None where no figure has data."""
    found = {name: charts.drawn_chart(figure, *tables) for name, (figure, tables) in figures.items()}
    known = {name: chart for name, chart in found.items() if chart is not None}
    return Charts(known) if known else None


def compact(rows: pd.DataFrame, columns: Iterable[str], same: Collection[str]) -> Iterator[Thing]:
    """Show these columns of a table that have a value. Columns of `same` with one value become a line, so that the
    table is narrow."""
    rows = rows[[c for c in columns if c in rows]].dropna(axis="columns", how="all")
    alike = [c for c in rows if c in same and len(rows) > 1 and rows[c].nunique(dropna=False) == 1]
    if alike:
        first = rows.iloc[0]
        yield escaped(f"In all rows: {', '.join(f'{c} {words.cell(c, first[c])}' for c in alike)}")
    yield rows.drop(columns=alike)


def displayable(thing: Thing) -> Any:
    """Return what IPython displays."""
    from IPython.display import HTML, Image, Markdown

    if isinstance(thing, str):
        return Markdown(thing)
    if isinstance(thing, pd.DataFrame):
        return HTML(table_html(thing))
    if isinstance(thing, Charts):
        return HTML(page.frame(thing.figures, library.packed()))
    return Image(render(thing, "png", DPI), format="png", width=round(PIXELS * thing.get_figwidth()))


def table_html(table: pd.DataFrame) -> str:
    """Return a table in a box that scrolls: at most MAX_ROWS rows, and how many more there are; four digits of each
    number, text at the left; long headings are broken after `_`."""
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
            index=False, na_rep="", border=0, classes=name, float_format=lambda v: words.number(v, 4, gap="\u202f")
        )
    body = re.sub(r"<th>[^<]*</th>", lambda heading: heading[0].replace("_", "_<wbr>"), body)
    left = f"<p>… {words.plural(more, 'more row')}</p>" if more > 0 else ""
    return f'<style>{style}</style><div style="{box}">{body}</div>{left}'

"""What views give, and how IPython displays it. IPython is loaded when something is displayed."""

import html
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from storelab.analysis.figures.write import render
from storelab.analysis.parts import words

Thing = str | pd.DataFrame | Figure  # Markdown, a table, a picture
DPI, PIXELS = 200, 125  # of a picture: dots that it has in an inch, and points of the screen that show them
MOST_ROWS, WIDEST = 60, 90  # of a table on the screen: rows, letters of a cell


def escaped(text: str) -> str:
    """Text as Markdown that shows it as it stands: names and reasons in records are untrusted."""
    for sign in "\\`*_[]#|$~":
        text = text.replace(sign, f"\\{sign}")
    return html.escape(text, quote=False)


def displayable(thing: Thing) -> Any:
    """As IPython displays it."""
    from IPython.display import HTML, Image, Markdown

    if isinstance(thing, str):
        return Markdown(thing)
    if isinstance(thing, pd.DataFrame):
        return HTML(table_html(thing))
    return Image(render(thing, "png", DPI), format="png", width=round(PIXELS * thing.get_figwidth()))


def table_html(table: pd.DataFrame) -> str:
    """At most MOST_ROWS rows, and how many more there are; four digits of each number, text at the left."""
    more = len(table) - MOST_ROWS
    text = [i for i, column in enumerate(table, start=1) if not pd.api.types.is_numeric_dtype(table[column])]
    name = "-".join(["storelab-text", *map(str, text)])
    cells = ", ".join(f".{name} {kind}:nth-child({i})" for i in text for kind in ("td", "th"))
    style = f"<style>{cells} {{text-align: left !important}}</style>" if text else ""
    with pd.option_context("display.max_colwidth", WIDEST):
        body = table.head(MOST_ROWS).to_html(
            index=False, na_rep="", border=0, classes=name, float_format=lambda v: words.number(v, 4, gap="\u202f")
        )
    return style + body + (f"<p>… {words.plural(more, 'more row')}</p>" if more > 0 else "")

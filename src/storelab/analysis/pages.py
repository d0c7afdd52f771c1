"""A page of headings, tables and lines, as text and as one HTML file. Imports nothing of storelab."""

import html
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

WIDE = 100  # letters of a line of text
STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:56em;margin:2em auto;padding:0 1em;"
    "color:light-dark(#222,#ddd);background:light-dark(#fff,#16181b)}"
    "h1{font-size:1.5em;margin-bottom:.1em;overflow-wrap:anywhere}"
    "h2{font-size:1.1em;margin:1.4em 0 .3em}p{margin:.3em 0}"
    ".wide{overflow-x:auto}table{border-collapse:collapse}"
    "th,td{padding:.15em 1em .15em 0;text-align:right;font-weight:normal;white-space:nowrap}"
    "th{border-bottom:1px solid #888}th:first-child,td:first-child{text-align:left;white-space:normal;min-width:7em}"
    "figure{margin:1em 0;background:#fff;border-radius:4px}svg{width:100%;min-width:38em;height:auto}"
)


@dataclass
class Section:
    """A heading, a table (its first column is words, the others are numbers), lines below it; in HTML a drawing (SVG),
    with what it shows in words."""

    title: str
    head: Sequence[str] = ()
    rows: list[list[str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    drawing: str = ""
    shows: str = ""

    def text(self) -> list[str]:
        wide = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)] if self.rows else []
        out = [self.title, "-" * len(self.title)]
        for row in [self.head, *self.rows] if self.rows else []:
            cells = [row[0].ljust(wide[0]), *(c.rjust(w) for c, w in zip(row[1:], wide[1:], strict=True))]
            out.append("   ".join(cells).rstrip())
        for line in self.lines:
            hang = " " * (len(line) - len(line.lstrip()))
            out += textwrap.wrap(line, WIDE, subsequent_indent=hang + "  ") or [""]
        return [*out, ""]

    def html(self) -> list[str]:
        def row(cells: Iterable[str], kind: str) -> str:
            return "<tr>" + "".join(f"<{kind}>{html.escape(c)}</{kind}>" for c in cells) + "</tr>"

        out = [f"<h2>{html.escape(self.title)}</h2>"]
        if self.rows:
            out += [f'<div class="wide" tabindex="0" role="region" aria-label="{html.escape(self.title)}"><table>']
            out += [row(self.head, "th"), *(row(r, "td") for r in self.rows), "</table></div>"]
        for line in self.lines:
            inset = len(line) - len(line.lstrip())
            out.append(f'<p style="margin-left:{inset / 2:g}em">{html.escape(line.strip())}</p>')
        if self.drawing:
            out.append(
                f'<figure class="wide" role="img" aria-label="{html.escape(self.shows)}">{self.drawing}</figure>'
            )
        return out


@dataclass
class Page:
    title: str
    under: str
    sections: list[Section]

    def text(self) -> str:
        lines = [self.title, "=" * len(self.title), *textwrap.wrap(self.under, WIDE), ""]
        for section in self.sections:
            lines += section.text()
        return "\n".join(lines).rstrip() + "\n"

    def html(self) -> str:
        title = html.escape(self.title)
        lines = ["<!doctype html>", '<html lang="en"><head><meta charset="utf-8">']
        lines += ['<meta name="viewport" content="width=device-width, initial-scale=1">', f"<title>{title}</title>"]
        lines += [f"<style>{STYLE}</style></head><body>", f"<h1>{title}</h1>", f"<p>{html.escape(self.under)}</p>"]
        for section in self.sections:
            lines += section.html()
        return "\n".join([*lines, "</body></html>"]) + "\n"

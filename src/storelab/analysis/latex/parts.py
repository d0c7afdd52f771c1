"""Pieces of LaTeX tables: escaping, rows, tabulars that may run over pages, medians with their spread.

May import: `words`.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import words

SHORT = 24  # rows of a table that fits a page with other things on it
ONE_PIECE = 8  # rows of a table that is never broken
PAGE = 42  # rows of a table that fits a page with its caption
CAPTION = r"\TableCaption"  # defined in the template before it reads the table
LINE_END = r"\\{}"  # the braces keep a following [ from being its argument
THIN = r"\,"
Row = str | Sequence[str]
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **dict.fromkeys("‘‛", "`"),
    "’": "'",
    **dict.fromkeys("“‟", "``"),
    "”": "''",
    "‚": r"\quotesinglbase{}",
    "„": r"\quotedblbase{}",
    "‹": r"\guilsinglleft{}",
    "›": r"\guilsinglright{}",
    **dict.fromkeys("‐‑−", "-"),
    **dict.fromkeys("‒–", r"\textendash{}"),
    **dict.fromkeys("—―", r"\textemdash{}"),
    "…": r"\dots{}",
    "•": r"\textbullet{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
    "→": r"$\rightarrow$",
    "€": r"\texteuro{}",
    **dict.fromkeys("µμ", r"\textmu{}"),
} | {c: f"\\{c}" for c in "&%$#_"}
# Letters that LaTeX has in the encoding T1: of Latin Extended-A not all, of the blocks above those of Romanian.
_LETTERS = {*map(chr, range(0x20, 0x180)), *"ȘșȚț"} - {*"ĦħĸĿŀŉŦŧſ"}
lost: set[str] = set()  # characters that `escape` replaced by `?`


def escape(text: Any) -> str:
    """Return plain text as LaTeX. Line ends become spaces. A character that the fonts lack becomes its base letter, or
    `?` where it has none; `lost` has the latter."""
    out = "".join(map(_character, str(text)))
    out = re.sub(r"--(?=\w)", "-{}-", out)  # an option of a command, not a dash
    out = re.sub(r"(?<=\d) (?=\d{3}\b)", THIN.replace("\\", "\\\\"), out)
    return re.sub(r"(?<=\d) (?=\\%|[kMGT]i?B\b|s\b|ms\b|MB/s)", "~", out)


def _character(c: str) -> str:
    if c in _SPECIAL:
        return _SPECIAL[c]
    if c.isspace():
        return " "
    if c in _LETTERS and c.isprintable():
        return c
    base = "".join(b for b in unicodedata.normalize("NFKD", c) if not unicodedata.combining(b))
    if base and base != c:
        return "".join(map(_character, base))
    if unicodedata.category(c) not in ("Mn", "Cf"):  # accents of a base letter, and marks without a width
        lost.add(c)
        return "?"
    return ""


def lost_names() -> list[str]:
    """Return what `escape` replaced by `?`, with its names in Unicode."""
    return [f"U+{ord(c):04X} {unicodedata.name(c, 'without a name')}" for c in sorted(lost)]


def breakable(text: str) -> str:
    """Escaped text that may break after the marks of versions, paths and names."""
    for mark in ("\\_", "/", ".", "-", ","):
        text = text.replace(mark, f"{mark}\\allowbreak{{}}")
    return text


def row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def title(columns: int, text: str, style: str = "emph") -> str:
    """Return a line of text across the table, on the page of the line below it."""
    return rf"\multicolumn{{{columns}}}{{@{{}}l@{{}}}}{{\{style}{{{text}}}}} \\*"


def below(columns: int, rows: Iterable[tuple[str, Row]]) -> list[Row]:
    """Rows, each with the LaTeX of what it has in common with its neighbours: that stands once above them, as a
    `title`."""
    return [
        line
        for said, own in groupby(rows, key=itemgetter(0))
        for line in (title(columns, said), *(text for _, text in own))
    ]


def left(*widths_cm: float) -> str:
    """Columns of text that breaks, in the specification of a tabular."""
    return "".join(rf">{{\raggedright\arraybackslash}}p{{{width}cm}}" for width in widths_cm)


def upright(names: Sequence[str]) -> list[str]:
    """Headings turned upright: many systems stand side by side."""
    return [rf"\rotatebox{{90}}{{{escape(name)}}}" for name in names]


def unlimited(column: str, value: Any) -> str:
    """Return an axis value under its heading; a dash where the amplification has no limit."""
    return "--" if column == "max_amplification" and value == 0 else words.cell(column, value)


def stacked(heading: str) -> str:
    """A heading with its words one below the other, so that a column of short values stays narrow."""
    return heading if " " not in heading else rf"\shortstack[r]{{{heading.replace(' ', LINE_END)}}}"


def tex_table(
    spec: str,
    head: Sequence[str],
    rows: Sequence[Row],
    caption: str = CAPTION,
    label: str = "",
    *,
    size: str = "scriptsize",
    floats: bool = True,
    most: int | None = None,
    below: Sequence[str] = (),
) -> str:
    """Return the LaTeX of a table; empty without rows.

    Parameters
    ----------
    spec, head : the columns of the tabular, and the LaTeX of their headings
    rows : for each row the LaTeX of its cells, or a whole line
    caption : without one, the tabular alone; by default the one that the template gives with `\\Caption`
    floats : whether it floats; else it stays in its place
    most : up to so many rows the table is in one piece, with more it runs over pages and repeats its heading
    below : further tabulars of the same table
    """
    lines = [line if isinstance(line, str) else row(line) for line in rows]
    if not lines:
        return ""
    begin = f"{{\\{size}\\setlength{{\\tabcolsep}}"
    most = most or (SHORT if floats else ONE_PIECE)
    captioned = f"\\caption{{{caption}}}" + (f"\\label{{{label}}}" if label else "")
    if caption and len(lines) > most // (1 + len(below)):
        parts = [
            r"\FlushFloats",
            f"{begin}{{{'2pt' if size == 'tiny' else '3.5pt'}}}%",
            f"\\begin{{longtable}}{{@{{}}{spec}@{{}}}}",
            captioned + r"\\",
            *(r"\toprule", row(head), r"\midrule\endfirsthead"),
            *(r"\toprule", row(head), r"\midrule\endhead"),
            rf"\midrule\multicolumn{{{columns_of(head)}}}{{@{{}}r@{{}}}}{{continued}}\endfoot",
            r"\bottomrule\endlastfoot",
            *lines,
            r"\end{longtable}}",
            *below,
        ]
        return "\n".join(parts) + "\n"
    parts = [
        f"{begin}{{4pt}}%",
        f"\\begin{{tabular}}{{@{{}}{spec}@{{}}}}",
        *(r"\toprule", row(head), r"\midrule"),
        *lines,
        *(r"\bottomrule", r"\end{tabular}}"),
        *below,
    ]
    if caption:
        environment = "table" if floats else "fixedtable"
        opening = [r"\begin{table}[htbp]", r"\centering"] if floats else [r"\begin{fixedtable}"]
        parts = [*opening, captioned, *parts, f"\\end{{{environment}}}"]
    return "\n".join(parts) + "\n"


def columns_of(head: Sequence[str]) -> int:
    """The number of columns below these headings, some of which may be above several."""
    spans = (re.match(r"\\multicolumn\{(\d+)\}", heading) for heading in head)
    return sum(int(found[1]) if found else 1 for found in spans)


FEW = r"\textsuperscript{f}"  # explained in paper/sections/statistics.tex


def spread(row: pd.Series, name: str, unit: str) -> str:
    """The median of a metric with its interval; of a rate that depends on few operations, marked."""
    told = words.spread([row[f"{name}_{part}_{unit}"] for part in ("median", "low", "high")], THIN)
    return told + few(row) if unit.endswith("per_s") else told


def few(row: pd.Series) -> str:
    """The mark of rates that depend on few operations, where they do."""
    return FEW if isinstance(row.get("few"), bool | np.bool_) and row["few"] else ""


def shares(row: Mapping[str, Any]) -> str:
    """CPU of clients / server in percent of the host's cores."""
    return " / ".join(words.number(row[f"{who}_cpu_percent"], places=0) for who in ("client", "server"))


def interval(value: float, low: float, high: float) -> str:
    """`1.05 [1.01, 1.09]`; without an interval the value alone."""
    return words.spread([value, low, high], THIN)

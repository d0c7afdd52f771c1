"""Parts of LaTeX tables: escaped text, rows, tabulars that can span pages, medians with their interval.

May import: `labels`.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import labels

SHORT = 24  # maximum number of rows of a table that fits on a page with other content
ONE_PIECE = 8  # maximum number of rows of a table that is never split
PAGE = 42  # maximum number of rows of a table that fits on a page with its caption
CAPTION = r"\TableCaption"  # the template defines it before it includes the table
LINE_END = r"\\{}"  # the braces prevent LaTeX from reading a following [ as an argument
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
# Letters of the encoding T1: most of Latin Extended-A, and four letters of Romanian.
_LETTERS = {*map(chr, range(0x20, 0x180)), *"ȘșȚț"} - {*"ĦħĸĿŀŉŦŧſ"}
lost: set[str] = set()  # characters that `escape` replaced by `?`


def escape(text: Any) -> str:
    """Return plain text as LaTeX. Line ends are replaced by spaces.

    If the fonts do not have a character, it is replaced by its base letter, or by `?` if there is none. In the latter
    case, it is added to `lost`.
    """
    out = "".join(map(_character, str(text)))
    out = re.sub(r"--(?=\w)", "-{}-", out)  # a command-line option, not a dash
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
    if unicodedata.category(c) not in ("Mn", "Cf"):  # accents and characters without a width are dropped
        lost.add(c)
        return "?"
    return ""


def lost_names() -> list[str]:
    """Return the characters that `escape` replaced by `?`, with their names in Unicode."""
    return [f"U+{ord(c):04X} {unicodedata.name(c, 'without a name')}" for c in sorted(lost)]


def breakable(text: str) -> str:
    """Return escaped text with possible line breaks after the punctuation of versions, paths and names."""
    for mark in ("\\_", "/", ".", "-", ","):
        text = text.replace(mark, f"{mark}\\allowbreak{{}}")
    return text


def row(cells: Sequence[str]) -> str:
    """Return a row of a LaTeX table. cells: LaTeX of each cell."""
    return " & ".join(cells) + r" \\"


def title(columns: int, text: str, style: str = "emph") -> str:
    """Return a line of text across the columns of a table. LaTeX puts it on the same page as the next line."""
    return rf"\multicolumn{{{columns}}}{{@{{}}l@{{}}}}{{\{style}{{{text}}}}} \\*"


def below(columns: int, rows: Iterable[tuple[str, Row]]) -> list[Row]:
    """Return rows with a title above each group. rows: pairs of (title, row).

    Neighbouring rows with the same title form a group.
    """
    return [
        line
        for shared, group in groupby(rows, key=itemgetter(0))
        for line in (title(columns, shared), *(text for _, text in group))
    ]


def left(*widths_cm: float) -> str:
    """Return the specification of left-aligned tabular columns whose text can break into lines."""
    return "".join(rf">{{\raggedright\arraybackslash}}p{{{width}cm}}" for width in widths_cm)


def upright(names: Sequence[str]) -> list[str]:
    """Return headings that are rotated by 90 degrees, for tables with many columns of systems."""
    return [rf"\rotatebox{{90}}{{{escape(name)}}}" for name in names]


def unlimited(column: str, value: Any) -> str:
    """Return an axis value for a cell, with a dash for an amplification without a limit."""
    return "--" if column == "max_amplification" and value == 0 else labels.cell(column, value)


def stacked(heading: str) -> str:
    """Return a heading with one word per line, so that a column of short values is narrow."""
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
    r"""Return the LaTeX of a table, or an empty string without rows.

    Parameters
    ----------
    spec, head
        The columns of the tabular, and the LaTeX of their headings.
    rows
        For each row the LaTeX of its cells, or the LaTeX of the whole line.
    caption
        The caption; default: the one that the template sets with `\\Caption`. If it is empty, only the tabular is
        returned.
    label
        The label by which the text refers to the table.
    size
        The size of the letters.
    floats
        Make a floating table. Otherwise it is printed where it is in the text.
    most
        Maximum number of rows of a table in one piece. A longer table can span pages and repeats its heading.
    below
        Further tabulars of the same table.
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
    """Return the number of columns of a table. head: its headings, some of which can span several columns."""
    spans = (re.match(r"\\multicolumn\{(\d+)\}", heading) for heading in head)
    return sum(int(found[1]) if found else 1 for found in spans)


FEW = r"\textsuperscript{f}"  # paper/sections/statistics.tex explains this mark


def spread(row: pd.Series, name: str, unit: str) -> str:
    """Return the median of a metric with its interval. A rate that depends on few operations gets a mark."""
    text = labels.spread([row[f"{name}_{part}_{unit}"] for part in ("median", "low", "high")], THIN)
    return text + few(row) if unit.endswith("per_s") else text


def few(row: pd.Series) -> str:
    """Return the mark of a rate that depends on few operations, or an empty string for other rates."""
    return FEW if isinstance(row.get("few"), bool | np.bool_) and row["few"] else ""


def shares(row: Mapping[str, Any]) -> str:
    """Return the CPU use of clients and server in percent of the host's cores, such as `40 / 30`."""
    return " / ".join(labels.number(row[f"{who}_cpu_percent"], places=0) for who in ("client", "server"))


def interval(value: float, low: float, high: float) -> str:
    """Return a value with its interval, such as `1.05 [1.01, 1.09]`, or only the value if there is no interval."""
    return labels.spread([value, low, high], THIN)

"""Pieces of LaTeX tables: escaping, rows, tabulars that may run over pages, medians with their spread; flags. May
import: `words`."""

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


def camel(name: str) -> str:
    """`front_ends` -> `FrontEnds`: TeX allows letters only."""
    return "".join(part.capitalize() for part in name.split("_"))


def row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def title(columns: int, text: str, style: str = "emph") -> str:
    """Return a line of text across the table, on the page of the line below it."""
    return rf"\multicolumn{{{columns}}}{{@{{}}l@{{}}}}{{\{style}{{{text}}}}} \\*"


def below(columns: int, rows: Iterable[tuple[str, str]]) -> list[str]:
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


def tabular(spec: str, head: Sequence[str], rows: Sequence[str], size: str = "footnotesize") -> str:
    lines = [
        f"{{\\{size}\\setlength{{\\tabcolsep}}{{4pt}}%",
        f"\\begin{{tabular}}{{@{{}}{spec}@{{}}}}",
        r"\toprule",
        row(head),
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}}",
    ]
    return "\n".join(lines) + "\n"


def floating(
    spec: str,
    caption: str,
    label: str,
    head: Sequence[str],
    rows: Sequence[str],
    size: str = "scriptsize",
    most: int = SHORT,
) -> str:
    """Return a float while it has at most so many rows, else a `longtable`."""
    if len(rows) > most:
        return longtable(spec, caption, label, head, rows, size)
    body = tabular(spec, head, rows, size)
    return f"\\begin{{table}}[htbp]\n\\centering\n{_caption(caption, label)}\n{body}\\end{{table}}\n"


def placed(
    spec: str, head: Sequence[str], rows: Sequence[str], size: str = "footnotesize", below: Sequence[str] = ()
) -> str:
    """Return a table with the caption and label that the template gives with `\\Caption`: a float where it fits a page,
    else a `longtable`. below: further tabulars of the same table."""
    table = floating(spec, CAPTION, "", head, rows, size, PAGE // (1 + len(below)))
    head, end, tail = table.rpartition("\\end{table}")
    return "\n".join([head.rstrip("\n"), *below]) + end + tail if end else "\n".join([table, *below])


def _caption(text: str, label: str) -> str:
    return f"\\caption{{{text}}}" + (f"\\label{{{label}}}" if label else "")


def longtable(
    spec: str, caption: str, label: str, head: Sequence[str], rows: Sequence[str], size: str = "scriptsize"
) -> str:
    """A table that may run over pages, its heading repeated; in one piece where it has few. `\\FlushFloats` and
    `fixedtable` are the paper's."""
    if len(rows) <= ONE_PIECE:
        body = tabular(spec, head, rows, size)
        return f"\\begin{{fixedtable}}\n{_caption(caption, label)}\n{body}\\end{{fixedtable}}\n"
    lines = [
        r"\FlushFloats",
        f"{{\\{size}\\setlength{{\\tabcolsep}}{{{'2pt' if size == 'tiny' else '3.5pt'}}}%",
        f"\\begin{{longtable}}{{@{{}}{spec}@{{}}}}",
        _caption(caption, label) + r"\\",
        r"\toprule",
        row(head),
        r"\midrule\endfirsthead",
        r"\toprule",
        row(head),
        r"\midrule\endhead",
        rf"\midrule\multicolumn{{{len(head)}}}{{@{{}}r@{{}}}}{{continued}}\endfoot",
        r"\bottomrule\endlastfoot",
        *rows,
        r"\end{longtable}}",
    ]
    return "\n".join(lines) + "\n"


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

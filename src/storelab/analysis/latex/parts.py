"""Pieces of LaTeX tables: escaping, rows, tabulars that may run over pages, medians with their spread (level 3, analysis)."""

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from storelab.analysis.parts import words

SHORT = 24  # rows of a table that fits a page with other things on it
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
    "–": "--",
    "—": "---",
    "…": r"\dots{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "µ": r"\textmu{}",
} | {c: f"\\{c}" for c in "&%$#_"}


def escape(text: Any) -> str:
    """Plain text as LaTeX; characters that the fonts lack become `?`, line ends spaces."""
    out = "".join(_SPECIAL.get(c, c if c.isprintable() and ord(c) < 0x250 else " " if c.isspace() else "?") for c in str(text))
    out = re.sub(r"(?<=\d) (?=\d{3}\b)", THIN.replace("\\", "\\\\"), out)
    return re.sub(r"(?<=\d) (?=\\%|[kMGT]i?B\b|s\b|ms\b|MB/s)", "~", out)


def breakable(text: str) -> str:
    """Escaped text that may break after the marks of versions, paths and names."""
    for mark in ("\\_", "/", ".", "-", ","):
        text = text.replace(mark, f"{mark}\\allowbreak{{}}")
    return text


def row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


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


def floating(spec: str, caption: str, label: str, head: Sequence[str], rows: Sequence[str]) -> str:
    """A float while it is short, else a `longtable`."""
    if len(rows) > SHORT:
        return longtable(spec, caption, label, head, rows)
    body = tabular(spec, head, rows, "scriptsize")
    return f"\\begin{{table}}[htbp]\n\\centering\n\\caption{{{caption}}}\\label{{{label}}}\n{body}\\end{{table}}\n"


def longtable(spec: str, caption: str, label: str, head: Sequence[str], rows: Sequence[str], size: str = "scriptsize") -> str:
    """A table that may run over pages, its heading repeated. `\\FlushFloats` is the paper's."""
    n = len(head)
    lines = [
        r"\FlushFloats",
        f"{{\\{size}\\setlength{{\\tabcolsep}}{{{'2pt' if size == 'tiny' else '3.5pt'}}}%",
        f"\\begin{{longtable}}{{@{{}}{spec}@{{}}}}",
        f"\\caption{{{caption}}}\\label{{{label}}}\\\\",
        r"\toprule",
        row(head),
        r"\midrule\endfirsthead",
        r"\toprule",
        row(head),
        r"\midrule\endhead",
        rf"\midrule\multicolumn{{{n}}}{{@{{}}r@{{}}}}{{continued}}\endfoot",
        r"\bottomrule\endlastfoot",
        *rows,
        r"\end{longtable}}",
    ]
    return "\n".join(lines) + "\n"


def spread(row: pd.Series, name: str, unit: str) -> str:
    return words.spread([row[f"{name}_{part}_{unit}"] for part in ("median", "low", "high")], THIN)

"""Tables and figures of a campaign as they stand in a paper of several: under its name, with their code, or left out.

A file of `tex/` is taken over as it is; its labels get the campaign's name, its captions name and code. May import:
what `papers` may.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from storelab.analysis.figures import panels
from storelab.analysis.figures.specification import Specification
from storelab.analysis.latex.parts import CAPTION, escape, upright
from storelab.analysis.papers import outline
from storelab.analysis.papers.members import Member
from storelab.analysis.parts import derived

LEAST = 3  # medians that a figure shows at least, for two points alone say no more than two numbers
UPRIGHT = 6  # campaigns from which on their names stand upright
_LABELS = re.compile(r"\\(label|ref)\{tab:")
_AFTER = re.compile(
    r"(.*\\end\{(?:longtable\}\}|(?:fixed)?table\}))\n.*", re.DOTALL
)  # prose of the campaign's own paper behind it
_REFERENCE = re.compile(r"(?:Table|Figure)~\\ref\{([^}]*)\}")


@dataclass(frozen=True)
class Block:
    """LaTeX of a table or figure; `long`: it runs over pages, so it stands where there is one column."""

    text: str
    long: bool = False

    @property
    def named(self) -> str:
        """How the text names it: `Table~\\ref{...}`; empty without a label."""
        found = re.search(r"\\label\{([^}]*)\}|\{(fig:[^}]*)\}\n\Z", self.text)
        return f"{'Figure' if found[2] else 'Table'}~\\ref{{{found[1] or found[2]}}}" if found else ""


def table(member: Member, name: str, code: str) -> Block | None:
    """`tex/<name>.tex` of a campaign; None where it has nothing."""
    path = member.folder / "tex" / f"{name}.tex"
    text = derived.read_tex(path, derived.mend(member.folder, "latex")) if path.exists() else ""
    return adopted(text, member.name, name, code) if "\\begin{" in text else None


def adopted(text: str, campaign: str, name: str, code: str) -> Block:
    """A table under the name of its campaign, with its code."""
    text = _LABELS.sub(lambda found: f"\\{found[1]}{{tab:{campaign}:", text)
    if "\\caption{" not in text or CAPTION in text:
        return _captioned(text, campaign, name, code)
    text = text.replace("\\caption{", f"\\caption{{\\Of{{{escape(campaign)}}}")
    text = text.replace("}\\label{tab:", f" \\Code{{{code}}}}}\\label{{tab:")
    text = _AFTER.sub(lambda found: found[1], text)
    return Block(_wide(text), "\\begin{longtable}" in text)


def _wide(text: str) -> str:
    return text.replace("\\begin{table}[htbp]", "\\begin{widetable}").replace("\\end{table}", "\\end{widetable}")


def _captioned(text: str, campaign: str, name: str, code: str) -> Block:
    """A table whose caption is in the template of a campaign's own paper, or a tabular alone, as a float; over pages
    where it is too long for one."""
    said = outline.CAPTIONS.get(name, name.removeprefix("table_").replace("_", " ").capitalize() + ".")
    caption = f"\\Of{{{escape(campaign)}}}{escape(said)} \\Code{{{code}}}"
    label = f"tab:{campaign}:{name.removeprefix('table_')}"
    if CAPTION in text:
        text = text.replace(f"\\caption{{{CAPTION}}}", f"\\caption{{{caption}}}\\label{{{label}}}")
        return Block(_wide(text), "\\begin{longtable}" in text)
    text = text.replace("\\begin{center}\n", "").replace("\\end{center}\n", "")
    return Block(wide_table(caption, label, text))


def wide_table(caption: str, label: str, text: str) -> str:
    """A float as wide as the page, of one or of several tabulars."""
    head = f"\\begin{{widetable}}\\centering\\caption{{{caption}}}\\label{{{label}}}\n"
    return f"{head}{text}\\end{{widetable}}\n"


def headings(names: Sequence[str]) -> list[str]:
    """Names of campaigns above a column each: upright where there are many."""
    return upright(names) if len(names) >= UPRIGHT else [rf"\texttt{{{escape(name)}}}" for name in names]


def figure(member: Member, name: str, code: str, macro: str = "Figure") -> Block:
    """The float of a figure, by a macro of the template: `\\Figure`, or `\\Lead` on the first page."""
    caption = f"\\Of{{{escape(member.name)}}}{escape(member.figures[name]['caption'])} \\Code{{{code}}}"
    return Block(f"\\{macro}{{{picture(member, name)}}}{{{caption}}}{{fig:{member.name}:{name}}}\n")


def picture(member: Member, name: str) -> str:
    """The name of its file in the folder of the paper."""
    return f"{member.name}-{name}.pdf"


def carries(member: Member, name: str) -> bool:
    """Whether a figure says more than the numbers would: three medians or more, at two places of its axis or more."""
    figure = member.declared[name]
    if not isinstance(figure, Specification):
        return len(figure.told(member.table(figure.table))) >= LEAST
    shown = member.layout(name)
    return shown is not None and enough(figure, shown.panels)


def enough(figure: Specification, shown: Sequence[panels.Panel]) -> bool:
    """The same of the panels of a figure."""
    medians, places = 0, set()
    for panel in shown:
        for curve in (c for c in panel.measure.curves if c.column() in panel.rows):
            known = panel.rows[panel.rows[curve.column()].notna()]
            medians += len(known)
            places |= set(known[panel.measure.x or figure.x].dropna())
    words = any(not pd.api.types.is_numeric_dtype(p.rows[p.measure.x or figure.x]) for p in shown)
    return medians >= LEAST and (words or len(places) > 1)


def resolved(text: str) -> str:
    """A reference to what this paper does not show points to the paper of the campaign instead."""
    labels = set(re.findall(r"(?:\\label\{|\}\{)([a-z]+:[^}]*)\}", text))
    elsewhere = "a table of the campaign's own paper"
    return _REFERENCE.sub(lambda found: found[0] if found[1] in labels else elsewhere, text)

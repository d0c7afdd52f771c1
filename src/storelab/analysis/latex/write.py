"""LaTeX of a campaign: `tables/*.csv` and `figures/index.json` in, `tex/*.tex` out.

May import: what `latex` may; nothing slow at first.

`tex/` holds `numbers.tex` (\\Num... macros), `figures.tex` (\\ifHas... flags, \\Fig... macros), `sections.tex`, and a
`table_*.tex` for each table. What a campaign has no data for is left out: its flag is false, its section not read.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storelab.analysis.latex import FILE, FILLED, FLAGS, GIVEN, SECTION
from storelab.analysis.parts import derived
from storelab.analysis.parts.registry import Made
from storelab.analysis.tables import build as csv
from storelab.core import records

TEX = tuple(FILE.declared)
# The paper's order. Sections of other subjects are before the last three.
ORDER = [
    "introduction",
    "systems",
    "threads",
    "raw",
    "latency",
    "volume",
    "entries",
    "events",
    "earlier",
    "conclusions",
    "method",
]
LAST = 3
# The figure of the first page is the first of these that a campaign has; else its first one that has results.
LEAD = (
    *("threads", "systems", "events_bars", "front_ends", "throughput_download", "launches", "releases", "soak"),
    *("timeline", "role_phases"),
)
NO_LEAD = ("errors_over_time", "distributions", "client_resources", "earlier")
COMPARED = ("systems", "scaling", "capabilities", "consistency", "space_used")


class Paper(Made):
    """What LaTeX is made from, by name: the tables as written, and what the modules give."""

    def __init__(self, campaign_dir: Path) -> None:
        super().__init__({"campaign_dir": campaign_dir, "paper": self}, GIVEN)

    def __getitem__(self, name: str) -> Any:
        if name in csv.NAMES and name not in self._known:
            self._known[name] = csv.read(self["campaign_dir"], name)
        return super().__getitem__(name)


def build(campaign_dir: Path, only: Sequence[str] | None = None) -> list[Path]:
    """Write `tex/<name>.tex`, all of TEX or those named, atomically, and none where one cannot be made.

    Raises UserError where a table or the figures are missing, KeyError where there is no file of that name.
    """
    paper = Paper(campaign_dir)
    texts = {}
    for name in TEX if only is None else only:
        empty = len(paper[FILE.declared[name].takes[0]]) == 0
        texts[campaign_dir / "tex" / f"{name}.tex"] = "" if empty else FILE.make(name, paper)
    for path, text in texts.items():
        records.write_atomic(path, derived.tex(text))
    return list(texts)


@GIVEN("drawn", "campaign_dir")
def drawn(campaign_dir: Path) -> dict[str, Any]:
    """The figures that have data: name -> files and caption. Raises UserError: there is no index, or a damaged one."""
    return derived.figure(campaign_dir / "figures" / "index.json")["figures"]


@GIVEN("has", "drawn", "paper")
def has(drawn: Mapping[str, Any], paper: Paper) -> dict[str, bool]:
    """What the campaign has: HasX for each figure, section and remark of the paper."""
    from storelab.analysis.figures.catalogue import FIGURES  # not above: pandas comes with it

    flags = {name: name in drawn for name in FIGURES}
    flags |= {flag: bool(len(paper[table])) for flag, of in FILLED.declared.items() for table in of.takes}
    for subject in FLAGS.declared:
        flags |= FLAGS.make(subject, paper)
    return flags | {"compared": any(flags[name] for name in COMPARED)}


@FILE("figures", "has", "drawn")
def figures(has: Mapping[str, bool], drawn: Mapping[str, Any]) -> str:
    """Flags, then one macro per figure: the whole float with caption and label `fig:<name>`."""
    from storelab.analysis.latex.parts import camel  # not above: pandas comes with it

    lines = ["% Generated from the tables and figures/index.json."]
    lines += [
        f"\\newif\\ifHas{camel(name)}\\Has{camel(name)}{'true' if value else 'false'}"
        for name, value in sorted(has.items())
    ]
    first = lead(drawn)
    lines.append("\\newcommand{\\LeadFigure}{}" if first is None else _figure("LeadFigure", first, drawn[first], True))
    lines += [
        _figure(f"Fig{camel(name)}", name, entry) if name != first else f"\\newcommand{{\\Fig{camel(name)}}}{{}}"
        for name, entry in drawn.items()
    ]
    return "\n".join(lines) + "\n"


def lead(drawn: Mapping[str, Any]) -> str | None:
    """The figure of the first page; None where a campaign has no figure."""
    known = [name for stem in LEAD for name in drawn if name == stem or name.startswith(f"{stem}_")]
    return next(iter([*known, *(name for name in drawn if name not in NO_LEAD)]), None)


def _figure(macro: str, name: str, entry: Mapping[str, Any], first: bool = False) -> str:
    """A macro that is a float; of the first page `\\Lead`, which fits into what is left of the page."""
    from storelab.analysis.latex.parts import escape  # not above: pandas comes with it

    file, caption, label = entry["pdf"].removesuffix(".pdf"), escape(entry["caption"]), f"fig:{name}"
    if first:
        return f"\\newcommand{{\\{macro}}}{{\\Lead{{{file}}}{{{caption}}}{{{label}}}}}"
    return (
        f"\\newcommand{{\\{macro}}}{{\\begin{{figure}}[htbp]\\centering\\includegraphics{{{file}}}"
        f"\\caption{{{caption}}}\\label{{{label}}}\\end{{figure}}}}"
    )


def left_out(campaign_dir: Path) -> str:
    """Say in one sentence which figures are left out although they have data; empty where none is."""
    from storelab.analysis.latex.parts import escape  # not above: pandas comes with it

    index = campaign_dir / "figures" / "index.json"
    found = derived.figure(index).get("left_out", {}) if index.exists() else {}
    names = [escape(f"{name.replace('_', ' ')} ({of['table']})") for name, of in found.items()]
    if not names:
        return ""
    return (
        f"Figures of fewer than three values or systems are left out, their numbers are in tables: {', '.join(names)}."
    )


@FILE("sections", "has", "drawn", "campaign_dir")
def sections(has: Mapping[str, bool], drawn: Mapping[str, Any], campaign_dir: Path) -> str:
    """The sections that have something to say, in the paper's order; those that rest on no flag always.

    The campaign's own figures are before the last sections.
    """
    from storelab.analysis.latex.parts import camel  # not above: pandas comes with it
    from storelab.analysis.parts import words

    rests = {name: [has[flag] for flag in of.takes] for name, of in SECTION.declared.items()}
    names = [*ORDER[:-LAST], *(name for name in rests if name not in ORDER), *ORDER[-LAST:]]
    lines = [f"\\input{{sections/{name}}}" for name in names if name not in rests or any(rests[name])]
    if own := [name for name, entry in drawn.items() if entry.get("own")]:
        said = words.listed([f"\\ref{{fig:{name}}}" for name in own])
        of = f"Figures~{said} are" if len(own) > 1 else f"Figure~{said} is"
        place = next(i for i, line in enumerate(lines) if any(f"/{last}}}" in line for last in ORDER[-LAST:]))
        lines[place:place] = [f"{of} declared by the campaign.", *(f"\\Fig{camel(name)}" for name in own)]
    lines.append(left_out(campaign_dir))
    return "\n".join(["% Generated: a section without data is left out.", *lines]) + "\n"

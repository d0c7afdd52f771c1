"""Write a paper of several campaigns to `results/papers/<names>/`, from the tables, figures and LaTeX of each campaign.

`tables/*.csv` are the tables over all campaigns, `figures/` contains copies of the figures that the paper shows, and
`tex/` contains the paper in all layouts. The text is in the templates `paper/joined.tex` (one column) and
`paper/<layout>.tex`. May import: the same packages as `papers`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from storelab.analysis.latex import headlines
from storelab.analysis.latex.campaign import numbers
from storelab.analysis.latex.parts import breakable, escape, left, tex_table
from storelab.analysis.latex.templates import NOTHING, Tex, render
from storelab.analysis.latex.values import Blocks, Sources, lead_figure
from storelab.analysis.papers import across, findings, fragments, origin
from storelab.analysis.papers.fragments import Block
from storelab.analysis.papers.members import Member, gathered
from storelab.analysis.parts import derived, labels
from storelab.analysis.statistics.judging import UNDECIDED
from storelab.core import records
from storelab.core.errors import UserError
from storelab.core.model import PAPERS

FEW = 3  # up to this number of campaigns, the abstract has several kinds of work for each system
# file of tex/ -> its template
TEMPLATES = {name: "joined.tex" if name == "paper" else f"{name}.tex" for name in PAPERS.values()}
CODE_TABLE = "% the table of codes"  # its place in a text; it is made from the codes of this text
JOINED = "table of the joined paper"
CODES = ["code", "campaign", "kind", "name", "file", "tables", "lines", "points", "commit"]
_CODE = re.compile(r"\\Code\{(\w+)\}")
_PICTURE = re.compile(r"\\(?:Figure|Lead)\{([^}/]*\.pdf)\}")


@dataclass(frozen=True)
class Joined:
    """The campaigns of a paper, and the tables over all of them with their codes, by name."""

    members: Sequence[Member]
    tables: Mapping[str, pd.DataFrame]
    codes: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        return [m.name for m in self.members]


def build(folders: Sequence[Path], out: Path, paper_dir: Path = Path("paper")) -> list[Path]:
    """Write all files of the paper except the PDF, and return the paths of its tables and texts.

    folders: campaigns of the paper; out: folder of the paper; paper_dir: folder of the templates.

    Raises UserError if the campaigns cannot be combined (`members.gathered`), or if the tables, figures or LaTeX of a
    campaign are missing.
    """
    paper = joined(gathered(folders))
    found, pictures = values(paper)
    texts = {name: render(paper_dir, template, found) for name, template in TEMPLATES.items()}
    listed = {name: codes(paper, text) for name, text in texts.items()}
    for name, text in texts.items():
        texts[name] = fragments.resolved(text.replace(CODE_TABLE, _codes_latex(listed[name])))
    every_code = pd.concat(listed.values()).drop_duplicates(ignore_index=True)
    made = {out / "tables" / f"{name}.csv": table for name, table in {**paper.tables, "codes": every_code}.items()}
    before = _earlier_pictures(out)
    for path, table in made.items():  # tables are written first, because `campaigns.csv` marks the folder of a paper
        records.write_atomic(path, table.to_csv(index=False, float_format="%.9g").encode())
    derived.write_sums(out, [path.stem for path in made])
    (out / "figures").mkdir(exist_ok=True)
    shown = dict.fromkeys(name for text in texts.values() for name in _pictures(text))
    for old in before - shown.keys():
        (out / "figures" / old).unlink(missing_ok=True)
    for name in shown:
        # replaces an existing link instead of writing to its target
        records.write_atomic(out / "figures" / name, pictures[name].read_bytes())
    for name, text in texts.items():
        records.write_atomic(out / "tex" / f"{name}.tex", derived.tex(text))
    return [*made, *(out / "tex" / f"{name}.tex" for name in texts)]


def _earlier_pictures(out: Path) -> set[str]:
    """Return the names of the pictures that an earlier build wrote to the folder. Other pictures belong to the user.

    Raises UserError if the folder has other files, which would be replaced.
    """
    places = ("tables", "figures", "tex")
    foreign = (p for place in places for p in sorted((out / place).rglob("*")) if p.is_file())
    other = next((p for p in foreign if not p.name.endswith(".tmp")), None)
    if (raw := out / "raw").exists():
        raise UserError(str(out), f"is the folder of a campaign: it has {raw}", "choose a new folder")
    if other and not (out / "tables" / "campaigns.csv").exists():
        raise UserError(
            str(out), f"has files that do not belong to a joined paper, such as {other}", "choose a new folder"
        )
    texts = (path.read_text(errors="replace") for path in (out / "tex").glob("*.tex"))
    return {name for text in texts for name in _pictures(text)}


def _pictures(text: str) -> list[str]:
    """Return the names of the pictures that a LaTeX text shows."""
    return _PICTURE.findall(text)


def joined(members: Sequence[Member]) -> Joined:
    """Return the campaigns together with the tables over all of them, and the codes of these tables."""
    differences = across.difference_table(members)
    tables = {
        "campaigns": across.campaigns(members),
        "differences": differences,
        "claims": findings.table(members),
        "comparisons": across.comparison_table(members, differences),
        "answers": across.answers(members),
    }
    who = ["+".join(m.name for m in members), *(m.sums for m in members)]
    return Joined(members, tables, {name: origin.code(JOINED, name, *who) for name in tables})


def values(paper: Joined) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return the values for the templates of the paper, and the pictures that it shows (name in the paper -> file)."""
    found, shown = findings.joined(paper.members), Displayed()
    differs, alike = across.latex(paper.tables["differences"], paper.names, paper.codes["differences"])
    first = _lead(paper, shown)
    sections = list(filter(None, (_section(paper, section, found, shown) for section in _outline(paper))))
    differences = [Tex(text) for text in shown.here(differs)]
    for member in paper.members:
        for name in fragments.LONG:
            block = fragments.table(member, name, origin.PaperItem(member, origin.TEX, name).code)
            shown.here(replace(block, long=True) if block else None)
    return {
        **_front(paper, found),
        "members": [_member_values(member, len(paper.members) <= FEW) for member in paper.members],
        # The experiments have their place in the text whatever the campaign was named. The first of several is shown.
        "of": {member.plan.get("file", member.name): _content(member, shown) for member in reversed(paper.members)},
        "judged": lambda label, caption, *claims: Tex(findings.judged_table(found, label, caption, claims)),
        "finding": {f.claim: f for f in sorted(found, key=lambda f: bool(f.judged))},
        "lead": first,
        "findings": Tex(findings.first_page(found, paper.names)),
        "codes": paper.codes,
        "campaign_table": Tex(across.campaigns_latex(paper.tables["campaigns"], paper.codes["campaigns"])),
        "comparisons": across.comparison_rows(paper.tables["comparisons"]),
        "sections": sections,
        "contradicted": [f.title for f in found if f.contradicted],
        "left_out": shown.left_out,
        "alike": Tex(alike),
        "differences": differences[0] if differences else NOTHING,
        "long_tables": shown.appendix,
        "placed_tables": shown.placed,  # a template that places a long table adds it when it is filled
        "code_table": Tex(CODE_TABLE),
    }, shown.pictures


@dataclass
class Displayed:
    """Content that sections add to other places of the paper.

    appendix: long tables of the campaigns; placed: long tables that a template placed; pictures: name in the paper ->
    file; left_out: figures with too few values; lead: campaign and name of the figure of the first page.
    """

    appendix: list[Tex] = field(default_factory=list)
    placed: list[Tex] = field(default_factory=list)
    pictures: dict[str, Path] = field(default_factory=dict)
    left_out: list[Tex] = field(default_factory=list)
    lead: tuple[str, str] = ("", "")

    def picture(self, member: Member, name: str) -> None:
        """Add the picture of a figure. Raises UserError if it was altered after it was drawn."""
        picture = derived.require_picture(member.folder / "figures", member.figures[name], "pdf")
        self.pictures[fragments.picture(member, name)] = picture

    def here(self, block: Block | None) -> list[str]:
        """Return a list with the text of the block. A long block is added to the appendix, and the list is empty."""
        if block and block.long:
            self.appendix.append(Tex(block.text))
        return [] if block is None or block.long else [block.text]

    def omit(self, member: Member, name: str) -> None:
        """Add a figure to the list of figures that have too few values."""
        table = breakable(escape(member.figures[name]["table"]))
        figure_of_campaign = f"{escape(name.replace('_', ' '))} of \\texttt{{{escape(member.name)}}}"
        self.left_out.append(Tex(f"{figure_of_campaign} (\\texttt{{{table}}})"))


def _lead(paper: Joined, shown: Displayed) -> Tex:
    """Return the figure of the first page. It is from the first campaign whose figure has enough values."""
    for member in paper.members:
        name = lead_figure(member.figures)
        if name and fragments.carries(member, name):
            shown.lead = (member.name, name)
            shown.picture(member, name)
            return Tex(fragments.figure(member, name, origin.PaperItem(member, origin.FIGURE, name).code, "Lead").text)
    return NOTHING


def _front(paper: Joined, found: Sequence[findings.Finding]) -> dict[str, Any]:
    """Return the values for the title page: title, authors, dates, and the numbers of the abstract."""
    one = (
        paper.members[0].title if len(paper.names) == 1 else f"Storage systems, measured: {labels.listed(paper.names)}"
    )
    authors = dict.fromkeys(a for m in paper.members for a in m.plan["campaign"].get("authors", []))
    days = sorted(day for m in paper.members for day in m.days)
    totals, stores = findings.totals(found), {s for m in paper.members for s in m.measured["store"].unique()}
    return {
        "title": one,
        "authors": ", ".join(authors),
        "dates": " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "",
        "systems": labels.counted(len(stores), "storage system"),
        "campaigns": labels.counted(len(paper.names), "campaign"),
        "points": labels.grouped(str(sum(len(m.measured) for m in paper.members))),
        "totals": totals | {"undecided": totals[UNDECIDED]},
    }


def _member_values(member: Member, is_one_of_few: bool) -> dict[str, Any]:
    """Return the values of a campaign for the templates: results of its systems, and their limits."""
    known = headlines.shortened(Sources(member.folder)["headlines"], headlines.SHORT if is_one_of_few else 1)
    results = [*headlines.answers(known), *(headlines.limits(known) if is_one_of_few else [])]
    return {
        "name": member.name,
        "results": Tex(" ".join(results), bool(results)),
        "results_code": origin.PaperItem(member, origin.TEX, "table_summary").code,
        "limits": across.limits(member),
        "limits_code": origin.PaperItem(member, origin.TEX, "table_verdicts").code,
    }


def _content(member: Member, shown: Displayed) -> dict[str, Any]:
    """Return the numbers, tables and figures of a campaign by name, for templates that place them in their own text."""

    def table_of(name: str) -> str:
        block = fragments.table(member, f"table_{name}", origin.PaperItem(member, origin.TEX, f"table_{name}").code)
        if block and block.long:
            shown.placed.append(Tex(block.text))
        return block.text if block and not block.long else ""

    def figure_of(name: str) -> str:
        if name not in member.figures:
            return ""
        shown.picture(member, name)
        return fragments.figure(member, name, origin.PaperItem(member, origin.FIGURE, name).code).text

    of_numbers = numbers(member.table("numbers"))
    return {
        "name": Tex(member.name),
        "numbers": of_numbers,
        "tables": Blocks(table_of),
        "figures": Blocks(figure_of),
    }


def _outline(paper: Joined) -> Iterator[fragments.Section]:
    figures = dict.fromkeys(name for m in paper.members for name in m.figures)
    tables = dict.fromkeys(p.stem for m in paper.members for p in sorted((m.folder / "tex").glob("table_*.tex")))
    return fragments.sections(figures, tables)


def _section(
    paper: Joined, section: fragments.Section, found: Sequence[findings.Finding], shown: Displayed
) -> dict[str, Any] | None:
    """Return the content of a section from all campaigns, or None if it is empty."""
    discussion = list(findings.sentences(found, section.name))
    if section.name == "systems" and (table := across.answers_latex(paper.tables["answers"], paper.codes["answers"])):
        text = "Table~\\ref{tab:answers} has the answers to the questions of the probe."
        discussion += [text, *shown.here(table)]
    parts = list(filter(None, (_part(paper, part, shown) for part in section.parts)))
    limits = section.name == "systems" and any(across.limits(m) for m in paper.members)
    if not (discussion or parts or limits):
        return None
    return {
        "name": section.name,
        "title": section.title,
        "flushed": section.flushed,
        "discussion": list(map(Tex, discussion)),
        "parts": parts,
    }


def _part(paper: Joined, part: fragments.Part, shown: Displayed) -> dict[str, Any] | None:
    """Return the tables and figures of all campaigns below a heading, or None if there are none."""
    texts: list[str] = []
    references = []
    for member in paper.members:
        blocks = []
        for name in part.tables:
            if block := fragments.table(member, name, origin.PaperItem(member, origin.TEX, name).code):
                blocks.append(block)
        for name in fragments.chosen(part.figures, member.figures):
            if (member.name, name) == shown.lead:
                continue
            if fragments.carries(member, name):
                blocks.append(fragments.figure(member, name, origin.PaperItem(member, origin.FIGURE, name).code))
                shown.picture(member, name)
            else:
                shown.omit(member, name)
        texts += [text for block in blocks for text in shown.here(block)]
        named = ", ".join(filter(None, (block.named for block in blocks)))
        references += [f"of \\texttt{{{escape(member.name)}}}: {named}"] if named else []
    if not references:
        return None
    shows = "; ".join(references)
    return {"title": part.title, "shows": Tex(shows[0].upper() + shows[1:]), "blocks": list(map(Tex, texts))}


def codes(paper: Joined, text: str) -> pd.DataFrame:
    """Return one row per code in the text: the item, the rows of its tables, the number of points, and the commits."""
    shown = dict.fromkeys(_CODE.findall(text))
    of, over = origin.named(paper.members), {code: name for name, code in paper.codes.items()}
    rows = []
    for code in shown:
        for item in of.get(code, []):
            counts = "; ".join(f"{r.table}.csv: {len(r.places)} of {r.total} rows" for r in item.rows)
            lines = "; ".join(f"{r.table}.csv: {r.lines}" for r in item.rows)
            known = item.member.commits(item.keys).get("commit", [])
            head = [code, item.member.name, item.kind, item.name, item.file, counts, lines]
            rows.append(dict(zip(CODES, [*head, len(item.keys), ", ".join(known)], strict=True)))
        if code in over:
            name, table = over[code], paper.tables[over[code]]
            row_texts = [f"{name}.csv: {len(table)} of {len(table)} rows", f"{name}.csv: all {len(table)} rows"]
            head = [code, "+".join(paper.names), JOINED, name, f"tables/{name}.csv", *row_texts]
            rows.append(dict(zip(CODES, [*head, sum(len(m.measured) for m in paper.members), ""], strict=True)))
    return pd.DataFrame(rows, columns=CODES)


def _codes_latex(found: pd.DataFrame) -> str:
    lines = [
        [
            f"\\hypertarget{{code:{r['code']}}}{{\\texttt{{{r['code']}}}}}",
            escape("all" if r["kind"] == JOINED else r["campaign"]),
            breakable(escape(f"{r['kind']} {r['name']}")),
            breakable(escape(r["tables"])),
            labels.grouped(str(r["points"]), r"\,"),
            breakable(escape(r["commit"])),
        ]
        for r in found.to_dict("records")
    ]
    caption = (
        "The codes of this paper: object, rows of its tables, number of points, and the commit that measured "
        "them. \\texttt{storelab explain} lists the points and their records."
    )
    spec = f"l{left(2.1, 4.0, 4.3)}r{left(2.5)}"
    head = ["Code", "Campaign", "Of", "Rows", "Points", "Commit"]
    return tex_table(spec, head, lines, caption, "tab:codes", floats=False) if lines else ""

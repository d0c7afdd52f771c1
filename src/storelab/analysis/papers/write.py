"""A paper of several campaigns: what their rules left in, `results/papers/<names>/` out. May import: what `papers` may.

`tables/*.csv` hold what stands over all of them, `figures/` copies of the figures that are shown, `tex/` the LaTeX:
`front.tex` (title, abstract), `findings.tex` (first page), `content.tex` (sections), `appendix.tex`. The prose is
`paper/joined/`; what stands here beside it is made of verdicts, claims and comparisons.
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from storelab.analysis.latex import headlines
from storelab.analysis.latex.parts import breakable, escape, left, longtable, row
from storelab.analysis.latex.write import Paper as LatexPaper
from storelab.analysis.latex.write import lead
from storelab.analysis.papers import comparisons, findings, fragments, method, origin, outline, systems
from storelab.analysis.papers.fragments import Block
from storelab.analysis.papers.members import Member, gathered
from storelab.analysis.parts import derived, words
from storelab.analysis.statistics.judging import CANNOT_TELL, CONFIRMED, REFUTED
from storelab.core import records

FEW = 3  # campaigns whose systems have more than one kind of work in the abstract
JOINED = "table of the joined paper"
CODES = ["code", "campaign", "kind", "name", "file", "tables", "lines", "points", "commit"]
_CODE = re.compile(r"\\Code\{(\w+)\}")


@dataclass(frozen=True)
class Joined:
    """The campaigns of a paper, and what stands over all of them: name of a table -> the table, and its code."""

    members: Sequence[Member]
    tables: Mapping[str, pd.DataFrame]
    codes: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        return [m.name for m in self.members]


def build(folders: Sequence[Path], out: Path) -> list[Path]:
    """Write everything of the paper but the PDF. Raises UserError as `members.gathered`, and where a campaign lacks its
    tables, figures or LaTeX."""
    paper = joined(gathered(folders))
    texts, pictures = latex(paper)
    made = {out / "tables" / f"{name}.csv": table for name, table in paper.tables.items()}
    made[out / "tables" / "codes.csv"] = codes(paper, texts.values())
    texts["appendix"] += _codes_latex(made[out / "tables" / "codes.csv"])
    (out / "figures").mkdir(parents=True, exist_ok=True)
    for old in set((out / "figures").glob("*.pdf")) - {out / "figures" / name for name in pictures}:
        old.unlink()
    for name, picture in pictures.items():
        shutil.copyfile(picture, out / "figures" / name)
    for path, table in made.items():
        records.write_atomic(path, table.to_csv(index=False, float_format="%.9g").encode())
    derived.write_sums(out, [path.stem for path in made])
    for name, text in texts.items():
        records.write_atomic(out / "tex" / f"{name}.tex", derived.tex(f"% Generated.\n{text}"))
    return [*made, *(out / "tex" / f"{name}.tex" for name in texts)]


def joined(members: Sequence[Member]) -> Joined:
    """The tables over all campaigns."""
    differences = method.table(members)
    tables = {
        "campaigns": systems.campaigns(members),
        "differences": differences,
        "claims": findings.table(members),
        "comparisons": comparisons.table(members, differences),
        "answers": systems.answers(members),
    }
    who = ["+".join(m.name for m in members), *(m.sums for m in members)]
    return Joined(members, tables, {name: origin.code(JOINED, name, *who) for name in tables})


def latex(paper: Joined) -> tuple[dict[str, str], dict[str, Path]]:
    """The files of `tex/`, and the pictures that they show: name in the paper -> file."""
    found, shown = findings.joined(paper.members), Shown()
    differs, alike = method.latex(paper.tables["differences"], paper.names, paper.codes["differences"])
    body = [systems.campaigns_latex(paper.tables["campaigns"], paper.codes["campaigns"])]
    first = _lead(paper, shown)
    body += list(comparisons.sentences(paper.tables["comparisons"], paper.codes["comparisons"])) or [NOTHING_COMPARED]
    for section in _sections(paper):
        texts = [*_discussion(paper, found, section.name)]
        if section.name == "systems" and (
            table := systems.answers_latex(paper.tables["answers"], paper.codes["answers"])
        ):
            texts += ["Table~\\ref{tab:answers} has the answers to the questions of the probe.", *shown.here(table)]
        texts += [text for part in section.parts for text in _part(paper, part, shown)]
        if texts:
            head = f"\\section{{{section.title}}}\\label{{sec:{section.name}}}"
            body += [head, f"\\input{{joined/{section.name}}}", *texts, *["\\FlushFloats"] * section.flushed]
    body += ["\\section{Conclusions}\\label{sec:conclusions}", *_conclusions(paper, found, shown.left_out)]
    body += ["\\section{What differs in method}\\label{sec:method}", "\\input{joined/method}", alike]
    body += shown.here(differs)
    for member in paper.members:
        for name in outline.LONG:
            block = fragments.table(member, name, origin.Thing(member, origin.TEX, name).code)
            shown.appendix += [block.text] if block else []
    texts = {
        "front": _front(paper, found) + first,
        "findings": findings.first_page(found, paper.names),
        "content": "\n\n".join(filter(None, body)) + "\n",
        "appendix": "\n".join(shown.appendix),
    }
    return fragments.resolved(texts), shown.pictures


@dataclass
class Shown:
    """What the sections bring beside their text: long tables for the appendix, pictures (name in the paper -> file),
    and in words the figures that carry nothing."""

    appendix: list[str] = field(default_factory=list)
    pictures: dict[str, Path] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    lead: tuple[str, str] = ("", "")  # campaign and name of the figure of the first page

    def picture(self, member: Member, name: str) -> None:
        """Add the picture of a figure. Raises UserError: it is not as it was drawn."""
        picture = derived.require_picture(member.folder / "figures", member.figures[name], "pdf")
        self.pictures[fragments.picture(member, name)] = picture

    def here(self, block: Block | None) -> list[str]:
        """The block where it stands among the text: not where it is long, or none."""
        if block and block.long:
            self.appendix.append(block.text)
        return [] if block is None or block.long else [block.text]


NOTHING_COMPARED = (
    "No point was measured alike in two of the campaigns, so no rate of one is held against that of another."
)


def _lead(paper: Joined, shown: Shown) -> str:
    """The macro of the figure of the first page: that of the first campaign whose figure has enough to show."""
    for member in paper.members:
        name = lead(member.figures)
        if name and fragments.carries(member, name):
            code = origin.Thing(member, origin.FIGURE, name).code
            shown.lead = (member.name, name)
            shown.picture(member, name)
            text = fragments.figure(member, name, code).text.replace("\\JoinedFigure", "\\JoinedLead")
            return f"\\newcommand{{\\JoinedFirst}}{{%\n{text}}}\n"
    return "\\newcommand{\\JoinedFirst}{}\n"


def _results(member: Member, most: int, limited: bool) -> str:
    """Sentences with what each system of a campaign did, by its tables."""
    known = headlines.shortened(LatexPaper(member.folder)["headlines"], most)
    said = " ".join([*headlines.answers(known), *(headlines.limits(known) if limited else [])])
    code = origin.Thing(member, origin.TEX, "table_summary").code
    return f"In \\texttt{{{breakable(escape(member.name))}}}: {said} \\Code{{{code}}}" if said else ""


def _sections(paper: Joined) -> Iterator[outline.Section]:
    figures = dict.fromkeys(name for m in paper.members for name in m.figures)
    tables = dict.fromkeys(p.stem for m in paper.members for p in sorted((m.folder / "tex").glob("table_*.tex")))
    return outline.sections(figures, tables)


def _part(paper: Joined, part: outline.Part, shown: Shown) -> list[str]:
    """What the campaigns have below a heading, each under its name."""
    texts: list[str] = []
    told = []
    for member in paper.members:
        blocks = []
        for name in part.tables:
            if block := fragments.table(member, name, origin.Thing(member, origin.TEX, name).code):
                blocks.append(block)
        for name in outline.chosen(part.figures, member.figures):
            entry = member.figures[name]
            if (member.name, name) == shown.lead:
                continue
            if fragments.carries(member, name):
                blocks.append(fragments.figure(member, name, origin.Thing(member, origin.FIGURE, name).code))
                shown.picture(member, name)
            else:
                said = f"{escape(name.replace('_', ' '))} of \\texttt{{{escape(member.name)}}}"
                shown.left_out.append(f"{said} (\\texttt{{{breakable(escape(entry['table']))}}})")
        texts += [text for block in blocks for text in shown.here(block)]
        named = ", ".join(filter(None, (block.named for block in blocks)))
        told += [f"of \\texttt{{{escape(member.name)}}}: {named}"] if named else []
    head = f"\\paragraph{{{part.title}.}} " if part.title else ""
    said = "; ".join(told)
    return [f"{head}{said[0].upper()}{said[1:]}.", *texts] if told else []


def _discussion(paper: Joined, found: Sequence[findings.Finding], subject: str) -> Iterator[str]:
    if subject == "systems":
        for member in paper.members:
            yield from systems.limits(member)
    yield from findings.sentences(found, subject)


def _front(paper: Joined, found: Sequence[findings.Finding]) -> str:
    """Title, authors, dates and abstract, as macros of the prose."""
    names = [rf"\texttt{{{breakable(escape(name))}}}" for name in paper.names]
    one = paper.members[0].title if len(names) == 1 else f"Storage systems, measured: {words.listed(paper.names)}"
    authors = dict.fromkeys(a for m in paper.members for a in m.plan["campaign"].get("authors", []))
    days = sorted(day for m in paper.members for day in m.days)
    total, stores = findings.totals(found), {s for m in paper.members for s in m.measured["store"].unique()}
    points = words.grouped(str(sum(len(m.measured) for m in paper.members)), r"\,")
    few = len(names) <= FEW
    results = [_results(m, headlines.SHORT if few else 1, few) for m in paper.members]
    asked = (
        f"What do {words.counted(len(stores), 'storage system')} do in {words.counted(len(names), 'campaign')} with "
        f"{points} measured points, what limits them, and which earlier findings hold "
        f"\\Code{{{paper.codes['campaigns']}}}?"
    )
    abstract = " ".join(filter(None, [asked, *results, f"{_totals(total)} \\Code{{{paper.codes['claims']}}}."]))
    said = {
        "Title": escape(one),
        "Authors": escape(", ".join(authors)),
        "Dates": " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "",
        "Abstract": abstract,
        "ClaimsCode": f"\\Code{{{paper.codes['claims']}}}",
    }
    return "".join(f"\\newcommand{{\\Joined{name}}}{{{text}}}\n" for name, text in said.items())


def _totals(total: Mapping[str, int]) -> str:
    """How the findings stand over all campaigns; a campaign that contradicts another is not outvoted."""
    number = {name: n or "none" for name, n in total.items()}
    both = f", {number['both']} confirmed here and refuted there" if total["both"] else ""
    return (
        f"Of {number['findings']} findings and claims, {number['measured']} were measured: "
        f"{number[CONFIRMED]} confirmed wherever anything can be told, {number[REFUTED]} refuted{both}, "
        f"and {number[CANNOT_TELL]} of which nothing can be told"
    )


def _conclusions(paper: Joined, found: Sequence[findings.Finding], out: Sequence[str]) -> list[str]:
    said = [f"{_totals(findings.totals(found))} \\Code{{{paper.codes['claims']}}}.", "\\input{joined/conclusions}"]
    if against := [f for f in found if f.contradicted]:
        said.insert(1, f"Judged both ways: {'; '.join(escape(f.title) for f in against)}.")
    if out:
        why = "since fewer than three medians, or a single place along the axis, tell no more than their table"
        said.append(f"Figures left out, {why}: {'; '.join(out)}.")
    return said


def codes(paper: Joined, texts: Sequence[str]) -> pd.DataFrame:
    """One row per code that the texts show: what it stands for, rows of which table, how many points, their commits."""
    shown = dict.fromkeys(code for text in texts for code in _CODE.findall(text))
    of, over = origin.named(paper.members), {code: name for name, code in paper.codes.items()}
    rows = []
    for code in shown:
        for thing in of.get(code, []):
            counts = "; ".join(f"{r.table}.csv: {len(r.places)} of {r.total} rows" for r in thing.rows)
            lines = "; ".join(f"{r.table}.csv: {r.lines}" for r in thing.rows)
            known = thing.member.commits(thing.keys).get("commit", [])
            head = [code, thing.member.name, thing.kind, thing.name, thing.file, counts, lines]
            rows.append(dict(zip(CODES, [*head, len(thing.keys), ", ".join(known)], strict=True)))
        if code in over:
            name, table = over[code], paper.tables[over[code]]
            told = [f"{name}.csv: {len(table)} of {len(table)} rows", f"{name}.csv: all {len(table)} rows"]
            head = [code, "+".join(paper.names), JOINED, name, f"tables/{name}.csv", *told]
            rows.append(dict(zip(CODES, [*head, sum(len(m.measured) for m in paper.members), ""], strict=True)))
    return pd.DataFrame(rows, columns=CODES)


def _codes_latex(found: pd.DataFrame) -> str:
    lines = [
        row(
            [
                f"\\hypertarget{{code:{r['code']}}}{{\\texttt{{{r['code']}}}}}",
                escape("all" if r["kind"] == JOINED else r["campaign"]),
                breakable(escape(f"{r['kind']} {r['name']}")),
                breakable(escape(r["tables"])),
                words.grouped(str(r["points"]), r"\,"),
                breakable(escape(r["commit"])),
            ]
        )
        for r in found.to_dict("records")
    ]
    caption = (
        "The codes of this paper: of what, from which rows of which table, from how many points, measured by which "
        "commit. \\texttt{storelab explain} tells the points and their records."
    )
    spec = f"l{left(1.8, 4.2, 4.4)}r{left(2.5)}"
    head = ["Code", "Campaign", "Of", "Rows", "Points", "Commit"]
    return longtable(spec, caption, "tab:codes", head, lines) if lines else ""

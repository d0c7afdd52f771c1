"""The findings over several campaigns: every campaign's verdict in a column of its own, never averaged.

Rows of `claims.csv` belong together where claim, query and bound are the same: a campaign may have a claim of its own
of the same name, or an older rule. May import: what `papers` may.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storelab.analysis.latex.parts import escape, left, tex_table
from storelab.analysis.latex.verdicts import judged_number, published
from storelab.analysis.papers import origin
from storelab.analysis.papers.fragments import headings
from storelab.analysis.papers.members import Member
from storelab.analysis.parts import words
from storelab.analysis.statistics.judging import CANNOT_TELL, CONFIRMED, NOT_MEASURED, REFUTED

SAME = ("claim", "says", "query", "expected")
LETTERS = {CONFIRMED: r"\textbf{C}", REFUTED: r"\textbf{R}", CANNOT_TELL: "?"}
ROOMY = 26  # findings that leave room on the first page
WIDTH = 15.6  # cm: of the first page's table
NAME, PRINTED, GAP = 6.2, 1.5, 0.28
ITS_TABLES = {  # the tables that a claim's query asks -> the subject that tells of it; all others: `raw`
    "systems": ("capabilities", "space"),
    "patterns": ("sparse", "events"),
    "since": ("roles", "recovery", "consistency", "durability", "soak", "releases"),
}


@dataclass(frozen=True)
class Judged:
    """What one campaign says of a finding on one system: the row of its `claims.csv`, and the code of it."""

    campaign: str
    code: str
    row: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        return str(self.row["verdict"])


@dataclass(frozen=True)
class Finding:
    """A claim with what all campaigns say that measured it, in their order."""

    claim: str
    says: str
    first: Mapping[str, Any]
    judged: tuple[Judged, ...]

    @property
    def subject(self) -> str:
        table = str(self.first["query"]).partition(".csv")[0]
        return next((subject for subject, tables in ITS_TABLES.items() if table in tables), "raw")

    @property
    def title(self) -> str:
        return self.claim.replace("_", " ")

    def verdicts(self, *wanted: str) -> list[Judged]:
        return [j for j in self.judged if j.verdict in wanted]

    @property
    def contradicted(self) -> bool:
        """Whether it is confirmed here and refuted there."""
        return bool(self.verdicts(CONFIRMED)) and bool(self.verdicts(REFUTED))


def table(members: Sequence[Member]) -> pd.DataFrame:
    """All rows of all campaigns below each other, `campaign` first."""
    return pd.concat([m.table("claims").assign(campaign=m.name) for m in members], ignore_index=True)[
        ["campaign", *members[0].table("claims").columns]
    ]


def joined(members: Sequence[Member]) -> list[Finding]:
    """Every claim of every campaign, in the order of their first mention."""
    found: dict[tuple[str, ...], tuple[Mapping[str, Any], list[Judged]]] = {}
    for member in members:
        rows = member.table("claims").to_dict("records")
        for thing, r in zip(origin.claims(member), rows, strict=True):
            _, judged = found.setdefault(tuple(str(r[c]) for c in SAME), (r, []))
            if r["verdict"] != NOT_MEASURED:
                judged.append(Judged(member.name, thing.code, r))
    return [Finding(key[0], key[1], first, tuple(judged)) for key, (first, judged) in found.items()]


def counted(judged: Sequence[Judged]) -> str:
    """A cell of the first page: `C`, or of several systems `3 C, 1 R`."""
    if len(judged) == 1:
        return LETTERS[judged[0].verdict]
    number = {verdict: sum(j.verdict == verdict for j in judged) for verdict in LETTERS}
    return ", ".join(f"{n}~{LETTERS[verdict]}" for verdict, n in number.items() if n)


def first_page(found: Sequence[Finding], names: Sequence[str]) -> str:
    """A row per finding that was decided anywhere, a column per campaign. The names of undecided ones, and of those
    that were not measured, are below."""
    measured = [f for f in found if f.judged]
    open_ones = [f for f in measured if not f.verdicts(CONFIRMED, REFUTED)]
    lines = []
    for f in (f for f in measured if f not in open_ones):
        cells = [counted([j for j in f.judged if j.campaign == name]) for name in names]
        lines.append([f"{escape(f.title)}{_source(f)}", published(f.first), *cells])
    heads = headings(names)
    wide = round(min((WIDTH - NAME - PRINTED) / len(names) - GAP, 2.6), 2)
    spec, size = left(NAME, PRINTED, *[wide] * len(names)), "scriptsize" if len(lines) <= ROOMY else "tiny"
    body = tex_table(spec, ["Finding", "Printed", *heads], lines, caption="", size=size) if lines else ""
    told = ""
    for said, those in (
        ("Measured, but undecided in all of them", open_ones),
        ("Not measured in any of them", [f for f in found if not f.judged]),
    ):
        if those:
            told += f"{{\\noindent\\scriptsize {said}: {escape('; '.join(f.title for f in those))}.\\par}}\n"
    return f"\\begin{{center}}\n{body}\\end{{center}}\n{told}" if body else told


def _source(f: Finding) -> str:
    return f" \\emph{{({escape(f.first['source'])})}}"


def totals(found: Sequence[Finding]) -> dict[str, int]:
    """How many findings were measured; are confirmed and nowhere refuted; the other way round; both; cannot be told."""
    measured = [f for f in found if f.judged]
    both = [f for f in measured if f.contradicted]
    confirmed = [f for f in measured if f.verdicts(CONFIRMED) and f not in both]
    refuted = [f for f in measured if f.verdicts(REFUTED) and f not in both]
    return {
        "findings": len(found),
        "measured": len(measured),
        CONFIRMED: len(confirmed),
        REFUTED: len(refuted),
        "both": len(both),
        CANNOT_TELL: len(measured) - len(both) - len(confirmed) - len(refuted),
    }


def sentences(found: Sequence[Finding], subject: str) -> Iterator[str]:
    """The discussion of a subject: a sentence on each finding that is confirmed or refuted somewhere, then those of
    which nothing can be told."""
    own = [f for f in found if f.judged and f.subject == subject]
    for f in own:
        told = [f"is {v} {_where(f.verdicts(v))}" for v in (CONFIRMED, REFUTED) if f.verdicts(v)]
        if told:
            told += [f"cannot be told {_campaigns(open_)}"] if (open_ := f.verdicts(CANNOT_TELL)) else []
            yield f"\\emph{{{escape(f.says)}}} {_asked(f)} This {'; it '.join(told)}.{_contradicted(f)}"
    open_ones = [f for f in own if not f.verdicts(CONFIRMED, REFUTED)]
    if open_ones:
        said = "; ".join(f"\\emph{{{escape(f.title)}}}, {_campaigns(f.judged)}" for f in open_ones)
        yield f"Measured, but nothing can be told: {said}."


def _asked(f: Finding) -> str:
    """What the finding expects of the numbers that follow, and the one that was printed."""
    told = "" if pd.isna(f.first["published"]) else f"; printed: {published(f.first)}"
    return f"(Asked: {escape(f.first['expected'])}{told}.)"


def _by_campaign(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    by: dict[str, list[Judged]] = {}
    for j in judged:
        by.setdefault(j.campaign, []).append(j)
    return by


def _where(judged: Sequence[Judged]) -> str:
    """`in a (alpha: 2.1 [1.9, 2.3]; beta) and in b (alpha: 1.2)`, each number with its code."""
    told = []
    for name, own in _by_campaign(judged).items():
        each = []
        for j in own:
            named = ": ".join(filter(None, (escape(j.row["system"]), judged_number(j.row))))
            each.append(f"{named} \\Code{{{j.code}}}")
        told.append(rf"in \texttt{{{escape(name)}}} ({'; '.join(each)})")
    return words.listed(told)


def _campaigns(judged: Sequence[Judged]) -> str:
    """`in a and in b (6 systems)`."""
    told = []
    for name, own in _by_campaign(judged).items():
        told.append(
            rf"in \texttt{{{escape(name)}}}" + (f" ({words.plural(len(own), 'system')})" if len(own) > 1 else "")
        )
    return words.listed(told)


def _contradicted(f: Finding) -> str:
    if not f.contradicted:
        return ""
    if len({j.campaign for j in f.verdicts(CONFIRMED, REFUTED)}) > 1:
        return " The campaigns contradict each other; Table~\\ref{tab:differences} says what differs in method."
    return " The systems differ."

"""Combine the findings of several campaigns. Each campaign has its own column of verdicts; they are not averaged.

Rows of `claims.csv` are combined if claim, query and bound are equal. The name is not enough, because a campaign can
have its own claim with the same name, or an older rule. May import: the same packages as `papers`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storelab.analysis.latex.parts import escape, left, tex_table
from storelab.analysis.latex.templates import Tex
from storelab.analysis.latex.verdicts import WHY, judged_number, published
from storelab.analysis.papers import origin
from storelab.analysis.papers.fragments import headings, wide_table
from storelab.analysis.papers.members import Member
from storelab.analysis.parts import labels
from storelab.analysis.statistics.judging import CONFIRMED, NOT_MEASURED, REFUTED, UNDECIDED
from storelab.core.errors import require_known

SAME = ("claim", "statement", "query", "expected")
LETTERS = {CONFIRMED: r"\textbf{C}", REFUTED: r"\textbf{R}", UNDECIDED: "?"}
MAX_ON_FIRST_PAGE = 26  # maximum number of findings on the first page; if there are more, the letters are smaller
WIDTH = 15.6  # width of the table on the first page in cm
NAME, PRINTED, GAP = 6.2, 1.5, 0.28
TABLES_OF_SUBJECT = {  # subject -> tables whose claims belong to it; claims of all other tables belong to `raw`
    "systems": ("capabilities", "space"),
    "patterns": ("sparse", "events"),
    "since": ("roles", "recovery", "consistency", "durability", "soak", "releases"),
}


@dataclass(frozen=True)
class Judged:
    """The verdict of one campaign on a finding for one system: the row of `claims.csv`, and its code."""

    campaign: str
    code: str
    row: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        return str(self.row["verdict"])


@dataclass(frozen=True)
class Finding:
    """A claim with the verdicts of all campaigns that measured it, in the order of the campaigns."""

    claim: str
    statement: str
    first: Mapping[str, Any]
    judged: tuple[Judged, ...]

    @property
    def subject(self) -> str:
        table = str(self.first["query"]).partition(".csv")[0]
        return next((subject for subject, tables in TABLES_OF_SUBJECT.items() if table in tables), "raw")

    @property
    def title(self) -> str:
        return self.claim.replace("_", " ")

    def verdicts(self, *wanted: str) -> list[Judged]:
        return [j for j in self.judged if j.verdict in wanted]

    @property
    def contradicted(self) -> bool:
        """Return True if the finding is confirmed for some systems and refuted for others."""
        return bool(self.verdicts(CONFIRMED)) and bool(self.verdicts(REFUTED))

    @property
    def confirmed(self) -> bool:
        """Return True if the finding is confirmed for all systems for which it is decided."""
        return bool(self.verdicts(CONFIRMED)) and not self.contradicted

    @property
    def refuted(self) -> bool:
        """Return True if the finding is refuted for all systems for which it is decided."""
        return bool(self.verdicts(REFUTED)) and not self.contradicted

    @property
    def numbers(self) -> Tex:
        """Return the number of each decided verdict with its system and code, for the text of a paper."""
        decided = self.verdicts(CONFIRMED, REFUTED)
        return Tex("; ".join(map(_number_of_system, decided)), bool(decided))


def table(members: Sequence[Member]) -> pd.DataFrame:
    """Return `claims.csv` of all campaigns as one table, with `campaign` as the first column."""
    return pd.concat([m.table("claims").assign(campaign=m.name) for m in members], ignore_index=True)[
        ["campaign", *members[0].table("claims").columns]
    ]


def joined(members: Sequence[Member]) -> list[Finding]:
    """Return the claims of all campaigns as findings, in the order of first occurrence."""
    found: dict[tuple[str, ...], tuple[Mapping[str, Any], list[Judged]]] = {}
    for member in members:
        rows = member.table("claims").to_dict("records")
        for item, r in zip(origin.claims(member), rows, strict=True):
            _, judged = found.setdefault(tuple(str(r[c]) for c in SAME), (r, []))
            if r["verdict"] != NOT_MEASURED:
                judged.append(Judged(member.name, item.code, r))
    return [Finding(key[0], key[1], first, tuple(judged)) for key, (first, judged) in found.items()]


def counted(judged: Sequence[Judged]) -> str:
    """Return the text of a cell on the first page: `C`, or for several systems for example `3 C, 1 R`."""
    if len(judged) == 1:
        return LETTERS[judged[0].verdict]
    number = {verdict: sum(j.verdict == verdict for j in judged) for verdict in LETTERS}
    return ", ".join(f"{n}~{LETTERS[verdict]}" for verdict, n in number.items() if n)


def first_page(found: Sequence[Finding], names: Sequence[str]) -> str:
    """Return a table with one row per decided finding and one column per campaign.

    Below the table are the names of undecided findings, and of findings that were not measured.
    """
    measured = [f for f in found if f.judged]
    open_ones = [f for f in measured if not f.verdicts(CONFIRMED, REFUTED)]
    lines = []
    for f in (f for f in measured if f not in open_ones):
        cells = [counted([j for j in f.judged if j.campaign == name]) for name in names]
        lines.append([f"{escape(f.title)}{_source(f)}", published(f.first), *cells])
    heads = headings(names)
    wide = round(min((WIDTH - NAME - PRINTED) / len(names) - GAP, 2.6), 2)
    spec, size = left(NAME, PRINTED, *[wide] * len(names)), "scriptsize" if len(lines) <= MAX_ON_FIRST_PAGE else "tiny"
    body = tex_table(spec, ["Finding", "Printed", *heads], lines, caption="", size=size) if lines else ""
    below_table = ""
    for heading, those in (
        ("Measured, but undecided in all of them", open_ones),
        ("Not measured in any of them", [f for f in found if not f.judged]),
    ):
        if those:
            below_table += f"{{\\noindent\\scriptsize {heading}: {escape('; '.join(f.title for f in those))}.\\par}}\n"
    return f"\\begin{{center}}\n{body}\\end{{center}}\n{below_table}" if body else below_table


def _source(f: Finding) -> str:
    return f" \\emph{{({escape(f.first['source'])})}}"


def totals(found: Sequence[Finding]) -> dict[str, int]:
    """Return the numbers of findings: all, measured, only confirmed, only refuted, both, and undecided."""
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
        UNDECIDED: len(measured) - len(both) - len(confirmed) - len(refuted),
    }


def judged_table(found: Sequence[Finding], label: str, caption: str, claims: Sequence[str]) -> str:
    """Return a table with one row per claim, in this order: what its source says, and the verdict for each system.

    label: label of the table; caption: LaTeX of its caption. Claims that no campaign measured are excluded.

    Raises UserError if a claim is unknown.
    """
    lines, known = [], {f.claim for f in found}
    for name in claims:
        require_known(f"table {label}", name, known, f"no claim is named {name!r}", "claims")
        for f in (f for f in found if f.claim == name and f.judged):
            cells = [f"{escape(f.statement)}{_source(f)}", published(f.first), escape(f.first["expected"])]
            lines.append([*cells, r"\newline ".join(map(_verdict_line, f.judged))])
    head = ["Finding", "Printed", "Expected", "Now"]
    return wide_table(caption, label, tex_table(left(6.2, 1.7, 2.2, 6.4), head, lines, caption="")) if lines else ""


def _verdict_line(j: Judged) -> str:
    """Return the verdict of a campaign for a system with its number, or with the reason why it is undecided."""
    reason = WHY.get(str(j.row["would_decide"]), "").lower() if j.verdict == UNDECIDED else ""
    system = "" if pd.isna(j.row["system"]) else f"{escape(j.row['system'])}: "
    return f"{LETTERS[j.verdict]} {system}{', '.join(filter(None, (judged_number(j.row), reason)))} \\Code{{{j.code}}}"


def sentences(found: Sequence[Finding], subject: str | None = None) -> Iterator[str]:
    """Yield a sentence about each decided finding, and one sentence about all undecided findings.

    subject: only the findings on this subject.
    """
    subject_findings = [f for f in found if f.judged and subject in (None, f.subject)]
    for f in subject_findings:
        verdict_texts = [f"is {v} {_where(f.verdicts(v))}" for v in (CONFIRMED, REFUTED) if f.verdicts(v)]
        if verdict_texts:
            verdict_texts += [f"is undecided {_campaigns(open_)}"] if (open_ := f.verdicts(UNDECIDED)) else []
            judged = "; it ".join(verdict_texts)
            yield f"\\emph{{{escape(f.statement)}}} {_expected(f)} This {judged}.{_contradicted(f)}"
    open_ones = [f for f in subject_findings if not f.verdicts(CONFIRMED, REFUTED)]
    if open_ones:
        undecided = "; ".join(f"\\emph{{{escape(f.title)}}}, {_campaigns(f.judged)}" for f in open_ones)
        yield f"Measured, but undecided: {undecided}."


def _expected(f: Finding) -> str:
    """Return the number that a finding expects, and the published number, as text."""
    printed = "" if pd.isna(f.first["published"]) else f"; printed: {published(f.first)}"
    return f"(Expected: {escape(f.first['expected'])}{printed}.)"


def _by_campaign(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    by: dict[str, list[Judged]] = {}
    for j in judged:
        by.setdefault(j.campaign, []).append(j)
    return by


def _where(judged: Sequence[Judged]) -> str:
    """Return the campaigns with their systems and numbers: `in a (alpha: 2.1 [1.9, 2.3]; beta) and in b (alpha: 1.2)`.

    Each number is followed by its code.
    """
    parts = []
    for name, members in _by_campaign(judged).items():
        parts.append(rf"in \texttt{{{escape(name)}}} ({'; '.join(map(_number_of_system, members))})")
    return labels.listed(parts)


def _number_of_system(j: Judged) -> str:
    """Return the system and the number of a verdict, with its code."""
    return f"{': '.join(filter(None, (escape(j.row['system']), judged_number(j.row))))} \\Code{{{j.code}}}"


def _campaigns(judged: Sequence[Judged]) -> str:
    """Return the campaigns with their numbers of systems: `in a and in b (6 systems)`."""
    parts = []
    for name, members in _by_campaign(judged).items():
        parts.append(
            rf"in \texttt{{{escape(name)}}}"
            + (f" ({labels.plural(len(members), 'system')})" if len(members) > 1 else "")
        )
    return labels.listed(parts)


def _contradicted(f: Finding) -> str:
    if not f.contradicted:
        return ""
    if len({j.campaign for j in f.verdicts(CONFIRMED, REFUTED)}) > 1:
        return " The campaigns contradict each other; Table~\\ref{tab:differences} lists the differences in method."
    return " The systems differ."

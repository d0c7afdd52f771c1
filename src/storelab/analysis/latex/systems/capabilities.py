"""LaTeX of capabilities.csv: what the systems can do, and the evidence."""

import re
from collections.abc import Iterator

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, HEADLINES
from storelab.analysis.latex.headlines import Headline
from storelab.analysis.latex.parts import breakable, escape, left, longtable, row, title, upright
from storelab.analysis.parts.groups import labelled

ANSWERS = {
    "yes": "yes",
    "no": "\\textbf{no}",
    "differs": "\\textbf{differs}",
    "not tried": "--",
    "error": "error",
    "unclear": "unclear",
}


@FILE("table_capabilities", "capabilities")
@FILLED("capabilities", "capabilities")
def capabilities(table: pd.DataFrame) -> str:
    """A row per question, grouped by topic, and a column per deployment: yes, no, differs, or -- where it was not
    tried."""
    rows = labelled(table)
    deployments, lines = list(rows["deployment"].unique()), []
    for topic, group in rows.groupby("topic", sort=False):
        lines.append(title(1 + len(deployments), escape(_said(topic))))
        for check, answers in group.groupby("check", sort=False):
            of = answers.set_index("deployment")["answer"]
            lines.append(row([escape(_said(check)), *(ANSWERS.get(of.get(d), "") for d in deployments)]))
    caption = (
        "What the systems can do, as found by asking them over the wire and verifying every answer: yes, no, or "
        "differs from what the question expects; a dash: not tried; empty: no question for this protocol. The evidence "
        "of what is not a yes stands in Table~\\ref{tab:evidence}."
    )
    return longtable("l" + "c" * len(deployments), caption, "tab:capabilities", ["", *upright(deployments)], lines)


def _said(name: str) -> str:
    return name.replace("_", " ")


@FILE("table_evidence", "capabilities")
def evidence(table: pd.DataFrame) -> str:
    """What the systems answered where it is not a plain yes."""
    rows = labelled(table[table["answer"].isin(["no", "differs", "unclear", "error"])]) if len(table) else table
    if rows.empty:
        return ""
    lines = [
        row(
            [
                escape(r.deployment),
                escape(_said(r.check)),
                escape(r.answer),
                breakable(escape(re.sub(r"\s+", " ", str(r.evidence))[:400])),
            ]
        )
        for r in rows.itertuples(index=False)
    ]
    spec = f"{left(2.2, 3.8)}l{left(7.6)}"
    return longtable(
        spec,
        "Evidence of answers that are not a plain yes.",
        "tab:evidence",
        ["System", "Question", "Answer", "Evidence"],
        lines,
    )


@HEADLINES("capabilities", "capabilities")
def headlines(table: pd.DataFrame) -> Iterator[Headline]:
    """How many of the questions that were tried a system answered with yes."""
    tried = table[table["answer"] != "not tried"] if len(table) else table
    for system, rows in labelled(tried).groupby("deployment") if len(tried) else []:
        yes = int((rows["answer"] == "yes").sum())
        yield Headline(
            system=str(system),
            kind="Answered with yes",
            unit="",
            asks="how many questions of the probe get a yes",
            lines=(f"{yes} of {len(rows)}",),
            value=f"{yes} of {len(rows)} questions",
            of="with yes",
            where="",
            size=yes / len(rows),
            verb="answered",
        )

"""Tables of a paper that stand over all its campaigns: the campaigns themselves, what their systems can do, what
limited them. May import: what `papers` may."""

from collections.abc import Iterator, Sequence

import pandas as pd

from storelab.analysis.latex.parts import breakable, escape, left, longtable, row, tabular, title, upright
from storelab.analysis.papers import origin
from storelab.analysis.papers.fragments import Block, wide_table
from storelab.analysis.papers.members import Member
from storelab.analysis.parts import groups, words

COLUMNS = ["campaign", "title", "first_day", "last_day", "last_start", "stores", "points", "failed", "evidence"]
SIDE_BY_SIDE = 18  # systems in one table of answers
ANSWERS = {
    "yes": "+",
    "no": r"\textbf{no}",
    "differs": r"\textbf{d}",
    "unclear": "?",
    "error": "e",
    "not tried": "--",
}


def campaigns(members: Sequence[Member]) -> pd.DataFrame:
    """One row per campaign: when it was measured, on what, how much, and the sum of its evidence."""
    rows = []
    for m in members:
        points = m.table("points")
        stores = sorted(m.measured["store"].unique())
        days = m.days or [None]
        head = {"campaign": m.name, "title": m.title, "first_day": days[0], "last_day": days[-1]}
        head |= {"last_start": points["started"].dropna().max(), "stores": ", ".join(stores)}
        head |= {"points": len(m.measured), "failed": int((points["state"] == "failed").sum())}
        rows.append(head | {"evidence": m.sums})
    return pd.DataFrame(rows, columns=COLUMNS)


def campaigns_latex(found: pd.DataFrame, code: str) -> str:
    """The float of these."""
    lines = []
    for r in found.to_dict("records"):
        days = " to ".join(dict.fromkeys(str(d) for d in (r["first_day"], r["last_day"]) if not pd.isna(d)))
        cells = [rf"\texttt{{{breakable(escape(r['campaign']))}}}", escape(r["title"]), escape(days)]
        lines.append(row([*cells, escape(r["stores"]), words.grouped(str(r["points"]), r"\,"), str(r["failed"])]))
    head = ["Campaign", "Title", "Measured", "Systems", "Points", "Failed"]
    body = tabular(f"{left(2.4, 4.3, 2.1, 3.4)}rr", head, lines, "scriptsize")
    return wide_table(f"The campaigns of this paper. \\Code{{{code}}}", "tab:campaigns", body)


def answers(members: Sequence[Member]) -> pd.DataFrame:
    """The answers of the probes of all campaigns: topic, check, campaign, deployment, answer."""
    parts = [groups.labelled(table).assign(campaign=m.name) for m in members if len(table := m.table("capabilities"))]
    columns = ["topic", "check", "campaign", "deployment", "answer"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def answers_latex(found: pd.DataFrame, code: str) -> Block | None:
    """A row per question and a column per system, its campaign above it; as many tables as pages are wide."""
    if found.empty:
        return None
    systems = list(dict.fromkeys(zip(found["campaign"], found["deployment"], strict=True)))
    text = "\n".join(
        _answers(found, systems[i : i + SIDE_BY_SIDE], i == 0, code) for i in range(0, len(systems), SIDE_BY_SIDE)
    )
    return Block(text, True)


def _answers(found: pd.DataFrame, systems: Sequence[tuple[str, str]], first: bool, code: str) -> str:
    lines = []
    of = {(r.topic, r.check, r.campaign, r.deployment): r.answer for r in found.itertuples(index=False)}
    for topic, rows in found.groupby("topic", sort=False):
        lines.append(title(1 + len(systems), escape(topic.replace("_", " "))))
        for check in rows["check"].unique():
            cells = [ANSWERS.get(of.get((topic, check, *system), ""), "") for system in systems]
            lines.append(row([escape(check.replace("_", " ")), *cells]))
    caption = (
        "What the systems answered to the questions of the probe: + yes, d differs from what the question expects, "
        "e error, ? unclear, -- not tried; empty: no question for this protocol. \\texttt{capabilities.csv} of each "
        f"campaign has the evidence. \\Code{{{code}}}"
    )
    heads = upright([f"{campaign}: {deployment}" for campaign, deployment in systems])
    label = "tab:answers" if first else f"tab:answers:{systems[0][0]}:{systems[0][1]}"
    return longtable("l" + "c" * len(systems), caption, label, ["", *heads], lines)


def limits(member: Member) -> Iterator[str]:
    """What limited the systems of a campaign at their best: by verdict, each system with in how many kinds of work."""
    table = member.table("verdicts")
    if table.empty:
        return
    kinds = table.groupby("deployment").size()
    said = []
    for verdict, rows in table.groupby("verdict", sort=False):
        each = [f"{escape(name)} ({n} of {kinds[name]})" for name, n in rows.groupby("deployment").size().items()]
        said.append(f"\\emph{{{escape(verdict)}}}: {', '.join(each)}")
    code = origin.Thing(member, origin.TEX, "table_verdicts").code
    yield (
        f"What limited the systems of \\texttt{{{escape(member.name)}}} at their best, in how many of their kinds of "
        f"work: {'; '.join(said)} \\Code{{{code}}}."
    )

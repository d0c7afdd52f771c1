"""Campaigns beside each other: the ratio over all points that two of them measured alike.

May import: what `papers` may.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import pandas as pd

from storelab.analysis.compare import sides
from storelab.analysis.latex.parts import escape, interval
from storelab.analysis.papers import method
from storelab.analysis.papers.members import Member
from storelab.analysis.parts import speed, words
from storelab.core.errors import UserError

COLUMNS = ["a", "b", "measure", "points", "ratio", "low", "high", "verdict", "reason", "differs"]


def table(members: Sequence[Member], differences: pd.DataFrame) -> pd.DataFrame:
    """A row per pair of campaigns and measure, B over A, over all points that both have; `verdict` is corrected as in
    `storelab compare`; `differs`: in what their methods differ."""
    read = [(m, side) for m in members if (side := _side(m))]
    rows = []
    for (a, mine), (b, theirs) in combinations(read, 2):
        try:
            found, _ = sides.compare(mine, theirs)
        except UserError:
            continue  # no point or no store in common
        whole = found[found["workload"] == sides.ALL].to_dict("records")
        differs = ", ".join(method.differing(differences, a.name, b.name)) or None
        for r in whole:
            head = {"a": a.name, "b": b.name, "measure": r["metric"], "points": r["points"], "differs": differs}
            rows.append(
                head | {c: r[c] for c in ("ratio", "low", "high", "reason")} | {"verdict": r["verdict_corrected"]}
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def _side(member: Member) -> sides.Side | None:
    """None where no run of the campaign has a rate."""
    try:
        return sides.read(str(member.folder), lambda: member.folder.parent)
    except UserError:
        return None


def sentences(found: pd.DataFrame, code: str) -> Iterator[str]:
    """A sentence per pair and measure, and what keeps the ratio from being one of systems alone."""
    for r in found.to_dict("records"):
        what = "Speed" if r["measure"] == speed.SPEED else escape(speed.said(r["measure"])).capitalize()
        over = f"over {words.counted(int(r['points']), 'point')} that both measured"
        verdict = (
            f"\\texttt{{{escape(r['b'])}}} is {r['verdict']}" if "tell" not in r["verdict"] else "it cannot be told"
        )
        why = (
            f" ({escape(r['reason'])})"
            if "tell" in r["verdict"] and isinstance(r["reason"], str) and r["reason"]
            else ""
        )
        differs = (
            f" They differ in {escape(r['differs'])}, so this is no ratio of storage systems alone."
            if isinstance(r["differs"], str)
            else " No difference in method is known."
        )
        yield (
            f"{what} of \\texttt{{{escape(r['b'])}}} over that of \\texttt{{{escape(r['a'])}}}, {over}: "
            f"{interval(r['ratio'], r['low'], r['high'])}; {verdict}{why} \\Code{{{code}}}.{differs}"
        )

"""What limited each system: the table of verdicts. The findings that are judged are in `claims`. May import: what
`latex` may."""

from typing import Any

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, FLAGS, SECTION
from storelab.analysis.latex.parts import FEW, ONE_PIECE, THIN, below, escape, left, longtable, row
from storelab.analysis.parts import groups, words
from storelab.analysis.tables.verdicts import NOT_KNOWN

WITH_FEW = f" {FEW}: fewer than {groups.FEW} operations."  # in the caption of a table with such marks
NAMED = 3  # kinds of work of a system that are named; of more the number


@SECTION("limits", "verdicts")
@FILE("table_verdicts", "verdicts")
@FILLED("verdicts", "verdicts")
def verdicts(table: pd.DataFrame) -> str:
    """Below a line for each system one row per workload and size that has a limit: the best median, where it was
    reached, the verdict and its evidence. Then in words the work whose limit is not known."""
    lines = []
    for r in table[table["verdict"] != NOT_KNOWN].itertuples(index=False):
        beside = f" \\emph{{{escape(f'also {r.also}')}}}" if isinstance(r.also, str) and r.also else ""
        mark = FEW if r.few else ""
        best = f"{words.number(r.best, gap=THIN)}{mark} {escape(r.unit)}; {escape(r.where)}"
        cells = [escape(_work(r)), best, escape(r.verdict), escape(r.evidence) + beside]
        lines.append((escape(r.deployment), row(cells)))
    rest = _unknown(table[table["verdict"] == NOT_KNOWN])
    if not lines:
        return rest
    caption = (
        "What limited each system at the best median rate that was measured, and the evidence. Rules and thresholds "
        "are those of the documentation; the first one that fires is the verdict, others that fire are in italics."
    )
    caption += WITH_FEW if table.loc[table["verdict"] != NOT_KNOWN, "few"].any() else ""
    head = ["Workload", "Best", "Limited by", "Evidence"]
    return longtable(left(4.4, 3.0, 2.3, 5.4), caption, "tab:verdicts", head, below(4, lines)) + rest


def _work(r: Any) -> str:
    return ", ".join(str(v) for v in (r.workload, r.engine, r.what) if isinstance(v, str) and v)


def _unknown(table: pd.DataFrame) -> str:
    """One sentence for each measurement that would tell a limit, with the systems and their work."""
    said = []
    for tells, rows in table.groupby(table["would_tell"].fillna(""), sort=False):
        of = []
        for system, own in rows.groupby("deployment", sort=False):
            works = [_work(r) for r in own.itertuples(index=False)]
            of.append(f"{system} ({'; '.join(works) if len(works) <= NAMED else f'{len(works)} kinds of work'})")
        more = f" What would tell: {escape(tells)}." if tells else ""
        said.append(f"The limit is not known for {escape(words.listed(of))}.{more}")
    return f"\n\\noindent {' '.join(said)}\n" if said else ""


@FLAGS("limits", "verdicts")
def flags(table: pd.DataFrame) -> dict[str, bool]:
    """Return whether the table has a row, and whether it may run over pages."""
    named = table[table["verdict"] != NOT_KNOWN]
    rows = len(named) + named["deployment"].nunique()
    return {"limits_named": bool(rows), "limits_long": rows > ONE_PIECE}

"""The paper's table of verdicts: what limited each system, with the evidence."""

import pandas as pd

from storelab.analysis.latex import FILE, FILLED
from storelab.analysis.latex.parts import THIN, escape, left, longtable, row
from storelab.analysis.parts import words
from storelab.analysis.tables.verdicts.rules import NOT_KNOWN


@FILE("table_verdicts", "verdicts")
@FILLED("verdicts", "verdicts")
def verdicts(table: pd.DataFrame) -> str:
    """One row per system, workload and size: the best median, where it was reached, the verdict and what it rests
    on."""
    lines = []
    for r in table.itertuples(index=False):
        rest = r.would_tell if r.verdict == NOT_KNOWN else r.also
        beside = (
            ("what would tell: " if r.verdict == NOT_KNOWN else "also ") + str(rest)
            if isinstance(rest, str) and rest
            else ""
        )
        what = ", ".join(str(v) for v in (r.workload, r.engine, r.what) if isinstance(v, str) and v)
        best = f"{words.number(r.best, gap=THIN)} {escape(r.unit)}; {escape(r.where)}"
        evidence = escape(r.evidence) + (f" \\emph{{{escape(beside)}}}" if beside else "")
        lines.append(row([escape(r.deployment), escape(what), best, escape(r.verdict), evidence]))
    caption = (
        "What limited each system at the best median rate that was measured, and the evidence. Rules and thresholds "
        "are those of the documentation; the first one that fires is the verdict, others that fire stand in italics. "
        "Where none fires, it says what would tell."
    )
    return longtable(
        left(1.9, 2.6, 2.8, 2.3, 5.4),
        caption,
        "tab:verdicts",
        ["System", "Workload", "Best", "Limited by", "Evidence"],
        lines,
    )

"""LaTeX of a comparison of two campaigns or stores, for `storelab compare --latex`."""

from typing import Any

import pandas as pd

from storelab.analysis.compare import sides
from storelab.analysis.latex.parts import THIN, escape, interval, left, tex_table
from storelab.analysis.parts import speed, words
from storelab.analysis.statistics import ratios

VERDICTS = {ratios.FASTER: r"\textbf{faster}", ratios.SLOWER: r"\textbf{slower}", ratios.CANNOT_TELL: "cannot tell"}


def comparison(table: pd.DataFrame) -> str:
    """`sides.compare` as a longtable: a row per point and metric, the whole below a rule. Needs booktabs and
    longtable."""
    points, whole = table[table["workload"] != sides.ALL], table[table["workload"] == sides.ALL]
    lines = [_compared(said, r) for said, r in zip(sides.described(points), points.to_dict("records"), strict=True)]
    lines += [r"\midrule", *(_compared(f"all {r['points']} points", r) for r in whole.to_dict("records"))]
    a, b = (", ".join(escape(s) for s in points[c].unique()) for c in ("store_a", "store_b"))
    same = "; ".join(sides.in_common(points))
    caption = (
        f"A: {a}; B: {b}.{f' Held fixed: {escape(same)}.' if same else ''} Medians of the runs, the ratio B over A "
        "with its 95\\,\\% interval, and what B is beside A, corrected for the number of rows (Benjamini and Hochberg; "
        "in brackets what a row alone would say); of a latency, lower is faster. Below the rule: the geometric mean "
        "over all points, with repetitions for runs."
    )
    head = ["Point", "Measure", "A", "B", "Runs", "B / A", "B is"]
    return tex_table(f"{left(4.6)}lrrrrl", head, lines, caption, "tab:comparison", floats=False)


def _compared(said: str, r: dict[str, Any]) -> str:
    medians = [words.number(r[c], gap=THIN) if pd.notna(r[c]) else "" for c in ("median_a", "median_b")]
    alone = f" ({r['verdict']})" if r["verdict"] != r["verdict_corrected"] else ""
    return [
        escape(said),
        escape(speed.said(r["metric"])),
        *medians,
        f"{r['n_a']}, {r['n_b']}",
        interval(r["ratio"], r["low"], r["high"]),
        VERDICTS[r["verdict_corrected"]] + alone,
    ]

"""LaTeX of what makes numbers trusted: comparisons, knees and linearity of scaling curves (level 3, analysis)."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from storelab.analysis.compare import sides
from storelab.analysis.latex.parts import THIN, escape, longtable, row
from storelab.analysis.parts import speed, words
from storelab.analysis.statistics import ratios
from storelab.analysis.tables import scaling

VERDICTS = {ratios.FASTER: r"\textbf{faster}", ratios.SLOWER: r"\textbf{slower}", ratios.CANNOT_TELL: "cannot tell"}


def _interval(value: float, low: float, high: float) -> str:
    """`1.05 [1.01, 1.09]`; without an interval the value alone."""
    return words.spread([value, low, high], THIN) if pd.notna(low) else words.number(value, gap=THIN)


def comparison(table: pd.DataFrame) -> str:
    """`sides.compare` as a longtable: a row per point and metric, the whole below a rule. Needs booktabs and longtable."""
    points, whole = table[table["workload"] != sides.ALL], table[table["workload"] == sides.ALL]
    lines = [_compared(said, r) for said, r in zip(sides.described(points), points.to_dict("records"), strict=True)]
    lines += [r"\midrule", *(_compared(f"all {r['points']} points", r) for r in whole.to_dict("records"))]
    a, b = (", ".join(escape(s) for s in points[c].unique()) for c in ("store_a", "store_b"))
    same = "; ".join(sides.in_common(points))
    caption = (
        f"A: {a}; B: {b}.{f' Held fixed: {escape(same)}.' if same else ''} Medians of the runs, the ratio B over A with its 95\\,\\% interval, and what "
        "B is beside A; of a latency, lower is faster. Below the rule: the geometric mean over all points, with repetitions for runs."
    )
    head = ["Point", "Measure", "A", "B", "Runs", "B / A", "B is"]
    return longtable(r">{\raggedright\arraybackslash}p{4.6cm}lrrrrl", caption, "tab:comparison", head, lines)


def _compared(said: str, r: dict[str, Any]) -> str:
    unit = speed.UNITS.get(r["metric"], "")
    name = escape(r["metric"].replace("_", " ")) + (f" [{escape(unit)}]" if unit else "")
    medians = [words.number(r[c], gap=THIN) if pd.notna(r[c]) else "" for c in ("median_a", "median_b")]
    return row(
        [escape(said), name, *medians, f"{r['n_a']}, {r['n_b']}", _interval(r["ratio"], r["low"], r["high"]), VERDICTS[r["verdict"]]]
    )


def knees(table: pd.DataFrame) -> str:
    """`scaling.csv` in the paper: a row per curve with its knee, plateau and linearity; empty where no curve was measured."""
    if table.empty:
        return ""
    axes = [c for c in table.columns[2 : table.columns.get_loc("axis")] if c not in scaling.AXES and table[c].nunique() > 1]
    held = [c for c in scaling.AXES if c in table and table[c].nunique() > 1]
    lines = []
    for r in table.sort_values(["workload", "axis"], kind="stable").to_dict("records"):
        said = ", ".join(filter(None, (words.value_text(c, r[c]) for c in (*axes, *held) if not pd.isna(r[c]))))
        knee = _interval(r["knee_value"], r["knee_low"], r["knee_high"]) if r["curve"] == scaling.KNEE else ""
        beyond = f" (knee beyond {words.number(r['knee_low'])}, if any)" if not knee and r["knee_low"] > r["least"] else ""
        plateau = f"{_interval(r['plateau_value'], r['plateau_low'], r['plateau_high'])}~{speed.UNITS[r['metric']]}" if knee else ""
        lines.append(
            row(
                [
                    escape(f"{r['store']}, {r['workload'].replace('_', ' ')}"),
                    escape(said),
                    f"{escape(words.heading(r['axis']))} {r['least']:g}--{r['most']:g}",
                    f"{r['n']:g}",
                    knee or escape(f"{r['curve']}{beyond}"),
                    plateau,
                    _linearity(r),
                ]
            )
        )
    left = r">{\raggedright\arraybackslash}p{"
    head = ["Store, workload", "Held fixed", "Axis", "Runs", "Knee", "Plateau", "Linearity"]
    caption = "Knees of the scaling curves with the rate on the plateau, and linearity, each with its 95\\,\\% interval."
    return longtable(f"l{left}2.9cm}}lr{left}2.9cm}}ll", caption, "tab:knees", head, lines)


def _linearity(r: Mapping[str, Any]) -> str:
    """To two decimals: 1 is proportional."""
    value, low, high = (words.number(r[f"linearity_{part}"], places=2) for part in ("value", "low", "high"))
    return "" if pd.isna(r["linearity_value"]) else f"{value} [{low}, {high}]"

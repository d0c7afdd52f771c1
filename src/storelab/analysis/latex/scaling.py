"""LaTeX of scaling.csv: knees and linearity of scaling curves; figures along rows of axes that go together."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from storelab.analysis.figures.systems.together import STEM
from storelab.analysis.latex import FILE, FILLED, FLAGS, SECTION
from storelab.analysis.latex.parts import below, camel, escape, interval, left, longtable, row
from storelab.analysis.parts import speed, words
from storelab.analysis.statistics.knees import CANNOT_TELL, KNEE, PEAK
from storelab.analysis.tables import scaling


def _said(axis: str) -> str:
    """The axis of a curve; of those that go together, the first with the others."""
    first, *others = map(words.heading, axis.split(scaling.TOGETHER))
    return f"{first} (with {', '.join(others).lower()})" if others else first


@FILE("table_knees", "scaling")
@FILLED("curves", "scaling")
def knees(table: pd.DataFrame) -> str:
    """Return a row per curve of `scaling.csv` with its knee, plateau and linearity, below a line that says of what and
    along what. Curves of which the runs do not tell are left out; empty where no other was measured."""
    axes = [
        c for c in table.columns[2 : table.columns.get_loc("axis")] if c not in scaling.AXES and table[c].nunique() > 1
    ]
    held = [c for c in scaling.AXES if c in table and table[c].nunique() > 1]
    lines = []
    for r in table[table["curve"] != CANNOT_TELL].sort_values(["workload", "axis"], kind="stable").to_dict("records"):
        said = ", ".join(filter(None, (words.value_text(c, r[c]) for c in (*axes, *held) if not pd.isna(r[c]))))
        ended = r["curve"] in (KNEE, PEAK)
        knee = interval(r["knee_value"], r["knee_low"], r["knee_high"]) if ended else ""
        later = not ended and r["knee_low"] > r["least"]
        beyond = f" (knee beyond {words.number(r['knee_low'])}, if any)" if later else ""
        plateau = (
            f"{interval(r['plateau_value'], r['plateau_low'], r['plateau_high'])}~{speed.UNITS[r['metric']]}"
            if r["curve"] == KNEE
            else ""
        )
        of = escape(f"{r['store']}, {r['workload'].replace('_', ' ')}: {_said(r['axis'])} ")
        of += f"{r['least']:g}--{r['most']:g}"
        shape = f"{PEAK} {knee}" if r["curve"] == PEAK else knee or escape(f"{r['curve']}{beyond}")
        lines.append((of, row([escape(said), f"{r['n']:g}", shape, plateau, scaling.linearity(r)])))
    if not lines:
        return ""
    head = ["Held fixed", "Runs", "Knee", "Plateau", "Linearity"]
    caption = (
        "Knees of the scaling curves with the rate on the plateau (a peak has none: the rate falls beyond it), and "
        "linearity, each with its 95\\,\\% interval."
    )
    return longtable(f"{left(5.2)}r{left(3.4)}ll", caption, "tab:knees", head, below(5, lines))


@FILE("along", "points", "drawn")
def along(points: pd.DataFrame, drawn: Mapping[str, Any]) -> str:
    """The figures along rows of axes that go together, in the order of the plan."""
    return "".join(f"\\Fig{camel(name)}\n" for name in drawn if name.split("_")[0] == STEM)


@FLAGS("scaling", "scaling")
def told(table: pd.DataFrame) -> dict[str, bool]:
    return {"curves_told": bool((table["curve"] != CANNOT_TELL).any())}


@SECTION("along", "along")
@FLAGS("along", "drawn", "points")
def flags(drawn: Mapping[str, Any], points: pd.DataFrame) -> dict[str, bool]:
    ends = points.reindex(columns=["front_ends", "clients"]).astype("Float64")
    idle = bool((ends["front_ends"] > ends["clients"]).any())
    return {"along": any(name.split("_")[0] == STEM for name in drawn), "idle_front_ends": idle}

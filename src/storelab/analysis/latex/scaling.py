"""LaTeX of scaling.csv: knees and linearity of scaling curves; figures along rows of axes that go together."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from storelab.analysis.figures.planned import STEM
from storelab.analysis.latex import FILE, FILLED, FLAGS, HEADLINES, SECTION
from storelab.analysis.latex.headlines import Headline, closed, runs
from storelab.analysis.latex.parts import THIN, below, camel, escape, interval, left, longtable, row
from storelab.analysis.parts import groups, speed, words
from storelab.analysis.statistics.knees import CANNOT_TELL, KNEE, PEAK
from storelab.analysis.tables import throughput


def _said(axis: str) -> str:
    """The axis of a curve; of those that go together, the first with the others."""
    first, *others = map(words.heading, axis.split(throughput.TOGETHER))
    return f"{first} (with {', '.join(others).lower()})" if others else first


@FILE("table_knees", "scaling")
@FILLED("curves", "scaling")
def knees(table: pd.DataFrame) -> str:
    """Return a row per curve of `scaling.csv` with its knee, plateau and linearity, below a line that says of what and
    along what. Curves of which the runs do not tell are left out; empty where no other was measured."""
    axes = [
        c
        for c in table.columns[2 : table.columns.get_loc("axis")]
        if c not in throughput.CURVE_AXES and table[c].nunique() > 1
    ]
    held = [c for c in throughput.CURVE_AXES if c in table and table[c].nunique() > 1]
    lines, plateaus = [], bool((table["curve"] == KNEE).any())
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
        cells = [escape(said), f"{r['n']:g}", shape, *([plateau] if plateaus else []), throughput.linearity(r)]
        lines.append((of, row(cells)))
    if not lines:
        return ""
    head = ["Held fixed", "Runs", "Knee", *(["Plateau"] if plateaus else []), "Linearity"]
    beyond = "with the rate on the plateau (a peak has none: the rate falls beyond it), " if plateaus else ""
    caption = f"Knees of the scaling curves {beyond}and linearity, each with its 95\\,\\% interval."
    return longtable(f"{left(5.2)}r{left(3.4)}l{'l' * plateaus}", caption, "tab:knees", head, below(len(head), lines))


@FILE("along", "points", "drawn")
def along(points: pd.DataFrame, drawn: Mapping[str, Any]) -> str:
    """The figures along rows of axes that go together, in the order of the plan."""
    return "".join(f"\\Fig{camel(name)}\n" for name in drawn if name.split("_")[0] == STEM)


@HEADLINES("scaling", "scaling", "throughput")
def headlines(table: pd.DataFrame, rates: pd.DataFrame) -> Iterator[Headline]:
    """The highest linearity over front-ends, with the rates; or that the runs do not decide it."""
    curves = closed(table)
    curves = curves[curves["axis"].str.split(throughput.TOGETHER).str[0] == "front_ends"] if len(curves) else curves
    for system, own in curves.groupby("deployment") if len(curves) else []:
        known = own[(own["curve"] != CANNOT_TELL) & own["linearity_low"].notna()]
        best = (known if len(known) else own).sort_values(["linearity_value", "most"]).iloc[-1]
        each = runs({"n": best["n"] / best["values"]})
        said = {
            "system": str(system),
            "kind": "Linearity over front-ends",
            "unit": "",
            "asks": "how rates scale with front-ends",
        }
        if known.empty:
            told = {"verb": "had", "value": "runs that do not decide", "of": "how rates scale with front-ends"}
            yield Headline(**said, **told, lines=("not decided", each), where=each, size=-math.inf)
            continue
        many = f"{best['least']:g} to {best['most']:g} front-ends"
        what = [words.value_text(c, best[c]) for c in ("workload", "object_size_bytes", "clients")]
        where = ", ".join([*map(escape, filter(None, [*what, _rates(best, rates)])), each])
        yield Headline(
            **said,
            lines=(throughput.linearity(best), f"over {many}", where),
            value=f"a linearity of {throughput.linearity(best)}",
            of=f"over {many}",
            where=where,
            size=float(best["linearity_value"]),
            reach=(float(best["linearity_low"]), float(best["linearity_high"])),
        )


def _rates(curve: pd.Series, rates: pd.DataFrame) -> str:
    """The medians along a curve of one axis: `18.0 to 35.9 to 71.7 MB/s`; empty where several axes go together."""
    name = "throughput_median_mb_per_s" if curve["metric"] == speed.THROUGHPUT else "rate_median_per_s"
    if throughput.TOGETHER in curve["axis"] or name not in rates:
        return ""
    held = [c for c in curve.index[: curve.index.get_loc("axis")] if c != curve["axis"] and c in rates]
    same = [groups.alike(values) == groups.alike(curve[held]) for values in rates[held].to_numpy()]
    along = rates[same].sort_values(curve["axis"])[name].astype(float)
    return f"{' to '.join(words.number(v, gap=THIN) for v in along)} {speed.UNITS[curve['metric']]}"


@FLAGS("scaling", "scaling")
def told(table: pd.DataFrame) -> dict[str, bool]:
    return {"curves_told": bool((table["curve"] != CANNOT_TELL).any())}


@SECTION("along", "along")
@FLAGS("along", "drawn", "points")
def flags(drawn: Mapping[str, Any], points: pd.DataFrame) -> dict[str, bool]:
    ends = points.reindex(columns=["front_ends", "clients"]).astype("Float64")
    idle = bool((ends["front_ends"] > ends["clients"]).any())
    return {"along": any(name.split("_")[0] == STEM for name in drawn), "idle_front_ends": idle}

"""Figure of the growth of both strata over the days of a release, after figure 15 of J. Phys. Conf. Ser. 664 022001.

The published curve has no numbers; its mean of a day, times the factor of our release, is the line beside ours.
"""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.figures.panels import varying
from storelab.analysis.figures.specification import Curve, Measure, Reference, Specification
from storelab.analysis.parts import words
from storelab.analysis.records import published
from storelab.analysis.tables import releases

GROWTH = {"repository_mb": 1000.0, "repository_objects": 1.0}  # measure -> its units in those of published.release()


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """With `series`: the stratum, the store it is on, and what else was swept."""
    several = varying(rows, (), {"day", "days", "stratum0"})
    names = []
    for _, r in rows.iterrows():
        told = [words.value_text(c, r[c]) for c in several]
        names.append(", ".join(filter(None, [f"stratum {r['stratum']} on {releases.place(r)}", *told])))
    return rows.assign(series=names).sort_values(["series", "day"], kind="stable")


def _printed(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
    """The published mean of a day, day by day, times the factor; none where there are several factors."""
    factors = rows["factor"].unique()
    if len(factors) != 1:
        return
    files, volume_gb = published.release()
    metric = f"{measure.curves[0].metric}_{measure.curves[0].unit}"
    a_day = {"repository_objects": files, "repository_mb": volume_gb}[metric] * GROWTH[metric] * factors[0]
    days = sorted({0, *(int(d) for d in rows["day"])})
    yield Reference(pd.Series([a_day * d for d in days], index=days, dtype=float), "--", f"2015, × {factors[0]:g}")


def _measure(unit: str, label: str) -> Measure:
    return Measure((Curve("repository", unit),), label, log_from=float("inf"))


FIGURES = {
    "releases": Specification(
        table="releases",
        where={"workload": ("publish", "replicate")},
        prepare=_named,
        measures=(_measure("mb", "Volume [MB]"), _measure("objects", "Objects")),
        x="day",
        x_label="Day",
        x_scale="linear",
        panels=("workload",),
        heading=lambda first, _: "",
        columns=True,
        references=_printed,
        title="Growth of a repository of software",
        caption="Growth of a repository of nightly software releases over its days, by stratum. Dashed: the mean of "
        "what was new on a day in 2015, times the factor of this release. A day that failed is flat; the next one "
        "sends what is missing. Medians; {bars}. {shared}",
    ),
}

"""Figure of the phases of points with roles, over what was before the disturbance: a panel for each fault, with all
systems. May import: what `figures` may."""

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from storelab.analysis.figures.specification import MIN_VALUES, Curve, Measure, Reference, Specification
from storelab.analysis.parts import groups, words
from storelab.analysis.records import roles

AFTERWARDS = (roles.DURING, roles.REBUILDING, roles.AFTER)


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """The phases that have a ratio, in order of time, with the system: with what else tells its points apart, where it
    has several of one fault."""
    rows = rows[rows["rate_over_before_median_ratio"].notna()]
    rows = groups.labelled(rows if "fault" in rows else rows.assign(fault="none"))
    axes = [c for c in words.axes_of(rows) if c not in {*words.DEPLOYMENT_NAMES, "fault"} and rows[c].nunique() > 1]
    several = rows.duplicated(["deployment", "fault", "role", "phase"], keep=False)
    for place, r in rows[several].iterrows():
        more = [words.value_text("workload", r["workload"]), words.settings((c, r[c]) for c in axes)]
        rows.loc[place, "deployment"] = ", ".join(filter(None, [r["deployment"], *more]))
    rows = rows.assign(
        phase=pd.Categorical(rows["phase"], AFTERWARDS, ordered=True),
        deployment=pd.Categorical(rows["deployment"], list(dict.fromkeys(rows["deployment"])), ordered=True),
    )
    if rows.groupby("fault")["deployment"].nunique().max() < MIN_VALUES:
        return rows  # of the other figure
    rows = rows.sort_values(["role", "phase", "deployment"], kind="stable")
    series = (f"{role}, {phase}" for role, phase in zip(rows["role"], rows["phase"], strict=True))
    return groups.with_column(rows, "series", series)


def _unchanged(_: pd.DataFrame, __: Measure) -> Iterator[Reference]:
    yield Reference(1.0)


_BY_SYSTEM = Specification(
    table="roles",
    where={"phase": list(AFTERWARDS)},
    measures=(
        Measure((Curve("rate_over_before", "ratio"),), "Rate over that before", log_from=float("inf")),
        Measure((Curve("latency_p99_over_before", "ratio"),), "p99 over that before"),
    ),
    prepare=_in_order,
    x="deployment",
    panels=("fault",),
    references=_unchanged,
    columns=True,
    title="Each phase over that before the disturbance",
    caption="Rate and p99 of the latency of each role in the phases of its runs, over those before the disturbance; 1 "
    "(dashed) is no change. Medians; {bars}. {shared}",
    height=1.2,
    line=0.25,
)
_BY_PHASE = replace(_BY_SYSTEM, x="phase", hue=("role",), within=True, panels=("store", "workload"), height=1.6)
FIGURES = {"role_phases": replace(_BY_SYSTEM, otherwise=_BY_PHASE)}

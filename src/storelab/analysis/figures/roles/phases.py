"""Figure of the phases of points with roles, beside what was before the disturbance. May import: what `figures` may."""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.figures.specification import Curve, Measure, Reference, Specification
from storelab.analysis.records import roles

AFTERWARDS = (roles.DURING, roles.REBUILDING, roles.AFTER)


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows[rows["rate_over_before_median_ratio"].notna()]
    return rows.assign(phase=pd.Categorical(rows["phase"], AFTERWARDS, ordered=True))


def _unchanged(_: pd.DataFrame, __: Measure) -> Iterator[Reference]:
    yield Reference(1.0)


FIGURES = {
    "role_phases": Specification(
        table="roles",
        where={"phase": list(AFTERWARDS)},
        measures=(
            Measure((Curve("rate_over_before", "ratio"),), "Rate over that before", log_from=float("inf")),
            Measure((Curve("latency_p99_over_before", "ratio"),), "p99 of the latency over that before"),
        ),
        prepare=_in_order,
        x="phase",
        hue=("role",),
        within=True,
        panels=("store", "workload"),
        references=_unchanged,
        columns=True,
        title="Each phase over that before the disturbance",
        caption="Rate and latency of each role in the phases of its runs, over those before the disturbance; 1 "
        "(dashed) is no change. Medians; {bars}. {shared}",
        height=1.6,
        line=0.25,
    ),
}

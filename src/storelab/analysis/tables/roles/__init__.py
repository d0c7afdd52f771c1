"""`roles.csv`: what each role reached in each phase of its runs, and beside that before the disturbance. Tables of
points that do several things at once live in this folder. May import: what `tables` may.

Phases are those of `records/roles.py`. A ratio is that of one run, phase over `before`; its median and interval are
over the runs, so that what differs from run to run is in both. There is none of a phase so short that fewer than
LEAST operations would have ended in it at the rate before: chance alone would make it. A phase shorter than SHORTEST_S,
or than one operation at the rate before, has no row. Rates count an operation by the part of its duration that is in
the phase; a phase in which nothing was done has a rate (of 0) only where LEAST operations were expected. Of the counts
of a phase see `records/cells.py`.
"""

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records import cells, roles
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.records.unended import BOUNDS
from storelab.analysis.tables.points import DTYPES

METRICS = (("rate", "per_s"), ("throughput", "mb_per_s"), *((f"latency_{p}", "ms") for p in ("p50", "p90", "p99")))
RATIOS = {  # metric of the ratio -> column of a run
    "rate_over_before": "rate_per_s",
    "latency_p50_over_before": "latency_p50_ms",
    "latency_p99_over_before": "latency_p99_ms",
}
LEAST = 5  # operations
SHORTEST_S = 0.1  # of a phase
DELETING = ("delete", "collect_garbage")  # workloads
SUMS = ("operations", "bytes", "errors", "work", "work_bytes", "hung", "not_begun")
ALL = (*METRICS, *((name, "ratio") for name in RATIOS))
NAMES = tuple(name for name, _ in ALL)  # `lower_bounds` names some of them
COLUMNS = (
    *groups.COUNTS,
    "role",
    "does",
    "phase",
    "length_s",
    *groups.spread(ALL),
    "few",
    "operations",
    "errors",
    "hung",
    "not_begun",
    BOUNDS,
    "shared_host",
    *groups.CPU,
    "duration_s",
)


def axis_columns(plan: Mapping[str, Any]) -> dict[str, str]:
    """Column -> pandas dtype of the axes of points with roles: those of the point, then `<role>.<axis>`."""
    having = roles.workloads(plan)
    axes = [a for name, w in plan["workloads"].items() if name in having for a in w["axes"]]
    return {a["column"]: DTYPES[a["kind"]] for a in sorted(axes, key=lambda a: "." in a["column"])}


def identity(axes: Mapping[str, str]) -> list[str]:
    """The columns that make a group of points with roles."""
    return ["store", "workload", *axes]


def of_runs(campaign: Campaign) -> pd.DataFrame:
    """One row per measured run with roles, role and phase of it: key, role, does (the role's workload), phase,
    length_s, SUMS, rate_operations (that the rate depends on), the columns of METRICS
    and of RATIOS (null in `before`, where nothing was before, and of phases that are too short), BOUNDS (of both;
    null: none)."""
    spans = roles.phase_table(campaign).rename(columns={"cell": "phase"})
    counted = cells.in_phases(campaign)
    measures = [*SUMS, *cells.LATENCIES, BOUNDS]
    place = ["key", "role", "phase"]
    found = counted.cells.rename(columns={"cell": "phase"}) if counted else pd.DataFrame(columns=[*place, *measures])
    both = spans.merge(found[[*place, *measures]], on=place, how="left")
    both[[*SUMS]] = both[[*SUMS]].astype(float).fillna(0.0)
    both["length_s"] = (both["end_ns"] - both["begin_ns"]) / 1e9
    both["rate_operations"] = _rate_operations(both)
    does = {(key, r["name"]): r["workload"] for key in roles.keys(campaign) for r in campaign.runs[key]["roles"]}
    both["does"] = [does[pair] for pair in zip(both["key"], both["role"], strict=True)]
    before = both[both["phase"] == roles.BEFORE].set_index(["key", "role"])
    own = pd.MultiIndex.from_frame(both[["key", "role"]])
    usual = before["work"] / before["length_s"]
    expected = both["length_s"] * usual.where(usual > 0).reindex(own).to_numpy()
    tells = expected >= LEAST
    worked = (both["work"] + both["errors"] > 0) | (tells & (both["phase"] != roles.BEFORE))
    both["rate_per_s"] = (both["work"] / both["length_s"]).where(worked)
    both["throughput_mb_per_s"] = (both["work_bytes"] / 1e6 / both["length_s"]).where(worked)
    before = both[both["phase"] == roles.BEFORE].set_index(["key", "role"])
    for name, column in RATIOS.items():
        base = before[column].astype(float).reindex(own).to_numpy()
        ratio = both[column].astype(float) / pd.Series(base, index=both.index).where(base > 0)
        both[f"{name}_ratio"] = ratio.where(tells & (both["phase"] != roles.BEFORE))
    both[BOUNDS] = [_with_ratios(told) for told in both[BOUNDS]]
    return both[~((both["length_s"] < SHORTEST_S) | (expected < 1))].reset_index(drop=True)


def _rate_operations(phases: pd.DataFrame) -> pd.Series:
    """Return the numbers of operations that the rates depend on: a rate of 0 depends on those that failed."""
    return phases["operations"].where(phases["operations"] > 0, phases["errors"])


def _with_ratios(told: Any) -> str | None:
    """The names of latencies that are lower bounds, and of the ratios that are so too."""
    if pd.isna(told):
        return None
    names = told.split(", ")
    return ", ".join([*names, *(r for r, of in RATIOS.items() if of.removesuffix("_ms") in names)])


def with_points(found: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The rows of valid runs, with what points.csv says of them."""
    kept = [*by, "key", "rep", "shared_host", *groups.CPU, "host_cpu_percent", "duration_s"]
    ok = points[points["state"] == "ok"].reindex(columns=kept)
    return ok.merge(found, on="key")


def table(found: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of points (columns `by`), role and phase: medians over the valid runs of METRICS and RATIOS
    with interval or range; length_s: median length of the phase; operations, errors: sums over the runs, of operations
    that ended in the phase; few: the rate of one run depends on fewer than `groups.FEW` of them; hung, not_begun: of
    those that waited in it and never ended; BOUNDS: what is a lower bound in one of the runs, and so here. Points in
    their order, roles as the campaign names them, phases by time."""
    runs = with_points(found, points, by)
    runs["place"] = runs.groupby("role", sort=False).ngroup() * 10 + runs["phase"].map(roles.PHASES.index)
    columns = [*by, "place", *COLUMNS]
    made = groups.summarised(runs, [*by, "place", "role", "does", "phase"], ALL, columns, _more, "rate_per_s")
    return made.drop(columns="place").astype(dict.fromkeys(("operations", "errors", "hung", "not_begun"), "Int64"))


def _more(group: pd.DataFrame) -> dict[str, Any]:
    bounds = {name for told in group[BOUNDS].dropna() for name in told.split(", ")}
    return {
        "length_s": group["length_s"].median(),
        "operations": round(group["operations"].sum()),
        **{name: round(group[name].sum()) for name in ("errors", "hung", "not_begun")},
        BOUNDS: ", ".join(n for n in NAMES if n in bounds) or None,
        "shared_host": bool(group["shared_host"].any()),
        **{name: group[name].astype(float).median() for name in groups.CPU},
        "duration_s": group["duration_s"].iloc[0],
    }


def beside(table: pd.DataFrame, does: str, others: Collection[str]) -> pd.DataFrame:
    """Rows of roles.csv of phase `during`, of roles that do one thing while a role that came later does one of the
    others, and no fault."""
    if table.empty:
        return table
    rows = table[(table["phase"] == roles.DURING) & (table.get("fault", "none") == "none")]
    having = rows.loc[rows["does"].isin(others), "workload"]
    return rows[(rows["does"] == does) & rows["workload"].isin(having)]


def numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """roles_sweeps (sweeps), roles_most (roles at once); uploads_beside: the rate of uploads while deletions ran beside
    them, over that before, of the group that was slowed down most. Absent data, no row."""
    if table.empty:
        return []
    at_once = table.groupby("workload")["role"].nunique()
    out: list[tuple[str, Any, str]] = [
        ("roles_sweeps", len(at_once), ""),
        ("roles_most", int(at_once.max()), ""),
    ]
    slowed = beside(table, "put", DELETING)
    slowed = slowed[slowed["rate_over_before_median_ratio"].notna()]
    if len(slowed):
        worst = slowed.loc[slowed["rate_over_before_median_ratio"].astype(float).idxmin()]
        parts = [100 * worst[f"rate_over_before_{p}_ratio"] for p in groups.PARTS]
        out += [
            ("uploads_beside", words.spread(parts), "%"),
            ("uploads_beside_where", words.deployment(worst), ""),
        ]
    return out

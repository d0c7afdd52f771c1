"""Points with roles: the rates of each role, the recovery of the store, and the events of each run.

* `roles.csv`: the rates and latencies of each role in each phase of its runs (`records/roles.py`), compared with those
  before the disturbance. A ratio is computed within one run, as the value in a phase over the value in `before`. Its
  median and interval are over the runs, so that differences between runs cancel. If fewer than MIN_OPERATIONS
  operations were expected in a phase from the rate before, the ratio would be random, and is null. A phase shorter than
  SHORTEST_S, or than one operation at the rate before, has no row. Rates count an operation by the part of its duration
  that is in the phase. A phase without any work has a rate (of 0) only if MIN_OPERATIONS operations were expected.
* `recovery.csv`: the effect of a fault on each role, and the recovery of the store. All times are measured for each run
  from the start of the fault's first act:

  * failed: operations that failed after the start of the act, including those that hung.
  * pause: the longest time without a completed operation that ended after the start of the act; pause_before: the
    longest such time in the phase `before`. The operations of a bin are assumed to be evenly spaced.
  * service: if the longest pause is an interruption, the time from the act that caused it until its end; 0 if it is not
    an interruption; null if no operation was completed after it (`never_served`). A pause is an interruption if it is
    longer than TIMES times pause_before, and longer than MIN_S. Its cause is the first act that began in the pause and
    does not undo another act. Without such an act, it is the last act before the pause.
  * degraded, rebuilding, after: rate and p99 of these phases over those of `before` (`roles.csv`).
  * noticed: time until the store reported that it is not clean; undone: time until the last act was undone; whole: time
    until the store reported that it is clean, and did not report a fault again; whole_after: time from the last undoing
    until then (0: it was clean before).

  The last rows are the published numbers of 2013 about a chassis that was powered off, with their `source`.
* `timeline.csv`: each run over time, in steps from the agreed start. A step is 100 ms in runs of up to two minutes, 1 s
  in runs of up to two hours, else 60 s. It is never shorter than a bin of the record. For a part of a series, the
  length of the whole series determines the step.
* `disturbances.csv`: the events of each run.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.records import published, roles, scan, selection
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.records.roles import BOUNDS
from storelab.analysis.tables.points import DTYPES
from storelab.core.axes.roles import UNDOES

METRICS = (("rate", "per_s"), ("throughput", "mb_per_s"), *((f"latency_{p}", "ms") for p in ("p50", "p90", "p99")))
RATIOS = {  # name of the ratio -> column whose values are compared
    "rate_over_before": "rate_per_s",
    "latency_p50_over_before": "latency_p50_ms",
    "latency_p99_over_before": "latency_p99_ms",
}
MIN_OPERATIONS = 5
SHORTEST_S = 0.1  # shortest length of a phase
DELETING = ("delete", "collect_garbage")  # workloads
SUMS = ("operations", "bytes", "errors", "work", "work_bytes", "hung", "not_begun")
ALL = (*METRICS, *((name, "ratio") for name in RATIOS))
NAMES = tuple(name for name, _ in ALL)  # possible names in `lower_bounds`
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
    *groups.SHARED,
)


def axis_columns(plan: Mapping[str, Any]) -> dict[str, str]:
    """Return the axes of points with roles: column -> pandas dtype.

    The axes of the point are first, followed by those of its roles (`<role>.<axis>`).
    """
    having = roles.workloads(plan)
    axes = [a for name, w in plan["workloads"].items() if name in having for a in w["axes"]]
    return {a["column"]: DTYPES[a["kind"]] for a in sorted(axes, key=lambda a: "." in a["column"])}


def identity(axes: Mapping[str, str]) -> list[str]:
    """Return the columns that identify a group of points with roles."""
    return ["store", "workload", *axes]


def run_rows(campaign: Campaign) -> pd.DataFrame:
    """Return one row for each measured run with roles, role and phase.

    Columns: key, role, does (the role's workload), phase, length_s, SUMS, rate_operations (number of operations used
    for the rate), METRICS, RATIOS, and BOUNDS (names of the metrics and ratios that are lower bounds; null: none).
    Ratios are null in the phase `before`, in runs without this phase, and in phases that are too short.
    """
    spans = roles.phase_table(campaign).rename(columns={"cell": "phase"})
    counted = roles.in_phases(campaign)
    measures = [*SUMS, *roles.LATENCIES, BOUNDS]
    place = ["key", "role", "phase"]
    found = counted.cells.rename(columns={"cell": "phase"}) if counted else pd.DataFrame(columns=[*place, *measures])
    both = spans.merge(found[[*place, *measures]], on=place, how="left")
    both[[*SUMS]] = both[[*SUMS]].astype(float).fillna(0.0)
    both["length_s"] = (both["end_ns"] - both["begin_ns"]) / 1e9
    # If no operation succeeded, the rate is 0, and is computed from the failed operations.
    both["rate_operations"] = both["operations"].where(both["operations"] > 0, both["errors"])
    does = {(key, r["name"]): r["workload"] for key in roles.keys(campaign) for r in campaign.runs[key]["roles"]}
    both["does"] = [does[pair] for pair in zip(both["key"], both["role"], strict=True)]
    before = both[both["phase"] == roles.BEFORE].set_index(["key", "role"])
    own = pd.MultiIndex.from_frame(both[["key", "role"]])
    usual = before["work"] / before["length_s"]
    expected = both["length_s"] * usual.where(usual > 0).reindex(own).to_numpy()
    enough = expected >= MIN_OPERATIONS
    worked = (both["work"] + both["errors"] > 0) | (enough & (both["phase"] != roles.BEFORE))
    both["rate_per_s"] = (both["work"] / both["length_s"]).where(worked)
    both["throughput_mb_per_s"] = (both["work_bytes"] / 1e6 / both["length_s"]).where(worked)
    before = both[both["phase"] == roles.BEFORE].set_index(["key", "role"])
    for name, column in RATIOS.items():
        base = before[column].astype(float).reindex(own).to_numpy()
        ratio = both[column].astype(float) / pd.Series(base, index=both.index).where(base > 0)
        both[f"{name}_ratio"] = ratio.where(enough & (both["phase"] != roles.BEFORE))
    both[BOUNDS] = [_with_ratios(bounds) for bounds in both[BOUNDS]]
    return both[~((both["length_s"] < SHORTEST_S) | (expected < 1))].reset_index(drop=True)


def _with_ratios(bounds: Any) -> str | None:
    """Return the names of latencies that are lower bounds, and those of the ratios computed from these latencies."""
    if pd.isna(bounds):
        return None
    names = bounds.split(", ")
    return ", ".join([*names, *(ratio for ratio, column in RATIOS.items() if column.removesuffix("_ms") in names)])


def with_points(found: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the rows of `found` that belong to valid runs, with columns of points.csv. by: columns to include."""
    kept = [*by, "key", "rep", "shared_host", *groups.CPU, "host_cpu_percent", "duration_s"]
    ok = points[points["state"] == "ok"].reindex(columns=kept)
    return ok.merge(found, on="key")


def table(found: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `roles.csv`: one row per group of points (columns `by`), role and phase.

    Columns: medians of METRICS and RATIOS over the valid runs with interval or range; length_s: median length of the
    phase; operations, errors: sums over the runs of operations that ended in the phase; few: the rate of a run depends
    on fewer than `groups.FEW` operations; hung, not_begun: operations that waited in the phase and never ended; BOUNDS:
    the metrics that are lower bounds in one of the runs, and therefore here. Rows are in the order of the points, of
    the roles in the campaign, and of the phases in time.
    """
    runs = with_points(found, points, by)
    runs["place"] = runs.groupby("role", sort=False).ngroup() * 10 + runs["phase"].map(roles.PHASES.index)
    columns = [*by, "place", *COLUMNS]
    same = [*by, "place", "role", "does", "phase"]
    made = groups.summarised(runs, same, ALL, columns, {"length_s": "median"}, _more, "rate_per_s")
    return made.drop(columns="place").astype(dict.fromkeys(("operations", "errors", "hung", "not_begun"), "Int64"))


def _more(group: pd.DataFrame) -> dict[str, Any]:
    bounds = {name for names in group[BOUNDS].dropna() for name in names.split(", ")}
    return {
        "operations": round(group["operations"].sum()),
        **{name: round(group[name].sum()) for name in ("errors", "hung", "not_begun")},
        BOUNDS: ", ".join(n for n in NAMES if n in bounds) or None,
    }


def concurrent(table: pd.DataFrame, does: str, others: Collection[str]) -> pd.DataFrame:
    """Return the rows of roles.csv for roles with one workload while another role runs another workload.

    Only the phase `during` of points without a fault is used. does: workload of the rows; others: workloads of the
    other role.
    """
    if table.empty:
        return table
    rows = table[(table["phase"] == roles.DURING) & (table.get("fault", "none") == "none")]
    having = rows.loc[rows["does"].isin(others), "workload"]
    return rows[(rows["does"] == does) & rows["workload"].isin(having)]


def numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about roles. Without data, the list is empty.

    roles_sweeps: number of sweeps; roles_most: largest number of roles at the same time; uploads_beside: the rate of
    uploads during deletions relative to the rate before, for the group that was slowed down most.
    """
    if table.empty:
        return []
    at_once = table.groupby("workload")["role"].nunique()
    out: list[tuple[str, Any, str]] = [
        ("roles_sweeps", len(at_once), ""),
        ("roles_most", int(at_once.max()), ""),
    ]
    slowed = concurrent(table, "put", DELETING)
    slowed = slowed[slowed["rate_over_before_median_ratio"].notna()]
    if len(slowed):
        worst = slowed.loc[slowed["rate_over_before_median_ratio"].astype(float).idxmin()]
        parts = [100 * worst[f"rate_over_before_{p}_ratio"] for p in groups.PARTS]
        out += [
            ("uploads_beside", labels.spread(parts), "%"),
            ("uploads_beside_where", labels.deployment(worst), ""),
        ]
    return out


TIMES, MIN_S = 5, 0.5  # thresholds of an interruption; shorter pauses also occur on a busy host without a fault
MEASURED = "measured"
RECOVERY_METRICS = (
    ("failed", "operations"),
    ("pause", "s"),
    ("pause_before", "s"),
    ("service", "s"),
    ("degraded", "ratio"),
    ("degraded_latency_p99", "ratio"),
    ("rebuilding", "ratio"),
    ("rebuilding_latency_p99", "ratio"),
    ("after", "ratio"),
    ("after_latency_p99", "ratio"),
    ("noticed", "s"),
    ("undone", "s"),
    ("whole", "s"),
    ("whole_after", "s"),
)
COUNTED = ("beyond_redundancy", "never_served", "states_reported", "never_noticed", "never_whole")
RECOVERY_SUMS = ("operations", "failed_operations")  # counted from the first act on
RECOVERY_COLUMNS = (
    "source",
    *groups.COUNTS,
    "role",
    "does",
    *groups.spread(RECOVERY_METRICS),
    *RECOVERY_SUMS,
    *COUNTED,
    "versions",
)
RECOVERY_PHASES = {"degraded": roles.DURING, "rebuilding": roles.REBUILDING, "after": roles.AFTER}
_GAPS = """
WITH done AS (
  SELECT key, role, role_end_ns, disturbed_ns, end_ns AS last,
    CASE WHEN latency_hist IS NULL THEN end_ns ELSE end_ns - bin_ns + bin_ns // count END AS first
  FROM rows JOIN clients USING (key, client) WHERE error IS NULL AND count > 0
  UNION ALL SELECT DISTINCT key, role, role_end_ns, disturbed_ns, role_begin_ns, role_begin_ns FROM clients
  UNION ALL SELECT DISTINCT key, role, role_end_ns, disturbed_ns, role_end_ns, role_end_ns FROM clients),
gaps AS (
  SELECT *, first AS high, max(last) OVER (PARTITION BY key, role ORDER BY first, last
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS low
  FROM done)
SELECT key, role, role_end_ns, low, high, high > disturbed_ns AS after
FROM gaps JOIN warm USING (key)
WHERE low < high AND high <= role_end_ns AND (high > disturbed_ns OR low >= warm_ns)
QUALIFY row_number() OVER (PARTITION BY key, role, after ORDER BY high - low DESC, low) = 1"""
_COUNTS = """
SELECT key, role, coalesce(sum(count) FILTER (error IS NULL), 0)::BIGINT AS operations,
  coalesce(sum(count) FILTER (error IS NOT NULL), 0)::BIGINT AS failed_operations
FROM rows JOIN clients USING (key, client) WHERE end_ns > disturbed_ns GROUP BY ALL"""


def recoveries_of_runs(campaign: Campaign, phases: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each measured run with a fault, and role.

    Columns: key, role, does, `<name>_<unit>` of RECOVERY_METRICS, RECOVERY_SUMS, COUNTED (0 or 1), and versions (of an
    upgrade, such as `4.47 to 4.48`).
    """
    con = roles.connect_clients(campaign)
    kept = [k for k in roles.keys(campaign) if roles.faulted_ns(campaign.runs[k]) is not None]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    if con is not None and kept:
        warm = [(k, r["start_ns"] + r["point"]["fixed"]["warm_up_ns"]) for k, r in campaign.runs.items() if k in kept]
        con.register("warm", pd.DataFrame(warm, columns=["key", "warm_ns"]))
        for gap in con.execute(_GAPS).df().itertuples(index=False):
            found.setdefault((gap.key, gap.role), {})["after" if gap.after else "before"] = gap
        for row in con.execute(_COUNTS).df().to_dict("records"):
            found.setdefault((row["key"], row["role"]), {}).update({name: row[name] for name in RECOVERY_SUMS})
    of_phase = phases.set_index(["key", "role", "phase"])
    rows = []
    for key in kept:
        run = campaign.runs[key]
        for role in run["roles"]:
            row = {"key": key, "role": role["name"], "does": role["workload"]}
            row |= _role_columns(run, found.get((key, role["name"]), {})) | _store_columns(run)
            for name, phase in RECOVERY_PHASES.items():
                place = (key, role["name"], phase)
                known = of_phase.loc[place] if place in of_phase.index else {}
                row[f"{name}_ratio"] = known.get("rate_over_before_ratio")
                row[f"{name}_latency_p99_ratio"] = known.get("latency_p99_over_before_ratio")
            rows.append(row)
    columns = ["key", "role", "does", "versions", *("_".join(m) for m in RECOVERY_METRICS), "operations", *COUNTED]
    made = pd.DataFrame(rows, columns=columns)
    return made.astype(dict.fromkeys(columns[4:], float))


def _role_columns(run: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {name: found.get(name, 0) for name in RECOVERY_SUMS} | {"never_served": 0}
    before = found.get("before")
    out["pause_before_s"] = usual = (before.high - before.low) / 1e9 if before else None
    if (longest := found.get("after")) is None:  # the role had ended before the act
        return out
    out["pause_s"] = pause = (longest.high - longest.low) / 1e9
    if pause <= max(TIMES * (usual or 0.0), MIN_S):
        return out | {"service_s": 0.0}
    if longest.high >= longest.role_end_ns:
        return out | {"never_served": 1}
    return out | {"service_s": (longest.high - _cause_ns(run, longest.low, longest.high)) / 1e9}


def _cause_ns(run: dict[str, Any], low: int, high: int) -> int:
    """Return the start of the act that caused the pause from low to high (UTC ns). `service` counts from it."""
    acts = [(e["time_ns"], e["act"] in UNDOES) for e in roles.events(run, roles.ACT)]
    within = [at for at, undoes in acts if low < at <= high and not undoes]
    return min(within) if within else max((at for at, _ in acts if at <= low), default=low)


def _store_columns(run: dict[str, Any]) -> dict[str, Any]:
    begin, undone, how = roles.faulted_ns(run), roles.undone_ns(run), roles.healing(run)

    def after(ns: int | None) -> float | None:
        return None if ns is None or begin is None else (ns - begin) / 1e9

    was_undone = roles.was_undone(run)
    return {
        "noticed_s": after(how.noticed_ns),
        "undone_s": after(undone) if was_undone else None,
        "whole_s": after(how.whole_ns),
        "whole_after_s": max(0.0, (how.whole_ns - undone) / 1e9) if how.whole_ns is not None and was_undone else None,
        "beyond_redundancy": int(bool((run.get("fault") or {}).get("beyond_redundancy"))),
        "versions": " to ".join((run.get("fault") or {}).get("versions") or []) or None,
        "states_reported": int(how.reports_state),
        "never_noticed": int(how.reports_state and how.noticed_ns is None),
        "never_whole": int(how.noticed_ns is not None and how.whole_ns is None),
    }


def recovery_table(found: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return one row per group of points with a fault (columns `by`) and role, followed by the published numbers.

    Columns: medians of RECOVERY_METRICS over the valid runs that have a value, with interval or range; RECOVERY_SUMS:
    sums over the runs; COUNTED: numbers of runs; versions: the versions between which the store was upgraded.
    """
    runs = with_points(found, points, by).assign(source=MEASURED)
    runs["place"] = runs.groupby("role", sort=False).ngroup()
    columns, how = [*by, "place", *RECOVERY_COLUMNS], dict.fromkeys((*RECOVERY_SUMS, *COUNTED), "sum")
    how["versions"] = "joined"
    made = groups.summarised(runs, [*by, "place", "role", "does", "source"], RECOVERY_METRICS, columns, how)
    made = made.drop(columns="place")
    if len(made):
        made = pd.concat([made, pd.DataFrame(_published()).reindex(columns=made.columns)], ignore_index=True)
    return made.astype(dict.fromkeys((*RECOVERY_SUMS, *COUNTED), "Int64"))


def _published() -> list[dict[str, Any]]:
    """Return the published numbers about a chassis of 16 disks that was powered off during uploads and downloads."""
    chassis = published.chassis()
    rows = []
    for does in ("put", "get"):
        rows.append(
            {"store": chassis["store"], "source": chassis["source"], "does": does}
            | {"failed_operations": chassis["failed"], "whole_after_median_s": chassis["whole_s"]}
        )
    return rows


def measured(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of recovery.csv that were measured."""
    return table[table["source"] == MEASURED] if len(table) else table


def once(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per group of points. Use it for columns that have the same value for all roles of a group."""
    return rows.drop_duplicates([c for c in rows.columns[: rows.columns.get_loc("source")] if c != "role"])


def recovery_numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about recovery. Without data, the list is empty.

    The numbers are the groups, the failed operations, the longest median pause with its point, and the runs in which
    the store did not report the fault or never became clean. They include the longest median time from the undoing of
    the fault until the redundancy was complete, and the number of groups of points for which it is known.
    """
    rows = measured(table)
    if rows.empty:
        return []
    runs = once(rows)
    out: list[tuple[str, Any, str]] = [
        ("recovery_groups", len(rows), ""),
        ("recovery_failed", int(rows["failed_operations"].sum()), ""),
        ("recovery_without_failure", int((rows["failed_operations"] == 0).sum()), ""),
        ("recovery_never_served", int(rows["never_served"].sum()), ""),
        ("recovery_never_noticed", int(runs["never_noticed"].sum()), ""),
        ("recovery_never_whole", int(runs["never_whole"].sum()), ""),
        ("recovery_points", len(runs), ""),
        ("recovery_whole_points", int(runs["whole_after_median_s"].notna().sum()), ""),
    ]
    for number, name in (("pause", "pause"), ("whole", "whole_after"), ("noticed", "noticed")):
        known = rows[rows[f"{name}_median_s"].notna()]
        if len(known):
            longest = known.loc[known[f"{name}_median_s"].astype(float).idxmax()]
            spread = labels.spread([longest[f"{name}_{p}_s"] for p in groups.PARTS])
            out += [
                (f"recovery_{number}_longest", spread, "s"),
                (f"recovery_{number}_longest_where", where(longest), ""),
            ]
    return out


def where(row: Any) -> str:
    """Describe the point and role of a row of recovery.csv: `uploads on ceph, ec-2-1, osd-killed`."""
    fault = f", {row['fault']}" if "fault" in row and not pd.isna(row["fault"]) else ""
    return f"{row['role']} on {labels.deployment(row)}{fault}"


STEPS_NS = {120 * 10**9: 10**8, 7200 * 10**9: 10**9}  # maximum length of a run -> length of its steps
LONG_NS = 60 * 10**9  # length of the steps of longer runs
RUN_KEYS = ("key", "store", "workload", "rep", "state", "shared_host", "duration_s")
MEASURES = ("operations", "rate_per_s", "throughput_mb_per_s", *roles.LATENCIES, "errors")
HAPPENED = ("kind", "name", "fault", "actor", "due_s", "begin_s", "end_s", "error", "detail")
PHASE = "phase"  # a kind of event that is added to the kinds in the record


def step_ns(run: dict[str, Any], lasts_ns: int | None = None) -> int:
    """Return the length of a step of this run, in ns. lasts_ns: the length of its series, if the run is a part."""
    lasts = lasts_ns or run["deadline_ns"] - run["start_ns"]
    step = next((step for most, step in STEPS_NS.items() if lasts <= most), LONG_NS)
    return max(step, scan.bin_ns(run))


def _every_step(campaign: Campaign, lengths: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each step between the start and the end of a role: key, role, cell (number of the step).

    Steps without operations are included. lengths: table of key and length of a step in ns.
    """
    rows = []
    for key, length in lengths.itertuples(index=False):
        run = campaign.runs[key]
        for role in run["roles"]:
            first, last = (role[at] - run["start_ns"] for at in ("begin_ns", "end_ns"))
            steps = np.arange(first // length, -(-last // length))
            rows.append(pd.DataFrame({"key": key, "role": role["name"], "cell": steps}))
    return pd.concat(rows)


def timeline_table(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """Return `timeline.csv`: one row for each run with roles, role and step.

    Columns: RUN_KEYS, role, step_s, second (start of the step, counted from the agreed start), MEASURES, and
    errors_<status> for each HTTP status (0: none) of the campaign. The steps are those in which the role worked, and
    later steps in which an operation ended. Numbers of operations have fractions if a bin is in two steps.
    """
    head = [*RUN_KEYS, "role", "step_s", "second", *MEASURES]
    lasts = selection.lengths_ns(campaign.plan)
    steps = [(k, step_ns(campaign.runs[k], lasts.get(k))) for k in roles.keys(campaign)]
    lengths = pd.DataFrame(steps, columns=["key", "step_ns"])
    if lengths.empty:
        return pd.DataFrame(columns=head)
    place = ["key", "role", "cell"]
    every, statuses = _every_step(campaign, lengths), pd.DataFrame(columns=[*place, "status", "errors"])
    found = pd.DataFrame(columns=[*place, "operations", "bytes", "errors", *roles.LATENCIES])
    if counted := roles.in_steps(campaign, lengths):
        found, statuses = counted.cells, counted.statuses
    both = every.merge(found, on=place, how="outer").merge(lengths, on="key")
    by_status = statuses.pivot_table(index=place, columns="status", values="errors", aggfunc="sum").sort_index(axis=1)
    by_status.columns = [f"errors_{status}" for status in by_status.columns]
    both = both.merge(by_status.reset_index(), on=place, how="left") if len(by_status) else both
    counts = ["operations", "bytes", "errors", *by_status.columns]
    both[counts] = both[counts].astype(float).fillna(0.0)
    both["step_s"] = both["step_ns"] / 1e9
    both["second"] = both["cell"].astype("int64") * both["step_ns"] / 1e9
    both["rate_per_s"] = both["operations"] / both["step_s"]
    both["throughput_mb_per_s"] = both["bytes"] / 1e6 / both["step_s"]
    order = {(key, r["name"]): i for key in lengths["key"] for i, r in enumerate(campaign.runs[key]["roles"])}
    both["place"] = [order[pair] for pair in zip(both["key"], both["role"], strict=True)]
    out = points[["order", *RUN_KEYS]].merge(both, on="key").sort_values(["order", "place", "cell"])
    return out[[*head, *by_status.columns]].reset_index(drop=True)


def disturbances(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """Return the events of each run with roles, in order of time: key, rep, state, HAPPENED.

    kind: `phase`, `act` of a fault, `undone` (an act that was undone at the end), or `state` of the store; name: the
    name of the phase or act, or the reported state. Times are seconds after the agreed start; due_s: when the act was
    due; end_s of a state: when the store reported another state.
    """
    last = roles.last_operations(campaign)
    rows = [{"key": key} | row for key in last for row in _events(campaign.runs[key], last[key])]
    found = pd.DataFrame(rows, columns=["key", *HAPPENED])
    out = points[["order", "key", "rep", "state"]].merge(found, on="key")
    return out.sort_values(["order", "begin_s"], kind="stable")[["key", "rep", "state", *HAPPENED]].reset_index(
        drop=True
    )


def _events(run: dict[str, Any], last: roles.LastOperations) -> list[dict[str, Any]]:
    def after(ns: int | None) -> float | None:
        return None if ns is None else (ns - run["start_ns"]) / 1e9

    out: list[dict[str, Any]] = [
        {"kind": PHASE, "name": p.name, "begin_s": after(p.begin_ns), "end_s": after(p.end_ns)}
        for p in roles.phases(run, last)
    ]
    for event in roles.events(run, roles.ACT, roles.UNDONE):
        out.append(
            {k: event.get(k) or None for k in ("kind", "fault", "actor", "error", "detail")}
            | {"name": event["act"], "due_s": after(event.get("due_ns"))}
            | {"begin_s": after(event["time_ns"]), "end_s": after(event.get("done_ns"))}
        )
    states = roles.events(run, roles.STATE)
    times = [e["time_ns"] for e in states]
    ends = [*times[1:], max(run["deadline_ns"], *times)] if states else []
    for event, end in zip(states, ends, strict=True):
        state = {"kind": roles.STATE, "name": event["state"], "detail": event.get("detail") or None}
        out.append(state | {"begin_s": after(event["time_ns"]), "end_s": after(end)})
    return out

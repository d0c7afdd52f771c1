"""`recovery.csv`: what a fault did to each role, and how the store recovered. May import: what `tables` may.

Of each run, from the begin of the fault's first act:

* failed: operations that failed after it, those that hung too.
* pause: the longest time without a completed operation that ended after it; pause_before: the same before it, in the
  phase `before`. Of a bin the operations are taken as evenly spaced.
* service: from the act that made the longest pause (the first that began in it and undoes nothing, else the last one
  before it) until the end of the pause, where that is an interruption: longer than TIMES pauses before it, and than
  LEAST_S. 0: served all the time. Null where no operation was completed any more (`never_served`).
* degraded, rebuilding, after: rate and p99 of these phases over those of `before` (`roles.csv`).
* noticed: until the store said that it is not clean; undone: until the last act was undone; whole: until the store said
  for good that it is clean, and the same from the last undoing (whole_after; 0: before it).

What the evaluation of 2013 printed of a chassis that was powered off stands below, with its `source`.
"""

from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records import cells, published, roles
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables.roles import with_points
from storelab.core.axes.faults import UNDOES

TIMES, LEAST_S = 5, 0.5  # a busy host alone makes pauses that are shorter
MEASURED = "measured"
METRICS = (
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
COUNTED = ("beyond_redundancy", "never_served", "states_told", "never_noticed", "never_whole")
SUMS = ("operations", "failed_operations")  # from the first act on
COLUMNS = ("source", *groups.COUNTS, "role", "does", *groups.spread(METRICS), *SUMS, *COUNTED, "versions")
PHASES = {"degraded": roles.DURING, "rebuilding": roles.REBUILDING, "after": roles.AFTER}
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


def of_runs(campaign: Campaign, phases: pd.DataFrame) -> pd.DataFrame:
    """One row per measured run with a fault, and role: key, role, does, `<name>_<unit>` of METRICS, SUMS, COUNTED (0 or
    1), versions (of an upgrade: `4.47 to 4.48`)."""
    con = cells.connect(campaign)
    kept = [k for k in roles.keys(campaign) if roles.faulted_ns(campaign.runs[k]) is not None]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    if con is not None and kept:
        warm = [(k, r["start_ns"] + r["point"]["fixed"]["warm_up_ns"]) for k, r in campaign.runs.items() if k in kept]
        con.register("warm", pd.DataFrame(warm, columns=["key", "warm_ns"]))
        for gap in con.execute(_GAPS).df().itertuples(index=False):
            found.setdefault((gap.key, gap.role), {})["after" if gap.after else "before"] = gap
        for row in con.execute(_COUNTS).df().to_dict("records"):
            found.setdefault((row["key"], row["role"]), {}).update({name: row[name] for name in SUMS})
    of_phase = phases.set_index(["key", "role", "phase"])
    rows = []
    for key in kept:
        run = campaign.runs[key]
        for told in run["roles"]:
            row = {"key": key, "role": told["name"], "does": told["workload"]}
            row |= _of_role(run, found.get((key, told["name"]), {})) | _of_store(run)
            for name, phase in PHASES.items():
                place = (key, told["name"], phase)
                known = of_phase.loc[place] if place in of_phase.index else {}
                row[f"{name}_ratio"] = known.get("rate_over_before_ratio")
                row[f"{name}_latency_p99_ratio"] = known.get("latency_p99_over_before_ratio")
            rows.append(row)
    columns = ["key", "role", "does", "versions", *("_".join(m) for m in METRICS), "operations", *COUNTED]
    made = pd.DataFrame(rows, columns=columns)
    return made.astype(dict.fromkeys(columns[4:], float))


def _of_role(run: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {name: found.get(name, 0) for name in SUMS} | {"never_served": 0}
    before = found.get("before")
    out["pause_before_s"] = usual = (before.high - before.low) / 1e9 if before else None
    if (longest := found.get("after")) is None:  # the role had ended
        return out
    out["pause_s"] = pause = (longest.high - longest.low) / 1e9
    if pause <= max(TIMES * (usual or 0.0), LEAST_S):
        return out | {"service_s": 0.0}
    if longest.high >= longest.role_end_ns:
        return out | {"never_served": 1}
    return out | {"service_s": (longest.high - _cause_ns(run, longest.low, longest.high)) / 1e9}


def _cause_ns(run: dict[str, Any], low: int, high: int) -> int:
    """When the act began that made a pause: what `service` counts from."""
    acts = [(e["time_ns"], e["act"] in UNDOES) for e in roles.events(run, roles.ACT)]
    within = [at for at, undoes in acts if low < at <= high and not undoes]
    return min(within) if within else max((at for at, _ in acts if at <= low), default=low)


def _of_store(run: dict[str, Any]) -> dict[str, Any]:
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
        "states_told": int(how.tells),
        "never_noticed": int(how.tells and how.noticed_ns is None),
        "never_whole": int(how.noticed_ns is not None and how.whole_ns is None),
    }


def table(found: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of points with a fault (columns `by`) and role: medians over the valid runs of METRICS, with
    interval or range, of the runs that have a value; SUMS: over the runs; COUNTED: runs; versions: between which the
    store was upgraded. Then what was published."""
    runs = with_points(found, points, by).assign(source=MEASURED)
    runs["place"] = runs.groupby("role", sort=False).ngroup()
    columns = [*by, "place", *COLUMNS]
    made = groups.summarised(runs, [*by, "place", "role", "does", "source"], METRICS, columns, _more)
    made = made.drop(columns="place")
    if len(made):
        made = pd.concat([made, pd.DataFrame(_published()).reindex(columns=made.columns)], ignore_index=True)
    return made.astype(dict.fromkeys((*SUMS, *COUNTED), "Int64"))


def _more(group: pd.DataFrame) -> dict[str, Any]:
    return {c: int(group[c].sum()) for c in (*SUMS, *COUNTED)} | {"versions": groups.joined(group["versions"])}


def _published() -> list[dict[str, Any]]:
    """A chassis of 16 disks powered off, during uploads, then during downloads."""
    chassis = published.chassis()
    rows = []
    for does in ("put", "get"):
        rows.append(
            {"store": chassis["store"], "source": chassis["source"], "does": does}
            | {"failed_operations": chassis["failed"], "whole_after_median_s": chassis["whole_s"]}
        )
    return rows


def measured(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of recovery.csv that were measured."""
    return table[table["source"] == MEASURED] if len(table) else table


def once(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per group of points, of the roles that its runs have: for what is the same for all of them."""
    return rows.drop_duplicates([c for c in rows.columns[: rows.columns.get_loc("source")] if c != "role"])


def numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """What the paper quotes: groups, failed operations, the longest median pause and where, the longest median until
    redundancy was whole from when the fault was undone, and of how many groups of points it is known; runs that noticed
    nothing or never became whole. Absent data, no row."""
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
            said = words.spread([longest[f"{name}_{p}_s"] for p in groups.PARTS])
            out += [
                (f"recovery_{number}_longest", said, "s"),
                (f"recovery_{number}_longest_where", where(longest), ""),
            ]
    return out


def where(row: Any) -> str:
    """Of one row of recovery.csv: `uploads on ceph, ec-2-1, osd-killed`."""
    fault = f", {row['fault']}" if "fault" in row and not pd.isna(row["fault"]) else ""
    return f"{row['role']} on {words.deployment(row)}{fault}"


def ratio_text(values: Any) -> str:
    """A ratio in percent, `35 [30, 41]`."""
    return words.spread([100 * float(v) if not pd.isna(v) else np.nan for v in values])

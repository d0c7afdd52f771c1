"""`releases.csv`: releases of software by stratum and day: what was new, how long it took, how late stratum 1 was.

The lag of a day is the time from when stratum 0 had its manifest until stratum 1 had it, or a later one. What a
repository holds is the sum of what was stored on all days until then, those that failed too. Where the engine makes a
day while it publishes it, the day has no time of publication, only a whole one: from its begin to its manifest.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups
from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign
from storelab.core import records

PUBLISHED = "published"  # state of a day
METRICS = (
    ("repository", "objects"),
    ("repository", "mb"),
    ("new", "objects"),
    ("new", "mb"),
    ("publication", "s"),
    ("lag", "s"),
    ("whole", "s"),
)
COUNTS = ("heads", "gets", "puts", "skipped", "retries", "failures")


def of_runs(campaign: Campaign) -> pd.DataFrame:
    """One row per run, stratum and day: key, stratum, day, state, end_ns, the columns of METRICS, COUNTS; factor."""
    keys = [key for key, _ in campaign.files("days") if "release" in _fixed(campaign, key)]
    con = scan.connect(campaign, "days", keys)
    if con is None:
        columns = ["key", "stratum", "day", "state", "end_ns", "factor", *map("_".join, METRICS), *COUNTS]
        return pd.DataFrame(columns=columns)
    select = ", ".join(records.DAYS)
    rows = con.execute(f"SELECT key, {select} FROM rows ORDER BY key, stratum, day").df()
    of = rows.groupby(["key", "stratum"], sort=False)
    done = rows["state"] == PUBLISHED
    lasted = (rows["end_ns"] - rows["begin_ns"]) / 1e9
    return rows.assign(
        repository_objects=of["stored"].cumsum(),
        repository_mb=of["bytes"].cumsum() / 1e6,
        new_objects=rows["stored"],
        new_mb=rows["bytes"] / 1e6,
        publication_s=lasted.where(done & ((rows["stratum"] != 0) | rows["prepare_ns"].notna())),
        lag_s=_lags(rows, done),
        whole_s=(lasted + rows["prepare_ns"].fillna(0) / 1e9).where(done & (rows["stratum"] == 0)),
        factor=[_fixed(campaign, key)["release"]["factor"] for key in rows["key"]],
    )


def _fixed(campaign: Campaign, key: str) -> Mapping[str, Any]:
    """The fixed settings of a run's point: without a release where it has several roles."""
    return campaign.runs[key]["point"]["fixed"]


def _lags(rows: pd.DataFrame, done: pd.Series) -> pd.Series:
    """Of rows of stratum 1: seconds from the day's publication until a later replication ended."""
    lags = pd.Series(np.nan, index=rows.index)
    for _, run in rows[done].groupby("key", sort=False):
        published = run[run["stratum"] == 0].set_index("day")["end_ns"]
        replicated = np.sort(run.loc[run["stratum"] == 1, "end_ns"].to_numpy())
        for day, end in published.items():
            later = replicated[replicated >= end]
            row = rows[(rows["key"] == run["key"].iloc[0]) & (rows["stratum"] == 1) & (rows["day"] == day)]
            if len(later) and len(row):
                lags[row.index[0]] = (later[0] - end) / 1e9
    return lags


def with_points(days: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """One row per valid run with a stratum 1: its columns of points.csv; published_days: of stratum 0; behind: those of
    them that stratum 1 did not get, neither by themselves nor with a later one. days: `of_runs`."""
    done, both = days[days["state"] == PUBLISHED], days.loc[days["stratum"] == 1, "key"].unique()
    zero = done[(done["stratum"] == 0) & done["key"].isin(both)]
    last = pd.to_numeric(zero["key"].map(done[done["stratum"] == 1].groupby("key")["end_ns"].max()))
    found = (
        zero.assign(behind=~(last >= zero["end_ns"])).groupby("key")["behind"].agg(published_days="size", behind="sum")
    )
    return points[points["state"] == "ok"].merge(found, left_on="key", right_index=True)


def table(found: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of points (columns `by`), stratum and day: medians over the valid runs of METRICS with interval
    or range, and of COUNTS; published: runs in which the day was published, or replicated; factor of the release."""
    kept = points.loc[points["state"] == "ok", [*by, "key", "shared_host"]]
    columns = [
        *by,
        *groups.COUNTS,
        "stratum",
        "day",
        "factor",
        "published",
        *groups.spread(METRICS),
        *COUNTS,
        "shared_host",
    ]
    made = groups.summarised(
        kept.merge(found, on="key"), [*by, "stratum", "day"], METRICS, columns, _more, "repository_mb"
    )
    return made.astype({"stratum": "Int64", "day": "Int64", "published": "Int64"})


def _more(group: pd.DataFrame) -> dict[str, Any]:
    return {
        "factor": group["factor"].iloc[0],
        "published": int((group["state"] == PUBLISHED).sum()),
        "shared_host": bool(group["shared_host"].any()),
        **{name: group[name].astype(float).median() for name in COUNTS},
    }


def place(row: Mapping[str, Any]) -> str:
    """The store that a row's stratum lies on."""
    away = row["workload"] == "replicate" and row["stratum"] == 0
    return str(row["stratum0"] if away else row["store"])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row per group of points and stratum: the columns of its last day, and days, days_published (in all runs),
    day_s (median of publication_median_s), lag_s (median and most of lag_median_s), retries, failures (sums)."""
    out = []
    by = [*table.columns[: table.columns.get_loc("n")], "stratum"]
    for _, group in groups.grouped(table, by):
        days = group.sort_values("day")
        told: Mapping[str, Any] = {
            "days": len(days),
            "days_published": int((days["published"] == days["n"]).sum()),
            "day_s": days["publication_median_s"].astype(float).median(),
            "usual_lag_s": days["lag_median_s"].astype(float).median(),
            "longest_lag_s": days["lag_median_s"].astype(float).max(),
            "all_retries": days["retries"].sum(),
            "all_failures": days["failures"].sum(),
        }
        out.append(days.iloc[-1].to_dict() | told)
    return pd.DataFrame(out)


def numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return releases_factor and releases_days of the release, releases_flat (most days of a group that stratum 0 did
    not get), and releases_left (most objects that stratum 0 holds more than stratum 1 at the end). Absent data, no
    row."""
    if table.empty:
        return []
    whole = summary(table[table["stratum"] == 0])
    identity = list(table.columns[: table.columns.get_loc("n")])
    held = [g.set_index("stratum")["repository_median_objects"] for _, g in groups.grouped(summary(table), identity)]
    left = max((objects[0] - objects[1] for objects in held if {0, 1} <= set(objects.index)), default=0)
    return [
        *([("releases_left", int(left), "")] if left > 0 else []),
        ("releases_factor", "factor " + " and ".join(f"{f:g}" for f in sorted(table["factor"].unique())), ""),
        ("releases_days", int(whole["days"].max()), ""),
        ("releases_flat", int((whole["days"] - whole["days_published"]).max()), ""),
    ]

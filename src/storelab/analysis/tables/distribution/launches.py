"""`launches.csv`: starts of an application from a repository of software: how long, how many, and from which cache.

The first start of a client is its time to first run, from its own begin; all clients begin theirs together, and every
cache is empty then. Starts that are whole and ended after the warm-up, until the first client stopped, make
quantiles. Rates are estimates of `rates.closed_loop`. What came from caches and from the store is of the whole run.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records import rates, scan
from storelab.analysis.records.campaign import Campaign

METRICS = (
    ("first", "s"),
    ("slowest", "s"),
    ("start", "s"),
    ("start_p95", "s"),
    ("starts", "per_s"),
    ("files", "per_s"),
    ("files", "per_start"),
    ("requests", "per_start"),
    ("kept", "percent"),
    ("hit", "percent"),
    ("fetched", "mb"),
    ("origin", "mb"),
)
_RUNS = """
SELECT key, median(s) FILTER (whole AND launch = 0) AS first_s, max(s) FILTER (whole AND launch = 0) AS slowest_s,
  median(s) FILTER (inside) AS start_s, quantile_cont(s, 0.95) FILTER (inside) AS start_p95_s,
  avg(files) FILTER (whole) AS files_per_start, avg(gets) FILTER (whole) AS requests_per_start,
  100 * sum(kept) / nullif(sum(objects), 0) AS kept_percent, sum(bytes) / 1e6 AS fetched_mb,
  count(*) FILTER (state = 'failed') AS failed, count(DISTINCT client) FILTER (whole) AS begun
FROM (SELECT *, state = 'whole' AS whole, (end_ns - begin_ns) / 1e9 AS s,
        state = 'whole' AND end_ns > overlap_begin_ns AND end_ns <= first_end_ns AS inside
      FROM rows)
GROUP BY key ORDER BY key"""
_LANES = """
SELECT key, client, 0 AS lane, begin_ns AS start_ns, end_ns, state, files, overlap_begin_ns, first_end_ns,
  false AS cut_off, false AS unstarted FROM rows"""
_RATES = {
    "starts_per_s": "CASE WHEN state = 'whole' THEN 1 ELSE 0 END",
    "files_per_s": "CASE WHEN state = 'whole' THEN files ELSE 0 END",
}


def of_runs(campaign: Campaign) -> pd.DataFrame:
    """One row per run: key, the columns of METRICS, failed, begun (clients with a whole start), factor."""
    con = scan.connect(campaign, "launches")
    if con is None:
        return pd.DataFrame(columns=["key", *map("_".join, METRICS), "failed", "begun", "factor"])
    estimates = rates.closed_loop(con, _LANES, _RATES)
    found = con.execute(_RUNS).df().join(estimates, on="key")
    caches = [(campaign.runs[key].get("observed") or {}).get("http_cache") for key in found["key"]]
    asked = [campaign.runs[key]["point"]["axes"]["http_cache"] for key in found["key"]]
    told = zip(caches, asked, found["fetched_mb"], strict=True)
    return found.assign(
        hit_percent=[_hits(cache) for cache in caches],
        origin_mb=[_origin(cache, name, fetched) for cache, name, fetched in told],
        factor=[campaign.runs[key]["point"]["fixed"]["release"]["factor"] for key in found["key"]],
    )


def _hits(cache: Mapping[str, Any] | None) -> float | None:
    """Percent of the requests for which the cache asked nothing of the store. Squid's own hits lack those that waited
    for the answer to another one."""
    if not cache or not cache["requests"]:
        return None
    return 100 * (1 - cache["origin_requests"] / cache["requests"])


def _origin(cache: Mapping[str, Any] | None, asked: str, fetched_mb: float) -> float | None:
    """MB that the store sent: as the cache counted them; without a cache, what the clients got."""
    if asked == "none":
        return fetched_mb
    return cache["origin_bytes"] / 1e6 if cache else None


def table(found: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of points (columns `by`): medians over the valid runs of METRICS with interval or range;
    failed: starts that failed, in all runs; factor of the release."""
    kept = points.loc[points["state"] == "ok", [*by, "key", "shared_host"]]
    columns = [*by, *groups.COUNTS, "few", *groups.spread(METRICS), "failed", "factor", "shared_host"]
    return groups.summarised(kept.merge(found, on="key"), by, METRICS, columns, _more, "first_s")


def _more(group: pd.DataFrame) -> dict[str, Any]:
    return {
        "failed": int(group["failed"].sum()),
        "factor": group["factor"].iloc[0],
        "shared_host": bool(group["shared_host"].any()),
    }


def beside(table: pd.DataFrame) -> pd.DataFrame:
    """Of cold clients, a row for each group with and without a cache that differ in nothing else: what differs is
    `first_none_s`, `first_cache_s`, their `ratio`, at the most clients of it; the largest gang first."""
    if table.empty:
        return pd.DataFrame()
    rows = table[(table["client_cache"] == "none") & table["first_median_s"].notna()]
    by = [c for c in ("store", *words.axes_of(rows)) if c not in ("http_cache", "client_cache")]
    plain, cached = (rows[(rows["http_cache"] == "none") == own] for own in (True, False))
    times = ["first_median_s", "slowest_median_s"]
    both = plain[[*by, *times]].merge(
        cached[[*by, "http_cache", *times, "hit_median_percent"]], on=by, suffixes=("_none", "_cache")
    )
    both["ratio"] = both["first_median_s_none"] / both["first_median_s_cache"]
    return both.sort_values(["clients", "ratio"], ascending=False, kind="stable")


def numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """launches_files: files of a start; launches_clients: most clients; launches_store, launches_direct,
    launches_cached, both of the median client and of the slowest one, launches_hits: of the largest gang of cold
    clients with and without a cache. Absent data, no row."""
    if table.empty:
        return []
    out: list[tuple[str, Any, str]] = [
        ("launches_files", round(table["files_median_per_start"].max()), ""),
        ("launches_clients", words.plural(table["clients"].max(), "client"), ""),
    ]
    found = beside(table)
    if len(found):
        row = found.iloc[0]
        out += [
            ("launches_together", words.plural(row["clients"], "client"), ""),
            ("launches_store", row["store"], ""),
            ("launches_direct", row["first_median_s_none"], "s"),
            ("launches_cached", row["first_median_s_cache"], "s"),
            ("launches_direct_slowest", row["slowest_median_s_none"], "s"),
            ("launches_cached_slowest", row["slowest_median_s_cache"], "s"),
            ("launches_hits", row["hit_median_percent"], "%"),
        ]
    return out

"""Distribution of software: publication of releases, starts of applications, garbage collection.

* `releases.csv`: releases by stratum and day: new files, durations, and the lag of stratum 1. The lag of a day is the
  time from the manifest of this day at stratum 0 until stratum 1 has the same or a later manifest. The content of a
  repository is the sum of everything stored until that day, including failed days. If the engine creates the files of a
  day while it publishes them, the time of publication is not known. The day then has only a whole time, from its start
  to its manifest.
* `launches.csv`: starts of an application from a repository: durations, rates, and use of caches. The duration of the
  first start is the time to first run of a client. All clients begin their first start at the same time, with empty
  caches. Quantiles are computed from complete starts that ended after the warm-up and before the first client stopped.
  Rates are estimates of `windows.closed_loop`. Volumes from caches and from the store are for the whole run.
* `collections.csv`: runs in which the garbage of a release was collected: rates, remaining objects, and the effect on
  simultaneous uploads. Deletions per second are the deletions in all tries of a run, divided by the time from the end
  of marking to the end of the try. The effect on uploads is a ratio within one run (`roles.csv`): the rate of uploads
  in a phase divided by their rate before the collection began.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.records import roles, scan, windows
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics import medians
from storelab.core import records

PUBLISHED = "published"  # state of a day
RELEASE_METRICS = (
    ("repository", "objects"),
    ("repository", "mb"),
    ("new", "objects"),
    ("new", "mb"),
    ("publication", "s"),
    ("lag", "s"),
    ("whole", "s"),
)
RELEASE_COUNTS = ("heads", "gets", "puts", "skipped", "retries", "failures")


def days_of_runs(campaign: Campaign) -> pd.DataFrame:
    """Return one row per run, stratum and day.

    Columns: key, stratum, day, state, end_ns, factor, RELEASE_METRICS, RELEASE_COUNTS.
    """
    keys = [key for key, _ in campaign.files("days") if "release" in _fixed(campaign, key)]
    con = scan.connect(campaign, "days", keys)
    if con is None:
        columns = [
            "key",
            "stratum",
            "day",
            "state",
            "end_ns",
            "factor",
            *map("_".join, RELEASE_METRICS),
            *RELEASE_COUNTS,
        ]
        return pd.DataFrame(columns=columns)
    select = ", ".join(records.DAYS)
    rows = con.execute(f"SELECT key, {select} FROM rows ORDER BY key, stratum, day").df()
    repositories = rows.groupby(["key", "stratum"], sort=False)
    done = rows["state"] == PUBLISHED
    lasted = (rows["end_ns"] - rows["begin_ns"]) / 1e9
    return rows.assign(
        repository_objects=repositories["stored"].cumsum(),
        repository_mb=repositories["bytes"].cumsum() / 1e6,
        new_objects=rows["stored"],
        new_mb=rows["bytes"] / 1e6,
        publication_s=lasted.where(done & ((rows["stratum"] != 0) | rows["prepare_ns"].notna())),
        lag_s=_replication_lags(rows, done),
        whole_s=(lasted + rows["prepare_ns"].fillna(0) / 1e9).where(done & (rows["stratum"] == 0)),
        factor=[_fixed(campaign, key)["release"]["factor"] for key in rows["key"]],
    )


def _fixed(campaign: Campaign, key: str) -> Mapping[str, Any]:
    """Return the fixed settings of a run's point. If the point has roles, they do not include the release."""
    return campaign.runs[key]["point"]["fixed"]


def _replication_lags(rows: pd.DataFrame, done: pd.Series) -> pd.Series:
    """Return the lag of each row of stratum 1: seconds from the day's publication to the end of the next replication.

    done: which rows are published or replicated days.
    """
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


def with_published(days: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Return one row per valid run with a stratum 1, with the columns of points.csv, published_days and behind.

    published_days: number of days that stratum 0 published; behind: number of these days that stratum 1 never received,
    not even with a later day. days: the result of `days_of_runs`.
    """
    done, both = days[days["state"] == PUBLISHED], days.loc[days["stratum"] == 1, "key"].unique()
    zero = done[(done["stratum"] == 0) & done["key"].isin(both)]
    last = pd.to_numeric(zero["key"].map(done[done["stratum"] == 1].groupby("key")["end_ns"].max()))
    found = (
        zero.assign(behind=~(last >= zero["end_ns"])).groupby("key")["behind"].agg(published_days="size", behind="sum")
    )
    return points[points["state"] == "ok"].merge(found, left_on="key", right_index=True)


def releases_table(found: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `releases.csv`: one row per group of points (columns `by`), stratum and day.

    Columns: medians of RELEASE_METRICS over the valid runs with interval or range; medians of RELEASE_COUNTS;
    published: number of runs in which the day was published (stratum 0) or replicated (stratum 1); factor of the
    release.
    """
    kept = points.loc[points["state"] == "ok", [*by, "key", "shared_host"]]
    place = ["stratum", "day"]
    columns = [*by, *groups.COUNTS, *place, "factor", "published", *groups.spread(RELEASE_METRICS), *RELEASE_COUNTS]
    how = {"factor": "first", "published": "sum"} | dict.fromkeys(RELEASE_COUNTS, "median")
    days = kept.merge(found.assign(published=found["state"] == PUBLISHED), on="key")
    made = groups.summarised(
        days, [*by, *place], RELEASE_METRICS, [*columns, "shared_host"], how, counted="repository_mb"
    )
    return made.astype(dict.fromkeys((*place, "published"), "Int64"))


def place(row: Mapping[str, Any]) -> str:
    """Return the store that has the stratum of a row of releases.csv."""
    away = row["workload"] == "replicate" and row["stratum"] == 0
    return str(row["stratum0"] if away else row["store"])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per group of points and stratum, with the columns of its last day, and values over all days.

    The values over all days are days, days_published (number of days that were published in all runs), day_s (median of
    publication_median_s), usual_lag_s and longest_lag_s (median and maximum of lag_median_s), all_retries and
    all_failures (sums).
    """
    out = []
    by = [*table.columns[: table.columns.get_loc("n")], "stratum"]
    for _, group in groups.grouped(table, by):
        days = group.sort_values("day")
        over_days: Mapping[str, Any] = {
            "days": len(days),
            "days_published": int((days["published"] == days["n"]).sum()),
            "day_s": days["publication_median_s"].astype(float).median(),
            "usual_lag_s": days["lag_median_s"].astype(float).median(),
            "longest_lag_s": days["lag_median_s"].astype(float).max(),
            "all_retries": days["retries"].sum(),
            "all_failures": days["failures"].sum(),
        }
        out.append(days.iloc[-1].to_dict() | over_days)
    return pd.DataFrame(out)


def releases_numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about releases. Without data, the list is empty.

    releases_factor, releases_days: factor and days of the release; releases_flat: largest number of days in a group
    that stratum 0 did not publish; releases_left: largest number of objects that are missing in stratum 1 at the end.
    """
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


LAUNCH_METRICS = (
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


def launches_of_runs(campaign: Campaign) -> pd.DataFrame:
    """Return one row per run: key, LAUNCH_METRICS, failed, begun (number of clients with a complete start), factor."""
    con = scan.connect(campaign, "launches")
    if con is None:
        return pd.DataFrame(columns=["key", *map("_".join, LAUNCH_METRICS), "failed", "begun", "factor"])
    estimates = windows.closed_loop(con, _LANES, _RATES)
    found = con.execute(_RUNS).df().join(estimates, on="key")
    caches = [(campaign.runs[key].get("observed") or {}).get("http_cache") for key in found["key"]]
    requested = [campaign.runs[key]["point"]["axes"]["http_cache"] for key in found["key"]]
    rows = zip(caches, requested, found["fetched_mb"], strict=True)
    return found.assign(
        hit_percent=[_hits(cache) for cache in caches],
        origin_mb=[_origin(cache, name, fetched) for cache, name, fetched in rows],
        factor=[campaign.runs[key]["point"]["fixed"]["release"]["factor"] for key in found["key"]],
    )


def _hits(cache: Mapping[str, Any] | None) -> float | None:
    """Return the percentage of requests for which the cache sent no request to the store.

    It is computed from the requests to the store, because the hits that Squid reports do not include requests that
    waited for the answer to another request.
    """
    if not cache or not cache["requests"]:
        return None
    return 100 * (1 - cache["origin_requests"] / cache["requests"])


def _origin(cache: Mapping[str, Any] | None, requested: str, fetched_mb: float) -> float | None:
    """Return the MB that the store sent: as counted by the cache, or without a cache as received by the clients."""
    if requested == "none":
        return fetched_mb
    return cache["origin_bytes"] / 1e6 if cache else None


def launches_table(found: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `launches.csv`: one row per group of points (columns `by`).

    Columns: medians of LAUNCH_METRICS over the valid runs with interval or range; failed: number of failed starts in
    all runs; factor of the release.
    """
    kept = points.loc[points["state"] == "ok", [*by, "key", "shared_host"]]
    how = {"failed": "sum", "factor": "first"}
    columns = [*by, *groups.COUNTS, "few", *groups.spread(LAUNCH_METRICS), "failed", "factor", "shared_host"]
    return groups.summarised(kept.merge(found, on="key"), by, LAUNCH_METRICS, columns, how, counted="first_s")


def with_and_without_cache(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each pair of groups of cold clients that differ only in the cache.

    The pairs with the most clients are first. Columns that end with `_none` are for the group without a cache, columns
    that end with `_cache` for the group with a cache. ratio: ratio of the median first starts.
    """
    if table.empty:
        return pd.DataFrame()
    rows = table[(table["client_cache"] == "none") & table["first_median_s"].notna()]
    by = [c for c in ("store", *labels.axes_of(rows)) if c not in ("http_cache", "client_cache")]
    plain, cached = (rows[(rows["http_cache"] == "none") == without] for without in (True, False))
    times = ["first_median_s", "slowest_median_s"]
    both = plain[[*by, *times]].merge(
        cached[[*by, "http_cache", *times, "hit_median_percent"]], on=by, suffixes=("_none", "_cache")
    )
    both["ratio"] = both["first_median_s_none"] / both["first_median_s_cache"]
    return both.sort_values(["clients", "ratio"], ascending=False, kind="stable")


def launches_numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about starts. Without data, the list is empty.

    launches_files: number of files of a start; launches_clients: largest number of clients. For the largest number of
    cold clients with and without a cache: launches_store, launches_direct and launches_cached (median and slowest
    client), launches_hits.
    """
    if table.empty:
        return []
    out: list[tuple[str, Any, str]] = [
        ("launches_files", round(table["files_median_per_start"].max()), ""),
        ("launches_clients", labels.plural(table["clients"].max(), "client"), ""),
    ]
    found = with_and_without_cache(table)
    if len(found):
        row = found.iloc[0]
        out += [
            ("launches_together", labels.plural(row["clients"], "client"), ""),
            ("launches_store", row["store"], ""),
            ("launches_direct", row["first_median_s_none"], "s"),
            ("launches_cached", row["first_median_s_cache"], "s"),
            ("launches_direct_slowest", row["slowest_median_s_none"], "s"),
            ("launches_cached_slowest", row["slowest_median_s_cache"], "s"),
            ("launches_hits", row["hit_median_percent"], "%"),
        ]
    return out


COLLECTS, UPLOADS = "collect_garbage", ("put", "publish")  # workloads
AXES = ("engine", "pattern", "days", "keep", "batch", "workers")  # axes of the collection
RUN_KEYS = ("key", "store", "workload", "rep", "state", "shared_host")
SUMS = ("deletes", "gets", "requests", "retries", "failures")  # sums over the tries
LAST = ("kept", "dropped")  # values of the last try
SEEN = ("alive", "dead", "lost", "lingering", "left", "others")  # found by the check after the collection
UPLOAD_RATIOS = {"uploads_during_ratio": roles.DURING, "uploads_after_ratio": roles.AFTER}
COLLECTION_COLUMNS = (
    *RUN_KEYS,
    "system",
    "role",
    *AXES,
    "factor",
    "tries",
    "mark_s",
    "sweep_s",
    "deletes_per_s",
    *SUMS,
    *LAST,
    *SEEN,
    "dead_mb",
    *UPLOAD_RATIOS,
)
COLLECTION_METRICS = ("deletes_per_s", "sweep_s", *UPLOAD_RATIOS)  # summarised as median, low and high


def _collecting(run: Mapping[str, Any]) -> Iterator[tuple[str | None, Mapping[str, Any], list[int], Mapping[str, Any]]]:
    """Yield role, axes, clients and observed collection for the run, or for each of its roles that collects garbage."""
    if run["point"]["workload"] == COLLECTS:
        ranks = [c["client"] for c in run["clients"]]
        yield None, run["point"]["axes"], ranks, run["observed"]["collection"]
    for role in run.get("roles") or []:
        if role["workload"] == COLLECTS:
            yield role["name"], role["axes"], role["clients"], run["observed"][role["name"]]["collection"]


def _release(run: Mapping[str, Any], role: str | None) -> Mapping[str, Any]:
    fixed = run["point"]["fixed"]
    role_fixed = fixed if role is None else next(r["fixed"] for r in fixed["roles"] if r["name"] == role)
    return role_fixed["release"]


def collections_table(campaign: Campaign, points: pd.DataFrame, phases: pd.DataFrame) -> pd.DataFrame:
    """Return one row per measured run and role that collects garbage, in the order of the points.

    The role is null if the run has no roles. docs/tables.md describes the columns.
    """
    con = scan.connect(campaign, "collections")
    if con is None:
        return pd.DataFrame(columns=COLLECTION_COLUMNS)
    tries = con.execute(f"SELECT key, {', '.join(records.COLLECTIONS)} FROM rows").df()
    felt, rows = _upload_ratios(phases), []
    for key in dict.fromkeys(key for key, _ in campaign.files("collections")):
        run = campaign.runs[key]
        for role, axes, ranks, seen in _collecting(run):
            role_tries = tries[(tries["key"] == key) & tries["client"].isin(ranks)].sort_values(["client", "number"])
            row = {
                "key": key,
                "role": role,
                "system": labels.deployment(run["point"]["axes"] | {"store": run["point"]["store"]}),
            }
            row |= {name: axes[name] for name in AXES}
            row |= {"factor": _release(run, role)["factor"], "tries": len(role_tries)} | _times(role_tries)
            row |= {name: int(role_tries[name].sum()) for name in SUMS} | {
                name: int(role_tries[name].iloc[-1]) for name in LAST
            }
            row |= {name: seen[name] for name in SEEN} | {"dead_mb": seen["dead_bytes"] / 1e6}
            rows.append(row | {name: felt.get((key, phase)) for name, phase in UPLOAD_RATIOS.items()})
    found = pd.DataFrame(rows)
    return points[["order", *RUN_KEYS]].merge(found, on="key").sort_values("order").reindex(columns=COLLECTION_COLUMNS)


def _times(tries_of_client: pd.DataFrame) -> dict[str, Any]:
    """Return mark_s, sweep_s (duration of marking and of sweeping in all tries), and deletes_per_s of sweeping."""
    begun = tries_of_client[tries_of_client["marked_ns"].notna()]
    sweep = float((begun["end_ns"] - begun["marked_ns"]).sum()) / 1e9
    mark = float((begun["marked_ns"] - begun["begin_ns"]).sum()) / 1e9
    return {
        "mark_s": mark,
        "sweep_s": sweep,
        "deletes_per_s": tries_of_client["deletes"].sum() / sweep if sweep else None,
    }


def _upload_ratios(phases: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Return the rate of all uploads divided by their rate before the collection: (key, phase) -> ratio.

    Runs without uploads have no entry.
    """
    rates = phases[phases["does"].isin(UPLOADS)].groupby(["key", "phase"])["rate_per_s"].sum()
    out = {}
    for (key, phase), rate in rates.items():
        before = rates.get((key, roles.BEFORE), 0.0)
        if phase != roles.BEFORE and before:
            out[key, phase] = float(rate / before)
    return out


def collections_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per group of valid runs that differ only in the repetition. table: collections.csv.

    Columns: the columns of the first run; n; median, low and high of COLLECTION_METRICS (`deletes_per_s_median` …);
    medians of alive, dead and dead_mb; sums of lingering, left, lost, retries and failures.
    """
    ok = table[table["state"] == "ok"]
    out = []
    series = ok["key"].map(lambda key: key.rpartition("rep~")[0])
    for _, group in ok.groupby([series, ok["role"].astype(object).fillna("")], sort=False):
        row: dict[str, Any] = group.iloc[0].to_dict() | {"n": len(group)}
        for name in COLLECTION_METRICS:
            summary = medians.summarise(group[name].astype(float))
            row |= {f"{name}_{part}": getattr(summary, part) for part in groups.PARTS}
        row |= {name: float(group[name].astype(float).median()) for name in ("alive", "dead", "dead_mb")}
        out.append(
            row | {name: int(group[name].sum()) for name in ("lingering", "left", "lost", "retries", "failures")}
        )
    return pd.DataFrame(out)


def collections_numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about garbage collection. Without data, the list is empty.

    collected_dead and collected_alive: largest number of objects; collected_rate: highest median of deletions per
    second; collected_lingering: number of dead objects that still existed right after the collection, in all runs;
    collected_uploads: rate of uploads during the collection relative to the rate before, for the group that was slowed
    down most.
    """
    found = collections_summary(table)
    if found.empty:
        return []
    out: list[tuple[str, Any, str]] = [
        ("collected_dead", found["dead"].max(), ""),
        ("collected_alive", found["alive"].max(), ""),
        ("collected_rate", found["deletes_per_s_median"].max(), "per second"),
        ("collected_lingering", int(found["lingering"].sum()), ""),
    ]
    slowed = found[found["uploads_during_ratio_median"].notna()]
    if len(slowed):
        worst = slowed.loc[slowed["uploads_during_ratio_median"].idxmin()]
        parts = [100 * worst[f"uploads_during_ratio_{p}"] for p in groups.PARTS]
        out += [("collected_uploads", labels.spread(parts), "%"), ("collected_uploads_where", worst["system"], "")]
    return out

"""`latency.csv`: quantiles of latency and TTFB over the runs of a group of points. See docs/latency.md.

* latency = end_ns - coalesce(intended_ns, start_ns). In a closed loop it counts from the start of the operation. In an
  open loop it counts from the time when the operation was due, so that a stall affects all operations that were due in
  this time ("coordinated omission": G. Tene, README of wrk2). TTFB is first_byte_ns minus the same time. A multi-object
  delete has one latency for any number of objects.
* Operations count if they succeeded, and if they began (or were due) within the `overlap` window of `windows`. A bin
  counts if it ends in this window.
* The quantile p of a run is the smallest latency that at least the fraction p of the operations did not exceed (nearest
  rank). It is exact for single rows. For the histograms of bins it is interpolated in a bucket, with an error of up to
  2 % (`binned`). If there are fewer than 1 / (1 - p) operations (100 for p99, 1000 for p99.9), the quantile would be
  the maximum, and is null.
* An operation that hung lasted at least until the client gave it up. An operation that was due and never began lasted
  at least until the deadline. Both count as longer than all operations that ended. If a quantile falls on one of these
  operations, it is a lower bound, computed from all operations with these least durations. TTFB is then not known, and
  is null. Operations that hung count if they began before the end of the window.
* paused_percent: percentage of the operations longer than p99 that were in flight while their client did not run (the
  client's longest pauses, see `engines.common.timing`). The host of the client can be the cause of this part of the
  tail.
"""

from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.records import roles, scan
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics.medians import WIDTH, enough, histogram_quantiles, with_bounds
from storelab.core import calibration
from storelab.core.axes import DEPLOYMENT_NAMES
from storelab.core.records import HUNG

LEVELS = (0.5, 0.9, 0.99, 0.999)
NAMES = ("p50", "p90", "p99", "p999")
TTFB = {0.5: "ttfb_p50", 0.99: "ttfb_p99"}
METRICS = (*(f"latency_{n}" for n in NAMES), "latency_max", *TTFB.values())
SIZES = ("range_size_bytes", "object_size_bytes")
KEPT_UP = 99.0  # percent of the operations due; below it, the system did not keep up with an open loop
TAIL = 0.99
PAUSED = 50.0  # from this paused_percent on, the host can be the cause of the tail
COUNTED = ("operations", "failed", "hung", "not_begun")
BOUNDS = "lower_bounds"  # column with the names of the metrics that are lower bounds, separated by ", "
PLAIN = ("put", "get", "get_range", "stat", "list", "delete")  # workloads with one op, which identifies the workload
LOADS = ("clients", "workers", "arrival_rate")
POINT_COLUMNS = ("latency_p50_ms", "latency_p99_ms", "ttfb_p50_ms")  # columns of points.csv
_ROWS = f"""(SELECT *, coalesce(intended_ns, start_ns) AS begun,
  CASE WHEN error IS NULL THEN 'ended' WHEN error = '{HUNG}' THEN 'hung' ELSE 'failed' END AS outcome FROM rows)
WHERE (begun > overlap_begin_ns OR outcome = 'hung') AND begun <= first_end_ns"""
_SINGLE = f"""
SELECT key, op, count(*) FILTER (outcome = 'ended') AS operations, count(*) FILTER (outcome = 'failed') AS failed,
  count(*) FILTER (outcome = 'hung') AS hung,
  count(intended_ns) > 0 AS due, count(first_byte_ns) FILTER (error IS NULL) AS with_ttfb,
  max(end_ns - begun) FILTER (error IS NULL) AS latency_max,
  quantile_disc(end_ns - begun, {list(LEVELS)}) FILTER (error IS NULL) AS latency,
  quantile_disc(first_byte_ns - begun, {list(TTFB)}) FILTER (error IS NULL) AS ttfb
FROM {_ROWS} GROUP BY ALL"""
_BUCKETS = f"""
SELECT key, op, outcome, bucket.upper_ns AS upper_ns, sum(bucket.count)::BIGINT AS operations
FROM (SELECT key, op, unnest(latency_hist) AS bucket,
        CASE WHEN error IS NULL THEN 'ended' WHEN error = '{HUNG}' THEN 'hung' ELSE 'failed' END AS outcome FROM rows
      WHERE latency_hist IS NOT NULL AND end_ns > overlap_begin_ns AND (end_ns <= first_end_ns OR error = '{HUNG}'))
GROUP BY ALL"""
_ALONE = f"SELECT end_ns - begun AS ns, first_byte_ns - begun AS ttfb, outcome FROM {_ROWS} AND key = ? AND op = ?"
_TAIL = f"SELECT client, begun, end_ns FROM {_ROWS} AND key = ? AND op = ? AND outcome = 'ended' AND end_ns - begun > ?"
_AS_BUCKETS = f"""
SELECT key, op, outcome, count(*) AS operations,
  {scan.bucket("end_ns - begun")} AS upper_ns
FROM {_ROWS} GROUP BY ALL"""


def _bin_quantiles(buckets: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one row per key and op with counts and quantiles in ns.

    buckets: histograms with the columns key, op, outcome, upper_ns and operations.
    """
    rows = []
    for (key, op), group in buckets.groupby(["key", "op"]):
        counts = {outcome: rows.groupby("upper_ns")["operations"].sum() for outcome, rows in group.groupby("outcome")}
        ended, failed, hung = (counts.get(name, pd.Series(dtype="int64")) for name in ("ended", "failed", "hung"))
        row = {"key": key, "op": op, "operations": ended.sum(), "failed": failed.sum(), "hung": hung.sum()}
        row |= {"binned": True, "ended": ended, "held": hung}
        if len(ended):
            latency = histogram_quantiles(ended.index.to_numpy(float), ended.to_numpy(), LEVELS)
            row |= {"latency_max": ended.index[-1], "latency": latency}
        rows.append(row)
    return rows


def _never_began(run: dict[str, Any], rate: float) -> np.ndarray:
    """Return the waiting times in ns, until the deadline, of operations that were due in the window but never began."""
    waited = np.concatenate([*scan.never_began([c.get("engine") or {} for c in run["clients"]], rate), []])
    return waited[waited < run["deadline_ns"] - run["start_ns"] - run["point"]["fixed"]["warm_up_ns"]]


def _bounded(row: dict[str, Any], missed: np.ndarray, con: Any) -> dict[str, Any]:
    """Return the entries of a row of `runs` that change if operations hung or never began.

    missed: the least durations (ns) of operations that never began; con: a connection with the view `rows`.
    """
    if row["binned"]:
        ended, hung, ttfb = row["ended"], row["held"].rename(lambda upper: upper / WIDTH), pd.Series()
    else:
        rows = con.execute(_ALONE, [row["key"], row["op"]]).df()
        outcomes = dict(list(rows.groupby("outcome")))
        ended, hung, ttfb = (
            outcomes.get(name, rows.iloc[:0])[ns].value_counts()
            for name, ns in (("ended", "ns"), ("hung", "ns"), ("ended", "ttfb"))
        )
    bounds = pd.concat([hung, pd.Series(missed).value_counts()])
    values, beyond = with_bounds(ended, bounds, LEVELS)
    first, unknown = with_bounds(ttfb, bounds, list(TTFB))
    names = [f"latency_{n}" for n, p, b in zip(NAMES, LEVELS, beyond, strict=True) if b and enough(row["all"], p)]
    return {
        "latency": values,
        "latency_max": float(np.concatenate([ended.index, bounds.index]).max()),
        "ttfb": np.where(unknown, np.nan, first),
        BOUNDS: ", ".join([*names, "latency_max"]),
    }


def _paused(con: Any, row: dict[str, Any], run: dict[str, Any]) -> float | None:
    """Return paused_percent of a row of `runs`, or None if a client did not record its pauses."""
    recorded = {c.get("client"): (c.get("engine") or {}).get("pauses") for c in run["clients"]}
    if None in recorded.values():
        return None
    if not any(pauses["longest"] for pauses in recorded.values()):
        return 0.0  # the usual case, without the need to query the tail
    tail = con.execute(_TAIL, [row["key"], row["op"], int(row["latency"][LEVELS.index(TAIL)])]).df()
    met = pd.Series(False, index=tail.index)
    for client, pauses in recorded.items():
        for begin, length in pauses["longest"]:
            met |= (tail["client"] == client) & (tail["begun"] < begin + length) & (tail["end_ns"] > begin)
    return 100 * float(met.mean()) if len(met) else 0.0


def runs(campaign: Campaign) -> pd.DataFrame:
    """Return one row per measured key and op that has latencies.

    Columns: operations (successful), failed, hung (all three began in the window), not_begun (due in the window), loop,
    binned, METRICS in ms (null as described in the module), BOUNDS (null: no lower bounds). `operations` is the number
    of latencies; a multi-object delete has one for each request.
    """
    # Points with roles have a separate table.
    con = scan.connect(campaign, "ops", campaign.runs.keys() - {*roles.keys(campaign)})
    single = con.execute(_SINGLE).df() if con else pd.DataFrame()
    buckets = con.execute(_BUCKETS).df() if con else pd.DataFrame()
    rows = single.assign(binned=False).to_dict("records")
    if len(buckets):
        mixed = set(buckets["key"]) & set(single["key"])  # some clients of a run can record bins, others operations
        if mixed:
            as_buckets = con.execute(_AS_BUCKETS).df()
            buckets = pd.concat([buckets, as_buckets[as_buckets["key"].isin(mixed)]])
        due = {r["key"] for r in rows if r["due"]}
        rows = [r for r in rows if r["key"] not in mixed] + [
            r | {"due": r["key"] in due} for r in _bin_quantiles(buckets)
        ]
    rates = {p["key"]: p["axes"].get("arrival_rate") or 0 for p in campaign.points}
    out = [_row(r, campaign.runs[r["key"]], rates[r["key"]], con) for r in rows]
    columns = [
        "key",
        "op",
        "loop",
        "operations",
        "failed",
        "hung",
        "not_begun",
        "binned",
        *METRICS,
        BOUNDS,
        "paused_percent",
    ]
    return pd.DataFrame(out, columns=columns).sort_values(["key", "op"]).reset_index(drop=True)


def _row(r: dict[str, Any], run: dict[str, Any], rate: float, con: Any) -> dict[str, Any]:
    """Return a row of `runs` from a row of the query, or of the histograms."""
    row = {k: r[k] for k in ("key", "op", "operations", "failed", "hung", "binned")}
    row["loop"] = "open" if r.get("due") or rate else "closed"
    missed = _never_began(run, rate)
    row["not_begun"] = len(missed)
    every = r["operations"] + r["hung"] + len(missed)
    with_ttfb = r.get("with_ttfb", 0)
    if every > r["operations"]:
        r = r | _bounded(r | {"all": every}, missed, con)
        row[BOUNDS] = r[BOUNDS]
    if every:
        row["latency_max"] = r["latency_max"] / 1e6
        named = zip(NAMES, LEVELS, r["latency"], strict=True)
        row |= {f"latency_{n}": v / 1e6 for n, p, v in named if enough(every, p)}
        if not r["binned"] and enough(every, TAIL):
            row["paused_percent"] = _paused(con, r, run)
    if with_ttfb > 0:
        row |= {n: v / 1e6 for (p, n), v in zip(TTFB.items(), r["ttfb"], strict=True) if enough(with_ttfb, p)}
    return row


def point_columns(found: pd.DataFrame) -> pd.DataFrame:
    """Return POINT_COLUMNS and `latency_lower_bounds`, one row per key (the index).

    If a point has several ops, the op with the most operations in the window is used.
    """
    most = found.sort_values("operations", kind="stable").drop_duplicates("key", keep="last").set_index("key")
    values = most[[c.removesuffix("_ms") for c in POINT_COLUMNS]].add_suffix("_ms").astype("Float64")
    return values.assign(**{f"latency_{BOUNDS}": most[BOUNDS].astype("string")})


def with_points(found: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Return one row per valid run and op, with the columns of points.csv and of `runs`.

    The unit is added to the names of METRICS.
    """
    renamed = found.rename(columns={"operations": "counted"})
    both = points[points["state"] == "ok"].merge(renamed, on="key", suffixes=("_of_run", ""))
    return both.drop(columns=[*POINT_COLUMNS, f"latency_{BOUNDS}"]).rename(columns={m: f"{m}_ms" for m in METRICS})


def table(both: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return one row per group of points (columns `by`) and op. both: the result of `with_points`.

    For each of METRICS, the columns are the median over the runs and its interval or range, in ms. They are null if the
    metric is null in one of the runs. lower_bounds: the metrics that are lower bounds in one of the runs, and therefore
    here. paused_percent: value of the worst run; null: not known. concurrency: clients * workers. operations, failed,
    hung, not_begun: sums over the runs. completed_percent (open loop): percentage of the operations due in the window
    that began and ended, in the worst run; below 100, the system did not keep up.
    """
    metrics = [(m, "ms") for m in METRICS]
    head = ["op", "loop", "concurrency", *COUNTED, "completed_percent", "binned", BOUNDS, "paused_percent"]
    columns = [*by, *groups.COUNTS, *head, *groups.spread(metrics), *groups.SHARED, *groups.COLD]
    how = dict.fromkeys(COUNTED[1:], "sum")
    out = groups.summarised(both, [*by, "op", "loop"], metrics, columns, how, _more, complete=True)
    return out.astype(dict.fromkeys(("concurrency", *COUNTED), "Int64"))


def _more(group: pd.DataFrame) -> dict[str, Any]:
    first = group.iloc[0]
    workers, rate = (first.get(axis) for axis in ("workers", "arrival_rate"))
    bounds = {name for names in group[BOUNDS].dropna() for name in names.split(", ")}
    due = first["loop"] == "open" and not pd.isna(rate) and rate
    return {
        "concurrency": first["clients"] * (1 if workers is None or pd.isna(workers) else workers),
        "operations": group["counted"].sum(),
        "completed_percent": _completed(group, rate) if due else None,
        "binned": bool(group["binned"].any()),
        BOUNDS: ", ".join(m for m in METRICS if m in bounds) or None,
        "paused_percent": group["paused_percent"].astype(float).max(),
    }


def _completed(runs_of: pd.DataFrame, rate: float) -> float:
    due = runs_of["overlap_length_s"].astype(float) * rate
    return float((100 * (runs_of["counted"] + runs_of["failed"]).astype(float) / due).min().clip(max=100))


def definitions() -> list[tuple[str, Any, str]]:
    """Return the constants of definitions as (name, value, unit), for the paper's method section."""
    fewest = {n: round(1 / (1 - p)) for n, p in zip(NAMES, LEVELS, strict=True)}
    return [
        ("latency_fewest", fewest["p99"], ""),
        ("latency_fewest_highest", fewest["p999"], ""),
        ("latency_bin_error", round(100 * (WIDTH - 1)), "%"),
    ]


def shown(latency: pd.DataFrame, metric: str = "latency_p50") -> pd.DataFrame:
    """Return the rows of `latency.csv` that figures and text use: those with a value of `metric`.

    The calibration is excluded. Reads of selections are also excluded, because their duration depends on the selection;
    other figures show it by phase.
    """
    if "loop" not in latency:
        return latency.iloc[:0]
    kept = latency[f"{metric}_median_ms"].notna() & (latency["op"] != "READ")
    return latency[kept & (latency["workload"] != calibration.WORKLOAD)]


def load_column(loop: str) -> str:
    """Return the column that has the load of a closed or open loop."""
    return "concurrency" if loop == "closed" else "arrival_rate"


def ends(latency: pd.DataFrame, open_least: bool = True) -> pd.DataFrame:
    """Return the rows of `shown` with the lowest and the highest load by system, workload, op, sizes and loop.

    The column `setting` describes the other axes that vary. Both rows have the same setting: the one with the most
    loads, then with the most front-ends, buckets and accounts, then with the most defaults. If several rows have the
    same load, the one with the fewest clients is used. Reads that are not warm are only used for workloads without warm
    reads. open_least: also return the lowest load of an open loop.
    """
    rows, kept = shown(latency), []
    if rows.empty:
        return rows.assign(setting="")
    if "access" in rows:
        usual = rows["access"].isna() | (rows["access"] == groups.WARM)
        rows = rows[usual | ~usual.groupby(rows["workload"]).transform("any")]
    by = [c for c in ("store", "workload", "op", "loop", "engine", "access", *SIZES, *DEPLOYMENT_NAMES) if c in rows]
    others = [c for c in labels.axes_of(rows) if c not in (*by, *LOADS)]
    for _, group in rows.groupby(by, dropna=False):
        column, varied = load_column(group["loop"].iloc[0]), [c for c in others if group[c].nunique(dropna=False) > 1]
        chosen = max(
            (rows for _, rows in group.groupby(varied, dropna=False)) if varied else [group],
            key=lambda rows: _preference(rows, column, varied),
        )
        chosen = chosen.sort_values([column, *(c for c in LOADS if c in chosen)]).drop_duplicates(column)
        access = chosen["access"].iloc[0] if "access" in chosen else None
        named = [*varied, *(["access"] if not pd.isna(access) and access != groups.WARM else [])]
        chosen = chosen.assign(setting=labels.settings((c, chosen[c].iloc[0]) for c in named))
        least = open_least or column == "concurrency"
        kept.append(chosen.iloc[list(dict.fromkeys([*([0] if least else []), len(chosen) - 1]))])
    return pd.concat(kept)


def _preference(rows: pd.DataFrame, column: str, varied: list[str]) -> tuple[float, ...]:
    """Return the sort key by which `ends` chooses one setting. rows: the rows of a setting; column: their load."""
    first = rows.iloc[0]
    wide = (0.0 if pd.isna(first.get(c)) else float(first[c]) for c in ("front_ends", "buckets", "accounts"))
    return rows[column].nunique(), *wide, sum(labels.is_default(c, first[c]) for c in varied)


def numbers(latency: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about latency. Without data, the list is empty.

    The numbers are the smallest median and the largest p99 of each loop in `ends`, with the point at which they were
    measured, and the number of groups of the open loop in which the system did not keep up.
    """
    out: list[tuple[str, Any, str]] = []
    for loop in ("closed", "open"):
        rows = shown(latency)
        rows = rows[rows["loop"] == loop] if len(rows) else rows
        for name, metric, least in (("least", "latency_p50", True), ("longest", "latency_p99", False)):
            known = shown(ends(rows), metric)
            if len(known):
                values = known[f"{metric}_median_ms"].astype(float)
                row = known.loc[values.idxmin() if least else values.idxmax()]
                spread = labels.spread([row[f"{metric}_{part}_ms"] for part in ("median", "low", "high")])
                spread = ("at least " if metric in str(row[BOUNDS]).split(", ") else "") + spread
                out += [(f"latency_{loop}_{name}", spread, "ms"), (f"latency_{loop}_{name}_where", where(row), "")]
        if loop == "open" and len(rows):
            out += [
                ("latency_open_groups", len(rows), ""),
                ("latency_open_behind", int((rows["completed_percent"] < KEPT_UP).sum()), ""),
            ]
    return out


def operation(row: Any) -> str:
    """Return the op of a row of `latency.csv`, with its workload if necessary, such as `GET, mixed operations`."""
    return row["op"] if row["workload"] in PLAIN else f"{row['op']}, {labels.value_text('workload', row['workload'])}"


def where(row: Any) -> str:
    """Describe the point of a row of `ends`: `GET, 4 kB objects, on alpha with 4 front-ends at concurrency 8`."""
    sizes = [labels.value_text(c, row[c]) for c in SIZES if c in row and not pd.isna(row[c])]
    due = labels.grouped(f"{row['arrival_rate']:.0f}") if row["loop"] == "open" and row.get("arrival_rate") else ""
    rate = f" and {due} operations/s due" if due else ""
    setting = f" with {row['setting']}" if row["setting"] else ""
    system = f"{labels.deployment(row)}{setting} at concurrency {row['concurrency']:g}{rate}"
    return f"{', '.join([operation(row), *sizes])}, on {system}"

"""`latency.csv`: quantiles of latency and TTFB over the runs of a group of points. docs/latency.md
explains it.

* latency = end_ns - coalesce(intended_ns, start_ns): in an open loop from when the operation was due, so that a stall
  is seen by all operations that were due meanwhile ("coordinated omission": G. Tene, README of wrk2), in a closed loop
  from when it began. TTFB = first_byte_ns less the same. A multi-object delete has one latency, whatever it deletes.
* Operations: successful, begun (or due) within the `overlap` window of `windows`; of bins, those that end in it.
* The quantile p of a run is the smallest latency that at least the fraction p of the operations did not exceed (nearest
  rank), exact over single rows; from the histograms of bins interpolated in a bucket, wrong by 2 % at most (`binned`).
  It is null with fewer than 1 / (1 - p) operations, where it would only repeat the maximum: 100 for p99, 1000 for
  p99.9.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import GIVEN, NUMBERS, TABLE
from storelab.core import calibration
from storelab.core.axes import DEPLOYMENT_NAMES

LEVELS = (0.5, 0.9, 0.99, 0.999)
NAMES = ("p50", "p90", "p99", "p999")
TTFB = {0.5: "ttfb_p50", 0.99: "ttfb_p99"}
WIDTH = 1.02  # a bucket's upper end over its lower one, at most
METRICS = (*(f"latency_{n}" for n in NAMES), "latency_max", *TTFB.values())
SIZES = ("range_size_bytes", "object_size_bytes")
KEPT_UP = 99.0  # percent of the operations due; with less, the system did not keep up with an open loop
OF_POINTS = ("latency_p50_ms", "latency_p99_ms", "ttfb_p50_ms")  # columns of points.csv
_ROWS = """(SELECT *, coalesce(intended_ns, start_ns) AS begun FROM rows)
WHERE begun > overlap_begin_ns AND begun <= first_end_ns"""
_SINGLE = f"""
SELECT key, op, count(*) FILTER (error IS NULL) AS operations, count(*) FILTER (error IS NOT NULL) AS failed,
  count(intended_ns) > 0 AS due, count(first_byte_ns) FILTER (error IS NULL) AS with_ttfb,
  max(end_ns - begun) FILTER (error IS NULL) AS latency_max,
  quantile_disc(end_ns - begun, {list(LEVELS)}) FILTER (error IS NULL) AS latency,
  quantile_disc(first_byte_ns - begun, {list(TTFB)}) FILTER (error IS NULL) AS ttfb
FROM {_ROWS} GROUP BY ALL"""
_BUCKETS = """
SELECT key, op, error IS NOT NULL AS failed, bucket.upper_ns AS upper_ns, sum(bucket.count)::BIGINT AS operations
FROM (SELECT key, op, error, unnest(latency_hist) AS bucket FROM rows
      WHERE latency_hist IS NOT NULL AND end_ns > overlap_begin_ns AND end_ns <= first_end_ns)
GROUP BY ALL"""
_AS_BUCKETS = f"""
SELECT key, op, error IS NOT NULL AS failed, count(*) AS operations,
  pow({WIDTH}, ceil(ln(greatest(end_ns - begun, 1)) / ln({WIDTH})))::BIGINT AS upper_ns
FROM {_ROWS} GROUP BY ALL"""


def enough(operations: float, level: float) -> bool:
    """Whether so many operations can tell this quantile from their maximum."""
    return operations * (1 - level) >= 1 - 1e-9


def of_histogram(upper: np.ndarray, count: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Quantiles (unit of `upper`, shape of levels) of a histogram whose buckets end at `upper` (ascending) and hold
    `count` values.

    Within a bucket the values are taken as evenly spaced in their logarithm, between its ends, which are WIDTH apart at
    most.
    """
    lower = np.maximum(upper / WIDTH, np.concatenate([[0], upper[:-1]]))
    after = np.cumsum(count)
    rank = np.ceil(np.asarray(levels) * after[-1] - 1e-9)
    i = np.searchsorted(after, rank)
    share = (rank - (after[i] - count[i]) - 0.5) / count[i]
    return lower[i] * (upper[i] / lower[i]) ** share


def _of_bins(buckets: pd.DataFrame) -> list[dict[str, Any]]:
    """Quantiles in ns per key and op of histograms: columns key, op, failed, upper_ns, operations."""
    rows = []
    for (key, op), group in buckets.groupby(["key", "op"]):
        good = group[~group["failed"]].groupby("upper_ns")["operations"].sum()
        row = {
            "key": key,
            "op": op,
            "operations": good.sum(),
            "failed": group[group["failed"]]["operations"].sum(),
            "binned": True,
        }
        if len(good):
            upper, count = good.index.to_numpy(float), good.to_numpy()
            row |= {"latency_max": upper[-1], "latency": of_histogram(upper, count, LEVELS)}
        rows.append(row)
    return rows


@GIVEN("latencies", "campaign")
def runs(campaign: Campaign) -> pd.DataFrame:
    """One row per measured key and op that has latencies: operations, failed (begun in the window), loop, binned, and
    METRICS in ms (null as above). `operations` counts latencies: of a multi-object delete, requests."""
    con = scan.connect(campaign, "ops")
    single = con.execute(_SINGLE).df() if con else pd.DataFrame()
    buckets = con.execute(_BUCKETS).df() if con else pd.DataFrame()
    rows = single.assign(binned=False).to_dict("records")
    if len(buckets):
        mixed = set(buckets["key"]) & set(single["key"])  # clients of one run may differ
        if mixed:
            as_buckets = con.execute(_AS_BUCKETS).df()
            buckets = pd.concat([buckets, as_buckets[as_buckets["key"].isin(mixed)]])
        due = {r["key"] for r in rows if r["due"]}
        rows = [r for r in rows if r["key"] not in mixed] + [r | {"due": r["key"] in due} for r in _of_bins(buckets)]
    rates = {p["key"]: p["axes"].get("arrival_rate") or 0 for p in campaign.points}
    out = []
    for r in rows:
        row = {k: r[k] for k in ("key", "op", "operations", "failed", "binned")}
        row["loop"] = "open" if r.get("due") or rates[r["key"]] else "closed"
        if r["operations"]:
            row["latency_max"] = r["latency_max"] / 1e6
            row |= {
                f"latency_{n}": v / 1e6
                for n, p, v in zip(NAMES, LEVELS, r["latency"], strict=True)
                if enough(r["operations"], p)
            }
        if r.get("with_ttfb", 0) > 0:
            row |= {n: v / 1e6 for (p, n), v in zip(TTFB.items(), r["ttfb"], strict=True) if enough(r["with_ttfb"], p)}
        out.append(row)
    columns = ["key", "op", "loop", "operations", "failed", "binned", *METRICS]
    return pd.DataFrame(out, columns=columns).sort_values(["key", "op"]).reset_index(drop=True)


def of_points(found: pd.DataFrame) -> pd.DataFrame:
    """Columns OF_POINTS per key (the index), of the op of which most operations were begun in the window."""
    most = found.sort_values("operations", kind="stable").drop_duplicates("key", keep="last").set_index("key")
    return most[[c.removesuffix("_ms") for c in OF_POINTS]].add_suffix("_ms").astype("Float64")


@TABLE("latency", "latencies", "rated", "by")
def table(found: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of points (columns `by`) and op, of what `runs` found in valid runs: for each of METRICS the
    median over the runs with interval or range, in ms; null where it is null in one of the runs.

    concurrency: clients * workers. operations, failed: sums over the runs. completed_percent (open loop): of the
    operations that were due in the windows, those that were begun and ended, in the worst run; below 100 the system did
    not keep up, and the quantiles say less than what was due would have seen.
    """
    both = points[points["state"] == "ok"].merge(found.rename(columns={"operations": "counted"}), on="key")
    metrics = [(m, "ms") for m in METRICS]
    both = both.drop(columns=list(OF_POINTS)).rename(columns={m: f"{m}_ms" for m in METRICS})
    head = [*groups.COUNTS, "op", "loop", "concurrency", "operations", "failed", "completed_percent", "binned"]
    columns = [*by, *head, *groups.spread(metrics), "shared_host", *groups.CPU, "duration_s"]
    out = groups.summarised(both, [*by, "op", "loop"], metrics, columns, _more, complete=True)
    return out.astype(dict.fromkeys(("concurrency", "operations", "failed"), "Int64"))


def _more(group: pd.DataFrame) -> dict[str, Any]:
    first = group.iloc[0]
    workers, rate = (first.get(axis) for axis in ("workers", "arrival_rate"))
    due = first["loop"] == "open" and not pd.isna(rate) and rate
    return {
        "concurrency": first["clients"] * (1 if workers is None or pd.isna(workers) else workers),
        "operations": group["counted"].sum(),
        "failed": group["failed"].sum(),
        "completed_percent": _completed(group, rate) if due else None,
        "binned": bool(group["binned"].any()),
        "shared_host": bool(group["shared_host"].any()),
        "duration_s": first["duration_s"],
        **{name: group[name].astype(float).median() for name in groups.CPU},
    }


def _completed(runs_of: pd.DataFrame, rate: float) -> float:
    due = runs_of["overlap_length_s"].astype(float) * rate
    return float((100 * (runs_of["counted"] + runs_of["failed"]).astype(float) / due).min().clip(max=100))


def definitions() -> list[tuple[str, Any, str]]:
    """Constants of the definitions as (name, value, unit), for the paper's method."""
    fewest = {n: round(1 / (1 - p)) for n, p in zip(NAMES, LEVELS, strict=True)}
    return [
        ("latency_fewest", fewest["p99"], ""),
        ("latency_fewest_highest", fewest["p999"], ""),
        ("latency_bin_error", round(100 * (WIDTH - 1)), "%"),
    ]


def shown(latency: pd.DataFrame, metric: str = "latency_p50") -> pd.DataFrame:
    """Rows of `latency.csv` that figures and text take: with a value of `metric`, no calibration, and no reads of
    selections, whose time depends on what was selected and is split by phase elsewhere."""
    if "loop" not in latency:
        return latency.iloc[:0]
    told = latency[f"{metric}_median_ms"].notna() & (latency["op"] != "READ")
    return latency[told & (latency["workload"] != calibration.WORKLOAD)]


def load_column(loop: str) -> str:
    """What the load of a loop is counted in."""
    return "concurrency" if loop == "closed" else "arrival_rate"


def ends(latency: pd.DataFrame, open_least: bool = True) -> pd.DataFrame:
    """Of `shown`, per system, op, sizes and loop, the rows at the least and at the most load (open_least: the least of
    an open loop too); of several with one load, that with the least front-ends, buckets, accounts, clients."""
    rows, kept = shown(latency), []
    kinds = [c for c in ("store", "op", "loop", "engine", *SIZES, *DEPLOYMENT_NAMES) if c in rows]
    for _, group in rows.groupby(kinds, dropna=False) if len(rows) else []:
        column = load_column(group["loop"].iloc[0])
        least = [c for c in ("front_ends", "buckets", "accounts", "clients") if c in group]
        group = group.sort_values([column, *least]).drop_duplicates(column)
        kept += [*(group.index[:1] if open_least or column == "concurrency" else []), group.index[-1]]
    return rows.loc[list(dict.fromkeys(kept))]


@NUMBERS("latency", "latency")
def numbers(latency: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """(name, value, unit) of what the paper quotes of `latency.csv`: the least median and the longest p99 of each loop,
    where they were seen, and in how many groups of the open loop the system did not keep up. Absent data, no row."""
    out: list[tuple[str, Any, str]] = []
    for loop in ("closed", "open"):
        rows = shown(latency)
        rows = rows[rows["loop"] == loop] if len(rows) else rows
        for name, metric, least in (("least", "latency_p50", True), ("longest", "latency_p99", False)):
            known = shown(rows, metric)
            if len(known):
                values = known[f"{metric}_median_ms"].astype(float)
                row = known.loc[values.idxmin() if least else values.idxmax()]
                spread = words.spread([row[f"{metric}_{part}_ms"] for part in ("median", "low", "high")])
                out += [(f"latency_{loop}_{name}", spread, "ms"), (f"latency_{loop}_{name}_where", where(row), "")]
        if loop == "open" and len(rows):
            out += [
                ("latency_open_groups", len(rows), ""),
                ("latency_open_behind", int((rows["completed_percent"] < KEPT_UP).sum()), ""),
            ]
    return out


def where(row: Any) -> str:
    """Of one row of `latency.csv`: `GET, 4 kB objects, on alpha at concurrency 8`."""
    sizes = [words.value_text(c, row[c]) for c in SIZES if c in row and not pd.isna(row[c])]
    due = words.grouped(f"{row['arrival_rate']:.0f}") if row["loop"] == "open" and row.get("arrival_rate") else ""
    rate = f" and {due} operations/s due" if due else ""
    return f"{', '.join([row['op'], *sizes])}, on {words.deployment(row)} at concurrency {row['concurrency']:g}{rate}"

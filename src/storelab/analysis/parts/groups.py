"""Groups of points and their columns in tables.

The columns contain counts of runs, medians over the runs with their interval, and evidence that accesses were as cold
as requested (docs/cold.md). May import: `statistics`, `labels`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import labels
from storelab.analysis.statistics import medians

PARTS = ("median", "low", "high")
COUNTS = ("n", "interval", "coverage_percent")
FEW = 10  # the rate of a run with fewer operations is marked
# shares of the CPUs of the host; figures state them if clients and server share it
CPU = ("client_cpu_percent", "server_cpu_percent")
COLD = {"access_proven": "joined", "disk_reads_percent": "median", "first_over_again": "median"}
SHARED = {"shared_host": "any", **dict.fromkeys(CPU, "median"), "duration_s": "median"}  # columns of many tables
# Name and unit. Tables of runs have the column `<name>_<unit>`, tables of groups `<name>_<median, low or high>_<unit>`.
Metric = tuple[str, str]


def comparable(values: Iterable[Any]) -> list[Any]:
    """Return values in a form that is the same for a record and for CSV, where whole numbers may be floats.

    Null values are None.
    """
    return [None if pd.isna(v) else str(v) if isinstance(v, str | bool | np.bool_) else float(v) for v in values]


def joined(values: Iterable[Any]) -> str | None:
    """Return the distinct non-null values as text, in order of appearance."""
    return ", ".join(dict.fromkeys(str(v) for v in values if not pd.isna(v))) or None


def closed_loops(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without open loops. The rate of an open loop is set by its arrivals and shows no limit."""
    return rows[rows["arrival_rate"].fillna(0) == 0] if "arrival_rate" in rows else rows


def labelled(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the column `deployment`: the store and its deployment in words."""
    deployments = rows[[c for c in ("store", *labels.DEPLOYMENT_NAMES) if c in rows]].to_dict("records")
    return with_column(rows, "deployment", map(labels.deployment, deployments))


def with_column(rows: pd.DataFrame, name: str, values: Iterable[Any]) -> pd.DataFrame:
    """Return the rows with one more column, which is the last one. It replaces a column with the same name.

    This function is used instead of `DataFrame.assign`, which warns about frames with a hundred nullable columns.
    """
    column = pd.Series(list(values), index=rows.index, name=name, dtype=None if len(rows) else object)
    return pd.concat([rows.drop(columns=name, errors="ignore"), column], axis=1)


def grouped(rows: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield the values of the columns `by` and the rows of each group, sorted by these values.

    Null counts as a value, because a row has no value for the axes of other workloads.
    """
    if not len(rows):
        return
    # Most axes have only one value. Grouping by all of them (about sixty) would take most of the time of a table.
    one = {c: rows[c].iat[0] for c in by if _is_one(rows[c])}
    several = [c for c in by if c not in one]
    for key, group in rows.groupby(several, dropna=False, sort=True) if several else [((), rows)]:
        values = one | dict(zip(several, key, strict=True))
        yield {c: values[c] for c in by}, group


def _is_one(values: pd.Series) -> bool:
    """Check whether these values (one or more) are all the same, or all null."""
    first = values.iat[0]
    return bool(values.isna().all() if pd.isna(first) else (values == first).fillna(False).all())


def spread(metrics: Iterable[Metric]) -> list[str]:
    """Return the columns of these metrics in a table of groups."""
    return [f"{name}_{part}_{unit}" for name, unit in metrics for part in PARTS]


HOW: dict[str, Callable[[pd.Series], Any]] = {  # ways to combine a column of the runs into one value of the group
    "any": lambda values: bool(values.any()),
    "first": lambda values: values.iloc[0],
    "joined": joined,
    "max": lambda values: values.max(),
    "median": lambda values: values.astype(float).median(),
    "sum": lambda values: values.sum(),
}


def aggregated(runs: pd.DataFrame, how: Mapping[str, str]) -> dict[str, Any]:
    """Return one value for each column, combined over these runs. how: column -> one of HOW."""
    return {name: HOW[kind](runs[name]) for name, kind in how.items()}


def summarised(
    rows: pd.DataFrame,
    by: Sequence[str],
    metrics: Iterable[Metric],
    columns: Iterable[str],
    how: Mapping[str, str] | None = None,
    more: Callable[[pd.DataFrame], Mapping[str, Any]] | None = None,
    counted: str | None = None,
    complete: bool = False,
) -> pd.DataFrame:
    """Return one row per group of runs, with exactly these columns.

    COUNTS are n (number of runs), interval (the kind of low and high) and coverage_percent (probability that the
    interval contains the true median). The column `few`, if requested, is true if the rate of any run was computed from
    fewer than FEW operations (`rate_operations`).

    Parameters
    ----------
    rows, by
        The runs, and the columns that make a group.
    metrics
        Columns that are summarised as median, low and high of a group (`spread`).
    columns
        The columns of the table, including those of `by`.
    how
        Column -> one of HOW, for columns that are combined over the runs. SHARED and COLD need no entry.
    more
        Function that returns further columns of a group.
    counted
        The column whose finite values are counted as runs; default: count all rows.
    complete
        Set a metric of a group to null if it is null in one of the runs.
    """
    metrics, columns, out, rows = list(metrics), list(columns), [], rows.reset_index(drop=True)
    how = {name: kind for name, kind in (SHARED | COLD).items() if name in columns} | dict(how or {})
    values = {m: rows["_".join(m)].astype("Float64").to_numpy(float, na_value=np.nan) for m in metrics if len(rows)}
    for key, group in grouped(rows, by):
        runs = medians.summarise(range(len(group)) if counted is None else group[counted].astype(float))
        row = key | dict(zip(COUNTS, (runs.n, runs.kind, 100 * runs.coverage), strict=True))
        for name, unit in metrics:
            summary = medians.summarise(values[name, unit][group.index])
            known = summary.n == len(group) or not complete
            row |= {f"{name}_{part}_{unit}": getattr(summary, part) if known else np.nan for part in PARTS}
        if "few" in columns:
            row["few"] = bool((group["rate_operations"].astype(float) < FEW).any())
        out.append(row | aggregated(group, how) | dict(more(group) if more else {}))
    return pd.DataFrame(out, columns=columns).astype({c: rows.dtypes[c] for c in by if c in rows})


COLD_DTYPES = {"access_proven": "string", "disk_reads_percent": "Float64", "first_over_again": "Float64"}
WARM = "warm"  # default of the axis `access`


def cold_of_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns COLD of one record.

    A value is null if it was not recorded (older records, stores whose disk reads cannot be observed).
    """
    cold = run.get("cold") or {}
    share = cold.get("disk_share")
    return {
        "access_proven": cold.get("proven"),
        "disk_reads_percent": None if share is None else 100 * share,
        "first_over_again": (cold.get("step") or {}).get("ratio"),
    }


# Points are compared by their speed, and by their latencies if known. If an operation moves objects or ranges of 1 MB
# or more, the speed is the useful throughput in the `overlap` window. Otherwise it is the rate of operations. The
# paper's figures use the same rule. Only valid runs (`state` ok) have a value.

LARGE = 10**6  # bytes; above it, the transfer takes most of the time, below it the work per operation
THROUGHPUT, RATE = "throughput", "rate"
SPEED = "speed"  # name of the metric if points with throughput and with rate are combined
COLUMNS = {
    THROUGHPUT: "overlap_throughput_mb_per_s",
    RATE: "overlap_rate_per_s",
    "latency_p50": "latency_p50_ms",
    "latency_p99": "latency_p99_ms",
}
UNITS = {THROUGHPUT: "MB/s", RATE: "1/s", "latency_p50": "ms", "latency_p99": "ms"}
SPEEDS = (THROUGHPUT, RATE, SPEED)
MOVING = ("put", "get", "get_range")  # other operations, such as HEAD and DELETE, move no data of the object


def lower_is_better(metric: str) -> bool:
    """Return True for latencies and other metrics that are not speeds."""
    return metric not in SPEEDS


def kind(metric: str) -> str:
    """Return under which name a metric is combined over all points: `speed`, or the name of a latency."""
    return SPEED if metric in SPEEDS else metric


def metric_text(metric: str) -> str:
    """Return the metric as text with its unit, such as `latency p50 [ms]`. The combined `speed` has no unit."""
    return metric.replace("_", " ") + (f" [{UNITS[metric]}]" if metric in UNITS else "")


def large(points: pd.DataFrame) -> pd.Series:
    """Return for each point (or group of points) whether an operation moves 1 MB or more."""
    sizes = points.reindex(columns=["range_size_bytes", "object_size_bytes"]).astype("Float64")
    size = sizes["range_size_bytes"].fillna(sizes["object_size_bytes"])
    return (size >= LARGE).fillna(False).astype(bool) & points["workload"].isin(MOVING)


def point_rows(points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of points.csv that are valid and have a speed, with the columns `metric` and `value`.

    metric: throughput or rate; value: float, in MB/s or 1/s.
    """
    ok = points[points["state"] == "ok"]
    moves_large = large(ok)
    value = ok[COLUMNS[RATE]].astype("Float64").mask(moves_large, ok[COLUMNS[THROUGHPUT]].astype("Float64"))
    out = ok.assign(metric=moves_large.map({True: THROUGHPUT, False: RATE}), value=value.astype(float))
    return out[out["value"].notna()]


def with_latencies(points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `point_rows`, and one more row for each known latency of a run (in ms)."""
    parts = [point_rows(points)]
    for metric in (m for m in COLUMNS if lower_is_better(m) and COLUMNS[m] in points):
        ok = points[(points["state"] == "ok") & points[COLUMNS[metric]].notna()]
        parts.append(ok.assign(metric=metric, value=ok[COLUMNS[metric]].astype(float)))
    return pd.concat([p for p in parts if len(p)] or parts[:1], ignore_index=True)

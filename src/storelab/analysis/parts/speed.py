"""What is compared of a point: its speed, and its latencies where known. Pure.

The speed is the useful throughput in the `overlap` window where an operation moves objects or ranges from 1 MB on, and
the rate of operations below, as in the paper's figures. Only runs that count (`state` ok) have a value.
"""

import pandas as pd

LARGE = 10**6  # bytes: from 1 MB on the data path counts, below the work of an operation ("metadata")
THROUGHPUT, RATE = "throughput", "rate"
SPEED = "speed"  # either of them, where points of both kinds are taken together
COLUMNS = {
    THROUGHPUT: "overlap_throughput_mb_per_s",
    RATE: "overlap_rate_per_s",
    "latency_p50": "latency_p50_ms",
    "latency_p99": "latency_p99_ms",
}
UNITS = {THROUGHPUT: "MB/s", RATE: "1/s", "latency_p50": "ms", "latency_p99": "ms"}
SPEEDS = (THROUGHPUT, RATE, SPEED)
MOVING = ("put", "get", "get_range")  # a deletion or a HEAD moves nothing, whatever the object's size


def lower_is_better(metric: str) -> bool:
    return metric not in SPEEDS


def kind(metric: str) -> str:
    """The metrics that are taken together over all points: `speed`, or a latency."""
    return SPEED if metric in SPEEDS else metric


def said(metric: str) -> str:
    """In words: `latency p50 [ms]`; the whole, `speed`, has no unit."""
    return metric.replace("_", " ") + (f" [{UNITS[metric]}]" if metric in UNITS else "")


def large(points: pd.DataFrame) -> pd.Series:
    """Whether an operation of each point (or group of points) moves 1 MB or more."""
    sizes = points.reindex(columns=["range_size_bytes", "object_size_bytes"]).astype("Float64")
    size = sizes["range_size_bytes"].fillna(sizes["object_size_bytes"])
    return (size >= LARGE).fillna(False).astype(bool) & points["workload"].isin(MOVING)


def of_points(points: pd.DataFrame) -> pd.DataFrame:
    """Rows of points.csv that count, with `metric` (throughput or rate) and `value` (float, MB/s or 1/s; NaN left
    out)."""
    ok = points[points["state"] == "ok"]
    moves_large = large(ok)
    value = ok[COLUMNS[RATE]].astype("Float64").mask(moves_large, ok[COLUMNS[THROUGHPUT]].astype("Float64"))
    out = ok.assign(metric=moves_large.map({True: THROUGHPUT, False: RATE}), value=value.astype(float))
    return out[out["value"].notna()]


def with_latencies(points: pd.DataFrame) -> pd.DataFrame:
    """`of_points`, and the same rows again for each latency that is known of a run (ms)."""
    parts = [of_points(points)]
    for metric in (m for m in COLUMNS if lower_is_better(m) and COLUMNS[m] in points):
        ok = points[(points["state"] == "ok") & points[COLUMNS[metric]].notna()]
        parts.append(ok.assign(metric=metric, value=ok[COLUMNS[metric]].astype(float)))
    return pd.concat([p for p in parts if len(p)] or parts[:1], ignore_index=True)

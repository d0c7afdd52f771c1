"""Windows and rates: DuckDB over the Parquet records of all points at once (level 2, analysis).

Definitions, all times UTC ns of the records; a client's end is when it stopped working, at the latest the deadline:

* `overlap`: all clients are active. From the latest client's start plus the warm-up, to the first client's end. The idea is
  that of warp (README, "Analysis Data": from when all threads have completed a request until the last request of a thread
  begins); here the bounds do not depend on single requests. Rates in text and figures are taken in this window.
* `first_done`: from the agreed start to the first client's end, no warm-up cut (elbencho's "first done").
* `last_done`: from the agreed start to the last completion of any client (elbencho's "last done",
  docs/result-columns-explanation.md).
* tail = last completion - first client's end, not below 0.
* rate in a window = successful operations whose end_ns lies in (begin, end], divided by its length; throughput likewise with
  their useful bytes. A bin counts with its `count` at its end. Failed operations count as errors only.
* steadiness: the overlap window in 10 equal slices. `too short` below 2 s or 50 operations; `drifting` where completions per
  slice rise or fall with time (Kendall's tau, two-sided p < 0.01) and the last three slices differ from the first three by
  more than 10 % of the mean; else `steady`.
"""

from typing import Any

import duckdb
import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from storelab.loading import Campaign

WINDOWS = ("overlap", "first_done", "last_done")
SLICES = 10
SHORTEST_S, FEWEST = 2.0, 50
DRIFT_P, DRIFT = 0.01, 0.10
MB = 1e6


def bounds(campaign: Campaign) -> pd.DataFrame:
    """Per key: agreed_ns (start), overlap_begin_ns, first_end_ns. The last completion comes from the operations."""
    rows = []
    for key, run in campaign.runs.items():
        starts = [c.get("start_ns") or run["start_ns"] for c in run["clients"]]
        ends = [min(c.get("end_ns") or run["deadline_ns"], run["deadline_ns"]) for c in run["clients"]]
        begin = max(starts, default=run["start_ns"]) + run["point"]["fixed"]["warm_up_ns"]
        rows.append((key, run["start_ns"], begin, min(ends, default=run["deadline_ns"])))
    return pd.DataFrame(rows, columns=["key", "agreed_ns", "overlap_begin_ns", "first_end_ns"])


def _connect(files: dict[str, str], edges: pd.DataFrame) -> duckdb.DuckDBPyConnection:
    """A connection with tables `files` (filename, key) and `edges`, and the view `rows` of all Parquet rows with their key."""
    con = duckdb.connect()
    con.register("files", pd.DataFrame({"filename": list(files), "key": list(files.values())}))
    con.register("edges", edges)
    con.register("parquet", con.read_parquet(list(files), filename=True))
    con.execute("CREATE TEMP VIEW rows AS SELECT * FROM parquet JOIN files USING (filename) JOIN edges USING (key)")
    return con


_OPS = """
SELECT key, max(end_ns) AS last_ns,
  sum(count) FILTER (good) AS good, sum(count) FILTER (NOT good) AS errors,
  {sums},
  {slices}
FROM (SELECT *, error IS NULL AS good, end_ns > overlap_begin_ns AND end_ns <= first_end_ns AS in_overlap,
        end_ns > agreed_ns AND end_ns <= first_end_ns AS in_first_done, end_ns > agreed_ns AS in_last_done,
        ((end_ns - overlap_begin_ns - 1) * {n}) // greatest(first_end_ns - overlap_begin_ns, 1) AS slice FROM rows)
GROUP BY key"""


def _ops_query() -> str:
    sums = ",\n  ".join(
        f"coalesce(sum(count) FILTER (good AND in_{w}), 0) AS {w}_operations, "
        f"coalesce(sum(bytes) FILTER (good AND in_{w}), 0) AS {w}_bytes, "
        f"coalesce(sum(count) FILTER (NOT good AND in_{w}), 0) AS {w}_errors"
        for w in WINDOWS
    )
    slices = ", ".join(f"coalesce(sum(count) FILTER (good AND in_overlap AND slice = {i}), 0) AS slice{i}" for i in range(SLICES))
    return _OPS.format(sums=sums, slices=slices, n=SLICES)


def operations(campaign: Campaign) -> pd.DataFrame:
    """Per measured key (the index): the three windows, tail_s, steadiness, errors. Columns bear their units; shape (runs, ...)."""
    edges = bounds(campaign)
    files = campaign.files("ops")
    if files:
        found = _connect(files, edges).execute(_ops_query()).df()
    else:
        found = pd.DataFrame({"key": pd.Series(dtype=str), "last_ns": pd.Series(dtype="Int64")})
    t = edges.merge(found, on="key", how="left").set_index("key")
    t["last_ns"] = t["last_ns"].fillna(t["first_end_ns"]).astype("int64")
    ends = {
        "overlap": ("overlap_begin_ns", "first_end_ns"),
        "first_done": ("agreed_ns", "first_end_ns"),
        "last_done": ("agreed_ns", "last_ns"),
    }
    out = pd.DataFrame(index=t.index)
    for w, (begin, end) in ends.items():
        out[f"{w}_begin_s"] = (t[begin] - t["agreed_ns"]) / 1e9
        out[f"{w}_end_s"] = (t[end] - t["agreed_ns"]) / 1e9
        length = ((t[end] - t[begin]) / 1e9).clip(lower=0)
        out[f"{w}_length_s"] = length
        for name in ("operations", "bytes", "errors"):
            out[f"{w}_{name}"] = _whole(t, f"{w}_{name}")
        length = length.where(length > 0)  # an empty window has no rate, not an infinite one
        out[f"{w}_throughput_mb_per_s"] = out[f"{w}_bytes"].astype(float) / MB / length
        out[f"{w}_rate_per_s"] = out[f"{w}_operations"].astype(float) / length
    out["tail_s"] = ((t["last_ns"] - t["first_end_ns"]) / 1e9).clip(lower=0)
    out["operations"], out["errors"] = _whole(t, "good"), _whole(t, "errors")
    slices = t.reindex(columns=[f"slice{i}" for i in range(SLICES)]).fillna(0).to_numpy(float)
    out["steadiness"] = [steadiness(s, length) for s, length in zip(slices, out["overlap_length_s"], strict=True)]
    return out


def _whole(t: pd.DataFrame, name: str) -> pd.Series:
    return (t[name] if name in t else pd.Series(0, index=t.index)).fillna(0).astype("int64")


def steadiness(slices: np.ndarray, length_s: float) -> str:
    """Label of the completions per slice (shape (SLICES,)) of a window of `length_s` seconds: see the module's definitions."""
    if length_s < SHORTEST_S or slices.sum() < FEWEST:
        return "too short"
    change = abs(slices[-3:].mean() - slices[:3].mean()) / slices.mean()
    if change > DRIFT and kendalltau(np.arange(len(slices)), slices).pvalue < DRIFT_P:
        return "drifting"
    return "steady"


PHASES = ("open", "plan", "transfer", "decompress", "deserialise")
_READS = """
SELECT key, count(*) AS reads, avg(entries) AS entries_per_read, avg(branches) AS branches_per_read, avg(baskets) AS baskets_per_read,
  avg(needed_bytes) / 1e6 AS needed_mb_per_read, avg(asked_bytes) / 1e6 AS asked_mb_per_read, avg(wire_bytes) / 1e6 AS wire_mb_per_read,
  avg(requests) AS requests_per_read,
  sum(wire_bytes) FILTER (wire_bytes IS NOT NULL) / nullif(sum(needed_bytes) FILTER (wire_bytes IS NOT NULL), 0) AS amplification_ratio,
  {phases},
  count(*) FILTER (good) / any_value(length_s) AS reads_per_s,
  coalesce(sum(entries) FILTER (good), 0) / any_value(length_s) AS entries_per_s,
  coalesce(sum(needed_bytes) FILTER (good), 0) / 1e6 / any_value(length_s) AS needed_mb_per_s,
  CASE WHEN count(wire_bytes) > 0 THEN coalesce(sum(wire_bytes) FILTER (good), 0) / 1e6 / any_value(length_s) END AS wire_mb_per_s
FROM (SELECT *, end_ns > overlap_begin_ns AND end_ns <= first_end_ns AS good,
        CASE WHEN first_end_ns > overlap_begin_ns THEN (first_end_ns - overlap_begin_ns) / 1e9 END AS length_s FROM rows)
GROUP BY key"""


def reads(campaign: Campaign) -> pd.DataFrame:
    """Per key (the index) of the read workloads: means per read over all reads of the run, rates in the `overlap` window.

    needed: compressed bytes of the baskets that hold the selection; asked: bytes of the ranges requested after merging; wire:
    bytes that came over the network. amplification = wire / needed, of the sums. Entries are the events delivered.
    Throughputs are those of all clients together.
    """
    files = campaign.files("reads")
    if not files:
        return pd.DataFrame(index=pd.Index([], name="key"))
    phases = ", ".join(f"avg({p}_ns) / 1e9 AS {p}_s_per_read" for p in PHASES)
    return _connect(files, bounds(campaign)).execute(_READS.format(phases=phases)).df().set_index("key")


def completions(campaign: Campaign, key: str, slices: int = 100) -> pd.DataFrame:
    """Time series of one point for looking at it: columns second (from the agreed start; middle of the slice), client,
    operations_per_s, mb_per_s. Slices are `1/slices` of the time until the last completion."""
    edges = bounds(campaign).query("key == @key")
    files: dict[str, Any] = {path: k for path, k in campaign.files("ops").items() if k == key}
    con = _connect(files, edges)
    t = con.execute("SELECT client, (end_ns - agreed_ns) / 1e9 AS s, count, bytes FROM rows WHERE error IS NULL ORDER BY s").df()
    if t.empty:
        return pd.DataFrame({"second": [], "client": [], "operations_per_s": [], "mb_per_s": []})
    width = t["s"].max() / slices
    t["slice"] = np.minimum((t["s"] / width).astype(int), slices - 1)
    every = pd.MultiIndex.from_product([range(slices), sorted(t["client"].unique())], names=["slice", "client"])
    sums = t.groupby(["slice", "client"])[["count", "bytes"]].sum().reindex(every, fill_value=0).reset_index()
    return pd.DataFrame(
        {
            "second": (sums["slice"] + 0.5) * width,
            "client": sums["client"],
            "operations_per_s": sums["count"] / width,
            "mb_per_s": sums["bytes"] / MB / width,
        }
    )

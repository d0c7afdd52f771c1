"""Raw operations of a campaign as a pandas DataFrame, for analyses that storelab does not have."""

from collections.abc import Iterable

import duckdb
import pandas as pd

from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics.medians import WIDTH

_BEGUN = "coalesce(intended_ns, start_ns)"
_ROWS = f"""
SELECT key, client, worker, op, object, count, bytes, wire_bytes, requests,
  ({_BEGUN} - agreed_ns) / 1e9 AS begin_s, (end_ns - agreed_ns) / 1e9 AS end_s,
  CASE WHEN latency_hist IS NULL THEN (end_ns - {_BEGUN}) / 1e6 END AS latency_ms,
  (first_byte_ns - {_BEGUN}) / 1e6 AS ttfb_ms, status, error, endpoint, latency_hist
FROM rows ORDER BY key, end_ns, client, worker"""
CATEGORIES = ("key", "op", "object", "error")
COLUMNS = (
    *("client", "worker", "op", "object", "count", "bytes", "wire_bytes", "requests", "begin_s", "end_s"),
    *("latency_ms", "ttfb_ms", "status", "error", "endpoint"),
)

_STEP = "least(greatest((end_ns - agreed_ns - 1) // step_ns, 0), last)::INTEGER"
_BUCKETS = f"""
SELECT op, step, upper_ns, sum(n)::BIGINT AS operations FROM (
  SELECT op, {_STEP} AS step, pow({WIDTH}, ceil(ln(greatest(end_ns - {_BEGUN}, 1)) / ln({WIDTH}))) AS upper_ns, 1 AS n
  FROM rows, sizes WHERE error IS NULL AND start_ns IS NOT NULL AND latency_hist IS NULL
  UNION ALL
  SELECT op, step, bucket.upper_ns, bucket.count
  FROM (SELECT op, {_STEP} AS step, unnest(latency_hist) AS bucket FROM rows, sizes
        WHERE error IS NULL AND latency_hist IS NOT NULL))
GROUP BY ALL ORDER BY ALL"""


def operations(campaign: Campaign, keys: Iterable[str] | None = None) -> pd.DataFrame:
    """Return the recorded operations, one row for each operation or bin.

    Parameters
    ----------
    campaign
        A campaign, from `records.campaign.load`.
    keys
        Keys of the points; default: all points that have a record.

    Returns
    -------
    pandas.DataFrame
        The columns are `key`, `store`, `workload`, `rep`, the axes that differ between these points, and the columns of
        `ops.parquet` (docs/records.md) with times in seconds after the agreed start. `latency_ms` and `ttfb_ms` count
        from the time when the operation was due, or from its start if it had no such time. They are missing for bins,
        and if the engine does not record the start (s5cmd). Failed operations have an `error`; bins have a
        `latency_hist`. The rows are sorted by point and end.
    """
    wanted = campaign.runs.keys() if keys is None else campaign.runs.keys() & set(keys)
    con = scan.connect(campaign, "ops", wanted)
    head = _points(campaign, wanted)
    if con is None:
        return pd.DataFrame(columns=[*head.columns, *COLUMNS, "latency_hist"])
    table = con.sql(_ROWS).to_arrow_table()
    rows = table.to_pandas(categories=[c for c in CATEGORIES if c in table.column_names])
    places = head.set_index("key").index.get_indexer(rows["key"].cat.categories)[rows["key"].cat.codes]
    of_point = head.drop(columns="key").take(places).set_axis(rows.index)
    return pd.concat([rows[["key"]], of_point, rows.drop(columns="key")], axis="columns")


def _points(campaign: Campaign, keys: Iterable[str]) -> pd.DataFrame:
    """Return one row for each point: key, store, workload, rep, and the axes that have several values."""
    columns = {
        w: {a["name"]: a["column"] for a in declared["axes"]} for w, declared in campaign.plan["workloads"].items()
    }
    wanted = set(keys)
    rows = [
        {"key": p["key"], "store": p["store"], "workload": p["workload"], "rep": p["rep"]}
        | {columns[p["workload"]][name]: value for name, value in p["axes"].items()}
        for p in campaign.points
        if p["key"] in wanted
    ]
    head = pd.DataFrame(rows, columns=None if rows else ["key", "store", "workload", "rep"])
    same = [c for c in head.columns[4:] if head[c].astype(str).nunique() < 2]
    return head.drop(columns=same).astype({"store": "category", "workload": "category"})


def latencies(campaign: Campaign, key: str, steps: int) -> pd.DataFrame:
    """Return histograms of the latencies of a point over its time.

    Returns
    -------
    pandas.DataFrame
        One row per `op`, `step` (0 to steps - 1) and bucket of latency that has successful operations. `second`: middle
        of the step, in seconds after the agreed start; `upper_ns`: end of the bucket, which is 2 % wide; `operations`:
        number of operations. The table is empty if the engine does not record the start of single operations.
    """
    con = scan.connect(campaign, "ops", [key])
    columns = ["op", "step", "second", "upper_ns", "operations"]
    if con is None:
        return pd.DataFrame(columns=columns)
    run = campaign.runs[key]
    step_ns = max(-(-(run["deadline_ns"] - run["start_ns"]) // steps), scan.bin_ns(run) if _binned(con) else 1)
    con.register("sizes", pd.DataFrame({"step_ns": [step_ns], "last": [steps - 1]}))
    found = con.execute(_BUCKETS).df()
    return found.assign(second=(found["step"] + 0.5) * step_ns / 1e9).reindex(columns=columns)


def _binned(con: duckdb.DuckDBPyConnection) -> bool:
    return bool(con.sql("SELECT bool_or(latency_hist IS NOT NULL) FROM rows").fetchall()[0][0])

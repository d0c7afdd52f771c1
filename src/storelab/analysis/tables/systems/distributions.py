"""`distributions.csv`: how operation times, and what the clients used meanwhile, are spread: histograms of each group.

* `operation_time`: of each operation that succeeded, from when it was due, else began; of all kinds together.
* `sent`, `received`: of the busiest interface of each client's host, over each step between two samples of the monitor
  (up to five a second). Where that is the loopback, both ends of a connection are on it, and its bytes are both sent
  and received: `traffic`.
* `cpu`: of each client with its child processes, over each such step. `memory`: resident, in each sample.

All of the `overlap` window, of all runs of a group together. Values are counted in buckets, 120 in each power of ten,
so that quantiles are off by 2 % at most; zeros are counted apart.
"""

import math
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics.quantiles import of_histogram

UNITS = {"operation_time": "ms", "sent": "MB/s", "received": "MB/s", "traffic": "MB/s", "cpu": "cores", "memory": "MB"}
FINE, COARSE = 120, 40  # buckets in a power of ten: of quantiles; of `histogram`, so that files stay small
LEVELS = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}
COLUMNS = ("n", "quantity", "unit", "samples", "zeros", "mean", "least", *LEVELS, "most", "histogram")
LOOPBACK = "lo"
_COUNT = f"""
SELECT key, quantity, value > 0 AS known,
  CASE WHEN value > 0 THEN ceil({FINE} * log10(value) - 1e-9)::INT ELSE 0 END AS bucket,
  sum(count)::BIGINT AS samples, sum((count * value)::DECIMAL(38, 9)) AS total, min(value) AS least, max(value) AS most
FROM ({{values}}) WHERE value >= 0 GROUP BY ALL ORDER BY ALL"""  # exact sums: equal records give equal bytes
_TIMES = """
SELECT key, 'operation_time' AS quantity, (end_ns - coalesce(intended_ns, start_ns)) / 1e6 AS value, 1 AS count
FROM rows WHERE error IS NULL AND latency_hist IS NULL AND end_ns > overlap_begin_ns AND end_ns <= first_end_ns
UNION ALL
SELECT key, 'operation_time', bucket.upper_ns / 1e6, bucket.count
FROM (SELECT key, unnest(latency_hist) AS bucket FROM rows
      WHERE error IS NULL AND latency_hist IS NOT NULL AND end_ns > overlap_begin_ns AND end_ns <= first_end_ns)"""
_USED = f"""
WITH hosts AS (SELECT DISTINCT key, filename, host FROM rows WHERE what = 'client'),
seen AS (
  SELECT rows.*, cpu_user_s + cpu_system_s - lag(cpu_user_s + cpu_system_s) OVER step AS cpu_s,
    rx_bytes - lag(rx_bytes) OVER step AS received, tx_bytes - lag(tx_bytes) OVER step AS sent,
    (time_ns - lag(time_ns) OVER step) / 1e9 AS s, lag(time_ns) OVER step AS before_ns
  FROM rows JOIN hosts USING (key, filename, host) WHERE what IN ('client', 'interface')
  WINDOW step AS (PARTITION BY rows.key, rows.filename, rows.host, what, name ORDER BY time_ns)),
own AS (SELECT * FROM seen WHERE time_ns > overlap_begin_ns AND time_ns <= first_end_ns),
steps AS (SELECT * FROM own WHERE before_ns >= overlap_begin_ns AND s > 0),
moved AS (
  SELECT key, filename, host, name, sum(greatest(received, sent)) AS bytes
  FROM steps WHERE what = 'interface' GROUP BY ALL),
busiest AS (SELECT key, filename, host, arg_max(name, bytes) AS name FROM moved GROUP BY key, filename, host),
links AS (SELECT steps.* FROM steps JOIN busiest USING (key, filename, host, name) WHERE what = 'interface')
SELECT key, 'cpu' AS quantity, cpu_s / s AS value, 1 AS count FROM steps WHERE what = 'client'
UNION ALL SELECT key, 'memory', rss_bytes / 1e6, 1 FROM own WHERE what = 'client'
UNION ALL SELECT key, CASE WHEN name = '{LOOPBACK}' THEN 'traffic' ELSE 'received' END, received / 1e6 / s, 1 FROM links
UNION ALL SELECT key, 'sent', sent / 1e6 / s, 1 FROM links WHERE name <> '{LOOPBACK}'"""


def counted(campaign: Campaign, keys: pd.Series) -> pd.DataFrame:
    """Per key, quantity and bucket: known (false: zeros), samples, total, least, most. Bucket k ends at 10 to the
    power of k / FINE."""
    parts = []
    for name, values in (("ops", _TIMES), ("monitor", _USED)):
        if (con := scan.connect(campaign, name, keys)) is not None:
            parts.append(con.execute(_COUNT.format(values=values)).df())
    columns = ["key", "quantity", "known", "bucket", "samples", "total", "least", "most"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def quantiles(upper: np.ndarray, count: np.ndarray, zeros: int) -> list[float]:
    """LEVELS of so many zeros, and of values in buckets that end at `upper` (ascending)."""
    positive = count.sum()
    levels = (np.array(list(LEVELS.values())) * (zeros + positive) - zeros) / max(positive, 1)
    if not positive:
        return [0.0] * len(levels)
    known = of_histogram(upper, count, np.clip(levels, 0, 1).tolist())
    return [float(v) if level > 1e-9 else 0.0 for v, level in zip(known, levels, strict=True)]


def _added(buckets: np.ndarray, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(buckets, ascending, each once; the samples of each)."""
    distinct, at = np.unique(buckets, return_inverse=True)
    total = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(total, at, samples)
    return distinct, total


def of_group(buckets: pd.DataFrame) -> dict[str, Any]:
    """What a row says of the buckets of one quantity, of several runs."""
    samples, positive = buckets["samples"].to_numpy(np.int64), buckets["known"].to_numpy(bool)
    known = _added(buckets["bucket"].to_numpy(np.int64)[positive], samples[positive])
    zeros = int(samples[~positive].sum())
    coarse = _added(-(-known[0] // (FINE // COARSE)), known[1])
    of = quantiles(10.0 ** (known[0] / FINE), known[1].astype(float), zeros)
    least, most = buckets["least"].min(), buckets["most"].max()
    return {
        "samples": int(samples.sum()),
        "zeros": zeros,
        "mean": math.fsum(buckets["total"]) / samples.sum(),  # exact: the buckets come in any order
        "least": least,
        **{name: float(np.clip(v, least, most)) for name, v in zip(LEVELS, of, strict=True)},
        "most": most,
        "histogram": " ".join(f"{k}:{n}" for k, n in zip(*coarse, strict=True)),
    }


def unpacked(histogram: Any) -> pd.Series:
    """The column `histogram` again: samples by bucket k, which holds what is above 10 to the power of (k - 1) / COARSE
    and at most that of k / COARSE."""
    text = "" if pd.isna(histogram) else str(histogram)
    pairs = [part.split(":") for part in text.split()]
    return pd.Series({int(k): int(n) for k, n in pairs}, dtype=float)


def table(campaign: Campaign, rated: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of points and quantity, of those that a record tells."""
    ok = rated[rated["state"] == "ok"].reset_index(drop=True)
    found, every, rows = counted(campaign, ok["key"]), [*groups.grouped(ok[[*by, "key"]], by)], []
    group = found["key"].map({key: i for i, (_, own) in enumerate(every) for key in own["key"]})
    quantity = found["quantity"].map({name: i for i, name in enumerate(UNITS)})
    for (i, _), own in found.groupby([group.rename("group"), quantity]):
        name = own["quantity"].iat[0]
        said = {"n": own["key"].nunique(), "quantity": name, "unit": UNITS[name]}
        rows.append(every[i][0] | said | of_group(own))
    made = pd.DataFrame(rows, columns=[*by, *COLUMNS])
    return made.astype({c: ok.dtypes[c] for c in by if c in ok})


PLACE = ("store", *words.DEPLOYMENT_NAMES, "workload", "object_size_bytes")  # what a figure and the paper show apart
BUSY = ("clients", "workers", "front_ends", "buckets", "accounts")


def shown(found: pd.DataFrame) -> pd.DataFrame:
    """Of `distributions.csv` the groups that figure and paper show: by PLACE and engine those with the most clients, of
    these with the most workers, front-ends, buckets and accounts."""
    apart = [c for c in (*PLACE, "engine") if c in found]
    for column in (c for c in BUSY if c in found):
        if len(found):
            most = found.groupby(apart, dropna=False)[column].transform("max")
            found = found[found[column].isna() | (found[column] == most)]
    return found

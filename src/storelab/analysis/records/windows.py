"""Windows and rates, computed by DuckDB from the Parquet records of all points at once.

Definitions. All times are UTC ns from the records. The end of a client is the time when it stopped working, at the
latest the deadline.

* `overlap`: the time in which all clients are active, from the latest client's start plus the warm-up to the first
  client's end. Rates in text and figures are those of this window. warp uses a similar window (README, "Analysis Data":
  from when all threads have completed a request until the last request of a thread begins). Here, the bounds do not
  depend on single requests.
* `first_done`: from the agreed start to the first client's end, including the warm-up (elbencho's "first done").
* `last_done`: from the agreed start to the last completion of any client (elbencho's "last done",
  docs/result-columns-explanation.md).
* An operation that hung (class `Hung`) counts as failed and has no completion. Its `end_ns` is the time when the client
  gave it up.
* tail = last completion - first client's end, not below 0.
* Operations and bytes of a window: those of successful operations with end_ns in (begin, end]. If a bin is only partly
  in the window, this part counts. Failed operations only count as errors.
* Rate and throughput of `first_done` and `last_done`: operations and bytes divided by the length of the window, as in
  elbencho.
* Rate and throughput of `overlap`: the estimate of `closed_loop`. For an open loop, they are the successful operations
  that start in the window, divided by its length. For a record with bins or roles, they are the completions in the
  window, divided by its length.
* A window in which no operation ended has no rate (a missing value). `rate_operations` is the number of operations from
  which the rate of `overlap` is computed.
* Steadiness: the result of `statistics.steadiness` for the completions in 40, 20 or 10 equal slices of the overlap
  window. It is `too short` for a window of less than 2 s or less than 50 operations. It is also `too short` if there
  are fewer than 5 operations for each one that the clients can have in flight. The number of slices is the largest for
  which a slice is longer than a bin of operations, and two slices are longer than an average operation. The reason is
  that clients that start together also end their first operations together. These waves must not count as swings of the
  store.

Rates in a window when operations can last as long as the window:

Counting the completions in a window underestimates a rate when an operation takes about as long as the window. Four
reads of 3 s, for example, have no completion in a window of 2.5 s. Two estimators are used instead. Both need the start
and the end of each operation, including operations that are completed after the window (docs/statistics.md, "Rates").

* Shares: an operation counts by the part of its duration that is in the window. In a stationary loop this is unbiased
  for any duration. The work of an operation is assumed to be uniform over its duration.
* Ratio: the number of workers times the sum of the operations, divided by the sum of the busy times of the workers. The
  busy time of a worker is from the start of its first operation to the end of its last one. The number of operations of
  a worker is a stopping time, so that Wald's equation is valid for the sums (Ross, Stochastic Processes, 1996, sections
  3.3 and 3.6). Beale's correction removes the bias of order 1/workers (Cochran, Sampling Techniques, 1977, section
  6.15). Operations that start in the window count. If one worker has no such operation, all operations of the point
  count, because a choice for each worker would favour long operations.

Shares are used if the median worker has at least `SHARES_FROM` operations that overlap the window, or if the workers
take different times (one of them is slow). Otherwise, the ratio is used. The reason is that all workers start at the
same time, so that the first operations do not belong to a stationary loop. With few operations, shares would give short
operations too much weight.

s5cmd does not record the starts of operations, nor the operations that were cut off at its end. It can work on more
commands than it has workers. For shares, the starts are inferred. For the ratio, a client counts as one worker from its
start to its last completion.

`benchmarks/statistics_truth.py` measures bias and coverage of both estimators and of counting completions.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics import steadiness
from storelab.core.records import HUNG

SHARES_FROM = 3  # operations of the median worker
DIFFER = 5.0  # ratio of the variances between and within workers, above which workers take different times

_LANES = f"""
WITH operations AS (
  SELECT *, start_ns >= overlap_begin_ns AND NOT unstarted AS fresh, ln(greatest(end_ns - start_ns, 1)) AS log_ns,
    {scan.share("overlap_begin_ns", "first_end_ns")} AS share
  FROM ({{source}}) WHERE start_ns < first_end_ns AND overlap_begin_ns < first_end_ns),
parts AS MATERIALIZED (
  SELECT key, client, lane, fresh, cut_off, unstarted, count(*) AS n,
    count(*) FILTER (NOT cut_off AND share > 0) AS inside,
    min(start_ns - overlap_begin_ns) / 1e9 AS begin_s, max(end_ns - overlap_begin_ns) / 1e9 AS stop_s,
    sum(log_ns) AS log_sum, sum(log_ns ** 2) AS log_squares, {{sums}},
    any_value(first_end_ns - overlap_begin_ns) / 1e9 AS length_s
  FROM operations GROUP BY ALL),
lanes AS (SELECT key, bool_or(fresh) AS any_fresh FROM parts GROUP BY key, client, lane),
points AS (SELECT key, bool_and(any_fresh) AS all_fresh FROM lanes GROUP BY key)
SELECT key, client, lane, sum(inside) AS inside, sum(n) AS n, sum(log_sum) AS log_sum, sum(log_squares) AS log_squares,
  any_value(length_s) AS length_s, sum(n) FILTER (counts) AS ratio_n, bool_or(unstarted) AS unstarted,
  min(begin_s) FILTER (counts) AS begin_s, max(stop_s) FILTER (counts) AS stop_s, {{merged}}
FROM (SELECT *, NOT cut_off AND (fresh OR NOT all_fresh) AS counts FROM parts JOIN points USING (key))
GROUP BY key, client, lane ORDER BY key, client, lane"""
_SUMS = (
    "CASE WHEN count(*) = count({e}) THEN sum({e} * share) END AS shares_{c}",
    "CASE WHEN count(*) = count({e}) THEN sum({e}) END AS {c}",
)
_MERGED = (
    "CASE WHEN count(*) = count(shares_{c}) THEN sum(shares_{c}) END AS shares_{c}",
    "CASE WHEN count(*) FILTER (counts) = count({c}) FILTER (counts) THEN sum({c}) FILTER (counts) END AS {c}",
)


def closed_loop(con: duckdb.DuckDBPyConnection, source: str, rewards: Mapping[str, str]) -> pd.DataFrame:
    """Estimate rates per second of each key (the index) from the operations of its workers.

    The result has one column for each reward, and the column `rate_operations`, which is the number of operations used,
    including failed ones. A key without operations, or with a window of length 0, has no row.

    Parameters
    ----------
    con
        Connection with the tables of `source`.
    source
        SQL of rows, one for each operation, with the columns key, client, lane, start_ns, end_ns, cut_off, unstarted,
        overlap_begin_ns and first_end_ns. The operations of a lane (a worker) follow one another. cut_off: the end is
        an estimate, which is only used for shares. unstarted: the start was not recorded.
    rewards
        Column -> SQL for the amount that one operation adds. If it is null for one operation, the rate is null.
    """

    def columns(forms: tuple[str, ...]) -> str:
        return ", ".join(form.format(c=name, e=f"({sql})") for name, sql in rewards.items() for form in forms)

    lanes = con.execute(_LANES.format(source=source, sums=columns(_SUMS), merged=columns(_MERGED))).df()
    lanes = lanes.astype(dict.fromkeys(lanes.columns.drop(["key", "client", "lane", "unstarted"]), float))
    found = {key: _rates(rows, list(rewards)) for key, rows in lanes.groupby("key", sort=False)}
    out = pd.DataFrame.from_dict(found, orient="index", columns=[*rewards, "rate_operations"]).rename_axis("key")
    return out.astype({"rate_operations": "int64"})


def _rates(lanes: pd.DataFrame, rewards: list[str]) -> list[float]:
    """Estimate the rates of one point from the totals of its workers: those named in `rewards`, then the operations."""
    sums = {name: lanes[name].to_numpy() for name in ("inside", "n", "log_sum", "log_squares")}
    if np.median(sums["inside"]) >= SHARES_FROM or _differ(sums["n"], sums["log_sum"], sums["log_squares"]):
        found = lanes[[f"shares_{name}" for name in rewards]].sum(skipna=False) / lanes["length_s"].iloc[0]
        return [*found, sums["inside"].sum()]
    if lanes["unstarted"].all():
        sums = dict.fromkeys((*rewards, "ratio_n"), "sum")
        lanes = lanes.groupby("client").agg({"begin_s": "min", "stop_s": "max"} | sums)
    busy = (lanes["stop_s"] - lanes["begin_s"]).to_numpy()
    return [*(_ratio_estimate(lanes[name].to_numpy(), busy) for name in rewards), lanes["ratio_n"].sum()]


def _ratio_estimate(reward: np.ndarray, busy: np.ndarray) -> float:
    """Return the number of workers times the ratio of the sums of reward and busy time, with Beale's correction.

    reward, busy: shapes (workers,). The result is NaN if the busy times are 0.
    """
    if not busy.sum() > 0:  # all operations have the same time, or the clock was set back
        return np.nan
    ratio = len(busy) * reward.sum() / busy.sum()
    if len(busy) == 1 or not ratio > 0:
        return ratio
    (_, covariance), (_, variance) = np.cov(reward, busy)
    return ratio * (1 + covariance / (reward.sum() * busy.mean())) / (1 + variance / (busy.sum() * busy.mean()))


def _differ(n: np.ndarray, sums: np.ndarray, squares: np.ndarray) -> bool:
    """Check whether workers take different times, by one-way analysis of variance of log durations.

    n, sums, squares: number, sum and sum of squares of each worker's log durations, shapes (workers,).
    """
    free = n.sum() - len(n)
    if free < 1 or len(n) == 1:
        return False
    explained = (sums**2 / n).sum()
    between = (explained - sums.sum() ** 2 / n.sum()) / (len(n) - 1)
    within = (squares.sum() - explained) / free
    return bool(between > max(DIFFER * within, 1e-9))


WINDOWS = ("overlap", "first_done", "last_done")
SLICES = steadiness.MAX_SLICES
SHORTEST_S, MIN_OPERATIONS, MIN_OPERATIONS_EACH = 2.0, 50, 5
MB = 1e6


_CELLS = """
SELECT key, good, cell, sum(count) AS operations, sum(bytes) AS bytes,
  max(CASE WHEN hung THEN 0 ELSE end_ns END) AS last_ns
FROM (SELECT key, error IS NULL AS good, error IS NOT DISTINCT FROM '{hung}' AS hung, count, bytes, end_ns,
        CASE WHEN end_ns <= agreed_ns THEN -2 WHEN end_ns > first_end_ns THEN {n}
          WHEN end_ns <= overlap_begin_ns THEN -1
          ELSE ((end_ns - overlap_begin_ns - 1) * {n}) // (first_end_ns - overlap_begin_ns) END::TINYINT AS cell
      FROM rows WHERE latency_hist IS NULL)
GROUP BY ALL"""
_BINS = """
SELECT key, error IS NULL AS good, error IS NOT DISTINCT FROM '{hung}' AS hung, count, bytes, end_ns, agreed_ns,
  overlap_begin_ns, first_end_ns, bin_ns
FROM rows WHERE latency_hist IS NOT NULL"""


def _cells(campaign: Campaign) -> pd.DataFrame:
    """Return one row for each key, `good` (true: successful) and cell.

    The other columns are operations, bytes, and last_ns, the time of the last completion. Cells are -2 (before the
    agreed start), -1 (warm-up), 0 … SLICES - 1 (slices of the overlap window) and SLICES (after the window).
    """
    con = scan.connect(campaign, "ops")
    if con is None:
        return pd.DataFrame({"key": [], "good": [], "cell": [], "operations": [], "bytes": [], "last_ns": []})
    single, bins = (con.execute(q.format(n=SLICES, hung=HUNG)).df() for q in (_CELLS, _BINS))
    return pd.concat([single, _spread(bins)]) if len(bins) else single


def _spread(bins: pd.DataFrame) -> pd.DataFrame:
    """Distribute the evenly spaced operations of bins over the cells, and return columns as in `_cells`."""
    columns = ("end_ns", "overlap_begin_ns", "first_end_ns", "bin_ns")
    end, begin, first_end, width = (bins[c].to_numpy() for c in columns)
    inner = [begin + np.maximum(first_end - begin, 0) * i // SLICES for i in range(SLICES)]
    edges = [end - width, bins["agreed_ns"].to_numpy(), *(np.minimum(e, first_end) for e in inner), first_end, end]
    parts = []
    for cell, low, high in zip(range(-2, SLICES + 1), edges[:-1], edges[1:], strict=True):
        share = np.clip(np.minimum(end, high) - np.maximum(end - width, low), 0, None) / width
        part = bins[["key", "good"]].assign(
            cell=cell,
            operations=bins["count"] * share,
            bytes=bins["bytes"] * share,
            last_ns=np.where(bins["hung"], 0, end),
        )
        parts.append(part[share > 0])
    return (
        pd.concat(parts)
        .groupby(["key", "good", "cell"], as_index=False)
        .agg({"operations": "sum", "bytes": "sum", "last_ns": "max"})
    )


def operations(campaign: Campaign) -> pd.DataFrame:
    """Return one row per measured key (the index) with the three windows, tail_s, steadiness and errors.

    The names of the columns end with their units.
    """
    cells = _cells(campaign)
    t = scan.bounds(campaign).set_index("key")
    # A float cannot represent UTC ns exactly.
    last = cells.groupby("key")["last_ns"].max().reindex(t.index, fill_value=0).astype("int64")
    t["last_ns"] = last.where(last > 0, t["first_end_ns"])
    good = cells["good"].astype(bool)
    overlap = cells["cell"].between(0, SLICES - 1)
    windows = {  # begin, end, the cells in it
        "overlap": ("overlap_begin_ns", "first_end_ns", overlap),
        "first_done": ("agreed_ns", "first_end_ns", cells["cell"].between(-1, SLICES - 1)),
        "last_done": ("agreed_ns", "last_ns", cells["cell"] >= -1),
    }
    out = pd.DataFrame(index=t.index)
    for w, (begin, end, inside) in windows.items():
        out[f"{w}_begin_s"] = (t[begin] - t["agreed_ns"]) / 1e9
        out[f"{w}_end_s"] = (t[end] - t["agreed_ns"]) / 1e9
        out[f"{w}_length_s"] = length = ((t[end] - t[begin]) / 1e9).clip(lower=0)
        out[f"{w}_operations"] = _rounded_sums(cells[inside & good], "operations", t.index)
        out[f"{w}_bytes"] = _rounded_sums(cells[inside & good], "bytes", t.index)
        out[f"{w}_errors"] = _rounded_sums(cells[inside & ~good], "operations", t.index)
        ended = out[f"{w}_operations"] + out[f"{w}_errors"] > 0
        length = length.where((length > 0) & ended)  # without a completion, the rate is unknown and not 0
        out[f"{w}_throughput_mb_per_s"] = out[f"{w}_bytes"].astype(float) / MB / length
        out[f"{w}_rate_per_s"] = out[f"{w}_operations"].astype(float) / length
    out["rate_operations"] = out["overlap_operations"] + out["overlap_errors"]
    for column, found in _estimates(campaign).items():
        out.loc[found.index, column] = found
    out["tail_s"] = ((t["last_ns"] - t["first_end_ns"]) / 1e9).clip(lower=0)
    out["operations"], out["errors"] = (_rounded_sums(cells[rows], "operations", t.index) for rows in (good, ~good))
    counted = cells[good & overlap].astype({"cell": int, "operations": float})
    slices = counted.pivot_table(index="key", columns="cell", values="operations", aggfunc="sum")
    slices = slices.reindex(t.index, columns=range(SLICES)).fillna(0).to_numpy(float)
    most = [in_flight(campaign.runs[key]["point"]["axes"]) for key in t.index]
    rows = zip(slices, out["overlap_length_s"], most, t["bin_ns"], strict=True)
    out["steadiness"] = [label(*row) for row in rows]
    return out


_CLOSED = f"""
WITH unstarted AS (
  SELECT key, client, (row_number() OVER (PARTITION BY key, client ORDER BY end_ns) - 1) % workers AS lane, end_ns,
    count, bytes, error, overlap_begin_ns, first_end_ns, client_start_ns, client_end_ns
  FROM rows SEMI JOIN looped USING (key) JOIN begun USING (key, client)
  WHERE start_ns IS NULL AND error IS DISTINCT FROM '{HUNG}'),
inferred AS MATERIALIZED (
  SELECT *, coalesce(lag(end_ns) OVER (PARTITION BY key, client, lane ORDER BY end_ns), client_start_ns) AS start_ns
  FROM unstarted),
typical AS (
  SELECT key, client, avg(bytes) AS bytes, avg(end_ns - start_ns) + var_pop(end_ns - start_ns) / avg(end_ns - start_ns)
    AS lasts_ns FROM inferred WHERE end_ns > start_ns GROUP BY key, client)
SELECT key, client, worker AS lane, start_ns, end_ns, count, bytes, error, overlap_begin_ns, first_end_ns,
  false AS cut_off, false AS unstarted
FROM rows SEMI JOIN looped USING (key) WHERE start_ns IS NOT NULL
UNION ALL BY NAME SELECT * EXCLUDE (client_start_ns, client_end_ns), false AS cut_off, true AS unstarted FROM inferred
UNION ALL BY NAME
SELECT key, client, lane, max(end_ns) AS start_ns, 1 AS count, any_value(typical.bytes) AS bytes,
  greatest(any_value(client_end_ns), max(end_ns) + any_value(lasts_ns)::BIGINT) AS end_ns,
  any_value(overlap_begin_ns) AS overlap_begin_ns, any_value(first_end_ns) AS first_end_ns, true AS cut_off,
  true AS unstarted
FROM inferred JOIN typical USING (key, client) GROUP BY key, client, lane
HAVING max(end_ns) < any_value(client_end_ns)"""
_REWARDS = {
    "overlap_rate_per_s": "CASE WHEN error IS NULL THEN count ELSE 0 END",
    "overlap_throughput_mb_per_s": f"CASE WHEN error IS NULL THEN bytes ELSE 0 END / {MB}",
    "answered": f"(error IS DISTINCT FROM '{HUNG}')::INT",
}
_OPEN = """
SELECT key, sum(count) / any_value(length_s) AS overlap_rate_per_s,
  sum(bytes) / 1e6 / any_value(length_s) AS overlap_throughput_mb_per_s, count(*) AS rate_operations
FROM (SELECT *, (first_end_ns - overlap_begin_ns) / 1e9 AS length_s FROM rows SEMI JOIN scheduled USING (key)
  WHERE error IS NULL AND start_ns > overlap_begin_ns AND start_ns <= first_end_ns)
GROUP BY key"""


def _estimates(campaign: Campaign) -> pd.DataFrame:
    """Estimate rates in the overlap window for the points with records of single operations and without roles.

    The columns replace those of `operations`; shape (points, 3).

    s5cmd does not record the starts of operations, nor the operations that were cut off at its end. The workers of a
    client are assumed to take turns. An operation is assumed to start when the previous one of the same worker ends. An
    operation that was cut off is assumed to last as long as an operation that covers a random moment: mean +
    variance / mean (Cox, Renewal Theory, 1962, section 5.3).
    """
    con = scan.connect(campaign, "ops")
    if con is None:
        return pd.DataFrame()
    kinds = con.execute(
        "SELECT key, bool_or(latency_hist IS NOT NULL) AS bins, bool_or(intended_ns IS NOT NULL) AS scheduled "
        "FROM rows GROUP BY key"
    ).df()
    roles = [bool(campaign.runs[key]["point"]["fixed"].get("roles")) for key in kinds["key"]]
    kinds = kinds[~kinds["bins"] & ~np.array(roles, bool)]
    begun = [
        (key, c["client"], c.get("start_ns") or run["start_ns"], min(c.get("end_ns") or end, end), workers)
        for key, run in campaign.runs.items()
        for end, workers in [(run["deadline_ns"], int(run["point"]["axes"].get("workers") or 1))]
        for c in run["clients"]
    ]
    columns = ["key", "client", "client_start_ns", "client_end_ns", "workers"]
    con.register("begun", pd.DataFrame(begun, columns=columns))
    con.register("scheduled", kinds.loc[kinds["scheduled"], ["key"]])
    con.register("looped", kinds.loc[~kinds["scheduled"], ["key"]])
    closed = closed_loop(con, _CLOSED, _REWARDS)
    closed = closed.mask(closed.pop("answered") == 0)
    scheduled = con.execute(_OPEN).df().set_index("key")
    return pd.concat([t for t in (closed, scheduled) if len(t)] or [closed])


def in_flight(axes: Mapping[str, Any]) -> int:
    """Return how many operations the clients of a point can have in flight. Each object of a batch counts."""
    return math.prod(int(axes.get(name) or 1) for name in ("clients", "workers", "batch"))


def _rounded_sums(cells: pd.DataFrame, column: str, index: pd.Index) -> pd.Series:
    """Return the sum of a column per key as a whole number. Parts of bins are not whole numbers before."""
    return cells.groupby("key")[column].sum().reindex(index).fillna(0).astype(float).round().astype("int64")


def label(slices: np.ndarray, length_s: float, most: int = 1, bin_ns: int = scan.BIN_NS) -> str:
    """Return the steadiness of the completions per slice (shape (SLICES,)) of a window, as defined in the module.

    length_s: length of the window; most: largest number of operations in flight; bin_ns: length of a bin of operations.
    """
    total = slices.sum()
    if length_s < SHORTEST_S or total < max(MIN_OPERATIONS, MIN_OPERATIONS_EACH * most):
        return steadiness.TOO_SHORT
    finest = min(length_s * 1e9 / bin_ns, 2 * total / most)
    n = max((n for n in steadiness.THRESHOLDS if n <= finest), default=min(steadiness.THRESHOLDS))
    return steadiness.label(slices.reshape(n, -1).sum(1))


PHASES = ("plan", "transfer", "decompress", "deserialise")  # phases of a read
OPENED = (("opening", "requests"), ("opening", "mb"), ("opening", "s"))  # columns `<a>_<b>`, per opening of a file
_READS = """
SELECT key, count(*) AS reads, avg(entries) AS entries_per_read, avg(branches) AS branches_per_read,
  avg(baskets) AS baskets_per_read,
  avg(needed_bytes) / 1e6 AS needed_mb_per_read, avg(asked_bytes) / 1e6 AS asked_mb_per_read,
    avg(wire_bytes) / 1e6 AS wire_mb_per_read,
  avg(requests) AS requests_per_read,
  sum(wire_bytes) FILTER (wire_bytes IS NOT NULL) / nullif(sum(needed_bytes) FILTER (wire_bytes IS NOT NULL), 0)
    AS amplification_ratio,
  {phases}, {opening}
FROM apart
GROUP BY key"""
READ_LANES = (
    "SELECT *, 0 AS lane, false AS cut_off, false AS unstarted FROM apart"  # a client reads one file after the other
)
_READ_RATES = {
    "reads_per_s": "1",
    "entries_per_s": "entries",
    "needed_mb_per_s": f"needed_bytes / {MB}",
    "wire_mb_per_s": f"wire_bytes / {MB}",
}
# Means over the reads that open their file: number of requests, MB received over the network (or MB requested, if that
# is not known), and duration of opening.
OPENING = """avg(opening_requests) FILTER (open_ns > 0) AS opening_requests,
  avg(coalesce(opening_wire_bytes, opening_asked_bytes)) FILTER (open_ns > 0) / 1e6 AS opening_mb,
  avg(open_ns) FILTER (open_ns > 0) / 1e9 AS opening_s"""


def separate_reads(campaign: Campaign, keys: Iterable[str] | None = None) -> duckdb.DuckDBPyConnection | None:
    """Return a connection to the reads of points, with the opening of a file separated from reading it.

    The view `apart` has the columns of `rows` (`scan.connect`). Its columns requests, asked_bytes and wire_bytes do not
    include the opening of the file. The columns with the prefix `opening_` contain the opening: 0 for a read that did
    not open a file, null if the record of the client does not have them. Opening is everything before the first byte of
    a basket: connections, the file's header, the tree's header. keys: use only these points (None: all points). Returns
    None without reads.
    """
    con = scan.connect(campaign, "reads", keys)
    if con is None:
        return None
    parts = ("requests", "asked_bytes", "wire_bytes")
    opened = [
        (key, c["client"], *(((c.get("engine") or {}).get("opening") or {}).get(name) for name in parts))
        for key, run in campaign.runs.items()
        for c in run["clients"]
    ]
    con.register(
        "openings", pd.DataFrame(opened, columns=["key", "client", *parts]).astype(dict.fromkeys(parts, "Int64"))
    )
    reading = ", ".join(f"rows.{p} - CASE WHEN open_ns > 0 THEN openings.{p} ELSE 0 END AS {p}" for p in parts)
    opening = ", ".join(f"CASE WHEN open_ns > 0 THEN openings.{p} ELSE 0 END AS opening_{p}" for p in parts)
    con.execute(
        f"CREATE TEMP VIEW apart AS SELECT rows.* REPLACE ({reading}), {opening} "
        "FROM rows JOIN openings USING (key, client)"
    )
    return con


def reads(campaign: Campaign) -> pd.DataFrame:
    """Return means and rates of reading, one row per key (the index) of the read workloads.

    Means are per read, over all reads of the run; rates are estimated by `closed_loop`. Both exclude the opening of
    files. opening_requests, opening_mb and opening_s are means per opening of a file (`separate_reads`).

    needed: compressed bytes of the baskets that contain the selection; asked: bytes of the ranges requested after
    merging; wire: bytes received over the network. amplification = wire / needed, of the sums. Entries are the events
    delivered. Throughputs are totals of all clients.
    """
    con = separate_reads(campaign)
    if con is None:
        return pd.DataFrame(index=pd.Index([], name="key"))
    phases = ", ".join(f"avg({p}_ns) / 1e9 AS {p}_s_per_read" for p in PHASES)
    means = con.execute(_READS.format(phases=phases, opening=OPENING)).df().set_index("key")
    return means.join(closed_loop(con, READ_LANES, _READ_RATES))


def completions(campaign: Campaign, key: str, slices: int = 100) -> pd.DataFrame:
    """Return a time series of one point for display: columns second, client, operations_per_s, mb_per_s.

    second: middle of the slice, in seconds from the agreed start. The time until the last completion is divided into
    equal slices. slices: their number.
    """
    con = scan.connect(campaign, "ops", [key])
    query = "SELECT client, (end_ns - agreed_ns) / 1e9 AS s, count, bytes FROM rows WHERE error IS NULL ORDER BY s"
    t = con.execute(query).df() if con else pd.DataFrame()
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

"""Rates in a window from operations that may last as long as the window itself.

Counting the completions in a window underestimates a rate when an operation takes about as long as the window: four
reads of 3 s leave no completion in a window of 2.5 s. Two estimators are used instead; both need the start and the end
of each operation, and operations that are completed after the window (docs/statistics.md, "Rates").

* Shares: an operation counts by the part of its duration that lies in the window. In a stationary loop this is unbiased
  for any duration; the work of an operation is taken to be even over its duration.
* Ratio: number of workers times the sum of the operations over the sum of the times from the start of a worker's first
  operation to the end of its last one. The number of operations of a worker is a stopping time, so that Wald's equation
  holds for the sums (Ross, Stochastic Processes, 1996, sections 3.3 and 3.6). Beale's correction removes the bias of
  order 1/workers (Cochran, Sampling Techniques, 1977, section 6.15). Operations count that start in the window; if a
  worker has none, all operations of the point count, because a choice worker by worker would favour long operations.

Shares are used where the median worker has at least `SHARES_FROM` operations that overlap the window, and where the
workers take different times (a straggler). The ratio is used for fewer: all workers start together, so that the first
operations are not those of a stationary loop, and shares of short ones count too much.

s5cmd records neither starts nor the operations that its end cuts off, and may work on more commands than it has
workers. Its starts are inferred for shares. For the ratio, a client counts as one worker from its start to its last
completion.

`benchmarks/statistics_truth.py` measures bias and coverage of both, next to those of counting completions.
"""

from collections.abc import Mapping

import duckdb
import numpy as np
import pandas as pd

SHARES_FROM = 3  # operations of the median worker
DIFFER = 5.0  # variance between workers over that within workers, from which they take different times

_LANES = """
WITH operations AS (
  SELECT *, start_ns >= overlap_begin_ns AND NOT unstarted AS fresh, ln(greatest(end_ns - start_ns, 1)) AS log_ns,
    CASE WHEN end_ns > start_ns
      THEN greatest(0, least(end_ns, first_end_ns) - greatest(start_ns, overlap_begin_ns)) / (end_ns - start_ns)
      ELSE (end_ns > overlap_begin_ns AND end_ns <= first_end_ns)::INT END AS share
  FROM ({source}) WHERE start_ns < first_end_ns AND overlap_begin_ns < first_end_ns),
parts AS MATERIALIZED (
  SELECT key, client, lane, fresh, cut_off, unstarted, count(*) AS n,
    count(*) FILTER (NOT cut_off AND share > 0) AS inside,
    min(start_ns - overlap_begin_ns) / 1e9 AS begin_s, max(end_ns - overlap_begin_ns) / 1e9 AS stop_s,
    sum(log_ns) AS log_sum, sum(log_ns ** 2) AS log_squares, {sums},
    any_value(first_end_ns - overlap_begin_ns) / 1e9 AS length_s
  FROM operations GROUP BY ALL),
lanes AS (SELECT key, bool_or(fresh) AS any_fresh FROM parts GROUP BY key, client, lane),
points AS (SELECT key, bool_and(any_fresh) AS all_fresh FROM lanes GROUP BY key)
SELECT key, client, lane, sum(inside) AS inside, sum(n) AS n, sum(log_sum) AS log_sum, sum(log_squares) AS log_squares,
  any_value(length_s) AS length_s, sum(n) FILTER (counts) AS ratio_n, bool_or(unstarted) AS unstarted,
  min(begin_s) FILTER (counts) AS begin_s, max(stop_s) FILTER (counts) AS stop_s, {merged}
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
    """Estimate rates per second of each key (the index): one column for each reward, and `rate_operations`, the number
    of operations that they rest on, failed ones included. A key without operations, or without time, has no row.

    Parameters
    ----------
    con
        Connection that knows the tables of `source`.
    source
        SQL of rows, one for each operation, with the columns key, client, lane, start_ns, end_ns, cut_off, unstarted,
        overlap_begin_ns and first_end_ns. The operations of a lane (a worker) follow one another. cut_off: the end is
        an estimate, which is used for shares only. unstarted: the start was not recorded.
    rewards
        SQL of what one operation adds, by column. A rate is null where one operation has null.
    """

    def columns(forms: tuple[str, ...]) -> str:
        return ", ".join(form.format(c=name, e=f"({sql})") for name, sql in rewards.items() for form in forms)

    lanes = con.execute(_LANES.format(source=source, sums=columns(_SUMS), merged=columns(_MERGED))).df()
    lanes = lanes.astype(dict.fromkeys(lanes.columns.drop(["key", "client", "lane", "unstarted"]), float))
    found = {key: _rates(of_key, list(rewards)) for key, of_key in lanes.groupby("key", sort=False)}
    out = pd.DataFrame.from_dict(found, orient="index", columns=[*rewards, "rate_operations"]).rename_axis("key")
    return out.astype({"rate_operations": "int64"})


def _rates(lanes: pd.DataFrame, rewards: list[str]) -> list[float]:
    """Estimate the rates of one point from the sums of its workers; last, the number of operations."""
    sums = {name: lanes[name].to_numpy() for name in ("inside", "n", "log_sum", "log_squares")}
    if np.median(sums["inside"]) >= SHARES_FROM or _differ(sums["n"], sums["log_sum"], sums["log_squares"]):
        found = lanes[[f"shares_{name}" for name in rewards]].sum(skipna=False) / lanes["length_s"].iloc[0]
        return [*found, sums["inside"].sum()]
    if lanes["unstarted"].all():
        sums = dict.fromkeys((*rewards, "ratio_n"), "sum")
        lanes = lanes.groupby("client").agg({"begin_s": "min", "stop_s": "max"} | sums)
    busy = (lanes["stop_s"] - lanes["begin_s"]).to_numpy()
    return [*(_ratio(lanes[name].to_numpy(), busy) for name in rewards), lanes["ratio_n"].sum()]


def _ratio(reward: np.ndarray, busy: np.ndarray) -> float:
    """Return workers times the ratio of the sums, with Beale's correction. Shapes (workers,)."""
    if not busy.sum() > 0:  # all at one instant, or a clock that was set back
        return np.nan
    ratio = len(busy) * reward.sum() / busy.sum()
    if len(busy) == 1 or not ratio > 0:
        return ratio
    (_, shared), (_, own) = np.cov(reward, busy)
    return ratio * (1 + shared / (reward.sum() * busy.mean())) / (1 + own / (busy.sum() * busy.mean()))


def _differ(n: np.ndarray, sums: np.ndarray, squares: np.ndarray) -> bool:
    """Check whether workers take different times, by one-way analysis of variance of log durations. Shapes (workers,):
    their number, sum and sum of squares."""
    free = n.sum() - len(n)
    if free < 1 or len(n) == 1:
        return False
    explained = (sums**2 / n).sum()
    between = (explained - sums.sum() ** 2 / n.sum()) / (len(n) - 1)
    within = (squares.sum() - explained) / free
    return bool(between > max(DIFFER * within, 1e-9))

"""Operations of roles, counted in cells: the phases of a run, or steps of one length from its agreed start.

Counted as the windows of `windows` are: an operation belongs to the cell in which it ends, its bytes too; of a bin the
part that lies in a cell counts, in operations, bytes and latencies, for its operations are taken as evenly spaced. A
cell holds what ends in (begin, end]. Phases have the work done in them too: an operation counts by the part of its
duration that is in the phase (`rates.py`), where its start is known.

Latencies are those of `tables/latency.py`: from when an operation was due, else from when it began; of operations that
succeeded; null below as many as a quantile needs. What hung, or was due and never began, is in no step, and counts in
phases as `unended.py` says.
"""

from dataclasses import dataclass

import duckdb
import pandas as pd

from storelab.analysis.records import roles, scan, unended
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics.quantiles import WIDTH, enough, of_histogram

LEVELS = {"latency_p50_ms": 0.5, "latency_p90_ms": 0.9, "latency_p99_ms": 0.99}
LATENCIES = (*LEVELS, "latency_max_ms")
_BIN = "greatest(0, least(end_ns, high_ns) - greatest(end_ns - bin_ns, low_ns)) / bin_ns"
_ROWS = "rows JOIN clients USING (key, client)"
_STEPS = f"""
WITH placed AS (SELECT rows.*, role, step_ns, (end_ns - agreed_ns - 1) // step_ns AS last
                FROM {_ROWS} JOIN steps USING (key) WHERE end_ns > agreed_ns)
SELECT * EXCLUDE (last), last AS cell, CASE WHEN latency_hist IS NULL THEN 1.0
    ELSE least(1.0, (end_ns - agreed_ns - last * step_ns) / bin_ns) END AS share FROM placed
UNION ALL BY NAME
SELECT * EXCLUDE (last), last - 1 AS cell, 1.0 - (end_ns - agreed_ns - last * step_ns) / bin_ns AS share
FROM placed WHERE latency_hist IS NOT NULL AND last > 0 AND end_ns - agreed_ns - last * step_ns < bin_ns"""
_SPANS = f"""
SELECT * FROM (
  SELECT rows.*, role, cell,
    CASE WHEN latency_hist IS NULL THEN (end_ns > low_ns AND end_ns <= high_ns)::INT::DOUBLE ELSE {_BIN} END AS share
  FROM {_ROWS} JOIN spans USING (key, role))
WHERE share > 0"""
_WORK = f"""
SELECT key, role, cell, sum(part * count) AS work, sum(part * bytes) AS work_bytes FROM (
  SELECT key, role, cell, count, bytes,
    CASE WHEN latency_hist IS NOT NULL THEN {_BIN}
      WHEN end_ns > start_ns
        THEN greatest(0, least(end_ns, high_ns) - greatest(start_ns, low_ns)) / (end_ns - start_ns)
      ELSE (end_ns > low_ns AND end_ns <= high_ns)::INT END AS part
  FROM {_ROWS} JOIN spans USING (key, role) WHERE error IS NULL)
WHERE part > 0 GROUP BY ALL"""
_COUNTS = """
SELECT key, role, cell,
  coalesce(sum(share * count) FILTER (error IS NULL), 0) AS operations,
  coalesce(sum(share * bytes) FILTER (error IS NULL), 0) AS bytes,
  coalesce(sum(share * count) FILTER (error IS NOT NULL), 0) AS errors
FROM cells GROUP BY ALL"""
_STATUSES = """
SELECT key, role, cell, coalesce(status, 0) AS status, sum(share * count) AS errors
FROM cells WHERE error IS NOT NULL GROUP BY ALL"""
_BEGUN = "end_ns - coalesce(intended_ns, start_ns)"
_SINGLE = f"""
SELECT key, role, cell, count({_BEGUN}) AS timed, max({_BEGUN}) AS longest,
  quantile_disc({_BEGUN}, {list(LEVELS.values())}) AS quantiles
FROM cells WHERE error IS NULL AND latency_hist IS NULL AND (key, role) NOT IN (SELECT key, role FROM binned)
GROUP BY ALL"""
_BUCKETS = f"""
SELECT key, role, cell, upper_ns, sum(operations) AS operations FROM (
  SELECT key, role, cell, bucket.upper_ns AS upper_ns, share * bucket.count AS operations
  FROM (SELECT key, role, cell, share, unnest(latency_hist) AS bucket FROM cells
        WHERE error IS NULL AND latency_hist IS NOT NULL)
  UNION ALL
  SELECT key, role, cell, pow({WIDTH}, ceil(ln(greatest({_BEGUN}, 1)) / ln({WIDTH})))::BIGINT AS upper_ns, 1.0
  FROM cells WHERE error IS NULL AND latency_hist IS NULL AND {_BEGUN} IS NOT NULL
    AND (key, role) IN (SELECT key, role FROM binned))
GROUP BY ALL ORDER BY key, role, cell, upper_ns"""


@dataclass(frozen=True)
class Counted:
    """What was counted. cells: key, role, cell, operations, bytes, errors and LATENCIES, in phases work,
    work_bytes, hung, not_begun and `unended.BOUNDS` too; statuses: key, role, cell, status (0: none), errors."""

    cells: pd.DataFrame
    statuses: pd.DataFrame


def in_steps(campaign: Campaign, steps: pd.DataFrame) -> Counted | None:
    """In steps from the agreed start, numbered from 0. steps: key, step_ns (at least a bin long). None where no
    operation was recorded."""
    return _counted(campaign, _STEPS, steps=steps)


def in_phases(campaign: Campaign) -> Counted | None:
    """In the phases of each run, as far as the role worked in them."""
    spans = roles.phase_table(campaign).rename(columns={"begin_ns": "low_ns", "end_ns": "high_ns"})
    return _counted(campaign, _SPANS, True, spans=spans)


def connect(campaign: Campaign) -> duckdb.DuckDBPyConnection | None:
    """As `scan.connect`, to the operations of points with roles, with the table `clients` (`roles.client_table`)."""
    if not (keys := roles.keys(campaign)) or (con := scan.connect(campaign, "ops", keys)) is None:
        return None
    con.register("clients", roles.client_table(campaign))
    return con


def _counted(campaign: Campaign, query: str, waiting: bool = False, **given: pd.DataFrame) -> Counted | None:
    if (con := connect(campaign)) is None:
        return None
    for name, table in given.items():
        con.register(name, table)
    con.execute(f"CREATE TEMP TABLE cells AS {query}")
    con.execute("CREATE TEMP TABLE binned AS SELECT DISTINCT key, role FROM cells WHERE latency_hist IS NOT NULL")
    counts = con.execute(_COUNTS).df()
    latencies = pd.concat([_of_single(con.execute(_SINGLE).df()), _of_buckets(con.execute(_BUCKETS).df())])
    cells = counts.merge(latencies, on=unended.PLACE, how="left")
    if waiting:
        cells = _with_unended(cells, unended.of(con, campaign, LEVELS))
        cells = cells.merge(con.execute(_WORK).df(), on=unended.PLACE, how="outer")
    return Counted(cells, con.execute(_STATUSES).df())


def _with_unended(cells: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """The cells, with the latencies of those in which operations waited that never ended; some have no other."""
    both = cells.merge(found, on=unended.PLACE, how="outer", suffixes=("", "_least"))
    waited = both[unended.BOUNDS].notna()
    for name in LATENCIES:
        both[name] = both[name].astype(float).where(~waited, both[f"{name}_least"].astype(float))
    return both.drop(columns=[f"{name}_least" for name in LATENCIES])


def _row(operations: float, longest: float, quantiles: list[float]) -> list[float | None]:
    """Of LATENCIES, from ns."""
    known = [q / 1e6 if enough(operations, p) else None for q, p in zip(quantiles, LEVELS.values(), strict=True)]
    return [*known, longest / 1e6]


def _of_single(found: pd.DataFrame) -> pd.DataFrame:
    found = found[found["timed"] > 0]
    told = zip(found["timed"], found["longest"], found["quantiles"], strict=True)
    return _table(found, [_row(*values) for values in told])


def _of_buckets(found: pd.DataFrame) -> pd.DataFrame:
    rows, values = [], []
    for key, group in found.groupby(["key", "role", "cell"], sort=False):
        upper, count = group["upper_ns"].to_numpy(float), group["operations"].to_numpy(float)
        rows.append(key)
        values.append(_row(count.sum(), upper[-1], list(of_histogram(upper, count, list(LEVELS.values())))))
    return _table(pd.DataFrame(rows, columns=["key", "role", "cell"]), values)


def _table(found: pd.DataFrame, values: list[list[float | None]]) -> pd.DataFrame:
    latencies = pd.DataFrame(values, columns=list(LATENCIES), index=found.index, dtype=float)
    return pd.concat([found[["key", "role", "cell"]], latencies], axis=1)

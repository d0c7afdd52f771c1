"""Operations of roles that never ended: those that hung, and those of an open loop that were due and never began.

Such an operation lasted at least until it was given up, or until its role's end. In a phase it counts as longer than
all that ended there, as in `tables/latency.py`: a quantile that falls on it is a lower bound. It counts in every phase
in which it waited, but not in `before` where its role worked in later ones: it ended in none, and what it met
came later. May import: `roles`, `statistics`, `core.records`.
"""

from collections.abc import Mapping

import duckdb
import numpy as np
import pandas as pd

from storelab.analysis.records import roles
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.statistics.quantiles import WIDTH, enough, with_bounds
from storelab.core.records import HUNG

PLACE = ["key", "role", "cell"]
BOUNDS = "lower_bounds"  # names of the latencies that are one, by ", "
_HUNG = f"""
SELECT key, role, coalesce(intended_ns, start_ns) AS begun_ns, end_ns - begun_ns AS least_ns, 1.0 AS n
FROM rows JOIN clients USING (key, client) WHERE error = '{HUNG}' AND latency_hist IS NULL
UNION ALL
SELECT key, role, end_ns - bucket.upper_ns AS begun_ns, bucket.upper_ns / {WIDTH} AS least_ns, bucket.count AS n
FROM (SELECT key, role, end_ns, unnest(latency_hist) AS bucket
      FROM rows JOIN clients USING (key, client) WHERE error = '{HUNG}' AND latency_hist IS NOT NULL)"""
_ENDED = """
WITH mine AS (SELECT * FROM cells WHERE key = ? AND role = ? AND cell = ? AND error IS NULL)
SELECT ns, sum(n) AS n FROM (
  SELECT end_ns - coalesce(intended_ns, start_ns) AS ns, 1.0 AS n FROM mine WHERE latency_hist IS NULL
  UNION ALL
  SELECT bucket.upper_ns AS ns, share * bucket.count AS n FROM (SELECT share, unnest(latency_hist) AS bucket FROM mine))
WHERE ns IS NOT NULL GROUP BY ns ORDER BY ns"""


def of(con: duckdb.DuckDBPyConnection, campaign: Campaign, levels: Mapping[str, float]) -> pd.DataFrame:
    """One row per key, role and phase in which such operations waited: PLACE, hung, not_begun, the columns of `levels`
    and latency_max_ms (in ms; null below as many operations as a quantile needs), BOUNDS.

    con: has `rows`, `clients`, `spans` and `cells` of `cells.py`, in phases.
    """
    waiting = pd.concat([con.execute(_HUNG).df().assign(hung=True), _never_began(campaign).assign(hung=False)])
    spans = con.execute("SELECT key, role, cell, high_ns FROM spans").df()
    spans["last"] = spans["high_ns"] == spans.groupby(["key", "role"])["high_ns"].transform("max")
    met = waiting.merge(spans, on=["key", "role"])
    met = met[(met["begun_ns"] < met["high_ns"]) & ((met["cell"] != roles.BEFORE) | met["last"])]
    made = [_row(con, place, group, levels) for place, group in met.groupby(PLACE, sort=False)]
    return pd.DataFrame(made, columns=[*PLACE, "hung", "not_begun", *levels, "latency_max_ms", BOUNDS])


def _never_began(campaign: Campaign) -> pd.DataFrame:
    """Operations that were due and never began: they are the last ones due, and each client has every so many-th."""
    rows = []
    for key in roles.keys(campaign):
        run = campaign.runs[key]
        engines = {c["client"]: c.get("engine") or {} for c in run["clients"]}
        for told in run["roles"]:
            apart = len(told["clients"]) * 1e9 / (told.get("axes", {}).get("arrival_rate") or 1)
            for rank in told["clients"]:
                waited = np.arange(engines.get(rank, {}).get("not_begun") or 0) * apart
                rows += [(key, told["name"], told["end_ns"] - w, w, 1.0) for w in waited]
    return pd.DataFrame(rows, columns=["key", "role", "begun_ns", "least_ns", "n"])


def _row(
    con: duckdb.DuckDBPyConnection, place: tuple[str, ...], group: pd.DataFrame, levels: Mapping[str, float]
) -> list[object]:
    found = con.execute(_ENDED, list(place)).df()
    ended = pd.Series(found["n"].to_numpy(float), index=found["ns"].to_numpy(float))
    bounds = pd.Series(group["n"].to_numpy(float), index=group["least_ns"].to_numpy(float))
    every = ended.sum() + bounds.sum()
    values, beyond = with_bounds(ended, bounds, list(levels.values()))
    known = [enough(every, p) for p in levels.values()]
    told = [v / 1e6 if k else None for v, k in zip(values, known, strict=True)]
    names = [c for c, b, k in zip(levels, beyond, known, strict=True) if b and k]
    longest = max([*ended.index, *bounds.index]) / 1e6
    hung = group.loc[group["hung"], "n"].sum()
    said = ", ".join(name.removesuffix("_ms") for name in [*names, "latency_max_ms"])
    return [*place, hung, group["n"].sum() - hung, *told, longest, said]

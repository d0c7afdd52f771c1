"""`table2.csv`: one job opens the file and reads its entries once, in the manner of Table 2 of J. Phys.: Conf. Ser. 664 (2015) 022001,
whose rows stand below ours (level 2, analysis).

* Selections of `read_entries` over all branches, at the least number of clients; their first reads (`_first`: what opening the file took is
  in them, as in the paper) apart from those that follow (`_again`).
* clusters: baskets per branch read, which is the number of clusters touched where all branches share their clusters: as many calls would a
  TTreeCache make that holds a cluster, and these are the paper's read calls.
* ranges: baskets, each a range that the reader asks for; requests: what was sent for them after merging and splitting.
* part: MB on the wire of the first read in percent of those of 100 % of the entries: what files of other sizes can be compared by;
  share_amplification: the same over the entries' part of all entries.
"""

from typing import Any

import pandas as pd

from storelab.analysis.records import published, scan, windows
from storelab.analysis.records.loading import Campaign
from storelab.analysis.statistics import medians as stats
from storelab.analysis.tables.points import axis_columns, identity

SELECTION = "entry_fraction_percent"
_ROWS = """
SELECT key, count(*) FILTER (read = 0) AS first_reads, count(*) FILTER (read > 0) AS later_reads,
  avg(entries) AS entries, avg(baskets) AS ranges, avg(baskets / branches) AS clusters, avg(needed_bytes) / 1e6 AS needed_mb,
  avg(requests) FILTER (read = 0) AS requests_first, avg(requests) FILTER (read > 0) AS requests_again,
  avg(wire_bytes) FILTER (read = 0) / 1e6 AS wire_mb_first, avg(wire_bytes) FILTER (read > 0) / 1e6 AS wire_mb_again,
  avg(wire_bytes) FILTER (read = 0) / avg(needed_bytes) FILTER (read = 0 AND wire_bytes IS NOT NULL) AS amplification_first,
  avg(wire_bytes) FILTER (read > 0) / avg(needed_bytes) FILTER (read > 0 AND wire_bytes IS NOT NULL) AS amplification_again
FROM rows GROUP BY key"""
METRICS = (
    "clusters",
    "ranges",
    "requests_first",
    "requests_again",
    "needed_mb",
    "wire_mb_first",
    "wire_mb_again",
    "amplification_first",
    "amplification_again",
)


def table(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """One row per selection: medians over the runs, and low and high of the first reads' MB, for draws differ; then the published rows
    (`source` published; null what was not printed)."""
    by = identity(campaign.plan)
    columns = [
        "source",
        *by,
        "n",
        "interval",
        "entries",
        *METRICS,
        "wire_low_mb_first",
        "wire_high_mb_first",
        "part_percent",
        "share_amplification",
    ]
    out = pd.DataFrame(_measured(campaign, points, by), columns=columns)
    if out.empty:
        return out
    shared = [c for c in by if c != SELECTION]
    whole = out[out[SELECTION] == 100].set_index(shared)[["wire_mb_first", "entries"]]
    whole = whole.reindex(pd.MultiIndex.from_frame(out[shared])).set_index(out.index)
    out["part_percent"] = 100 * out["wire_mb_first"] / whole["wire_mb_first"]
    out["share_amplification"] = out["part_percent"] / (100 * out["entries"] / whole["entries"])
    out = out.sort_values(["store", "engine", SELECTION], ascending=[True, True, False], kind="stable")
    return pd.concat([out, _published(columns)], ignore_index=True).astype(
        {c: t for c, t in axis_columns(campaign.plan).items() if c in out}
    )


def _measured(campaign: Campaign, points: pd.DataFrame, by: list[str]) -> list[dict[str, Any]]:
    con = scan.connect(campaign, "reads", windows.bounds(campaign))
    wanted = points[(points["workload"] == "read_entries") & (points["state"] == "ok")]
    if con is None or wanted.empty:
        return []
    wanted = wanted[(wanted["volume_fraction_percent"] == 100) & (wanted["clients"] == wanted["clients"].min())]
    both = wanted.merge(con.execute(_ROWS).df(), on="key")
    rows = []
    for key, runs in both.groupby(by, dropna=False, sort=True):
        s = stats.summarise(runs["wire_mb_first"].to_numpy(float))
        medians = runs[["entries", *METRICS]].astype(float).median()
        rows.append(
            {"source": "measured", **dict(zip(by, key, strict=True)), "n": len(runs), "interval": s.kind, **medians}
            | {"wire_low_mb_first": s.low, "wire_high_mb_first": s.high}
        )
    return rows


def _published(columns: list[str]) -> pd.DataFrame:
    """As printed: a read call is one of a cluster, and the volume is that of opening and reading."""
    printed = published.share_amplification()
    return pd.DataFrame(
        {
            "source": "published",
            "store": "Huawei UDS",
            "workload": "read_entries",
            "engine": "ROOT with davix",
            SELECTION: printed["percent_of_entries"],
            "entries": printed["entries"],
            "clusters": printed["read_calls"],
            "wire_mb_first": printed["volume_mb"],
            "part_percent": 100 * printed["volume_mb"] / printed["volume_mb"].iloc[0],
            "share_amplification": printed["share_amplification_ratio"],
        }
    ).reindex(columns=columns)

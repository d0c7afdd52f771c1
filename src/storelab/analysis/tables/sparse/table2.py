"""`table2.csv`: one job opens the file and reads its entries once, in the manner of Table 2 of J. Phys.: Conf. Ser. 664
(2015) 022001, whose rows stand below ours .

* Selections of `read_entries` over all branches, at the least number of clients; their first reads (`_first`: what
  opening the file took is in them, as in the paper) apart from those that follow (`_again`).
* clusters: baskets per branch read, which is the number of clusters touched where all branches share their clusters: as
  many calls would a TTreeCache make that holds a cluster, and these are the paper's read calls.
* ranges: baskets, each a range that the reader asks for; requests: what was sent for them after merging and splitting.
* part: MB on the wire of the first read in percent of those of 100 % of the entries: what files of other sizes can be
  compared by; share_amplification: the same over the entries' part of all entries.
"""

from typing import Any

import pandas as pd

from storelab.analysis.parts import groups
from storelab.analysis.records import published, scan
from storelab.analysis.records.campaign import Campaign

SELECTION = "entry_fraction_percent"
_ROWS = """
SELECT key, count(*) FILTER (read = 0) AS first_reads, count(*) FILTER (read > 0) AS later_reads,
  avg(entries) AS entries, avg(baskets) AS ranges, avg(baskets / branches) AS clusters,
    avg(needed_bytes) / 1e6 AS needed_mb,
  avg(requests) FILTER (read = 0) AS requests_first, avg(requests) FILTER (read > 0) AS requests_again,
  avg(wire_bytes) FILTER (read = 0) / 1e6 AS wire_mb_first, avg(wire_bytes) FILTER (read > 0) / 1e6 AS wire_mb_again,
  avg(wire_bytes) FILTER (read = 0) / avg(needed_bytes) FILTER (read = 0 AND wire_bytes IS NOT NULL)
    AS amplification_first,
  avg(wire_bytes) FILTER (read > 0) / avg(needed_bytes) FILTER (read > 0 AND wire_bytes IS NOT NULL)
    AS amplification_again
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
COLUMNS = (
    "n",
    "interval",
    "entries",
    *METRICS,
    "wire_low_mb_first",
    "wire_high_mb_first",
    "part_percent",
    "share_amplification",
)


def table(campaign: Campaign, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per selection: medians over the runs, and low and high of the first reads' MB, for draws differ; then the
    published rows (`source` published; null what was not printed)."""
    out = _measured(campaign, points, by)
    if out.empty:
        return out
    shared = [c for c in by if c != SELECTION]
    whole = out[out[SELECTION] == 100].set_index(shared)[["wire_mb_first", "entries"]]
    whole = whole.reindex(pd.MultiIndex.from_frame(out[shared])).set_index(out.index)
    out["part_percent"] = 100 * out["wire_mb_first"] / whole["wire_mb_first"]
    out["share_amplification"] = out["part_percent"] / (100 * out["entries"] / whole["entries"])
    out = out.sort_values(["store", "engine", SELECTION], ascending=[True, True, False], kind="stable")
    return pd.concat([out, _published(out)], ignore_index=True).astype({c: points.dtypes[c] for c in by[2:]})


def _measured(campaign: Campaign, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    wanted = points[(points["workload"] == "read_entries") & (points["state"] == "ok")]
    if len(wanted):
        wanted = wanted[(wanted["volume_fraction_percent"] == 100) & (wanted["clients"] == wanted["clients"].min())]
    con = scan.connect(campaign, "reads", wanted["key"])
    both = wanted.merge(con.execute(_ROWS).df(), on="key") if con else wanted.iloc[:0]
    columns = ["source", *by, *COLUMNS]
    return groups.summarised(both, by, [("wire", "mb_first")], columns, _more, counted="wire_mb_first")


def _more(runs: pd.DataFrame) -> dict[str, Any]:
    return {"source": "measured", "n": len(runs), **runs[["entries", *METRICS]].astype(float).median()}


def _published(out: pd.DataFrame) -> pd.DataFrame:
    """Rows like those of `out`, as printed: a read call is one of a cluster, and the volume is that of opening and
    reading."""
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
    ).reindex(columns=out.columns)

"""`consistency.csv`: anomalies over tries of the workload `consistency`, with the bound of their fraction.

A try is one judged answer: what failed is an error and no try. The bound is one-sided, exact: C. J. Clopper and E. S.
Pearson, *The use of confidence or fiducial limits illustrated in the case of the binomial*, Biometrika 26 (1934)
404-413. For 0 of n it is 1 - 0.05^(1/n), about 3/n: the rule of three of J. A. Hanley and A. Lippman-Hand, *If nothing
goes wrong, is everything all right?*, JAMA 249 (1983) 1743-1745.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import betaincinv

from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign
from storelab.core import records

WORKLOAD = "consistency"
CONFIDENCE = 0.95
SCENARIOS = {  # in the order of the table; docs/records.md says what each one is
    "read_after_write": "object put, then read",
    "list_after_write": "object put, then listed",
    "overwrite": "object overwritten, then read",
    "monotonic_reads": "new version seen, then read again",
    "read_after_delete": "object deleted, then read",
    "list_after_delete": "object deleted, then listed",
    "comes_back": "deleted object gone, then read again",
    "comes_back_listed": "deleted objects gone, then listed again",
    "listing_works": "listing of a bucket that is there",
    "listing_complete": "listing of more than one page",
    "bucket_usable": "bucket made, then used",
    "bucket_listed": "bucket made, then listed",
    "bucket_gone": "bucket deleted, then used",
    "bucket_unlisted": "bucket deleted, then listed",
    "bucket_comes_back": "deleted buckets gone, then listed again",
    "listed_bucket_exists": "bucket listed, then used",
}
MEASURES = {
    "runs": "Int64",
    "tried": "Int64",
    "anomalies": "Int64",
    "errors": "Int64",
    "fraction": "Float64",
    "fraction_upper95": "Float64",
    "never_right": "Int64",
    "lasted_median_s": "Float64",
    "lasted_max_s": "Float64",
    "watched_max_s": "Float64",
    "example": "string",
}


def upper_bound(anomalies: int, tried: int, confidence: float = CONFIDENCE) -> float:
    """Largest fraction (0..1) that is compatible with `anomalies` of `tried`: one-sided Clopper-Pearson; NaN without a
    try.

    Raises ValueError where the counts make no sense.
    """
    if not 0 <= anomalies <= tried:
        raise ValueError(f"{anomalies} anomalies of {tried} tries")
    if tried == 0:
        return float("nan")
    return 1.0 if anomalies == tried else float(betaincinv(anomalies + 1, tried - anomalies, confidence))


def _rows(campaign: Campaign, name: str) -> pd.DataFrame:
    """All rows of `<name>.<client>.parquet`, with `point`, the key of theirs."""
    con = scan.connect(campaign, name)
    if con is None:
        return pd.DataFrame(columns=["point", *records.TABLES[name]])
    return con.execute("SELECT *, key AS point FROM rows ORDER BY point, client").df()


def consistency(campaign: Campaign, axes: Mapping[str, str]) -> pd.DataFrame:
    """One row per store, deployment and axes, scenario, and front-end (`same` as that of the write, or an `other`).

    axes: column -> dtype of the axes of the plan. Counts are sums over clients and runs. fraction = anomalies / tried;
    fraction_upper95: `upper_bound`; never_right: anomalies that were not seen to end while they were watched
    (watched_max_s at most); lasted_*: of the others, from the write's acknowledgement (or the first wrong answer) to
    the first right answer; example: what the first one looked like.
    """
    columns = {a["name"]: a["column"] for a in campaign.plan["workloads"].get(WORKLOAD, {"axes": []})["axes"]}
    by = ["store", *columns.values()]
    head = [*by, "scenario", "front_end"]
    tries, found = _rows(campaign, "scenarios"), _rows(campaign, "anomalies")
    rows: list[dict[str, Any]] = []
    if len(tries):
        points = [
            {"point": p["key"], "store": p["store"]} | {columns[k]: v for k, v in p["axes"].items()}
            for p in campaign.measured(WORKLOAD)
        ]
        tries, found = (t.merge(pd.DataFrame(points), on="point") for t in (tries, found))
        for key, group in tries.groupby([*by, "scenario", "same_front_end"], dropna=False):
            of = dict(zip([*by, "scenario", "same_front_end"], key, strict=True))
            wrong = found[np.logical_and.reduce([found[c] == v for c, v in of.items()])]
            rows.append(_row(of, group, wrong))
    table = pd.DataFrame(rows, columns=[*head, *MEASURES])
    order = {s: i for i, s in enumerate(SCENARIOS)}
    table = table.assign(rank=table["scenario"].map(lambda s: order.get(s, len(order)))).sort_values(
        [*by, "rank", "scenario", "front_end"], ascending=[True] * (len(by) + 2) + [False]
    )
    types = {c: axes[c] for c in columns.values() if c in axes}
    return table.drop(columns="rank").reset_index(drop=True).astype(types | MEASURES)


def _row(of: Mapping[str, Any], tries: pd.DataFrame, wrong: pd.DataFrame) -> dict[str, Any]:
    tried, anomalies = int(tries["tried"].sum()), int(tries["anomalies"].sum())
    lasted = wrong["lasted_ns"].dropna() / 1e9
    return {
        **{k: v for k, v in of.items() if k != "same_front_end"},
        "front_end": "same" if of["same_front_end"] else "other",
        "runs": tries["point"].nunique(),
        "tried": tried,
        "anomalies": anomalies,
        "errors": int(tries["errors"].sum()),
        "fraction": anomalies / tried if tried else None,
        "fraction_upper95": upper_bound(anomalies, tried),
        "never_right": int(wrong["lasted_ns"].isna().sum()),
        "lasted_median_s": lasted.median() if len(lasted) else None,
        "lasted_max_s": lasted.max() if len(lasted) else None,
        "watched_max_s": wrong["watched_ns"].max() / 1e9 if len(wrong) else None,
        "example": wrong["evidence"].iloc[0] if len(wrong) else None,
    }

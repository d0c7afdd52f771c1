"""`space.csv`: raw bytes that a store uses for the bytes stored, after uploads, deletion and reclaiming (level 2, analysis).

ratio = (used - used before the uploads) / bytes stored, as listed. The store itself tells what it uses, in all copies.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from storelab.analysis.records import loading
from storelab.analysis.statistics import medians

STATES = ("put", "delete", "reclaim")


def _row(observed: Mapping[str, Any]) -> dict[str, float]:
    stored, before = observed["stored_bytes"], observed["used_before_bytes"]
    out = {f"raw_per_byte_after_{s}": (observed[f"used_after_{s}_bytes"] - before) / stored if stored else None for s in STATES}
    return out | {
        "stored_mb": stored / 1e6,
        "objects": observed["objects"],
        "reclaim_s": observed["reclaim_s"],
        "delete_s": observed["delete_s"],
    }


def table(campaign: loading.Campaign, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of `space` points (columns `by`): medians over the runs with range or interval.

    raw_per_byte_after_{put,delete,reclaim}_{median,low,high}_ratio; medians of objects, stored_mb, delete_s (how long the
    deletion took), reclaim_s (how long reclaiming took). `points`: points.csv.
    """
    rows = [{"key": key, **_row(run["observed"])} for key, run in campaign.runs.items() if run.get("observed", {}).get("stored_bytes")]
    spread = [f"raw_per_byte_after_{s}_{part}_ratio" for s in STATES for part in ("median", "low", "high")]
    columns = [*by, "n", "interval", "coverage_percent", "objects", "stored_mb", *spread, "delete_s", "reclaim_s"]
    if not rows:
        return pd.DataFrame(columns=columns)
    both = points[(points["workload"] == "space") & (points["state"] == "ok")].merge(pd.DataFrame(rows), on="key")
    out = []
    for key, group in both.groupby(by, dropna=False, sort=True):
        row = dict(zip(by, key, strict=True))
        for state in STATES:
            s = medians.summarise(group[f"raw_per_byte_after_{state}"].astype(float))
            row |= {f"raw_per_byte_after_{state}_{part}_ratio": getattr(s, part) for part in ("median", "low", "high")}
            row |= {"n": s.n, "interval": s.kind, "coverage_percent": 100 * s.coverage}
        out.append(row | {name: group[name].median() for name in ("objects", "stored_mb", "delete_s", "reclaim_s")})
    return pd.DataFrame(out, columns=columns)

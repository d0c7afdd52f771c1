"""`space.csv`: raw bytes that a store uses for the bytes stored, after uploads, deletion and reclaiming.

ratio = (used - used before the uploads) / bytes stored, as listed. The store itself tells what it uses, in all copies.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from storelab.analysis.parts import groups
from storelab.analysis.records.campaign import Campaign

STATES = {
    "put": "after the uploads",
    "delete": "some seconds after their deletion",
    "reclaim": "after the store was told to reclaim",
}
METRICS = tuple((f"raw_per_byte_after_{state}", "ratio") for state in STATES)
OBSERVED = ("objects", "stored_mb", "delete_s", "reclaim_s")


def runs(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """One row per valid run: its columns of points.csv, and those of `_row`."""
    told = {key: run["observed"] for key, run in campaign.runs.items() if run.get("observed", {}).get("stored_bytes")}
    found = pd.DataFrame([_row(observed) for observed in told.values()], index=list(told))
    own = points[(points["workload"] == "space") & (points["state"] == "ok")]
    return own.merge(found, left_on="key", right_index=True)


def table(campaign: Campaign, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of `space` points (columns `by`): medians over the runs with range or interval.

    raw_per_byte_after_{put,delete,reclaim}_{median,low,high}_ratio; medians of objects, stored_mb, delete_s (how long
    the deletion took), reclaim_s (how long reclaiming took). `points`: points.csv.
    """
    both = runs(campaign, points)
    columns = [*by, *groups.COUNTS, *OBSERVED[:2], *groups.spread(METRICS), *OBSERVED[2:]]
    counted = "_".join(METRICS[-1])
    return groups.summarised(
        both, by, METRICS, columns, lambda group: group[list(OBSERVED)].median().to_dict(), counted
    )


def _row(observed: Mapping[str, Any]) -> dict[str, float]:
    stored, before = observed["stored_bytes"], observed["used_before_bytes"]
    used = {
        "_".join(m): (observed[f"used_after_{s}_bytes"] - before) / stored for m, s in zip(METRICS, STATES, strict=True)
    }
    return used | {"stored_mb": stored / 1e6, **{name: observed[name] for name in ("objects", "reclaim_s", "delete_s")}}

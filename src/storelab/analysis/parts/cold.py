"""Was an access as cold as it was asked to be: what records tell of disk reads (docs/cold.md). May import: nothing."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

DTYPES = {"access_proven": "string", "disk_reads_percent": "Float64", "first_over_again": "Float64"}
COLUMNS = tuple(DTYPES)
WARM = "warm"  # the axis `access` by default


def of_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """COLUMNS of one record: null where it does not tell (older ones, stores whose disk reads nobody sees)."""
    told = run.get("cold") or {}
    share = told.get("disk_share")
    return {
        "access_proven": told.get("proven"),
        "disk_reads_percent": None if share is None else 100 * share,
        "first_over_again": (told.get("step") or {}).get("ratio"),
    }


def of_group(runs: pd.DataFrame) -> dict[str, Any]:
    """COLUMNS of a group of runs: every proof that one of them has; medians."""
    proofs = dict.fromkeys(runs["access_proven"].dropna())
    medians = {name: runs[name].astype("Float64").dropna().astype(float).median() for name in COLUMNS[1:]}
    return {"access_proven": ", ".join(proofs) or None, **medians}

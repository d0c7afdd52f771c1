"""The findings of the evaluations of 2010-2015 as claims (`claims.yaml`), and those of a campaign's own.

Pure data; `core.campaign.claims` says what a claim is. Published numbers come from the tables of `printed/`, so that
none is typed twice.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from storelab.analysis.records import published
from storelab.analysis.records.rows import select
from storelab.core import yaml_text
from storelab.core.axes import ALL
from storelab.core.campaign.claims import Claim, resolved

FILE = Path(__file__).with_name("claims.yaml")


@cache
def findings() -> dict[str, dict[str, Any]]:
    """Name -> claim, as `core.campaign.claims.resolved` gives it, in the order of the file."""
    said = yaml_text.read(FILE)
    return resolved({name: Claim.model_validate(claim) for name, claim in said.items()}, ALL)


def of(plan: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The findings, and before them the campaign's own claims, which its plan carries (plans of older versions:
    none)."""
    own = plan.get("claims", {})
    return {**own, **{name: claim for name, claim in findings().items() if name not in own}}


def printed(said: Mapping[str, Any] | None) -> tuple[float, str]:
    """The published number of a claim and its unit; NaN where none was printed. Raises ValueError where its rows are
    not one row."""
    if not said:
        return float("nan"), ""
    if said["value"] is not None:
        return float(said["value"]), said["unit"]
    table = published.derived(said["table"])

    def one(rows: Mapping[str, Any]) -> pd.Series:
        found = select(table, rows)
        if len(found) != 1:
            raise ValueError(f"{said['table']}: {len(found)} rows are {dict(rows)}")
        return found.iloc[0]

    row = one(said["rows"])
    if not said["over"]:
        return float(row[said["column"]]), said["unit"] or str(row.get("unit", ""))
    return float(row[said["column"]]) / float(one({**said["rows"], **said["over"]})[said["column"]]), said["unit"]

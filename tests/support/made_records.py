"""Write campaigns with synthetic records: Parquet files with known rows."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storelab.analysis.records.campaign import Campaign
from storelab.core import integrity, plan, records
from storelab.core.model import Point
from storelab.stores import config
from storelab.workloads import WORKLOADS


def write(folder: Path, settings: dict[str, Any], record: Callable[[Point], None]) -> list[Point]:
    """Write a campaign and return its points. The function `record` writes the record of each point."""
    checked = config.Config.model_validate(copy.deepcopy(settings))
    points = plan.make(checked, WORKLOADS)
    for point in points:
        record(point)
    records.write_json(folder / "raw" / "plan.json", plan.to_json(checked, points, WORKLOADS))
    integrity.write_sums(folder / "raw")
    return points


def campaign(
    folder: Path, name: str, columns: dict[str, Any], rows: dict[str, list[dict[str, Any]]], runs: dict[str, Any]
) -> Campaign:
    """Write the rows of each point, and return a campaign with these runs.

    A run needs only the keys that a table uses.
    """
    whole = {}
    for key, run in runs.items():
        own, point = rows.get(key), {"fixed": {}} | run.get("point", {})
        if own is not None:
            path = folder / "raw" / key / f"{name}.0.parquet"
            records.write_table(path, columns, {column: [row.get(column) for row in own] for column in columns})
        files = {} if own is None else {f"{name}.0.parquet": {}}
        least = {"start_ns": 0, "deadline_ns": 0, "clients": [], "files": files}
        whole[key] = least | run | {"point": point | {"fixed": {"warm_up_ns": 0} | point["fixed"]}}
    return Campaign(folder, {"points": [], "workloads": {}}, whole, {})

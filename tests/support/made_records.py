"""Campaigns of made records: tables of Parquet files, whose rows are known."""

import copy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from storelab.core import config, evidence, plan, records
from storelab.core.model import Point
from storelab.workloads import WORKLOADS


def write(folder: Path, settings: dict[str, Any], record: Callable[[Point], None]) -> list[Point]:
    """Let `record` write the record of each point of a campaign; write plan and checksums, and return the points."""
    checked = config.Config.model_validate(copy.deepcopy(settings))
    points = plan.make(checked, WORKLOADS)
    for point in points:
        record(point)
    records.write_json(folder / "raw" / "plan.json", plan.to_json(checked, points, WORKLOADS))
    evidence.write_sums(folder / "raw")
    return points


def campaign(
    folder: Path, name: str, columns: dict[str, Any], rows: dict[str, list[dict[str, Any]]], runs: dict[str, Any]
) -> SimpleNamespace:
    """Write the rows of each point; return what tables use of a campaign: `files(name)` and `runs`."""
    files = {}
    for number, (key, own) in enumerate(rows.items()):
        path = folder / f"{name}.{number}.parquet"
        records.write_table(path, columns, {column: [row.get(column) for row in own] for column in columns})
        files[str(path)] = key
    return SimpleNamespace(files=lambda asked: files if asked == name else {}, runs=runs)

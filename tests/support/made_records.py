"""Campaigns of made records: one table of Parquet files, whose rows are known."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from storelab.core import records


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

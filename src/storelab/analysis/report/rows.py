"""The tables as data of the page: every cell as the CSV file has it, and the points behind each row. Bounded."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from storelab.analysis.parts import derived

MOST_CELLS = 1_500_000  # of one table; of a longer one the page has the first rows, and says so


def read(campaign_dir: Path, name: str) -> list[list[str]]:
    """The cells of a table as they are written, its head first. Raises UserError where it is not as it was written."""
    with derived.require_table(campaign_dir, name).open(newline="") as f:
        return list(csv.reader(f))


def table(texts: Sequence[Sequence[str]], behind: Sequence[str]) -> dict[str, Any]:
    """columns; cells, column by column, for like stands beside like; rows in the file; behind: see `behind`."""
    head, body = texts[0], texts[1:]
    most = max(1, MOST_CELLS // max(1, len(head)))
    shown = body[:most]
    return {
        "columns": list(head),
        "cells": [[row[i] for row in shown] for i in range(len(head))],
        "rows": len(body),
        "behind": list(behind[:most]) if any(behind) else [],
    }


def behind(table: pd.DataFrame, points: pd.DataFrame) -> list[str]:
    """Of each row the points that it tells of, as their places in points.csv: `0 3 6`; empty where the table is not
    of points or groups of points.

    A row with a key is of one point; else it is of all that agree with it in store, workload and every axis.
    """
    if table is points:
        return [str(place) for place in range(len(points))]
    if "key" in table:
        places = {key: str(place) for place, key in enumerate(points["key"])}
        return [places.get(key, "") for key in table["key"]]
    if "points" in table and "claim" in table:
        places = {key: str(place) for place, key in enumerate(points["key"])}
        return [" ".join(places[k] for k in _words(keys) if k in places) for keys in table["points"]]
    shared = _identity(table, points)
    if not shared:
        return [""] * len(table)
    known = {name: part.columns[part.notna().any()] for name, part in points[shared].groupby("workload")}
    said = {name: [c in columns for c in shared] for name, columns in known.items()}

    def axes(values: tuple[Any, ...]) -> tuple[str, ...]:
        """Those that points of this workload have: volume reads have no fraction of entries, their table says 100 %."""
        own = said.get(values[1], [])
        return values[1], *(_same(value) for value, has in zip(values, own, strict=False) if has)

    groups: dict[tuple[str, ...], list[str]] = {}
    for place, values in enumerate(points[shared].itertuples(index=False, name=None)):
        groups.setdefault(axes(values), []).append(str(place))
    return [" ".join(groups.get(axes(values), ())) for values in table[shared].itertuples(index=False, name=None)]


def _words(keys: Any) -> list[str]:
    return keys.split() if isinstance(keys, str) else []


def _identity(table: pd.DataFrame, points: pd.DataFrame) -> list[str]:
    """The columns of a table of groups that say which points are meant: those before `n`; none in other tables."""
    if "n" not in table or list(table.columns[:2]) != ["store", "workload"]:
        return []
    return [c for c in table.columns[: table.columns.get_loc("n")] if c in points.columns]


def _same(value: Any) -> str:
    """One spelling for one value: 2 and 2.0, and no value."""
    if value is None or value is pd.NA or value != value:
        return ""
    return repr(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)

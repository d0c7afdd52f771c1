"""Rows of a table, chosen by what its columns hold. Pure."""

import operator
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

SIGNS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
Where = Mapping[str, Any]


def select(table: pd.DataFrame, where: Where) -> pd.DataFrame:
    """The rows of a table that are `matching`."""
    return taken(table, matching(table, where))


def taken(table: pd.DataFrame, kept: np.ndarray) -> pd.DataFrame:
    """The rows of a table that are kept (shape (rows,), bool). Each column of a wide table takes its time for that, but
    not where none is kept."""
    return table[kept] if kept.any() else table.iloc[:0]


def matching(table: pd.DataFrame, where: Where) -> np.ndarray:
    """Which rows of a table (shape (rows,), bool) fulfil every condition, column: a value, several values,
    `>= 1000000`, or `least` or `most` of what the conditions before it left. A column that the table lacks leaves no
    row."""
    kept = np.ones(len(table), dtype=bool)
    for column, wanted in where.items():
        if column not in table or not kept.any():
            return np.zeros(len(table), dtype=bool)
        values = table[column]
        if wanted in ("least", "most"):
            left = values[kept]
            more = values == (left.min() if wanted == "least" else left.max())
        elif isinstance(wanted, str) and (found := re.fullmatch(r"(>=|<=|>|<) *(\S+)", wanted)):
            more = SIGNS[found[1]](values.astype("Float64"), float(found[2]))
        else:
            more = values.isin(list(wanted) if isinstance(wanted, list | tuple) else [wanted])
        kept &= more.fillna(False).to_numpy(bool)
    return kept

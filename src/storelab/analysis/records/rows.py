"""Rows of a table, chosen by what its columns hold. Pure."""

import operator
import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

SIGNS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
Where = Mapping[str, Any]


def select(table: pd.DataFrame, where: Where) -> pd.DataFrame:
    """The rows of a table that fulfil every condition, column: a value, several values, `>= 1000000`, or `least` or
    `most` of what the conditions before it left. A column that the table lacks leaves no row."""
    for column, wanted in where.items():
        if table.empty or column not in table:
            return table.iloc[:0]
        values = table[column]
        if wanted in ("least", "most"):
            kept = values == (values.min() if wanted == "least" else values.max())
        elif isinstance(wanted, str) and (found := re.fullmatch(r"(>=|<=|>|<) *(\S+)", wanted)):
            kept = SIGNS[found[1]](values.astype("Float64"), float(found[2])).fillna(False)
        else:
            kept = values.isin(list(wanted) if isinstance(wanted, list | tuple) else [wanted])
        table = table[kept.astype(bool)]
    return table

"""Axes of a sweep that go together: rows of values, written as rows or as columns. Pure.

May import: `core.errors`.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from storelab.core.errors import shown

FORMS = "write rows like [{front_ends: 1, clients: 3}, …], or columns like {front_ends: [1, 2], clients: [3, 6]}"


def _columns(value: Any) -> dict[str, list[Any]]:
    """Axis -> its value in each row."""
    if isinstance(value, list):
        value = _of_rows(value)
    if not isinstance(value, Mapping):
        raise ValueError(f"{shown(value)} gives no rows; {FORMS}")
    for axis, column in value.items():
        if not isinstance(axis, str) or not isinstance(column, list):
            raise ValueError(f"{shown(axis)}: {shown(column)} is no column; {FORMS}")
    lengths = {axis: len(column) for axis, column in value.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{axis} {n}" for axis, n in lengths.items())
        raise ValueError(f"rows differ in length ({told} values); give each axis as many values")
    if value and not next(iter(lengths.values())):
        raise ValueError(f"has no row; {FORMS}")
    if len(value) == 1:
        raise ValueError(f"{next(iter(value))!r} goes with no other axis; name another one, or write it in `axes`")
    return {axis: list(column) for axis, column in value.items()}


def _of_rows(rows: list[Any]) -> dict[str, list[Any]]:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise ValueError(f"row {number} is {shown(row)}; {FORMS}")
        if set(row) != set(rows[0]):
            told = ", ".join(map(str, row)) or "nothing"
            wanted = ", ".join(map(str, rows[0]))
            raise ValueError(f"row {number} gives {told}, row 1 {wanted}; name the same axes in each row")
    if not rows or not rows[0]:
        raise ValueError(f"has no row; {FORMS}")
    return {axis: [row[axis] for row in rows] for axis in rows[0]}


Together = Annotated[dict[str, list[Any]], BeforeValidator(_columns)]

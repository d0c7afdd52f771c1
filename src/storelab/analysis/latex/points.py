"""LaTeX of points.csv: the points that are in no median, with the reason."""

import pandas as pd

from storelab.analysis.latex import FILE
from storelab.analysis.latex.parts import breakable, escape, left, longtable, row


def _with_reasons(points: pd.DataFrame, state: str, caption: str) -> str:
    rows = points[points["state"] == state]
    lines = [row([breakable(escape(r.key)), escape(r.reason)]) for r in rows.itertuples(index=False)]
    return longtable(left(7.5, 8.2), caption, f"tab:{state}", ["Point", "Reason"], lines) if lines else ""


@FILE("table_failed", "points")
def failed(points: pd.DataFrame) -> str:
    """Every failed point with its reason."""
    return _with_reasons(points, "failed", "Points that failed, with the reason as recorded. They are in no median.")


@FILE("table_tried", "points")
def tried(points: pd.DataFrame) -> str:
    """Every point that was tried more than once, with what became of its other tries."""
    rows = points[points["tries"] > 1]
    lines = [row([breakable(escape(r.key)), escape(r.other_tries)]) for r in rows.itertuples(index=False)]
    caption = "Points that were tried more than once, and what became of the tries that do not count."
    return longtable(left(7.5, 8.2), caption, "tab:tried", ["Point", "Other tries"], lines) if lines else ""


@FILE("table_invalid", "points")
def invalid(points: pd.DataFrame) -> str:
    """Every invalid run with its reason."""
    caption = (
        "Runs that are invalid: measured, but with more failed operations than the campaign's budget, or with more of "
        "the workers' time lost to operations that hung. They are in no median."
    )
    return _with_reasons(points, "invalid", caption)

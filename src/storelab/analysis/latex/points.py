"""LaTeX of points.csv and errors.csv: the points that are in no median, with the reason; failed operations by class."""

import pandas as pd

from storelab.analysis.latex import FILE
from storelab.analysis.latex.parts import THIN, breakable, escape, left, longtable, row
from storelab.analysis.parts import words
from storelab.analysis.tables.errors import labels


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


@FILE("table_errors", "errors")
def errors(table: pd.DataFrame) -> str:
    """Failed operations by store, workload, op and class, over all runs."""
    found = table.assign(c=labels(table))
    lines = []
    for (store, workload, op, name), g in found.groupby(["store", "workload", "op", "c"], sort=True):
        cells = [store, workload, op, name, f"{g['key'].nunique()}", f"{g[g['state'] == 'invalid']['key'].nunique()}"]
        shares = [words.number(g["operations"].sum(), gap=THIN), words.number(100 * g["fraction"].max(), significant=2)]
        times = [words.number(g["first_s"].min(), places=1), words.number(g["last_s"].max(), places=1)]
        lines.append(row([*map(escape, cells), *shares, *times]))
    caption = (
        "Failed operations by class: the HTTP status, where there was one, with the error code of the answer or the "
        "engine's error; runs in which it was seen, those of them that are invalid, operations of all runs, the "
        "largest fraction of the operations of one run, and the earliest and the latest time in a run, counted from "
        "the agreed start. Of the class Hung are operations that were given up some time after the deadline; "
        "the times are those of giving up."
    )
    return longtable(
        f"lll{left(4.2)}rrrrrr",
        caption,
        "tab:errors",
        ["Store", "Workload", "", "Class", "Runs", "Invalid", "Failed", r"Most [\%]", "First [s]", "Last [s]"],
        lines,
    )

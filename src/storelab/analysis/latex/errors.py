"""LaTeX of errors.csv: failed operations by class."""

import pandas as pd

from storelab.analysis.latex import FILE
from storelab.analysis.latex.parts import THIN, escape, left, longtable, row
from storelab.analysis.parts import words
from storelab.analysis.tables.errors import labels


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

"""The figure of errors over time: a panel for each of the worst runs, good and failed operations stacked.

Table in, `Figure` out, or None without errors. What an error and its class are: `error_rates`.
"""

import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from storelab.analysis.figures.specification import Function
from storelab.analysis.parts import words
from storelab.analysis.tables import errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_RUNS, MOST_CLASSES = 6, 5
TITLE = 52  # characters of a line above a panel
REST = "other errors"


def errors_over_time(table: pd.DataFrame) -> "Figure | None":
    """Operations per second by class over the seconds of the worst runs; crosses where few operations failed."""
    from matplotlib.patches import Patch

    from storelab.analysis.figures import plots

    if "run_fraction" not in table or table.empty:
        return None
    worst = _worst(table)
    rows = table[table["key"].isin(worst.head(MOST_RUNS))]
    totals = rows[rows["class"] != errors.GOOD].groupby("class")["operations"].sum()
    classes = list(totals.sort_values(ascending=False, kind="stable").index[:MOST_CLASSES])
    if len(totals) > MOST_CLASSES:
        rows = rows.assign(**{"class": rows["class"].where(rows["class"].isin([errors.GOOD, *classes]), REST)})
        classes.append(REST)
    tones = plots.tones()
    colours = {errors.GOOD: "0.8"} | dict(zip(classes, [tones[i] for i in (3, 0, 1, 2, 4, 7)], strict=False))
    with plots.style():
        fig, cells = plots.grid(rows["key"].nunique(), 1.9, _note(table, len(worst)))
        for ax, (_, run) in zip(cells, rows.groupby("key", sort=False), strict=True):
            _stack(ax, run, colours)
            ax.yaxis.set_major_formatter(lambda v, _: words.grouped(f"{v:g}", plots.THIN))
        plots.key(fig, [Patch(color=c, label=n) for n, c in colours.items()], "Operations that ended, by outcome")
    return fig


def _worst(table: pd.DataFrame) -> pd.Series:
    """Keys of the worst run of each group of points; the table has the worst run first."""
    return (
        table[["key"]]
        .assign(group=table["key"].map(lambda key: key.rpartition("rep~")[0]))
        .drop_duplicates("group")["key"]
    )


def _note(table: pd.DataFrame, groups: int) -> str:
    which = (
        f"The {MOST_RUNS} worst of {groups} groups of points with errors, of each its worst run"
        if groups > MOST_RUNS
        else "The worst run of each group of points with errors"
    )
    budget = (
        f"above the failure budget of {100 * table['failure_budget'].iloc[0]:g} % of its operations a run is invalid"
    )
    return f"{which}; {budget}. Counts per second; crosses: failures too few to be seen"


def _stack(ax: "Axes", run: pd.DataFrame, colours: dict[str, object]) -> None:
    """One run: stacked steps of one second."""
    seconds = np.arange(int(run["second"].max()) + 1)
    counts = run.groupby(["class", "second"])["operations"].sum()
    below = np.zeros(len(seconds))
    for name, colour in colours.items():
        if name not in counts.index.get_level_values(0):
            continue
        y = counts[name].reindex(seconds, fill_value=0).to_numpy(float)
        ax.stairs(below + y, np.append(seconds, seconds[-1] + 1), baseline=below, fill=True, color=colour, linewidth=0)
        below = below + y
    top = 1.12 * max(below.max(), 1)
    failed = run[run["class"] != errors.GOOD].groupby("second")["operations"].sum()
    small = failed[failed < 0.01 * top].index
    ax.plot(small + 0.5, below[small] + 0.05 * top, "x", color="black", markersize=3, markeredgewidth=0.7)
    first = run.iloc[0]
    state = "INVALID, " if first["state"] == "invalid" else ""
    said = ", ".join(words.key_text(first["key"]))
    ax.set_title(
        f"{textwrap.fill(said, TITLE)}\n{state}{100 * first['run_fraction']:.2g} % failed",
        fontsize=7,
    )
    ax.set(xlim=(0, seconds[-1] + 1), ylim=(0, top), xlabel="Seconds from the agreed start", ylabel="Operations/s")


FIGURES = {
    "errors_over_time": Function(
        table="errors_over_time",
        function=errors_over_time,
        count=lambda table: len(_worst(table)),
        most=MOST_RUNS,
        things="groups of points with errors",
        caption="Operations that ended in each second, by outcome, of the runs with the largest fractions of failed "
        "operations. Single "
        "runs. {shared}",
    ),
}

"""Figure of events by system, bars by number of jobs, in the manner of HEPiX 2010, whose bars stand beside."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from storelab.analysis.figures.reading.events import PAPER, points
from storelab.analysis.figures.specification import MIN_VALUES, Function
from storelab.analysis.tables.earlier import MEASURED, NAVIGATION, PUBLISHED, best_settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR = 0.062  # inches of one bar
FEWEST = 4  # systems that a panel has room for
HATCHED = {"hatch": "//////", "edgecolor": "white", "linewidth": 0}
FEW = "; hatched: rates of fewer than 10 operations"
USE_CASE = {ours: theirs for theirs, ours in NAVIGATION.items()}


def events_bars(table: pd.DataFrame) -> "Figure | None":
    """A line of panels for each navigation: ours in events/s, each system at its best setting of the client; on the
    right what was printed, hollow, in millions of events of their period."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    from storelab.analysis.figures import plots
    from storelab.analysis.parts import words

    ours = best_settings(table) if len(table) else table
    if ours.empty:
        return None
    theirs = table[table["source"] == PUBLISHED]
    found = [n for n in NAVIGATION.values() if n in set(ours["navigation"])]
    jobs = sorted({int(j) for j in pd.concat([ours["jobs"], theirs["jobs"]])})
    colours = dict(zip(jobs, plots.tones(len(jobs), "viridis"), strict=True))
    heights = [max(_bars(side[side["navigation"] == n]) for side in (ours, theirs)) for n in found]
    with plots.style():
        inches = [max(1.4, BAR * h + 0.5) for h in heights]
        fig = Figure(figsize=(plots.WIDTH, sum(inches) + 0.9), layout="constrained")
        note = f"Medians, {words.bars_text(ours)}; hollow on grey: published 2010, in other units"
        note += FEW if ours["few"].any() else ""
        fig.supxlabel(note, fontsize=7, color="0.35")
        cells = fig.subplots(len(found), 2, squeeze=False, height_ratios=inches)
        for (left, right), n in zip(cells, found, strict=True):
            _panel(left, ours[ours["navigation"] == n], colours, hollow=False)
            left.set(title=f"{n}: measured here", xlabel="Events/s")
            _panel(right, theirs[theirs["navigation"] == n], colours, hollow=True)
            right.set(
                title=f"published 2010: HEPiX, {USE_CASE[n]}",
                xlabel="Events in their period [millions]",
                facecolor=PAPER,
            )
        handles = [Patch(color=c, label=f"{j} jobs" if j > 1 else "1 job") for j, c in colours.items()]
        plots.key(fig, handles, "Events by system and number of jobs")
    return fig


def _named(rows: pd.DataFrame) -> pd.Series:
    return rows["system"].where(rows["setting"].isna(), rows["system"] + "\n" + rows["setting"].fillna(""))


def _bars(rows: pd.DataFrame) -> int:
    """Room that the bars of a panel take, in bars."""
    return int(rows["system"].nunique() * (max(rows["jobs"].nunique(), 2) + 1))


def _panel(ax: "Axes", rows: pd.DataFrame, colours: dict[int, Any], hollow: bool) -> None:
    """Bars of each system, the one with the most events on top; a cell that is not known has none, and says so."""
    from storelab.analysis.figures import plots

    value = rows["events"].astype(float) / 1e6 if hollow else rows["events_per_s"].astype(float)
    rows = rows.assign(value=value, name=_named(rows))
    names = list(rows.groupby("name")["value"].max().sort_values().index)
    jobs = sorted({int(j) for j in rows["jobs"]})
    step = 0.8 / max(len(jobs), 1)
    for r in rows.to_dict("records"):
        y = names.index(r["name"]) + 0.4 - step * (jobs.index(int(r["jobs"])) + 0.5)
        colour = colours[int(r["jobs"])]
        if pd.isna(r["value"]):
            ax.text(0, y, " not printed", fontsize=4, va="center", color="0.4")
            continue
        look = {"facecolor": "white", "edgecolor": colour, "linewidth": 0.8} if hollow else {"color": colour}
        look |= HATCHED if r["few"] is True else {}
        ax.barh(y, r["value"], 0.85 * step, **look)
        if r["source"] == MEASURED:
            reach = [[r["value"] - r["events_low_per_s"]], [r["events_high_per_s"] - r["value"]]]
            ax.errorbar(r["value"], y, xerr=reach, color="0.2", elinewidth=0.7, capsize=1.2, fmt="none")
    ax.set_yticks(range(len(names)), names, fontsize=6)
    ax.set_ylim(min(len(names) - FEWEST, 0) - 0.55, len(names) - 0.45)
    ax.set_xlim(left=0)
    ax.grid(visible=False, axis="y")
    plots.plain_numbers(ax.xaxis)


FIGURES = {
    "events_bars": Function(
        table="storage_lab",
        where={"workload": "events"},
        function=events_bars,
        count=lambda table: points(table[table["source"] == MEASURED]) if len(table) else 0,
        least=MIN_VALUES,
        things="points",
        caption="Events that the jobs processed, by system and number of jobs (bars, the fewest jobs on top); each "
        "system with the setting of the client that processed the most at the most jobs. {bars}. {shared} Hollow, on "
        "grey ground and in other units: published in 2010 for other systems, files and machines, counted over an "
        "undisclosed period.",
    ),
}

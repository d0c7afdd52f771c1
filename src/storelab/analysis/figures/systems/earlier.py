"""Figure of then and now: the statements of 2012-2015 beside ours, by a measure that both have. Hollow: published."""

import re
import textwrap
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd

from storelab.analysis.figures.panels import PAGE
from storelab.analysis.figures.specification import Function
from storelab.analysis.tables.earlier import MEASURED, MEASURES, printed_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAID = re.compile(
    r"(per front-end|(up|down)load( throughput| 4 kB| 100 MB)|network limit, reached)(, )?"
)  # the panel's
SAID_ONCE = re.compile(SAID.pattern.replace("per front-end|", ""))  # of a panel of several measures
LINE, HEAD, WIDE = 0.115, 0.66, 38  # inches of a line and of a panel's words; letters of a name
OTHERS = "0.35"


def name_of(r: pd.Series) -> str:
    """`published 2013: UDS 1, 5 clients`; ours is the deployment."""
    if r["source"] == MEASURED:
        return str(r["system"])
    year = re.search(r"\d{4}", str(r["source"]))
    system = printed_name(str(r["system"]))
    said = SAID if r["measure"] in MEASURES.values() else SAID_ONCE
    setting = said.sub("", str(r["setting"])).strip(", ")
    return f"published {year[0] if year else ''}: " + ", ".join(filter(None, [system, setting]))


def earlier(table: pd.DataFrame) -> "Figure | None":
    """A panel for each kind of work and measure, a line for each statement and each of our systems; nothing is
    joined."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from storelab.analysis.figures import plots

    if table.empty:
        return None
    parts = [(said, rows) for said, rows in table.groupby(["what", "measure", "unit"], sort=False)]
    pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
    heights = [LINE * max(_places(_names(rows))[-1] for _, rows in pair) + HEAD for pair in pairs]
    ours = list(dict.fromkeys(table.loc[table["source"] == MEASURED, "system"]))
    looks = plots.looks(ours)
    with plots.style():
        fig = Figure(figsize=(plots.WIDTH, min(sum(heights) + 0.6, PAGE)), layout="constrained")
        cells = fig.subplots(len(pairs), 2, squeeze=False, height_ratios=heights)
        for ax in cells.ravel()[len(parts) :]:
            ax.remove()
        for ax, ((what, measure, unit), rows) in zip(cells.ravel(), parts, strict=False):
            _panel(ax, rows, looks)
            ax.set_title(textwrap.fill(f"{what}, {measure}", 32), fontsize=7)
            ax.set_xlabel(f"{'MB/s' if 'Gbit' in measure else unit} {measure}", fontsize=6.5)
        handles: list[Any] = [
            Line2D([], [], color=c, marker=m, linestyle="none", label=f"here: {name}") for name, (c, m) in looks.items()
        ]
        look = {"color": OTHERS, "markerfacecolor": "white", "linestyle": "none", "marker": "o"}
        plots.key(
            fig, [*handles, Line2D([], [], label="published, other systems and networks", **look)], "Then and now"
        )
    return fig


def _names(rows: pd.DataFrame) -> list[str]:
    return [textwrap.fill(name_of(r), WIDE, break_on_hyphens=False) for _, r in rows.iterrows()]


def _places(names: list[str]) -> list[float]:
    """Middles of lines that are as high as their names, from above, and the end of the last."""
    ends = list(accumulate((0.5 + (1 + name.count("\n")) for name in names), initial=0.0))
    return [*((a + b) / 2 for a, b in pairwise(ends)), ends[-1]]


def _panel(ax: "Axes", rows: pd.DataFrame, looks: Any) -> None:
    from storelab.analysis.figures import plots

    names = _names(rows)
    places = _places(names)
    heights = [places[-1] - at for at in places]
    for y, (_, r) in zip(heights, rows.iterrows(), strict=False):
        if r["source"] == MEASURED:
            colour, marker = looks[r["system"]]
            reach = [[r["median"] - r["low"]], [r["high"] - r["median"]]]
            ax.errorbar(r["median"], y, xerr=reach, color=colour, marker=marker, capsize=2, elinewidth=1, markersize=4)
        else:
            ax.plot(r["median"], y, marker="o", color=OTHERS, mfc="white", ls="none", markersize=4)
    values = rows[["median", "low", "high"]].astype(float).stack()
    known = values[values > 0]
    span = known.max() / known.min() if len(known) else 1
    if span > 20:
        ax.set_xscale("log")
    else:
        ax.set_xlim(0, 1.08 * known.max() if len(known) else 1)
    plots.plain_numbers(ax.xaxis, 0 if span <= 20 else span if span < 60 else max(span, 300), 5)
    ax.set_yticks(heights[:-1], names, fontsize=5)
    ax.set_ylim(0, places[-1])
    ax.tick_params(axis="x", labelsize=6.5)


FIGURES = {
    "earlier": Function(
        table="earlier",
        where={"workload": ("put", "get")},
        function=earlier,
        caption="Then and now: hollow and grey what was published in the years that the labels name, divided by the "
        "clients that its setting names, per front-end or of the whole system as printed, or by the Gbit/s of the "
        "links that carried it (1 Gb/s is 125 MB/s); coloured the highest medians measured here by the same measure. "
        "Networks, clients and object sizes differ: no ratio is formed, and nothing is joined.",
    ),
}

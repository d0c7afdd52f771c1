"""Figure of distributions of operation times, and of bytes, CPU and memory of the clients, after the slides of 2013
that watched the clients."""

import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from storelab.analysis.figures.panels import PAGE, varying, with_series
from storelab.analysis.figures.specification import Function
from storelab.analysis.parts import groups, words
from storelab.analysis.tables.resources import BUSY, COARSE, PLACE, shown, unpacked
from storelab.core import units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = {  # quantities of a column of panels, each with its dash -> label
    ("operation_time",): "Time of an operation [ms]",
    ("traffic",): "Loopback of the host [MB/s]",
    ("received", "sent"): "Network of a host [MB/s]",
    ("cpu",): "CPU of a client [cores]",
    ("memory",): "Memory of a client [MB]",
}
DASHES = ("-", ":")
HEIGHT = 1.45  # inches of a line of panels
MOST = int(PAGE / HEIGHT) - 1  # the caption needs room
LETTERS = 120  # of the legend in a line
FLAT = 1.1  # largest over least value of a quantity that gets no panels
SERIES = 6  # curves of a panel that can be told apart


def _places(table: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows of each line of panels: of an operation and a size."""
    by = [c for c in ("workload", "object_size_bytes") if c in table]
    return [own for _, own in shown(table).groupby(by, dropna=False, sort=True)] if len(table) else []


def distributions(table: pd.DataFrame) -> "Figure | None":
    """A line of panels for each operation and size, at the most clients; a column for each quantity; a curve for
    each deployment and engine, and whatever else varies."""
    from matplotlib.figure import Figure

    from storelab.analysis.figures import plots

    if not (places := _places(table)[:MOST]):
        return None
    rows = groups.labelled(pd.concat(places))
    told = varying(rows, ("engine",), {*PLACE, *BUSY, "quantity"})
    several = ["deployment"] if rows["deployment"].nunique() > 1 else []
    rows = with_series(rows, [*several, *told], usual=True)
    lines = [_few(rows.loc[rows.index.isin(place.index)]) for place in places]
    looks = plots.looks(list(dict.fromkeys(name for own, _ in lines for name in own["series"])))
    columns = {q: label for q, label in COLUMNS.items() if _varies(rows[rows["quantity"].isin(q)])}
    if not columns:
        return None
    with plots.style():
        note = "Samples of all runs in the window in which all clients are active; percent of samples up to a value"
        fig = Figure(figsize=(plots.WIDTH, HEIGHT * len(places) + 0.9), layout="constrained")
        fig.supxlabel(note, fontsize=7, color="0.35")
        cells = fig.subplots(len(places), len(columns), squeeze=False, sharex="col")
        for line, (own, left) in zip(cells, lines, strict=True):
            for ax, quantities in zip(line, columns, strict=True):
                least = _least(rows[rows["quantity"].isin(quantities)])
                _panel(ax, own, quantities, {n: c for n, (c, _) in looks.items()}, least)
            said = {"transform": line[0].transAxes, "fontsize": 7, "va": "bottom"}
            line[0].text(0, 1.05, _heading(own) + left, **said).set_in_layout(False)  # wider than its panel
            line[0].set_title(" ", fontsize=7)  # the room for it
            line[0].set_ylabel("%")
        for column, label in zip(cells.T, columns.values(), strict=True):
            column[-1].set_xlabel(textwrap.fill(label, 20 if len(columns) < 5 else 15), fontsize=7)
            plots.plain_numbers(column[-1].xaxis, np.divide(*column[-1].get_xlim()[::-1]), 5)
        _key(fig, {name: colour for name, (colour, _) in looks.items()})
    return fig


def _key(fig: "Figure", colours: dict[str, object]) -> None:
    """The names of the curves in small letters: there may be many."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=c, label=name) for name, c in colours.items()]
    columns = max(1, min(4, len(handles), LETTERS // (max(map(len, colours)) + 8)))
    fig.set_figheight(min(fig.get_figheight() + 0.13 * (-(-len(handles) // columns) - 1), PAGE))
    title = {"title": "How times and use are spread", "title_fontsize": 9.5}
    fig.legend(handles=handles, loc="outside upper center", frameon=False, ncols=columns, fontsize=6.5, **title)


def _few(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the rows of up to SERIES settings: of more, that with the shortest mean time of each deployment, and in
    words how many."""
    names = list(dict.fromkeys(rows["series"]))
    if len(names) <= SERIES:
        return rows, ""
    times = rows[rows["quantity"] == "operation_time"]
    times = times if len(times) else rows
    fastest = times.loc[times.groupby("deployment", sort=False)["mean"].idxmin(), "series"].unique()[:SERIES]
    which = f"{len(fastest)} of {len(names)} settings, the fastest of each system"
    return rows[rows["series"].isin(fastest)], f", {which} (all are in distributions.csv)"


def _heading(rows: pd.DataFrame) -> str:
    """`seaweedfs: download of 4 kB, 21 clients`; of several deployments without a name."""
    first = rows.iloc[0]
    size = first.get("object_size_bytes")
    what = words.value_text("workload", first["workload"])
    what += "" if size is None or pd.isna(size) else f" of {units.format_size(int(size))}"
    one = f"{first['deployment']}: " if rows["deployment"].nunique() == 1 else ""
    return f"{one}{what}, {_clients(rows)}"


def _clients(rows: pd.DataFrame) -> str:
    """`4 clients`, or `2 to 4 clients`."""
    least, most = int(rows["clients"].min()), int(rows["clients"].max())
    return words.plural(most, "client") if least == most else f"{least} to {most} clients"


def _varies(rows: pd.DataFrame) -> bool:
    """Return whether a quantity was recorded, and of a resource whether it differs by more than FLAT."""
    if rows.empty or (rows["quantity"] == "operation_time").any():
        return len(rows) > 0
    return not 0 < rows["most"].max() < FLAT * rows["least"].min()


def _least(rows: pd.DataFrame) -> float:
    """Return where the curves of a column of panels begin: at the least value, below all others where it is zero."""
    if not rows["zeros"].any():
        return float(rows["least"].min())
    buckets = [histogram.index.min() for h in rows["histogram"] if len(histogram := unpacked(h))]
    return 10.0 ** ((min(buckets, default=0) - 1) / COARSE)


def _panel(
    ax: "Axes", rows: pd.DataFrame, quantities: tuple[str, ...], colours: dict[str, object], least: float
) -> None:
    """Draw cumulative distributions on a logarithmic axis, on which zeros are at `least`."""
    import seaborn as sns

    ax.set_xscale("log")
    for quantity, dash in zip(quantities, DASHES, strict=False):
        parts = []
        for _, r in rows[rows["quantity"] == quantity].iterrows():
            counts = unpacked(r["histogram"])
            inside = np.clip(10.0 ** (counts.index.to_numpy(float) / COARSE), r["least"], r["most"])
            places = [least, *inside]
            parts.append(pd.DataFrame({"x": places, "of": [r["zeros"], *counts], "series": r["series"]}))
        if parts:
            look = {"palette": colours, "stat": "percent", "linestyle": dash, "linewidth": 1, "legend": False}
            sns.ecdfplot(pd.concat(parts), x="x", weights="of", hue="series", ax=ax, **look)
    ax.set(xlabel="", ylabel="", ylim=(0, 104))
    ax.tick_params(labelsize=6.5)
    if not ax.lines:
        ax.text(0.5, 0.5, "not recorded", transform=ax.transAxes, ha="center", fontsize=7, color="0.35")


FIGURES = {
    "distributions": Function(
        table="distributions",
        function=distributions,
        count=lambda table: len(_places(table)),
        most=MOST,
        things="operations and sizes",
        caption="Cumulative distributions at the most clients that were measured, by system and engine: times of "
        "operations that succeeded; bytes that the busiest interface of a client's host received (solid) and sent "
        "(dotted) a second (where that is the loopback, both ends of each connection are on it); CPU and resident "
        "memory of a client with its child processes. Bytes, CPU and memory are the monitor's samples, up "
        "to five a second. Where a curve begins above 0 %, that share of the samples was zero. A resource "
        f"that varies by less than {100 * (FLAT - 1):.0f} % is not shown.",
    ),
}

"""Figures of how ranges become requests: what a fixed gap costs, and the front between time and bytes.

Rows of `sparse.csv` at the least number of clients: `replay` with the axis `merge`, and readers that merge over a
fixed gap beside those that plan. A selection is what is read: file, part of the entries, part of the volume.
"""

from collections.abc import Iterable, Iterator

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from storelab.analysis.figures.plots import grid, legend, looks, room, side_by_side, style, subtitle, title, value_axis
from storelab.analysis.figures.specification import Curve, Function, Measure, Reference, Specification
from storelab.analysis.parts import words
from storelab.core import units
from storelab.core.engines import merges

WORKLOADS = ("replay", "read_volume", "read_entries")
SELECTION = ("entry_fraction_percent", "volume_fraction_percent", "scale", "codec")
METRICS = tuple(
    Measure((Curve(name, unit),), label, where={"fixed": True}, log_from=20)
    for name, unit, label in (
        ("amplification", "ratio", "Amplification (wire / needed)"),
        ("requests", "per_read", "Requests of one read"),
        ("transfer", "s_per_read", "Transfer of one read [s]"),
    )
)
GAP, THRIFT, BOUND = "max_range_gap_bytes", "thrift", "max_amplification"
HEIGHT = 2.6  # inches of a panel of the front


def _fixed(rows: pd.DataFrame) -> pd.Series:
    """Which rows merge over a fixed gap; the others plan."""
    merge = rows["merge"] == "gap" if "merge" in rows else pd.Series(False, index=rows.index)
    return merge.where(rows["workload"] == "replay", rows["engine"].map(merges) == "gap").fillna(False).astype(bool)


def chosen(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first of WORKLOADS in which a selection was read with several fixed gaps, with `fixed` and
    `selection` (in words); nothing where there is none. Copies, front-ends and the like: the first value of each."""
    if GAP not in table or table.empty:
        return table.iloc[:0]
    for workload in WORKLOADS:
        rows = table[(table["workload"] == workload) & table["transfer_median_s_per_read"].notna()]
        if rows.empty:
            continue
        rows = rows[rows["clients"] == rows["clients"].min()]
        rows = rows.assign(fixed=_fixed(rows))
        free = {"store", "workload", "engine", "clients", "merge", GAP, THRIFT, BOUND, *SELECTION}
        for axis in words.axes_of(rows):
            if axis not in free and rows[axis].nunique() > 1:
                rows = rows[rows[axis] == sorted(rows[axis].dropna())[0]]
        if workload == "replay" and rows["engine"].nunique() > 1:  # one transport for both
            rows = rows[rows["engine"] == sorted(rows["engine"])[-1]]
        said = [c for c in SELECTION if c in rows and rows[c].nunique() > 1] or ["volume_fraction_percent"]
        rows = rows.assign(
            selection=[
                ", ".join(words.value_text(c, v) for c, v in zip(said, r, strict=True)) for r in rows[said].to_numpy()
            ]
        )
        many = rows[rows["fixed"]].groupby(["store", "selection"])[GAP].nunique()
        kept = set(many[many > 1].index)
        rows = rows[[place in kept for place in zip(rows["store"], rows["selection"], strict=True)]]
        if len(rows):
            return rows.sort_values(["store", "volume_fraction_percent"], kind="stable")
    return table.iloc[:0]


def _by_selection(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(series=rows["selection"])


def _planned(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
    """Of each selection what the read planner chose for least time."""
    for selection, own in rows.groupby("selection", sort=False):
        free = own[~own["fixed"] & (own[THRIFT].fillna(0) == 0) & (own[BOUND].fillna(0) == 0)]
        for value in free[measure.curves[0].column()].head(1):
            yield Reference(value, series=str(selection))


def front(table: pd.DataFrame) -> Figure | None:
    """Transfer time against bytes on the wire, one panel per store and selection: fixed gaps, and plans by thrift
    and bound."""
    rows = chosen(table)
    rows = rows[rows["wire_median_mb_per_read"].notna()] if len(rows) else rows
    if rows.empty or rows["fixed"].all():
        return None
    panels = list(rows.groupby(["store", "selection"], sort=False))[: room()]
    kinds = looks(["fixed gap", "planned"])
    with style():
        fig, cells = grid(len(panels), HEIGHT, subtitle(rows))
        for ax, ((store, selection), part) in zip(cells, panels, strict=True):
            for fixed, (colour, marker) in zip((True, False), kinds.values(), strict=True):
                _points(ax, part[part["fixed"] == fixed], fixed, colour, marker)
            needed = part["needed_median_mb_per_read"].median()
            ax.axvline(needed, color="0.5", linestyle=":", linewidth=1, zorder=0)
            ax.annotate(" needed", (needed, 0.01), xycoords=("data", "axes fraction"), fontsize=6.5, color="0.35")
            value_axis(ax, part["transfer_median_s_per_read"], "Transfer of one read [s]", factor=3)
            wide = part["wire_median_mb_per_read"].max() / needed
            if wide > 3:
                ax.set_xscale("log")
                ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if wide < 300 else (1,)))
                ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
                ax.xaxis.set_minor_formatter(NullFormatter())
            ax.margins(0.25, 0.12)
            ax.set_xlabel("On the wire, one read [MB]")
            title(ax, f"{store}, {selection}", side_by_side(len(panels)))
        legend(fig, kinds, "Time against bytes: what lies lower left is better")
    return fig


def _points(ax: Axes, rows: pd.DataFrame, fixed: bool, colour: tuple[float, ...], marker: str) -> None:
    rows = rows.sort_values("wire_median_mb_per_read")
    x, y = rows["wire_median_mb_per_read"], rows["transfer_median_s_per_read"]
    bars = [y - rows["transfer_low_s_per_read"], rows["transfer_high_s_per_read"] - y]
    ax.errorbar(x, y, bars, color=colour, marker=marker, linestyle="-" if fixed else "--", capsize=2.5, linewidth=0.8)
    for (a, b), names in _together(zip(x, y, (_name(row, fixed) for _, row in rows.iterrows()), strict=True)).items():
        ax.annotate(
            ", ".join(names), (a, b), (4, 4 if fixed else -9), textcoords="offset points", fontsize=6, color=colour
        )
    sns.despine(ax=ax)


def _together(points: Iterable[tuple[float, float, str]]) -> dict[tuple[float, float], list[str]]:
    """Names by place; what lies within a tenth of another place stands with it, or its name would hide the other."""
    out: dict[tuple[float, float], list[str]] = {}
    for x, y, name in points:
        near = next((p for p in out if abs(x / p[0] - 1) < 0.1 and abs(y / p[1] - 1) < 0.1), (x, y))
        out.setdefault(near, []).append(name)
    return out


def _name(row: pd.Series, fixed: bool) -> str:
    """`32.8 kB`; `thrift 4`; `at most 3`; `least time`."""
    if fixed:
        return units.format_size(int(row[GAP]))
    if row[BOUND]:
        return f"at most {row[BOUND]:g}×"
    return f"thrift {row[THRIFT]:g}" if row[THRIFT] else "least time"


def _front_left(table: pd.DataFrame) -> str:
    rows = chosen(table)
    every = len(rows[["store", "selection"]].drop_duplicates()) if len(rows) else 0
    return f"{room()} of {every} panels, all are in sparse.csv" if every > room() else ""


FIGURES = {
    "gaps": Specification(
        table="sparse",
        where={"workload": WORKLOADS},
        rows=chosen,
        several=(GAP,),
        prepare=_by_selection,
        measures=METRICS,
        x=GAP,
        x_label="Largest gap merged",
        panels=("store",),
        columns=True,
        references=_planned,
        height=2.2,
        title="Ranges merged over a fixed gap (symbols), and planned (dashed)",
        caption="What a reader's fixed gap costs: amplification, requests and transfer time of one read against the "
        "largest gap that is "
        "merged over ({engine}), at the least number of clients; dashed: what the read planner chose for least time. "
        "Medians; {bars}. "
        "{shared}",
    ),
    "front": Function(
        table="sparse",
        where={"workload": WORKLOADS},
        rows=chosen,
        several=(GAP,),
        function=front,
        left=_front_left,
        caption="Time against bytes: the transfer of one read and what came over the network for it, with fixed gaps "
        "and with requests "
        "planned for least time, with thrift, and with a bound on the amplification ({engine}), at the least number "
        "of clients. The line "
        "is the bytes needed. Medians; {bars}. {shared}",
    ),
}

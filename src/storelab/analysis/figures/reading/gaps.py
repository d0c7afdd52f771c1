"""Figures of how ranges become requests: what a fixed gap costs, and the front between time and bytes.

Rows of `sparse.csv` at the least number of clients: `replay` with the axis `merge`, and readers that merge over a
fixed gap beside those that plan. A selection is what is read: file, part of the entries, part of the volume.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from storelab.analysis.figures.panels import room, side_by_side
from storelab.analysis.figures.specification import Curve, Function, Measure, Reference, Specification
from storelab.analysis.parts import words
from storelab.core import engines, units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    return (
        merge.where(rows["workload"] == "replay", rows["engine"].map(engines.merges) == "gap")
        .fillna(False)
        .astype(bool)
    )


def chosen(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of each selection that was read with several fixed gaps, at the least number of clients of its
    workload, with `fixed`, `selection` and `subject`."""
    if GAP not in table or table.empty:
        return table.iloc[:0]
    rows = table[table["workload"].isin(WORKLOADS) & table["transfer_median_s_per_read"].notna()]
    rows = rows[rows["clients"] == rows.groupby("workload")["clients"].transform("min")]
    rows = _in_words(rows.assign(fixed=_fixed(rows)))
    gaps = rows[GAP].where(rows["fixed"]).groupby([rows["subject"], rows["selection"]])
    rows = _in_words(rows[gaps.transform("nunique") > 1])  # anew: less varies
    return rows.sort_values(["subject", "volume_fraction_percent"], kind="stable")


def _in_words(rows: pd.DataFrame) -> pd.DataFrame:
    """With `selection` and `subject`: the store, and whatever else varies. Of replays the engine, which moves the bytes
    of both, is a part of the subject."""
    told = [c for c in SELECTION if c in rows and rows[c].nunique() > 1] or ["volume_fraction_percent"]
    apart = {"engine", "clients", "merge", GAP, THRIFT, BOUND, *SELECTION}
    others = [c for c in ("workload", *words.axes_of(rows)) if c not in apart and rows[c].nunique() > 1]
    several = rows.loc[rows["workload"] == "replay", "engine"].nunique() > 1
    selections, subjects = [], []
    for _, row in rows.iterrows():
        more = [*others, *(["engine"] if several and row["workload"] == "replay" else [])]
        selections.append(", ".join(words.value_text(c, row[c]) for c in told))
        subjects.append(", ".join(filter(None, [row["store"], *(words.value_text(c, row[c]) for c in more)])))
    return rows.assign(selection=selections, subject=subjects)


def _by_engine(rows: pd.DataFrame) -> pd.Series:
    """`, <engine>` where several engines merge over fixed gaps, so that no curve mixes two of them."""
    several = rows.loc[rows["fixed"] & (rows["workload"] != "replay"), "engine"].nunique() > 1
    return ", " + rows["engine"] if several else pd.Series("", index=rows.index)


def _planned(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
    """Of each selection what the read planner chose for least time, in the colour of its first curve."""
    for _, own in rows.groupby("selection", sort=False):
        free = own[~own["fixed"] & (own[THRIFT].fillna(0) == 0) & (own[BOUND].fillna(0) == 0)]
        for value in free[measure.curves[0].column()].head(1):
            yield Reference(value, series=own.loc[own["fixed"], "series"].iloc[0])


def _on_the_front(table: pd.DataFrame) -> pd.DataFrame:
    rows = chosen(table)
    return rows[rows["wire_median_mb_per_read"].notna()] if len(rows) else rows


def front(table: pd.DataFrame) -> "Figure | None":
    """Transfer time against bytes on the wire, one panel per subject and selection: fixed gaps, and plans by thrift
    and bound."""
    from storelab.analysis.figures import plots

    rows = _on_the_front(table)
    if rows.empty or rows["fixed"].all():
        return None
    rows = rows.assign(kind=rows["fixed"].map({True: "fixed gap", False: "planned"}) + _by_engine(rows))
    panels = list(rows.groupby(["subject", "selection"], sort=False))[: room()]
    kinds = plots.looks(sorted(rows["kind"].unique()))
    labels: list[list[tuple[float, float, str, Any]]] = []
    with plots.style():
        fig, cells = plots.grid(len(panels), HEIGHT, plots.subtitle(rows.drop(columns="few", errors="ignore")))
        for ax, ((subject, selection), part) in zip(cells, panels, strict=True):
            labels.append([])
            for kind, own in part.groupby("kind"):
                labels[-1] += _points(ax, own, *kinds[kind])
            needed = part["needed_median_mb_per_read"].median()
            ax.axvline(needed, color="0.5", linestyle=":", linewidth=1, zorder=0)
            ax.annotate(" needed", (needed, 0.01), xycoords=("data", "axes fraction"), fontsize=6.5, color="0.35")
            wide = part["wire_median_mb_per_read"].max() / needed
            if wide > 3:
                ax.set_xscale("log")
                plots.plain_numbers(ax.xaxis, wide)
            ax.margins(0.25, 0.12)
            ax.set_xlabel("On the wire, one read [MB]")
            plots.title(ax, f"{subject}, {selection}", side_by_side(len(panels)))
        values = [part["transfer_median_s_per_read"] for _, part in panels]
        plots.value_axis(cells, values, "Transfer of one read [s]", factor=3)
        plots.key(fig, kinds, "Time against bytes: what lies lower left is better")
        plots.place_labels(fig, cells, labels)
    return fig


def _points(ax: "Axes", rows: pd.DataFrame, colour: Any, marker: str) -> list[tuple[float, float, str, Any]]:
    """Draw the points of one kind; their labels."""
    rows, fixed = rows.sort_values("wire_median_mb_per_read"), rows["fixed"].all()
    x, y = rows["wire_median_mb_per_read"], rows["transfer_median_s_per_read"]
    bars = [y - rows["transfer_low_s_per_read"], rows["transfer_high_s_per_read"] - y]
    ax.errorbar(x, y, bars, color=colour, marker=marker, linestyle="-" if fixed else "--", capsize=2.5, linewidth=0.8)
    return [(a, b, _name(row, fixed), colour) for a, b, (_, row) in zip(x, y, rows.iterrows(), strict=True)]


def _name(row: pd.Series, fixed: bool) -> str:
    """`32.8 kB`; `thrift 4`; `at most 3`; `least time`."""
    if fixed:
        return units.format_size(int(row[GAP]))
    if row[BOUND]:
        return f"at most {row[BOUND]:g}×"
    return f"thrift {row[THRIFT]:g}" if row[THRIFT] else "least time"


FIGURES = {
    "gaps": Specification(
        table="sparse",
        where={"workload": WORKLOADS},
        rows=chosen,
        several=(GAP,),
        prepare=lambda rows: rows.assign(series=rows["selection"] + _by_engine(rows).where(rows["fixed"], "")),
        measures=METRICS,
        x=GAP,
        x_label="Largest gap merged",
        panels=("subject",),
        heading=lambda first, _: first["subject"],
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
        count=lambda table: len(_on_the_front(table)[["subject", "selection"]].drop_duplicates()),
        most=room(),
        things="panels",
        caption="Time against bytes: the transfer of one read and what came over the network for it, with fixed gaps "
        "and with requests "
        "planned for least time, with thrift, and with a bound on the amplification ({engine}), at the least number "
        "of clients. The line "
        "is the bytes needed. Medians; {bars}. {shared}",
    ),
}

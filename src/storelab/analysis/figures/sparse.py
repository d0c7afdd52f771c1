"""Figures of reads of ROOT files: by volume (figures 9 to 11 of the paper of 2015), by entries (12 to 14), and replays.

The figure `phases` shows the time of each phase, `gaps` the cost of a fixed gap, and `front` time against bytes. They
use the rows of `sparse.csv` at the smallest number of clients. They compare replays with different values of the axis
`merge`, and readers that merge over a fixed gap with readers that plan. A selection is the data that are read: file,
fraction of the entries, and fraction of the volume.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from storelab.analysis.figures.panels import AS_CONFIGURED, max_panels, side_by_side, varying, with_series
from storelab.analysis.figures.specification import (
    MIN_VALUES,
    Curve,
    Function,
    Measure,
    Reference,
    Rows,
    Specification,
    same,
)
from storelab.analysis.parts import labels
from storelab.core import engines, units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# --- reads by volume and by entries, replays, phases ---

READS = ("read_volume", "read_entries")  # workloads that decode the data
PHASES = ("plan", "transfer", "decompress", "deserialise")
WIRE = Measure((Curve("wire", "mb_per_s"),), "Throughput on the wire [MB/s]")
NEEDED = Curve("amplification", "ratio", "wire / needed baskets")
SHARE = Curve("share_amplification", "ratio", "wire / share of entries", ":")
HELD = {"max_range_gap_bytes": 32768, "thrift": 0, "max_amplification": 0}  # `gaps` and `front` show the other values
MAX_BARS = 38  # maximum number of bars on a page
BAR = 0.19  # height of a bar in inches
FRACTIONS = {"read_volume": "volume_fraction_percent", "read_entries": "entry_fraction_percent"}
KINDS = {"read_volume": "Reads by volume", "read_entries": "Reads by entries"}
AXES = {"entry_fraction_percent": "that fraction", "volume_fraction_percent": "that part"}
LONGEST = 62  # maximum number of characters of a line next to a bar


def _selections(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows[rows["entries_median_per_s"].notna()]
    return rows.assign(buckets=rows["buckets"].fillna(1) if "buckets" in rows else 1)  # older records have no buckets


def _with_all_entries(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the reads of entries. If none of them has all entries, add the reads of the whole volume, which have."""
    entries, whole = (rows[rows["workload"] == name] for name in ("read_entries", "read_volume"))
    if entries.empty or (entries["entry_fraction_percent"] == 100).any() or "volume_fraction_percent" not in whole:
        return entries
    whole = whole[whole["volume_fraction_percent"] == 100]
    return pd.concat([entries, whole.assign(workload="read_entries")])


def _heading(first: pd.Series, rows: pd.DataFrame) -> str:
    copies = "one bucket" if first["buckets"] == 1 else f"a copy in each of {first['buckets']:g} buckets"
    return f"{first['store']}, {copies}" if rows["buckets"].nunique() > 1 else first["store"]


def _reads(
    workload: str | tuple[str, ...],
    fraction: str,
    work: Measure,
    curves: tuple[Curve, ...],
    title: str,
    caption: str,
    rows: Rows = same,
) -> Specification:
    """Return the figure of throughput on the wire and useful work against clients, and of read amplification.

    Amplification is shown against the fraction, at the smallest number of clients. Each store and number of buckets has
    a row of panels. With one bucket, all clients read the same file; with more, each bucket has a copy. If there are
    too few numbers of clients, all panels are against the fraction.
    """
    x_label = {
        "entry_fraction_percent": "Entries read [%], {clients}",
        "volume_fraction_percent": "Volume [%], {clients}",
    }[fraction]
    amplification = Measure(
        curves, "Amplification", where={"clients": "least"}, log_from=20, x=fraction, x_label=x_label, hue="engine"
    )
    against_clients = Specification(
        table="sparse",
        where={"workload": workload},
        rows=rows,
        held=HELD,
        prepare=_selections,
        measures=(WIRE, work, amplification),
        hue=(fraction,),
        falling=fraction,
        panels=("store", "buckets"),
        heading=_heading,
        columns=True,
        references=lambda _, measure: [Reference(1)] if measure.curves == curves else [],
        height=2.2,
        title=title + " ({engine})",
        caption=caption,
    )
    measures = (WIRE, work, replace(amplification, x="", x_label="", hue=""))
    against_fraction = {
        "x": fraction,
        "x_label": x_label.partition(",")[0],
        "hue": ("engine",),
        "falling": "",
        "measures": measures,
        "caption": caption.replace("against concurrent clients", f"against {AXES[fraction]}"),
    }
    return replace(against_clients, otherwise=replace(against_clients, **against_fraction))


ENTRIES = Measure((Curve("entries", "per_s"),), "Useful work [entries/s]", log_from=10)
SELECTIONS = Measure((Curve("reads", "per_s"),), "Selections read [1/s]", log_from=10)


def _bars(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each selection and engine, at the smallest number of clients.

    The column `name` describes the settings that vary and are not the default.
    """
    rows = READ_PHASES.captioned_rows(table)
    rows = rows[rows["transfer_median_s_per_read"].notna()] if len(rows) else rows
    if rows.empty:
        return rows
    parts = []
    for workload, part in rows.groupby("workload", sort=False):
        fraction = FRACTIONS[str(workload)]
        others = varying(part, ["engine"] if rows["engine"].nunique() > 1 else [], {"clients", fraction})
        part = with_series(part.sort_values(fraction, ascending=False), others, usual=True)
        names = part["series"].where(part["series"] != AS_CONFIGURED, "") + ", "
        name = [
            (n + labels.value_text(fraction, v)).removeprefix(", ") for n, v in zip(names, part[fraction], strict=True)
        ]
        parts.append(part.assign(name=name))
    found = pd.concat(parts)
    return found.assign(name=found["store"] + ": " + found["name"]) if found["store"].nunique() > 1 else found


def _stacked(ax: "Axes", rows: pd.DataFrame, colours: list[Any]) -> None:
    """Draw one stacked bar for each row, with its name and its phases."""
    left = pd.Series(0.0, index=rows.index)
    for phase, colour in zip(PHASES, colours, strict=True):
        spent = 1000 * rows[f"{phase}_median_s_per_read"].fillna(0)
        ax.barh(range(len(rows)), spent, left=left, color=colour, height=0.7, label=phase)
        left += spent
    names = [textwrap.fill(name, LONGEST) for name in rows["name"]]
    ax.set_yticks(range(len(rows)), names, fontsize=6)
    ax.invert_yaxis()


def phases(table: pd.DataFrame) -> "Figure | None":
    """Return the figure of the time of one read by phase, with one stacked bar for each selection and engine.

    The smallest number of clients is used. The result is None without data.
    """
    from storelab.analysis.figures import plots

    rows = _bars(table).head(MAX_BARS).drop(columns="few", errors="ignore")
    if rows.empty:
        return None
    parts = list(rows.groupby("workload", sort=False))
    with plots.style():
        height = BAR * len(rows) + 0.5 * len(parts) + 0.5
        fig, (ax,) = plots.grid(1, height, re.sub(r"; bars: [^;]*", "", plots.subtitle(rows)))
        fig.set_figwidth(plots.WIDTH)
        ax.remove()
        ratios = [len(rows_of_part) + 1 for _, rows_of_part in parts]
        cells = fig.subplots(len(parts), 1, squeeze=False, height_ratios=ratios)[:, 0]
        for ax, (workload, rows_of_part) in zip(cells, parts, strict=True):
            _stacked(ax, rows_of_part, plots.tones(len(PHASES)))
            ax.set_title(KINDS[str(workload)] if len(parts) > 1 else "", fontsize=8)
        ax.set_xlabel("Time of one read [ms]")
        handles, names = ax.get_legend_handles_labels()
        fig.legend(
            handles,
            names,
            loc="outside upper center",
            ncols=len(PHASES),
            frameon=False,
            fontsize=7,
            title="Where the time of a read goes",
        )
    return fig


READS_BY_VOLUME = _reads(
    "read_volume",
    "volume_fraction_percent",
    ENTRIES,
    (NEEDED,),
    "Reads of the smallest branches of a ROOT file",
    "Reads of all entries of the smallest branches of a ROOT file ({engine}), by their part of its volume: throughput "
    "on the wire and entries delivered per second against concurrent clients, and read amplification: bytes on the "
    "wire over bytes of the baskets needed (dashed: the ideal). Medians; {bars}. {shared}",
)
READS_BY_ENTRIES = _reads(
    READS,
    "entry_fraction_percent",
    ENTRIES,
    (SHARE, NEEDED),
    "Reads of random entries of a ROOT file",
    "Reads of random entries of a ROOT file ({engine}), by the fraction of the entries read: throughput on the wire "
    "and entries delivered per second against concurrent clients, and read amplification: bytes on the wire over "
    "bytes of the baskets needed, and over the entries' share of the volume (dashed: the ideal). Medians; {bars}. "
    "{shared}",
    rows=_with_all_entries,
)
REPLAYS = _reads(
    "replay",
    "volume_fraction_percent",
    SELECTIONS,
    (NEEDED,),
    "Ranges of a ROOT file, replayed",
    "The ranges of selections of a ROOT file, replayed without decoding ({engine}), by their part of the volume: "
    "throughput on the "
    "wire and selections per second against concurrent clients, and read amplification. Medians; {bars}. {shared}",
)
READ_PHASES = Function(
    table="sparse",
    where={"workload": READS, "clients": "least"},
    held=HELD,
    function=phases,
    count=lambda table: len(_bars(table)),
    least=MIN_VALUES,
    most=MAX_BARS,
    counted_as="bars",
    caption="Where the time of one read goes, at the smallest number of clients: planning, transfer, decompression, "
    "deserialisation ({engine}). Medians of the runs' medians. {shared}",
)

# --- cost of gaps, and time against bytes ---

WORKLOADS = ("replay", "read_volume", "read_entries")
SELECTION = ("entry_fraction_percent", "volume_fraction_percent", "file_size", "codec")
METRICS = tuple(
    Measure((Curve(name, unit),), label, where={"fixed": True}, log_from=20)
    for name, unit, label in (
        ("amplification", "ratio", "Amplification (wire / needed)"),
        ("requests", "per_read", "Requests of one read"),
        ("transfer", "s_per_read", "Transfer of one read [s]"),
    )
)
GAP, THRIFT, BOUND = "max_range_gap_bytes", "thrift", "max_amplification"
HEIGHT = 2.6  # height of a panel of the figure `front` in inches


def _fixed(rows: pd.DataFrame) -> pd.Series:
    """Return which rows belong to readers that merge over a fixed gap. The others belong to readers that plan."""
    merge = rows["merge"] == "gap" if "merge" in rows else pd.Series(False, index=rows.index)
    return (
        merge.where(rows["workload"] == "replay", rows["engine"].map(engines.merges) == "gap")
        .fillna(False)
        .astype(bool)
    )


def chosen(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each selection that was read with several fixed gaps.

    Only the smallest number of clients of a workload is used. The columns `fixed`, `selection` and `subject` are added.
    """
    if GAP not in table or table.empty:
        return table.iloc[:0]
    rows = table[table["workload"].isin(WORKLOADS) & table["transfer_median_s_per_read"].notna()]
    rows = rows[rows["clients"] == rows.groupby("workload")["clients"].transform("min")]
    rows = _described(rows.assign(fixed=_fixed(rows)))
    gaps = rows[GAP].where(rows["fixed"]).groupby([rows["subject"], rows["selection"]])
    rows = _described(rows[gaps.transform("nunique") > 1])  # a second time, because fewer axes vary now
    return rows.sort_values(["subject", "volume_fraction_percent"], kind="stable")


def _described(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the columns `selection`, and `subject` (the store and the other axes that vary).

    For replays, the subject includes the engine, because the same engine is used with fixed gaps and with planning.
    """
    varying_axes = [c for c in SELECTION if c in rows and rows[c].nunique() > 1] or ["volume_fraction_percent"]
    apart = {"engine", "clients", "merge", GAP, THRIFT, BOUND, *SELECTION}
    others = [c for c in ("workload", *labels.axes_of(rows)) if c not in apart and rows[c].nunique() > 1]
    several = rows.loc[rows["workload"] == "replay", "engine"].nunique() > 1
    selections, subjects = [], []
    for _, row in rows.iterrows():
        more = [*others, *(["engine"] if several and row["workload"] == "replay" else [])]
        selections.append(", ".join(labels.value_text(c, row[c]) for c in varying_axes))
        subjects.append(", ".join(filter(None, [row["store"], *(labels.value_text(c, row[c]) for c in more)])))
    return rows.assign(selection=selections, subject=subjects)


def _by_engine(rows: pd.DataFrame) -> pd.Series:
    """Return `, <engine>` for each row if several engines merge over fixed gaps, else empty strings.

    With these names, no curve mixes engines.
    """
    several = rows.loc[rows["fixed"] & (rows["workload"] != "replay"), "engine"].nunique() > 1
    return ", " + rows["engine"] if several else pd.Series("", index=rows.index)


def _planned(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
    """Yield a reference line for each selection: the result of the planner that minimises time.

    It has the colour of the first curve of the selection.
    """
    for _, group in rows.groupby("selection", sort=False):
        free = group[~group["fixed"] & (group[THRIFT].fillna(0) == 0) & (group[BOUND].fillna(0) == 0)]
        for value in free[measure.curves[0].column()].head(1):
            yield Reference(value, series=group.loc[group["fixed"], "series"].iloc[0])


def _on_the_front(table: pd.DataFrame) -> pd.DataFrame:
    rows = chosen(table)
    return rows[rows["wire_median_mb_per_read"].notna()] if len(rows) else rows


def front(table: pd.DataFrame) -> "Figure | None":
    """Return the figure of transfer time against bytes on the wire, with one panel per subject and selection.

    The points are reads with fixed gaps, and planned reads with several values of thrift and of the largest
    amplification. The result is None without planned reads.
    """
    from storelab.analysis.figures import plots

    rows = _on_the_front(table)
    if rows.empty or rows["fixed"].all():
        return None
    rows = rows.assign(kind=rows["fixed"].map({True: "fixed gap", False: "planned"}) + _by_engine(rows))
    panels = list(rows.groupby(["subject", "selection"], sort=False))[: max_panels()]
    kinds = plots.looks(sorted(rows["kind"].unique()))
    texts: list[list[tuple[float, float, str, Any]]] = []
    with plots.style():
        fig, cells = plots.grid(len(panels), HEIGHT, plots.subtitle(rows.drop(columns="few", errors="ignore")))
        for ax, ((subject, selection), part) in zip(cells, panels, strict=True):
            texts.append([])
            for kind, rows_of_kind in part.groupby("kind"):
                texts[-1] += _points(ax, rows_of_kind, *kinds[kind])
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
        plots.key(fig, kinds, "Time against bytes: lower left is better")
        plots.place_labels(fig, cells, texts)
    return fig


def _points(ax: "Axes", rows: pd.DataFrame, colour: Any, marker: str) -> list[tuple[float, float, str, Any]]:
    """Draw the points of one kind (fixed gap or planned), and return their labels."""
    from storelab.analysis.figures import plots

    rows, fixed = rows.sort_values("wire_median_mb_per_read"), rows["fixed"].all()
    x, y = rows["wire_median_mb_per_read"], rows["transfer_median_s_per_read"]
    bars = plots.bars(rows, "transfer", "s_per_read")
    ax.errorbar(x, y, bars, color=colour, marker=marker, linestyle="-" if fixed else "--", capsize=2.5, linewidth=0.8)
    return [(a, b, _name(row, fixed), colour) for a, b, (_, row) in zip(x, y, rows.iterrows(), strict=True)]


def _name(row: pd.Series, fixed: bool) -> str:
    """Return the label of a point, such as `32.8 kB`, `thrift 4`, `at most 3×` or `least time`."""
    if fixed:
        return units.format_size(int(row[GAP]))
    if row[BOUND]:
        return f"at most {row[BOUND]:g}×"
    return f"thrift {row[THRIFT]:g}" if row[THRIFT] else "least time"


GAPS = Specification(
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
    caption="Cost of a fixed gap: amplification, requests and transfer time of one read against the "
    "largest gap that is merged over ({engine}), at the smallest number of clients; dashed: the plan of the read "
    "planner for least time. Medians; {bars}. {shared}",
)
FRONT = Function(
    table="sparse",
    where={"workload": WORKLOADS},
    rows=chosen,
    several=(GAP,),
    function=front,
    count=lambda table: len(_on_the_front(table)[["subject", "selection"]].drop_duplicates()),
    most=max_panels(),
    counted_as="panels",
    caption="Time against bytes: the transfer time of one read and its bytes on the network, with fixed gaps and "
    "with requests planned for least time, with thrift, and with a bound on the amplification ({engine}), at the "
    "smallest number of clients. The line is the bytes needed. Medians; {bars}. {shared}",
)

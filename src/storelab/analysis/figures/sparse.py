"""Figures of reads of ROOT files: by volume (the paper's 9 to 11), by entries (12 to 14), replayed; time by phase."""

import re
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from storelab.analysis.figures.panels import AS_CONFIGURED, varying, with_series
from storelab.analysis.figures.specification import MIN_VALUES, Curve, Function, Measure, Reference, Specification
from storelab.analysis.parts import words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

READS = ("read_volume", "read_entries")  # workloads that decode
PHASES = ("plan", "transfer", "decompress", "deserialise")
WIRE = Measure((Curve("wire", "mb_per_s"),), "Throughput on the wire [MB/s]")
NEEDED = Curve("amplification", "ratio", "wire / needed baskets")
SHARE = Curve("share_amplification", "ratio", "wire / share of entries", ":")
HELD = {"max_range_gap_bytes": 32768, "thrift": 0, "max_amplification": 0}  # `gaps` and `front` show the others
MOST_BARS = 38  # on a page
BAR = 0.19  # inches of a bar
FRACTIONS = {"read_volume": "volume_fraction_percent", "read_entries": "entry_fraction_percent"}
KINDS = {"read_volume": "Reads by volume", "read_entries": "Reads by entries"}
AXES = {"entry_fraction_percent": "that fraction", "volume_fraction_percent": "that part"}
LONGEST = 62  # letters of a line beside a bar


def _selections(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows[rows["entries_median_per_s"].notna()]
    return rows.assign(buckets=rows["buckets"].fillna(1) if "buckets" in rows else 1)  # records older than that axis


def _heading(first: pd.Series, rows: pd.DataFrame) -> str:
    copies = "one bucket" if first["buckets"] == 1 else f"a copy in each of {first['buckets']:g} buckets"
    return f"{first['store']}, {copies}" if rows["buckets"].nunique() > 1 else first["store"]


def _reads(
    workload: str, fraction: str, work: Measure, curves: tuple[Curve, ...], title: str, caption: str
) -> Specification:
    """MB/s on the wire and useful work against clients; read amplification against the fraction at the least number
    of clients. A row of panels for each store and number of buckets (1: one file shared by all; more: copies). With
    too few numbers of clients, all stand against the fraction."""
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
    """Return a row for each selection and engine, at the least number of clients, with its `name`: what varies and is
    not at its default."""
    rows = FIGURES["phases"].told(table)
    rows = rows[rows["transfer_median_s_per_read"].notna()] if len(rows) else rows
    if rows.empty:
        return rows
    parts = []
    for workload, own in rows.groupby("workload", sort=False):
        fraction = FRACTIONS[str(workload)]
        others = varying(own, ["engine"] if rows["engine"].nunique() > 1 else [], {"clients", fraction})
        own = with_series(own.sort_values(fraction, ascending=False), others, usual=True)
        names = own["series"].where(own["series"] != AS_CONFIGURED, "") + ", "
        name = [
            (n + words.value_text(fraction, v)).removeprefix(", ") for n, v in zip(names, own[fraction], strict=True)
        ]
        parts.append(own.assign(name=name))
    found = pd.concat(parts)
    return found.assign(name=found["store"] + ": " + found["name"]) if found["store"].nunique() > 1 else found


def _stacked(ax: "Axes", rows: pd.DataFrame, colours: list[Any]) -> None:
    """Draw a bar for each row, with its name and its phases."""
    left = pd.Series(0.0, index=rows.index)
    for phase, colour in zip(PHASES, colours, strict=True):
        spent = 1000 * rows[f"{phase}_median_s_per_read"].fillna(0)
        ax.barh(range(len(rows)), spent, left=left, color=colour, height=0.7, label=phase)
        left += spent
    said = [textwrap.fill(name, LONGEST) for name in rows["name"]]
    ax.set_yticks(range(len(rows)), said, fontsize=6)
    ax.invert_yaxis()


def phases(table: pd.DataFrame) -> "Figure | None":
    """One bar for each selection and engine, stacked by phase: seconds of one read, at the least number of clients."""
    from storelab.analysis.figures import plots

    rows = _bars(table).head(MOST_BARS).drop(columns="few", errors="ignore")
    if rows.empty:
        return None
    parts = list(rows.groupby("workload", sort=False))
    with plots.style():
        height = BAR * len(rows) + 0.5 * len(parts) + 0.5
        fig, (ax,) = plots.grid(1, height, re.sub(r"; bars: [^;]*", "", plots.subtitle(rows)))
        fig.set_figwidth(plots.WIDTH)
        ax.remove()
        ratios = [len(own) + 1 for _, own in parts]
        cells = fig.subplots(len(parts), 1, squeeze=False, height_ratios=ratios)[:, 0]
        for ax, (workload, own) in zip(cells, parts, strict=True):
            _stacked(ax, own, plots.tones(len(PHASES)))
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


FIGURES = {
    "volume": _reads(
        "read_volume",
        "volume_fraction_percent",
        ENTRIES,
        (NEEDED,),
        "Reads of the smallest branches of a ROOT file",
        "Reads of all entries of the smallest branches of a ROOT file ({engine}), by their part of its volume: "
        "throughput on the wire and "
        "entries delivered per second against concurrent clients, and read amplification: bytes on the wire over "
        "bytes of the baskets "
        "needed (dashed: the ideal). Medians; {bars}. {shared}",
    ),
    "entries": _reads(
        "read_entries",
        "entry_fraction_percent",
        ENTRIES,
        (SHARE, NEEDED),
        "Reads of random entries of a ROOT file",
        "Reads of random entries of a ROOT file ({engine}), by the fraction of the entries read: throughput on the "
        "wire and entries "
        "delivered per second against concurrent clients, and read amplification: bytes on the wire over bytes of "
        "the baskets needed, "
        "and over the entries' share of the volume (dashed: the ideal). Medians; {bars}. {shared}",
    ),
    "replay": _reads(
        "replay",
        "volume_fraction_percent",
        SELECTIONS,
        (NEEDED,),
        "Ranges of a ROOT file, replayed",
        "The ranges of selections of a ROOT file, replayed without decoding ({engine}), by their part of the volume: "
        "throughput on the "
        "wire and selections per second against concurrent clients, and read amplification. Medians; {bars}. {shared}",
    ),
    "phases": Function(
        table="sparse",
        where={"workload": READS, "clients": "least"},
        held=HELD,
        function=phases,
        count=lambda table: len(_bars(table)),
        least=MIN_VALUES,
        most=MOST_BARS,
        things="bars",
        caption="Where the time of one read goes, at the least number of clients: planning, transfer, decompression, "
        "deserialisation "
        "({engine}). Medians of the runs' medians. {shared}",
    ),
}

"""Figures: tidy table in, matplotlib Figure out, no file access (level 3, analysis).

After the charts of J. Phys.: Conf. Ser. 664 (2015) 022001: throughput and files/s against the number of clients (its figures
1-8) and reads by entries (its figure 12). Rates are medians in the `overlap` window, bars their interval or range. A figure
without data is None and is left out. FIGURES: name -> function, table, caption; one name in code, rule, file and label.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from storelab import facts, figures_errors, figures_latency, figures_resources, figures_systems, units, words
from storelab.plots import MARKERS, canvas, client_bound, count_axis, curves, fewer, legend, style, subtitle, value_axis, with_series


def _scaling(table: pd.DataFrame, name: str, what: str, metric: tuple[str, str], label: str) -> Figure | None:
    """One panel per store and object size, against clients; curves by front-ends and whatever else was swept."""
    rows = facts.of_class(table, name)
    rows = rows[rows[f"{metric[0]}_median_{metric[1]}"].notna()] if len(rows) else rows
    if rows.empty or (rows["store"].nunique() > 2 and rows["clients"].nunique() == 1):
        return None  # many systems at one number of clients: `systems` shows them side by side
    rows = with_series(fewer(rows, "clients"), "front_ends", ("object_size_bytes", "clients"))
    order = list(dict.fromkeys(rows["series"]))
    panels = list(rows.groupby(["store", "object_size_bytes"]))
    sizes, engines = list(rows["object_size_bytes"].unique()), facts.joined(rows["engine"])
    title = f"{what} of {' and '.join(units.format_size(int(s)) for s in sorted(sizes))} objects ({engines})"
    columns = min(len(panels), 2)
    with style():
        fig, grid = canvas(math.ceil(len(panels) / columns), columns, 2.3, subtitle(rows))
        cells = [ax for line in grid for ax in line]
        for ax, ((store, size), part) in zip(cells, panels, strict=False):
            curves(ax, part, "clients", metric, order)
            count_axis(ax, part["clients"])
            value_axis(ax, part[f"{metric[0]}_median_{metric[1]}"], label)
            ax.set_title(store if len(sizes) == 1 else f"{store}, {units.format_size(int(size))}")
        for ax in cells[len(panels) :]:
            ax.remove()
        legend(fig, order, title)
    return fig


def throughput_download(table: pd.DataFrame) -> Figure | None:
    """Aggregated MB/s of `get`, objects from 1 MB, against clients (the paper's figures 1, 2)."""
    return _scaling(table, "throughput_download", "Download", ("throughput", "mb_per_s"), "Aggregated throughput [MB/s]")


def throughput_upload(table: pd.DataFrame) -> Figure | None:
    """Aggregated MB/s of `put`, objects from 1 MB, against clients (the paper's figures 3, 4)."""
    return _scaling(table, "throughput_upload", "Upload", ("throughput", "mb_per_s"), "Aggregated throughput [MB/s]")


def metadata_download(table: pd.DataFrame) -> Figure | None:
    """Objects/s of `get`, objects below 1 MB, against clients (the paper's figures 5, 6)."""
    return _scaling(table, "metadata_download", "Download", ("rate", "per_s"), "Downloads [objects/s]")


def metadata_upload(table: pd.DataFrame) -> Figure | None:
    """Objects/s of `put`, objects below 1 MB, against clients (the paper's figures 7, 8)."""
    return _scaling(table, "metadata_upload", "Upload", ("rate", "per_s"), "Uploads [objects/s]")


def entries(table: pd.DataFrame) -> Figure | None:
    """`read_entries` (the paper's figure 12), a row per store: MB/s on the wire and entries/s against clients, curves by
    fraction of the entries; read amplification against that fraction at the least number of clients."""
    rows = table[(table["workload"] == "read_entries") & table["entries_median_per_s"].notna()]
    if rows.empty or "entry_fraction_percent" not in rows:
        return None
    rows = with_series(rows, "entry_fraction_percent", ("clients",))
    rows = rows.sort_values(["entry_fraction_percent"], ascending=False, kind="stable")
    order, stores = list(dict.fromkeys(rows["series"])), sorted(rows["store"].unique())
    with style():
        fig, grid = canvas(len(stores), 3, 2.2, subtitle(rows))
        for line, store in zip(grid, stores, strict=True):
            part = rows[rows["store"] == store]
            curves(line[0], part, "clients", ("wire", "mb_per_s"), order)
            value_axis(line[0], part["wire_median_mb_per_s"], "Throughput on the wire [MB/s]")
            curves(line[1], part, "clients", ("entries", "per_s"), order)
            value_axis(line[1], part["entries_median_per_s"], "Useful work [entries/s]", factor=10)
            for ax in line[:2]:
                count_axis(ax, part["clients"])
            _amplification(line[2], part)
            line[1].set_title(store)
        legend(fig, order, f"Reads of random entries of a ROOT file ({facts.joined(rows['engine'])})")
    return fig


def _amplification(ax: Axes, rows: pd.DataFrame) -> None:
    """Bytes on the wire over those of the baskets needed, and over the entries' share of the volume, against the fraction of
    entries, at the least number of clients; the ideal is 1."""
    least = rows["clients"].min()
    rows = with_series(rows[rows["clients"] == least].drop(columns="series"), "front_ends", ("clients", "entry_fraction_percent"))
    names, shown = list(dict.fromkeys(rows["series"])), []
    ax.axhline(1, color="0.5", linewidth=0.8, linestyle="--", zorder=0)
    for metric, label, dash in (("share_amplification", "wire / share of entries", ":"), ("amplification", "wire / needed baskets", "-")):
        for name, tone, marker in zip(names, sns.color_palette("dark:0.6", len(names)), itertools.cycle(MARKERS), strict=False):
            line = rows[(rows["series"] == name) & rows[f"{metric}_median_ratio"].notna()].sort_values("entry_fraction_percent")
            y = line[f"{metric}_median_ratio"]
            spread = [y - line[f"{metric}_low_ratio"], line[f"{metric}_high_ratio"] - y]
            said = f"{label.split()[2]}, {name}" if len(names) > 1 else label
            if len(line):
                ax.errorbar(line["entry_fraction_percent"], y, spread, color=tone, marker=marker, linestyle=dash, capsize=2.5, label=said)
            shown.append(y)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.xaxis.set_major_locator(FixedLocator(sorted(rows["entry_fraction_percent"].unique())))
    ax.xaxis.set_minor_locator(NullLocator())
    value_axis(ax, pd.concat(shown), "Amplification", factor=20)
    ax.set_xlabel(f"Entries read [%], {words.plural(least, 'client')}")
    if lines := len(ax.containers):
        low, high = ax.get_ylim()  # room for the legend above the curves
        ax.set_ylim(top=high * (high / low) ** (0.11 * lines) if ax.get_yscale() == "log" else high * (1 + 0.11 * lines))
        ax.legend(fontsize=6, frameon=False, loc="upper right", borderaxespad=0, handlelength=1.6)
    sns.despine(ax=ax)


@dataclass(frozen=True)
class Spec:
    """A figure: its function, the table that it takes, the caption (fields: see `caption`)."""

    function: Callable[[pd.DataFrame], Figure | None]
    table: str
    caption: str


_RAW = (
    "{what} of {sizes} objects against the number of clients, by front-ends ({engine}, runs of {seconds} s). "
    "Medians in the window in which all clients are active; {bars}. {shared}"
)
FIGURES: dict[str, Spec] = {
    "throughput_download": Spec(throughput_download, "throughput", _RAW.replace("{what}", "Aggregated download throughput")),
    "throughput_upload": Spec(throughput_upload, "throughput", _RAW.replace("{what}", "Aggregated upload throughput")),
    "metadata_download": Spec(metadata_download, "throughput", _RAW.replace("{what}", "Downloads per second")),
    "metadata_upload": Spec(metadata_upload, "throughput", _RAW.replace("{what}", "Uploads per second")),
    "systems": Spec(
        figures_systems.systems,
        "throughput",
        "The systems and deployments of the campaign side by side: operations per second on small objects, throughput of large ones, at the "
        "least number of clients, front-ends, buckets and accounts that was measured; by engine. Medians; {bars}. {shared}",
    ),
    "front_ends": Spec(
        figures_systems.front_ends,
        "throughput",
        "Rates against the number of front-ends; clients are spread over them in turn. Medians; {bars}. {scaling}",
    ),
    "buckets": Spec(
        figures_systems.buckets,
        "throughput",
        "Rates against the number of buckets that the objects are spread over, by the number of accounts that own them. Medians; {bars}. {shared}",
    ),
    "space": Spec(
        figures_systems.space,
        "space",
        "Raw bytes that a store uses for each byte stored, all copies and parity included: after the uploads, some seconds after their "
        "deletion, and after the store was told to give space back. Medians; {bars}.",
    ),
    "entries": Spec(
        entries,
        "sparse",
        "Reads of random entries of a ROOT file ({engine}), by the fraction of the entries read: throughput on the wire and entries "
        "delivered per second against concurrent clients, and read amplification: bytes on the wire over bytes of the baskets needed, "
        "and over the entries' share of the volume (dashed: the ideal). Medians; {bars}. {shared}",
    ),
    "latency_closed": Spec(
        figures_latency.latency_closed,
        "latency",
        "Latency against the operations in flight, closed loop ({engine}, runs of {seconds} s): quantiles of each run, and the time to the first "
        "byte. A closed loop asks nothing while the system stalls, and so sees a stall once per worker only. Medians of the runs; {bars}. {shared}",
    ),
    "latency_open": Spec(
        figures_latency.latency_open,
        "latency",
        "Latency against the operations due per second, open loop ({engine}, runs of {seconds} s): quantiles of each run, counted from when an "
        "operation was due. Open symbols: the system did not keep up. Medians of the runs; {bars}. {shared}",
    ),
    "latency_spectrum": Spec(
        figures_latency.latency_spectrum,
        "latency",
        "Latency by quantile, by system and loop: the closed loop at the least and at the most operations in flight, the open loop at the highest "
        "rate. Medians of the runs; {bars}. {shared}",
    ),
    "threads": Spec(
        figures_resources.threads,
        "throughput",
        "Rates of the least number of clients against the workers (threads or connections) of each, by operation and buckets ({engine}, runs of "
        "{seconds} s). Medians; {bars}. {shared}",
    ),
    "client_resources": Spec(
        figures_resources.client_resources,
        "resources",
        "What the client used meanwhile ({engine}): the most sockets that its processes held open, and how many more were in TIME_WAIT on its "
        "host than at the start (those of a server on the same host included); the most memory of its processes; their CPU. "
        "Medians; {bars}. {shared}",
    ),
    "errors_over_time": Spec(
        figures_errors.errors_over_time,
        "errors_over_time",
        "Operations that ended in each second, by outcome, of the runs with the largest fractions of failed operations. Single runs. {shared}",
    ),
}


WORKLOADS = {
    "entries": ("read_entries",),
    "systems": ("put", "get"),
    "front_ends": ("put", "get"),
    "buckets": ("put", "get"),
    "space": ("space",),
}
PARTS = {"threads": figures_resources.against_workers, "client_resources": figures_resources.against_workers}
LOOPS = {"latency_closed": "closed", "latency_open": "open"}


def caption(name: str, table: pd.DataFrame) -> str:
    """The caption with what the table says: sizes, engine, seconds of a run, n and kind of the bars, shared host."""
    rows = facts.of_class(table, name) if name in facts.CLASSES else table
    rows = rows[rows["workload"].isin(WORKLOADS[name])] if name in WORKLOADS else rows
    rows = rows[rows["loop"] == LOOPS[name]] if name in LOOPS else rows
    rows = PARTS[name](rows) if name in PARTS else rows
    sizes = sorted(rows["object_size_bytes"].dropna().unique()) if name in facts.CLASSES else []
    seconds = sorted(rows["duration_s"].unique()) if "duration_s" in rows else []
    shared = rows["shared_host"].astype(bool) if "shared_host" in rows else pd.Series([False])
    text = FIGURES[name].caption.format(
        sizes=" and ".join(units.format_size(int(s)) for s in sizes),
        engine=facts.joined(rows["engine"]) if "engine" in rows else "",
        seconds=" and ".join(f"{s:g}" for s in seconds),
        bars=words.bars_text(rows) if "interval" in rows else "",
        scaling="Front-ends and clients share the cores of one host: what more front-ends would bring, this figure cannot tell."
        if shared.any()
        else "",
        shared=("Client and server share one host." if shared.all() else "Some clients share the server's host." if shared.any() else "")
        + (" Open symbols: client-bound, near what the clients could do at most." if client_bound(rows).any() else ""),
    )
    return text.strip()

"""Figures: tidy table in, matplotlib Figure out, no file access (level 3, analysis).

After the charts of J. Phys.: Conf. Ser. 664 (2015) 022001: throughput and files/s against the number of clients (its figures
1-8) and reads by entries (its figure 12). Rates are medians in the `overlap` window, bars their interval or range. A figure
without data is None and is left out. FIGURES: name -> function, table, caption; one name in code, rule, file and label.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from storelab.analysis.figures import errors, events, gaps, latency, resources, sparse, systems
from storelab.analysis.figures.plots import (
    canvas,
    client_bound,
    count_axis,
    curves,
    fewer,
    legend,
    limits,
    network_limit,
    style,
    subtitle,
    value_axis,
    with_series,
)
from storelab.analysis.parts import words
from storelab.analysis.tables import numbers
from storelab.core import units


def _scaling(table: pd.DataFrame, name: str, what: str, metric: tuple[str, str], label: str) -> Figure | None:
    """One panel per store and object size, against clients; curves by front-ends and whatever else was swept."""
    rows = numbers.of_class(table, name)
    rows = rows[rows[f"{metric[0]}_median_{metric[1]}"].notna()] if len(rows) else rows
    if rows.empty or (rows["store"].nunique() > 2 and rows["clients"].nunique() == 1):
        return None  # many systems at one number of clients: `systems` shows them side by side
    rows = with_series(fewer(rows, "clients"), "front_ends", ("object_size_bytes", "clients"))
    order = list(dict.fromkeys(rows["series"]))
    panels = list(rows.groupby(["store", "object_size_bytes"]))
    sizes, engines = list(rows["object_size_bytes"].unique()), numbers.joined(rows["engine"])
    title = f"{what} of {' and '.join(units.format_size(int(s)) for s in sorted(sizes))} objects ({engines})"
    columns = min(len(panels), 2)
    with style():
        fig, grid = canvas(math.ceil(len(panels) / columns), columns, 2.3, subtitle(rows))
        cells = [ax for line in grid for ax in line]
        for ax, ((store, size), part) in zip(cells, panels, strict=False):
            curves(ax, part, "clients", metric, order)
            network_limit(ax, part, metric)
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
        systems.systems,
        "throughput",
        "The systems and deployments of the campaign side by side: operations per second on small objects, throughput of large ones, at the "
        "least number of clients, front-ends, buckets and accounts that was measured; by engine. Medians; {bars}. {shared}",
    ),
    "front_ends": Spec(
        systems.front_ends,
        "throughput",
        "Rates against the number of front-ends; clients are spread over them in turn. Medians; {bars}. {scaling}",
    ),
    "buckets": Spec(
        systems.buckets,
        "throughput",
        "Rates against the number of buckets that the objects are spread over, by the number of accounts that own them. Medians; {bars}. {shared}",
    ),
    "space": Spec(
        systems.space,
        "space",
        "Raw bytes that a store uses for each byte stored, all copies and parity included: after the uploads, some seconds after their "
        "deletion, and after the store was told to give space back. Medians; {bars}.",
    ),
    "volume": Spec(
        sparse.volume,
        "sparse",
        "Reads of all entries of the smallest branches of a ROOT file ({engine}), by their part of its volume: throughput on the wire and entries "
        "delivered per second against concurrent clients, and read amplification: bytes on the wire over bytes of the baskets needed "
        "(dashed: the ideal). Medians; {bars}. {shared}",
    ),
    "entries": Spec(
        sparse.entries,
        "sparse",
        "Reads of random entries of a ROOT file ({engine}), by the fraction of the entries read: throughput on the wire and entries "
        "delivered per second against concurrent clients, and read amplification: bytes on the wire over bytes of the baskets needed, "
        "and over the entries' share of the volume (dashed: the ideal). Medians; {bars}. {shared}",
    ),
    "replay": Spec(
        sparse.replay,
        "sparse",
        "The ranges of selections of a ROOT file, replayed without decoding ({engine}), by their part of the volume: throughput on the wire and selections "
        "per second against concurrent clients, and read amplification. Medians; {bars}. {shared}",
    ),
    "phases": Spec(
        sparse.phases,
        "sparse",
        "Where the time of one read goes, at the least number of clients: planning, transfer, decompression, deserialisation ({engine}). Medians of the "
        "runs' medians. {shared}",
    ),
    "gaps": Spec(
        gaps.gaps,
        "sparse",
        "What a reader's fixed gap costs: amplification, requests and transfer time of one read against the largest gap that is merged over "
        "({engine}), at the least number of clients; dashed: what the read planner chose for least time. Medians; {bars}. {shared}",
    ),
    "front": Spec(
        gaps.front,
        "sparse",
        "Time against bytes: the transfer of one read and what came over the network for it, with fixed gaps and with requests planned for "
        "least time, with thrift, and with a bound on the amplification ({engine}), at the least number of clients. The line is the bytes "
        "needed. Medians; {bars}. {shared}",
    ),
    "events_throughput": Spec(
        events.events_throughput,
        "events",
        "Events that the jobs processed per second against the throughput into the node (bytes on the wire; of local files, bytes asked for), by setting of the client; the "
        "number beside a point is that of the jobs, each on a file of its own. Medians; {bars}. {shared} On grey ground, in other units: the points published by "
        "HEPiX in 2010, of other systems and machines; dotted: read without a client cache to match.",
    ),
    "latency_closed": Spec(
        latency.latency_closed,
        "latency",
        "Latency against the operations in flight, closed loop ({engine}, runs of {seconds} s): quantiles of each run, and the time to the first "
        "byte. A closed loop asks nothing while the system stalls, and so sees a stall once per worker only. Medians of the runs; {bars}. {shared}",
    ),
    "latency_open": Spec(
        latency.latency_open,
        "latency",
        "Latency against the operations due per second, open loop ({engine}, runs of {seconds} s): quantiles of each run, counted from when an "
        "operation was due. Open symbols: the system did not keep up. Medians of the runs; {bars}. {shared}",
    ),
    "latency_spectrum": Spec(
        latency.latency_spectrum,
        "latency",
        "Latency by quantile, by system and loop: the closed loop at the least and at the most operations in flight, the open loop at the highest "
        "rate. Medians of the runs; {bars}. {shared}",
    ),
    "threads": Spec(
        resources.threads,
        "throughput",
        "Rates of the least number of clients against the workers (threads or connections) of each, by operation and buckets ({engine}, runs of "
        "{seconds} s). Medians; {bars}. {shared}",
    ),
    "client_resources": Spec(
        resources.client_resources,
        "resources",
        "What the client used meanwhile ({engine}): the most sockets that its processes held open, and how many more were in TIME_WAIT on its "
        "host than at the start (those of a server on the same host included); the most memory of its processes; their CPU. "
        "Medians; {bars}. {shared}",
    ),
    "errors_over_time": Spec(
        errors.errors_over_time,
        "errors_over_time",
        "Operations that ended in each second, by outcome, of the runs with the largest fractions of failed operations. Single runs. {shared}",
    ),
}


WORKLOADS = {
    "volume": ("read_volume",),
    "entries": ("read_entries",),
    "replay": ("replay",),
    "phases": sparse.READS,
    "systems": ("put", "get"),
    "front_ends": ("put", "get"),
    "buckets": ("put", "get"),
    "space": ("space",),
}
PARTS = {"threads": resources.against_workers, "client_resources": resources.against_workers}
LOOPS = {"latency_closed": "closed", "latency_open": "open"}


def names(plan: Mapping[str, Any]) -> list[str]:
    """The figures that a campaign may have, in the paper's order."""
    return list(FIGURES)


def modules(name: str) -> list[str]:
    """The modules that draw this figure and not every figure."""
    own = FIGURES[name].function.__module__
    return [] if own == __name__ else [own]


def caption(name: str, table: pd.DataFrame) -> str:
    """The caption with what the table says: sizes, engine, seconds of a run, n and kind of the bars, shared host."""
    rows = numbers.of_class(table, name) if name in numbers.CLASSES else table
    rows = rows[rows["workload"].isin(WORKLOADS[name])] if name in WORKLOADS else rows
    rows = gaps.chosen(rows) if name in ("gaps", "front") else rows
    rows = rows[rows["loop"] == LOOPS[name]] if name in LOOPS else rows
    rows = PARTS[name](rows) if name in PARTS else rows
    sizes = sorted(rows["object_size_bytes"].dropna().unique()) if name in numbers.CLASSES else []
    seconds = sorted(rows["duration_s"].unique()) if "duration_s" in rows else []
    shared = rows["shared_host"].astype(bool) if "shared_host" in rows else pd.Series([False])
    text = FIGURES[name].caption.format(
        sizes=" and ".join(units.format_size(int(s)) for s in sizes),
        engine=numbers.joined(rows["engine"]) if "engine" in rows else "",
        seconds=" and ".join(f"{s:g}" for s in seconds),
        bars=words.bars_text(rows) if "interval" in rows else "",
        scaling="Front-ends and clients share the cores of one host: what more front-ends would bring, this figure cannot tell."
        if shared.any() and not limits(rows).any()
        else "",
        shared=("Client and server share one host." if shared.all() else "Some clients share the server's host." if shared.any() else "")
        + (" Open symbols: client-bound, near what the clients could do at most." if client_bound(rows).any() else "")
        + (
            " Dotted: what the same clients reach at a near-null server on the store's side."
            if name in numbers.CLASSES and limits(rows).any()
            else ""
        ),
    )
    return text.strip()

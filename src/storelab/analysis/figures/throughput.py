"""Figures of whole objects against the number of clients, and of one client against its threads.

The first figures correspond to figures 1 to 8 of J. Phys.: Conf. Ser. 664 (2015) 022001. Rates are medians in the
`overlap` window. For large objects, the figures show throughput; for small objects and HEAD requests, they show
operations per second. The figures of one client show rates against its threads, and the resources that it used. This is
experiment 1 of the evaluations (docs/evaluations.md), in which a client with up to 200 threads ran out of sockets and
memory.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from storelab.analysis.figures import panels
from storelab.analysis.figures.specification import Curve, Measure, Reference, Specification
from storelab.analysis.parts import groups, labels
from storelab.analysis.parts.groups import LARGE
from storelab.analysis.records import published
from storelab.analysis.records.links import CLIENTS
from storelab.analysis.tables.earlier import PRINTED
from storelab.analysis.tables.throughput import CLASSES
from storelab.core import units

# --- against clients ---

MB_PER_S, PER_S = Curve("throughput", "mb_per_s"), Curve("rate", "per_s")
PIECE = 0.06  # half the length of a line that is valid for only one number of clients, as a fraction of the axis
CAPTION = (
    " of {sizes} objects against the number of clients, by front-ends ({engine}, runs of {seconds} s). "
    "Medians in the window in which all clients are active; {bars}. {shared}{limit}"
)


def class_filter(name: str) -> dict[str, object]:
    """Return the conditions that select the rows of a class of `tables.throughput.CLASSES`."""
    chosen = CLASSES[name]
    sizes = {} if chosen.large is None else {"object_size_bytes": f"{'>=' if chosen.large else '<'} {LARGE}"}
    return {"workload": chosen.workload, **sizes}


def limits(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
    """Yield reference lines for the capacity of the known links and for the ceiling of each engine.

    Each line extends over the numbers of clients for which it is valid.
    """
    whole = measure.curves == (MB_PER_S,)
    yield from _links(rows[panels.links(rows)], whole, rows["clients"])
    with_ceiling = rows[panels.ceilings(rows)]
    if with_ceiling.empty:  # records without ceilings do not have this column
        return
    unit = with_ceiling["object_size_bytes"].astype(float) / 1e6 if whole else 1.0
    rates = with_ceiling["ceiling_rate_per_s"].astype(float) * unit
    for engine, of_engine in with_ceiling.groupby("engine"):
        for workers, part in of_engine.groupby("workers"):
            several = of_engine["workers"].nunique() > 1
            label = f"ceiling of {engine}" + (f", {labels.value_text('workers', workers)}" if several else "")
            yield Reference(_over(rates[part.index].groupby(part["clients"]).max(), rows["clients"]), ":", label)


def _links(near_limit: pd.DataFrame, whole: bool, clients: pd.Series) -> Iterator[Reference]:
    """Yield reference lines for links in MB/s (`whole`), or in objects per second if all objects have the same size."""
    if near_limit.empty:
        return
    carried = near_limit["link_bits_per_s"].astype(float) / 8e6
    if not whole:
        sizes = near_limit["object_size_bytes"].astype(float).where(near_limit["workload"].isin(("put", "get")))
        carried = 1e6 * carried / (sizes if sizes.nunique() == 1 else float("nan"))
    # The limit from the clients' links is one line, because it does not depend on the number of front-ends.
    ends = near_limit["front_ends"].fillna(1).mask(near_limit["link_of"] == CLIENTS, 0)
    for (owner, _), line in carried.dropna().groupby([near_limit["link_of"], ends]):
        yield Reference(_over(line.groupby(near_limit["clients"]).min(), clients), "--", f"{owner}' links")


def _over(line: pd.Series, every: pd.Series) -> pd.Series:
    """Return a line through these points, or a short segment if there is only one point.

    every: the numbers of clients of the panel.
    """
    if len(line) > 1:
        return line
    at, side = line.index[0], PIECE * (every.max() - every.min())
    side = min(side or at, at / 3)  # the axis can be logarithmic
    return pd.Series([line.iloc[0]] * 2, index=[at - side, at + side])


def _measured(table: pd.DataFrame, curve: Curve) -> pd.DataFrame:
    """Return the rows that have a value.

    There are none if more than two systems were measured at only one number of clients. The figure `systems` compares
    these.
    """
    table = table[table[curve.column()].notna()]
    return table.iloc[:0] if table["store"].nunique() > 2 and table["clients"].nunique() == 1 else table


def _heading(first: pd.Series, rows: pd.DataFrame) -> str:
    size = units.format_size(int(first["object_size_bytes"]))
    return first["store"] if rows["object_size_bytes"].nunique() == 1 else f"{first['store']}, {size}"


def _against_clients(name: str, what: str, title: str, curve: Curve, label: str) -> Specification:
    return Specification(
        table="throughput",
        further_tables=("points",),
        where=class_filter(name),
        prepare=lambda table: _measured(table, curve),
        measures=(Measure((curve,), label),),
        hue=("front_ends",),
        panels=("store", "object_size_bytes"),
        heading=_heading,
        references=limits,
        title=f"{title} of {{sizes}} objects ({{engine}})",
        caption=what + CAPTION,
    )


THROUGHPUT_DOWNLOAD = _against_clients(
    "throughput_download", "Aggregated download throughput", "Download", MB_PER_S, "Aggregated throughput [MB/s]"
)
THROUGHPUT_UPLOAD = _against_clients(
    "throughput_upload", "Aggregated upload throughput", "Upload", MB_PER_S, "Aggregated throughput [MB/s]"
)
METADATA_DOWNLOAD = _against_clients(
    "metadata_download", "Downloads per second", "Download", PER_S, "Downloads [objects/s]"
)
METADATA_UPLOAD = _against_clients("metadata_upload", "Uploads per second", "Upload", PER_S, "Uploads [objects/s]")
METADATA_STAT = _against_clients(
    "metadata_stat", "HEAD requests per second", "HEAD", PER_S, "HEAD requests [objects/s]"
)
METADATA_LIST = Specification(
    table="throughput",
    where=class_filter("metadata_list"),
    prepare=lambda table: _measured(table, PER_S),
    measures=(Measure((PER_S,), "Keys listed [keys/s]"),),
    hue=("page_size", "prefix_depth"),
    panels=("store", "keys"),
    heading=lambda first, _: f"{first['store']}, {labels.value_text('keys', first['keys'])}",
    title="Listings ({engine})",
    caption="Keys listed per second against the number of clients, by pages and by folders below the one that is "
    "listed ({engine}, runs of {seconds} s). Medians in the window in which all clients are active; {bars}. {shared}",
)


# --- one client and its threads ---

OPERATIONS_2012 = {"put": ("upload", "^"), "get": ("download", "v")}
OPERATIONS = ("put", "get", "get_range", "delete", "stat")


def against_workers(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows for figures against the threads of one client. table: groups of points of OPERATIONS.

    The rows are closed loops at the smallest number of clients, with more than one number of workers. Two columns are
    added: `deployment`, and `moved`, the bytes of one operation.
    """
    if "workers" not in table or table.empty:
        return table.iloc[:0]
    rows = table[table["workers"].notna()]
    if "arrival_rate" in rows:
        rows = rows[rows["arrival_rate"].fillna(0) == 0]
    rows = rows[rows["clients"] == rows["clients"].min()]
    swept = rows.groupby(["store", "workload", "object_size_bytes"], dropna=False)["workers"].transform("nunique") > 1
    rows = groups.labelled(rows[swept]) if len(rows) else rows
    if rows.empty:
        return rows
    ranged = rows["workload"] == "get_range"
    moved = rows["object_size_bytes"].astype(float)
    if "range_size_bytes" in rows:
        moved = moved.mask(ranged, rows["range_size_bytes"].astype(float))
    return rows.assign(moved=moved.where(rows["workload"].isin(groups.MOVING), 0))


def _rates(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the column `shown`: `throughput` if all operations of the panel are large, else `rate`."""
    rows = rows[rows["rate_median_per_s"].notna()]
    least = rows.groupby(["object_size_bytes", "deployment"])["moved"].transform("min")
    return rows.assign(shown=(least >= groups.LARGE).map({True: "throughput", False: "rate"}))


def _used(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["time_wait_more_median_sockets"].notna() | rows["client_rss_median_mb"].notna()]


def _size_heading(first: pd.Series, rows: pd.DataFrame) -> str:
    size = f"{units.format_size(int(first['object_size_bytes']))} objects"
    return f"{first['deployment']}, {size}" if rows["deployment"].nunique() > 1 else size


def values_of_2012(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
    """Yield the values of one client that were published in 2012, with their published spread.

    They are drawn only in panels with one client, one bucket, and an object size of that publication.
    """
    sizes = {PRINTED.get(int(size)) for size in rows["object_size_bytes"].dropna()}
    buckets = rows["buckets"].fillna(1) if "buckets" in rows else pd.Series([1])
    if len(sizes) != 1 or None in sizes or (rows["clients"] != 1).any() or not (buckets == 1).any():
        return
    table = published.load("uds1_2012_single_client_threads")
    column = "mb_per_s" if measure.curves == (MB_PER_S,) else "files_per_s"
    for workload, (operation, marker) in OPERATIONS_2012.items():
        own = table[(table["object_size_printed"] == min(sizes)) & (table["operation"] == operation)]
        if (rows["workload"] == workload).any():
            points = own.set_index("threads")
            label = f"published 2012: {operation} (UDS 1, 1 bucket)"
            yield Reference(points[column], label=label, marker=marker, spread=points[f"{column}_err"])


def _describe_2012(rows: pd.DataFrame) -> str:
    known = rows[
        rows["object_size_bytes"].isin(list(PRINTED)) & (rows["clients"] == 1) & rows["workload"].isin(OPERATIONS_2012)
    ]
    if known.empty:
        return ""
    return (
        "Hollow and grey: published in 2012 for one client of another system (Huawei UDS, first generation, one "
        "bucket; the client had 1 Gb/s), as printed, with the printed spread."
    )


_SHARED: dict[str, Any] = {
    "where": {"workload": OPERATIONS},
    "rows": against_workers,
    "several": ("workers",),
    "x": "workers",
    "x_label": "Workers per client",
    "hue": ("workload",),
    "within": True,
    "panels": ("object_size_bytes", "deployment"),
    "swept": True,
    "heading": _size_heading,
}
THREADS = Specification(
    table="throughput",
    prepare=_rates,
    measures=(
        Measure((PER_S,), "objects/s", where={"shown": "rate"}),
        Measure((MB_PER_S,), "MB/s", where={"shown": "throughput"}),
    ),
    title="Threads: {deployment}{clients} ({engine})",
    caption="Rates at the smallest number of clients against the workers (threads or connections) of each, by "
    "operation and buckets ({engine}, runs of {seconds} s). Medians; {bars}. {shared}{published}",
    references=values_of_2012,
    published=_describe_2012,
    **_SHARED,
)
CLIENT_RESOURCES = Specification(
    table="resources",
    prepare=_used,
    measures=(
        Measure(
            (
                Curve("open", "sockets", "open at the clients"),
                Curve("time_wait_more", "sockets", "TIME_WAIT, more than before", ":"),
            ),
            "TCP sockets",
        ),
        Measure((Curve("client_rss", "mb", "resident, at most"),), "Memory of the clients [MB]"),
        Measure(
            (Curve("client_user", "cores", "user"), Curve("client_system", "cores", "system", ":")),
            "CPU of the clients [cores]",
        ),
    ),
    columns=True,
    labels=5,
    height=2.1,
    title="Resources of the client: {deployment}{clients} ({engine})",
    caption="Resources that the client used ({engine}): the maximum of open sockets of its processes, and how many "
    "more were in TIME_WAIT on its host than at the start (including those of a server on the same host); the maximum "
    "memory of its processes; their CPU. Medians; {bars}. {shared}",
    **_SHARED,
)

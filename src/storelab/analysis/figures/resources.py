"""Figures of one client: rates against its threads, and what it used meanwhile.

After experiment 1 of the evaluations (docs/campaigns.md): threads 1 to 200 of one client, which ran out of sockets
and memory. Nothing where no more than one number of workers was measured.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from storelab.analysis.figures.specification import Curve, Measure, Reference, Specification
from storelab.analysis.figures.throughput import MB_PER_S, PER_S
from storelab.analysis.parts import groups, speed
from storelab.analysis.records import published
from storelab.analysis.tables.earlier import PRINTED
from storelab.core import units

OF_2012 = {"put": ("upload", "^"), "get": ("download", "v")}
OPERATIONS = ("put", "get", "get_range", "delete", "stat")


def against_workers(table: pd.DataFrame) -> pd.DataFrame:
    """Of a table of groups of OPERATIONS the rows that show the threads of one client: of the least number of
    clients, in a closed loop, where more than one number of workers was measured; with `deployment` and `moved`,
    the bytes of one operation."""
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
    return rows.assign(moved=moved.where(rows["workload"].isin(speed.MOVING), 0))


def _rates(rows: pd.DataFrame) -> pd.DataFrame:
    """With `shown`: what the panel of a row shows, MB/s only where all of its operations are large."""
    rows = rows[rows["rate_median_per_s"].notna()]
    least = rows.groupby(["object_size_bytes", "deployment"])["moved"].transform("min")
    return rows.assign(shown=(least >= speed.LARGE).map({True: "throughput", False: "rate"}))


def _used(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["time_wait_more_median_sockets"].notna() | rows["client_rss_median_mb"].notna()]


def _heading(first: pd.Series, rows: pd.DataFrame) -> str:
    size = f"{units.format_size(int(first['object_size_bytes']))} objects"
    return f"{first['deployment']}, {size}" if rows["deployment"].nunique() > 1 else size


def of_2012(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
    """Yield the table of one client with its threads of 2012 in panels of one client, one bucket and objects of its
    sizes: as printed, with the printed spread."""
    sizes = {PRINTED.get(int(size)) for size in rows["object_size_bytes"].dropna()}
    buckets = rows["buckets"].fillna(1) if "buckets" in rows else pd.Series([1])
    if len(sizes) != 1 or None in sizes or (rows["clients"] != 1).any() or not (buckets == 1).any():
        return
    table = published.load("uds1_2012_single_client_threads")
    column = "mb_per_s" if measure.curves == (MB_PER_S,) else "files_per_s"
    for workload, (operation, marker) in OF_2012.items():
        own = table[(table["object_size_printed"] == min(sizes)) & (table["operation"] == operation)]
        if (rows["workload"] == workload).any():
            points = own.set_index("threads")
            label = f"published 2012: {operation} (UDS 1, 1 bucket)"
            yield Reference(points[column], label=label, marker=marker, spread=points[f"{column}_err"])


def _said_of_2012(rows: pd.DataFrame) -> str:
    known = rows[
        rows["object_size_bytes"].isin(list(PRINTED)) & (rows["clients"] == 1) & rows["workload"].isin(OF_2012)
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
    "heading": _heading,
}
FIGURES = {
    "threads": Specification(
        table="throughput",
        prepare=_rates,
        measures=(
            Measure((PER_S,), "objects/s", where={"shown": "rate"}),
            Measure((MB_PER_S,), "MB/s", where={"shown": "throughput"}),
        ),
        title="Threads: {deployment}{clients} ({engine})",
        caption="Rates of the least number of clients against the workers (threads or connections) of each, by "
        "operation and buckets "
        "({engine}, runs of {seconds} s). Medians; {bars}. {shared}{published}",
        references=of_2012,
        published=_said_of_2012,
        **_SHARED,
    ),
    "client_resources": Specification(
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
        title="What the client used: {deployment}{clients} ({engine})",
        caption="What the client used meanwhile ({engine}): the most sockets that its processes held open, and how "
        "many more were in "
        "TIME_WAIT on its host than at the start (those of a server on the same host included); the most memory of "
        "its processes; their "
        "CPU. Medians; {bars}. {shared}",
        **_SHARED,
    ),
}

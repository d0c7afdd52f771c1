"""Figures of whole objects against clients, after figures 1 to 8 of J. Phys.: Conf. Ser. 664 (2015) 022001.

Rates are medians in the `overlap` window. Large objects show throughput; small ones and
HEAD requests, the rate of operations.
"""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.figures.panels import limits
from storelab.analysis.figures.specification import Curve, Measure, Reference, Specification
from storelab.analysis.parts import words
from storelab.analysis.parts.speed import LARGE
from storelab.analysis.tables.throughput import CLASSES
from storelab.core import units

MB_PER_S, PER_S = Curve("throughput", "mb_per_s"), Curve("rate", "per_s")
CAPTION = (
    " of {sizes} objects against the number of clients, by front-ends ({engine}, runs of {seconds} s). "
    "Medians in the window in which all clients are active; {bars}. {shared}{limit}"
)


def of_class(name: str) -> dict[str, object]:
    """The rows of one of `tables.throughput.CLASSES`."""
    chosen = CLASSES[name]
    sizes = {} if chosen.large is None else {"object_size_bytes": f"{'>=' if chosen.large else '<'} {LARGE}"}
    return {"workload": chosen.workload, **sizes}


def network_limit(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
    """What the clients of several nodes reach at a near-null server, against their number, where the calibration
    knows."""
    known = rows[limits(rows)]
    if len(known):
        unit = known["object_size_bytes"].astype(float) / 1e6 if measure.curves == (MB_PER_S,) else 1.0
        line = (known["ceiling_rate_per_s"].astype(float) * unit).groupby(known["clients"]).max()
        yield Reference(line, ":", "network limit")


def _measured(table: pd.DataFrame, curve: Curve) -> pd.DataFrame:
    """Rows with a value. Many systems at one number of clients: `systems` shows them side by side."""
    table = table[table[curve.column()].notna()]
    return table.iloc[:0] if table["store"].nunique() > 2 and table["clients"].nunique() == 1 else table


def _heading(first: pd.Series, rows: pd.DataFrame) -> str:
    size = units.format_size(int(first["object_size_bytes"]))
    return first["store"] if rows["object_size_bytes"].nunique() == 1 else f"{first['store']}, {size}"


def _against_clients(name: str, what: str, title: str, curve: Curve, label: str) -> Specification:
    return Specification(
        table="throughput",
        where=of_class(name),
        prepare=lambda table: _measured(table, curve),
        measures=(Measure((curve,), label),),
        hue=("front_ends",),
        panels=("store", "object_size_bytes"),
        heading=_heading,
        references=network_limit,
        title=f"{title} of {{sizes}} objects ({{engine}})",
        caption=what + CAPTION,
    )


FIGURES = {
    "throughput_download": _against_clients(
        "throughput_download", "Aggregated download throughput", "Download", MB_PER_S, "Aggregated throughput [MB/s]"
    ),
    "throughput_upload": _against_clients(
        "throughput_upload", "Aggregated upload throughput", "Upload", MB_PER_S, "Aggregated throughput [MB/s]"
    ),
    "metadata_download": _against_clients(
        "metadata_download", "Downloads per second", "Download", PER_S, "Downloads [objects/s]"
    ),
    "metadata_upload": _against_clients(
        "metadata_upload", "Uploads per second", "Upload", PER_S, "Uploads [objects/s]"
    ),
    "metadata_stat": _against_clients(
        "metadata_stat", "HEAD requests per second", "HEAD", PER_S, "HEAD requests [objects/s]"
    ),
    "metadata_list": Specification(
        table="throughput",
        where=of_class("metadata_list"),
        prepare=lambda table: _measured(table, PER_S),
        measures=(Measure((PER_S,), "Keys listed [keys/s]"),),
        hue=("page_size", "prefix_depth"),
        panels=("store", "keys"),
        heading=lambda first, _: f"{first['store']}, {words.value_text('keys', first['keys'])}",
        title="Listings ({engine})",
        caption="Keys listed per second against the number of clients, by pages and by folders below the one that is "
        "listed ({engine}, runs of {seconds} s). Medians in the window in which all clients are active; {bars}. "
        "{shared}",
    ),
}

"""Figures of whole objects against clients, after figures 1 to 8 of J. Phys.: Conf. Ser. 664 (2015) 022001.

Rates are medians in the `overlap` window. Large objects show throughput; small ones and
HEAD requests, the rate of operations.
"""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.figures import panels
from storelab.analysis.figures.specification import Curve, Measure, Reference, Specification
from storelab.analysis.parts import words
from storelab.analysis.parts.speed import LARGE
from storelab.analysis.records.links import CLIENTS
from storelab.analysis.tables.throughput import CLASSES
from storelab.core import units

MB_PER_S, PER_S = Curve("throughput", "mb_per_s"), Curve("rate", "per_s")
PIECE = 0.06  # of the axis: the length to each side of a line that holds for one number of clients
CAPTION = (
    " of {sizes} objects against the number of clients, by front-ends ({engine}, runs of {seconds} s). "
    "Medians in the window in which all clients are active; {bars}. {shared}{limit}"
)


def of_class(name: str) -> dict[str, object]:
    """The rows of one of `tables.throughput.CLASSES`."""
    chosen = CLASSES[name]
    sizes = {} if chosen.large is None else {"object_size_bytes": f"{'>=' if chosen.large else '<'} {LARGE}"}
    return {"workload": chosen.workload, **sizes}


def limits(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
    """Lines of what the known links can carry, by whose they are, and of the ceiling of each engine: each over the
    numbers of clients that it holds for."""
    whole = measure.curves == (MB_PER_S,)
    yield from _links(rows[panels.links(rows)], whole, rows["clients"])
    own = rows[panels.ceilings(rows)]
    if own.empty:  # records without ceilings have no column of them
        return
    unit = own["object_size_bytes"].astype(float) / 1e6 if whole else 1.0
    rates = own["ceiling_rate_per_s"].astype(float) * unit
    for engine, of_engine in own.groupby("engine"):
        for workers, part in of_engine.groupby("workers"):
            several = of_engine["workers"].nunique() > 1
            said = f"ceiling of {engine}" + (f", {words.value_text('workers', workers)}" if several else "")
            yield Reference(_over(rates[part.index].groupby(part["clients"]).max(), rows["clients"]), ":", said)


def _links(own: pd.DataFrame, whole: bool, clients: pd.Series) -> Iterator[Reference]:
    """Lines of links, in MB/s (whole), else in objects of one size per second."""
    if own.empty:
        return
    carried = own["link_bits_per_s"].astype(float) / 8e6
    if not whole:
        sizes = own["object_size_bytes"].astype(float).where(own["workload"].isin(("put", "get")))
        carried = 1e6 * carried / (sizes if sizes.nunique() == 1 else float("nan"))
    ends = own["front_ends"].fillna(1).mask(own["link_of"] == CLIENTS, 0)  # one line for the clients, whatever they use
    for (of, _), line in carried.dropna().groupby([own["link_of"], ends]):
        yield Reference(_over(line.groupby(own["clients"]).min(), clients), "--", f"{of}' links")


def _over(line: pd.Series, every: pd.Series) -> pd.Series:
    """A line through these points; through one, a short piece of it. every: the numbers of clients of the panel."""
    if len(line) > 1:
        return line
    at, side = line.index[0], PIECE * (every.max() - every.min())
    side = min(side or at, at / 3)  # an axis of many clients is logarithmic
    return pd.Series([line.iloc[0]] * 2, index=[at - side, at + side])


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
        beside=("points",),
        where=of_class(name),
        prepare=lambda table: _measured(table, curve),
        measures=(Measure((curve,), label),),
        hue=("front_ends",),
        panels=("store", "object_size_bytes"),
        heading=_heading,
        references=limits,
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

"""`one_client.csv`: the table of one client and its threads of 2012, as printed, with ours beside.

Ours are points of one client on whole objects of the printed sizes, in a closed loop; threads there, workers here. Both
rates stand as they are: neither is scaled, and a cell that was not printed is empty.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from storelab.analysis.parts import groups, words
from storelab.analysis.records import published
from storelab.analysis.tables.throughput import RATES

PRINTED = {4000: "4 kB", 4096: "4 kB", 10**7: "10 MB", 10 * 2**20: "10 MB"}  # sizes of 2012, which may be binary
OPERATIONS = {"put": "upload", "get": "download"}
SHOWN = ("engine", "object_size_bytes", "clients", "workers", "buckets")  # axes with a column, or one value
SOURCE, SYSTEM, MEASURED = "2012 minor review", "Huawei UDS, first generation", "measured"
COLUMNS = (
    "operation",
    "object_size",
    "source",
    "system",
    "engine",
    "buckets",
    "setting",
    "workers",
    "n",
    "interval",
    "few",
    *(f"{name}_{part}_{unit}" for name, unit in RATES for part in ("median", "low", "high", "spread")),
    "note",
)
_AS_PRINTED = {"rate_{}_per_s": "files_per_s", "throughput_{}_mb_per_s": "mb_per_s"}


def ours(throughput: pd.DataFrame) -> pd.DataFrame:
    """The rows of throughput.csv that have the printed operations, sizes and number of clients, with `object_size`."""
    needed = {"object_size_bytes", "clients", "workers", "buckets"}
    if throughput.empty or not needed <= set(throughput):
        return throughput.iloc[:0].assign(object_size="")
    size = throughput["object_size_bytes"].astype("Float64").map(PRINTED)
    own = throughput[(throughput["clients"] == 1) & throughput["workload"].isin(OPERATIONS) & size.notna()]
    if "arrival_rate" in own:
        own = own[own["arrival_rate"].fillna(0) == 0]
    if own.empty:
        return own.assign(object_size="")
    axes = [c for c in words.axes_of(own) if c not in (*SHOWN, *words.DEPLOYMENT_NAMES)]
    told = [[words.value_text(c, r[c]) for c in axes if not words.is_default(c, r[c])] for _, r in own.iterrows()]
    return groups.labelled(own).assign(object_size=size, setting=[", ".join(filter(None, t)) for t in told])


def _printed(operation: str, size: str) -> Iterator[dict[str, Any]]:
    table = published.load("uds1_2012_single_client_threads")
    chosen = table[(table["operation"] == operation) & (table["object_size_printed"] == size)]
    for r in chosen.to_dict("records"):
        rates = {ours.format("median"): r[theirs] for ours, theirs in _AS_PRINTED.items()}
        rates |= {ours.format("spread"): r[f"{theirs}_err"] for ours, theirs in _AS_PRINTED.items()}
        yield {"source": SOURCE, "system": SYSTEM, "buckets": 1, "workers": r["threads"], "note": r["note"]} | rates


def table(throughput: pd.DataFrame) -> pd.DataFrame:
    """By operation and size, of those that were measured here: the printed rows, then ours."""
    own, out = ours(throughput), []
    for size in dict.fromkeys(PRINTED.values()):
        for workload, operation in OPERATIONS.items():
            mine = own[(own["workload"] == workload) & (own["object_size"] == size)] if len(own) else own
            if mine.empty:
                continue
            head = {"operation": operation, "object_size": size}
            out += [head | row for row in _printed(operation, size)]
            mine = mine.sort_values(["deployment", "engine", "buckets", "setting", "workers"], kind="stable")
            told = [c for c in COLUMNS if c in mine and c != "object_size"]
            for r in mine.to_dict("records"):
                out.append(head | {"source": MEASURED, "system": r["deployment"]} | {c: r[c] for c in told})
    return pd.DataFrame(out, columns=list(COLUMNS)).astype(dict.fromkeys(("buckets", "workers", "n"), "Int64"))

"""Estimate how many clients fill a link, and how much data a campaign with many clients records.

The rate of a client is limited by its own link, and by its ceiling against a near-null server (`calibration.csv`). For
a campaign without calibration, the highest measured rate is used instead. The size of records per operation is taken
from the campaign.
"""

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storelab.analysis.records.campaign import Campaign
from storelab.core import integrity
from storelab.core.errors import UserError


@dataclass(frozen=True)
class Client:
    """The highest rate of one client in bytes/s, and the source of the number."""

    bytes_per_s: float
    source: str


# Tables with the rate of a client, the preferred one first: table, label, columns of operation and rate.
PLACES = (
    ("calibration", "its ceiling in", "operation", "rate_per_s"),
    ("throughput", "its highest rate in", "workload", "rate_median_per_s"),
)


def _rows(tables: dict[str, pd.DataFrame], name: str, column: str, rate: str, operation: str, engine: str):
    """Return the rows of a table for an operation and engine, with any object size.

    column, rate: the columns of the operation and of the rate.
    """
    t = tables[name]
    if not len(t):
        return t
    rows = t[(t[column] == operation) & (t["engine"] == engine) & t[rate].notna()]
    return rows[rows["target"] == "network"] if name == "calibration" else rows


def largest(tables: dict[str, pd.DataFrame], operation: str, engine: str) -> int | None:
    """Return the largest measured object size in bytes for an operation and engine, or None if none was measured."""
    found = [_rows(tables, name, column, rate, operation, engine) for name, _, column, rate in PLACES]
    sizes = [rows["object_size_bytes"].max() for rows in found if len(rows)]
    return int(max(sizes)) if sizes else None


def one_client(
    campaign: Campaign, tables: dict[str, pd.DataFrame], operation: str, engine: str, size: int | None
) -> Client:
    """Return the rate of one client from the calibration, otherwise from the points of the campaign.

    Raises UserError if neither has this operation, engine and object size.
    """
    for name, label, column, rate in PLACES:
        rows = _rows(tables, name, column, rate, operation, engine)
        rows = rows[rows["object_size_bytes"] == size] if len(rows) else rows
        if size and len(rows):
            each = rows[rate].astype(float) / rows["clients"].astype(float)
            return Client(float(each.max()) * size, f"{label} {campaign.plan['campaign']['name']}")
    known = tables["throughput"][["workload", "engine", "object_size_bytes"]].dropna().drop_duplicates()
    measured = "; ".join(f"{r.workload} {r.engine} {int(r.object_size_bytes)} B" for r in known.itertuples())
    what = f"{operation} of {size} B by {engine}" if size else f"{operation} by {engine}"
    hint = f"use one of: {measured}" if measured else "measure it first"
    raise UserError("size", f"the campaign has no measurement of {what}", hint)


def clients_for(link: float, client_link: float, most: float) -> int:
    """Return how many clients fill a link, if each has its own link and reaches at most the rate `most`.

    link, client_link, most: bytes/s.
    """
    return math.ceil(link / min(client_link, most))


def record_bytes(campaign: Campaign) -> tuple[float, float]:
    """Return the bytes of records per operation (files `ops`), and the other bytes per client of a point.

    The other bytes are those of run.json and of the samples of the monitor.
    """
    operations = clients = rows = rest = 0
    for key, run in campaign.runs.items():
        clients += len(run["clients"])
        operations += sum(c["operations"] for c in run["clients"])
        rest += sum(map(len, integrity.texts(campaign.raw, key).values()))
        for name, entry in run["files"].items():
            if name.startswith("ops."):
                rows += entry["bytes"]
            else:
                rest += entry["bytes"]
    if not operations or not clients:
        raise UserError("size", "the campaign has no operations", "name a campaign with operations")
    return rows / operations, rest / clients


def estimate(campaign: Campaign, clients: int, points: int, seconds: float, rate_per_s: float) -> dict[str, Any]:
    """Return the expected size of records in bytes, and the number of files, of a campaign.

    clients: number of clients of each point; points: number of points; seconds: duration of a point; rate_per_s:
    operations/s of one client.
    """
    per_operation, per_client = record_bytes(campaign)
    operations = clients * seconds * rate_per_s
    return {
        "operations a point": operations,
        "records a point": operations * per_operation + clients * per_client,
        "records of the campaign": points * (operations * per_operation + clients * per_client),
        "files of the campaign": points * (clients + 2),
    }

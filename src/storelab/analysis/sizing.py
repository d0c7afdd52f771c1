"""How many clients fill a link, and what a campaign of many clients leaves: estimates from what was measured.

A client moves what its own link lets through, and what it could do at most against a near-null server
(`calibration.csv`), where the campaign was calibrated, else the most that it did. Records take what those of the
campaign take for an operation.
"""

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storelab.analysis.records.campaign import Campaign
from storelab.core import evidence
from storelab.core.errors import UserError


@dataclass(frozen=True)
class Client:
    """What one client does at most: bytes/s, and where the number is from."""

    bytes_per_s: float
    source: str


# In which table a client's rate is looked for, first the better: how it is told, its columns of operation and rate.
PLACES = (
    ("calibration", "its ceiling in", "operation", "rate_per_s"),
    ("throughput", "the most that it did in", "workload", "rate_median_per_s"),
)


def _rows(tables: dict[str, pd.DataFrame], name: str, column: str, rate: str, operation: str, engine: str):
    """The rows of this table that tell what a client of this engine does, of every object size."""
    t = tables[name]
    if not len(t):
        return t
    rows = t[(t[column] == operation) & (t["engine"] == engine) & t[rate].notna()]
    return rows[rows["target"] == "network"] if name == "calibration" else rows


def largest(tables: dict[str, pd.DataFrame], operation: str, engine: str) -> int | None:
    """The largest object size, in bytes, that was measured of this operation and engine; None: none was."""
    found = [_rows(tables, name, column, rate, operation, engine) for name, _, column, rate in PLACES]
    sizes = [rows["object_size_bytes"].max() for rows in found if len(rows)]
    return int(max(sizes)) if sizes else None


def one_client(
    campaign: Campaign, tables: dict[str, pd.DataFrame], operation: str, engine: str, size: int | None
) -> Client:
    """By the calibration of this engine and object size with one client, else by the campaign's points. Raises
    UserError: neither."""
    for name, label, column, rate in PLACES:
        rows = _rows(tables, name, column, rate, operation, engine)
        rows = rows[rows["object_size_bytes"] == size] if len(rows) else rows
        if size and len(rows):
            each = rows[rate].astype(float) / rows["clients"].astype(float)
            return Client(float(each.max()) * size, f"{label} {campaign.plan['campaign']['name']}")
    known = tables["throughput"][["workload", "engine", "object_size_bytes"]].dropna().drop_duplicates()
    told = "; ".join(f"{r.workload} {r.engine} {int(r.object_size_bytes)} B" for r in known.itertuples())
    what = f"{operation} of {size} B by {engine}" if size else f"{operation} by {engine}"
    raise UserError("size", f"the campaign measured no {what}", f"it has: {told or 'nothing'}")


def clients_for(link: float, client_link: float, most: float) -> int:
    """How many clients fill `link`, in bytes/s, each with a link of its own and doing `most` at most."""
    return math.ceil(link / min(client_link, most))


def record_bytes(campaign: Campaign) -> tuple[float, float]:
    """Bytes of records for an operation (of the files `ops`), and for a client of a point beside them (run.json,
    monitor)."""
    operations = clients = rows = rest = 0
    for key, run in campaign.runs.items():
        clients += len(run["clients"])
        operations += sum(c["operations"] for c in run["clients"])
        rest += sum(map(len, evidence.texts(campaign.raw, key).values()))
        for name, told in run["files"].items():
            if name.startswith("ops."):
                rows += told["bytes"]
            else:
                rest += told["bytes"]
    if not operations or not clients:
        raise UserError("size", "the campaign holds no operation", "name another --campaign-dir")
    return rows / operations, rest / clients


def estimate(campaign: Campaign, clients: int, points: int, seconds: float, rate_per_s: float) -> dict[str, Any]:
    """Records and files of a campaign of so many points, each with so many clients at so many operations/s each;
    volumes in bytes."""
    each, beside = record_bytes(campaign)
    operations = clients * seconds * rate_per_s
    return {
        "operations a point": operations,
        "records a point": operations * each + clients * beside,
        "records of the campaign": points * (operations * each + clients * beside),
        "files of the campaign": points * (clients + 2),
    }

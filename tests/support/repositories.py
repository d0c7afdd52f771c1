"""Repositories of software releases in a test bucket: names, keys, strata, and clients that run once."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from refusals import all_refused

from storelab.core.axes import distribution
from storelab.core.model import Point
from storelab.datasets.release import names
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.distribution.stratum import Log, Stratum

KEYS = Credentials("an-access-key", "a-secret-key")
REPOSITORY = "sw.example.org"
MANIFEST, REFLOG = (f"{REPOSITORY}/{name}" for name in (names.MANIFEST, names.REFLOG))


def stratum(server, pattern="cvmfs", kind=Stratum, prefix="") -> Stratum:
    return kind(Endpoint(server.url), Bucket("b"), prefix, KEYS, distribution.PATTERNS[pattern], Log(0))


def point(workload: str, release: dict[str, Any], **axes) -> Point:
    """Return a point with default values of the other axes."""
    values = {a.name: a.default for a in WORKLOADS[workload].axes} | axes
    fixed = {"duration_ns": 60 * 10**9, "warm_up_ns": 0, "data_seed": 1, "release": release}
    return Point("s", workload, values, 1, "k", "nightly", 1, 1, fixed)


def all_refused_at_axes(cases: Iterable[tuple[str, str, Point]]) -> None:
    """Check that each point raises an error at this axis with this text in the message."""
    all_refused((f"sweeps.nightly.axes.{axis}", text, WORKLOADS[p.workload].validate, p) for axis, text, p in cases)


def root_of(objects: Mapping[str, bytes]) -> str:
    """Return the digest of the root catalog from the manifest."""
    return names.manifest_fields(objects[MANIFEST])["C"]


def ran(client, seconds: float = 60.0):
    """Run a client. Return its result and the rows of its table."""
    try:
        client.prepare()
        client.run(time.time_ns(), time.time_ns() + round(seconds * 1e9))
        result = client.result()
    finally:
        client.close()
    (columns,) = result.tables.values()
    return result, [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def changed(objects: dict[str, bytes], changes: dict[str, bytes | None]) -> dict[str, bytes]:
    """Return a copy of the objects with these changes. A change to None removes the object."""
    return {key: body for key, body in (objects | changes).items() if body is not None}


def damaged(body: bytes) -> bytes:
    """Return the bytes with a changed bit in the last byte."""
    return body[:-1] + bytes([body[-1] ^ 1])

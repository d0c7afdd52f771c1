"""Counted transports of the read planner for a store's endpoint.

`default`: S3 by obstore (`obstore`) or s3fs (`fsspec`), every other protocol by fsspec. `http`: presigned GETs (S3) or
plain ones, with several ranges each if the store really answers them. Retries are off; each transport sets its own
time-out for requests. docs/readers.md has the table.
"""

import importlib.metadata
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from storelab.engines.common import s3_library
from storelab.engines.common.wire import Counts, ProcessWire, Wire, port_wire
from storelab.readplan.several import HttpTransport, VectorTransport
from storelab.readplan.transports import FsspecTransport, ObstoreTransport
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.endpoint import Bucket, Endpoint

LIBRARIES = {"s3": "s3fs", "http": "aiohttp", "root": "fsspec-xrootd"}  # behind fsspec
SIGNED_FOR = timedelta(days=1)


class Counted:
    """A transport that counts requests, bytes asked for and bytes of bodies.

    wire: counts wire bytes (None: there is no wire, or it cannot be counted). It has `groups`, `extra` and `ranges` if
    the transport has them.
    """

    def __init__(self, inner: Any, wire: Wire | ProcessWire | None, versions: dict[str, str]):
        self.inner, self.wire, self.versions = inner, wire, versions
        self.library = next((name for name in versions if name != "fsspec"), "fsspec")
        self.asked = self.body = 0
        # Bytes of bodies that came only once although asked for twice: a calibration asks small objects for the same
        # bytes again, and obstore joins such ranges.
        self.twice = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def ranges(self) -> int:
        return getattr(self.inner, "ranges", 1)

    @ranges.setter
    def ranges(self, value: int) -> None:
        self.inner.ranges = value

    def ask(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        """One request for all these ranges (`http` only)."""
        return self._counted(self.inner.ask, starts, stops)

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        return self._counted(self.inner.fetch, starts, stops)

    def _counted(self, way: Any, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        self.asked += sum(stops) - sum(starts)
        parts = way(starts, stops)
        self.body += sum(memoryview(p).nbytes for p in parts)
        return parts

    def calibrated(self) -> None:
        """Call after a calibration: its ranges may have overlapped; those of reads never do."""
        if self.wire and (wire := self.wire.bytes) is not None:
            self.twice = max(0, self.body - wire)

    def now(self) -> Counts:
        wire = self.wire.bytes if self.wire else None
        if self.wire and self.wire.lost:
            wire = None  # the bytes between the last look at a connection and its end are unknown
        if wire is not None and wire < self.body - self.twice:
            wire = None  # the server redirected the client: the bytes came by connections that are not counted
        return Counts(self.inner.requests, self.asked, self.body, wire)


def make(
    endpoint: Endpoint, bucket: Bucket, key: str, library: str, parallel: int, timeout_s: float, way: str = "default"
) -> Counted:
    """A counted transport to an object (key without the bucket's prefix). Raises UserError: no credentials.

    library: for S3, `obstore` or `fsspec`; parallel: requests in flight; way: `default` or `http`.
    """
    if way == "http":
        return _http(endpoint, bucket, key, parallel, timeout_s)
    if library == "obstore" and endpoint.protocol == "s3":
        known = ObstoreTransport(_store(endpoint, bucket, timeout_s), f"{bucket.prefix}{key}", parallel)
        return Counted(known, port_wire(endpoint), _versions("obstore"))
    fs = filesystems.data(endpoint, os.environ, parallel)
    place = filesystems.path(endpoint, bucket, key)
    inner: Any
    if endpoint.protocol == "root":
        inner = VectorTransport(fs, place, owns=True)
    else:
        inner = FsspecTransport(fs, place, parallel, owns=True)
    return Counted(inner, port_wire(endpoint), versions_of(endpoint))


def versions_of(endpoint: Endpoint) -> dict[str, str]:
    """Versions of fsspec and of the library behind it for this protocol."""
    name = LIBRARIES.get(endpoint.protocol)
    return _versions("fsspec", *([name] if name else []))


def _http(endpoint: Endpoint, bucket: Bucket, key: str, parallel: int, timeout_s: float) -> Counted:
    from storelab.engines.common.http_wire import HttpWire

    headers: dict[str, str] = {}
    if endpoint.protocol == "s3":
        import obstore

        url = obstore.sign(_store(endpoint, bucket, timeout_s), "GET", f"{bucket.prefix}{key}", SIGNED_FOR)
        versions = _versions("urllib3") | _versions("obstore")
    else:
        url, versions = quote(filesystems.path(endpoint, bucket, key), safe="/:@[]"), _versions("urllib3")
        headers = filesystems.authorization(endpoint)
    inner = HttpTransport(
        url,
        parallel,
        headers=headers,
        ca_file=endpoint.ca_file,
        verify=endpoint.verify,
        timeout_s=timeout_s,
        certificate=os.environ.get(endpoint.certificate or "", ""),
    )
    wire = HttpWire()
    inner.http.pool_classes_by_scheme = wire.pools()
    return Counted(inner, wire, versions)


def _store(endpoint: Endpoint, bucket: Bucket, timeout_s: float) -> Any:
    return s3_library.store(endpoint, bucket.name, {"timeout": f"{max(1, round(timeout_s))}s"})


def _versions(*names: str) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in names}

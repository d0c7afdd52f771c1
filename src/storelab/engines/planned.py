"""Engine `planned`: selection reads by storelab's read planner and decoder.

`prepare` measures the link through the connections that the reads use. The record stores the link as `link`, and the
requests and bytes of this measurement as `calibration`. docs/readers.md has a table of the transports. `default` uses
obstore (`obstore`) or s3fs (`fsspec`) for S3, and fsspec for all other protocols. `http` sends presigned GET requests
for S3, and plain GET requests otherwise. Each has several ranges if the store answers them correctly. Retries are off.
Each transport sets its own timeout for requests.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import itertools
import json
import os
import time
import zlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import numpy as np

from readplan import Link, measure, transports
from readplan.choose import Requests, plan
from readplan.link import MIN_SIZE, assumed, connect
from readplan.source import fetch
from readplan.transports import FsspecTransport, HttpTransport, ObstoreTransport, VectorTransport
from storelab.core import clock, folders
from storelab.core.errors import UserError
from storelab.datasets.root import baskets
from storelab.datasets.root.pages import PageReader, Pages
from storelab.datasets.root.reader import Header, SelectionReader, Spent
from storelab.engines.common.selections import KEPT_BY_XROOTD, Done, SelectionClient, WrongData, allowed_s, as_staged
from storelab.engines.common.wire import Counts, ProcessWire, Wire, port_wire
from storelab.engines.contract import Job
from storelab.stores.protocols import filesystems, s3_clients
from storelab.stores.protocols.endpoint import Bucket, Endpoint

LIBRARIES = {"s3": "s3fs", "http": "aiohttp", "root": "fsspec-xrootd"}  # the library that fsspec uses
SIGNED_FOR = timedelta(days=1)
PARALLEL = 64
PARALLEL_SEVERAL = 16  # number of requests in flight, if each has several ranges
# minimum distance in bytes between baskets in one request, because a server can merge nearby ranges
MIN_DISTANCE = 1000


class Counted:
    """A transport that counts requests, requested bytes, and bytes of bodies.

    wire: counter of the wire bytes; None if there is no network, or they cannot be counted. The attributes `groups`,
    `extra` and `ranges` exist if the inner transport has them.
    """

    def __init__(self, inner: Any, wire: Wire | ProcessWire | None, versions: dict[str, str]):
        self.inner, self.wire, self.versions = inner, wire, versions
        self.library = next((name for name in versions if name != "fsspec"), "fsspec")
        self.asked = self.body = 0
        # Bytes of bodies that were requested twice but arrived once. A calibration requests the same bytes of a small
        # object again, and obstore joins these ranges.
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
        """Send one request for all these ranges. Only the transport `http` supports this."""
        return self._counted(self.inner.ask, starts, stops)

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        return self._counted(self.inner.fetch, starts, stops)

    def _counted(self, way: Any, starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
        self.asked += sum(stops) - sum(starts)
        parts = way(starts, stops)
        self.body += sum(memoryview(p).nbytes for p in parts)
        return parts

    def calibrated(self) -> None:
        """Record the end of a calibration. Its ranges can overlap; the ranges of reads never overlap."""
        if self.wire and (wire := self.wire.bytes) is not None:
            self.twice = max(0, self.body - wire)

    def now(self) -> Counts:
        wire = self.wire.bytes if self.wire else None
        if self.wire and self.wire.lost:
            # bytes received between the last reading of the counter and the end of the connection are unknown
            wire = None
        if wire is not None and wire < self.body - self.twice:
            wire = None  # the server redirected the client, so the bytes arrived over connections that are not counted
        return Counts(self.inner.requests, self.asked, self.body, wire)


def counted_transport(
    endpoint: Endpoint, bucket: Bucket, key: str, library: str, parallel: int, timeout_s: float, way: str = "default"
) -> Counted:
    """Return a counted transport to an object. Raises UserError if credentials are missing.

    Parameters
    ----------
    endpoint, bucket
        Where the object is stored.
    key
        Key of the object, relative to the bucket's prefix.
    library
        For S3: `obstore` or `fsspec`.
    parallel
        Number of requests in flight.
    timeout_s
        Timeout of a request in seconds.
    way
        `default` or `http`.
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
    """Return the versions of fsspec, and of the library that it uses for this protocol."""
    name = LIBRARIES.get(endpoint.protocol)
    return _versions("fsspec", *([name] if name else []))


def _http(endpoint: Endpoint, bucket: Bucket, key: str, parallel: int, timeout_s: float) -> Counted:
    from storelab.engines.common.wire import HttpWire

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
    return s3_clients.store(endpoint, bucket.name, {"timeout": f"{max(1, round(timeout_s))}s"})


def _versions(*names: str) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in names}


class PlannedBase(SelectionClient):
    """The common part of `planned` and `replay`: the transport, its calibration, and the settings of the planner."""

    library = "obstore"

    def __init__(self, job: Job):
        super().__init__(job)
        axes = job.point.axes
        self.wishes: dict[str, Any] = {"thrift": float(axes["thrift"])}
        if axes["max_amplification"]:
            self.wishes["max_amplification"] = float(axes["max_amplification"])
        self.calibration: dict[str, Any] | None = None
        self.way = axes.get("transport", "default")
        self.multirange: list[dict[str, Any]] | None = None
        # traffic, connections and lost connections of earlier transports
        self.past, self.opened, self.lost = Counts(), 0, 0

    def connect(self, root: dict[str, Any]) -> None:
        endpoint = self.job.endpoint
        self.transport = self.make()
        if endpoint.protocol == "root":
            self.reconnects = KEPT_BY_XROOTD
        self.settings = {
            "retries": 0,
            "protocol": endpoint.protocol,
            "library": self.transport.library,
            "transport": self.way,
            "parallel": self.transport.parallel,
            "timeout_s": self.timeout_s,
            **self.wishes,
        }

    @property
    def timeout_s(self) -> float:
        return allowed_s(self.duration_s)

    def make(self) -> Counted:
        return counted_transport(
            self.job.endpoint, self.bucket, self.object, self.library, PARALLEL, self.timeout_s, self.way
        )

    def fresh(self) -> None:
        """Replace the transport, but keep the known properties of the link and the number of ranges per request.

        A lost connection invalidates the wire bytes of the current read, but not of later reads.
        """
        old = self.transport
        spent = old.now()
        self.past = self.past + (spent if spent.wire_bytes is not None else replace(spent, wire_bytes=0))
        if old.wire:
            self.opened, self.lost = self.opened + old.wire.opened, self.lost + old.wire.lost
        old.close()
        self.transport = self.make()
        if self.multirange:
            self.transport.ranges, self.transport.inner.parallel = old.ranges, old.parallel
        self.last = self.counts()

    def calibrate(self) -> None:
        """Measure the link, or use the link of an earlier point of the sweep.

        Raises the errors of the transport. The first read reports them as its own error.
        """
        before, begun = self.transport.now(), time.perf_counter()
        if self.way == "http":
            self.probe()
        known = self.job.extra.get("links", {})
        mine = known["links"][self.job.client] if "links" in known else None
        shared = mine is not None and (mine["parallel"], mine["ranges"]) == (
            self.transport.parallel,
            self.transport.ranges,
        )
        if shared:
            self.link = Link(**mine | {"curve": tuple(map(tuple, mine["curve"])), "doubtful": ()})
            connect(self.transport, self.size)
        elif self.size < MIN_SIZE:
            self.link = assumed(self.transport.parallel)
        else:
            self.link = measure(self.transport, self.size)
        self.transport.calibrated()
        spent = {"seconds": time.perf_counter() - begun, **asdict(self.transport.now() - before)}
        self.calibration = spent | {"of": known["of"] if shared else self.job.point.key}

    def probe(self) -> None:
        """Test how many ranges the store answers correctly in one request, using known baskets far from each other."""
        order = np.argsort(self.staged.offset)
        offset, size = self.staged.offset[order], self.staged.size[order]
        kept, end = [], -MIN_DISTANCE
        for i in np.flatnonzero(size <= np.quantile(size, 0.5)).tolist():
            if offset[i] >= end + MIN_DISTANCE:
                kept.append(i)
                end = int(offset[i] + size[i])
        crc = self.crc[order][kept].tolist()
        starts, stops = offset[kept].tolist(), (offset + size)[kept].tolist()
        self.multirange = transports.probe(self.transport, starts, stops, lambda i, data: zlib.crc32(data) == crc[i])
        if self.transport.ranges > 1:
            self.transport.inner.parallel = PARALLEL_SEVERAL
        self.settings["parallel"] = self.transport.parallel

    def counts(self) -> Counts:
        return self.past + self.transport.now()

    def connections(self) -> tuple[int, int, int]:
        wire = self.transport.wire
        return (wire.open, wire.most_open, wire.opened + self.opened) if wire else (0, 0, 0)

    def facts(self) -> dict[str, Any]:
        wire = self.transport.wire
        return {
            "libraries": self.transport.versions,
            "connections_lost": wire.lost + self.lost if wire else None,
            **({"link": asdict(self.link), "calibration": self.calibration} if self.calibration else {}),
            **({"multirange": {"ranges": self.transport.ranges, "seen": self.multirange}} if self.multirange else {}),
        }

    def verify(self, rows: np.ndarray, data: list[np.ndarray]) -> None:
        """Raise WrongData for the first basket whose CRC-32 differs from the value in the side-car file."""
        self.check_deadline()
        offset = self.staged.offset[rows].tolist()
        for i, (crc, part) in enumerate(zip(self.crc[rows].tolist(), data, strict=True)):
            if zlib.crc32(part) != crc:
                raise WrongData(
                    "ChecksumMismatch", f"the basket at byte {offset[i]} of {self.key} differs from the staged file"
                )


class PlannedClient(PlannedBase):
    """A client that reads selections of ROOT files by requests that the read planner chooses."""

    engine = "planned"
    tree_reader, tuple_reader = SelectionReader, PageReader
    libraries = ("uproot", "numpy", "cramjam")

    def connect(self, root: dict[str, Any]) -> None:
        super().connect(root)
        self.header = self.job.point.axes.get("header", "read")
        self.settings["header"] = self.header
        self.identity = self.identify(root)
        name = hashlib.sha256(json.dumps(self.identity).encode()).hexdigest()[:16]
        self.kept = self.job.scratch.parent / "headers" / f"{name}.parquet"
        with contextlib.suppress(Exception):  # the first read reports the error
            if self.header == "cached":
                self.keep_header()
            self.calibrate()

    def identify(self, root: dict[str, Any]) -> dict[str, Any]:
        """Return values that distinguish the file's content from that of another file with the same name."""
        return {"bucket": self.bucket.name, "key": self.key, "bytes": self.size, "sha256": root["sha256"]}

    def open_file(self) -> None:
        """Open the file with uproot through the transport, or use the cached header.

        With a cached header, uproot is only needed for branches that are not numbers or lists of numbers.
        """
        if self.root.get("format") == "RNTuple":
            pages = Pages.of(self.tree(self.transport))
            as_staged(pages.layout, self.staged, self.crc, self.key)
        else:
            header = Header.load(self.kept, self.identity) if self.header == "cached" else None
            tree = self.tree(self.transport) if header is None else None
            header = header or Header.of(tree, self.identity)
            as_staged(header.layout, self.staged, self.crc, self.key)
        if self.calibration is None:
            self.calibrate()
        if self.root.get("format") == "RNTuple":
            self.reader = self.tuple_reader(
                pages, self.entries, self.transport, self.link, inspect=self.verify, **self.wishes
            )
        else:
            foreign = self.by_uproot(tree, header)
            self.reader = self.tree_reader(
                header, self.transport, self.link, inspect=self.verify, foreign=foreign, **self.wishes
            )
        self.reader.check(self.branches)

    def tree(self, transport: Any) -> Any:
        """Return uproot's tree, whose header is read through this transport."""
        import uproot

        from readplan.source import PlannedSource

        url = f"{self.job.endpoint.protocol}://{self.bucket.name}/{self.key}"
        options = {
            "handler": PlannedSource,
            "transport": transport,
            "num_bytes": self.size,
            "object_cache": None,
            "array_cache": None,
        }
        return uproot.open({url: None}, **options)[self.root["tree"]]

    def by_uproot(self, tree: Any, header: Header) -> Any:
        """Return uproot's decoder for branches that storelab cannot decode, or None if there are none."""
        missing = (
            [b for b in self.branches if header.forms[header.layout.names.index(b)] is None]
            if None in header.forms
            else []
        )
        if not missing:
            return None
        from storelab.datasets.root.baskets import branches_of
        from storelab.datasets.root.by_uproot import Decoder

        tree = self.tree(self.transport) if tree is None else tree
        branches = branches_of(tree)
        return Decoder({name: branches[name] for name in missing})

    def keep_header(self) -> None:
        """Read the header, and store it next to the scratch folders of the clients, if it is not stored yet.

        One client reads the header while the others wait.
        """
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        with folders.lock_file(self.kept.with_suffix(".lock")) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if Header.load(self.kept, self.identity) is None:
                Header.of(self.tree(self.transport), self.identity).save(self.kept)

    def selection(self, entries: np.ndarray) -> Done:
        spent = Spent()
        seen = {name for name, _ in self.reader.read(self.branches, entries, spent)}
        times = (spent.plan_s, spent.transfer_s, spent.inspect_s, spent.decompress_s, spent.deserialise_s)
        counts = len(seen), spent.baskets, spent.decoded, spent.needed_bytes, spent.requests, spent.asked_bytes
        return Done(*counts, *(max(1, round(t * 1e9)) for t in times))


# `replay` repeatedly reads the ranges of a selection, and does not decode ROOT data. It measures the store without the
# decoder. The ranges come from the side-car file. The CRC-32 of every basket is compared.


class ReplayClient(PlannedBase):
    """A client that sends the same requests as a reader, without opening or decoding files."""

    engine = "replay"
    libraries = ("numpy",)
    opens = False

    def __init__(self, job: Job):
        super().__init__(job)
        self.library = job.point.axes["engine"]
        self.gap = None if job.point.axes["merge"] == "planned" else job.point.axes["max_range_gap"]
        self.plans: set[tuple[int, int]] = set()

    def connect(self, root: dict[str, Any]) -> None:
        super().connect(root)
        chosen = np.isin(np.array(self.staged.names, dtype=object), self.branches)[self.staged.branch]
        if not (self.staged.offset[chosen] >= 0).any():
            raise UserError(
                f"sweeps.{self.job.point.sweep}.axes.file_size",
                f"all chosen branches of {root['scale']} are in the header of the tree, so there is no range to replay",
                "choose a larger file, or the workload read_volume",
            )
        self.settings["merge"] = "planned" if self.gap is None else f"gaps up to {self.gap} B"
        with contextlib.suppress(Exception):  # the first read reports the error
            self.calibrate()

    def open_file(self) -> None:
        """Measure the link if `connect` did not measure it. There is no file to open."""
        if self.calibration is None:
            self.calibrate()

    def selection(self, entries: np.ndarray) -> Done:
        stamps = [clock.now_ns()]
        rows, needed, _ = baskets.ranges(self.staged, self.branches, entries)
        offset, size = self.staged.offset[rows], self.staged.size[rows]
        requests = self._plan(offset, size)
        stamps.append(clock.now_ns())
        data, sent = fetch(self.transport, requests, offset, offset + size)
        stamps.append(clock.now_ns())
        self.verify(rows, data)
        stamps.append(clock.now_ns())
        self.plans.add((requests.gap, requests.piece))
        planned, transfer, verified = (b - a for a, b in itertools.pairwise(stamps))
        return Done(
            len(self.branches), len(rows), 0, needed, sent, requests.asked_bytes, planned, transfer, verified, 0, 0
        )

    def _plan(self, offset: np.ndarray, size: np.ndarray) -> Requests:
        if self.gap is None:
            return plan(offset, size, self.link, **self.wishes)
        start, stop = baskets.merge(offset, size, self.gap)
        return Requests(start, stop, self.gap, 0, 0.0, 0, int(size.sum()))

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "plans": [{"gap": gap, "piece": piece} for gap, piece in sorted(self.plans)]}

"""Provide what the questions of all protocols need: the job, the known object, free names, connections over HTTP."""

import random
from abc import ABC, abstractmethod
from typing import Any

from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.stores.protocols.filesystems import tls_context
from storelab.workloads.probe.answers import demand
from storelab.workloads.probe.plain_http import TIMEOUT_S, Connection, Reply, require_status

SIZE = 2_400_000  # bytes of the known object, so that 1500 ranges are more than a kilobyte apart
PREFIX = "probe/"  # prefix, relative to the bucket's prefix, of everything that the probe writes and later removes
IN_SPARES = ("in-it", "v", "public/a", "private/a")  # keys in buckets that the probe makes
SMALL = b"one small object of the probe"
LISTED = 1001  # number of objects in the listed folder: one more than a page of S3


def known_body(seed: int) -> bytes:
    """Return the known object. It has random bytes, so that all its ranges differ."""
    return random.Random(seed).randbytes(SIZE)


def folder_of(attempt: str) -> str:
    """Return the prefix of all keys of an attempt, relative to the bucket's prefix."""
    return f"{PREFIX}{attempt}/"


KNOWN = "known"  # its name below `folder_of`; the coordinator writes it before the clients start


class Context:
    """The context of one client. `extra` has facts from the coordinator, see `probe/workload.py`."""

    def __init__(self, job: Job):
        self.job = job
        self.endpoint: Endpoint = job.endpoint
        self.bucket: Bucket = job.account_buckets[0]
        self.extra: dict[str, Any] = job.extra
        self.body = known_body(job.point.seed)
        self.folder = self.bucket.prefix + folder_of(job.attempt)
        self.known = self.folder + KNOWN

    def key(self, name: str) -> str:
        """Return the complete key of an object of this client."""
        return f"{self.folder}{self.job.client}/{name}"

    def secrets(self) -> list[str]:
        """Return the strings that must not appear in any evidence."""
        return []

    def close(self) -> None:
        """Close connections."""


def overwritten(c: Any, key: str) -> None:
    """Write an object, and replace it by other bytes. Raises Refuted."""
    for body in (SMALL, SMALL[::-1]):
        c.put(key, body)
    demand(c.holds(key, SMALL[::-1]), "the old content is returned after the new one was written")


class OverHttp(Context, ABC):
    """A context over HTTP. `wire` is the connection to the endpoint."""

    def __init__(self, job: Job):
        super().__init__(job)
        self.wires: dict[str, Connection] = {}
        self.wire = self.wire_to(self.endpoint.url)

    def new_wire(self, url: str = "", timeout: float = TIMEOUT_S) -> Connection:
        """Return a new connection to a host, or to the endpoint, which respects `limits.requests_per_s`."""
        most, clients = self.job.limits.get("requests_per_s"), self.job.point.axes["clients"]
        url = url or self.endpoint.url
        context = tls_context(self.endpoint) if url.startswith(("https", "swebhdfs")) else None
        return Connection(url, context, timeout, clients / most if most else 0.0)

    def wire_to(self, url: str) -> Connection:
        """Return the connection to the host of a URL, because buckets and data nodes can have separate hosts."""
        if url not in self.wires:
            self.wires[url] = self.new_wire(url)
        return self.wires[url]

    @abstractmethod
    def get_ranges(self, value: str, wire: Connection | None = None) -> Reply:
        """Request the known object with this Range header."""

    @abstractmethod
    def get_whole(self) -> Reply:
        """Request the known object."""

    def get_small(self, wire: Connection) -> Reply:
        """Send a small request that succeeds."""
        return self.get_ranges("bytes=0-9", wire)

    @abstractmethod
    def get_missing(self, wire: Connection) -> Reply:
        """Request an object that was never written."""

    def close(self) -> None:
        for wire in self.wires.values():
            wire.close()


class ByKey(OverHttp):
    """A context over HTTP in which a key is the path of an object for GET and PUT: S3 and WebDAV."""

    @abstractmethod
    def send(self, method: str, key: str, **options: Any) -> Reply:
        """Send one request. The options depend on the protocol, and include `headers`, `body` and `wire`."""

    def put(self, key: str, body: bytes, **options: Any) -> Reply:
        """Write an object. Raises Refuted if it is not accepted."""
        return require_status(self.send("PUT", key, body=body, **options), "PUT")

    def holds(self, key: str, body: bytes, **options: Any) -> bool:
        """Return True if the object exists with exactly these bytes."""
        return self.send("GET", key, **options).holds(body)

    def get_ranges(self, value: str, wire: Connection | None = None) -> Reply:
        return self.send("GET", self.known, headers={"Range": value}, wire=wire)

    def get_whole(self) -> Reply:
        return self.send("GET", self.known)

    def get_missing(self, wire: Connection) -> Reply:
        return self.send("GET", self.key("never-written"), wire=wire)

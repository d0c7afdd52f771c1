"""What the questions of every protocol share: the job, the known object, names that are free to use."""

import random
from typing import Any
from urllib.parse import urlsplit

from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.stores.protocols.filesystems import tls_context
from storelab.workloads.probe.plain_http import TIMEOUT_S, Connection

SIZE = 2_400_000  # bytes of the known object: 1500 ranges lie more than a kilobyte apart
PREFIX = "probe/"  # below the bucket's own prefix: all that the probe writes, and all that is removed behind it


def known_body(seed: int) -> bytes:
    """The known object: random bytes, so that no two of its ranges are alike."""
    return random.Random(seed).randbytes(SIZE)


def folder_of(attempt: str) -> str:
    """Begin of all keys of an attempt, below the bucket's own prefix."""
    return f"{PREFIX}{attempt}/"


KNOWN = "known"  # its name below `folder_of`; storelab's own access has put it there before the clients start


class Context:
    """One client's view. `extra`: what the coordinator found out before, see `workloads/probe.py`."""

    def __init__(self, job: Job):
        self.job = job
        self.endpoint: Endpoint = job.endpoint
        self.bucket: Bucket = job.own_buckets[0]
        self.extra: dict[str, Any] = job.extra
        self.body = known_body(job.point.seed)
        self.folder = self.bucket.prefix + folder_of(job.attempt)
        self.known = self.folder + KNOWN
        self.wire = self.new_wire()

    def new_wire(self, timeout: float = TIMEOUT_S) -> Connection:
        """A connection of its own to the endpoint, paced so that `limits.requests_per_s` holds."""
        most, clients = self.job.limits.get("requests_per_s"), self.job.point.axes["clients"]
        context = tls_context(self.endpoint) if urlsplit(self.endpoint.url).scheme in ("https", "swebhdfs") else None
        return Connection(self.endpoint.url, context, timeout, clients / most if most else 0.0)

    def key(self, name: str) -> str:
        """The whole key of an object of this client."""
        return f"{self.folder}{self.job.client}/{name}"

    def secrets(self) -> list[str]:
        """What must not stand in any evidence."""
        return []

    def close(self) -> None:
        self.wire.close()

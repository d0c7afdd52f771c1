"""Record a client's writes to the store, and their acknowledgements, in a ledger file that outlives the client.

A write is recorded before its request is sent. Its acknowledgement is recorded before the worker's next operation
begins. The entries are in memory-mapped pages of the file. They are therefore immediately in the kernel's page cache,
and are not lost when the process is killed. `loadgen/ledger` writes the same format.
"""

import errno
import fcntl
import hashlib
import json
import mmap
import os
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.engines.common.guard import LimitExceeded
from storelab.engines.common.objects import put_key
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket

if TYPE_CHECKING:
    import numpy as np

SCHEMA = 1
PAGE = 16 << 10  # size in bytes of a page, which one worker uses; the header takes whole pages
REGION = 32 * PAGE  # bytes added to the file at a time
NEW, OVERWRITE, DELETE = 1, 2, 3  # kinds of writes
KINDS = {NEW: "put", OVERWRITE: "overwrite", DELETE: "delete"}
_FIELDS = [("number", "<u4"), ("generation", "<u4"), ("worker", "<u2"), ("kind", "u1"), ("zeros", "V5")]
_STAMP = struct.Struct("<12sQI")
STAMP = _STAMP.size  # size in bytes of the stamp at the start of a rewritten object; it identifies the write


def mark(attempt: str, client: int) -> bytes:
    """Return the part of the stamp that is the same for all objects of a client."""
    return hashlib.sha256(f"{attempt}\0{client}".encode()).digest()[:12]


def stamp(client: bytes, number: int, generation: int) -> bytes:
    """Return the first bytes of a rewritten object. client: the result of `mark()`."""
    return _STAMP.pack(client, number, generation)


def stamped(head: bytes) -> tuple[bytes, int, int]:
    """Return the mark of the client, the number of the key, and the generation, from the first bytes of an object."""
    return _STAMP.unpack(head[:STAMP])


def begin(job: Job, rewritten: bool) -> Path:
    """Create the client's ledger. Its header contains everything that is needed to read the objects back.

    rewritten: True if every object begins with its stamp.
    """
    head = {
        "schema": SCHEMA,
        "attempt": job.attempt,
        "client": job.client,
        "buckets": [asdict(b) for b in job.account_buckets],
        "account": job.account,
        "object_size": job.point.axes["object_size"],
        "data_seed": job.point.fixed["data_seed"],
        "rewritten": rewritten,
    }
    text = json.dumps(head).encode() + b"\n"
    assert job.ledger is not None
    job.ledger.write_bytes(text + bytes(-len(text) % PAGE))
    return job.ledger


class Book:
    """A ledger to which the threads of this process write. Other processes can write to it at the same time."""

    def __init__(self, path: Path):
        self.path, self.file, self.lock = path, os.open(path, os.O_RDWR), threading.Lock()
        self.free: list[memoryview] = []  # unused pages

    def page(self) -> memoryview:
        """Return an unused page. Raises LimitExceeded if the disk is full."""
        with self.lock:
            if not self.free:
                region = memoryview(self._region())
                self.free = [region[at : at + PAGE] for at in range(0, REGION, PAGE)]
            return self.free.pop()

    def _region(self) -> mmap.mmap:
        """Add several pages to the file, and map them into memory.

        Zeros are written first. A full disk therefore causes an error here, and not a signal later.
        """
        fcntl.flock(self.file, fcntl.LOCK_EX)
        try:
            end = os.fstat(self.file).st_size
            if os.pwrite(self.file, bytes(REGION), end) != REGION:
                os.ftruncate(self.file, end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return mmap.mmap(self.file, REGION, mmap.MAP_SHARED | mmap.MAP_POPULATE, offset=end)
        except OSError as error:
            raise LimitExceeded(f"the ledger cannot be written ({error.strerror})") from None
        finally:
            fcntl.flock(self.file, fcntl.LOCK_UN)

    def writer(self, worker: int) -> tuple[Callable[[int, int, int, int], None], Callable[[int], None]]:
        """Return the two functions that one worker calls for each write.

        `begin(number of the key, generation, kind, ns)` is called before the request is sent. It raises LimitExceeded
        if the ledger cannot be written; the request must then not be sent. `acknowledged(ns)` is called before the
        worker's next write.
        """
        page, at = self.page().cast("q"), -4  # an entry has four words

        def begin(number: int, generation: int, kind: int, now_ns: int) -> None:
            nonlocal page, at
            at += 4
            if at == PAGE // 8:
                page, at = self.page().cast("q"), 0
            page[at] = number | generation << 32
            page[at + 1] = worker | kind << 16
            page[at + 2] = now_ns  # written last, because an entry without this time does not count

        def acknowledged(now_ns: int) -> None:
            page[at + 3] = now_ns

        return begin, acknowledged


class Ledger:
    """A ledger to read: its header, and the entries written so far. The client can still be writing to it."""

    def __init__(self, path: Path):
        self.path = path
        with open(path, "rb") as f:
            line = f.readline()
        self.head: dict[str, Any] = json.loads(line)
        self.first = -(-len(line) // PAGE) * PAGE
        self.buckets = [Bucket(**b) for b in self.head["buckets"]]
        self.mark = mark(self.head["attempt"], self.head["client"])

    def entries(self) -> "np.ndarray":
        """Return the entries sorted by key and generation.

        Each key has only one writer, so this is the order of its writes.
        """
        import numpy as np

        dtype = np.dtype([*_FIELDS, ("begin_ns", "<i8"), ("ack_ns", "<i8")])
        found = np.fromfile(self.path, dtype, offset=self.first)
        found = found[found["begin_ns"] > 0]
        return found[np.lexsort((found["generation"], found["number"]))]

    def place(self, number: int) -> tuple[Bucket, str]:
        """Return the bucket and the complete key for the number of a key."""
        client = self.head["client"]
        bucket = self.buckets[(client + number) % len(self.buckets)]
        return bucket, bucket.prefix + put_key(self.head["attempt"], client, number)

    def body(self, number: int, generation: int) -> int:
        """Return the number of the payload body that the object contains."""
        from storelab.datasets import payload

        return (number + (generation if self.head["rewritten"] else 0)) % payload.BODIES


def ledgers(folder: Path) -> Iterator[Ledger]:
    """Yield all ledgers of an attempt."""
    yield from map(Ledger, sorted(folder.glob("ledger.*")))


def acknowledged(folder: Path) -> tuple[dict[str, int], int]:
    """Return the acknowledged writes of all clients by kind, and the number of writes without an acknowledgement."""
    counts, unknown = dict.fromkeys(KINDS.values(), 0), 0
    for ledger in ledgers(folder):
        entries = ledger.entries()
        known = entries["ack_ns"] > 0
        unknown += int((~known).sum())
        for kind, name in KINDS.items():
            counts[name] += int((known & (entries["kind"] == kind)).sum())
    return counts, unknown

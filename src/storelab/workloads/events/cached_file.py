"""A file object of fsspec behind one of fsspec's own caches, counted where it sends requests.

What a physicist gets from `fs.open(path, cache_type=…, block_size=…)`, on every protocol; only the counting stands
between the cache and the file object's `_fetch_range`, and the size is told, not asked for.
"""

import contextlib
import os
from collections.abc import Sequence
from typing import Any

from fsspec.caching import caches
from fsspec.spec import AbstractBufferedFile

from storelab.engines import planned as transports
from storelab.engines.common import s3_library
from storelab.readplan.transports import WrongAnswer
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.endpoint import Bucket, Endpoint

BLOCK = 2**20  # only to be no 0, which asks HTTP for a stream: the cache is made here


def _whole(part: bytes, start: int, stop: int) -> bytes:
    """The bytes that came. Raises WrongAnswer for another length than was asked."""
    if len(part) != stop - start:
        raise WrongAnswer(f"{len(part)} bytes came of {start} to {stop - 1}")
    return part


class LocalFile(AbstractBufferedFile):
    """A local file behind fsspec's caches, which fsspec itself gives to remote files only."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.descriptor = os.open(self.path, os.O_RDONLY)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return os.pread(self.descriptor, end - start, start)

    def close(self) -> None:
        if not self.closed:
            os.close(self.descriptor)
        super().close()


class FileRanges:
    """The requests of one file object, as a transport of the read planner; opened by `open()`, which sends what the
    protocol's own opening sends."""

    parallel = 1

    def __init__(self, fs: Any, path: str, size: int):
        self.fs, self.path, self.size = fs, path, size
        self.requests = 0
        self.file: Any = None

    def open(self) -> Any:
        """The file object, without a cache. Raises what the library raises."""
        if self.file is None:
            options = {"block_size": BLOCK, "cache_type": "none", "size": self.size}
            local = "file" in (self.fs.protocol if isinstance(self.fs.protocol, tuple) else (self.fs.protocol,))
            self.file = (
                LocalFile(self.fs, self.path, "rb", **options) if local else self.fs.open(self.path, "rb", **options)
            )
            self.file.details = {"name": self.path, "size": self.size, "type": "file"}  # else s3fs asks for them
        return self.file

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[bytes]:
        """One request after the other. Raises what the library raises, or WrongAnswer for another length."""
        out = []
        for start, stop in zip(starts, stops, strict=True):
            self.requests += 1
            out.append(_whole(self.file._fetch_range(start, stop), start, stop))
        return out

    def close(self) -> None:
        if self.file is not None:
            with contextlib.suppress(Exception):  # the measurement is over, whatever the server says
                self.file.close()


class CachedFile:
    """Reads through a cache, one by one, as a transport of the read planner: `fetch()`.

    counted: around FileRanges; cache: its name in fsspec; read_ahead: bytes, the cache's block size. The cache sees
    the file object's own fetch, counted, and bounded by the file's end.
    """

    parallel = 1

    def __init__(self, counted: transports.Counted, cache: str, read_ahead: int):
        self.counted, self.name, self.read_ahead, self.size = counted, cache, read_ahead, counted.inner.size
        self.file = counted.inner.open()
        self.renew()

    def renew(self) -> None:
        """Begin with an empty cache; `all` fills it at once. Raises as FileRanges."""
        self.file.cache = caches[self.name](self.read_ahead, self._request, self.size)

    def _request(self, start: int, stop: int) -> bytes:
        return self.counted.fetch([start], [min(stop, self.size)])[0]

    @property
    def requests(self) -> int:
        return self.counted.requests

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[bytes]:
        """Raises as FileRanges."""
        return [self.read(start, stop) for start, stop in zip(starts, stops, strict=True)]

    def read(self, start: int, stop: int) -> bytes:
        """These bytes, from the cache or the store. Raises as FileRanges."""
        self.file.seek(start)
        return _whole(self.file.read(stop - start), start, stop)


def ranges_of(endpoint: Endpoint, bucket: Bucket, key: str, size: int) -> transports.Counted:
    """The counted requests of a file object of this object (key without the bucket's prefix), not opened yet. Raises
    UserError where the environment holds no credentials."""
    if endpoint.protocol == "s3":
        s3_library.keys()
    fs = filesystems.data(endpoint, os.environ, FileRanges.parallel)
    inner = FileRanges(fs, filesystems.path(endpoint, bucket, key), size)
    return transports.Counted(inner, transports.port_wire(endpoint), transports.versions_of(endpoint))

"""Engines of `events`: a job processes its file in steps of consecutive events, by a cached file object or the planner.

The reader keeps the last used baskets (`datasets/root/reader.py`). The needed bytes of a step are those of the baskets
that it has to read. A pass is the number of steps that cover the file once. After a pass, the job continues as if it
had opened its next file: with an empty cache and without baskets. Only the header is not read again.

The file object is the same as the one that `fs.open(path, cache_type=…, block_size=…)` returns to a physicist: a file
of fsspec with one of the caches of fsspec, on every protocol. There are only two differences: requests are counted
between the cache and `_fetch_range` of the file object, and the size is given instead of requested.
"""

import contextlib
import itertools
import math
import os
import random
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from fsspec.caching import caches
from fsspec.spec import AbstractBufferedFile

from readplan.choose import plan
from readplan.source import fetch
from readplan.transports import WrongAnswer
from storelab.core import clock
from storelab.core.errors import UserError
from storelab.core.model import derive_seed
from storelab.datasets.root.pages import Pages, PageSteps
from storelab.datasets.root.reader import Header, StepReader
from storelab.engines import planned
from storelab.engines.common import objects
from storelab.engines.common.selections import Done, as_staged
from storelab.engines.common.wire import Counts
from storelab.engines.contract import Job
from storelab.engines.planned import PlannedClient
from storelab.stores.protocols import filesystems, s3_clients
from storelab.stores.protocols.endpoint import Bucket, Endpoint

BLOCK = 2**20  # not 0, which would request a stream from HTTP; the cache is made in this module


def _complete(part: bytes, start: int, stop: int) -> bytes:
    """Return the received bytes. Raises WrongAnswer if their length differs from the requested one."""
    if len(part) != stop - start:
        raise WrongAnswer(f"the server returned {len(part)} B for bytes {start} to {stop - 1}")
    return part


class LocalFile(AbstractBufferedFile):
    """A local file with the caches of fsspec, which fsspec provides only for remote files."""

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
    """The requests of one file object, as a transport of the read planner.

    `open()` sends the same requests as opening the file with fsspec.
    """

    parallel = 1

    def __init__(self, fs: Any, path: str, size: int):
        self.fs, self.path, self.size = fs, path, size
        self.requests = 0
        self.file: Any = None

    def open(self) -> Any:
        """Return the file object, without a cache. Raises the errors of the library."""
        if self.file is None:
            options = {"block_size": BLOCK, "cache_type": "none", "size": self.size}
            local = "file" in (self.fs.protocol if isinstance(self.fs.protocol, tuple) else (self.fs.protocol,))
            self.file = (
                LocalFile(self.fs, self.path, "rb", **options) if local else self.fs.open(self.path, "rb", **options)
            )
            # otherwise s3fs requests the details
            self.file.details = {"name": self.path, "size": self.size, "type": "file"}
        return self.file

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[bytes]:
        """Send one request after the other. Raises the errors of the library, or WrongAnswer for a wrong length."""
        out = []
        for start, stop in zip(starts, stops, strict=True):
            self.requests += 1
            out.append(_complete(self.file._fetch_range(start, stop), start, stop))
        return out

    def close(self) -> None:
        if self.file is not None:
            with contextlib.suppress(Exception):  # errors after the measurement are ignored
                self.file.close()


class CachedFile:
    """A transport of the read planner that reads through a cache, one range after another.

    counted: a `Counted` with FileRanges; cache: name of the cache in fsspec; read_ahead: block size of the cache in
    bytes. The cache uses the fetch function of the file object, which is counted and limited by the end of the file.
    """

    parallel = 1

    def __init__(self, counted: planned.Counted, cache: str, read_ahead: int):
        self.counted, self.name, self.read_ahead, self.size = counted, cache, read_ahead, counted.inner.size
        self.file = counted.inner.open()
        self.renew()

    def renew(self) -> None:
        """Start with an empty cache. The cache `all` is filled immediately. Raises the errors of FileRanges."""
        self.file.cache = caches[self.name](self.read_ahead, self._request, self.size)

    def _request(self, start: int, stop: int) -> bytes:
        return self.counted.fetch([start], [min(stop, self.size)])[0]

    @property
    def requests(self) -> int:
        return self.counted.requests

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[bytes]:
        """Read ranges one after another. Raises the errors of FileRanges."""
        return [self.read(start, stop) for start, stop in zip(starts, stops, strict=True)]

    def read(self, start: int, stop: int) -> bytes:
        """Return these bytes, from the cache or the store. Raises the errors of FileRanges."""
        self.file.seek(start)
        return _complete(self.file.read(stop - start), start, stop)


def ranges_of(endpoint: Endpoint, bucket: Bucket, key: str, size: int) -> planned.Counted:
    """Return the counted requests of a file object that is not opened yet. key: relative to the bucket's prefix.

    Raises UserError if the environment has no credentials.
    """
    if endpoint.protocol == "s3":
        s3_clients.keys()
    fs = filesystems.data(endpoint, os.environ, FileRanges.parallel)
    inner = FileRanges(fs, filesystems.path(endpoint, bucket, key), size)
    return planned.Counted(inner, planned.port_wire(endpoint), planned.versions_of(endpoint))


CACHED_BLOCKS = 32  # number of blocks in the cache `blockcache` of fsspec


def pass_of(n_entries: int, step: int) -> int:
    """Return the number of steps that cover the file once."""
    return math.ceil(n_entries / step)


def step_of(navigation: str, n_entries: int, step: int, seed: int, number: int) -> tuple[int, int]:
    """Return the events [first, stop) of the step `number` of a job in a file of n_entries.

    scan: the steps are consecutive. The last step of a pass ends with the file, and the next one starts at its
    beginning. random: each step has `step` events at an independent, uniformly drawn position. seed: the seed of the
    job.
    """
    if navigation == "scan":
        first = step * (number % pass_of(n_entries, step))
        return first, min(first + step, n_entries)
    first = random.Random(derive_seed(seed, number)).randrange(n_entries - step + 1)
    return first, first + step


class Steps(PlannedClient):
    """The base class of the clients of both engines: draws, decoding and counts. One read is one step."""

    libraries = ("uproot", "numpy", "cramjam")

    def __init__(self, job: Job):
        super().__init__(job)
        self.cold = False  # the file is opened once; for cold access, the store is made cold before the start
        self.once = objects.read_once(job)

    def connect(self, root: dict[str, Any]) -> None:
        axes = self.job.point.axes
        self.step, self.navigation = axes["step"], axes["navigation"]
        if self.step > self.entries:
            raise UserError(
                "axes.step",
                f"a step of {self.step} events is longer than the file, which has {self.entries}",
                "set a smaller step",
            )
        self.seed = derive_seed(self.job.point.seed, self.job.client)
        self.passes = 0  # number of passes that have begun
        self.seen: tuple[int, Counts] | None = None
        super().connect(root)

    def draw(self, number: int) -> np.ndarray:
        if number // pass_of(self.entries, self.step) >= self.passes:
            self.begin_pass()
        return np.arange(*step_of(self.navigation, self.entries, self.step, self.seed, number))

    def finished(self, number: int) -> bool:
        return self.once and number >= pass_of(self.entries, self.step)

    def begin_pass(self) -> None:
        """Begin a pass over the file, as if it were the next file."""
        self.passes += 1
        if self.opening is not None:
            self.steps.forget()

    def source(self) -> Any:
        """Return the transport for reading the header. Raises the errors of `open_file()`."""
        return self.transport

    def open_file(self) -> None:
        tree = self.tree(self.source())
        if self.root.get("format") == "RNTuple":
            pages = Pages.of(tree)
            as_staged(pages.layout, self.staged, self.crc, self.key)
            self.steps: StepReader | PageSteps = PageSteps(pages, self.branches)
        else:
            header = Header.of(tree, {"key": self.key})
            as_staged(header.layout, self.staged, self.crc, self.key)
            self.steps = StepReader(header, self.branches, self.by_uproot(tree, header))

    @abstractmethod
    def fetch(self, offset: np.ndarray, size: np.ndarray) -> tuple[list[np.ndarray], int, int, int]:
        """Read baskets at these places, which are ascending.

        Returns their bytes (uint8 arrays), the number of requests, the requested bytes, and the planning time in ns.
        """

    def selection(self, entries: np.ndarray) -> Done:
        stamps, first, stop = [clock.now_ns()], int(entries[0]), int(entries[-1]) + 1
        rows, new = self.steps.rows(first, stop)
        layout = self.steps.layout
        offset, size = layout.offset[new], layout.size[new]
        stamps.append(clock.now_ns())
        data, requests, requested, planning_ns = self.fetch(offset, size) if len(new) else ([], 0, 0, 0)
        stamps.append(clock.now_ns())
        self.verify(new, data)
        stamps.append(clock.now_ns())
        self.steps.unpack(new, data)
        stamps.append(clock.now_ns())
        decoded = self.steps.arrays(rows, first, stop)
        stamps.append(clock.now_ns())
        looked, transfer, *others = (b - a for a, b in itertools.pairwise(stamps))
        times = looked + planning_ns, transfer - planning_ns, *others
        return Done(len(self.branches), len(new), decoded, int(size.sum()), requests, requested, *times)

    def settle(self, timeout_s: float) -> None:
        if self.opening is not None:
            self.steps.forget()

    def counts(self) -> Counts:
        """Return the counters. They are read only after requests, because steps without requests are many and short."""
        if self.seen is None or self.seen[0] != self.transport.requests:
            self.seen = self.transport.requests, self.transport.now()
        return self.seen[1]


class PlannedEvents(Steps):
    """A client that reads the baskets of each step by planned requests, several at a time."""

    engine = "planned"

    def open_file(self) -> None:
        super().open_file()
        if self.calibration is None:
            self.calibrate()

    def fetch(self, offset: np.ndarray, size: np.ndarray) -> tuple[list[np.ndarray], int, int, int]:
        begin_ns = clock.now_ns()
        requests = plan(offset, size, self.link, **self.wishes)
        planned_ns = clock.now_ns()
        data, sent = fetch(self.transport, requests, offset, offset + size)
        return data, sent, requests.asked_bytes, planned_ns - begin_ns


class CachedEvents(Steps):
    """A client that reads one basket after the other through a file object with a cache."""

    engine = "fsspec"
    library = "fsspec"

    def __init__(self, job: Job):
        super().__init__(job)
        self.cache, self.read_ahead = job.point.axes["cache"], job.point.axes["read_ahead"]
        self.stale = False  # True if the cache has content of the previous pass

    def calibrate(self) -> None:
        """Do nothing, because this engine does not plan."""

    def connect(self, root: dict[str, Any]) -> None:
        super().connect(root)
        self.settings = {
            "retries": 0,
            "library": "fsspec",
            "cache": self.cache,
            "read_ahead_bytes": self.read_ahead,
            **({"blocks_kept": CACHED_BLOCKS} if self.cache == "blockcache" else {}),
        }

    def begin_pass(self) -> None:
        super().begin_pass()
        self.stale = self.opening is not None

    def make(self) -> planned.Counted:
        return ranges_of(self.job.endpoint, self.bucket, self.object, self.size)

    def source(self) -> Any:
        self.file = CachedFile(self.transport, self.cache, self.read_ahead)
        return self.file

    def fetch(self, offset: np.ndarray, size: np.ndarray) -> tuple[list[np.ndarray], int, int, int]:
        before, requested = self.transport.requests, self.transport.asked
        if self.stale:
            self.file.renew()
            self.stale = False
        data = []
        for at, length in zip(offset.tolist(), size.tolist(), strict=True):
            self.check_deadline()
            data.append(np.frombuffer(self.file.read(at, at + length), np.uint8))
        return data, self.transport.requests - before, self.transport.asked - requested, 0

    def close(self) -> None:
        if hasattr(self, "transport"):
            self.transport.inner.close()
        super().close()

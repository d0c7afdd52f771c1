"""Engine `davix`: read whole objects, ranges and selections with davix, an HTTP library of HEP.

Each worker has a separate process of storelab's program, which uses the davix library (`davix_program`) and keeps its
session. Selection reads are decoded by storelab. All baskets are passed to davix in one vector read, and davix decides
which requests it sends. Therefore its counts cannot be compared with a plan, and there is no calibration. Requests are
counted when they are sent. This module also imports the engines `fsspec` and `planned`, on which it is based.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from storelab.datasets.root.pages import PageReader
from storelab.datasets.root.reader import SelectionReader, Spent
from storelab.engines import davix_program
from storelab.engines.common.transfers import TransferClient
from storelab.engines.common.wire import Counts
from storelab.engines.contract import Check
from storelab.engines.davix_program import Program
from storelab.engines.fsspec import FsspecGet, FsspecGetRange, Transfer
from storelab.engines.planned import PlannedClient
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.endpoint import Endpoint

TIMEOUT_S = 120.0  # timeout of one operation, as in the engine fsspec
KEPT_EVERY = 8  # for the content check, the first and every 8th answer is kept


class DavixTransport:
    """A transport for one object, read by one program.

    `fetch` returns bytes as the transports of `readplan` do. `vector` returns views of the program's memory.
    """

    parallel = 1

    def __init__(self, endpoint: Endpoint, path: str, timeout_s: float):
        self.url = davix_program.url_of(endpoint, path)
        self.program = Program(endpoint, timeout_s)

    @property
    def requests(self) -> int:
        return self.program.spent.requests

    def vector(self, starts: Sequence[int], sizes: Sequence[int]) -> list[memoryview]:
        return self.program.vector(self.url, starts, sizes)

    def fetch(self, starts: Sequence[int], stops: Sequence[int]) -> list[bytes]:
        sizes = [stop - start for start, stop in zip(starts, stops, strict=True)]
        return [bytes(part) for part in self.vector(starts, sizes)]

    def close(self) -> None:
        self.program.close()


class WithoutPlan:
    """A mixin for readers that pass all baskets of a transfer to davix at once, without a plan."""

    def _transfer(self: Any, rows: np.ndarray, spent: Spent) -> list[np.ndarray]:
        layout, before = self.header.layout, self.transport.program.spent.counts
        begun = time.perf_counter()
        parts = self.transport.vector(layout.offset[rows].tolist(), layout.size[rows].tolist())
        spent.transfer_s += time.perf_counter() - begun
        more = self.transport.program.spent.counts - before
        spent.requests += more.requests
        spent.asked_bytes += more.asked_bytes
        spent.transfers += 1
        return [np.frombuffer(part, np.uint8) for part in parts]


class DavixReader(WithoutPlan, SelectionReader):
    """A reader of selections of a TTree."""


class DavixPages(WithoutPlan, PageReader):
    """A reader of selections of an RNTuple."""


class DavixClient(PlannedClient):
    """A client that reads selections of ROOT files by vector reads of davix, in a separate process."""

    engine = "davix"
    tree_reader, tuple_reader = DavixReader, DavixPages

    def connect(self, root: dict[str, Any]) -> None:
        """Start the program. Nothing is sent."""
        self.link, self.gone, self.header = None, [], "read"
        self.identity = self.identify(root)
        self.transport = self.make()
        self.settings = {
            "retries": 0,
            "protocol": self.job.endpoint.protocol,
            "library": "davix",
            "coalescing": "davix",
            "timeout_s": self.timeout_s,
        }

    def make(self) -> Any:
        endpoint = self.job.endpoint
        return DavixTransport(endpoint, filesystems.path(endpoint, self.bucket, self.object), self.timeout_s)

    def version(self) -> str:
        return f"{davix_program.version()}, {super().version()}"

    def fresh(self) -> None:
        """Start a new program, because davix keeps its connections during a session."""
        self.gone.append(self.transport.program.spent)
        self.transport.close()
        self.transport = self.make()

    def calibrate(self) -> None:
        """Do nothing, because davix does not use a model of the link."""

    def _spents(self) -> list[davix_program.Spent]:
        return [*self.gone, self.transport.program.spent]

    def counts(self) -> Counts:
        return sum((s.counts for s in self._spents()), Counts())

    def connections(self) -> tuple[int, int, int]:
        one = self.transport.program
        return one.spent.open, one.most_open, sum(s.opened for s in self._spents())

    def facts(self) -> dict[str, Any]:
        return {"davix": davix_program.facts(self._spents())}

    def checks(self) -> list[Check]:
        """Return the checks without those that compare with a plan, because davix has no plan."""
        return [c for c in super().checks() if c.name not in ("requests", "bytes")]

    def close(self) -> None:
        if hasattr(self, "transport"):
            self.transport.close()
        super().close()


class DavixGet(FsspecGet):
    """A client that downloads whole staged objects, as davix-get does."""

    engine = "davix"

    def prepare(self) -> None:
        self.asynchronous = False  # workers are threads, each of which waits for its program
        self.systems: list[Program] = []
        self.prepare_tasks()
        for _ in range(self.workers):
            self.systems.append(Program(self.endpoint, TIMEOUT_S))
        for one in self.systems if self.objects else ():  # connect before the window begins
            with suppress(OSError):
                one.read(self._url(self.objects[0]), 0, 1)
        self.before = sum(one.spent.requests for one in self.systems)
        self.answers = 0

    def _url(self, task: Transfer) -> str:
        return davix_program.url_of(self.endpoint, task.path)

    async def do(self, fs: Program, task: Transfer) -> Any:
        """Return a view of the program's memory. It is valid until the next request."""
        if task.begin is None:
            return fs.get(self._url(task), self.size)
        return fs.read(self._url(task), task.begin, task.end - task.begin)

    def _note(self, row: tuple[Any, ...], task: Transfer, answer: Any) -> None:
        wanted = answer is not None and self.answers % KEPT_EVERY == 0
        self.answers += answer is not None
        super()._note(row, task, bytes(answer) if wanted else None)

    def open_connections(self) -> int:
        return sum(one.spent.open for one in self.systems)

    def described(self) -> tuple[str, dict[str, Any], dict[str, Any]]:
        done, sent = len(self.rows), sum(one.spent.requests for one in self.systems) - self.before
        each = round(sent / done, 3) if done else None
        settings = {"protocol": self.endpoint.protocol, "programs": self.workers, "timeout_s": TIMEOUT_S}
        return davix_program.version(), settings, {self.op: int(each) if each and each == int(each) else each}

    def close(self) -> None:
        for one in getattr(self, "systems", ()):
            one.close()
        TransferClient.close(self)


class DavixGetRange(DavixGet, FsspecGetRange):
    """A client that downloads one range of an object per request."""

"""Engine `davix`: selection reads by davix's vector reads, decoded by storelab's own decoder.

May import: what `engines` may, `engines.planned.client`, `engines.davix.program`. davix gets the baskets as they are,
in one vector read, and makes requests of them as it will: there is no plan to hold its counts against, and nothing is
measured before. What it sent is counted as it sends it.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from storelab.datasets.root.pages import PageReader
from storelab.datasets.root.reader import SelectionReader, Spent
from storelab.engines.common.wire import Counts
from storelab.engines.contract import Check
from storelab.engines.davix import program
from storelab.engines.davix.program import Program
from storelab.engines.planned.client import PlannedClient
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.endpoint import Endpoint


class DavixTransport:
    """An object through one program. `fetch` as of `readplan.transports`; `vector` gives views of its memory."""

    parallel = 1

    def __init__(self, endpoint: Endpoint, path: str, timeout_s: float):
        self.url = program.url_of(endpoint, path)
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


class Whole:
    """Of a reader: all baskets of a transfer go to davix at once, unplanned."""

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


class DavixReader(Whole, SelectionReader):
    """Of a TTree."""


class DavixPages(Whole, PageReader):
    """Of an RNTuple."""


class DavixClient(PlannedClient):
    engine = "davix"
    tree_reader, tuple_reader = DavixReader, DavixPages

    def connect(self, root: dict[str, Any]) -> None:
        """Sends nothing."""
        self.link, self.gone, self.header = None, [], "read"
        self.identity = {"bucket": self.bucket.name, "key": self.key, "bytes": self.size, "sha256": root["sha256"]}
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
        return f"{program.version()}, {super().version()}"

    def fresh(self) -> None:
        """A new program: davix keeps connections as long as its session lives."""
        self.gone.append(self.transport.program.spent)
        self.transport.close()
        self.transport = self.make()

    def calibrate(self) -> None:
        """davix knows nothing of a link."""

    def _spents(self) -> list[program.Spent]:
        return [*self.gone, self.transport.program.spent]

    def counts(self) -> Counts:
        return sum((s.counts for s in self._spents()), Counts())

    def connections(self) -> tuple[int, int, int]:
        one = self.transport.program
        return one.spent.open, one.most_open, sum(s.opened for s in self._spents())

    def facts(self) -> dict[str, Any]:
        return {"davix": program.facts(self._spents())}

    def checks(self) -> list[Check]:
        """Those that it can fail: there is no plan."""
        return [c for c in super().checks() if c.name not in ("requests", "bytes")]

    def close(self) -> None:
        if hasattr(self, "transport"):
            self.transport.close()
        super().close()

"""Engines of `events`: a job goes through its file in steps of consecutive events, by a cached file object or by the
read planner.

The baskets last used stay with the reader (`datasets/root/reader.py`): needed bytes of a step are those of the baskets
that it has to fetch. After as many steps as lead through the file once, a pass, the job goes on as if it had opened its
next file: with an empty cache, and no basket; but the header is read once only.
"""

import itertools
import math
import random
from abc import abstractmethod
from typing import Any

import numpy as np

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
from storelab.readplan.choose import plan
from storelab.readplan.source import fetch
from storelab.workloads.events import cached_file

KEEPS_BLOCKS = 32  # of fsspec's `blockcache`


def pass_of(n_entries: int, step: int) -> int:
    """Steps of a pass: as many as lead through the file once."""
    return math.ceil(n_entries / step)


def step_of(navigation: str, n_entries: int, step: int, seed: int, number: int) -> tuple[int, int]:
    """Events [first, stop) of a job's step `number` through a file of n_entries.

    scan: one step after the other; the last of a pass ends with the file, the next begins anew. random: `step` events
    at a place drawn evenly from all where so many are left, another for each step, in no order; seed: the job's.
    """
    if navigation == "scan":
        first = step * (number % pass_of(n_entries, step))
        return first, min(first + step, n_entries)
    first = random.Random(derive_seed(seed, number)).randrange(n_entries - step + 1)
    return first, first + step


class Steps(PlannedClient):
    """What both engines share: the draw, the decoding, the counts. One read is one step."""

    libraries = ("uproot", "numpy", "cramjam")

    def __init__(self, job: Job):
        super().__init__(job)
        self.cold = False  # the file is opened once; what is cold is the store, before the start
        self.once = objects.read_once(job)

    def connect(self, root: dict[str, Any]) -> None:
        axes = self.job.point.axes
        self.step, self.navigation = axes["step"], axes["navigation"]
        if self.step > self.entries:
            raise UserError(
                "axes.step", f"{self.step} events are more than the file holds, {self.entries}", "sweep smaller steps"
            )
        self.seed = derive_seed(self.job.point.seed, self.job.client)
        self.passes = 0  # begun
        self.seen: tuple[int, Counts] | None = None
        super().connect(root)

    def draw(self, number: int) -> np.ndarray:
        if number // pass_of(self.entries, self.step) >= self.passes:
            self.begin_pass()
        return np.arange(*step_of(self.navigation, self.entries, self.step, self.seed, number))

    def finished(self, number: int) -> bool:
        return self.once and number >= pass_of(self.entries, self.step)

    def begin_pass(self) -> None:
        """The job begins its file, or the next."""
        self.passes += 1
        if self.opening is not None:
            self.steps.forget()

    def source(self) -> Any:
        """The transport that the header is read through. Raises as `open_file()`."""
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
        """Baskets at these places, ascending: their bytes, shapes (n,) uint8; requests and bytes asked for that; ns
        spent on planning."""

    def selection(self, entries: np.ndarray) -> Done:
        stamps, first, stop = [clock.now_ns()], int(entries[0]), int(entries[-1]) + 1
        rows, new = self.steps.rows(first, stop)
        layout = self.steps.layout
        offset, size = layout.offset[new], layout.size[new]
        stamps.append(clock.now_ns())
        data, requests, asked, planning_ns = self.fetch(offset, size) if len(new) else ([], 0, 0, 0)
        stamps.append(clock.now_ns())
        self.verify(new, data)
        stamps.append(clock.now_ns())
        self.steps.unpack(new, data)
        stamps.append(clock.now_ns())
        decoded = self.steps.arrays(rows, first, stop)
        stamps.append(clock.now_ns())
        looked, transfer, *others = (b - a for a, b in itertools.pairwise(stamps))
        times = looked + planning_ns, transfer - planning_ns, *others
        return Done(len(self.branches), len(new), decoded, int(size.sum()), requests, asked, *times)

    def settle(self, timeout_s: float) -> None:
        if self.opening is not None:
            self.steps.forget()

    def counts(self) -> Counts:
        """Steps without a request are many and short: the connections are looked at only after requests."""
        if self.seen is None or self.seen[0] != self.transport.requests:
            self.seen = self.transport.requests, self.transport.now()
        return self.seen[1]


class PlannedEvents(Steps):
    """Each step's baskets by planned requests, several at a time."""

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
    """Basket by basket through a file object with a cache."""

    engine = "fsspec"
    library = "fsspec"

    def __init__(self, job: Job):
        super().__init__(job)
        self.cache, self.read_ahead = job.point.axes["cache"], job.point.axes["read_ahead"]
        self.stale = False  # the cache holds what the last pass left

    def calibrate(self) -> None:
        """There is nothing to plan."""

    def connect(self, root: dict[str, Any]) -> None:
        super().connect(root)
        self.settings = {
            "retries": 0,
            "library": "fsspec",
            "cache": self.cache,
            "read_ahead_bytes": self.read_ahead,
            **({"blocks_kept": KEEPS_BLOCKS} if self.cache == "blockcache" else {}),
        }

    def begin_pass(self) -> None:
        super().begin_pass()
        self.stale = self.opening is not None

    def make(self) -> planned.Counted:
        return cached_file.ranges_of(self.job.endpoint, self.bucket, self.object, self.size)

    def source(self) -> Any:
        self.file = cached_file.CachedFile(self.transport, self.cache, self.read_ahead)
        return self.file

    def fetch(self, offset: np.ndarray, size: np.ndarray) -> tuple[list[np.ndarray], int, int, int]:
        before, asked = self.transport.requests, self.transport.asked
        if self.stale:
            self.file.renew()
            self.stale = False
        data = []
        for at, length in zip(offset.tolist(), size.tolist(), strict=True):
            self.hurry()
            data.append(np.frombuffer(self.file.read(at, at + length), np.uint8))
        return data, self.transport.requests - before, self.transport.asked - asked, 0

    def close(self) -> None:
        if hasattr(self, "transport"):
            self.transport.inner.close()
        super().close()

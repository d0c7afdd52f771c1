"""Engine `uproot-s3fs`: selection reads by uproot on s3fs, ranges merged over a fixed gap, timed by phase.

All traffic is counted to the byte. May import: what `engines` may, `engines.common`, `engines.uproot`.
"""

import contextlib
import itertools
import math
from typing import Any

import numpy as np

from storelab.core import clock
from storelab.datasets.root import baskets
from storelab.engines.common.selections import Done, SelectionClient, allowed_s
from storelab.engines.common.wire import Counts
from storelab.engines.contract import Job
from storelab.engines.uproot import s3fs_counted
from storelab.engines.uproot.reader import Reader, TupleReader


class UprootClient(SelectionClient):
    engine = "uproot-s3fs"
    libraries = ("uproot", "s3fs", "fsspec", "awkward", "aiobotocore", "aiohttp", "numpy", "cramjam")

    def __init__(self, job: Job):
        super().__init__(job)
        self.counter = s3fs_counted.Counter()
        self.wire = self.counter.wire
        self.fs: s3fs_counted.OnceFileSystem | None = None
        axes = job.point.axes
        self.gap, self.pool, self.split = axes["max_range_gap"], axes.get("connections", 64), axes.get("split", 0)

    def connect(self, root: dict[str, Any]) -> None:
        """Sends nothing."""
        endpoint = self.job.endpoint
        chosen = s3fs_counted.settings(endpoint, self.pool, math.ceil(allowed_s(self.duration_s)))
        self.settings = {**chosen, "max_range_gap_bytes": self.gap, "split_bytes": self.split, "coalescing": "uproot"}
        self.fs = s3fs_counted.filesystem(endpoint, self.counter, chosen)
        self.fs.split = self.split
        kind = TupleReader if root.get("format") == "RNTuple" else Reader
        self.reader = kind(
            self.fs, f"s3://{self.bucket.name}/{self.key}", root["tree"], self.side_car, self.branches, self.gap
        )

    def fresh(self) -> None:
        s3fs_counted.disconnect(self.fs)
        self.connect(self.root)

    def open_file(self) -> None:
        self.fs.latest_ns = self.latest_ns
        self.reader.open()

    def selection(self, entries: np.ndarray) -> Done:
        reader, stamps = self.reader, [clock.now_ns()]
        rows, needed, ranges = reader.plan(entries)
        stamps.append(clock.now_ns())
        chunks = reader.transfer(ranges)
        stamps.append(clock.now_ns())
        reader.verify(rows, chunks)
        stamps.append(clock.now_ns())
        data = reader.decompress(rows, chunks)
        stamps.append(clock.now_ns())
        branches, held, decoded = reader.deserialise(rows, data, entries)
        stamps.append(clock.now_ns())
        starts, stops = baskets.merge(*np.array(ranges, "i8").reshape(-1, 2).T, self.gap)
        lengths = stops - starts
        pieces = int((-(-lengths // self.split)).sum()) if self.split else len(starts)
        planned = int(lengths.sum())
        return Done(branches, held, decoded, needed, pieces, planned, *(b - a for a, b in itertools.pairwise(stamps)))

    def settle(self, timeout_s: float) -> None:
        self.reader.settle(timeout_s)

    def counts(self) -> Counts:
        return self.counter.now()

    def facts(self) -> dict[str, Any]:
        return {"statuses": {str(k): v for k, v in sorted(self.counter.statuses.items())}}

    def close(self) -> None:
        if self.fs is not None:
            with contextlib.suppress(OSError):
                s3fs_counted.disconnect(self.fs)
            self.fs = None
            super().close()

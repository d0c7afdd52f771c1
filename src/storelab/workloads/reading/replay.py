"""Engine of `replay`: the ranges of a selection, read again and again, nothing of ROOT decoded: what the store can do.

Ranges come from the side-car; the CRC-32 of every basket is compared.
"""

import contextlib
import itertools
from typing import Any

import numpy as np

from storelab.core import clock
from storelab.core.errors import UserError
from storelab.datasets.root import baskets
from storelab.engines.common.selections import Done
from storelab.engines.contract import Job
from storelab.engines.planned import PlannedBase
from storelab.readplan.choose import Requests, plan
from storelab.readplan.source import fetch


class ReplayClient(PlannedBase):
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
                f"sweeps.{self.job.point.sweep}.axes.scale",
                f"all chosen branches of {root['scale']} lie in the header of its tree: there is no range to replay",
                "take a larger file, or the workload read_volume",
            )
        self.settings["merge"] = "planned" if self.gap is None else f"gaps up to {self.gap} B"
        with contextlib.suppress(Exception):  # what is wrong is an error of the first read
            self.calibrate()

    def open_file(self) -> None:
        """Nothing is opened; a link that could not be measured before is now."""
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

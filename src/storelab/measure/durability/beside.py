"""Readings beside a fault: a sample while something is away and clients write, all of it when they have ended and it is
still away, all of it again when the store is whole.

May import: `core`, `readings`.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from storelab.core import clock
from storelab.core.axes.faults import LOSSES, UNDOES
from storelab.core.errors import MeasurementFailed
from storelab.measure.durability.readings import Readings

S = 10**9
LATER_NS = S // 2  # after the loss, a reading begins
SAMPLE, THREADS = 1000, 2  # of a reading beside clients, whom it should not disturb
LEAST_S, MOST_S = 0.2, 10.0  # that such a reading is given
WHOLE_S = 60.0  # for all of it, while something is away


def away(acts: Sequence[Mapping[str, Any]], duration_ns: int) -> list[tuple[int, int]]:
    """Spans (ns from the start) in which at least one actor is away; one that is never undone ends with the run. acts:
    as of `core.campaign.faults.resolved`."""
    gone: dict[str, set[str]] = {}
    out, since = [], None
    for act in acts:
        for actor in act["actors"]:
            if act["act"] in LOSSES:
                gone.setdefault(actor, set()).add(act["act"])
            gone.get(actor, set()).difference_update(UNDOES.get(act["act"], ()))
        if any(gone.values()) and since is None:
            since = act["at_ns"]
        elif not any(gone.values()) and since is not None:
            out.append((since, act["at_ns"]))
            since = None
    return [*out, (since, duration_ns)] if since is not None else out


class Beside:
    """The readings of one run with a fault. `start` when its start is agreed; `ended` when the clients have ended, and
    before the fault is taken back."""

    def __init__(self, readings: Readings, acts: Sequence[Mapping[str, Any]], duration_ns: int):
        self.readings, self.spans, self.duration_ns = readings, away(acts, duration_ns), duration_ns
        self.over, self.failed = threading.Event(), ""
        self.thread: threading.Thread | None = None

    def start(self, t0_ns: int) -> None:
        self.thread = threading.Thread(target=self._run, args=(t0_ns,), daemon=True, name="readings")
        self.thread.start()

    def _run(self, t0_ns: int) -> None:
        for begin_ns, end_ns in self.spans:
            if self.over.wait(max(0, t0_ns + begin_ns + LATER_NS - clock.now_ns()) / S):
                return
            seconds = min(MOST_S, (t0_ns + end_ns - clock.now_ns()) / S)
            if seconds < LEAST_S:
                continue
            try:
                self.readings.take("down", live=True, most=SAMPLE, seconds=seconds, threads=THREADS)
            except MeasurementFailed as error:
                self.failed = str(error)

    def ended(self) -> None:
        """Raises MeasurementFailed where a reading could not be done."""
        self.over.set()
        if self.thread:
            self.thread.join()
        if self.failed:
            raise MeasurementFailed(self.failed)
        if self.spans and self.spans[-1][1] == self.duration_ns:
            self.readings.take("down", seconds=WHOLE_S)

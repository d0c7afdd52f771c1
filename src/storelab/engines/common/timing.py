"""Schedule operations, limit the time after the deadline, and detect pauses of the client.

In a closed loop, a worker begins its next operation when it is free. In an open loop, operation k of the point is due
at `start + k / rate`, even if earlier operations have not ended. A worker that is late takes the oldest due operation.
The latency counts from the due time. A stall of the server therefore affects all operations that should have begun
during the stall (G. Tene's "coordinated omission"; wrk2, https://github.com/giltene/wrk2).

A pause is a time in which a clock did not tick as expected. The host was suspended or busy, or the interpreter was
busy. The client could not observe the store in this time. The engine loadgen does the same in Go
(`loadgen/load/pauses.go`).
"""

import heapq
import itertools
import random
import threading
import time
from typing import Any

from storelab.core import clock

# Operations in flight at the deadline can take longer by this fraction of the window (within the bounds). Operations
# that are still in flight after this time count as hung. In a long enough window (`steadiness`: 5 operations per
# worker), no normal operation is this slow.
DRAIN, MIN_DRAIN_S, MAX_DRAIN_S = 0.2, 5.0, 30.0
IN_FLIGHT = "still in flight when the time for operations in flight at the deadline was over"
# interval of the clock's ticks, and minimum delay of a tick that counts as a pause
TICK_NS, FROM_NS = 10_000_000, 20_000_000
MAX_PAUSES = 100  # maximum number of pauses that are listed; the longest are listed


def drain_s(window_ns: int) -> float:
    """Return the time in seconds after the deadline at which operations in flight are abandoned."""
    return min(max(DRAIN * window_ns / 1e9, MIN_DRAIN_S), MAX_DRAIN_S)


class ClosedLoop:
    """A closed loop: until the deadline, every worker begins its next operation immediately."""

    def __init__(self, deadline_ns: int):
        self.deadline_ns = deadline_ns

    def next(self) -> tuple[int, int] | None:
        """Return (0, now) to begin immediately, in UTC ns, or None after the deadline."""
        now = clock.now_ns()
        return (0, now) if now < self.deadline_ns else None

    def missed(self) -> int:
        """Return 0, because no operation has a due time in a closed loop."""
        return 0


class OpenLoop:
    """The due times of one process of a point, whose operations are due `rate` times a second. Thread-safe.

    This process takes the operations `index`, `index + stride`, …. `stride` is the number of processes of the point.
    """

    def __init__(self, start_ns: int, deadline_ns: int, rate: float, index: int, stride: int):
        self.start_ns, self.deadline_ns, self.step_ns = start_ns, deadline_ns, 1e9 / rate
        self.numbers = itertools.count(index, stride)
        self.index, self.stride = index, stride
        self.begun = 0

    def due(self) -> int:
        """Return the time at which the next operation is due (UTC ns), and assign this operation to the caller."""
        return self.start_ns + int(next(self.numbers) * self.step_ns)

    def next(self) -> tuple[int, int] | None:
        """Sleep until the next operation is due.

        Return its due time and the current time (UTC ns), or None after the deadline.
        """
        due = self.due()
        while (now := clock.now_ns()) < due < self.deadline_ns:
            time.sleep((due - now) / 1e9)
        if due >= self.deadline_ns or now >= self.deadline_ns:
            return None
        self.begun += 1
        return due, now

    def missed(self) -> int:
        """Return the number of operations that were due before now or the deadline but never began.

        They did not begin because no worker was free.
        """
        last = int((min(self.deadline_ns, clock.now_ns()) - 1 - self.start_ns) / self.step_ns)
        due = max(0, (last - self.index) // self.stride + 1)
        return max(0, due - self.begun)


class Poisson(OpenLoop):
    """An open loop with the same mean rate, and independent exponential times between operations.

    All `stride` processes have different seeds. Together, they are one Poisson process with the whole rate.
    """

    def __init__(self, start_ns: int, deadline_ns: int, rate: float, index: int, stride: int, seed: int):
        super().__init__(start_ns, deadline_ns, rate, index, stride)
        self.rng, self.lock = random.Random(seed), threading.Lock()
        self.at = 0.0  # last due time, in ns after the start
        self.within = 0  # number of operations due before the deadline

    def due(self) -> int:
        """Draw the time at which the next operation is due (UTC ns), and assign this operation to the caller."""
        with self.lock:
            self.at += self.rng.expovariate(1 / (self.step_ns * self.stride))
            due = self.start_ns + int(self.at)
            self.within += due < self.deadline_ns
            return due

    def missed(self) -> int:
        """Return the number of operations that were due before the deadline but never began."""
        while self.due() < self.deadline_ns:  # operations that no worker took
            pass
        return max(0, self.within - self.begun)


class Watch:
    """A detector of pauses of this process, between `start()` and `stop()`."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.count = self.sum_ns = 0
        self.longest: list[tuple[int, int]] = []  # a heap of (length, begin)

    def start(self) -> None:
        """Start to detect pauses, in a separate thread."""
        self.thread = threading.Thread(target=self._tick, daemon=True)
        self.thread.start()

    def _tick(self) -> None:
        last = clock.now_ns()
        while not self.ended.is_set():
            time.sleep(TICK_NS / 1e9)
            now = clock.now_ns()
            if (late := now - last - TICK_NS) >= FROM_NS:
                self.note(now - late, late)
            last = now

    def note(self, begin_ns: int, length_ns: int) -> None:
        """Add a pause to the counts."""
        self.count += 1
        self.sum_ns += length_ns
        keep = heapq.heappush if len(self.longest) < MAX_PAUSES else heapq.heappushpop
        keep(self.longest, (length_ns, begin_ns))

    def stop(self) -> dict[str, Any]:
        """Stop, and return the pauses for the record.

        The entries are `count`, `sum_ns` and `longest_ns` of all pauses, and `longest`. `longest` has the start (UTC
        ns) and the length (ns) of the longest pauses, sorted by start.
        """
        self.ended.set()
        self.thread.join()
        most = max(self.longest, default=(0, 0))[0]
        kept = sorted((begin, length) for length, begin in self.longest)
        return {"count": self.count, "sum_ns": self.sum_ns, "longest_ns": most, "longest": kept}


def merge_pauses(processes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the pauses of all processes of a client.

    The sums are those of the process with the longest total pause. The longest pauses come from all processes.
    """
    kept = sorted((tuple(p) for t in processes for p in t["longest"]), key=lambda p: -p[1])[:MAX_PAUSES]
    return max(processes, key=lambda t: t["sum_ns"]) | {
        "longest_ns": max(t["longest_ns"] for t in processes),
        "longest": sorted(kept),
    }

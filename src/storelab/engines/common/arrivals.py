"""When operations begin, and when those in flight are given up: closed loop (a worker begins when it is free) or open
loop. Standard library and `core` only.

Open loop: operation k of the point is due at `start + k / rate`, whatever happened to earlier ones. A worker that is
late takes the oldest due operation. Its latency counts from when it was due, so that a stall of the server is seen by
all operations that should have begun meanwhile (G. Tene's "coordinated omission"; wrk2,
https://github.com/giltene/wrk2).
"""

import itertools
import random
import threading
import time

from storelab.core import clock

# Operations in flight at the deadline may take this part of the window longer to end (between the bounds). Those in
# flight then hung. In a window that is long enough (`steadiness`: 5 operations for each in flight), none is so slow.
DRAIN, LEAST_DRAIN_S, MOST_DRAIN_S = 0.2, 5.0, 30.0
IN_FLIGHT = "still in flight when the time for operations in flight at the deadline was over"


def drain_s(window_ns: int) -> float:
    """Seconds after the deadline at which operations in flight are given up."""
    return min(max(DRAIN * window_ns / 1e9, LEAST_DRAIN_S), MOST_DRAIN_S)


class Closed:
    """Every worker begins its next operation at once, until the deadline."""

    def __init__(self, deadline_ns: int):
        self.deadline_ns = deadline_ns

    def next(self) -> tuple[int, int] | None:
        """(0, now): begin now (UTC ns); None: no more."""
        now = clock.now_ns()
        return (0, now) if now < self.deadline_ns else None

    def missed(self) -> int:
        return 0


class Open:
    """Arrivals `index`, `index + stride`, … of a point whose operations are due `rate` times a second. Thread-safe.

    index, stride: number of this process among the point's processes, and how many there are.
    """

    def __init__(self, start_ns: int, deadline_ns: int, rate: float, index: int, stride: int):
        self.start_ns, self.deadline_ns, self.step_ns = start_ns, deadline_ns, 1e9 / rate
        self.numbers = itertools.count(index, stride)
        self.index, self.stride = index, stride
        self.begun = 0

    def due(self) -> int:
        """When the next operation is due, which nobody else takes then."""
        return self.start_ns + int(next(self.numbers) * self.step_ns)

    def next(self) -> tuple[int, int] | None:
        """Sleep until the next operation is due; (that time, now), both UTC ns; None after the deadline."""
        due = self.due()
        while (now := clock.now_ns()) < due < self.deadline_ns:
            time.sleep((due - now) / 1e9)
        if due >= self.deadline_ns or now >= self.deadline_ns:
            return None
        self.begun += 1
        return due, now

    def missed(self) -> int:
        """Operations that were due before the deadline, or now if that comes first, and never began: no worker was
        free."""
        last = int((min(self.deadline_ns, clock.now_ns()) - 1 - self.start_ns) / self.step_ns)
        due = max(0, (last - self.index) // self.stride + 1)
        return max(0, due - self.begun)


class Poisson(Open):
    """The same rate on average, at random: gaps are exponential, each by itself. `stride` processes, each of its own
    seed, are one Poisson process of the whole rate together."""

    def __init__(self, start_ns: int, deadline_ns: int, rate: float, index: int, stride: int, seed: int):
        super().__init__(start_ns, deadline_ns, rate, index, stride)
        self.rng, self.lock = random.Random(seed), threading.Lock()
        self.at = 0.0  # of the last arrival, ns after the start
        self.within = 0  # arrivals before the deadline

    def due(self) -> int:
        with self.lock:
            self.at += self.rng.expovariate(1 / (self.step_ns * self.stride))
            due = self.start_ns + int(self.at)
            self.within += due < self.deadline_ns
            return due

    def missed(self) -> int:
        while self.due() < self.deadline_ns:  # those that nobody took
            pass
        return max(0, self.within - self.begun)

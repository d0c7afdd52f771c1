"""Start times of operations, the limit for operations in flight at the deadline, and pauses of the client itself.

Standard library and `core` only. Closed loop: a worker begins when it is free. Open loop: operation k of the point is
due at `start + k / rate`, regardless of earlier ones. A worker that is late takes the oldest due operation. Its latency
counts from the due time, so that a stall of the server affects all operations that should have begun during it
(G. Tene's "coordinated omission"; wrk2, https://github.com/giltene/wrk2).

A pause is a time in which a clock that should have ticked did not: the host was stopped, gave its cores to others, or
the interpreter was busy. The client could not observe the store in that time. The engine loadgen does the same in Go
(`loadgen/load/pauses.go`).
"""

import heapq
import itertools
import random
import threading
import time
from typing import Any

from storelab.core import clock

# Operations in flight at the deadline may take longer by this fraction of the window (within the bounds). Those that
# are still in flight then hung. In a window that is long enough (`steadiness`: 5 operations for each in flight), none
# is that slow.
DRAIN, MIN_DRAIN_S, MAX_DRAIN_S = 0.2, 5.0, 30.0
IN_FLIGHT = "still in flight when the time for operations in flight at the deadline was over"
TICK_NS, FROM_NS = 10_000_000, 20_000_000  # length of a tick; minimum delay of a tick that counts as a pause
MAX_PAUSES = 100  # the longest pauses, which are listed individually


def drain_s(window_ns: int) -> float:
    """Return the seconds after the deadline at which operations in flight are abandoned."""
    return min(max(DRAIN * window_ns / 1e9, MIN_DRAIN_S), MAX_DRAIN_S)


class ClosedLoop:
    """A closed loop: every worker begins its next operation at once, until the deadline."""

    def __init__(self, deadline_ns: int):
        self.deadline_ns = deadline_ns

    def next(self) -> tuple[int, int] | None:
        """Return (0, now) to begin now (UTC ns); None after the deadline."""
        now = clock.now_ns()
        return (0, now) if now < self.deadline_ns else None

    def missed(self) -> int:
        return 0


class OpenLoop:
    """Arrivals `index`, `index + stride`, … of a point whose operations are due `rate` times a second. Thread-safe.

    index, stride: number of this process among the point's processes, and how many there are.
    """

    def __init__(self, start_ns: int, deadline_ns: int, rate: float, index: int, stride: int):
        self.start_ns, self.deadline_ns, self.step_ns = start_ns, deadline_ns, 1e9 / rate
        self.numbers = itertools.count(index, stride)
        self.index, self.stride = index, stride
        self.begun = 0

    def due(self) -> int:
        """Return when the next operation is due, and assign it to the caller."""
        return self.start_ns + int(next(self.numbers) * self.step_ns)

    def next(self) -> tuple[int, int] | None:
        """Sleep until the next operation is due; return (due time, now), both UTC ns, or None after the deadline."""
        due = self.due()
        while (now := clock.now_ns()) < due < self.deadline_ns:
            time.sleep((due - now) / 1e9)
        if due >= self.deadline_ns or now >= self.deadline_ns:
            return None
        self.begun += 1
        return due, now

    def missed(self) -> int:
        """Return the number of operations that were due before now or the deadline and never began.

        No worker was free for them.
        """
        last = int((min(self.deadline_ns, clock.now_ns()) - 1 - self.start_ns) / self.step_ns)
        due = max(0, (last - self.index) // self.stride + 1)
        return max(0, due - self.begun)


class Poisson(OpenLoop):
    """An open loop with the same average rate and independent exponential gaps.

    `stride` processes, each with its own seed, form one Poisson process with the whole rate.
    """

    def __init__(self, start_ns: int, deadline_ns: int, rate: float, index: int, stride: int, seed: int):
        super().__init__(start_ns, deadline_ns, rate, index, stride)
        self.rng, self.lock = random.Random(seed), threading.Lock()
        self.at = 0.0  # last arrival, ns after the start
        self.within = 0  # arrivals before the deadline

    def due(self) -> int:
        with self.lock:
            self.at += self.rng.expovariate(1 / (self.step_ns * self.stride))
            due = self.start_ns + int(self.at)
            self.within += due < self.deadline_ns
            return due

    def missed(self) -> int:
        while self.due() < self.deadline_ns:  # those that no worker took
            pass
        return max(0, self.within - self.begun)


class Watch:
    """A watch for pauses of this process, between `start()` and `stop()`.

    `stop()` returns the entries of the record: count, sum_ns and longest_ns of all pauses, and `longest`: begin
    (UTC ns) and length (ns) of the longest ones, sorted by their begin.
    """

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.count = self.sum_ns = 0
        self.longest: list[tuple[int, int]] = []  # a heap of (length, begin)

    def start(self) -> None:
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
        """Count a pause."""
        self.count += 1
        self.sum_ns += length_ns
        keep = heapq.heappush if len(self.longest) < MAX_PAUSES else heapq.heappushpop
        keep(self.longest, (length_ns, begin_ns))

    def stop(self) -> dict[str, Any]:
        self.ended.set()
        self.thread.join()
        most = max(self.longest, default=(0, 0))[0]
        kept = sorted((begin, length) for length, begin in self.longest)
        return {"count": self.count, "sum_ns": self.sum_ns, "longest_ns": most, "longest": kept}


def merge_pauses(processes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums of the process that paused most, and the longest pauses of all processes of a client."""
    kept = sorted((tuple(p) for t in processes for p in t["longest"]), key=lambda p: -p[1])[:MAX_PAUSES]
    return max(processes, key=lambda t: t["sum_ns"]) | {
        "longest_ns": max(t["longest_ns"] for t in processes),
        "longest": sorted(kept),
    }

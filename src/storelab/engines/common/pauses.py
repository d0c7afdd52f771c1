"""Pauses of the client itself: times in which a clock that should have ticked did not. May import: `core`.

The host stood still, gave its cores to others, or the interpreter was busy: what a store did meanwhile, nobody saw. The
engine loadgen does the same in Go (`loadgen/load/pauses.go`).
"""

import heapq
import threading
import time
from typing import Any

from storelab.core import clock

TICK_NS, FROM_NS = 10_000_000, 20_000_000  # a tick; how late it has to be
MOST = 100  # pauses kept one by one, the longest


class Watch:
    """`start()`, then `stop()`, which returns what is in the record: count, sum_ns and longest_ns of all pauses, and
    `longest`: begin (UTC ns) and length (ns) of the longest ones, by their begin."""

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
        """A pause."""
        self.count += 1
        self.sum_ns += length_ns
        keep = heapq.heappush if len(self.longest) < MOST else heapq.heappushpop
        keep(self.longest, (length_ns, begin_ns))

    def stop(self) -> dict[str, Any]:
        self.ended.set()
        self.thread.join()
        most = max(self.longest, default=(0, 0))[0]
        kept = sorted((begin, length) for length, begin in self.longest)
        return {"count": self.count, "sum_ns": self.sum_ns, "longest_ns": most, "longest": kept}


def together(told: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the processes of a client: the sums of the one that paused most, and the longest pauses of any of them."""
    kept = sorted((tuple(p) for t in told for p in t["longest"]), key=lambda p: -p[1])[:MOST]
    return max(told, key=lambda t: t["sum_ns"]) | {
        "longest_ns": max(t["longest_ns"] for t in told),
        "longest": sorted(kept),
    }

"""What a client did in a window: the same count for storelab's engines and for their peers.

The window lies in the middle of a run: it begins when all have their connections, and ends while all still work. So
start-up and the last operations of a run are in nobody's figures.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def in_window(start_ns: Sequence[int], end_ns: Sequence[int], window: tuple[int, int]) -> float:
    """Operations within the window (begin, end] in ns. Starts and ends: shape (n,).

    One that began before the window or ended after it counts by the part of its time that lies in the window: its bytes
    are taken to flow evenly. Whole operations would be off by those in flight at the edges, which of large objects is
    much.
    """
    start, end = (np.asarray(t, "f8") for t in (start_ns, end_ns))
    begin, stop = window
    took, inside = end - start, np.minimum(end, stop) - np.maximum(start, begin)
    at_once = (end > begin) & (end <= stop)  # of operations that took no time
    return float(np.where(took > 0, np.clip(inside, 0, None) / np.maximum(took, 1), at_once).sum())


def cpu_samples(columns: Mapping[str, Sequence[Any]]) -> list[tuple[int, float]]:
    """(ns, CPU seconds so far) of the one client that a monitor watched, children included."""
    rows = zip(*(columns[c] for c in ("what", "time_ns", "cpu_user_s", "cpu_system_s")), strict=True)
    return [(ns, user + system) for what, ns, user, system in rows if what == "client"]


def cpu_in_window(samples: Sequence[tuple[int, float]], window: tuple[int, int]) -> float:
    """CPU seconds in the window, of samples (ns, CPU seconds so far), between which it grows evenly.

    Raises ValueError where the samples do not span the window.
    """
    if len(samples) < 2 or samples[0][0] > window[0] or samples[-1][0] < window[1]:
        raise ValueError("the samples of CPU time do not span the window")
    times, cpu = np.asarray([t for t, _ in samples], "i8"), np.asarray([c for _, c in samples])
    at_begin, at_end = np.interp(window, times, cpu)
    return float(at_end - at_begin)


def closed_loop(begin_ns: int, end_ns: Sequence[int], workers: int) -> list[int]:
    """Starts of operations of which only the ends are known, in the order of the ends.

    The first `workers` begin together, each later one when an earlier one ends.
    """
    ends = sorted(end_ns)
    return [begin_ns] * min(workers, len(ends)) + ends[: max(0, len(ends) - workers)]

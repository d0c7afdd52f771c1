"""Count the operations and CPU time of a client in a window, in the same way for storelab's engines and their peers.

The window is in the middle of a run: it begins when all workers are connected, and ends while all still work. Start-up
and the last operations of a run are therefore in no figure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def in_window(start_ns: Sequence[int], end_ns: Sequence[int], window: tuple[int, int]) -> float:
    """Return the number of operations within the window (begin, end] in ns. Starts and ends: shape (n,).

    An operation that crosses an edge counts by the fraction of its time inside the window, as if its bytes flowed
    evenly. Counting whole operations would give an error of those in flight at the edges, which is large for large
    objects.
    """
    start, end = (np.asarray(t, "f8") for t in (start_ns, end_ns))
    begin, stop = window
    took, inside = end - start, np.minimum(end, stop) - np.maximum(start, begin)
    at_once = (end > begin) & (end <= stop)  # for operations that took no time
    return float(np.where(took > 0, np.clip(inside, 0, None) / np.maximum(took, 1), at_once).sum())


def cpu_samples(columns: Mapping[str, Sequence[Any]]) -> list[tuple[int, float]]:
    """Return (ns, CPU seconds so far) of the only client that a monitor watched, with its child processes."""
    rows = zip(*(columns[c] for c in ("what", "time_ns", "cpu_user_s", "cpu_system_s")), strict=True)
    return [(ns, user + system) for what, ns, user, system in rows if what == "client"]


def cpu_in_window(samples: Sequence[tuple[int, float]], window: tuple[int, int]) -> float:
    """Return the CPU seconds in the window, interpolated linearly between samples (ns, CPU seconds so far).

    Raise ValueError if the samples do not span the window.
    """
    if len(samples) < 2 or samples[0][0] > window[0] or samples[-1][0] < window[1]:
        raise ValueError("the samples of CPU time do not span the window")
    times, cpu = np.asarray([t for t, _ in samples], "i8"), np.asarray([c for _, c in samples])
    at_begin, at_end = np.interp(window, times, cpu)
    return float(at_end - at_begin)


def closed_loop(begin_ns: int, end_ns: Sequence[int], workers: int) -> list[int]:
    """Return the starts of operations of which only the ends are known, in the order of the ends.

    The first `workers` operations begin together; each later one begins when an earlier one ends.
    """
    ends = sorted(end_ns)
    return [begin_ns] * min(workers, len(ends)) + ends[: max(0, len(ends) - workers)]

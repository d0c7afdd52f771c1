"""One clock for all records: UTC nanoseconds, wall clock read once at import, monotonic from there.

On another host than the coordinator's, the difference of the two clocks is added (`gang/nodes.py` measures it), so
that all times of a point are those of one clock.
"""

import os
import time
from collections.abc import Callable
from typing import Any

OFFSET = "STORELAB_CLOCK_OFFSET_NS"  # environment: what a process adds to its host's clock
_WALL = time.time_ns() - time.monotonic_ns()
_offset = int(os.environ.get(OFFSET, "0"))


def now_ns() -> int:
    """UTC nanoseconds that never jump: a step of the wall clock during a measurement does not reach the records."""
    return _WALL + _offset + time.monotonic_ns()


def set_offset(ns: int) -> None:
    """Add so many nanoseconds to this host's clock from now on, in this process."""
    global _offset
    _offset = ns


def wait_for(look: Callable[[], Any], seconds: float, pause_s: float) -> Any:
    """What `look` returns, as soon as it is not empty, or after so many seconds; `pause_s` between two looks."""
    limit = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < limit:
        time.sleep(pause_s)
    return found


def sleep_until(t_ns: int) -> None:
    """Sleep (no spinning) until `now_ns()` reaches `t_ns`; returns at once where that has passed."""
    while (left := t_ns - now_ns()) > 0:
        time.sleep(left / 1e9)

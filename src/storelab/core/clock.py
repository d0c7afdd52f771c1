"""Provide one clock for all records: UTC in ns.

The wall clock is read once, when this module is imported. Afterwards the clock is monotonic. On other hosts, the
difference to the coordinator's clock is added (`gang/nodes.py` measures it), so that all times of a point belong to one
clock.
"""

import os
import time
from collections.abc import Callable
from typing import Any

OFFSET = "STORELAB_CLOCK_OFFSET_NS"  # environment variable: ns that a process adds to its host's clock
_WALL = time.time_ns() - time.monotonic_ns()
_offset = int(os.environ.get(OFFSET, "0"))


def now_ns() -> int:
    """Return UTC in ns, without jumps. A step of the wall clock during a measurement has no effect."""
    return _WALL + _offset + time.monotonic_ns()


def set_offset(ns: int) -> None:
    """Set the number of ns that this process adds to its host's clock from now on."""
    global _offset
    _offset = ns


def wait_for(look: Callable[[], Any], seconds: float, pause_s: float) -> Any:
    """Call `look` every `pause_s` until its result is not empty or `seconds` have passed, and return the result."""
    limit = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < limit:
        time.sleep(pause_s)
    return found


def sleep_until(t_ns: int) -> None:
    """Sleep (without spinning) until `now_ns()` reaches `t_ns`. Return immediately if this time has passed."""
    while (left := t_ns - now_ns()) > 0:
        time.sleep(left / 1e9)

"""One clock for all records: UTC nanoseconds, wall clock read once at import, monotonic from there (level 0)."""

import time

_WALL = time.time_ns() - time.monotonic_ns()


def now_ns() -> int:
    """UTC nanoseconds that never jump: a step of the wall clock during a measurement does not reach the records."""
    return _WALL + time.monotonic_ns()


def sleep_until(t_ns: int) -> None:
    """Sleep (no spinning) until `now_ns()` reaches `t_ns`; returns at once where that has passed."""
    while (left := t_ns - now_ns()) > 0:
        time.sleep(left / 1e9)

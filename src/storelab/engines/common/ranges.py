"""Where the ranges of `get_range` begin, whatever the engine (level 2, measuring side)."""

import random
from collections.abc import Iterator

from storelab.core import units


def begins(offset: str, size: int, length: int, rng: random.Random) -> Iterator[int]:
    """Offsets in bytes of the ranges of `length` to read of one object of `size` bytes before the next object is taken.

    offset: the axis, see `workloads/get_range.py`. `sequential` gives all whole ranges from the begin of the object to its end.
    """
    if offset == "random":
        yield rng.randrange(size - length + 1)
    elif offset == "sequential":
        yield from range(0, size - length + 1, length)
    else:
        yield fixed(offset)


def fixed(offset: str) -> int:
    """The axis' value as bytes, 0 for the two that are no place."""
    return 0 if offset in ("random", "sequential") else units.parse(offset, "size", "offset")

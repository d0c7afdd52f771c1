"""Where the ranges of `get_range` begin, whatever the engine."""

import random
from collections.abc import Iterator

from storelab.core import units


def begins(offset: str, size: int, length: int, rng: random.Random) -> Iterator[int]:
    """Offsets in bytes of the ranges of `length` bytes to read from one object of `size` bytes, before the next object.

    offset: the axis, see `workloads/objects.py`. `sequential` gives all whole ranges from begin to end of the
    object.
    """
    if offset == "random":
        yield rng.randrange(size - length + 1)
    elif offset == "sequential":
        yield from range(0, size - length + 1, length)
    else:
        yield fixed(offset)


def fixed(offset: str) -> int:
    """The axis' value in bytes, 0 for `random` and `sequential`."""
    return 0 if offset in ("random", "sequential") else units.parse(offset, "size", "offset")

"""Free blocks of ports for servers of tests and benchmarks.

They are below 22000, so that gRPC's port + 10000 is below the range of outgoing ports. The choice is deterministic for
each worker. Blocks are probed, and reserved by lock files while the process lives, because test runs may share a
machine.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import IO

from storelab import stores
from storelab.stores.managed.daemons import free

FIRST, LAST = 12000, 22000
STEP = 32  # blocks begin at multiples of this number; a lock file reserves each piece of this size
SIZE = 128  # one block of any store (Ceph needs the most, 100), or several deployments of most stores
_held: dict[int, IO] = {}  # first port of a reserved piece -> its open lock file; released when the process ends


@cache
def _defaults() -> list[range]:
    """Return the ports of stores without a configured port: their deployment and three more."""
    kinds = [kind for kind in map(stores.load, stores.KINDS) if kind.port_block]
    firsts = [(kind.Settings.model_fields["port"].default, kind) for kind in kinds]
    return [
        range(first + offset, first + offset + 4 * kind.port_block)
        for first, kind in firsts
        for offset in {0, kind.second_block}
    ]


def _usual(first: int, count: int) -> bool:
    """Return whether a store without a configured port may use one of these ports, or of these + 10000."""
    return any(
        first + offset < taken.stop and taken.start < first + offset + count
        for taken in _defaults()
        for offset in (0, 10000)
    )


def _reserve(first: int) -> bool:
    if first in _held:
        return False
    path = Path(tempfile.gettempdir()) / f"storelab-tests-{os.getuid()}-{first}.lock"
    f = path.open("w")
    try:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        f.close()
        return False
    _held[first] = f
    return True


def block(count: int = SIZE) -> int:
    """Return the first of `count` free ports in a row, whose ports + 10000 are free too. `release` frees them.

    A store needs `port_block` ports (an attribute of its class) for each deployment that axes request.
    """
    steps = (LAST - FIRST) // STEP
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for i in range(steps):
        first = FIRST + STEP * ((worker * steps // 4 + i) % steps)
        pieces = range(first, first + count, STEP)
        if first + count > LAST or _usual(first, count) or any(n in _held for n in pieces):
            continue
        ours = [n for n in pieces if _reserve(n)]
        if len(ours) == len(pieces) and all(
            free("127.0.0.1", p + offset) for p in range(first, first + count) for offset in (0, 10000)
        ):
            return first
        release(ours)
    raise RuntimeError("no free block of ports")


def held() -> set[int]:
    """Return the pieces that this process has reserved."""
    return set(_held)


def release(pieces: Iterable[int]) -> None:
    """Release these pieces for other processes."""
    for n in pieces:
        _held.pop(n).close()

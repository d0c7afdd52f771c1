"""Ports for servers of tests and benchmarks: free blocks below 22000, so that gRPC's port + 10000 stays below the
outgoing ports.

Deterministic per worker, probed, and reserved by a lock file while the test process lives: several test runs may share
a machine.
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
STEP = 32  # blocks begin at multiples of it; each such piece is reserved by a lock file
SIZE = 128  # the block of any store (Ceph takes most, 100), or the blocks of several deployments of most stores
_held: dict[int, IO] = {}  # first port of a reserved piece -> its open lock file; released when the process ends


@cache
def _defaults() -> list[range]:
    """The ports of stores that say none: their own deployment and three more."""
    kinds = [kind for kind in map(stores.load, stores.KINDS) if kind.port_block]
    firsts = [(kind.Settings.model_fields["port"].default, kind) for kind in kinds]
    return [
        range(first + offset, first + offset + 4 * kind.port_block)
        for first, kind in firsts
        for offset in {0, kind.second_block}
    ]


def _usual(first: int, count: int) -> bool:
    """Whether a store that says no port may want one of these, or of these + 10000."""
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
    """First port of `count` free ones in a row, whose port + 10000 are free too. `release` gives them back.

    A store takes as many as its class says (`port_block`), and as many again for each deployment that axes ask for.
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
    """The pieces that this process has reserved."""
    return set(_held)


def release(pieces: Iterable[int]) -> None:
    """Others may take these pieces from now on."""
    for n in pieces:
        _held.pop(n).close()

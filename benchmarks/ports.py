"""Ports for servers of tests and benchmarks: free blocks below 22000, so that gRPC's port + 10000 stays below the outgoing ports.

Deterministic per worker, probed, and reserved by a lock file while the test process lives: several test runs may share a machine.
"""

import fcntl
import os
import tempfile
from pathlib import Path

from storelab.stores.managed.daemons import free

FIRST, LAST, SIZE = 12000, 22000, 32
_held = []  # open lock files; released when the process ends


def _reserve(first: int) -> bool:
    path = Path(tempfile.gettempdir()) / f"storelab-tests-{os.getuid()}-{first}.lock"
    f = path.open("w")
    try:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        f.close()
        return False
    _held.append(f)
    return True


def block(count: int = SIZE) -> int:
    """First port of `count` free ones in a row (32 unless told), whose port + 10000 are free too."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    steps = (LAST - FIRST) // SIZE
    for i in range(steps):
        first = FIRST + SIZE * ((worker * 40 + i) % steps)
        if first + count > LAST or not all(_reserve(n) for n in range(first, first + count, SIZE)):
            continue
        if all(free("127.0.0.1", p + offset) for p in range(first, first + count) for offset in (0, 10000)):
            return first
    raise RuntimeError("no free block of ports")

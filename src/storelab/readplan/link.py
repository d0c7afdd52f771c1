"""A short calibration: what one client sees of a store, as `readplan.cost.Link`, measured through the transport that will read.

The time of requests is measured with ranges of a few bytes far apart: one alone, as many as may be in flight, and eight times as many;
that of bytes with a few large ranges, alone and together. It takes some 600 requests and at most 48 MB.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np

from storelab.readplan.cost import HEADER_BYTES, Link
from storelab.readplan.transports import Transport

SMALL = 64  # bytes of a range that only asks
STREAM = 8 * 2**20  # bytes of one connection's trial
TOGETHER, LARGE = 16, 2 * 2**20  # ranges, and bytes of each, of the trial of all connections
ROUNDS = 8


def measure(transport: Transport, size: int, clock: Callable[[], float] = time.perf_counter) -> Link:
    """Measure the link to an object of `size` bytes (at least 4 kB). Raises ValueError for a smaller one, and what the transport raises."""
    if size < 4096:
        raise ValueError(f"an object of {size} bytes is too small to measure a link with")
    parallel = transport.parallel

    def timed(starts: np.ndarray, length: int) -> float:
        begin = clock()
        transport.fetch(starts.tolist(), (starts + length).tolist())
        return clock() - begin

    def spread(count: int, length: int, shift: int) -> np.ndarray:
        """`count` places in the object, none near another where there is room."""
        return (np.linspace(0, size - length, count).astype("i8") + shift * 131) % (size - length + 1)

    timed(spread(parallel, SMALL, 0), SMALL)  # opens the connections
    rtt = statistics.median(timed(spread(1, SMALL, i), SMALL) for i in range(1, 8))
    first = statistics.median(timed(spread(parallel, SMALL, i), SMALL) for i in range(1, 4))
    many = timed(spread(ROUNDS * parallel, SMALL, 5), SMALL)
    request_s = max(1e-6, (many - first) / ((ROUNDS - 1) * parallel))
    first_s = max(1e-6, (first - rtt) / max(1, parallel - 1))
    length = min(STREAM, max(1, size // 4))
    stream = max(length / max(1e-6, timed(spread(1, length, i), length) - rtt) for i in (0, 3))
    count = min(TOGETHER, parallel)
    length = min(LARGE, max(1, size // 4))
    together = min(timed(spread(count, length, i), length) for i in (1, 4))
    bandwidth = count * length / max(1e-6, together - rtt - (count - 1) * first_s)
    return Link(rtt, first_s, request_s, max(bandwidth, stream), stream, parallel, HEADER_BYTES)

"""A short calibration: what one client sees of a store, as `readplan.cost.Link`, through the transport that will read.

The time of requests is measured with ranges of a few bytes far apart: one alone, as many as may be in flight, and eight
times as many. The time of bytes is measured with ranges of growing size, several together, and one large range alone.
It takes about 1100 requests (150 if one is in flight at a time) and at most 105 MB. If the transport puts several
ranges into a request, all this uses one range each, and then the cost of a further range is measured.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from storelab.readplan.cost import HEADER_BYTES, Link
from storelab.readplan.transports import Transport

SMALL = 64  # bytes of a range that only asks
STREAM = 8 * 2**20  # bytes of the trial with one connection
SIZES = ((2**15, 64), (2**17, 64), (2**19, 32), (2**21, 8))  # bytes of a range, ranges together
ROUNDS = 8
MANY = 64  # least number of small ranges together, if few may be in flight
APART = 1200  # bytes between the begins of ranges that the server must not merge
MOST_TOGETHER = 4096  # ranges, in the trial of several in a request
Timed = Callable[[np.ndarray, int], float]  # seconds to fetch ranges with these begins, all of one length


def measure(transport: Transport, size: int, clock: Callable[[], float] = time.perf_counter) -> Link:
    """Measure the link to an object of `size` bytes (at least 4 kB).

    clock: returns seconds. Raises ValueError for a smaller object, and what the transport raises.
    """
    if size < 4096:
        raise ValueError(f"an object of {size} bytes is too small to measure a link with")

    def timed(starts: np.ndarray, length: int) -> float:
        begin = clock()
        transport.fetch(starts.tolist(), (starts + length).tolist())
        return clock() - begin

    most = getattr(transport, "ranges", 1)
    if most == 1:
        return _single(transport.parallel, size, timed)
    several: Any = transport
    several.ranges = 1
    try:
        link = _single(transport.parallel, size, timed)
    finally:
        several.ranges = most
    return _several(several, size, link, timed)


def _several(transport: Any, size: int, link: Link, timed: Timed) -> Link:
    """The link with the cost of several ranges in one request; unchanged if the object has no room for them."""
    count = min(transport.parallel * transport.ranges, size // APART, MOST_TOGETHER)
    if count < 2 * transport.parallel:
        return link
    before = transport.extra
    took = [timed(np.arange(count) * (size // count) + shift * 131, SMALL) for shift in range(3)]
    part_bytes = round((transport.extra - before) / (3 * count))
    more = replace(link, ranges=transport.ranges, part_bytes=part_bytes)
    return replace(more, part_s=max(1e-9, (min(took) - more.seconds(np.array([SMALL]), count)) / count))


def _single(parallel: int, size: int, timed: Timed) -> Link:
    def spread(count: int, length: int, shift: int) -> np.ndarray:
        """`count` places in the object, different for each shift, none near another if there is room."""
        room = size - length
        return np.linspace(0, room - min(room, 1000), count).astype("i8") + min(room, shift * 131)

    timed(spread(parallel, SMALL, 0), SMALL)  # opens the connections
    rtt = statistics.median(timed(spread(1, SMALL, i), SMALL) for i in range(1, 8))
    first = statistics.median(timed(spread(parallel, SMALL, i), SMALL) for i in range(1, 4))
    together = max(ROUNDS * parallel, MANY)
    many = timed(spread(together, SMALL, 5), SMALL)
    first_s = max(1e-6, (first - rtt) / max(1, parallel - 1))
    request_s = max(1e-6, (many - first) / (together - parallel))
    length = min(STREAM, max(1, size // 4))
    stream = max(length / max(1e-6, timed(spread(1, length, i), length) - rtt) for i in (0, 3))
    curve: list[tuple[int, float]] = []
    for length, count in SIZES:
        if length * 4 > size:
            break
        answering = rtt + (min(count, parallel) - 1) * first_s + max(0, count - parallel) * request_s
        took = min(timed(spread(count, length, i), length) for i in (2, 6))
        curve.append((length, max(curve[-1][1] if curve else 0.0, (took - answering) / count)))
    bandwidth = max(stream, curve[-1][0] / max(1e-9, curve[-1][1])) if curve else stream
    return Link(rtt, first_s, request_s, bandwidth, stream, parallel, tuple(curve), HEADER_BYTES)

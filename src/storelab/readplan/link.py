"""A short calibration: what one client sees of a store, as `readplan.cost.Link`, through the transport that will read.

The time of requests is measured with ranges of a few bytes far apart: one alone, as many as may be in flight, and eight
times as many. The time of bytes is measured with ranges of growing size, several together, and one large range alone.
It takes about 1100 requests (150 if one is in flight at a time, and fewer of a small object), and at most 105 MB and at
most the bytes of the object. If the transport puts several ranges into a request, all this uses one range each, and
then the cost of a further range is measured.

What moves bytes is a difference of two times, and on a busy machine a difference may be anything. So nothing is
believed to be more than `BELIEVED` times as fast as the fastest trial was, waiting included; what was, stands in
`Link.doubtful`.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from storelab.readplan.cost import HEADER_BYTES, Link
from storelab.readplan.transports import Transport

LEAST_SIZE = 4096  # bytes of an object to measure with
SMALL = 64  # bytes of a range that only asks
STREAM = 8 * 2**20  # bytes of the trial with one connection
SIZES = ((2**15, 64), (2**17, 64), (2**19, 32), (2**21, 8))  # bytes of a range, most ranges together
FEWEST = 2  # ranges together, of a size that is tried
ROUNDS = 8
MANY = 64  # least number of small ranges together, if few may be in flight
APART = 1200  # bytes between the begins of ranges that the server must not merge
MOST_TOGETHER = 4096  # ranges, in the trial of several in a request
BELIEVED = 4  # times the fastest rate that was seen
QUICKEST = 1e-6  # seconds; no trial and no request is believed to take less


class _Trials:
    """Fetches ranges of one length, and keeps the bytes spent and the fastest rate seen, in bytes per second."""

    def __init__(self, transport: Transport, size: int, clock: Callable[[], float]):
        self.transport, self.size, self.clock = transport, size, clock
        self.spent, self.fastest = 0, 0.0

    def fetch(self, starts: np.ndarray, length: int) -> float:
        """Seconds that these ranges take together."""
        begin = self.clock()
        self.transport.fetch(starts.tolist(), (starts + length).tolist())
        took = max(QUICKEST, self.clock() - begin)
        self.spent += len(starts) * length
        self.fastest = max(self.fastest, len(starts) * length / took)
        return took

    def spread(self, count: int, length: int, shift: int) -> float:
        """The same of `count` places in the object, different for each shift, none near another if there is room."""
        room = self.size - length
        places = np.linspace(0, room - min(room, 1000), count).astype("i8") + min(room, shift * 131)
        return self.fetch(places, length)


def assumed(parallel: int) -> Link:
    """Return a link for an object that is too small to measure with: a guess, for few requests."""
    return Link(0.01, 1e-4, 1e-3, 1e9, 1e8, parallel, doubtful=("all",))


def connect(transport: Transport, size: int) -> None:
    """Open the connections to an object of `size` bytes, as `measure()` does, where the link is known."""
    _Trials(transport, size, time.perf_counter).spread(transport.parallel, min(SMALL, size), 0)


def measure(transport: Transport, size: int, clock: Callable[[], float] = time.perf_counter) -> Link:
    """Measure the link to an object of `size` bytes (at least 4 kB).

    clock: returns seconds. Raises ValueError for a smaller object, and what the transport raises.
    """
    if size < LEAST_SIZE:
        raise ValueError(f"an object of {size} bytes is too small to measure a link with")
    trials = _Trials(transport, size, clock)
    most = getattr(transport, "ranges", 1)
    if most == 1:
        return _single(trials, size)
    several: Any = transport
    several.ranges = 1
    try:
        link = _single(trials, size * 3 // 4)
    finally:
        several.ranges = most
    return _several(trials, link)


def _several(trials: _Trials, link: Link) -> Link:
    """The link with the cost of several ranges in one request; unchanged if the object has no room for them."""
    transport: Any = trials.transport
    count = min(transport.parallel * transport.ranges, trials.size // APART, MOST_TOGETHER)
    if count < 2 * transport.parallel:
        return link
    before = transport.extra
    took = [trials.fetch(np.arange(count) * (trials.size // count) + i * 131, SMALL) for i in range(3)]
    part_bytes = round((transport.extra - before) / (3 * count))
    more = replace(link, ranges=transport.ranges, part_bytes=part_bytes)
    part_s = (min(took) - more.seconds(np.array([SMALL]), count)) / count
    return (
        replace(more, part_s=part_s) if part_s > 0 else replace(more, part_s=1e-9, doubtful=(*link.doubtful, "part_s"))
    )


def _single(trials: _Trials, most_bytes: int) -> Link:
    parallel, doubtful = trials.transport.parallel, []

    def at_least(name: str, value: float, least: float) -> float:
        if value < least:
            doubtful.append(name)
        return max(value, least)

    together = max(ROUNDS * parallel, MANY)
    if (room := most_bytes // (4 * SMALL) - 5 * parallel) < together:  # a quarter of the bytes for all small ranges
        together = max(2 * parallel, room)
    trials.spread(parallel, SMALL, 0)  # opens the connections
    alone = [trials.spread(1, SMALL, i) for i in range(1, 8)]
    first = [trials.spread(parallel, SMALL, i) for i in range(1, 4)]
    many = trials.spread(together, SMALL, 5)
    rtt = statistics.median(alone)
    first_s = max(QUICKEST, (statistics.median(first) - rtt) / max(1, parallel - 1))
    request_s = (many - statistics.median(first)) / (together - parallel)
    request_s = at_least("request_s", request_s, max(QUICKEST, many / together / BELIEVED))
    length = max(1, min(STREAM, most_bytes // 8))
    alone_took = [trials.spread(1, length, i) for i in (0, 3)]
    stream = max(length / at_least("stream", took - rtt, took / BELIEVED) for took in alone_took)

    # What waiting took at best: the quickest trial of bytes must not be held against a slow one of requests.
    waiting = min(alone), max(0.0, (min(first) - min(alone)) / max(1, parallel - 1))
    curve: list[tuple[int, float]] = []
    for i, (length, count) in enumerate(SIZES):
        share = (most_bytes - trials.spent) // (len(SIZES) - i)
        count = min(count, share // (2 * length))
        if length * 4 > trials.size or count < FEWEST:
            break
        answering = waiting[0] + (min(count, parallel) - 1) * waiting[1] + max(0, count - parallel) * request_s
        took = min(trials.spread(count, length, i) for i in (2, 6))
        curve.append((length, (took - answering) / count))
    fastest = BELIEVED * trials.fastest
    seconds = 0.0
    for i, (length, took) in enumerate(curve):
        seconds = max(seconds, at_least("curve", took, length / fastest))
        curve[i] = length, seconds
    bandwidth = max(stream, curve[-1][0] / seconds) if curve else stream
    known = tuple(sorted(set(doubtful)))
    return Link(rtt, first_s, request_s, bandwidth, stream, parallel, tuple(curve), HEADER_BYTES, doubtful=known)

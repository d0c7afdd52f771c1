"""Cost of reads: the time model of the read planner (`Link`), and the calibration that measures it.

The model is piecewise linear, because clients behave that way. In the number of requests: the first `parallel` requests
start together and cost one round trip, plus `first_s` for each except one. Each further one costs `request_s`: CPU time
of client or server, or its part of the round trip. In the bytes of a request: `curve`, because a server has different
rates for different sizes (SeaweedFS: 2 ms for 512 kB, 0.6 ms for 128 kB).

The calibration uses the transport that will read. It measures the time of requests with ranges of a few bytes far
apart: one range, as many as may be in flight, and eight times as many. It measures the time of bytes with several
simultaneous ranges of increasing size, and with one large range. It takes about 1100 requests (150 if one is in flight
at a time, and fewer for a small object), and at most 105 MB or the bytes of the object. If the transport combines
several ranges in a request, all this uses one range each, and then the cost of a further range is measured.

The transfer time is a difference of two measured times, which is unreliable on a busy host. So no rate is taken to be
more than `MAX_RATE_RATIO` times the fastest trial, including its latency. `Link.doubtful` lists the values that were
limited in this way. May import: numpy, `readplan.transports`.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from readplan.transports import Transport

POSITIVE = ("bandwidth", "stream", "parallel", "ranges")
HEADER_BYTES = 700  # of an answer's header on the wire including frames, if not measured
MIN_SIZE = 4096  # minimum bytes of an object for a measurement
SMALL = 64  # bytes of a range whose transfer time is negligible
STREAM = 8 * 2**20  # bytes of the trial with one connection
SIZES = ((2**15, 64), (2**17, 64), (2**19, 32), (2**21, 8))  # bytes of a range, maximum number of simultaneous ranges
MIN_RANGES = 2  # minimum number of simultaneous ranges of a size
ROUNDS = 8
MANY = 64  # minimum number of simultaneous small ranges, if few may be in flight
RANGE_DISTANCE = 1200  # bytes between the starts of ranges that the server must not merge
MAX_RANGES = 4096  # ranges in the trial of several per request
MAX_RATE_RATIO = 4  # maximum rate, in units of the fastest measured rate
QUICKEST = 1e-6  # minimum seconds of a trial and of a request


@dataclass(frozen=True)
class Link:
    """The performance of a store as one client sees it. Times in seconds, bandwidths in bytes per second.

    rtt_s: time from sending a request for a few bytes to receiving them, on an idle connection; first_s, request_s: see
    above; bandwidth: of all connections; stream: of one connection; parallel: requests in flight beyond which more do
    not help; curve: ((bytes, seconds), …) ascending: additional time of a request of this size, relative to one for a
    few bytes, with all connections busy (beyond the last size, or without a curve: from the bandwidth); header_bytes:
    wire bytes of an answer without its body; ranges: maximum number in one request, if the server really answers
    several (else 1); part_bytes, part_s: cost of one more range in such a request; doubtful: values that noise made
    impossible, which were set to the limit of the measured ones; `all` if the object was too small for a measurement.
    """

    rtt_s: float
    first_s: float
    request_s: float
    bandwidth: float
    stream: float
    parallel: int
    curve: tuple[tuple[int, float], ...] = ()
    header_bytes: int = HEADER_BYTES
    ranges: int = 1
    part_bytes: int = 0
    part_s: float = 0.0
    doubtful: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name not in ("curve", "doubtful") and not (value > 0 if name in POSITIVE else value >= 0):
                need = "more than 0" if name in POSITIVE else "at least 0"
                raise ValueError(f"{name} = {value} of a link is impossible; give {need}")
        edges = [0, *(size for size, _ in self.curve)]
        if any(not (a < b and s >= 0) for a, b, (_, s) in zip(edges, edges[1:], self.curve, strict=False)):
            raise ValueError(f"curve = {self.curve} of a link is impossible; give ascending sizes, and seconds >= 0")

    @property
    def occupied_s(self) -> float:
        """Return the time that a request uses shared resources, mainly the server: `request_s` without round trip."""
        return max(0.0, self.request_s - self.rtt_s / self.parallel)

    def shared(self, pieces: Any, asked_wire: Any) -> Any:
        """Return the seconds that requests for these pieces and wire bytes use link and server, which readers share."""
        return asked_wire / self.bandwidth + self._requests(np.asarray(pieces)) * self.occupied_s

    def _requests(self, pieces: np.ndarray) -> np.ndarray:
        together = np.clip(-(-pieces // self.parallel), 1, self.ranges)
        heads: np.ndarray = -(-pieces // together)
        return heads

    def requests(self, pieces: int) -> int:
        """Return the number of requests for these pieces: fewer if ranges are combined, but at least `parallel`."""
        return int(self._requests(np.asarray(pieces)))

    def wire(self, pieces: Any, requested: Any) -> Any:
        """Return the wire bytes of this many pieces and total bytes: numbers, or arrays of one shape."""
        pieces = np.asarray(pieces)
        heads = self._requests(pieces) * self.header_bytes + (pieces * self.part_bytes if self.ranges > 1 else 0)
        return (requested + heads)[()]

    def busy(self, lengths: np.ndarray) -> np.ndarray:
        """Return the seconds that requests of these bytes take beyond small ones, with all connections busy.

        The shape is that of lengths.
        """
        if not self.curve or self.ranges > 1:
            return np.asarray(lengths / self.bandwidth)
        sizes, seconds = (np.array([0, *column], "f8") for column in zip(*self.curve, strict=True))
        more = np.maximum(0, lengths - sizes[-1]) / self.bandwidth
        return np.asarray(np.interp(lengths, sizes, seconds) + more)

    def seconds(self, lengths: np.ndarray, counts: np.ndarray | int = 1) -> Any:
        """Return the seconds to fetch pieces of these lengths in bytes, shape (n,), each `counts` times.

        For several plans at once, both have shape (…, n), and the result shape (…); count 0 means no piece.
        """
        counts = np.broadcast_to(counts, lengths.shape)
        pieces, requested = counts.sum(-1), (lengths * counts).sum(-1)
        requests = self._requests(pieces)
        first = np.minimum(requests, self.parallel)
        answering = self.rtt_s + (first - 1) * self.first_s + (requests - first) * self.request_s
        if self.ranges > 1:
            answering = answering + pieces * self.part_s
        total = self.wire(pieces, requested)
        moving = (self.busy(lengths) * counts).sum(-1) + (total - requested) / self.bandwidth
        longest = np.where(counts, lengths, 0).max(-1) / self.stream
        return (answering + np.maximum(np.maximum(moving, total / (first * self.stream)), longest))[()]


class _Trials:
    """Trials that fetch ranges of one length; they record the spent bytes and the fastest rate, in bytes per second."""

    def __init__(self, transport: Transport, size: int, clock: Callable[[], float]):
        self.transport, self.size, self.clock = transport, size, clock
        self.spent, self.fastest = 0, 0.0

    def fetch(self, starts: np.ndarray, length: int) -> float:
        """Return the seconds that these ranges take together."""
        begin = self.clock()
        self.transport.fetch(starts.tolist(), (starts + length).tolist())
        took = max(QUICKEST, self.clock() - begin)
        self.spent += len(starts) * length
        self.fastest = max(self.fastest, len(starts) * length / took)
        return took

    def spread(self, count: int, length: int, shift: int) -> float:
        """Fetch `count` places of the object as `fetch` does; each shift has other places, far apart if possible."""
        room = self.size - length
        places = np.linspace(0, room - min(room, 1000), count).astype("i8") + min(room, shift * 131)
        return self.fetch(places, length)


def assumed(parallel: int) -> Link:
    """Return an assumed link for an object that is too small for a measurement, which needs few requests."""
    return Link(0.01, 1e-4, 1e-3, 1e9, 1e8, parallel, doubtful=("all",))


def connect(transport: Transport, size: int) -> None:
    """Open the connections to an object of `size` bytes, as `measure()` does, if the link is already known."""
    _Trials(transport, size, time.perf_counter).spread(transport.parallel, min(SMALL, size), 0)


def measure(transport: Transport, size: int, clock: Callable[[], float] = time.perf_counter) -> Link:
    """Measure the link to an object of `size` bytes (at least 4 kB).

    clock: returns seconds. Raises ValueError for a smaller object, and errors of the transport.
    """
    if size < MIN_SIZE:
        raise ValueError(f"an object of {size} bytes is too small to measure a link; use at least {MIN_SIZE}")
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
    """Return the link with the cost of several ranges per request; unchanged if the object is too small for them."""
    transport: Any = trials.transport
    count = min(transport.parallel * transport.ranges, trials.size // RANGE_DISTANCE, MAX_RANGES)
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
    if (room := most_bytes // (4 * SMALL) - 5 * parallel) < together:  # small ranges use at most a quarter of the bytes
        together = max(2 * parallel, room)
    trials.spread(parallel, SMALL, 0)  # opens the connections
    alone = [trials.spread(1, SMALL, i) for i in range(1, 8)]
    first = [trials.spread(parallel, SMALL, i) for i in range(1, 4)]
    many = trials.spread(together, SMALL, 5)
    rtt = statistics.median(alone)
    first_s = max(QUICKEST, (statistics.median(first) - rtt) / max(1, parallel - 1))
    request_s = (many - statistics.median(first)) / (together - parallel)
    request_s = at_least("request_s", request_s, max(QUICKEST, many / together / MAX_RATE_RATIO))
    length = max(1, min(STREAM, most_bytes // 8))
    alone_took = [trials.spread(1, length, i) for i in (0, 3)]
    stream = max(length / at_least("stream", took - rtt, took / MAX_RATE_RATIO) for took in alone_took)

    # Shortest latency: the fastest trial of bytes must not be compared with a slow one of requests.
    waiting = min(alone), max(0.0, (min(first) - min(alone)) / max(1, parallel - 1))
    curve: list[tuple[int, float]] = []
    for i, (length, count) in enumerate(SIZES):
        share = (most_bytes - trials.spent) // (len(SIZES) - i)
        count = min(count, share // (2 * length))
        if length * 4 > trials.size or count < MIN_RANGES:
            break
        answering = waiting[0] + (min(count, parallel) - 1) * waiting[1] + max(0, count - parallel) * request_s
        took = min(trials.spread(count, length, i) for i in (2, 6))
        curve.append((length, (took - answering) / count))
    fastest = MAX_RATE_RATIO * trials.fastest
    seconds = 0.0
    for i, (length, took) in enumerate(curve):
        seconds = max(seconds, at_least("curve", took, length / fastest))
        curve[i] = length, seconds
    bandwidth = max(stream, curve[-1][0] / seconds) if curve else stream
    known = tuple(sorted(set(doubtful)))
    return Link(rtt, first_s, request_s, bandwidth, stream, parallel, tuple(curve), HEADER_BYTES, doubtful=known)

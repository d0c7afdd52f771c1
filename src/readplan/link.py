"""Model the cost of reads (`Link`), and measure the parameters of the model.

The model is piecewise linear in the number of requests. The first `parallel` requests start at the same time and cost
one round trip, plus `first_s` for each except the first. Each further request costs `request_s`: CPU time of client or
server, or its part of the round trip. `curve` gives the cost of the bytes of a request, because the rate of a server
depends on the size of the request (SeaweedFS: 2 ms for 512 kB, 0.6 ms for 128 kB).

The calibration uses the same transport as the reads. To measure the time of requests, it reads ranges of a few bytes
which are far apart: one range, then `parallel` ranges, then eight times this number. To measure the time of bytes, it
reads several simultaneous ranges of increasing size, and one large range. It sends about 1100 requests: 150 if
`parallel` is 1, and fewer for a small object. It reads at most 105 MB or the size of the object. If the transport
combines several ranges in a request, these trials use one range per request. An additional trial then measures the cost
of a further range.

The transfer time is the difference of two measured times, which is unreliable on a busy host. Therefore no rate is
assumed to be more than `MAX_RATE_RATIO` times the rate of the fastest trial, including its latency. `Link.doubtful`
lists the values that were limited in this way. This module imports only numpy and `readplan.transports`.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from readplan.transports import Transport

POSITIVE = ("bandwidth", "stream", "parallel", "ranges")
HEADER_BYTES = 700  # wire bytes of the header of an answer including frames, if not measured
MIN_SIZE = 4096  # minimum size in bytes of an object whose link can be measured
SMALL = 64  # size in bytes of a range whose transfer time is negligible
STREAM = 8 * 2**20  # bytes that the trial with one connection reads
SIZES = ((2**15, 64), (2**17, 64), (2**19, 32), (2**21, 8))  # (bytes of a range, maximum number of simultaneous ranges)
MIN_RANGES = 2  # minimum number of simultaneous ranges of each size
ROUNDS = 8
MANY = 64  # minimum number of small ranges in the trial of many requests, if `parallel` is small
RANGE_DISTANCE = 1200  # bytes between the starts of ranges which the server must not merge
MAX_RANGES = 4096  # maximum number of ranges in the trial with several ranges per request
MAX_RATE_RATIO = 4  # maximum rate, in units of the rate of the fastest trial
QUICKEST = 1e-6  # minimum time in seconds of a trial and of a request


@dataclass(frozen=True)
class Link:
    """The performance of a store as one client measures it. Times are in seconds, bandwidths in bytes per second.

    Attributes
    ----------
    rtt_s
        Time from sending a request for a few bytes to receiving them, on an idle connection.
    first_s
        Additional time of each of the first `parallel` requests, except the first one.
    request_s
        Additional time of each further request.
    bandwidth, stream
        Bandwidth of all connections, and of one connection.
    parallel
        Number of requests in flight. More requests in flight do not increase the rate.
    curve
        Pairs (bytes, seconds), ascending. They give the additional time of a request of this size relative to a request
        for a few bytes, when all connections are busy. Beyond the last size, `bandwidth` gives the time.
    header_bytes
        Wire bytes of an answer without its body.
    ranges
        Maximum number of ranges in one request; 1 if the server does not answer several ranges.
    part_bytes, part_s
        Cost of one more range in a request with several ranges.
    doubtful
        Names of values that were impossible because of noise, and were set to the limit of the measured values. It is
        `all` if the object was too small for a measurement.
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
                raise ValueError(f"Link: {name} = {value} is impossible; give {need}")
        edges = [0, *(size for size, _ in self.curve)]
        if any(not (a < b and s >= 0) for a, b, (_, s) in zip(edges, edges[1:], self.curve, strict=False)):
            raise ValueError(f"Link: curve = {self.curve} is impossible; give ascending sizes and seconds >= 0")

    @property
    def occupied_s(self) -> float:
        """Return the seconds for which one request occupies resources that readers share, mainly the server.

        This is `request_s` without its part of the round trip.
        """
        return max(0.0, self.request_s - self.rtt_s / self.parallel)

    def shared(self, pieces: Any, asked_wire: Any) -> Any:
        """Return the seconds for which these pieces and wire bytes occupy link and server, which all readers share."""
        return asked_wire / self.bandwidth + self._requests(np.asarray(pieces)) * self.occupied_s

    def _requests(self, pieces: np.ndarray) -> np.ndarray:
        together = np.clip(-(-pieces // self.parallel), 1, self.ranges)
        heads: np.ndarray = -(-pieces // together)
        return heads

    def requests(self, pieces: int) -> int:
        """Return the number of requests for `pieces` pieces. It is smaller than `pieces` if requests combine ranges."""
        return int(self._requests(np.asarray(pieces)))

    def wire(self, pieces: Any, requested: Any) -> Any:
        """Return the wire bytes for a number of pieces and their total bytes. Both can be arrays of the same shape."""
        pieces = np.asarray(pieces)
        heads = self._requests(pieces) * self.header_bytes + (pieces * self.part_bytes if self.ranges > 1 else 0)
        return (requested + heads)[()]

    def busy(self, lengths: np.ndarray) -> np.ndarray:
        """Return the additional seconds of requests of these lengths in bytes, relative to small requests.

        All connections are assumed to be busy. The result has the shape of `lengths`.
        """
        if not self.curve or self.ranges > 1:
            return np.asarray(lengths / self.bandwidth)
        sizes, seconds = (np.array([0, *column], "f8") for column in zip(*self.curve, strict=True))
        more = np.maximum(0, lengths - sizes[-1]) / self.bandwidth
        return np.asarray(np.interp(lengths, sizes, seconds) + more)

    def seconds(self, lengths: np.ndarray, counts: np.ndarray | int = 1) -> Any:
        """Return the seconds that are needed to read `counts` pieces of each of these lengths in bytes, shape (n,).

        To evaluate several plans at once, give arrays of shape (…, n); the result then has shape (…). A count of 0
        means that there is no piece.
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
    """Trials that read ranges of one length from an object of `size` bytes.

    They add up the bytes in `spent`, and record the highest rate in `fastest`, in bytes per second.
    """

    def __init__(self, transport: Transport, size: int, clock: Callable[[], float]):
        self.transport, self.size, self.clock = transport, size, clock
        self.spent, self.fastest = 0, 0.0

    def fetch(self, starts: np.ndarray, length: int) -> float:
        """Read `length` bytes at each of these starts at the same time, and return the seconds."""
        begin = self.clock()
        self.transport.fetch(starts.tolist(), (starts + length).tolist())
        took = max(QUICKEST, self.clock() - begin)
        self.spent += len(starts) * length
        self.fastest = max(self.fastest, len(starts) * length / took)
        return took

    def spread(self, count: int, length: int, shift: int) -> float:
        """Read `count` ranges of `length` bytes, far apart if possible, and return the seconds.

        A different `shift` reads different places of the object.
        """
        room = self.size - length
        places = np.linspace(0, room - min(room, 1000), count).astype("i8") + min(room, shift * 131)
        return self.fetch(places, length)


def assumed(parallel: int) -> Link:
    """Return the link that is assumed if an object is too small for a measurement."""
    return Link(0.01, 1e-4, 1e-3, 1e9, 1e8, parallel, doubtful=("all",))


def connect(transport: Transport, size: int) -> None:
    """Open the connections to an object of `size` bytes. Use this instead of `measure()` if the link is known."""
    _Trials(transport, size, time.perf_counter).spread(transport.parallel, min(SMALL, size), 0)


def measure(transport: Transport, size: int, clock: Callable[[], float] = time.perf_counter) -> Link:
    """Measure the link to an object of `size` bytes, which must be at least 4 kB.

    `clock` returns the time in seconds. Raises ValueError for a smaller object, and the errors of the transport.
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
    """Return the link with the measured cost of several ranges per request.

    If the object is too small for this trial, return the link unchanged.
    """
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
    # small ranges must not use more than a quarter of the bytes
    if (room := most_bytes // (4 * SMALL) - 5 * parallel) < together:
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

    # Use the shortest latency, because the fastest trial of bytes must not be compared with a slow trial of requests.
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

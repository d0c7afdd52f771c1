"""What reads cost: the time model of the read planner. Standard library and numpy only.

The model is piecewise linear, because that is how clients behave. In the number of requests: the first `parallel` leave
together and cost one round trip, and `first_s` for each but one; each further one costs `request_s`, be it CPU of the
client or the server, or the round trip shared by those in flight. In the bytes of a request: `curve`, because a server
has different rates for different sizes (SeaweedFS: 2 ms for 512 kB, 0.6 ms for 128 kB).
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

POSITIVE = ("bandwidth", "stream", "parallel", "ranges")
HEADER_BYTES = 700  # of an answer's head on the wire and the frames around it, if not measured


@dataclass(frozen=True)
class Link:
    """What one client sees of a store. Times in seconds, bandwidths in bytes per second.

    rtt_s: from sending a request for a few bytes to having them, on an idle connection; first_s, request_s: see above;
    bandwidth: all connections together; stream: one connection; parallel: requests in flight beyond which more do not
    help; curve: ((bytes, seconds), …) ascending: what a request of so many bytes costs beyond one for a few, all
    connections busy (beyond the last, or without a curve: by bandwidth); header_bytes: wire bytes of an answer besides
    its body; ranges: that one request may ask for, if the server really answers several (else 1); part_bytes, part_s:
    what one more range in such a request costs; doubtful: those of these values that noise made impossible, and that
    stand at the bound of what was seen; `all` where the object was too small to measure with.
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
                raise ValueError(f"{name} = {value} of a link: {'more than 0' if name in POSITIVE else 'at least 0'}")
        edges = [0, *(size for size, _ in self.curve)]
        if any(not (a < b and s >= 0) for a, b, (_, s) in zip(edges, edges[1:], self.curve, strict=False)):
            raise ValueError(f"curve = {self.curve} of a link: ascending sizes, seconds of at least 0")

    @property
    def occupied_s(self) -> float:
        """What one more request takes of what readers share, mainly the server: `request_s` without the round trip."""
        return max(0.0, self.request_s - self.rtt_s / self.parallel)

    def shared(self, pieces: Any, asked_wire: Any) -> Any:
        """Seconds that requests for so many pieces and wire bytes take of what readers share: link and server."""
        return asked_wire / self.bandwidth + self._requests(np.asarray(pieces)) * self.occupied_s

    def _requests(self, pieces: np.ndarray) -> np.ndarray:
        together = np.clip(-(-pieces // self.parallel), 1, self.ranges)
        heads: np.ndarray = -(-pieces // together)
        return heads

    def requests(self, pieces: int) -> int:
        """Requests for so many pieces: fewer, if one asks for several ranges, but still `parallel` ones in flight."""
        return int(self._requests(np.asarray(pieces)))

    def wire(self, pieces: Any, asked: Any) -> Any:
        """Wire bytes of so many pieces with so many bytes in total: numbers, or arrays of one shape."""
        pieces = np.asarray(pieces)
        heads = self._requests(pieces) * self.header_bytes + (pieces * self.part_bytes if self.ranges > 1 else 0)
        return (asked + heads)[()]

    def busy(self, lengths: np.ndarray) -> np.ndarray:
        """Seconds that requests of so many bytes cost beyond small ones, all connections busy; shape as given."""
        if not self.curve or self.ranges > 1:
            return np.asarray(lengths / self.bandwidth)
        sizes, seconds = (np.array([0, *column], "f8") for column in zip(*self.curve, strict=True))
        more = np.maximum(0, lengths - sizes[-1]) / self.bandwidth
        return np.asarray(np.interp(lengths, sizes, seconds) + more)

    def seconds(self, lengths: np.ndarray, counts: np.ndarray | int = 1) -> Any:
        """Seconds to fetch pieces of these lengths in bytes, shape (n,), `counts` (shape (n,) or int) times each.

        Of several plans at once, shape (…, n) for both: an array of shape (…); a piece with count 0 is none.
        """
        counts = np.broadcast_to(counts, lengths.shape)
        pieces, asked = counts.sum(-1), (lengths * counts).sum(-1)
        requests = self._requests(pieces)
        first = np.minimum(requests, self.parallel)
        answering = self.rtt_s + (first - 1) * self.first_s + (requests - first) * self.request_s
        if self.ranges > 1:
            answering = answering + pieces * self.part_s
        total = self.wire(pieces, asked)
        moving = (self.busy(lengths) * counts).sum(-1) + (total - asked) / self.bandwidth
        longest = np.where(counts, lengths, 0).max(-1) / self.stream
        return (answering + np.maximum(np.maximum(moving, total / (first * self.stream)), longest))[()]

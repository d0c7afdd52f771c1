"""What reads cost: the time model of the read planner (standard library and numpy only).

The model is piecewise linear in the number of requests, because that is what clients show: the first `parallel` requests leave together:
one round trip, and `first_s` for each but one; each further one costs `request_s`, be it the client's CPU, the server's, or the round
trip shared by those in flight. Bytes cost by the bandwidth, of one connection or of all.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

POSITIVE = ("bandwidth", "stream", "parallel", "ranges")
HEADER_BYTES = 700  # of an answer's head on the wire and the frames around it, where nobody measured it


@dataclass(frozen=True)
class Link:
    """What one client sees of a store. Times in seconds, bandwidths in bytes per second.

    rtt_s: from sending a request for a few bytes to having them, idle connection; first_s, request_s: see above; bandwidth: all
    connections together; stream: one connection; parallel: requests in flight that still help; header_bytes: wire bytes of an answer
    beside its body; ranges: that one request may ask for, where the server truly answers several (else 1); part_bytes, part_s: what one
    more range in such a request costs.
    """

    rtt_s: float
    first_s: float
    request_s: float
    bandwidth: float
    stream: float
    parallel: int
    header_bytes: int = HEADER_BYTES
    ranges: int = 1
    part_bytes: int = 0
    part_s: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (value > 0 if name in POSITIVE else value >= 0):
                raise ValueError(f"{name} = {value} of a link: {'more than 0' if name in POSITIVE else 'at least 0'}")

    def requests(self, pieces: Any) -> Any:
        """Requests for so many pieces: fewer, where one request asks for several ranges."""
        return -(-np.asarray(pieces) // self.ranges)

    def wire(self, pieces: Any, asked: Any) -> Any:
        """Wire bytes of so many pieces with so many bytes in all."""
        return asked + self.requests(pieces) * self.header_bytes + (np.asarray(pieces) * self.part_bytes if self.ranges > 1 else 0)

    def seconds(self, pieces: Any, asked: Any, longest: Any) -> Any:
        """Time to fetch `pieces` ranges, `asked` bytes in all, the longest of `longest` bytes. Arrays, shape (n,), or numbers."""
        requests = self.requests(pieces)
        first = np.minimum(requests, self.parallel)
        answering = self.rtt_s + (first - 1) * self.first_s + (requests - first) * self.request_s
        if self.ranges > 1:
            answering = answering + np.asarray(pieces) * self.part_s
        moving = np.maximum(self.wire(pieces, asked) / np.minimum(self.bandwidth, first * self.stream), np.asarray(longest) / self.stream)
        return answering + moving

    def facts(self) -> dict[str, Any]:
        """For records and side-cars."""
        return asdict(self)

"""Use the planner in uproot, by a `Source` that plans the requests for every set of baskets.

This module needs uproot and numpy.
"""

import queue
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import uproot.source.chunk
from uproot.source.futures import TrivialFuture

from readplan.choose import Requests, plan
from readplan.link import MIN_SIZE, Link, assumed, measure
from readplan.transports import Transport, messages


def gather(requests: Requests, parts: Sequence[Any], starts: np.ndarray, stops: np.ndarray) -> list[np.ndarray]:
    """Return the bytes [start, stop) of each range, taken from the answers to the requests of a plan.

    starts and stops have shape (n,), in any order. The results are uint8 arrays. A result is a view, not a copy, if one
    answer contains the whole range. Raises ValueError if the plan does not contain some of the bytes.
    """
    held = [np.frombuffer(part, np.uint8) for part in parts]
    first = np.searchsorted(requests.start, starts, side="right") - 1
    last = np.searchsorted(requests.stop, stops, side="left")
    out = []
    for start, stop, i, j in zip(starts.tolist(), stops.tolist(), first.tolist(), last.tolist(), strict=True):
        if start >= stop:
            out.append(np.empty(0, np.uint8))
        elif i != j and (i < 0 or j >= len(held) or (requests.stop[i:j] != requests.start[i + 1 : j + 1]).any()):
            raise ValueError(f"bytes {start} to {stop - 1} are not in the answers of the plan")
        else:
            whole = held[i] if i == j else np.concatenate(held[i : j + 1])
            begin = int(requests.start[i])
            out.append(whole[start - begin : stop - begin])
    return out


def fetch(
    transport: Transport, requests: Requests, starts: np.ndarray, stops: np.ndarray
) -> tuple[list[np.ndarray], int]:
    """Return the bytes of each range as `gather()` does, and the number of requests. Raises the transport's errors."""
    begins, ends = requests.start.tolist(), requests.stop.tolist()
    sent = messages(transport, begins, ends)
    return gather(requests, transport.fetch(begins, ends), starts, stops), sent


class PlannedSource(uproot.source.chunk.Source):  # type: ignore[misc]  # uproot has no types
    """A source of uproot that plans its requests: `uproot.open(url, handler=PlannedSource, transport=…)`.

    Parameters
    ----------
    transport
        Transport for one object (`readplan.transports`). A second `file_path` with the same transport raises
        ValueError.
    link
        Model of the link. Without it, the link is measured when the first large set of ranges is read.
    thrift, max_amplification
        Options of `plan()`.

    Attributes
    ----------
    last_plan
        Plan of the last set of ranges.
    unplanned
        Number of ranges that uproot requested one by one, without a plan: headers, and all pages of an RNTuple. When
        there are many, a warning is issued.
    """

    WORTH = 64  # minimum number of ranges in a set for which the link is measured
    closed = False

    def __init__(self, file_path: str, *, transport: Transport, link: Link | None = None, **options: Any):
        super().__init__()
        first = vars(transport).setdefault("planned_path", file_path)
        if first != file_path:
            raise ValueError(
                f"PlannedSource: this transport reads {first!r}, not {file_path!r}; make one transport for each file"
            )
        self._file_path, self.transport, self.link = file_path, transport, link
        self.wishes = {k: options[k] for k in ("thrift", "max_amplification") if k in options}
        self.last_plan: Requests | None = None
        self.unplanned = 0
        self._bytes: int | None = options.get("num_bytes")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._file_path!r}>"

    def __enter__(self) -> "PlannedSource":
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    @property
    def num_bytes(self) -> int:
        """Return the size of the file in bytes, requested only once.

        Raises ValueError if the transport has no `size`.
        """
        if self._bytes is None:
            size = getattr(self.transport, "size", None)
            if size is None:
                raise ValueError(f"the transport of {self._file_path} cannot return sizes; give num_bytes")
            self._bytes = int(size())
        return self._bytes

    def chunk(self, start: int, stop: int) -> uproot.source.chunk.Chunk:
        """Return one range, read by one request."""
        self.unplanned += 1
        if self.unplanned == self.WORTH:
            warnings.warn(
                f"{self.unplanned} ranges of {self._file_path} were requested one by one: uproot reads an RNTuple "
                "page by page, so these requests cannot be planned",
                stacklevel=2,
            )
        self._num_requests += 1
        self._num_requested_chunks += 1
        self._num_requested_bytes += stop - start
        (part,) = self.transport.fetch([int(start)], [int(stop)])
        return uproot.source.chunk.Chunk(self, start, stop, TrivialFuture(np.frombuffer(part, np.uint8)))

    def requests_for(self, pairs: np.ndarray) -> Requests:
        """Return the plan for the ranges (start, stop), shape (n, 2). Measure the link first if this is necessary."""
        link = self.link
        if link is None:
            if len(pairs) < self.WORTH or self.num_bytes < MIN_SIZE:
                link = assumed(self.transport.parallel)
            else:
                link = self.link = measure(self.transport, self.num_bytes)
        return plan(pairs[:, 0], pairs[:, 1] - pairs[:, 0], link, **self.wishes)

    def chunks(self, ranges: list[tuple[int, int]], notifications: queue.Queue[Any]) -> list[uproot.source.chunk.Chunk]:
        """Return all ranges as chunks that already contain their bytes. Raises the errors of the transport."""
        self._num_requests += 1
        self._num_requested_chunks += len(ranges)
        self._num_requested_bytes += sum(stop - start for start, stop in ranges)
        pairs = np.array(ranges, "i8").reshape(-1, 2)
        self.last_plan = requests = self.requests_for(pairs)
        parts = self.transport.fetch(requests.start.tolist(), requests.stop.tolist())
        out = [
            uproot.source.chunk.Chunk(self, start, stop, TrivialFuture(data))
            for (start, stop), data in zip(ranges, gather(requests, parts, pairs[:, 0], pairs[:, 1]), strict=True)
        ]
        for chunk in out:
            notifications.put(chunk)
        return out

"""Which requests to send for a list of ranges. May import: numpy and `readplan.cost` only.

Merging two neighbours over a gap saves a request and costs the bytes of the gap. Of all ways to make m requests, the
one that keeps the m - 1 largest gaps apart asks for the fewest bytes. So, if a byte costs the same in every request,
the best plan is among n plans (n: runs of touching ranges). The search goes through these by the number of requests,
costs them by their true lengths, and tries the lengths at which long runs are split.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from storelab.readplan.cost import Link

PIECES = tuple(2**i * 2**20 for i in range(6))  # a long run may be split at these lengths, or not at all: 1 to 32 MiB
STEP = 1.08  # ratio of successive numbers of requests that are tried: the loss of time is far below that


@dataclass(frozen=True)
class Requests:
    """A plan. start, stop: shape (m,), ascending, disjoint: each request (or part of one) asks for bytes [start, stop).

    gap: the largest gap that was merged over, bytes; piece: the length at which runs were split (0: not split);
    seconds: by the link model; wire_bytes: expected by it; needed_bytes: of the ranges, each byte once.
    """

    start: np.ndarray
    stop: np.ndarray
    gap: int
    piece: int
    seconds: float
    wire_bytes: int
    needed_bytes: int

    def __len__(self) -> int:
        return len(self.start)

    @property
    def asked_bytes(self) -> int:
        return int((self.stop - self.start).sum())

    @property
    def amplification(self) -> float:
        """Expected wire bytes over needed bytes."""
        return self.wire_bytes / self.needed_bytes if self.needed_bytes else 1.0


@dataclass(frozen=True)
class Front:
    """Plans of one selection, by ascending gap; arrays of shape (k,).

    gap and piece in bytes, pieces asked for, asked and wire bytes, seconds. best: whether no other plan needs both less
    time and fewer wire bytes.
    """

    gap: np.ndarray
    piece: np.ndarray
    pieces: np.ndarray
    asked_bytes: np.ndarray
    wire_bytes: np.ndarray
    seconds: np.ndarray
    needed_bytes: int

    @property
    def best(self) -> np.ndarray:
        order = np.lexsort((self.seconds, self.wire_bytes))
        least = np.minimum.accumulate(self.seconds[order])
        keep = np.zeros(len(order), bool)
        keep[order] = np.concatenate(([True], self.seconds[order][1:] < least[:-1]))
        return keep


class _Runs:
    """Ranges by offset, and the runs that touch or overlap: begins and ends, shape (r,); gaps, shape (r - 1,)."""

    def __init__(self, offsets: np.ndarray, sizes: np.ndarray):
        offsets, sizes = np.asarray(offsets, "i8"), np.asarray(sizes, "i8")
        if offsets.ndim != 1 or offsets.shape != sizes.shape:
            raise ValueError(f"{offsets.shape} offsets and {sizes.shape} sizes: give one size for each offset")
        if len(offsets) and (offsets.min() < 0 or sizes.min() < 0):
            raise ValueError("a range begins before the file, or is shorter than nothing")
        order = np.argsort(offsets, kind="stable")
        order = order[sizes[order] > 0]
        self.begins = offsets[order]
        reach = np.maximum.accumulate(self.begins + sizes[order])
        apart = np.flatnonzero(self.begins[1:] > reach[:-1])
        self.start = self.begins[np.concatenate(([0], apart + 1))] if len(order) else self.begins
        self.stop = reach[np.concatenate((apart, [len(order) - 1]))] if len(order) else self.begins
        self.gaps = self.start[1:] - self.stop[:-1]
        self.needed = int((self.stop - self.start).sum())

    def merged(self, gap: int) -> tuple[np.ndarray, np.ndarray]:
        """Starts and stops if gaps of at most `gap` bytes are asked for as well."""
        cut = np.flatnonzero(self.gaps > gap)
        return self.start[np.concatenate(([0], cut + 1))], self.stop[np.concatenate((cut, [len(self.stop) - 1]))]

    def thresholds(self) -> np.ndarray:
        """Gaps to try, ascending: 0, then all different ones if they are few, else by their rank in steps of STEP."""
        found = np.unique(self.gaps)
        if len(found) > 128:
            counts = np.unique((STEP ** np.arange(np.log(len(self.gaps)) / np.log(STEP) + 1)).astype("i8"))
            found = np.unique(np.sort(self.gaps)[::-1][np.minimum(counts, len(self.gaps)) - 1])
        return np.concatenate(([0], found))


def front(offsets: np.ndarray, sizes: np.ndarray, link: Link, pieces: Sequence[int] = PIECES) -> Front:
    """All plans worth comparing for these ranges: one for each gap, split where that is quickest.

    offsets, sizes: bytes, shape (n,), any order. Raises ValueError for impossible ranges and for none at all.
    """
    return _front(_Runs(offsets, sizes), link, pieces)


def _front(runs: _Runs, link: Link, pieces: Sequence[int]) -> Front:
    if not len(runs.start):
        raise ValueError("no range to read")
    rows = []
    for gap in runs.thresholds():
        start, stop = runs.merged(int(gap))
        lengths = stop - start
        asked, longest = int(lengths.sum()), int(lengths.max())
        ways = []
        for piece in (0, *(p for p in pieces if p < longest)):
            counts = -(-lengths // (piece or longest))  # pieces of each run
            ways.append((link.seconds(-(-lengths // counts), counts), int(counts.sum()), piece))
        seconds, n, piece = min(ways)
        rows.append((int(gap), piece, n, asked, link.wire(n, asked), seconds))
    return Front(*(np.array(column) for column in zip(*rows, strict=True)), runs.needed)


def plan(
    offsets: np.ndarray,
    sizes: np.ndarray,
    link: Link,
    *,
    thrift: float = 0.0,
    max_amplification: float | None = None,
    pieces: Sequence[int] = PIECES,
) -> Requests:
    """The requests that fetch these ranges in the least time.

    offsets, sizes: bytes, shape (n,), any order, overlaps allowed. thrift: weight of the time that a plan takes of link
    and server, which others wait for, besides the reader's own time. 0: none; n - 1: where n readers share what was
    measured alone; inf: fewest bytes, whatever the time. max_amplification: bound on wire over needed bytes; if no plan
    keeps it, the one with the fewest wire bytes is taken. Raises ValueError for impossible ranges, thrift or bound.
    """
    if not thrift >= 0:
        raise ValueError(f"thrift = {thrift}: at least 0")
    if max_amplification is not None and not max_amplification >= 1:
        raise ValueError(f"max_amplification = {max_amplification}: at least 1")
    if not np.any(np.asarray(sizes)):
        empty = np.empty(0, "i8")
        return Requests(empty, empty, 0, 0, 0.0, 0, 0)
    runs = _Runs(offsets, sizes)
    found = _front(runs, link, pieces)
    wire = found.wire_bytes.astype("f8")
    cost = wire if np.isinf(thrift) else found.seconds + thrift * link.shared(found.pieces, wire)
    if max_amplification is not None:
        within = wire <= max_amplification * found.needed_bytes
        cost = np.where(within, cost, np.inf) if within.any() else wire
    i = int(np.argmin(cost))
    start, stop = split(*runs.merged(int(found.gap[i])), int(found.piece[i]), runs.begins)
    return Requests(
        start,
        stop,
        int(found.gap[i]),
        int(found.piece[i]),
        float(found.seconds[i]),
        int(found.wire_bytes[i]),
        found.needed_bytes,
    )


def split(start: np.ndarray, stop: np.ndarray, piece: int, begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split runs longer than `piece` bytes (0: none) into equal ones, at the begin of a range if one is near.

    begins: ascending offsets of the ranges: a cut there spares the reader putting a range together from two answers.
    """
    long = np.flatnonzero(stop - start > piece) if piece else np.empty(0, "i8")
    if not len(long):
        return start, stop
    cuts = [cut for i in long for cut in _cuts(int(start[i]), int(stop[i]), piece, begins)]
    starts = np.sort(np.concatenate((start, np.array(cuts, "i8"))))
    ends = np.sort(np.concatenate((stop, np.array(cuts, "i8"))))
    return starts, ends


def _cuts(start: int, stop: int, piece: int, begins: np.ndarray) -> Iterator[int]:
    count, last = -(-(stop - start) // piece), start
    for k in range(1, count):
        wanted = start + k * (stop - start) // count
        at = int(np.searchsorted(begins, wanted))
        near = [int(b) for b in begins[max(0, at - 1) : at + 1] if last < b < stop]
        cut = min(near, key=lambda b: abs(b - wanted), default=wanted)
        if abs(cut - wanted) > piece // 4:
            cut = wanted
        if last < cut < stop:
            yield cut
            last = cut

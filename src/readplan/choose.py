"""Choose the requests for a list of ranges. May import: numpy and `readplan.link` only.

Merging two neighbours over a gap saves a request but transfers the bytes of the gap. Of all ways to make m requests,
the one that does not merge over the m - 1 largest gaps transfers the fewest bytes. So, if a byte costs the same in
every request, the best plan is one of n plans (n: runs of touching ranges). The search goes through these by the number
of requests. For few runs, it also goes through all 2^(n - 1) plans, or those close to the best. Each is combined with
every length at which long requests may be split. The search computes the cost of all plans from their true lengths,
including the load on shared resources (`thrift`), drops those beyond the bound, and takes the best.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from readplan.link import Link

STEP = 1.08  # ratio of successive numbers of requests that are tried; the loss of time is far below 8 %
FEW = 64  # runs; up to this number, plans close to the best one are tried

Ways = tuple[list[np.ndarray], np.ndarray]  # cuts of k ways to merge; lengths of their requests (k, m), 0: no request
PIECES = tuple(int(2 ** (20 + i / 4)) for i in range(21))  # lengths at which long requests may be split: 1 to 32 MiB
COARSE = 4  # with many runs: only every fourth of these lengths is tried with each gap, and all with the best gap
EVERY = 10  # runs; up to this number, all ways to merge them are tried
STEPS = 8  # maximum number of improvements of a plan by merging or splitting once more or less
LONG = 8  # number of longest requests whose splits are changed one by one
NEAR = 1.01  # maximum time relative to equal parts, for splits at the start of a range


class Runs:
    """The ranges sorted by offset, and the runs of touching ranges.

    start, stop: of the runs, shape (r,); gaps: between them, shape (r - 1,).
    """

    def __init__(self, offsets: np.ndarray, sizes: np.ndarray):
        offsets, sizes = np.asarray(offsets, "i8"), np.asarray(sizes, "i8")
        if offsets.ndim != 1 or offsets.shape != sizes.shape:
            raise ValueError(f"{offsets.shape} offsets and {sizes.shape} sizes differ; give one size for each offset")
        if len(offsets) and (offsets.min() < 0 or sizes.min() < 0):
            raise ValueError("offsets and sizes must not be negative")
        order = np.argsort(offsets, kind="stable")
        order = order[sizes[order] > 0]
        self.begins = offsets[order]
        reach = np.maximum.accumulate(self.begins + sizes[order])
        apart = np.flatnonzero(self.begins[1:] > reach[:-1])
        self.start = self.begins[np.concatenate(([0], apart + 1))] if len(order) else self.begins
        self.stop = reach[np.concatenate((apart, [len(order) - 1]))] if len(order) else self.begins
        self.gaps = self.start[1:] - self.stop[:-1]
        self.needed = int((self.stop - self.start).sum())

    def cuts(self, gap: int) -> np.ndarray:
        """Return the indices of runs after which a request ends, if gaps of at most `gap` bytes are merged."""
        return np.flatnonzero(self.gaps > gap)

    def merged(self, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return starts and stops of the requests that end after these runs."""
        return self.start[np.concatenate(([0], cuts + 1))], self.stop[np.concatenate((cuts, [len(self.stop) - 1]))]

    def way(self, gap: int) -> Ways:
        """Return the cuts and the sizes in bytes of the requests, if gaps of at most `gap` bytes are merged."""
        cuts = self.cuts(gap)
        start, stop = self.merged(cuts)
        return [cuts], (stop - start)[None]

    def ways(self, ends: np.ndarray) -> Ways:
        """Return ways to merge. ends: True if a request ends with a run, shape (k, runs - 1)."""
        ends = np.concatenate((ends, np.ones((len(ends), 1), bool)), axis=1)
        begins = np.zeros(ends.shape, "i8")
        begins[:, 1:] = np.maximum.accumulate(np.where(ends[:, :-1], np.arange(1, ends.shape[1]), 0), axis=1)
        lengths = np.where(ends, self.stop - self.start[begins], 0)
        return [np.flatnonzero(row[:-1]) for row in ends], lengths[:, ends.any(0)]

    def every(self) -> Ways:
        """Return all ways to merge."""
        n = len(self.gaps)
        return self.ways(np.arange(2**n)[:, None] >> np.arange(n) & 1 > 0)

    def near(self, cuts: np.ndarray) -> Ways:
        """Return this way to merge; with few runs, also all that merge one gap more or less."""
        ends = np.zeros((1, len(self.gaps)), bool)
        ends[0, cuts] = True
        few = len(self.start) <= FEW
        return self.ways(np.concatenate((ends, ends ^ np.eye(len(self.gaps), dtype=bool))) if few else ends)

    def thresholds(self) -> np.ndarray:
        """Return gaps to try, ascending: 0, then all different ones or, if there are many, one per STEP of rank."""
        found = np.unique(self.gaps)
        if len(found) > 128:
            counts = np.unique((STEP ** np.arange(np.log(len(self.gaps)) / np.log(STEP) + 1)).astype("i8"))
            found = np.unique(np.sort(self.gaps)[::-1][np.minimum(counts, len(self.gaps)) - 1])
        return np.concatenate(([0], found))


@dataclass(frozen=True)
class Requests:
    """A plan. start, stop: shape (m,), ascending, disjoint: each request (or part of one) is for bytes [start, stop).

    gap: the largest merged gap in bytes; piece: the longest part of a request that was split (0: none was); seconds: of
    these requests according to the link model; wire_bytes: expected by the model; needed_bytes: of the ranges, each
    byte counted once.
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
        """Return the sum of the bytes of all requests."""
        return int((self.stop - self.start).sum())

    @property
    def amplification(self) -> float:
        """Return expected wire bytes over needed bytes."""
        return self.wire_bytes / self.needed_bytes if self.needed_bytes else 1.0


@dataclass(frozen=True)
class Front:
    """Plans of one selection, by ascending gap; arrays of shape (k,).

    gap and piece in bytes, number of pieces, requested and wire bytes, seconds. best: True if no other plan needs both
    less time and fewer wire bytes.
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
        """Return, for each plan, True if no other plan needs both less time and fewer wire bytes."""
        order = np.lexsort((self.seconds, self.wire_bytes))
        least = np.minimum.accumulate(self.seconds[order])
        keep = np.zeros(len(order), bool)
        keep[order] = np.concatenate(([True], self.seconds[order][1:] < least[:-1]))
        return keep


class _Tried:
    """The ways to merge and to split requests, with their costs: arrays of shape (k,).

    cuts: the cuts of each way; piece: length in bytes at which requests are split, 0 for no split.
    """

    def __init__(self, ways: Iterable[Ways], link: Link, pieces: Sequence[int]):
        self.cuts: list[np.ndarray] = []
        columns: list[tuple[Any, ...]] = []
        for cuts, lengths in ways:
            requested, longest = lengths.sum(1), int(lengths.max())
            for piece in (0, *(p for p in pieces if p < longest)):
                counts = -(-lengths // piece) if piece else (lengths > 0).astype("i8")
                n = counts.sum(1)
                seconds = link.seconds(-(-lengths // np.maximum(counts, 1)), counts)
                columns.append((np.full(len(cuts), piece), n, requested, link.wire(n, requested), seconds))
                self.cuts += cuts
        self.piece, self.pieces, self.asked, self.wire, self.seconds = map(np.concatenate, zip(*columns, strict=True))

    def best(self, goal: "_Goal") -> int:
        return goal.best(self.pieces, self.wire, self.seconds)


@dataclass(frozen=True)
class _Goal:
    """The goal of a plan: `thrift` of `plan()`, and a maximum of wire bytes."""

    link: Link
    thrift: float
    most_wire: float

    def best(self, pieces: np.ndarray, wire: np.ndarray, seconds: np.ndarray) -> int:
        """Return the index of the lowest cost within the bound; if none is within it, of the fewest wire bytes.

        Of equal ones, return the fastest.
        """
        wire = wire.astype("f8")
        cost = wire if np.isinf(self.thrift) else seconds + self.thrift * self.link.shared(pieces, wire)
        within = wire <= self.most_wire
        return int(np.lexsort((seconds, np.where(within, cost, np.inf) if within.any() else wire))[0])


def front(offsets: np.ndarray, sizes: np.ndarray, link: Link, pieces: Sequence[int] = PIECES[::COARSE]) -> Front:
    """Return all plans worth comparing for these ranges: one for each gap, with the fastest split.

    offsets, sizes: bytes, shape (n,), any order. Raises ValueError for impossible ranges or an empty list.
    """
    runs = Runs(offsets, sizes)
    if not len(runs.start):
        raise ValueError("there is no range to read")
    rows = []
    for gap in runs.thresholds().tolist():
        t = _Tried([runs.way(gap)], link, pieces)
        i = int(np.lexsort((t.piece, t.pieces, t.seconds))[0])
        rows.append((gap, t.piece[i], t.pieces[i], t.asked[i], t.wire[i], t.seconds[i]))
    gap, piece, pieces_of, requested, wire, seconds = (np.array(column) for column in zip(*rows, strict=True))
    return Front(gap, piece, pieces_of, requested, wire, seconds, runs.needed)


def plan(
    offsets: np.ndarray,
    sizes: np.ndarray,
    link: Link,
    *,
    thrift: float = 0.0,
    max_amplification: float | None = None,
    pieces: Sequence[int] = PIECES,
) -> Requests:
    """Return the requests that fetch these ranges in the least time.

    Parameters
    ----------
    offsets, sizes
        Bytes, shape (n,), any order, overlaps allowed.
    link
        Model of the link.
    thrift
        Weight of the time that a plan uses link and server, relative to the reader's own time. 0: no weight; n - 1: n
        readers share a link that was measured with one; inf: fewest bytes, whatever the time.
    max_amplification
        Bound on wire over needed bytes. If no plan fulfils it, the plan with the fewest wire bytes is taken.
    pieces
        Lengths at which long requests may be split, ascending.

    Raises
    ------
    ValueError
        Ranges, thrift or bound are impossible.
    """
    if not thrift >= 0:
        raise ValueError(f"thrift = {thrift} is negative; give at least 0")
    if max_amplification is not None and not max_amplification >= 1:
        raise ValueError(f"max_amplification = {max_amplification} is too small; give at least 1")
    if not np.any(np.asarray(sizes)):
        empty = np.empty(0, "i8")
        return Requests(empty, empty, 0, 0, 0.0, 0, 0)
    runs = Runs(offsets, sizes)
    goal = _Goal(link, thrift, np.inf if max_amplification is None else max_amplification * runs.needed)
    cuts, piece = _merged(runs, goal, pieces)
    start, stop = runs.merged(cuts)
    counts = _parts(stop - start, piece, goal, pieces)
    parts = split(start, stop, counts, np.empty(0, "i8"))
    seconds = link.seconds(parts[1] - parts[0])
    if len(parts[0]) > len(start):
        handy = split(start, stop, counts, runs.begins)
        if (took := link.seconds(handy[1] - handy[0])) <= NEAR * seconds:
            parts, seconds = handy, took
    inside = np.ones(len(runs.gaps), bool)
    inside[cuts] = False
    return Requests(
        *parts,
        int(runs.gaps[inside].max(initial=0)),
        int((-(-(stop - start) // counts))[counts > 1].max(initial=0)),
        float(seconds),
        int(link.wire(len(parts[0]), int((stop - start).sum()))),
        runs.needed,
    )


def _merged(runs: Runs, goal: _Goal, pieces: Sequence[int]) -> tuple[np.ndarray, int]:
    """Return (runs after which a request ends, length at which longer requests are split)."""
    if len(runs.start) <= EVERY:
        tried = _Tried([runs.every()], goal.link, pieces)
        i = tried.best(goal)
        return tried.cuts[i], int(tried.piece[i])
    some = pieces if len(pieces) <= COARSE else pieces[::COARSE]
    tried = _Tried((runs.way(int(gap)) for gap in runs.thresholds()), goal.link, some)
    cuts = tried.cuts[tried.best(goal)]
    for _ in range(STEPS):
        tried = _Tried([runs.near(cuts)], goal.link, pieces)
        i = tried.best(goal)
        if np.array_equal(cuts, tried.cuts[i]):
            break
        cuts = tried.cuts[i]
    return tried.cuts[i], int(tried.piece[i])


def _parts(lengths: np.ndarray, piece: int, goal: _Goal, pieces: Sequence[int]) -> np.ndarray:
    """Return the number of parts of each request, shape (n,).

    All are split at one length; if there are few, they are then changed one by one.
    """
    counts = -(-lengths // piece) if piece else np.ones(len(lengths), "i8")
    long = np.argsort(-lengths)[:LONG]
    long = long[lengths[long] > min(pieces, default=np.inf)]
    if len(lengths) > FEW:
        return counts
    for _ in range(STEPS if len(long) else 0):
        ways = [counts]
        for i in long.tolist():
            for n in {-(-int(lengths[i]) // p) for p in (int(lengths[i]), *pieces)} - {int(counts[i])}:
                ways.append(counts.copy())
                ways[-1][i] = n
        rows = np.array(ways)
        requested, n = np.full(len(rows), lengths.sum()), rows.sum(1)
        seconds = goal.link.seconds(-(-lengths // rows), rows)
        best = goal.best(n, goal.link.wire(n, requested), seconds)
        if not best:
            break
        counts = rows[best]
    return counts


def split(start: np.ndarray, stop: np.ndarray, counts: np.ndarray, begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split each request into `counts` parts of similar length, at the start of a range if one is near.

    begins: ascending offsets of the ranges. Cuts there avoid ranges that are put together from two answers.
    """
    cuts = [
        cut for i in np.flatnonzero(counts > 1) for cut in _cuts(int(start[i]), int(stop[i]), int(counts[i]), begins)
    ]
    more = np.array(cuts, "i8")
    return np.sort(np.concatenate((start, more))), np.sort(np.concatenate((stop, more)))


def _cuts(start: int, stop: int, count: int, begins: np.ndarray) -> Iterator[int]:
    """Yield exactly `count - 1` cuts, because the cost of a plan depends on the number of its requests."""
    most = (stop - start) // count // 4
    for k in range(1, count):
        wanted = start + k * (stop - start) // count
        at = int(np.searchsorted(begins, wanted))
        near = [int(b) for b in begins[max(0, at - 1) : at + 1] if abs(b - wanted) <= most]
        yield min(near, key=lambda b: abs(b - wanted), default=wanted)

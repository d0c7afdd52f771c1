"""Choose the requests for a list of ranges.

If one request reads two neighbouring ranges, it saves a request but also transfers the bytes of the gap between them.
Consider all ways to read the ranges with m requests. The fewest bytes are transferred if the m - 1 largest gaps are not
read. If a byte costs the same in every request, the best plan is therefore one of n plans, where n is the number of
runs of touching ranges. The search tries these plans in order of their number of requests.

For few runs, the search also tries all 2^(n - 1) plans, or those similar to the best plan. It combines each plan with
every length at which long requests can be split. It computes the cost of each plan from its true lengths, including the
load on shared resources (`thrift`). It drops plans that exceed the bound, and returns the cheapest of the others.

This module imports only numpy and `readplan.link`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from readplan.link import Link

STEP = 1.08  # ratio of successive numbers of requests that are tried; the lost time is far below 8 %
FEW = 64  # maximum number of runs for which plans similar to the best plan are also tried

# the cuts of k ways to merge, and the lengths of their requests, shape (k, m); length 0: no request
Ways = tuple[list[np.ndarray], np.ndarray]
# lengths in bytes at which long requests can be split: 1 to 32 MiB
PIECES = tuple(int(2 ** (20 + i / 4)) for i in range(21))
COARSE = 4  # with many runs, each gap is tried with every fourth of these lengths, and the best gap with all of them
EVERY = 10  # maximum number of runs for which all ways to merge them are tried
STEPS = 8  # maximum number of rounds that improve a plan; each merges or splits one more request, or one fewer
LONG = 8  # the splits of this many of the longest requests are changed one by one
NEAR = 1.01  # maximum time of splits at the start of a range, in units of the time of splits into equal parts


class Runs:
    """The ranges sorted by offset, and the runs of touching ranges.

    Attributes
    ----------
    start, stop
        First byte of each run and the byte after its last one, shape (r,).
    gaps
        Bytes between neighbouring runs, shape (r - 1,).
    begins
        Offsets of the ranges, ascending, shape (n,).
    needed
        Total bytes of all runs.
    """

    def __init__(self, offsets: np.ndarray, sizes: np.ndarray):
        given = np.asarray(offsets), np.asarray(sizes)
        with np.errstate(invalid="ignore"):  # NaN is not a whole number either
            offsets, sizes = (values.astype("i8") for values in given)
        if any((values != whole).any() for values, whole in zip(given, (offsets, sizes), strict=True)):
            raise ValueError("an offset or a size is not a whole number below 2**63; give bytes")
        if offsets.ndim != 1 or offsets.shape != sizes.shape:
            raise ValueError(
                f"offsets have shape {offsets.shape} and sizes {sizes.shape}; give one size for each offset"
            )
        if len(offsets) and (offsets.min() < 0 or sizes.min() < 0):
            raise ValueError("an offset or a size is negative; give values of at least 0")
        if (offsets > np.iinfo("i8").max - sizes).any():
            raise ValueError("a range ends beyond byte 2**63 - 1; give smaller offsets and sizes")
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
        """Return the indices of the last run of each request if gaps of at most `gap` bytes are merged."""
        return np.flatnonzero(self.gaps > gap)

    def merged(self, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the starts and stops of the requests whose last runs have the indices `cuts`."""
        return self.start[np.concatenate(([0], cuts + 1))], self.stop[np.concatenate((cuts, [len(self.stop) - 1]))]

    def way(self, gap: int) -> Ways:
        """Return the cuts and the lengths in bytes of the requests if gaps of at most `gap` bytes are merged."""
        cuts = self.cuts(gap)
        start, stop = self.merged(cuts)
        return [cuts], (stop - start)[None]

    def ways(self, ends: np.ndarray) -> Ways:
        """Return the ways to merge that `ends` describes, shape (k, runs - 1): True if a request ends with this run."""
        ends = np.concatenate((ends, np.ones((len(ends), 1), bool)), axis=1)
        begins = np.zeros(ends.shape, "i8")
        begins[:, 1:] = np.maximum.accumulate(np.where(ends[:, :-1], np.arange(1, ends.shape[1]), 0), axis=1)
        lengths = np.where(ends, self.stop - self.start[begins], 0)
        return [np.flatnonzero(row[:-1]) for row in ends], lengths[:, ends.any(0)]

    def every(self) -> Ways:
        """Return all ways to merge the runs."""
        n = len(self.gaps)
        return self.ways(np.arange(2**n)[:, None] >> np.arange(n) & 1 > 0)

    def near(self, cuts: np.ndarray) -> Ways:
        """Return the way to merge given by `cuts`. For few runs, add the ways that differ from it in one gap."""
        ends = np.zeros((1, len(self.gaps)), bool)
        ends[0, cuts] = True
        few = len(self.start) <= FEW
        return self.ways(np.concatenate((ends, ends ^ np.eye(len(self.gaps), dtype=bool))) if few else ends)

    def thresholds(self) -> np.ndarray:
        """Return the gaps to try in bytes, ascending, starting with 0.

        All different gaps are returned. If there are many, their ranks are spaced by the factor STEP.
        """
        found = np.unique(self.gaps)
        if len(found) > 128:
            counts = np.unique((STEP ** np.arange(np.log(len(self.gaps)) / np.log(STEP) + 1)).astype("i8"))
            found = np.unique(np.sort(self.gaps)[::-1][np.minimum(counts, len(self.gaps)) - 1])
        return np.concatenate(([0], found))


@dataclass(frozen=True)
class Requests:
    """A plan: the requests, and their expected cost.

    Attributes
    ----------
    start, stop
        Each request, or part of a split request, reads the bytes [start, stop). Shape (m,), ascending, disjoint.
    gap
        Largest gap in bytes that was merged.
    piece
        Length in bytes of the longest part of a split request; 0 if no request was split.
    seconds
        Time of these requests according to the link model.
    wire_bytes
        Bytes on the wire according to the link model.
    needed_bytes
        Bytes of the ranges; each byte counts once.
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
        """Return the ratio of expected wire bytes to needed bytes."""
        return self.wire_bytes / self.needed_bytes if self.needed_bytes else 1.0


@dataclass(frozen=True)
class Front:
    """The plans for one set of ranges, by ascending gap. All arrays have shape (k,).

    Attributes
    ----------
    gap
        Largest gap in bytes that is merged.
    piece
        Length in bytes at which requests are split; 0 for no split.
    pieces
        Number of pieces that are requested.
    asked_bytes, wire_bytes
        Requested bytes, and bytes on the wire.
    seconds
        Time according to the link model.
    needed_bytes
        Bytes of the ranges; each byte counts once.
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
        """Return True for each plan if no other plan needs both less time and fewer wire bytes."""
        order = np.lexsort((self.seconds, self.wire_bytes))
        least = np.minimum.accumulate(self.seconds[order])
        keep = np.zeros(len(order), bool)
        keep[order] = np.concatenate(([True], self.seconds[order][1:] < least[:-1]))
        return keep


class _Tried:
    """Plans that were tried, with their costs. All arrays have shape (k,).

    Attributes
    ----------
    cuts
        For each plan, the indices of the last run of each request.
    piece
        Length in bytes at which requests are split; 0 for no split.
    pieces, asked, wire, seconds
        Number of pieces, requested bytes, wire bytes, and time.
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
    """The goal of a plan: the `thrift` of `plan()`, and the maximum wire bytes."""

    link: Link
    thrift: float
    most_wire: float

    def best(self, pieces: np.ndarray, wire: np.ndarray, seconds: np.ndarray) -> int:
        """Return the index of the plan with the lowest cost that does not exceed the maximum wire bytes.

        If all plans exceed it, return the one with the fewest wire bytes. Of plans with equal cost, return the fastest.
        """
        wire = wire.astype("f8")
        cost = wire if np.isinf(self.thrift) else seconds + self.thrift * self.link.shared(pieces, wire)
        within = wire <= self.most_wire
        return int(np.lexsort((seconds, np.where(within, cost, np.inf) if within.any() else wire))[0])


def front(offsets: np.ndarray, sizes: np.ndarray, link: Link, pieces: Sequence[int] = PIECES[::COARSE]) -> Front:
    """Return the plans that are worth comparing for these ranges: one for each gap, with its fastest split.

    offsets and sizes are in bytes, have shape (n,), and can be in any order. Raises ValueError if a range or a piece is
    impossible, or the list is empty.
    """
    _check_pieces(pieces)
    runs = Runs(offsets, sizes)
    if not len(runs.start):
        raise ValueError("there are no bytes to read; give at least one range with a size above 0")
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
    """Return the requests that read these ranges in the least time.

    Parameters
    ----------
    offsets, sizes
        Ranges in bytes, shape (n,). They can be in any order and can overlap.
    link
        Model of the link.
    thrift
        Weight of the time for which a plan occupies link and server, relative to the reader's time. 0: no weight.
        n - 1: n readers share a link that was measured with one reader. inf: fewest bytes, regardless of the time.
    max_amplification
        Maximum ratio of wire bytes to needed bytes. If no plan satisfies it, return the plan with the
        fewest wire bytes.
    pieces
        Lengths in bytes at which long requests can be split, ascending.

    Raises
    ------
    ValueError
        The ranges, `thrift`, `max_amplification` or `pieces` are impossible.
    """
    if not thrift >= 0:
        raise ValueError(f"thrift = {thrift} is negative; give at least 0")
    if max_amplification is not None and not max_amplification >= 1:
        raise ValueError(f"max_amplification = {max_amplification} is too small; give at least 1")
    _check_pieces(pieces)
    runs = Runs(offsets, sizes)
    if not len(runs.start):
        return Requests(runs.start, runs.stop, 0, 0, 0.0, 0, 0)
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


def _check_pieces(pieces: Sequence[int]) -> None:
    if not all(piece > 0 for piece in pieces):
        raise ValueError(f"pieces = {list(pieces)} has a length below 1; give lengths in bytes")


def _merged(runs: Runs, goal: _Goal, pieces: Sequence[int]) -> tuple[np.ndarray, int]:
    """Return the indices of the last run of each request, and the length at which longer requests are split."""
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

    All requests are first split at the same length. If there are few requests, the number of parts of the longest ones
    is then changed one by one.
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
    """Split each request into `counts` parts of similar length, at the start of a range if there is one near the cut.

    A cut at the start of a range avoids that this range is put together from two answers. begins: the offsets of the
    ranges, ascending.
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

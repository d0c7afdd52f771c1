"""Which requests to send for a list of ranges. May import: numpy and `readplan.link` only.

Merging two neighbours over a gap saves a request and costs the bytes of the gap. Of all ways to make m requests, the
one that keeps the m - 1 largest gaps apart asks for the fewest bytes. So, if a byte costs the same in every request,
the best plan is among n plans (n: runs of touching ranges). The search goes through these by the number of requests,
or, of few runs, through all 2^(n - 1) or those near the best; each with every length at which long requests may be
split. It costs all by their true lengths, with what others wait for (`thrift`), and drops those beyond the bound,
before it takes the best.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from storelab.readplan.link import Link

STEP = 1.08  # ratio of successive numbers of requests that are tried: the loss of time is far below that
FEW = 64  # runs; up to so many, the ways near the best one are tried

Ways = tuple[list[np.ndarray], np.ndarray]  # cuts of k ways to merge; lengths of their requests (k, m), 0: none
PIECES = tuple(int(2 ** (20 + i / 4)) for i in range(21))  # a long request may be split at these: 1 to 32 MiB
COARSE = 4  # of many runs: every how many of these lengths are tried with each gap, and all with the best
EVERY = 10  # runs; up to so many, all ways to merge them are tried
STEPS = 8  # a way to merge or to split is improved by one gap or split more or less, at most so many times
LONG = 8  # requests, the longest, whose splits are changed one by one
NEAR = 1.01  # most seconds, over those with equal parts, for a cut where a range begins


class Runs:
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

    def cuts(self, gap: int) -> np.ndarray:
        """Numbers of the runs after which a request ends, if gaps of at most `gap` bytes are asked for as well."""
        return np.flatnonzero(self.gaps > gap)

    def merged(self, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Starts and stops of the requests that end after these runs."""
        return self.start[np.concatenate(([0], cuts + 1))], self.stop[np.concatenate((cuts, [len(self.stop) - 1]))]

    def way(self, gap: int) -> Ways:
        cuts = self.cuts(gap)
        start, stop = self.merged(cuts)
        return [cuts], (stop - start)[None]

    def ways(self, ends: np.ndarray) -> Ways:
        """ends: whether a request ends with a run, shape (k, runs - 1); it always ends with the last."""
        ends = np.concatenate((ends, np.ones((len(ends), 1), bool)), axis=1)
        begins = np.zeros(ends.shape, "i8")
        begins[:, 1:] = np.maximum.accumulate(np.where(ends[:, :-1], np.arange(1, ends.shape[1]), 0), axis=1)
        lengths = np.where(ends, self.stop - self.start[begins], 0)
        return [np.flatnonzero(row[:-1]) for row in ends], lengths[:, ends.any(0)]

    def every(self) -> Ways:
        """All ways to merge."""
        n = len(self.gaps)
        return self.ways(np.arange(2**n)[:, None] >> np.arange(n) & 1 > 0)

    def near(self, cuts: np.ndarray) -> Ways:
        """This way; of few runs also all that merge one gap more or less."""
        ends = np.zeros((1, len(self.gaps)), bool)
        ends[0, cuts] = True
        few = len(self.start) <= FEW
        return self.ways(np.concatenate((ends, ends ^ np.eye(len(self.gaps), dtype=bool))) if few else ends)

    def thresholds(self) -> np.ndarray:
        """Gaps to try, ascending: 0, then all different ones if they are few, else by their rank in steps of STEP."""
        found = np.unique(self.gaps)
        if len(found) > 128:
            counts = np.unique((STEP ** np.arange(np.log(len(self.gaps)) / np.log(STEP) + 1)).astype("i8"))
            found = np.unique(np.sort(self.gaps)[::-1][np.minimum(counts, len(self.gaps)) - 1])
        return np.concatenate(([0], found))


@dataclass(frozen=True)
class Requests:
    """A plan. start, stop: shape (m,), ascending, disjoint: each request (or part of one) asks for bytes [start, stop).

    gap: the largest gap that was merged over, bytes; piece: the longest part of a request that was split (0: none
    was); seconds: by the link model, of these very requests; wire_bytes: expected by it; needed_bytes: of the ranges,
    each byte once.
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


class _Tried:
    """Ways to merge and to split, costed; arrays of shape (k,). cuts: of each; piece: length of splits, 0: none."""

    def __init__(self, ways: Iterable[Ways], link: Link, pieces: Sequence[int]):
        self.cuts: list[np.ndarray] = []
        columns: list[tuple[Any, ...]] = []
        for cuts, lengths in ways:
            asked, longest = lengths.sum(1), int(lengths.max())
            for piece in (0, *(p for p in pieces if p < longest)):
                counts = -(-lengths // piece) if piece else (lengths > 0).astype("i8")
                n = counts.sum(1)
                seconds = link.seconds(-(-lengths // np.maximum(counts, 1)), counts)
                columns.append((np.full(len(cuts), piece), n, asked, link.wire(n, asked), seconds))
                self.cuts += cuts
        self.piece, self.pieces, self.asked, self.wire, self.seconds = map(np.concatenate, zip(*columns, strict=True))

    def best(self, wish: "_Wish") -> int:
        return wish.best(self.pieces, self.wire, self.seconds)


@dataclass(frozen=True)
class _Wish:
    """What a plan is to be: `thrift` of `plan()`, at most so many wire bytes."""

    link: Link
    thrift: float
    most_wire: float

    def best(self, pieces: np.ndarray, wire: np.ndarray, seconds: np.ndarray) -> int:
        """Number of the least cost within the bound; if there is none, of the fewest wire bytes. Of equals, the
        quickest."""
        wire = wire.astype("f8")
        cost = wire if np.isinf(self.thrift) else seconds + self.thrift * self.link.shared(pieces, wire)
        within = wire <= self.most_wire
        return int(np.lexsort((seconds, np.where(within, cost, np.inf) if within.any() else wire))[0])


def front(offsets: np.ndarray, sizes: np.ndarray, link: Link, pieces: Sequence[int] = PIECES[::COARSE]) -> Front:
    """All plans worth comparing for these ranges: one for each gap, split where that is quickest.

    offsets, sizes: bytes, shape (n,), any order. Raises ValueError for impossible ranges and for none at all.
    """
    runs = Runs(offsets, sizes)
    if not len(runs.start):
        raise ValueError("no range to read")
    rows = []
    for gap in runs.thresholds().tolist():
        t = _Tried([runs.way(gap)], link, pieces)
        i = int(np.lexsort((t.piece, t.pieces, t.seconds))[0])
        rows.append((gap, t.piece[i], t.pieces[i], t.asked[i], t.wire[i], t.seconds[i]))
    gap, piece, pieces_of, asked, wire, seconds = (np.array(column) for column in zip(*rows, strict=True))
    return Front(gap, piece, pieces_of, asked, wire, seconds, runs.needed)


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
    keeps it, the one with the fewest wire bytes is taken. pieces: lengths at which long requests may be split,
    ascending. Raises ValueError for impossible ranges, thrift or bound.
    """
    if not thrift >= 0:
        raise ValueError(f"thrift = {thrift}: at least 0")
    if max_amplification is not None and not max_amplification >= 1:
        raise ValueError(f"max_amplification = {max_amplification}: at least 1")
    if not np.any(np.asarray(sizes)):
        empty = np.empty(0, "i8")
        return Requests(empty, empty, 0, 0, 0.0, 0, 0)
    runs = Runs(offsets, sizes)
    wish = _Wish(link, thrift, np.inf if max_amplification is None else max_amplification * runs.needed)
    cuts, piece = _merged(runs, wish, pieces)
    start, stop = runs.merged(cuts)
    counts = _parts(stop - start, piece, wish, pieces)
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


def _merged(runs: Runs, wish: _Wish, pieces: Sequence[int]) -> tuple[np.ndarray, int]:
    """(runs after which a request ends, length at which all longer ones are split)."""
    if len(runs.start) <= EVERY:
        tried = _Tried([runs.every()], wish.link, pieces)
        i = tried.best(wish)
        return tried.cuts[i], int(tried.piece[i])
    some = pieces if len(pieces) <= COARSE else pieces[::COARSE]
    tried = _Tried((runs.way(int(gap)) for gap in runs.thresholds()), wish.link, some)
    cuts = tried.cuts[tried.best(wish)]
    for _ in range(STEPS):
        tried = _Tried([runs.near(cuts)], wish.link, pieces)
        i = tried.best(wish)
        if np.array_equal(cuts, tried.cuts[i]):
            break
        cuts = tried.cuts[i]
    return tried.cuts[i], int(tried.piece[i])


def _parts(lengths: np.ndarray, piece: int, wish: _Wish, pieces: Sequence[int]) -> np.ndarray:
    """Parts of each request, shape (n,): all split at one length; if they are few, then changed one by one."""
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
        asked, n = np.full(len(rows), lengths.sum()), rows.sum(1)
        seconds = wish.link.seconds(-(-lengths // rows), rows)
        best = wish.best(n, wish.link.wire(n, asked), seconds)
        if not best:
            break
        counts = rows[best]
    return counts


def split(start: np.ndarray, stop: np.ndarray, counts: np.ndarray, begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split each request into so many equal ones, cut at the begin of a range if one is near.

    begins: ascending offsets of the ranges: a cut there spares the reader putting a range together from two answers.
    """
    cuts = [
        cut for i in np.flatnonzero(counts > 1) for cut in _cuts(int(start[i]), int(stop[i]), int(counts[i]), begins)
    ]
    more = np.array(cuts, "i8")
    return np.sort(np.concatenate((start, more))), np.sort(np.concatenate((stop, more)))


def _cuts(start: int, stop: int, count: int, begins: np.ndarray) -> Iterator[int]:
    """Always as many: a plan was costed by the number of its requests."""
    most = (stop - start) // count // 4
    for k in range(1, count):
        wanted = start + k * (stop - start) // count
        at = int(np.searchsorted(begins, wanted))
        near = [int(b) for b in begins[max(0, at - 1) : at + 1] if abs(b - wanted) <= most]
        yield min(near, key=lambda b: abs(b - wanted), default=wanted)

"""Ranges as runs, and the ways to merge these. May import: numpy only."""

import numpy as np

STEP = 1.08  # ratio of successive numbers of requests that are tried: the loss of time is far below that
FEW = 64  # runs; up to so many, the ways near the best one are tried

Ways = tuple[list[np.ndarray], np.ndarray]  # cuts of k ways to merge; lengths of their requests (k, m), 0: none


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

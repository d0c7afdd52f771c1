"""Change points in a series of measurements, one value an entry: where did the level change, and is the newest worse?

* Where: the best places of 1, 2, 3 … changes of the level, at least LEAST_STRETCH entries apart, are those with the
  least sum of squares around the means of the stretches, found exactly by dynamic programming (optimal partitioning;
  B. Jackson et al., IEEE Signal Processing Letters 12, 2005, 105-108).
* How many: the Schwarz criterion (Y.-C. Yao, Statistics & Probability Letters 6, 1988, 181-189), with PENALTY times
  the logarithm of the number of entries for each change.
* Whether at all: places that were chosen look better than places that were given, so F has no table here. A series
  without a change may stand in any order: p is the part of its reorderings, seeded, for which the criterion speaks as
  clearly for changes, searched in the same way. It holds for any scatter that does not depend on its neighbours. At
  most DRAWS reorderings; fewer where SEEN of them have spoken as clearly, for then p is large (J. Besag and P.
  Clifford, Biometrika 78, 1991, 301-304). Of 7 entries and fewer too few orders exist for any p below 5 %.

The unit is an entry: what a day does is part of the scatter. Values are logarithms of medians, so that a change is a
ratio. A slow drift is told as one or more steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from storelab.analysis.statistics.medians import CONFIDENCE

LEAST_STRETCH = 2  # entries from one change to the next: one entry alone is no level
LEAST = 8  # entries from which on a change can be told
MOST_TESTED = 3  # changes in the test
MOST = 20  # changes that are told
PENALTY = 3.0
DRAWS, SEEN = 999, 40
SEED = 20150413


@dataclass(frozen=True)
class Step:
    """A change: `at` is the number of the first entry behind it. shift: of the logarithm, between low and high (95 %,
    of the two stretches beside it, where the place is given)."""

    at: int
    shift: float
    low: float
    high: float


@dataclass(frozen=True)
class Changes:
    """Of a series of n entries: p of a series without a change (NaN where too few), the places of its changes where it
    has some."""

    n: int
    p: float
    places: tuple[int, ...]
    reason: str = ""


@dataclass(frozen=True)
class Newest:
    """The newest entry against the stretch before it: shift of the logarithm with the 95 % interval of what one more
    entry of that stretch would differ by, p. before: entries of that stretch; 0 and NaN where nothing can be told."""

    before: int
    shift: float
    low: float
    high: float
    p: float
    reason: str = ""


def _segments(values: np.ndarray, most: int) -> list[list[int]]:
    """Return the best ends of stretches with 1 … most changes, by dynamic programming over the end of the last one."""
    n = len(values)
    sums, squares = (np.concatenate([[0.0], np.cumsum(x)]) for x in (values, values**2))
    length = np.arange(n + 1) - np.arange(n + 1)[:, None]  # of a stretch, from begin (row) to end (column)
    within = squares - squares[:, None] - (sums - sums[:, None]) ** 2 / np.where(length > 0, length, 1)
    within[length < LEAST_STRETCH] = np.inf
    least, begins, out = within[0], [], []
    for _ in range(most):
        both = least[:, None] + within
        begins.append(both.argmin(axis=0))
        least = both.min(axis=0)
        ends = [n]
        for begin in reversed(begins):
            ends.insert(0, int(begin[ends[0]]))
        out.append(ends)
    return out


def _within(values: np.ndarray, ends: Sequence[int]) -> float:
    """Sum of squares around the means of the stretches."""
    return float(sum(((part - part.mean()) ** 2).sum() for part in np.split(values, ends[:-1])))


def _worth(values: np.ndarray, every: Sequence[Sequence[int]]) -> np.ndarray:
    """By how much the criterion prefers 1, 2, 3 … changes at these places to none; the mean of the values is 0."""
    n, total = len(values), float(values @ values)
    between = [float((np.add.reduceat(values, [0, *e[:-1]]) ** 2 / np.diff([0, *e])).sum()) for e in every]
    rest = np.maximum(1 - np.array(between) / total, 1e-12)  # of a series without scatter it would be 0
    return -n * np.log(rest) - PENALTY * np.arange(1, len(every) + 1) * math.log(n)


def _p(values: np.ndarray) -> float:
    most = min(MOST_TESTED, len(values) // LEAST_STRETCH - 1)
    rng = np.random.default_rng(SEED)
    own, seen = _worth(values, _segments(values, most)).max() - 1e-9, 0
    for draw in range(1, DRAWS + 1):
        order = rng.permutation(values)
        seen += bool(_worth(order, _segments(order, most)).max() >= own)
        if seen == SEEN:
            return seen / draw
    return (1 + seen) / (DRAWS + 1)


def changes(values: Sequence[float]) -> Changes:
    """Of values (shape (n,)) in order of time, all finite."""
    x = np.asarray(values, dtype=float)
    n = len(x)
    if n < LEAST:
        return Changes(n, math.nan, (), f"too few entries to tell a change: {n}; {LEAST} are enough")
    x = x - x.mean()
    if not np.any(x):
        return Changes(n, 1.0, ())
    x /= np.abs(x).max()
    every = _segments(x, min(MOST, n // LEAST_STRETCH - 1))
    return Changes(n, _p(x), tuple(every[int(np.argmax(_worth(x, every)))][:-1]))


def _spread(values: np.ndarray, places: Sequence[int]) -> tuple[float, int]:
    """Standard deviation within the stretches, and its degrees of freedom."""
    df = len(values) - len(places) - 1
    return math.sqrt(_within(values, [*places, len(values)]) / df) if df > 0 else math.nan, df


def steps(values: Sequence[float], places: Sequence[int]) -> list[Step]:
    """The changes at these places."""
    x = np.asarray(values, dtype=float)
    spread, df = _spread(x, places)
    ends = [0, *places, len(x)]
    out = []
    for before, at, after in zip(ends, ends[1:], ends[2:], strict=False):
        shift = float(x[at:after].mean() - x[before:at].mean())
        reach = float(stdtrit(df, (1 + CONFIDENCE) / 2)) * spread * math.sqrt(1 / (at - before) + 1 / (after - at))
        out.append(Step(at, shift, shift - reach, shift + reach))
    return out


def told(values: Sequence[float], places: Sequence[int], p: float) -> list[Step]:
    """The changes at these places that are told where a series without any has this p (of several series: corrected):
    those whose interval leaves out that nothing changed."""
    return [s for s in steps(values, places) if s.low > 0 or s.high < 0] if p < 1 - CONFIDENCE else []


def newest(values: Sequence[float], places: Sequence[int]) -> Newest:
    """The newest entry against those between the last change and it. The scatter is that within all stretches, without
    the newest: Student's t of a further value."""
    x = np.asarray(values, dtype=float)
    first = max(places, default=0)
    before = x[first:-1]
    spread, df = _spread(x[:-1], places) if len(x) > 1 else (math.nan, 0)
    if df < 2 or not len(before):
        few = f"too few entries to judge the newest: {len(x)}; {4 + len(places)} are enough"
        return Newest(0, math.nan, math.nan, math.nan, math.nan, few)
    shift = float(x[-1] - before.mean())
    error = spread * math.sqrt(1 + 1 / len(before))
    reach = float(stdtrit(df, (1 + CONFIDENCE) / 2)) * error
    p = 2 * float(stdtr(df, -abs(shift) / error)) if error > 0 else float(abs(shift) < 1e-12)
    return Newest(len(before), shift, shift - reach, shift + reach, p)

"""Find changes of level of every point and measure over a history, and judge the newest entry.

A series consists of the medians of one point and measure over the entries. As in `storelab compare`, the store, the
workload, the axes and the measure are the same. If an older entry does not have an axis, its default is used. For each
kind of measure, there is also a series of all points together: the geometric mean over the points that all entries
have, as a ratio to the oldest entry. p values are corrected for the number of series (Benjamini and Hochberg),
separately for series of points and for series of all points together.

Changes are found as follows. A stretch consists of the entries between two changes.

* Places: for 1, 2, 3 … changes of the level, at least MIN_STRETCH entries apart, the best places have the smallest sum
  of squares around the means of the stretches. They are found exactly by dynamic programming (optimal partitioning; B.
  Jackson et al., IEEE Signal Processing Letters 12, 2005, 105-108).
* Number: by the Schwarz criterion (Y.-C. Yao, Statistics & Probability Letters 6, 1988, 181-189), with PENALTY times
  the logarithm of the number of entries for each change.
* Significance: the F distribution does not apply, because the places were chosen to fit best. p is instead estimated by
  random reorderings of the series, which are equally probable if there is no change. p is the fraction of reorderings
  in which the criterion favours changes at least as clearly, with the same search. This is valid for any scatter that
  does not depend on its neighbours. There are at most DRAWS reorderings. There are fewer if SEEN of them are as clear,
  because p is then large (J. Besag and P. Clifford, Biometrika 78, 1991, 301-304). With 7 entries or fewer, there are
  too few different orders for a p below 5 %.

The unit is an entry, so that the variation between days is part of the scatter. Values are logarithms of medians, so
that a change is a ratio. A slow drift is reported as one or more steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from storelab.analysis import compare
from storelab.analysis.history.entries import Entry
from storelab.analysis.parts import groups
from storelab.analysis.statistics import medians, ratios
from storelab.analysis.statistics.medians import CONFIDENCE
from storelab.analysis.tables.points import axis_columns

# --- change points ---

MIN_STRETCH = 2  # minimum number of entries from one change to the next; a single entry does not show a level
MIN_ENTRIES = 8  # minimum number of entries to find a change
MAX_TESTED = 3  # maximum number of changes in the test
MAX_CHANGES = 20  # maximum number of changes that are reported
PENALTY = 3.0
DRAWS, SEEN = 999, 40
SEED = 20150413


@dataclass(frozen=True)
class Step:
    """A change of level.

    at: number of the first entry after the change; shift: change of the logarithm, between low and high (95 % interval
    from the two neighbouring stretches, for a given place).
    """

    at: int
    shift: float
    low: float
    high: float


@dataclass(frozen=True)
class Changes:
    """The changes in a series of n entries.

    p: p value of the test against a series without changes (NaN with too few entries); places: index of the first entry
    after each change; reason: why no change could be found.
    """

    n: int
    p: float
    places: tuple[int, ...]
    reason: str = ""


@dataclass(frozen=True)
class Newest:
    """The newest entry compared with the stretch before it.

    before: number of entries of this stretch (0 if the comparison is not possible); shift: difference of the logarithm;
    low, high: 95 % interval of the difference that one more entry of the stretch would have; p: p value of the
    difference; reason: why the comparison is not possible.
    """

    before: int
    shift: float
    low: float
    high: float
    p: float
    reason: str = ""


def _segments(values: np.ndarray, most: int) -> list[list[int]]:
    """Return the best ends of the stretches for 1, 2, … `most` changes, found by dynamic programming."""
    n = len(values)
    sums, squares = (np.concatenate([[0.0], np.cumsum(x)]) for x in (values, values**2))
    length = np.arange(n + 1) - np.arange(n + 1)[:, None]  # length of a stretch from begin (row) to end (column)
    within = squares - squares[:, None] - (sums - sums[:, None]) ** 2 / np.where(length > 0, length, 1)
    within[length < MIN_STRETCH] = np.inf
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
    """Return the sum of squares around the means of the stretches. ends: index after the end of each stretch."""
    return float(sum(((part - part.mean()) ** 2).sum() for part in np.split(values, ends[:-1])))


def _worth(values: np.ndarray, every: Sequence[Sequence[int]]) -> np.ndarray:
    """Return by how much the criterion prefers 1, 2, 3 … changes at these places to no change.

    values: with a mean of 0; every: ends of the stretches for each number of changes.
    """
    n, total = len(values), float(values @ values)
    between = [float((np.add.reduceat(values, [0, *e[:-1]]) ** 2 / np.diff([0, *e])).sum()) for e in every]
    rest = np.maximum(1 - np.array(between) / total, 1e-12)  # not 0, also for a series without scatter
    return -n * np.log(rest) - PENALTY * np.arange(1, len(every) + 1) * math.log(n)


def _p(values: np.ndarray) -> float:
    most = min(MAX_TESTED, len(values) // MIN_STRETCH - 1)
    rng = np.random.default_rng(SEED)
    statistic, seen = _worth(values, _segments(values, most)).max() - 1e-9, 0
    for draw in range(1, DRAWS + 1):
        order = rng.permutation(values)
        seen += bool(_worth(order, _segments(order, most)).max() >= statistic)
        if seen == SEEN:
            return seen / draw
    return (1 + seen) / (DRAWS + 1)


def find_changes(values: Sequence[float]) -> Changes:
    """Return the changes of level in a series of finite values (shape (n,)) in order of time."""
    x = np.asarray(values, dtype=float)
    n = len(x)
    if n < MIN_ENTRIES:
        return Changes(n, math.nan, (), f"too few entries to find a change: {n}; {MIN_ENTRIES} are enough")
    x = x - x.mean()
    if not np.any(x):
        return Changes(n, 1.0, ())
    x /= np.abs(x).max()
    every = _segments(x, min(MAX_CHANGES, n // MIN_STRETCH - 1))
    return Changes(n, _p(x), tuple(every[int(np.argmax(_worth(x, every)))][:-1]))


def _spread(values: np.ndarray, places: Sequence[int]) -> tuple[float, int]:
    """Return the standard deviation within the segments, and its degrees of freedom."""
    df = len(values) - len(places) - 1
    return math.sqrt(_within(values, [*places, len(values)]) / df) if df > 0 else math.nan, df


def steps(values: Sequence[float], places: Sequence[int]) -> list[Step]:
    """Return the changes at these places."""
    x = np.asarray(values, dtype=float)
    spread, df = _spread(x, places)
    ends = [0, *places, len(x)]
    out = []
    for before, at, after in zip(ends, ends[1:], ends[2:], strict=False):
        shift = float(x[at:after].mean() - x[before:at].mean())
        reach = float(stdtrit(df, (1 + CONFIDENCE) / 2)) * spread * math.sqrt(1 / (at - before) + 1 / (after - at))
        out.append(Step(at, shift, shift - reach, shift + reach))
    return out


def significant_steps(values: Sequence[float], places: Sequence[int], p: float) -> list[Step]:
    """Return the changes at these places whose interval does not include 0. If p is not significant, there are none.

    p: p value of the series (`Changes.p`), corrected if there are several series.
    """
    return [s for s in steps(values, places) if s.low > 0 or s.high < 0] if p < 1 - CONFIDENCE else []


def judge_newest(values: Sequence[float], places: Sequence[int]) -> Newest:
    """Return the comparison of the newest entry with the entries since the last change.

    Student's t for a further value is used. The scatter is computed within all stretches, without the newest entry.
    """
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


# --- series ---


@dataclass(frozen=True)
class Value:
    """The value of a series in one entry.

    entry: number of the entry; n: number of runs, or of repetitions for all points together; median, low, high: median
    with its interval (NaN: no interval) in the unit of the measure, or for all points together the ratio to the oldest
    entry.
    """

    entry: int
    n: int
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Change:
    """A change of level: the ratio of the two neighbouring stretches with its interval.

    at: number of the first entry after the change.
    """

    at: int
    ratio: float
    low: float
    high: float
    verdict: str


@dataclass(frozen=True)
class Series:
    """The values of one point and measure over the entries.

    axes: column -> value (None: not set). The workload `all` means all points together; `points` is their number.

    p_corrected: corrected p value of the changes; steps: the reported changes. The attributes ratio,
    newest_p_corrected, verdict (corrected) and reason are about the newest entry, compared with the stretch before it.
    """

    store: str | None
    workload: str
    axes: dict[str, Any]
    metric: str
    points: int
    values: tuple[Value, ...]
    found: Changes
    newest: Newest
    p_corrected: float = math.nan
    newest_p_corrected: float = math.nan
    steps: tuple[Change, ...] = ()
    verdict: str = ratios.UNDECIDED
    lasts: bool = True  # True if the newest entry has this point

    @property
    def lower_is_better(self) -> bool:
        return groups.lower_is_better(self.metric)

    @property
    def reason(self) -> str:
        return self.newest.reason or self.found.reason

    @property
    def ratio(self) -> tuple[float, float, float]:
        """The ratio of the newest entry to the stretch before it, with low and high."""
        return math.exp(self.newest.shift), math.exp(self.newest.low), math.exp(self.newest.high)


@dataclass(frozen=True)
class History:
    """A history: its entries, oldest first; the columns of all axes; and its series.

    Series of all points together are last.
    """

    entries: list[Entry]
    columns: list[str]
    series: list[Series] = field(default_factory=list)

    def frame(self) -> pd.DataFrame:
        """Return store, workload, axes and metric, one row per series, as `compare.described` expects them."""
        rows = [{"store": s.store, "workload": s.workload, **s.axes, "metric": s.metric} for s in self.series]
        types = {c: t for e in self.entries for c, t in axis_columns(e.side.plan).items()}
        return pd.DataFrame(rows, columns=["store", "workload", *self.columns, "metric"]).astype(types)

    def changed_at(self, entry: int) -> list[tuple[Series, Change]]:
        """Return the changes of level whose first entry has this number, with their series."""
        return [(s, c) for s in self.series for c in s.steps if c.at == entry]


def history(entries: Sequence[Entry]) -> History:
    """Return the history of these entries. entries: oldest first, from `entries.read`."""
    plans = [e.side.plan for e in entries]
    columns = list(dict.fromkeys(c for plan in plans for c in axis_columns(plan)))
    defaults = {k: v for plan in plans for k, v in compare.defaults(plan).items()}
    runs = [compare.runs(e.side, columns, defaults) for e in entries]
    keys = sorted({key for of_entry in runs for key in of_entry}, key=compare.order_of)
    of_points, by_kind = [], {}
    for key in keys:
        each = {i: compare.values_of(of_entry[key]) for i, of_entry in enumerate(runs) if key in of_entry}
        summaries = {i: medians.summarise(values.values()) for i, values in each.items()}
        values = [Value(i, s.n, s.median, s.low, s.high) for i, s in summaries.items()]
        axes = dict(zip(columns, key[2:-1], strict=True))
        of_points.append(_series((key[0], key[1], axes, key[-1]), 1, values, len(entries)))
        if len(each) == len(entries):
            by_kind.setdefault(groups.kind(key[-1]), []).append([each[i] for i in range(len(entries))])
    wholes = [
        _overall(kind, kind_points, dict.fromkeys(columns), len(entries)) for kind, kind_points in by_kind.items()
    ]
    return History(list(entries), columns, [*_corrected(of_points), *_corrected(wholes)])


Identity = tuple[str | None, str, dict[str, Any], str]
NOTHING = Newest(0, math.nan, math.nan, math.nan, math.nan)


def _series(identity: Identity, points: int, values: list[Value], entries: int) -> Series:
    """Return a series with its changes. values: for the entries that have it; entries: number of all entries.

    The newest entry is not judged yet; `_corrected` does this.
    """
    medians_ = np.array([v.median for v in values])
    if (medians_ > 0).all():
        found = find_changes(np.log(medians_))
    else:
        found = Changes(len(values), math.nan, (), "an entry with a value of 0 has no ratio")
    lasts = values[-1].entry == entries - 1
    return Series(*identity, points, tuple(values), found, NOTHING, lasts=lasts)


def _overall(kind: str, of_points: list[list[dict[int, float]]], axes: dict[str, Any], entries: int) -> Series:
    """Return the series of all points together. Only points that all entries have are used.

    of_points[i][e] are the runs of point i in entry e.
    """
    oldest = [each[0] for each in of_points]
    values = []
    for e in range(entries):
        r = ratios.overall_ratio(oldest, [each[e] for each in of_points], groups.lower_is_better(kind))
        low, high = (1.0, 1.0) if e == 0 else (r.low, r.high)
        values.append(Value(e, r.n_b, r.ratio, low, high))
    known = [v for v in values if math.isfinite(v.median)]
    return _series((None, compare.ALL, axes, kind), len(of_points), known or values, entries)


def _corrected(family: list[Series]) -> list[Series]:
    """Return the series with reported changes and judged newest entries, by p values corrected for their number."""
    p = ratios.corrected([s.found.p for s in family])
    stepped = [_stepped(s, float(p_value)) for s, p_value in zip(family, p, strict=True)]
    newest_p = ratios.corrected([s.newest.p for s in stepped])
    return [_judged(s, float(p_value)) for s, p_value in zip(stepped, newest_p, strict=True)]


def _stepped(s: Series, p: float) -> Series:
    """Return a series with its significant changes, and its newest entry compared with those since the last change.

    p: corrected p value of its changes.
    """
    if not all(v.median > 0 for v in s.values):
        return s
    logs = [math.log(v.median) for v in s.values]
    steps = significant_steps(logs, s.found.places, p)
    changes = []
    for step in steps:
        ratio, low, high = (math.exp(x) for x in (step.shift, step.low, step.high))
        verdict = ratios.verdict(low, high, s.lower_is_better)
        changes.append(Change(s.values[step.at].entry, ratio, low, high, verdict))
    newest = replace(NOTHING, reason="the newest entry does not have this point")
    if s.lasts:
        newest = judge_newest(logs, [step.at for step in steps])
    return replace(s, p_corrected=p, steps=tuple(changes), newest=newest)


def _judged(s: Series, newest_p: float) -> Series:
    verdict = ratios.UNDECIDED
    if math.isfinite(newest_p):
        verdict = ratios.verdict_corrected(ratios.verdict(*s.ratio[1:], s.lower_is_better), newest_p)
    return replace(s, newest_p_corrected=newest_p, verdict=verdict)


def worse(found: History, rule: str, margin_percent: float = 0.0) -> list[Series]:
    """Return the series whose newest entry is slower according to a rule.

    Rule `newest`: the newest entry is slower than the stretch before it. Rule `change`: the stretch of the newest entry
    is slower than the previous stretch. If the rule ends with `-overall`, only the series of all points together are
    judged. The whole interval must be slower by more than `margin_percent`.
    """
    kind, _, overall = rule.partition("-")
    out = []
    for s in found.series:
        if (overall and s.workload != compare.ALL) or not s.lasts:
            continue
        verdict, low, high = s.verdict, *s.ratio[1:]
        if kind == "change":
            verdict, low, high = ratios.UNDECIDED, math.nan, math.nan
            if s.steps:
                verdict, low, high = s.steps[-1].verdict, s.steps[-1].low, s.steps[-1].high
        beyond = low > 1 + margin_percent / 100 if s.lower_is_better else high < 1 - margin_percent / 100
        if verdict == ratios.SLOWER and beyond:
            out.append(s)
    return out

"""Every point and measure over the entries of a history: medians, changes of level, the newest beside those before.

A series is what `storelab compare` would compare: the same store, workload, axes and measure; an axis that an older
entry does not know stands there at its default. The whole of each kind of measure is the geometric mean over the points
that all entries have, as a ratio to the oldest entry. p values are corrected for the number of series (Benjamini and
Hochberg): those of points are one family, those of wholes another.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.compare import sides
from storelab.analysis.history import changes
from storelab.analysis.history.entries import Entry
from storelab.analysis.parts import speed
from storelab.analysis.statistics import medians, ratios
from storelab.analysis.tables.points import axis_columns


@dataclass(frozen=True)
class Value:
    """Of one entry (its number): n runs, of a whole repetitions; median between low and high, in the measure's unit, of
    a whole the ratio to the oldest entry (NaN: no interval)."""

    entry: int
    n: int
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Change:
    """From entry `at` (its number) on the level is another: ratio between low and high of the stretches beside it."""

    at: int
    ratio: float
    low: float
    high: float
    verdict: str


@dataclass(frozen=True)
class Series:
    """One point and measure. axes: column -> value (None: it has none); workload `all`: the whole of so many points.

    p_corrected: of a series without a change. steps: the changes, where it tells of any. Of the newest entry against
    the stretch before it: ratio, newest_p_corrected, verdict (with the correction), reason (why nothing can be told).
    """

    store: str | None
    workload: str
    axes: dict[str, Any]
    metric: str
    points: int
    values: tuple[Value, ...]
    found: changes.Changes
    newest: changes.Newest
    p_corrected: float = math.nan
    newest_p_corrected: float = math.nan
    steps: tuple[Change, ...] = ()
    verdict: str = ratios.CANNOT_TELL
    lasts: bool = True  # the newest entry has it

    @property
    def lower_is_better(self) -> bool:
        return speed.lower_is_better(self.metric)

    @property
    def reason(self) -> str:
        return self.newest.reason or self.found.reason

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Of the newest entry to the stretch before it: ratio, low, high."""
        return math.exp(self.newest.shift), math.exp(self.newest.low), math.exp(self.newest.high)


@dataclass(frozen=True)
class History:
    """Entries, oldest first; series of points, then of the wholes. columns: all axes."""

    entries: list[Entry]
    columns: list[str]
    series: list[Series] = field(default_factory=list)

    def frame(self) -> pd.DataFrame:
        """One row a series, as `sides.described` and `sides.in_common` read it: store, workload, axes, metric."""
        rows = [{"store": s.store, "workload": s.workload, **s.axes, "metric": s.metric} for s in self.series]
        types = {c: t for e in self.entries for c, t in axis_columns(e.side.plan).items()}
        return pd.DataFrame(rows, columns=["store", "workload", *self.columns, "metric"]).astype(types)

    def changed_at(self, entry: int) -> list[tuple[Series, Change]]:
        """The changes of level that begin with an entry."""
        return [(s, c) for s in self.series for c in s.steps if c.at == entry]


def history(entries: Sequence[Entry]) -> History:
    """Of entries, oldest first (`entries.read`)."""
    plans = [e.side.plan for e in entries]
    columns = list(dict.fromkeys(c for plan in plans for c in axis_columns(plan)))
    defaults = {k: v for plan in plans for k, v in sides.defaults(plan).items()}
    runs = [sides.runs(e.side, columns, defaults) for e in entries]
    keys = sorted({key for of_entry in runs for key in of_entry}, key=sides.order_of)
    of_points, by_kind = [], {}
    for key in keys:
        each = {i: sides.values_of(of_entry[key]) for i, of_entry in enumerate(runs) if key in of_entry}
        summaries = {i: medians.summarise(values.values()) for i, values in each.items()}
        values = [Value(i, s.n, s.median, s.low, s.high) for i, s in summaries.items()]
        axes = dict(zip(columns, key[2:-1], strict=True))
        of_points.append(_series((key[0], key[1], axes, key[-1]), 1, values, len(entries)))
        if len(each) == len(entries):
            by_kind.setdefault(speed.kind(key[-1]), []).append([each[i] for i in range(len(entries))])
    wholes = [_whole(kind, own, dict.fromkeys(columns), len(entries)) for kind, own in by_kind.items()]
    return History(list(entries), columns, [*_corrected(of_points), *_corrected(wholes)])


Identity = tuple[str | None, str, dict[str, Any], str]
NOTHING = changes.Newest(0, math.nan, math.nan, math.nan, math.nan)


def _series(identity: Identity, points: int, values: list[Value], entries: int) -> Series:
    """Of the values of the entries that have it; judged by `_corrected`."""
    medians_ = np.array([v.median for v in values])
    if (medians_ > 0).all():
        found = changes.changes(np.log(medians_))
    else:
        found = changes.Changes(len(values), math.nan, (), "an entry with a value of 0 has no ratio")
    lasts = values[-1].entry == entries - 1
    return Series(*identity, points, tuple(values), found, NOTHING, lasts=lasts)


def _whole(kind: str, of_points: list[list[dict[int, float]]], axes: dict[str, Any], entries: int) -> Series:
    """Over points that all entries have: of_points[i][e] are the runs of point i in entry e."""
    oldest = [each[0] for each in of_points]
    values = []
    for e in range(entries):
        r = ratios.whole(oldest, [each[e] for each in of_points], speed.lower_is_better(kind))
        low, high = (1.0, 1.0) if e == 0 else (r.low, r.high)
        values.append(Value(e, r.n_b, r.ratio, low, high))
    known = [v for v in values if math.isfinite(v.median)]
    return _series((None, sides.ALL, axes, kind), len(of_points), known or values, entries)


def _corrected(family: list[Series]) -> list[Series]:
    """With what changed, and the newest entry judged; p values corrected for the number of series."""
    p = ratios.corrected([s.found.p for s in family])
    stepped = [_stepped(s, float(own)) for s, own in zip(family, p, strict=True)]
    newest_p = ratios.corrected([s.newest.p for s in stepped])
    return [_judged(s, float(own)) for s, own in zip(stepped, newest_p, strict=True)]


def _stepped(s: Series, p: float) -> Series:
    """With the changes that are told at this p, and the newest entry beside those since the last of them."""
    if not all(v.median > 0 for v in s.values):
        return s
    logs = [math.log(v.median) for v in s.values]
    steps = changes.told(logs, s.found.places, p)
    told = []
    for step in steps:
        ratio, low, high = (math.exp(x) for x in (step.shift, step.low, step.high))
        verdict = ratios.verdict(low, high, s.lower_is_better)
        told.append(Change(s.values[step.at].entry, ratio, low, high, verdict))
    newest = replace(NOTHING, reason="the newest entry does not have it")
    if s.lasts:
        newest = changes.newest(logs, [step.at for step in steps])
    return replace(s, p_corrected=p, steps=tuple(told), newest=newest)


def _judged(s: Series, newest_p: float) -> Series:
    own = ratios.CANNOT_TELL
    if math.isfinite(newest_p):
        own = ratios.verdict_corrected(ratios.verdict(*s.ratio[1:], s.lower_is_better), newest_p)
    return replace(s, newest_p_corrected=newest_p, verdict=own)


def worse(found: History, rule: str, margin_percent: float = 0.0) -> list[Series]:
    """The series of which a rule says that the newest is slower.

    newest: the newest entry is slower than the stretch before it. change: the stretch of the newest entry is slower
    than the one before. …-overall: of the wholes alone. Their intervals lie wholly beyond `margin_percent`.
    """
    kind, _, overall = rule.partition("-")
    out = []
    for s in found.series:
        if (overall and s.workload != sides.ALL) or not s.lasts:
            continue
        verdict, low, high = s.verdict, *s.ratio[1:]
        if kind == "change":
            verdict, low, high = ratios.CANNOT_TELL, math.nan, math.nan
            if s.steps:
                verdict, low, high = s.steps[-1].verdict, s.steps[-1].low, s.steps[-1].high
        beyond = low > 1 + margin_percent / 100 if s.lower_is_better else high < 1 - margin_percent / 100
        if verdict == ratios.SLOWER and beyond:
            out.append(s)
    return out

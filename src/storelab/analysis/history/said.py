"""A history in words: what `storelab history` prints and its page holds. May import: what this folder may."""

import math
from pathlib import Path

import pandas as pd

from storelab.analysis.compare import sides
from storelab.analysis.history import draw, environment
from storelab.analysis.history.series import Change, History, Series
from storelab.analysis.pages import Page, Section
from storelab.analysis.parts import speed, words

HEAD = ("point", "measure", "oldest", "newest", "newest / before", "newest is", "changes")


def page(campaign: Path, found: History, drawn: bool = False) -> Page:
    """The whole page. drawn: with the figure, which takes some seconds."""
    first, last = found.entries[0], found.entries[-1]
    n = len(found.entries)
    title = f"{campaign}: {words.plural(n, 'entry') if n == 1 else f'{n} entries'}, {first.name} to {last.name}"
    under = (
        "Medians over the runs of an entry, in brackets their 95 % interval (of fewer than 6 runs the range); the "
        "whole as a ratio to the oldest entry. The newest entry stands beside those since the last change, with the "
        "95 % interval of what a further entry of these would differ by."
    )
    newest = _newest(found)
    if drawn:
        newest.drawing = draw.svg(draw.figure(found))
        newest.shows = f"medians over time of {words.plural(len(found.series), 'series')}; the table has their numbers"
    return Page(title, under, [newest, _changes(found), _entries(found)])


def names(found: History) -> list[str]:
    """Each series in words, in their order."""
    points = found.frame()
    points = points[points["workload"] != sides.ALL]
    wholes = [f"all {s.points} points" for s in found.series if s.workload == sides.ALL]
    return [*sides.described(points), *wholes]


def _newest(found: History) -> Section:
    last = len(found.entries) - 1
    out = Section(f"The newest entry, {found.entries[-1].name}", HEAD)
    for name, s in zip(names(found), found.series, strict=True):
        newest = next((v for v in s.values if v.entry == last), None)
        out.rows.append(
            [
                name,
                speed.said(s.metric),
                words.number(s.values[0].median),
                _spread(newest.median, newest.low, newest.high) if newest else "--",
                _spread(*s.ratio),
                s.verdict if s.lasts else "not there",
                str(len(s.steps)),
            ]
        )
    points = found.frame()
    points = points[points["workload"] != sides.ALL]
    out.lines += [f"Held fixed: {said}" for said in sides.in_common(points)]
    reasons = [(s.reason, s.workload) for s in found.series if s.reason]
    out.lines += [f"Cannot tell: {reason}" for reason in dict.fromkeys(reason for reason, _ in reasons)]
    if (tested := sum(math.isfinite(s.newest.p) for s in found.series if s.workload != sides.ALL)) > 1:
        out.lines.append(
            f"Corrected for {tested} series (Benjamini and Hochberg): of those called different, at most 5 % are so "
            "by chance."
        )
    return out


def _spread(value: float, low: float, high: float) -> str:
    return words.spread([value, low, high])


def change_text(name: str, s: Series, change: Change) -> str:
    """`get, 4 kB objects: rate x0.86 [0.80, 0.92], slower`."""
    ratio = words.spread([change.ratio, change.low, change.high])
    return f"{name}: {s.metric.replace('_', ' ')} x{ratio}, {change.verdict}"


def _changes(found: History) -> Section:
    """Entry by entry: whose level changed, and what else did."""
    out, said = Section("What changed"), dict(zip(map(id, found.series), names(found), strict=True))
    for i, (before, entry) in enumerate(zip(found.entries, found.entries[1:], strict=False), 1):
        with_it = environment.differences(before.facts, entry.facts)
        levels = found.changed_at(i)
        if not levels and not with_it:
            continue
        out.lines.append(f"{entry.name}, beside {before.name}:")
        out.lines += [f"  {change_text(said[id(s)], s, c)}" for s, c in levels]
        out.lines += ["  no change of level"] if not levels else []
        out.lines += [f"  {line}" for line in with_it] or ["  no change of what the records tell of the environment"]
    if not out.lines:
        out.lines.append("Nothing.")
    return out


def _entries(found: History) -> Section:
    out = Section("Entries", ("entry", "measured", "sealed", "runs", "folder"))
    for e in found.entries:
        out.rows.append([e.name, e.measured, e.sealed, str(int((e.side.points["state"] == "ok").sum())), str(e.folder)])
    return out


def table(found: History) -> pd.DataFrame:
    """One row per series and entry: store, workload, axes, metric; entry, measured, n, median, low, high, unit; where a
    stretch begins, its ratio to the one before (change, change_low, change_high) and its verdict."""
    head, out = found.frame(), []
    for row, s in zip(head.to_dict("records"), found.series, strict=True):
        steps = {c.at: c for c in s.steps}
        for v in s.values:
            step, entry = steps.get(v.entry), found.entries[v.entry]
            own = {"entry": entry.name, "measured": entry.measured, "n": v.n}
            own |= {"median": v.median, "low": v.low, "high": v.high, "unit": speed.UNITS.get(s.metric, "ratio")}
            own |= {"unit": "ratio"} if s.workload == sides.ALL else {}
            own |= {"change": step.ratio, "change_low": step.low, "change_high": step.high} if step else {}
            out.append(row | own | ({"verdict": step.verdict} if step else {}))
    mine = ["entry", "measured", "n", "median", "low", "high", "unit", "change", "change_low", "change_high", "verdict"]
    return pd.DataFrame(out, columns=[*head.columns, *mine]).astype(head.dtypes.to_dict())

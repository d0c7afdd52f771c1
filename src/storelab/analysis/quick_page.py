"""The one page of `storelab quick`, as text and as HTML: the tables of a campaign in the order in which one asks.

May import: `pages`, `tables`, `parts`, `core`.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from storelab.analysis.pages import Page, Section
from storelab.analysis.parts import speed, words
from storelab.analysis.tables import build, verdicts
from storelab.core import units

READERS = {
    "planned": "storelab's read planner chooses the requests",
    "uproot-s3fs": "uproot as it is, over s3fs",
}


def page(campaign_dir: Path, url: str, seconds: float) -> Page:
    """The page of a campaign on one endpoint, from its tables. seconds: what measuring took."""
    names = ("points", "throughput", "latency", "sparse", "capabilities", "verdicts", "environment")
    tables = {name: build.read(campaign_dir, name) for name in names}
    store = tables["points"].loc[lambda t: t["workload"] != "calibrate", "store"].iloc[0]
    mine = {n: t[t["store"] == store] if "store" in t else t for n, t in tables.items()}
    sections = [
        can(mine["capabilities"]),
        rates(mine["throughput"]),
        latencies(mine["latency"]),
        sparse(mine["sparse"]),
        limits(mine["verdicts"]),
        went_wrong(mine["points"]),
    ]
    return Page(url, under(mine, seconds), [s for s in sections if s.rows or s.lines])


def under(tables: dict[str, pd.DataFrame], seconds: float) -> str:
    """What was measured from where, when, and what the numbers are."""
    groups = tables["environment"].drop_duplicates(["group", "item"]).set_index(["group", "item"])["value"]
    store = f"store {tables['points']['store'].iloc[0]}"
    system, cores = _text(groups.get((store, "version"))), _text(groups.get(("environment", "cores")))
    begun = str(tables["points"]["started"].dropna().min())
    runs = words.interval_text(tables["throughput"]["n"])
    return (
        f"{f'It calls itself {system}. ' if system else ''}Measured by storelab from a host of {cores} cores on "
        f"{begun[:10]}, from {begun[11:16]} UTC, in {units.human_duration(seconds * 1e9)}. "
        f"Numbers are medians{f'; in brackets: {runs}' if runs else ''}."
    )


def can(answers: pd.DataFrame) -> Section:
    """What it can do: how many answers are plain yes, and the others with their evidence."""
    tried = answers[~answers["answer"].isin(["not tried", "error"])]
    yes, out = tried[tried["answer"] == "yes"], Section("What it can do")
    if len(answers):
        out.lines.append(f"{len(yes)} of {words.plural(len(tried), 'question')} got a plain yes.")
    for r in tried[tried["answer"] != "yes"].itertuples():
        said = " ".join(str(r.evidence).split())
        out.lines.append(f"  {r.answer}: {_plain(r.topic)}, {_plain(r.check)}: {said[:160]}")
    if left := [f"{_plain(r.topic)}, {_plain(r.check)}" for r in answers[answers["answer"] == "error"].itertuples()]:
        out.lines.append(f"  not known, for errors: {'; '.join(left)}")
    return out


def _plain(name: str) -> str:
    return str(name).replace("_", " ")


def _ordered(moved: pd.DataFrame) -> pd.DataFrame:
    """Rows by size, uploads first, by workers; a campaign that moves no objects has no such columns, and no rows."""
    order = ["object_size_bytes", "workload", "workers"]
    return moved.sort_values(order, ascending=[True, False, True]) if len(moved) else moved


def rates(found: pd.DataFrame) -> Section:
    """Objects up and down: a row for what moves, a column for how many requests are in flight."""
    moved = found[found["workload"].isin(speed.MOVING)]
    out = Section("How fast objects go up and down", ["", "at once", "objects/s", "MB/s", "failed"])
    for r in _ordered(moved).itertuples():
        out.rows.append(
            [
                f"{words.value_text('workload', r.workload)} of {words.cell('object_size_bytes', r.object_size_bytes)}",
                f"{int(r.clients * r.workers)}",
                words.spread([r.rate_median_per_s, r.rate_low_per_s, r.rate_high_per_s]),
                words.spread([r.throughput_median_mb_per_s, r.throughput_low_mb_per_s, r.throughput_high_mb_per_s]),
                words.number(r.errors),
            ]
        )
    return out


def latencies(found: pd.DataFrame) -> Section:
    """How long one operation takes, by how many are in flight."""
    moved = found[found["workload"].isin(speed.MOVING)] if len(found) else found
    out = Section("How long one takes, in ms", ["", "at once", "half within", "90 % within", "99 % within"])
    for r in _ordered(moved).itertuples():
        values = {q: getattr(r, f"latency_{q}_median_ms") for q in ("p50", "p90", "p99")}
        bound = _text(r.lower_bounds)  # quantiles that fall on operations which never ended
        out.rows.append(
            [
                f"{words.value_text('workload', r.workload)} of {words.cell('object_size_bytes', r.object_size_bytes)}",
                f"{int(r.clients * r.workers)}",
                *("-" if pd.isna(v) else ("≥ " if q in bound else "") + words.number(v) for q, v in values.items()),
            ]
        )
    if any("-" in row[2:] for row in out.rows):
        out.lines.append("-: too few operations to say.")
    return out


FRACTIONS = ("entry_fraction_percent", "volume_fraction_percent")  # a campaign has the one that it sweeps, or both


def sparse(found: pd.DataFrame) -> Section:
    """Reads of a ROOT file, by reader."""
    out = Section("Sparse reads of a ROOT file", ["", "entries/s", "MB/s needed", "moved / needed", "requests each"])
    for r in found.itertuples():
        named = [f for f in FRACTIONS if not pd.isna(getattr(r, f, None))]
        what = words.value_text(named[0], getattr(r, named[0])) if named else words.value_text("workload", r.workload)
        out.rows.append(
            [
                f"{what}, {words.value_text('engine', r.engine)}",
                words.spread([r.entries_median_per_s, r.entries_low_per_s, r.entries_high_per_s]),
                words.number(r.needed_median_mb_per_s),
                words.number(r.amplification_median_ratio),
                words.number(r.requests_median_per_read),
            ]
        )
    out.lines += [f"{name}: {text}." for name, text in READERS.items() if (found["engine"] == name).any()]
    return out


def limits(found: pd.DataFrame) -> Section:
    return Section("What limited it", lines=verdicts.lines(found.assign(deployment="")))


def went_wrong(points: pd.DataFrame) -> Section:
    """Points that failed or do not count, with the reason."""
    bad = points[points["state"] != "ok"]
    out = Section("What went wrong")
    for r in bad.itertuples():
        out.lines.append(f"{r.key.partition('/')[2]}: {r.state}: {_text(r.reason)}")
    return out


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)

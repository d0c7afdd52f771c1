"""Read and add the entries of a history on disk, and list the differences between environments of two entries.

An entry is a complete sealed campaign in the folder `results/<campaign>@<date>`. The campaign is measured in
`results/<campaign>`. `add` seals it and adds the date of measurement to the name of its folder, so that the next
measurement can use the original name. No file is copied or removed, and an entry never replaces another one. The facts
of an environment are those of `environment.csv`, and the lengths of the windows, which are not axes.
"""

import glob
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pandas as pd

from storelab.analysis import compare
from storelab.analysis.parts import groups
from storelab.analysis.records.campaign import read_plan
from storelab.analysis.records.campaign import seal as seal_campaign
from storelab.analysis.tables.points import axis_columns
from storelab.core import integrity, records
from storelab.core.errors import UserError

# --- environment ---

Fact = tuple[str, str]  # group and item: ("store alpha", "version")
LEFT_OUT = ("checks",)  # groups of environment.csv that are not about the environment
MAX_VALUE_LENGTH = 100  # maximum number of characters of a value
WINDOWS = {"duration_s": "window [s]", "warm_up_s": "warm-up [s]"}


def environment_facts(environment: pd.DataFrame, points: pd.DataFrame) -> dict[Fact, frozenset[str]]:
    """Return the facts of an environment: (group, item) -> all values of the points.

    environment: `environment.csv`; points: `points.csv`.
    """
    out: dict[Fact, set[str]] = {}
    for row in environment.itertuples(index=False):
        if row.group not in LEFT_OUT:
            for item, value in _items(str(row.item), "" if pd.isna(row.value) else str(row.value)):
                out.setdefault((str(row.group), item), set()).add(value)
    for column, window in WINDOWS.items():
        out["measuring", window] = {f"{v:g}" for v in points[column].dropna().astype(float)}
    return {fact: frozenset(values) for fact, values in out.items()}


def _items(item: str, value: str) -> list[tuple[str, str]]:
    """Return the pairs (item, value) of a row. The text of all packages, `boto3 1.43, s3fs 2026.9`, is split."""
    if item != "packages":
        return [(item, value)]
    return [(name, version) for name, _, version in (p.partition(" ") for p in value.split(", ") if p)]


def facts_of_store(known: Mapping[Fact, frozenset[str]], store: str) -> dict[Fact, frozenset[str]]:
    """Return the facts of an environment without those about other stores."""
    return {f: v for f, v in known.items() if not f[0].startswith("store ") or f[0] == f"store {store}"}


def differences(before: Mapping[Fact, frozenset[str]], after: Mapping[Fact, frozenset[str]]) -> list[str]:
    """Return one line for each change, such as `store alpha: version 4.47 -> 4.48`."""
    groups = [{g for g, _ in known} for known in (before, after)]
    out = [f"{group}: is new" for group in sorted(groups[1] - groups[0])]
    out += [f"{group}: no longer exists" for group in sorted(groups[0] - groups[1])]
    for group, item in sorted({*before, *after}):
        if all(group in known for known in groups):
            was, now = before.get((group, item)), after.get((group, item))
            if was != now:
                out.append(f"{group}: {item} {_values_text(was)} -> {_values_text(now)}")
    return out


def _values_text(values: frozenset[str] | None) -> str:
    if values is None:
        return "(not recorded)"
    text = ", ".join(sorted(v or "(none)" for v in values))
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 1]}…"


# --- entries ---

SIGN = "@"  # separates name and date; names of campaigns cannot contain it
MIN_TIME = "2020-01-01"  # there was no storelab before; machines without a battery start in 1970 or 2000
MAX_ENTRIES = 1000  # maximum number of entries of one day, plus one
KEPT = (
    "store",
    "workload",
    "rep",
    "state",
    "started",
)  # columns of points.csv, in addition to axes and compared values


@dataclass(frozen=True)
class Entry:
    """An entry of a history.

    name: the part of the folder's name after SIGN; side: plan and points of the entry; measured, sealed: times in UTC;
    facts: the result of `environment_facts`.
    """

    name: str
    side: compare.Side
    measured: str
    sealed: str
    facts: Mapping[Fact, frozenset[str]]

    @property
    def folder(self) -> Path:
        return self.side.folder


def measured(raw: Path) -> str:
    """Return when the first run of a campaign started, such as `2026-11-23T16:40:00Z`.

    Raises UserError if the campaign has no run, or if the clock was wrong: the time is in the future, or before
    MIN_TIME. Such an entry would always be the newest or the oldest.
    """
    runs = [integrity.read_run(raw, key) for key in integrity.heads(raw)]
    starts = [run["start_ns"] for run in runs if "start_ns" in run]
    if not starts:
        raise UserError(str(raw), "has no measured point", "measure the campaign first")
    first, now = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ns // 10**9)) for ns in (min(starts), time.time_ns()))
    last = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(max(starts) // 10**9))
    if first < MIN_TIME or last > now:
        raise UserError(
            str(raw.parent),
            f"was measured at {first if first < MIN_TIME else last}, and now is {now}: one of the clocks is wrong",
            "set the clock (NTP), or keep this campaign out of the history: rename its folder",
        )
    return first


def add(folder: Path, with_failures: bool = False, dirty: bool = False) -> Path:
    """Seal a campaign, rename its folder so that it is an entry of the history, and return the new folder.

    `site` is renamed to `site@2026-11-23`, or to `site@2026-11-23.2` if this is the second entry of the day. Raises
    UserError if the campaign cannot be sealed (`records.campaign.seal`), or if the folder is already an entry.
    """
    folder = folder.absolute() if folder.name in ("", "..") else folder
    if SIGN in folder.name:
        raise UserError(
            str(folder), "is already an entry of a history", f"name the campaign's folder: {_without_sign(folder)}"
        )
    read_plan(folder)
    day = measured(folder / "raw")[:10]
    seal_campaign(folder, with_failures, dirty)
    for number in range(1, MAX_ENTRIES):
        target = folder.with_name(f"{folder.name}{SIGN}{day}{f'.{number}' if number > 1 else ''}")
        if not os.path.lexists(target):
            folder.rename(target)
            return target
    raise UserError(str(folder), f"already has {MAX_ENTRIES - 1} entries of {day}", "measure the campaign less often")


def _without_sign(folder: Path) -> Path:
    return folder.with_name(folder.name.partition(SIGN)[0])


def folders(campaign: Path) -> list[Path]:
    """Return the folders of a campaign's entries, sorted by name. The campaign itself and other files are excluded."""
    found = campaign.parent.glob(f"{glob.escape(campaign.name)}{SIGN}*")
    return sorted(p for p in found if p.is_dir())


def read(campaign: Path, store: str | None = None, since: str | None = None) -> list[Entry]:
    """Return the entries of a campaign, oldest first.

    campaign: folder of the campaign, without a date; store: use only the points of this store; since: use only entries
    that were measured on this day or later.

    Raises UserError if there is no entry, if an entry is not sealed or its records were altered, if no entry has the
    store, or if `since` is not a date.
    """
    if SIGN in campaign.name:
        raise UserError(
            str(campaign), "is one entry of a history", f"name the campaign without the date: {_without_sign(campaign)}"
        )
    found = folders(campaign)
    if not found:
        raise UserError(
            str(campaign),
            f"has no history: there is no folder {campaign.name}{SIGN}… in the same folder",
            "add an entry with `storelab history add`",
        )
    begun = [(measured(folder / "raw"), folder) for folder in found if _is_sealed(folder)]
    if since is not None:
        begun = [(at, folder) for at, folder in begun if at[:10] >= _day(since)]
        if not begun:
            raise UserError(
                "--since", f"no entry of {campaign} was measured on {since} or later", "choose an earlier day"
            )
    entries = [_entry(folder, at) for at, folder in sorted(begun)]
    return entries if store is None else _entries_of_store(entries, store)


def _is_sealed(folder: Path) -> bool:
    """Return True. Raises UserError if an entry is not sealed, because the records of a history must not change."""
    read_plan(folder)
    if not records.sealed(folder / "raw"):
        raise UserError(str(folder), "is not sealed", f"run `storelab seal {folder}`")
    return True


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise UserError("--since", f"{text!r} is not a date", "write a date such as 2026-11-23") from None


def _entry(folder: Path, at: str) -> Entry:
    seal = integrity.seal_of(folder / "raw")
    assert seal is not None
    table, source = compare.newest_tables(folder)
    side = compare.side_from_tables(folder.name, folder, table, source)
    facts = environment_facts(table("environment"), side.points)
    needed = {
        *KEPT,
        *axis_columns(side.plan),
        *groups.COLUMNS.values(),
    }  # other columns would take time with many entries
    side = replace(side, points=side.points[[c for c in side.points if c in needed]])
    return Entry(folder.name.partition(SIGN)[2], side, at, seal["time"], facts)


def _entries_of_store(entries: list[Entry], store: str) -> list[Entry]:
    """Return the entries that have a store, with only the points and facts of this store."""
    known = sorted({s for e in entries for s in e.side.stores})
    if store not in known:
        raise UserError("--store", f"{store!r} has no run in any entry", f"use one of: {', '.join(known)}")
    out = []
    for e in entries:
        if store in e.side.stores:
            own = replace(e.side, points=e.side.points[e.side.points["store"] == store])
            out.append(replace(e, side=own, facts=facts_of_store(e.facts, store)))
    return out

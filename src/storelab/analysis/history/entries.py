"""The entries of a history on disk: `results/<campaign>@<date>`, each a whole sealed campaign like any other.

The campaign is measured in `results/<campaign>`. `add` seals it there and gives its folder the date on which it was
measured, so that the next measuring finds the place free. Nothing is copied, and nothing removed: an entry never takes
the place of another.
"""

import glob
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from storelab.analysis.compare import sides
from storelab.analysis.history import environment
from storelab.analysis.parts import speed
from storelab.analysis.records.campaign import read_plan
from storelab.analysis.records.campaign import seal as seal_campaign
from storelab.analysis.tables.points import axis_columns
from storelab.core import evidence, records
from storelab.core.errors import UserError

SIGN = "@"  # no name of a campaign has it
MOST = 1000  # entries of one day
KEPT = ("store", "workload", "rep", "state", "started")  # columns of points.csv, beside axes and what is compared


@dataclass(frozen=True)
class Entry:
    """`name`: what stands behind the sign. side: its plan and points. measured, sealed: UTC. facts: as `environment`
    has them."""

    name: str
    side: sides.Side
    measured: str
    sealed: str
    facts: Mapping[environment.Fact, frozenset[str]]

    @property
    def folder(self) -> Path:
        return self.side.folder


def measured(raw: Path) -> str:
    """When the first run of a campaign began, like 2026-11-23T16:40:00Z. Raises UserError: it has none."""
    starts = [evidence.read(raw, key)["start_ns"] for key in evidence.heads(raw)]
    if not starts:
        raise UserError(str(raw), "has no measured point", "measure the campaign first")
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(min(starts) // 10**9))


def add(folder: Path, with_failures: bool = False) -> Path:
    """Seal the campaign in `folder`, and make it the entry of its day: `site` becomes `site@2026-11-23`, a second one
    of that day `site@2026-11-23.2`. Returns the new folder. Raises UserError: as `seal`; or it is an entry already."""
    folder = folder.absolute() if folder.name in ("", "..") else folder
    if SIGN in folder.name:
        raise UserError(
            str(folder), "is an entry of a history already", f"name the campaign's folder: {_without_sign(folder)}"
        )
    read_plan(folder)
    day = measured(folder / "raw")[:10]
    seal_campaign(folder, with_failures)
    for number in range(1, MOST):
        target = folder.with_name(f"{folder.name}{SIGN}{day}{f'.{number}' if number > 1 else ''}")
        if not os.path.lexists(target):
            folder.rename(target)
            return target
    raise UserError(str(folder), f"has {MOST - 1} entries of {day} already", "measure it less often")


def _without_sign(folder: Path) -> Path:
    return folder.with_name(folder.name.partition(SIGN)[0])


def folders(campaign: Path) -> list[Path]:
    """The folders of a campaign's entries, by name; the campaign's own, and files such as archives, are none."""
    found = campaign.parent.glob(f"{glob.escape(campaign.name)}{SIGN}*")
    return sorted(p for p in found if p.is_dir())


def read(campaign: Path, store: str | None = None, since: str | None = None) -> list[Entry]:
    """The entries of a campaign, oldest first. campaign: its folder without a date. store: only the points of this one.
    since: only those measured on this day or later.

    Raises UserError: no entry, one that is not sealed or whose records were altered, an unknown store, no date.
    """
    if SIGN in campaign.name:
        raise UserError(str(campaign), "is one entry of a history", f"name them all: {_without_sign(campaign)}")
    found = folders(campaign)
    if not found:
        raise UserError(
            str(campaign),
            f"has no history: there is no folder {campaign.name}{SIGN}… beside it",
            "`storelab history add` makes an entry of a measured campaign",
        )
    begun = [(measured(folder / "raw"), folder) for folder in found if _is_sealed(folder)]
    if since is not None:
        begun = [(at, folder) for at, folder in begun if at[:10] >= _day(since)]
        if not begun:
            raise UserError(
                "--since", f"no entry of {campaign} was measured on {since} or later", "give an earlier day"
            )
    entries = [_entry(folder, at) for at, folder in sorted(begun)]
    return entries if store is None else _of_store(entries, store)


def _is_sealed(folder: Path) -> bool:
    """True. Raises UserError where it is not: a history rests on what cannot change any more."""
    read_plan(folder)
    if not records.sealed(folder / "raw"):
        raise UserError(str(folder), "is not sealed", f"`storelab seal --campaign-dir {folder}`")
    return True


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise UserError("--since", f"{text!r} is no day", "write it like 2026-11-23") from None


def _entry(folder: Path, at: str) -> Entry:
    seal = evidence.seal_of(folder / "raw")
    assert seal is not None
    table, source = sides.newest_tables(folder)
    side = sides.of_tables(folder.name, folder, table, source)
    facts = environment.facts(table("environment"), side.points)
    needed = {*KEPT, *axis_columns(side.plan), *speed.COLUMNS.values()}  # of many entries, the rest takes its time
    side = replace(side, points=side.points[[c for c in side.points if c in needed]])
    return Entry(folder.name.partition(SIGN)[2], side, at, seal["time"], facts)


def _of_store(entries: list[Entry], store: str) -> list[Entry]:
    """The entries that have this store, with its points alone."""
    known = sorted({s for e in entries for s in e.side.stores})
    if store not in known:
        raise UserError("--store", f"{store!r} has no run in any entry", f"one of: {', '.join(known)}")
    out = []
    for e in entries:
        if store in e.side.stores:
            own = replace(e.side, points=e.side.points[e.side.points["store"] == store])
            out.append(replace(e, side=own, facts=environment.of_store(e.facts, store)))
    return out

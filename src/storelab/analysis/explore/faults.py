"""What was done to a store while it worked, and how work went on: figures over time, each event, the recovery."""

from collections.abc import Iterator, Mapping
from typing import Any

from storelab.analysis.explore.opened import Displayable, Menu, Opened, charted, escaped, named
from storelab.analysis.figures import timeline as over_time
from storelab.analysis.records import roles
from storelab.analysis.records.campaign import read_plan

NONE = "No faults in this campaign: nothing was done to a store while it worked."
ROLES = "Points with roles are here, but no fault was planned for them: their work over time is shown."


def names(o: Opened) -> Menu:
    """The figures over time of this campaign, one for each sweep with roles."""
    return [(name, name) for name in over_time.figures_of_plan(o.plan)]


def _planned(plan: Mapping[str, Any]) -> bool:
    """Whether a point has a fault."""
    return any(p["axes"].get("fault", "none") != "none" for p in plan["points"])


def show_fault(o: Opened, figure: str | None = None) -> Iterator[Displayable]:
    """The figure over time, then what happened when, then the recovery. Without faults one line, with the campaigns
    below `results/` that have some."""
    if figure is None:
        others = [folder.name for folder in named() if _planned(read_plan(folder))]
        yield NONE + (f" These have some: {escaped(', '.join(others))}." if others else "")
        return
    yield from timeline(o, figure)
    yield from show_events(o)
    yield from recovery(o)


def timeline(o: Opened, figure: str) -> Iterator[Displayable]:
    """Rate, latency and failed operations of each role over time, with acts, phases and states of the store."""
    if not _planned(o.plan):
        yield ROLES
    declared = over_time.figures_of_plan(o.plan)[figure]
    tables = [o.table(name) for name in (declared.table, *declared.further_tables)]
    yield charted({figure: (declared, tables)}) or "No run of this sweep counts."


def show_events(o: Opened) -> Iterator[Displayable]:
    """Each act, what was undone, and the states that the store reported, in order of time; without the phases."""
    rows = o.table("disturbances")
    rows = rows[rows["kind"].isin([roles.ACT, roles.UNDONE, roles.STATE])]
    if len(rows):
        columns = [c for c in rows if c not in ("key", "state") and rows[c].notna().any()]
        yield "#### What happened when, in seconds after the agreed start"
        yield rows[[*columns, "key"]]


def recovery(o: Opened) -> Iterator[Displayable]:
    """What each fault did to each role, and how long the store took; published rows with it."""
    rows = o.table("recovery")
    if len(rows):
        columns = [c for c in rows.columns[rows.columns.get_loc("source") :] if rows[c].notna().any()]
        yield "#### Recovery: medians over the runs, by role"
        yield rows[[*(c for c in ("store", "workload", "fault") if c in rows), *columns]]

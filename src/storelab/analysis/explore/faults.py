"""Views of faults that were injected while clients used a store: figures over time, all events, and the recovery."""

from collections.abc import Iterator, Mapping
from typing import Any

from storelab.analysis.explore.opened import Displayable, Menu, Opened, charted, escaped, named
from storelab.analysis.figures import timeline as over_time
from storelab.analysis.records import roles
from storelab.analysis.records.campaign import read_plan

NONE = "This campaign has no faults."
ROLES = "This campaign has points with roles, but no faults; their rates over time are shown."


def names(o: Opened) -> Menu:
    """Return the menu of figures over time. There is at least one for each sweep with roles."""
    return [(name, name) for name in over_time.figures_of_plan(o.plan)]


def _planned(plan: Mapping[str, Any]) -> bool:
    """Return True if a planned point has a fault."""
    return any(p["axes"].get("fault", "none") != "none" for p in plan["points"])


def show_fault(o: Opened, figure: str | None = None) -> Iterator[Displayable]:
    """Show a figure over time, followed by the events in order and the recovery.

    Without such a figure, show one line that lists the campaigns below `results/` that have faults.
    """
    if figure is None:
        others = [folder.name for folder in named() if _planned(read_plan(folder))]
        yield NONE + (f" Campaigns with faults: {escaped(', '.join(others))}." if others else "")
        return
    yield from timeline(o, figure)
    yield from show_events(o)
    yield from recovery(o)


def timeline(o: Opened, figure: str) -> Iterator[Displayable]:
    """Show rate, latency and failed operations of each role over time, with faults, phases and states of the store."""
    if not _planned(o.plan):
        yield ROLES
    declared = over_time.figures_of_plan(o.plan)[figure]
    tables = [o.table(name) for name in (declared.table, *declared.further_tables)]
    yield charted({figure: (declared, tables)}) or "This sweep has no valid run."


def show_events(o: Opened) -> Iterator[Displayable]:
    """Show all faults, repairs, and states that the store reported, in order of time."""
    rows = o.table("disturbances")
    rows = rows[rows["kind"].isin([roles.ACT, roles.UNDONE, roles.STATE])]
    if len(rows):
        columns = [c for c in rows if c not in ("key", "state") and rows[c].notna().any()]
        yield "#### Events, in seconds after the agreed start"
        yield rows[[*columns, "key"]]


def recovery(o: Opened) -> Iterator[Displayable]:
    """Show the effect of each fault on each role, and the recovery times of the store, with published values."""
    rows = o.table("recovery")
    if len(rows):
        columns = [c for c in rows.columns[rows.columns.get_loc("source") :] if rows[c].notna().any()]
        yield "#### Recovery: medians over the runs, by role"
        yield rows[[*(c for c in ("store", "workload", "fault") if c in rows), *columns]]

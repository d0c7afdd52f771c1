"""What was done to a store while it worked, and how work went on: figures over time, each event, the recovery."""

from collections.abc import Iterator

from storelab.analysis.explore.opened import Menu, Opened
from storelab.analysis.explore.things import Thing
from storelab.analysis.figures import catalogue
from storelab.analysis.figures.draw import draw
from storelab.analysis.figures.roles import timeline as over_time
from storelab.analysis.records import roles

NONE = "No faults in this campaign: nothing was done to a store while it worked."
ROLES = "Points with roles are here, but no fault was planned for them: their work over time is shown."


def names(o: Opened) -> Menu:
    """The figures over time of this campaign, one for each sweep with roles."""
    return [(name, name) for name in over_time.of_plan(o.plan)]


def _planned(o: Opened) -> bool:
    """Whether a point has a fault."""
    return any(p["axes"].get("fault", "none") != "none" for p in o.plan["points"])


def timeline(o: Opened, figure: str | None = None) -> Iterator[Thing]:
    """Rate, latency and failed operations of each role over time, with acts, phases and states of the store."""
    if figure is None:
        yield NONE
        return
    if not _planned(o):
        yield ROLES
    declared = over_time.of_plan(o.plan)[figure]
    table, *beside = (o.table(name) for name in (declared.table, *declared.beside))
    drawn = draw(declared, table, *beside)
    if drawn is None:
        yield "No run of this sweep counts."
        return
    yield drawn
    yield catalogue.caption(declared, table)


def happened(o: Opened) -> Iterator[Thing]:
    """Each act, what was undone, and what the store said of itself, in order of time; without the phases."""
    rows = o.table("disturbances")
    rows = rows[rows["kind"].isin([roles.ACT, roles.UNDONE, roles.STATE])]
    told = [c for c in rows if c not in ("key", "state") and rows[c].notna().any()]
    yield rows[[*told, "key"]] if len(rows) else NONE


def recovery(o: Opened) -> Iterator[Thing]:
    """What each fault did to each role, and how long the store took; published rows beside it."""
    rows = o.table("recovery")
    if rows.empty:
        yield NONE
        return
    told = [c for c in rows.columns[rows.columns.get_loc("source") :] if rows[c].notna().any()]
    yield rows[[*(c for c in ("store", "workload", "fault") if c in rows), *told]]

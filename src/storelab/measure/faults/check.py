"""Whether the acts of a point can be done to its store: asked before anything is touched, one line each.

May import: `stores`, `core`.
"""

from collections.abc import Callable
from typing import Any

from storelab.core.axes.faults import HARMS, NONE, OF_A_USER, UNDOES
from storelab.core.campaign.faults import most_lost, resolved
from storelab.core.config import Config
from storelab.core.errors import UserError, require_known
from storelab.core.model import Point
from storelab.measure.faults.runner import with_names
from storelab.stores.base import Store
from storelab.stores.faults import Acts


def name_of(point: Point) -> str:
    """The fault of a point; `none` where nothing is done to its store."""
    return point.axes.get("fault", NONE)


def acts_of(config: Config, point: Point) -> list[dict[str, Any]]:
    """The acts of a point in order of time, as the plan holds them (`fixed`), else as they are configured.

    Raises UserError.
    """
    if (name := name_of(point)) == NONE:
        return []
    if "acts" in point.fixed:
        return point.fixed["acts"]
    require_known(
        f"sweeps.{point.sweep}.axes.fault", name, [*config.faults, NONE], f"no fault {name!r} in `faults`", "one of:"
    )
    return resolved(config.faults[name], point.fixed["duration_ns"], config.scale, f"faults.{name}")


def possible(config: Config, point: Point, store: Store) -> str:
    """Whether each act can be done. store: as the point deploys it.

    Returns a line where more is lost at once than the redundancy bears, which is allowed; else ''. Raises UserError.
    """
    acts = acts_of(config, point)
    if not acts:
        return ""
    name = name_of(point)
    place, front_ends = f"faults.{name}", point.axes.get("front_ends", 1)
    named = with_names(store, acts, front_ends, place)
    _in_order(named, place)
    for act in named:
        for actor in act["actors"]:
            Acts(store).require(act, actor, place)
    return beyond(named, store, name)


def beyond(named: list[dict[str, Any]], store: Store, name: str) -> str:
    """A line where a fault takes more data servers at once than the redundancy bears."""
    lost, bears = most_lost(named) & set(store.data_actors()), store.bears()
    if len(lost) <= bears:
        return ""
    which = ", ".join(sorted(lost))
    return f"fault {name} takes {which} of {store.name} at once, and its redundancy bears {bears}: data may be lost"


def _in_order(named: list[dict[str, Any]], place: str) -> None:
    """Raises UserError where an act takes back what nobody did, or does again what is done already."""
    done: set[tuple[str, str]] = set()
    for act in named:
        for actor in act["actors"] if act["act"] not in OF_A_USER else ():
            kind = act["act"]
            if kind in HARMS and (actor, kind) in done:
                raise UserError(place, f"{kind} is done twice to {actor}", "leave one out, or undo it in between")
            if kind in HARMS:
                done.add((actor, kind))
            mine = {(actor, harm) for harm in UNDOES.get(kind, ())} & done
            if kind in UNDOES and kind != "restart" and not mine:
                before = " or ".join(UNDOES[kind])
                raise UserError(place, f"{kind} of {actor} comes without a {before} before it", f"add the {before}")
            done -= mine
            if kind == "resume" and (actor, "kill") in done:
                raise UserError(place, f"resume of {actor}, which was killed", "write `restart`")


def everything(
    config: Config,
    points: list[Point],
    deployment: Callable[[Point], Store],
    report: Callable[[str], None],
) -> None:
    """All faults of a plan, each once for each deployment; losses beyond the redundancy are told. Raises UserError."""
    told: set[str] = set()
    seen: set[tuple[str, str, int, int]] = set()
    for point in points:
        if name_of(point) == NONE:
            continue
        store = deployment(point)
        key = (store.name, name_of(point), point.axes.get("front_ends", 1), point.fixed["duration_ns"])
        if key in seen:
            continue
        seen.add(key)
        if (line := possible(config, point, store)) and line not in told:
            told.add(line)
            report(line)

"""The stores of a campaign: brought up for a point, a second one where its workload asks two, and cleaned.

May import: `gang`, `workloads`, `stores`, `core`.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from storelab import workloads
from storelab.core import folders
from storelab.core.config import Config
from storelab.core.errors import UserError, require_known
from storelab.core.model import Point
from storelab.gang.launchers import choose
from storelab.host.console import report
from storelab.stores import all_stores, everywhere
from storelab.stores.base import Store
from storelab.stores.managed import users
from storelab.stores.protocols import tokens
from storelab.workloads.distribution.client import BESIDE
from storelab.workloads.staging import buckets, written


def second_name(point: Point) -> str:
    """The name of the second store; '' for none. No role has one."""
    return "" if "roles" in point.fixed else workloads.of(point).beside(point)


def second(config: Config, point: Point) -> Store | None:
    """The second store, as it is configured."""
    name = second_name(point)
    return all_stores(config)[name] if name else None


def refuse_second(config: Config, point: Point, stores: Mapping[str, Store]) -> None:
    """Raise UserError where the second store is not configured, cannot be written, or has another protocol."""
    if not (name := second_name(point)):
        return
    place = f"sweeps.{point.sweep}.axes.stratum0"
    require_known(place, name, config.stores, f"no one defined the store {name!r}", "defined:")
    store = stores[name]
    if not store.keeps or store.protocol != stores[point.store].protocol:
        problem = f"store {name} (kind {store.settings.kind}) cannot stand beside {point.store}"
        raise UserError(place, problem, "name one that keeps objects, and speaks the same protocol")
    if store.settings.read_only:
        raise UserError(place, f"store {name} is read-only, and a release is published to it", "name another store")


def second_environ(config: Config, point: Point) -> dict[str, str]:
    """The keys of the second store, as environment variables of their own."""
    store = second(config, point)
    keys = store.credentials() if store else None
    return {name.replace("AWS_", BESIDE): value for name, value in keys.environ().items()} if keys else {}


def use(config: Config, point: Point) -> None:
    """Note that this process uses the stores of the point, until it ends."""
    users.use(Path(config.state), [point.store, *filter(None, [second_name(point)])])


def bring_up(config: Config, point: Point, store: Store) -> None:
    """Start the stores of the point, and suspend every other managed one. store: as the point deploys it.

    Raises UserError where credentials end before the point would.
    """
    other = second(config, point)
    ends = [end for used in filter(None, (store, other)) for end in used.credentials_end()]
    if ended := tokens.too_short(ends, point.fixed["duration_ns"] / 1e9):
        raise ended
    wanted = {store.name, other.name} if other else {store.name}
    for name, one in everywhere(config).items():
        _repair(one)
        if one.managed and name not in wanted:
            one.suspend()  # takes no CPU while another system is measured
    front_ends = point.axes.get("front_ends", 1)
    store.resume()
    choose.lives_outside(config, store, front_ends)
    store.up(front_ends, point.axes.get("accounts", 1))
    if other:
        other.resume()
        other.up()


def _repair(store: Store) -> None:
    """Take back what a storelab that was killed in the middle of a fault left behind.

    An unrepairable fault is reported; only runs that need this store fail (`up`).
    """
    try:
        lines = store.mend()
    except UserError as error:
        lines = [str(error)]
    for line in lines:
        report(f"    {line}")


def clean(config: Config, store: Store) -> buckets.Removed:
    """Delete what the campaign made in a store; what others put there stays. Raises as `buckets.remove`."""
    folders.own(config)
    ours, foreign = written.noted(config, store), partial(written.foreign, config, store)
    return buckets.remove(store, config.name, ours, foreign)

"""The second store that a point asks, where its workload has one (room `measure`): up beside the first, with its keys.

May import: `workloads`, `stores`, `core`.
"""

from collections.abc import Mapping

from storelab import workloads
from storelab.core.config import Config
from storelab.core.errors import UserError, require_known
from storelab.core.model import Point
from storelab.stores import all_stores
from storelab.stores.base import Store
from storelab.workloads.distribution.publish import BESIDE


def named(point: Point) -> str:
    """Its name; '' for none. No role has one."""
    return "" if "roles" in point.fixed else workloads.of(point).beside(point)


def possible(config: Config, point: Point, stores: Mapping[str, Store]) -> None:
    """Raises UserError: nobody configured it, it cannot be written, or its protocol is another."""
    if not (name := named(point)):
        return
    place = f"sweeps.{point.sweep}.axes.stratum0"
    require_known(place, name, config.stores, f"no one defined the store {name!r}", "defined:")
    store = stores[name]
    if not store.keeps or store.protocol != stores[point.store].protocol:
        problem = f"store {name} (kind {store.settings.kind}) cannot stand beside {point.store}"
        raise UserError(place, problem, "name one that keeps objects, and speaks the same protocol")
    if store.settings.read_only:
        raise UserError(place, f"store {name} is read-only, and a release is published to it", "name another store")


def store_of(config: Config, point: Point) -> Store | None:
    """The second store, as it is configured."""
    name = named(point)
    return all_stores(config)[name] if name else None


def environ(config: Config, point: Point) -> dict[str, str]:
    """Its keys, as environment variables of their own."""
    store = store_of(config, point)
    keys = store.credentials() if store else None
    return {name.replace("AWS_", BESIDE): value for name, value in keys.environ().items()} if keys else {}

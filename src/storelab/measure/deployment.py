"""Preparation of stores for a point, and removal of the data that the point wrote.

The stores are started, data are staged, and the clients' uploads are noted, counted and removed. A point has a second
store if its workload needs one.

This module may import `gang`, `engines`, `workloads`, `stores` and `core`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from storelab import workloads
from storelab.core import folders
from storelab.core.config import Config
from storelab.core.errors import UserError, require_known
from storelab.core.model import Part, Point
from storelab.core.plan import sweeps
from storelab.engines.contract import ClientResult, GangJob
from storelab.gang.launchers import choose
from storelab.host.console import report
from storelab.stores import all_stores, everywhere
from storelab.stores.base import Store
from storelab.stores.managed import users
from storelab.stores.managed.base import Managed
from storelab.stores.protocols import tokens
from storelab.workloads.distribution.publish import SECOND_STORE
from storelab.workloads.staging import buckets, filling, left_over, stage, written


def second_name(point: Point) -> str:
    """Return the name of the second store; '' if there is none. Points with roles never have one."""
    return "" if "roles" in point.fixed else workloads.workload_of(point).second_store(point)


def second(config: Config, point: Point) -> Store | None:
    """Return the configured second store of the point; None if there is none."""
    name = second_name(point)
    return all_stores(config)[name] if name else None


def refuse_second(config: Config, point: Point, stores: Mapping[str, Store]) -> None:
    """Raise UserError if the second store is not configured, is read-only, or has another protocol."""
    if not (name := second_name(point)):
        return
    place = f"sweeps.{point.sweep}.axes.stratum0"
    require_known(place, name, config.stores, f"the store {name!r} is not defined", "defined:")
    store = stores[name]
    if not store.retains_data or store.protocol != stores[point.store].protocol:
        problem = f"store {name} (kind {store.settings.kind}) cannot be the second store of {point.store}"
        raise UserError(place, problem, "name one that keeps objects and has the same protocol")
    if store.settings.read_only:
        raise UserError(place, f"store {name} is read-only, and a release is published to it", "name another store")


def second_environ(config: Config, point: Point) -> dict[str, str]:
    """Return the environment variables with the keys of the second store."""
    store = second(config, point)
    keys = store.credentials() if store else None
    return {name.replace("AWS_", SECOND_STORE): value for name, value in keys.environ().items()} if keys else {}


def use(config: Config, points: Iterable[Point]) -> None:
    """Record that this process uses the campaign and the stores of the points until it ends."""
    used = names(points)
    behind = [one.name for name in used for one in servers(config, all_stores(config)[name])]
    users.use(Path(config.state), [users.of_campaign(config.name), *used, *behind])


def names(points: Iterable[Point]) -> set[str]:
    """Return the names of the stores of these points, second stores included."""
    return {name for point in points for name in (point.store, second_name(point)) if name}


def servers(config: Config, store: Store) -> list[Managed]:
    """Return the managed stores of this checkout that answer at the endpoints of a store that is not managed."""
    if store.managed:
        return []
    urls = [endpoint.url for endpoint in store.endpoints(store.most("front_ends"))]
    managed = [one for one in everywhere(config).values() if isinstance(one, Managed) and one.folder.exists()]
    return [one for one in managed if any(map(one.serves, urls))]


def connect(config: Config, store: Store, front_ends: int = 1, accounts: int = 1) -> None:
    """Start a store, or check that it answers, after its server was resumed if that is a managed store."""
    for one in servers(config, store):
        one.resume()
    store.up(front_ends, accounts)


def release(store: Store) -> list[int] | None:
    """Stop a managed store and return the stopped pids. If the user started it, resume it and return None."""
    if isinstance(store, Managed) and store.kept() and store.daemons.running():
        store.resume()
        return None
    return store.down()


def bring_up(config: Config, point: Point, store: Store) -> None:
    """Start the stores of the point, and pause all other managed stores.

    `store` is the deployment that the point uses. Raises UserError if credentials expire before the end of the point.
    """
    other = second(config, point)
    ends = [end for one in filter(None, (store, other)) for end in one.credentials_end()]
    if ended := tokens.too_short(ends, point.fixed["duration_ns"] / 1e9):
        raise ended
    used = [store, other] if other else [store]
    wanted = {name for one in used for name in (one.name, *(server.name for server in servers(config, one)))}
    for name, one in everywhere(config).items():
        _repair(one)
        if one.managed and name not in wanted:
            one.suspend()  # so that it uses no CPU while another system is measured
    front_ends = point.axes.get("front_ends", 1)
    store.resume()
    choose.require_running(config, store, front_ends)
    connect(config, store, front_ends, point.axes.get("accounts", 1))
    if other:
        other.resume()
        connect(config, other)


def _repair(store: Store) -> None:
    """Undo a fault that a killed storelab process left behind.

    If this is not possible, print the problem. Only points that need this store fail, in `up`.
    """
    try:
        lines = store.repair()
    except UserError as error:
        lines = [str(error)]
    for line in lines:
        report(f"    {line}")


def stage_data(config: Config, point: Point, store: Store) -> tuple[dict[str, Path], dict[str, Any] | None]:
    """Stage the data sets that the point reads, and fill the running store to the point's fill level.

    Return the manifests by the name of the data set, and the fill level for the record.
    """
    datasets = {part.point.dataset["name"]: part.point.dataset for part in point.parts() if part.point.dataset}
    wanted = filling.level(point)
    if not wanted:
        filling.ensure(config, store, 0)
    manifests = {name: stage.ensure(config, store, dataset) for name, dataset in datasets.items()}
    return manifests, filling.ensure(config, store, wanted, retains_data(point)) if wanted else None


def retains_data(point: Point) -> bool:
    """Return whether the point, or one of its roles, uses objects of earlier parts of its series."""
    return sweeps.part(point) > 0 and any(sweeps.has_parts(workloads.workload_of(part.point)) for part in point.parts())


def is_last(points: list[Point], point: Point) -> bool:
    """Return whether the point is the last part of its series."""
    return sweeps.series_of(points, point)[-1] == point


def _writing(point: Point, job: GangJob) -> list[tuple[Part, GangJob]]:
    """Return the roles that write, with their jobs. A point without roles is its only role."""
    parts = zip(point.parts(), job.parts, strict=True)
    return [(part, role_job) for part, role_job in parts if workloads.workload_of(part.point).direction == "write"]


def note_uploads(config: Config, points: list[Point], point: Point, store: Store, job: GangJob) -> None:
    """Record what the clients can upload, so that it can be removed after a crash. Limit it by the free space."""
    writing = _writing(point, job)
    writers = sum(len(part.ranks) for part, _ in writing)
    for part, role_job in writing:
        left_over.add(config, store.name, part.point, 0, 0)
        made = workloads.workload_of(part.point).expected_objects(part.point, role_job.attempt)
        written.note_attempt(config, store, role_job.attempt, part.point, made)
        room = left_over.free_space(config, store, stage.summarise(points, point.store).staged_bytes)
        disk = left_over.disk(store, part.point.axes.get("object_size", 0))
        bounds = {"room_bytes": room, "disk_bytes": disk}
        role_job.limits |= {k: v * len(part.ranks) // writers for k, v in bounds.items() if v is not None}


def clear_uploads(
    config: Config, points: list[Point], point: Point, store: Store, job: GangJob, results: Sequence[ClientResult]
) -> None:
    """Count what the clients left in the store. Remove it when it is much, unless later parts need it."""
    writing = _writing(point, job)
    for part, _ in writing:
        if "objects" not in workloads.workload_of(part.point).needs:  # if needed, they were noted before
            role_results = [results[rank] for rank in part.ranks]
            left_over.add(
                config,
                store.name,
                part.point,
                sum(r.bytes for r in role_results),
                sum(r.operations for r in role_results),
            )
    if writing and (not retains_data(point) or is_last(points, point)):
        left_over.remove(config, store)


def clean(config: Config, store: Store) -> buckets.Removed:
    """Delete the campaign's buckets and objects in a store, but no other objects.

    Raises the errors of `buckets.remove`.
    """
    folders.require_trusted(config)
    ours, foreign = written.noted(config, store), partial(written.foreign, config, store)
    return buckets.remove(store, config.name, ours, foreign)

"""Fill a store to a level before a point begins (axis `fill`), by adding or deleting filler objects.

The level includes everything in the store: staged data count too, and remains of earlier points are removed first. The
free space is the value that the store reports (`free_bytes`), so it includes copies, parity and reserved space. The
filler is in the campaign's first bucket, below `fill/`. It is deleted by the first point that needs an emptier store,
and at the end of the campaign.
"""

import time
from typing import TYPE_CHECKING, Any

from storelab.core import records, units
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.datasets import payload
from storelab.host import scratch
from storelab.stores import changed, make
from storelab.stores.base import Store
from storelab.workloads.base import Made
from storelab.workloads.staging import buckets, left_over, stage, upload, written

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config

PREFIX = "fill/"
ATTEMPT = "fill"  # name under which the objects are recorded as objects of storelab
MAX_PERCENT = 95  # above this percentage, stores reject writes, or wait endlessly for space
OBJECT = 4_000_000  # maximum bytes of an object, which Ceph stores in one piece
FINEST = 400  # minimum number of objects into which the capacity is divided
NEAR = 0.01  # tolerance of the level, as a fraction of the capacity
COARSE = 0.05  # fraction of the capacity; for smaller amounts, the cost of an object is not important
ROUNDS, SETTLE_S = 8, 15.0  # maximum number of rounds, and maximum wait for a constant value of the free space


def level(point: Point) -> int:
    """Return the percentage of its capacity that the store uses when the point begins; 0 means unchanged."""
    return int(point.axes.get("fill", 0))


def check(config: "Config", points: list[Point], stores: dict[str, Store]) -> None:
    """Raise UserError if a store does not report its fill level, or may not be filled to the level."""
    for p in points:
        if not (wanted := level(p)):
            continue
        place = f"sweeps.{p.sweep}.axes.fill"
        if wanted > MAX_PERCENT:
            raise UserError(place, f"{wanted} % leaves no space for writing", f"set at most {MAX_PERCENT}")
        name, settings = changed(stores[p.store], p.axes)
        store = make(name, settings, stores[p.store].state)
        capacity = store.capacity_bytes()
        if settings.read_only:
            raise UserError(
                place, f"the store {p.store} is read-only, and cannot be filled", "remove the store from the sweep"
            )
        if capacity is None:
            raise UserError(
                place,
                f"store {p.store} (kind {settings.kind}) does not report its capacity, or shares its disk with others",
                "give it separate drives (`drive_size`) or a folder that is a separate file system, or leave it out",
            )
        if (needed := capacity * wanted // 100) > config.limits.stored_bytes:
            need = f"{wanted} % of store {p.store} are {units.human_size(needed)}"
            limit = f"the limit is {units.human_size(config.limits.stored_bytes)}"
            raise UserError("limits.stored_bytes", f"{need}, {limit}", "raise the limit, or make the store smaller")


def may_have_filler(config: "Config", store: Store) -> bool:
    """Return True if filler is possibly in the store."""
    return left_over.filler_note(config, store.name).exists()


def used_percent(store: Store) -> float | None:
    """Return how full the store is, in percent, or None if the store does not report it."""
    capacity, free = store.capacity_bytes(), store.free_bytes()
    return None if not capacity or free is None else 100 * (1 - min(free, capacity) / capacity)


def ensure(config: "Config", store: Store, wanted: int, keep: bool = False) -> dict[str, Any] | None:
    """Fill the running store to `wanted` percent, or remove its filler. Return `fill` of the record.

    Returns None if there is nothing to do. keep: True to keep what earlier points left, because this point needs it.
    Raises UserError or MeasurementFailed.
    """
    if not wanted and not may_have_filler(config, store):
        return None
    if wanted and not keep:
        left_over.remove(config, store, always=True)
    place = stage.buckets_of(config, store, 1)[0]
    buckets.prepare(config, store, [place])
    way, capacity = store.access(place.account), store.capacity_bytes() or 0
    size = max(1, min(OBJECT, capacity // FINEST))
    _write_down(config, store, left_over.filler(config, store.name))
    files = payload.body_files(scratch.folder(config.scratch), config.seed, size)
    present = sorted(key for key, _ in buckets.list_keys(way, place, PREFIX)) if wanted else []
    if not wanted:
        _delete(store, way, place, [key for key, _ in buckets.list_keys(way, place, PREFIX)])
    added, was, cost = 0, 0, 1.0  # cost: bytes that the store uses for each uploaded byte
    for step in range(ROUNDS if wanted else 0):
        free = _settled(store)
        missing = free - capacity * (100 - wanted) // 100
        cost = max(1.0, (was - free) / added) if added else cost
        if abs(missing) <= max(size, NEAR * capacity) or (missing < 0 and step):
            break
        if missing < 0:
            present, rest = present[: missing // size], present[missing // size :]
            if not rest:
                break  # the store is too full even without filler
            _delete(store, way, place, rest)
        else:
            # Fill in steps from below, because some stores free space late. The first step is half of the rest, to
            # learn the cost.
            share = 1 / cost if added else 0.5 if missing > COARSE * capacity else 1.0
            count = max(1, int(missing * share) // size)
            added, was = count * size, free
            first = int(present[-1].rpartition("/")[2]) + 1 if present else 0
            keys = [f"{PREFIX}{n:08d}" for n in range(first, first + count)]
            _write_down(config, store, (len(present) + count) * size)
            items = [(place, key, files[i % payload.BODIES]) for i, key in enumerate(keys)]
            upload.put_items(store, f"filler up to {wanted} %", items)
            present += [place.prefix + key for key in keys]
    _write_down(config, store, len(present) * size)
    if not wanted:
        left_over.filler_note(config, store.name).unlink()
        return None
    return _reached(store, wanted, capacity, len(present) * size)


def _reached(store: Store, wanted: int, capacity: int, size_bytes: int) -> dict[str, Any]:
    now = used_percent(store)
    assert now is not None
    upload.report(f"    {store.name} is {now:.1f} % full, {units.human_size(size_bytes)} of it filler")
    if abs(now - wanted) > 2:
        reason = "its other data use more space" if now > wanted else "it was filled, but reports less"
        raise MeasurementFailed(f"{store.name} is {now:.1f} % full instead of the requested {wanted} %: {reason}")
    return {"asked_percent": wanted, "begin_percent": now, "capacity_bytes": capacity, "filler_bytes": size_bytes}


def _delete(store: Store, way: Any, place: Any, keys: list[str]) -> None:
    for i in range(0, len(keys), way.deletes_at_once):
        way.delete(place.name, keys[i : i + way.deletes_at_once])
    store.reclaim()


def _settled(store: Store) -> int:
    """Return the free bytes of the store when two readings agree."""
    last, end = -1, time.monotonic() + SETTLE_S
    while (now := store.free_bytes() or 0) != last and time.monotonic() < end:
        last = now
        time.sleep(1.2)  # Ceph updates its count once a second
    return now


def _write_down(config: "Config", store: Store, size_bytes: int) -> None:
    """Record the filler before anything is uploaded, so that a later run knows that it belongs to storelab."""
    records.write_json(left_over.filler_note(config, store.name), {"bytes": size_bytes})
    written.note_made(config, store, ATTEMPT, [Made(rf"{PREFIX}\d{{8}}", 1, OBJECT)])

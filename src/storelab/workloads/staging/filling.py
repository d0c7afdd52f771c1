"""How full a store is when a point begins (axis `fill`): objects of storelab's own fill it up to that level, or go.

The level is that of the store: staged data count as well; what earlier points left is removed first. What is left of
its room is what the store says (`free_bytes`), so copies, parity and what it reserves for itself are in it. The filler
lies in the campaign's first bucket, below `fill/`; it goes with the first point that asks for an emptier store, and at
the campaign's end. May import: what `workloads` may.
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
ATTEMPT = "fill"  # under which the objects are noted as storelab's
MOST = 95  # percent; behind that stores refuse writes, or wait for room for ever
OBJECT = 4_000_000  # bytes of an object, at most: what Ceph keeps in one piece
FINEST = 400  # the capacity in objects, at least
NEAR = 0.01  # of the capacity: how far from the level is good enough
COARSE = 0.05  # of the capacity: where less is missing, what it costs does not matter
ROUNDS, SETTLE_S = 8, 15.0  # of filling; until what a store says of its room stands still


def level(point: Point) -> int:
    """Percent of its capacity that the store has in use when the point begins; 0: as it is."""
    return int(point.axes.get("fill", 0))


def check(config: "Config", points: list[Point], stores: dict[str, Store]) -> None:
    """Raises UserError where a store does not know how full it is, or may not be filled so."""
    for p in points:
        if not (wanted := level(p)):
            continue
        place = f"sweeps.{p.sweep}.axes.fill"
        if wanted > MOST:
            raise UserError(place, f"{wanted} % leave no room to write", f"give {MOST} or less")
        name, settings = changed(stores[p.store], p.axes)
        store = make(name, settings, stores[p.store].state)
        capacity = store.capacity_bytes()
        if settings.read_only:
            raise UserError(place, f"store {p.store} is read-only, and cannot be filled", "leave the store out")
        if capacity is None:
            raise UserError(
                place,
                f"store {p.store} (kind {settings.kind}) does not tell its capacity, or shares its disk with others",
                "give it drives of its own (`drive_size`), a folder that is a file system of its own, or leave it out",
            )
        if (needed := capacity * wanted // 100) > config.limits.stored_bytes:
            told = f"{wanted} % of store {p.store} are {units.human_size(needed)}"
            limit = f"the limit is {units.human_size(config.limits.stored_bytes)}"
            raise UserError("limits.stored_bytes", f"{told}, {limit}", "raise the limit, or make the store smaller")


def there(config: "Config", store: Store) -> bool:
    """Whether filler may be in the store."""
    return left_over.filler_note(config, store.name).exists()


def used_percent(store: Store) -> float | None:
    """How full the store says it is; None where it does not tell."""
    capacity, free = store.capacity_bytes(), store.free_bytes()
    return None if not capacity or free is None else 100 * (1 - min(free, capacity) / capacity)


def ensure(config: "Config", store: Store, wanted: int, keep: bool = False) -> dict[str, Any] | None:
    """Fill the store, which is up, to `wanted` percent, or empty it of filler; what the record says of it (`fill`),
    None where there is nothing to do. keep: what earlier points left stays, for this one wants it.

    Raises UserError, MeasurementFailed.
    """
    if not wanted and not there(config, store):
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
    added, was, cost = 0, 0, 1.0  # cost: what the store takes for each byte that it was given
    for step in range(ROUNDS if wanted else 0):
        free = _settled(store)
        missing = free - capacity * (100 - wanted) // 100
        cost = max(1.0, (was - free) / added) if added else cost
        if abs(missing) <= max(size, NEAR * capacity) or (missing < 0 and step):
            break
        if missing < 0:
            present, rest = present[: missing // size], present[missing // size :]
            if not rest:
                break  # fuller without any filler
            _delete(store, way, place, rest)
        else:
            # From below, and half of it to learn the cost: some stores give space back late.
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
        mend = "its other data take more" if now > wanted else "it was filled, and tells of less"
        raise MeasurementFailed(f"{store.name} is {now:.1f} % full, and {wanted} % were asked: {mend}")
    return {"asked_percent": wanted, "begin_percent": now, "capacity_bytes": capacity, "filler_bytes": size_bytes}


def _delete(store: Store, way: Any, place: Any, keys: list[str]) -> None:
    for i in range(0, len(keys), way.deletes_at_once):
        way.delete(place.name, keys[i : i + way.deletes_at_once])
    store.reclaim()


def _settled(store: Store) -> int:
    """What the store says of its room, when it says the same twice."""
    last, end = -1, time.monotonic() + SETTLE_S
    while (now := store.free_bytes() or 0) != last and time.monotonic() < end:
        last = now
        time.sleep(1.2)  # Ceph counts once a second
    return now


def _write_down(config: "Config", store: Store, size_bytes: int) -> None:
    """Noted before anything is uploaded: whoever comes next knows that it is there, and whose it is."""
    records.write_json(left_over.filler_note(config, store.name), {"bytes": size_bytes})
    written.note_made(config, store, ATTEMPT, [Made(rf"{PREFIX}\d{{8}}", 1, OBJECT)])

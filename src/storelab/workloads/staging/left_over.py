"""Count the objects that `put` points left in a store, and remove them outside of every measurement.

They are not removed after each point. A store that deletes and compacts in the background would do this during the next
point, and waiting takes seconds. They are removed when they reach `most` bytes, and at the end of the campaign.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import records
from storelab.core.model import Point
from storelab.stores.base import Store

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config

FEW_BYTES, MAX_BYTES, MAX_OBJECTS = 10**9, 4 * 10**9, 20_000


@dataclass
class _Uploads:
    """The content of `uploads-<store>.json`; older files lack some fields."""

    bytes: int = 0
    objects: int = 0
    buckets: int = 0
    accounts: list[int] = field(default_factory=list)


@dataclass
class _Filled:
    """The content of `filled-<store>.json`."""

    bytes: int


def _note(config: "Config", store: str) -> Path:
    return config.campaign_dir / "work" / f"uploads-{store}.json"


def left(config: "Config", store: str) -> dict[str, Any]:
    """Return {bytes, objects, buckets, accounts} that points uploaded and that were not removed yet.

    `accounts` lists all numbers of accounts that points had.
    """
    path = _note(config, store)
    nothing = {"bytes": 0, "objects": 0, "buckets": 0, "accounts": [1]}
    if not path.exists():
        return nothing
    hint = "run `storelab clean`, which finds the uploaded objects, and remove it"
    return nothing | records.read_as(path, _Uploads, hint)


def filler_note(config: "Config", store: str) -> Path:
    """Return the path of the file in which `filling.py` records its objects in a store."""
    return config.campaign_dir / "work" / f"filled-{store}.json"


def filler(config: "Config", store: str) -> int:
    """Return the bytes of filler that are possibly in a store."""
    path = filler_note(config, store)
    if not path.exists():
        return 0
    hint = "run `storelab clean`, which removes the filler, and remove it"
    return int(records.read_as(path, _Filled, hint)["bytes"])


def add(config: "Config", store: str, point: Point, size_bytes: int, objects: int) -> None:
    """Record the objects that a point is about to leave, or has left."""
    was = left(config, store)
    records.write_json(
        _note(config, store),
        {
            "bytes": was["bytes"] + size_bytes,
            "objects": was["objects"] + objects,
            "buckets": max(was["buckets"], point.axes.get("buckets", 1)),
            "accounts": sorted({*was["accounts"], point.axes.get("accounts", 1)}),
        },
    )


def free_space(config: "Config", store: Store, staged_bytes: int) -> int:
    """Return the bytes that a point can still store.

    This is the smaller of two values: `limits.stored_bytes` minus staged and remaining bytes, and nine tenths of the
    free disk.
    """
    bound = config.limits.stored_bytes - staged_bytes - left(config, store.name)["bytes"] - filler(config, store.name)
    free = store.free_bytes()
    return max(0, bound if free is None else min(bound, free * 9 // 10))


def disk(store: Store, size_bytes: int) -> int | None:
    """Return the bytes that a point can upload in total as objects of this size, including overwritten objects.

    Return None if the store frees overwritten objects automatically, or if the disk is unknown.
    """
    free = store.free_bytes() if store.retains_overwritten(size_bytes) else None
    return None if free is None else free * 9 // 10


def most(config: "Config", store: Store) -> int:
    """Return the maximum bytes of remaining objects in the store.

    The limit is a twentieth of the bytes that the campaign can store, at most MAX_BYTES. It is at least FEW_BYTES, or a
    quarter of these bytes if that is less. It never exceeds a quarter of the free space, which is small in memory.
    """
    allowed, free = config.limits.stored_bytes, store.free_bytes()
    usual = max(min(FEW_BYTES, allowed // 4), min(MAX_BYTES, allowed // 20))
    return usual if free is None else min(usual, free // 4)


def remove(config: "Config", store: Store, always: bool = False) -> int:
    """Remove the objects if there are many (or `always`), free their space, and return the number of removed objects.

    Foreign objects are not removed, and are reported.
    """
    was = left(config, store.name)
    many = was["objects"] >= MAX_OBJECTS or (was["buckets"] and was["bytes"] >= most(config, store))
    if not was["buckets"] or not (always or many):
        return 0
    from storelab.engines.common.objects import PUT_PREFIX
    from storelab.workloads.staging import buckets, stage, written

    places = {b for accounts in was["accounts"] for b in stage.buckets_of(config, store, was["buckets"], accounts)}
    ways = buckets.accesses(store, list(places))
    gone, ours = buckets.Removed(0), written.noted(config, store)
    for place in places:
        if buckets.present(ways, place):
            gone = gone.and_(buckets.delete_prefix(ways[place.account], place, PUT_PREFIX, ours=ours))
    if rest := gone.remainder():
        stage.report(f"    {store.name}: {rest}")
    store.reclaim()
    if gone.complete:  # objects that cannot be deleted still count
        _note(config, store.name).unlink(missing_ok=True)
    return gone.objects

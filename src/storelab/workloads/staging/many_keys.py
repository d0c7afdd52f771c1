"""Staging of folders with many small keys: what is there stays, the rest is uploaded in blocks.

So a staging that was interrupted goes on where it was, and memory is bounded however many keys there are.
"""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from storelab.core import units
from storelab.core.errors import MeasurementFailed
from storelab.datasets import payload
from storelab.stores.base import Store
from storelab.stores.protocols.access import Access
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.staging import buckets, upload

BLOCK = 50_000  # keys that are handed to s5cmd at a time


def stage(
    store: Store, ways: Mapping[int, Access], places: list[Bucket], dataset: Mapping[str, Any], body: Path
) -> None:
    """Every folder holds its keys and nothing else. Raises MeasurementFailed."""
    there = [_there(ways[place.account], place, dataset) for place in places]
    missing = (
        (place, payload.keys_folder(dataset) + payload.key_name(dataset["keys"], dataset["depth"], n), body)
        for place, known in zip(places, there, strict=True)
        for n in range(dataset["keys"])
        if not known[n]
    )
    count = sum(known.count(0) for known in there)
    shown = upload.Shown(dataset["name"], count)
    while block := list(islice(missing, BLOCK)):
        upload.put_items(store, dataset["name"], block, shown)
    for place in places:
        if left := _there(ways[place.account], place, dataset).count(0):
            raise MeasurementFailed(f"staging: bucket {place.name} does not list {left} of {dataset['keys']} keys")
    size = units.human_size(dataset["objects"] * dataset["object_size"])
    upload.report(f"    staged {dataset['name']} in {store.name}: {dataset['objects']} objects, {size}")


def _there(access: Access, place: Bucket, dataset: Mapping[str, Any]) -> bytearray:
    """For each number, 1 where its object is listed with its size. Raises MeasurementFailed for any other key."""
    found, below = bytearray(dataset["keys"]), place.prefix + payload.keys_folder(dataset)
    for key, size in buckets.list_keys(access, place, payload.keys_folder(dataset)):
        n = payload.key_number(dataset["keys"], dataset["depth"], key.removeprefix(below))
        if n is None:
            raise MeasurementFailed(f"staging: {place.name}/{key} lies among the keys of {dataset['name']}")
        found[n] = size == dataset["object_size"]
    return found

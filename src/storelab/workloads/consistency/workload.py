"""`consistency`: check the answers of a store under load and through several front-ends.

Experiment 10 of the evaluations found a listed bucket that "does not exist", listings that failed repeatedly, and
deleted objects that came back.
"""

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import axes
from storelab.core.model import Point
from storelab.engines.common.objects import put_prefix
from storelab.stores.base import Store
from storelab.stores.protocols.access import NoSuchBucket
from storelab.workloads.base import Made, Workload
from storelab.workloads.consistency.rounds import MANY_BYTES, stem
from storelab.workloads.staging import buckets

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.engines.contract import GangJob


def drop_left(store: Store, account: int, stems: list[str]) -> None:
    """Delete the buckets whose names begin with one of `stems`.

    Their names contain the random id of an attempt, and they never contained an object. Raises MeasurementFailed if the
    store rejects the deletion, for example because a bucket is not empty.
    """
    if not stems:
        return
    access = store.access(account)
    for name in access.bucket_names():
        if name.startswith(tuple(stems)):
            with suppress(NoSuchBucket):  # listed but already deleted, which happens in some stores
                access.drop_bucket(name)


class Consistency(Workload):
    """The workload that checks the answers of a store under load and through several front-ends."""

    def expected_objects(self, point: Point, attempt: str) -> list[Made]:
        begin, size = re.escape(put_prefix(attempt)), point.axes["object_size"]
        return [
            Made(rf"{begin}(?P<client>0|[1-9]\d*)/\d+/(?:anchor|\d{{7,}})", size, size),
            Made(rf"{begin}many/\d{{5}}", MANY_BYTES, MANY_BYTES),
        ]

    def before(self, config: "Config", store: Store, point: Point, job: "GangJob") -> None:
        """Make the bucket. Record the names of the buckets of this attempt, and remove buckets that a crash left."""
        from storelab.core import records

        places = job.buckets
        buckets.prepare(config, store, places)
        note = config.campaign_dir / "work" / f"made-buckets-{store.name}.json"
        hint = "remove this file; the buckets that it lists stay in the store"
        old = records.read_as(note, list[str], hint) if note.exists() else []
        if not places[0].prefix:
            # The names are recorded first, so that a crash leaves no unknown buckets.
            records.write_json(note, [*old, stem(places[0], job.attempt)])
            drop_left(store, places[0].account, old)
            records.write_json(note, [stem(places[0], job.attempt)])

    def after(self, store: Store, point: Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        """Remove the remaining buckets of this attempt. The clients have already judged the answers."""
        place = job.buckets[0]
        if not place.prefix:
            drop_left(store, place.account, [stem(place, job.attempt)])
        return []


CONSISTENCY = Consistency(
    "consistency",
    (
        axes.engine("consistency", "wire", "Plain signed S3 requests, or fsspec for every other protocol."),
        replace(axes.OBJECT_SIZE, minimum=256),
        axes.CLIENTS,
        axes.WORKERS,
        replace(
            axes.FRONT_ENDS,
            help="Number of front-ends that are used; every client writes and reads through all of them.",
        ),
        *axes.DEPLOYMENT,
    ),
    "Consistency of reads after writes, listings, deletions and buckets: every answer is judged, and "
    "anomalies are counted.",
    direction="write",
)

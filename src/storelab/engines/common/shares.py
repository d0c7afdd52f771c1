"""Which objects one client reads or deletes, whatever the engine."""

import random
from typing import Any, NamedTuple

from storelab.core.model import derive_seed
from storelab.core.records import read_json
from storelab.datasets import keys
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket


class Staged(NamedTuple):
    """A staged object. number: its bucket's index in the job; place: that bucket; name: key below its prefix."""

    number: int
    place: Bucket
    name: str
    body: int

    @property
    def key(self) -> str:
        return self.place.prefix + self.name


def once(job: Job) -> bool:
    """Whether each object is read by one client, once."""
    return job.point.axes.get("access") in ("once", "cold")


def staged(job: Job) -> tuple[dict[str, Any], list[Staged]]:
    """(manifest, the objects that this client reads): those in buckets of its accounts; where each is read `once`, its
    share of them, drawn by the point's seed."""
    manifest = read_json(job.manifest)
    columns, places = manifest["objects"], job.buckets
    rows = zip(columns["bucket"], columns["key"], columns["body"], strict=True)
    own = [Staged(b, places[b], name, body) for b, name, body in rows if job.owns(places[b])]
    if not once(job):
        return manifest, own
    accounts = 1 + max(b.account for b in places)  # client i uses account i mod n
    sharers = len(range(job.account, job.point.axes["clients"], accounts))
    random.Random(derive_seed(job.point.seed, job.account, "once")).shuffle(own)
    return manifest, own[job.client // accounts :: sharers]


def folders(job: Job) -> list[tuple[int, str]]:
    """(bucket's index, whole name of its folder of staged keys) of the buckets of the client's accounts; clients
    begin with different ones."""
    dataset = read_json(job.manifest)["dataset"]
    own = [(i, b.prefix + keys.folder(dataset)) for i, b in enumerate(job.buckets) if job.owns(b)]
    first = job.client % len(own)
    return own[first:] + own[:first]


def columns(own: list[Staged]) -> dict[str, list[Any]]:
    """The objects as columns of loadgen's job."""
    return {"key": [o.key for o in own], "bucket": [o.number for o in own], "body": [o.body for o in own]}


def to_delete(job: Job, batch: int) -> list[tuple[int, tuple[str, ...]]]:
    """(bucket's index, keys with its prefix) per request, at most `batch` keys each, ordered by the point's seed."""
    own: dict[int, list[str]] = {}
    for bucket, name in job.extra["objects"][job.client]:
        own.setdefault(bucket, []).append(job.buckets[bucket].prefix + name)
    pieces = [(b, tuple(names[i : i + batch])) for b, names in own.items() for i in range(0, len(names), batch)]
    random.Random(derive_seed(job.point.seed, job.client)).shuffle(pieces)
    return pieces

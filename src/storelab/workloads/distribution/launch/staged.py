"""The repository that clients read, in the campaign's first bucket: published once for all points with these settings.

It lies below `launch/<name>/`, with a mark that is written last. May import: `distribution`, `staging`, `stores`,
`datasets`, `core`.
"""

import hashlib
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from storelab.core import units
from storelab.core.campaign.release import Release as Settings
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.datasets.release import names
from storelab.datasets.release.build import Day, Release
from storelab.host import scratch
from storelab.stores.base import Store
from storelab.stores.protocols.access import AccessRefused, NoSuchBucket
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.base import Made
from storelab.workloads.distribution import proof
from storelab.workloads.staging import buckets, stage, written

THREADS = 8
BLOCK = 500  # objects that are in memory at most, where there is no S3
MOST_BYTES = 10**9  # of an object: a catalog may be large
MARK = ".staged"


class Staged(NamedTuple):
    """Where a repository lies: below a prefix in a bucket, with the root catalog that its manifest names."""

    bucket: Bucket
    prefix: str
    repository: str
    root: str


def name_of(release: dict[str, Any], days: int) -> str:
    """By what is published."""
    return hashlib.sha256(json.dumps([release, days], sort_keys=True).encode()).hexdigest()[:16]


def made(name: str, repository: str) -> list[Made]:
    """What can lie there."""
    begin = f"launch/{name}/"
    return [
        Made(
            rf"{begin}{re.escape(repository)}/(?:data/[0-9a-f]{{2}}/[0-9a-f]{{38}}[A-Z]?|\.cvmfs[a-z]+)", 1, MOST_BYTES
        ),
        Made(rf"{begin}{re.escape(MARK)}", len(name), len(name)),
    ]


def ensure(config: Config, store: Store, release: dict[str, Any], days: int) -> Staged:
    """The repository is in the store, which is up. Raises UserError (read-only, no room), MeasurementFailed."""
    place, name = stage.buckets_of(config, store, 1)[0], name_of(release, days)
    prefix, repository = f"launch/{name}/", release["repository"]
    access = store.access(place.account)
    with suppress(NoSuchBucket, AccessRefused):
        if access.read(place.name, f"{place.prefix}{prefix}{MARK}", 1000) == name.encode():
            return _found(store, place, prefix, repository)
    if store.settings.read_only:
        problem = f"the repository of {days} days is not staged, and the store is read-only"
        raise UserError(f"stores.{store.name}", problem, "stage it with a writable account first")
    buckets.prepare(config, store, [place])
    written.note_made(config, store, name, made(name, repository))
    folder = scratch.folder(config.scratch) / f"launch-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        objects = size = 0
        source = Release(Settings.model_validate(release))
        for n in range(1, days + 1):
            day = source.day(n, folder)
            sizes = [item.bytes for item in day.objects()]
            objects, size = objects + len(sizes), size + sum(sizes)
            _check_room(store, sum(sizes))
            _send(store, place, prefix, day)
            shutil.rmtree(day.folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    access.write(place.name, f"{place.prefix}{prefix}{MARK}", name.encode())
    told = f"{objects} objects, {units.human_size(size)}"
    stage.report(f"    staged the repository of {days} days in {store.name}: {told}")
    return _found(store, place, prefix, repository)


def _found(store: Store, place: Bucket, prefix: str, repository: str) -> Staged:
    fetch = proof.reader(store.access(place.account), place, prefix)
    fields = names.manifest_fields(fetch(f"{repository}/{names.MANIFEST}"))
    return Staged(place, prefix, repository, fields["C"])


def _check_room(store: Store, size: int) -> None:
    free = store.free_bytes()
    if free is not None and free < size:
        problem = f"{units.human_size(size)} of a day do not fit into {units.human_size(free)} free"
        raise UserError(f"stores.{store.name}", problem, "make room, or lower `release.factor`")


def _send(store: Store, place: Bucket, prefix: str, day: Day) -> None:
    """All objects of a day: with the headers of CernVM-FS where the store speaks S3."""
    if store.protocol == "s3":
        from storelab.workloads.distribution import patterns, publisher, stratum

        pattern = patterns.PATTERNS[patterns.TUNED]
        keys = store.credentials(place.account)
        own = stratum.Stratum(store.endpoints(1)[0], place, prefix, keys, pattern, stratum.Log(0))
        try:
            publisher.publish(own, [day], THREADS)
        finally:
            own.close()
        return
    access, items = store.access(place.account), list(day.objects())
    with ThreadPoolExecutor(THREADS) as pool:
        for i in range(0, len(items), BLOCK):
            todo = [
                pool.submit(access.write, place.name, place.prefix + prefix + item.key, day.path(item).read_bytes())
                for item in items[i : i + BLOCK]
            ]
            for one in todo:
                one.result()

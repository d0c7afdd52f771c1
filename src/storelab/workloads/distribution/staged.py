"""Days of a release that are in a store before something is measured: made here, uploaded by s5cmd, walked once.

May import: `proof`, `staging`, `stores`, `datasets`, `core`.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storelab.core import units
from storelab.core.campaign.release import Release as Settings
from storelab.datasets.release import catalogs, names
from storelab.datasets.release.build import Day, Release
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.distribution import proof
from storelab.workloads.staging import upload
from storelab.workloads.staging.needs import DAYS_BYTES

MOST_OBJECTS = 20_000  # that are made before they are uploaded


@dataclass(frozen=True)
class Staged:
    """objects: key -> bytes of all that was uploaded, without reflog and manifest; roots: root catalog of each day;
    alive: keys that the last days need, as many as were asked for."""

    objects: dict[str, int]
    roots: list[str]
    alive: frozenset[str]

    @property
    def dead(self) -> set[str]:
        return self.objects.keys() - self.alive


def days(
    store: Store,
    bucket: Bucket,
    prefix: str,
    settings: Settings,
    count: int,
    keep: int,
    scratch: Path,
    note: Callable[[int, int], None],
) -> Staged:
    """Make and upload the first `count` days, reflog and manifest last, and walk the last `keep` of them in the store.

    prefix: before the repository's name; note(bytes, objects): called before so much is uploaded. Raises UserError,
    MeasurementFailed.
    """
    release, objects, roots = Release(settings), dict[str, int](), []
    with tempfile.TemporaryDirectory(prefix="release-", dir=scratch) as folder:
        waiting: list[Day] = []
        for n in range(1, count + 1):
            waiting.append(release.day(n, Path(folder)))
            roots.append(waiting[-1].facts["root_catalog"])
            made = [item for day in waiting for item in day.objects()]
            if n < count and len(made) < MOST_OBJECTS and sum(item.bytes for item in made) < DAYS_BYTES:
                continue
            sent = _upload(store, bucket, prefix, waiting, last=n == count, note=note)
            objects |= sent
            for day in waiting:
                shutil.rmtree(day.folder)
            waiting.clear()
    size = units.human_size(sum(objects.values()))
    upload.report(f"    staged {count} days of a release in {store.name}: {len(objects)} objects, {size}")
    fetch, alive = proof.reader(store.access(bucket.account), bucket, prefix), set[str]()
    for root in roots[-keep:]:
        for key in catalogs.references(root, fetch, settings.repository, alive.__contains__):
            alive.add(key)
    return Staged(objects, roots, frozenset(alive))


def _upload(
    store: Store, bucket: Bucket, prefix: str, made: list[Day], last: bool, note: Callable[[int, int], None]
) -> dict[str, int]:
    """Upload what is new on these days; of the last one reflog and manifest, too. Returns key -> bytes without them."""
    every = [(item, day.path(item)) for day in made for item in day.objects() if names.parts(item.key)]
    note(sum(item.bytes for item, _ in every), len(every))
    told = f"days {made[0].n} to {made[-1].n} of a release"
    upload.put_items(store, told, [(bucket, prefix + item.key, path) for item, path in every])
    if last:
        own = [item for item in made[-1].objects() if names.parts(item.key) is None]
        upload.put_items(store, "its manifest", [(bucket, prefix + item.key, made[-1].path(item)) for item in own])
    return {item.key: item.bytes for item, _ in every}

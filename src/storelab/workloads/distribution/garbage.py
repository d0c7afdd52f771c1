"""Collection of garbage: what no root catalog that is kept needs is found by the catalogs only, and deleted.

`Collector` marks, then sweeps, as CernVM-FS 2.12.0 does it (`garbage_collector_impl.h`): the roots that are kept are
walked, and all that they need is alive. Then the other roots of the reflog are walked: what they name and is not alive
is dead. The reflog without these roots comes last; the manifest stays. A collection that was interrupted goes on when
it is run again: data go first, then catalogs from below, so that what is still there can be found until it is gone.

The client is one process, which collects until all is collected or the deadline comes. A collection that fails is run
again, as users run the tool again. Before it starts, the coordinator makes the days of a release and uploads them.
"""

import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from storelab.core import clock, records, units
from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import MeasurementFailed
from storelab.datasets.release import catalogs, names
from storelab.datasets.release.build import Day, Release
from storelab.engines.contract import Check, Job, Result
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.distribution import proof
from storelab.workloads.distribution.publish import FAILED, ObstorePublishClient, Other, PublishClient, outcome
from storelab.workloads.distribution.stratum import ONE, SEVERAL, Stratum, spread
from storelab.workloads.staging import upload
from storelab.workloads.staging.stage import DAYS_BYTES

MOST_OBJECTS = 20_000  # that are made before they are uploaded


def stage_days(
    store: Store,
    bucket: Bucket,
    prefix: str,
    settings: Settings,
    count: int,
    keep: int,
    scratch: Path,
    note: Callable[[int, int], None],
) -> proof.Staged:
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
    return proof.Staged(objects, roots, frozenset(alive))


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


class NotWhole(MeasurementFailed):
    """A root that is to be kept lacks something: nothing may be deleted."""


@dataclass
class Found:
    """What a collection found: roots, objects (catalogs among them). marked_ns: when all that is alive was known."""

    kept: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    alive: set[str] = field(default_factory=set)
    dead: int = 0
    marked_ns: int | None = None


class Collector:
    """keep: so many roots stay, from that of the manifest back; newer ones, of a publication that was interrupted, stay
    too. workers: requests in flight; batch: objects of one request."""

    def __init__(self, stratum: Stratum, repository: str, keep: int, workers: int, batch: int = 1):
        self.stratum, self.repository, self.keep = stratum, repository, keep
        self.workers, self.batch = workers, batch
        self.found = Found()
        self._levels: list[list[str]] = []  # dead catalogs, by how far they are below their root

    def run(self) -> Found:
        """Mark and sweep. Raises Failed (a request; run it again), NotWhole, Other, OutOfTime."""
        self.found, self._levels = Found(), []
        log = self._choose()
        self._mark()
        if not self.found.dropped:
            return self.found
        with closing(self._dead_data()) as data:  # it holds an SQLite file, which its own thread wants to close
            self._sweep(data, self.workers)
        for level in reversed(self._levels):
            self._sweep(level, min(self.workers, len(level)))
        key = f"{self.repository}/{names.REFLOG}"
        self.stratum.put(key, catalogs.reflog_without(log, set(self.found.dropped)), always=True)
        return self.found

    def _choose(self) -> bytes:
        """Which roots are kept, and which are not; returns the reflog."""
        where = self.stratum.endpoint.url
        try:
            fields = names.manifest_fields(self.stratum.get(f"{self.repository}/{names.MANIFEST}"))
            if fields["N"] != self.repository:
                raise Other(f"{where}: the stratum holds the repository {fields['N']!r}, not {self.repository!r}")
            log = self.stratum.get(f"{self.repository}/{names.REFLOG}")
            roots = catalogs.reflog_roots(log)
        except (LookupError, OSError, ValueError) as error:
            raise NotWhole(f"{where}: manifest or reflog cannot be read, nothing is deleted: {error}") from None
        if fields["C"] not in roots:
            raise NotWhole(f"{where}: the reflog does not name the root of the manifest, nothing is deleted")
        first = max(0, roots.index(fields["C"]) + 1 - self.keep)
        self.found.dropped, self.found.kept = roots[:first], roots[first:]
        return log

    def _mark(self) -> None:
        alive = self.found.alive
        try:
            for root in self.found.kept:
                for key in catalogs.references(root, self.stratum.get, self.repository, alive.__contains__):
                    alive.add(key)
        except (LookupError, OSError, ValueError) as error:
            where = self.stratum.endpoint.url
            raise NotWhole(f"{where}: a root that is kept is not whole, nothing is deleted: {error}") from None
        self.found.marked_ns = clock.now_ns()

    def _dead_data(self) -> Generator[str]:
        """Dead files and chunks, each once, while the dropped roots are walked level by level. What an earlier
        collection deleted is passed by: a catalog goes after all that it names."""
        alive, asked = self.found.alive, set[str]()
        level = [names.key(self.repository, root, names.CATALOG) for root in self.found.dropped]
        seen = {*level}
        while level := [catalog for catalog in level if catalog not in alive]:
            here: list[str] = []
            below: list[str] = []
            self._levels.append(here)
            for catalog in level:
                try:
                    blob = self.stratum.get(catalog)
                except FileNotFoundError:
                    continue
                here.append(catalog)
                self.found.dead += 1
                try:
                    for key in catalogs.contents(catalog, blob, self.repository):
                        if catalogs.is_catalog(key):
                            if key not in seen:
                                seen.add(key)
                                below.append(key)
                        elif key not in alive and key not in asked:
                            asked.add(key)
                            self.found.dead += 1
                            yield key
                except ValueError as error:
                    raise NotWhole(f"{self.stratum.endpoint.url}: a catalog cannot be read: {error}") from None
            level = below

    def _sweep(self, keys: Iterable[str], workers: int) -> None:
        left = iter(keys)
        if workers:
            spread(iter(lambda: list(itertools.islice(left, self.batch)), []), self.stratum.delete, workers)


COLLECTED = "collected"  # state of a collection
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0  # before a collection that failed is run again: twice the last one's
COUNTED = ("deletes", "requests", "gets", "retries", "failures")


class CollectClient(PublishClient):
    """Collects the garbage of a repository in the point's store."""

    def __init__(self, job: Job):
        super().__init__(job)
        self.rows = {name: [] for name in records.COLLECTIONS}

    def prepare(self) -> None:
        self.open()
        repository = self.job.point.fixed["release"]["repository"]
        keep, workers, batch = (self.axes[name] for name in ("keep", "workers", "batch"))
        self.collector = Collector(self.zero, repository, keep, workers, batch)

    def run(self, start_ns: int, deadline_ns: int) -> None:
        self.zero.deadline_ns, pause = deadline_ns, FIRST_PAUSE_S
        for number in itertools.count(1):
            if self.once(number) != FAILED or clock.now_ns() + pause * 1e9 >= deadline_ns:
                return
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def once(self, number: int) -> str:
        """Collect, and keep its row; returns the state."""
        log, begin = self.zero.log, clock.now_ns()
        log.begin()
        state, reason, _ = outcome(self.collector.run, COLLECTED)
        found = self.collector.found
        row = {"client": self.job.number, "number": number, "state": state, "reason": reason}
        row |= {"begin_ns": begin, "marked_ns": found.marked_ns, "end_ns": clock.now_ns()}
        row |= {"kept": len(found.kept), "dropped": len(found.dropped), "alive": len(found.alive), "dead": found.dead}
        row |= {name: log.counts[name] for name in COUNTED}
        self.keep(row)
        return state

    def result(self) -> Result:
        states, reasons = self.rows["state"], self.rows["reason"]
        done = COLLECTED in states
        told = f"{len(states)} tries, {sum(self.rows['deletes'])} deletions"
        late = "" if done else f"; {reasons[-1] if reasons else 'none began'}: raise `duration` if it was late"
        requests = {"GET": 1, "PUT": 1, ONE: 1, SEVERAL: 1}
        check = Check("collected", done, told + late)
        return self.reported(check, {"batch": self.axes["batch"]}, requests, {"collections": self.rows})


class ObstoreCollectClient(CollectClient, ObstorePublishClient):
    """By the library obstore."""

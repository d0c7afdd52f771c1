"""Collect garbage: find the objects that no kept root catalog needs, using only the catalogs, and delete them.

`Collector` first marks and then deletes, like CernVM-FS 2.12.0 (`garbage_collector_impl.h`). First it walks the kept
roots; all objects that they need are alive. Then it walks the other roots of the reflog; objects that they name and
that are not alive are dead. Finally it writes the reflog without these roots. The manifest does not change. If a
collection is interrupted, it continues when it is run again. Data are deleted first, and then catalogs from the lowest
level up, so that the remaining objects can still be found.

The client is one process, which collects until everything is collected or the deadline is reached. A failed collection
is run again, as users of the tool do. Before the client starts, the coordinator makes and uploads the days of a
release.
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

MAX_OBJECTS = 20_000  # maximum number of objects that are made before they are uploaded


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
    """Make and upload the first `count` days, and walk the last `keep` days in the store.

    Reflog and manifest are uploaded last. prefix: the text before the repository's name; note(bytes, objects): a
    function called before each upload. Raises UserError or MeasurementFailed.
    """
    release, objects, roots = Release(settings), dict[str, int](), []
    with tempfile.TemporaryDirectory(prefix="release-", dir=scratch) as folder:
        waiting: list[Day] = []
        for n in range(1, count + 1):
            waiting.append(release.day(n, Path(folder)))
            roots.append(waiting[-1].facts["root_catalog"])
            made = [item for day in waiting for item in day.objects()]
            if n < count and len(made) < MAX_OBJECTS and sum(item.bytes for item in made) < DAYS_BYTES:
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
    """Upload the new objects of these days, and reflog and manifest of the last day.

    Return key -> bytes, without reflog and manifest.
    """
    every = [(item, day.path(item)) for day in made for item in day.objects() if names.parts(item.key)]
    note(sum(item.bytes for item, _ in every), len(every))
    name = f"days {made[0].n} to {made[-1].n} of a release"
    upload.put_items(store, name, [(bucket, prefix + item.key, path) for item, path in every])
    if last:
        catalog_items = [item for item in made[-1].objects() if names.parts(item.key) is None]
        upload.put_items(
            store, "its manifest", [(bucket, prefix + item.key, made[-1].path(item)) for item in catalog_items]
        )
    return {item.key: item.bytes for item, _ in every}


class IncompleteRoot(MeasurementFailed):
    """A root that must be kept is incomplete, so nothing may be deleted."""


@dataclass
class Found:
    """The result of a collection: roots and objects (including catalogs). marked_ns: the end of the marking."""

    kept: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    alive: set[str] = field(default_factory=set)
    dead: int = 0
    marked_ns: int | None = None


class Collector:
    """A garbage collector.

    Parameters
    ----------
    stratum, repository
        Where the repository is.
    keep
        Number of roots to keep, counted back from the root of the manifest. Newer roots, from an interrupted
        publication, are also kept.
    workers
        Number of requests in flight.
    batch
        Number of objects per request.
    """

    def __init__(self, stratum: Stratum, repository: str, keep: int, workers: int, batch: int = 1):
        self.stratum, self.repository, self.keep = stratum, repository, keep
        self.workers, self.batch = workers, batch
        self.found = Found()
        self._levels: list[list[str]] = []  # dead catalogs, by their depth below the root

    def run(self) -> Found:
        """Mark, and delete the dead objects.

        Raises Failed (a request failed; run it again), IncompleteRoot, Other or OutOfTime.
        """
        self.found, self._levels = Found(), []
        log = self._choose()
        self._mark()
        if not self.found.dropped:
            return self.found
        with closing(self._dead_data()) as data:  # an SQLite file, which only this thread can close
            self._sweep(data, self.workers)
        for level in reversed(self._levels):
            self._sweep(level, min(self.workers, len(level)))
        key = f"{self.repository}/{names.REFLOG}"
        self.stratum.put(key, catalogs.reflog_without(log, set(self.found.dropped)), always=True)
        return self.found

    def _choose(self) -> bytes:
        """Choose the roots to keep and to drop, and return the reflog."""
        where = self.stratum.endpoint.url
        try:
            fields = names.manifest_fields(self.stratum.get(f"{self.repository}/{names.MANIFEST}"))
            if fields["N"] != self.repository:
                raise Other(f"{where}: the stratum has the repository {fields['N']!r}, not {self.repository!r}")
            log = self.stratum.get(f"{self.repository}/{names.REFLOG}")
            roots = catalogs.reflog_roots(log)
        except (LookupError, OSError, ValueError) as error:
            raise IncompleteRoot(f"{where}: manifest or reflog cannot be read, nothing is deleted: {error}") from None
        if fields["C"] not in roots:
            raise IncompleteRoot(f"{where}: the reflog does not name the root of the manifest, nothing is deleted")
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
            raise IncompleteRoot(f"{where}: a root that is kept is incomplete, nothing is deleted: {error}") from None
        self.found.marked_ns = clock.now_ns()

    def _dead_data(self) -> Generator[str]:
        """Yield dead files and chunks, each once, while the dropped roots are walked level by level.

        Catalogs that an earlier collection deleted are skipped. A catalog is only deleted after all objects that it
        names.
        """
        alive, requested = self.found.alive, set[str]()
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
                        elif key not in alive and key not in requested:
                            requested.add(key)
                            self.found.dead += 1
                            yield key
                except ValueError as error:
                    raise IncompleteRoot(f"{self.stratum.endpoint.url}: a catalog cannot be read: {error}") from None
            level = below

    def _sweep(self, keys: Iterable[str], workers: int) -> None:
        left = iter(keys)
        if workers:
            spread(iter(lambda: list(itertools.islice(left, self.batch)), []), self.stratum.delete, workers)


COLLECTED = "collected"  # state of a collection
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0  # pause before a failed collection is run again; it is doubled each time
COUNTED = ("deletes", "requests", "gets", "retries", "failures")


class CollectClient(PublishClient):
    """A client that collects the garbage of a repository in the point's store."""

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
        """Collect once, add the row, and return the state."""
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
        tries = f"{len(states)} tries, {sum(self.rows['deletes'])} deletions"
        late = (
            ""
            if done
            else f"; {reasons[-1] if reasons else 'no collection began'}; set a longer "
            "`duration` if the time was too short"
        )
        requests = {"GET": 1, "PUT": 1, ONE: 1, SEVERAL: 1}
        check = Check("collected", done, tries + late)
        return self.reported(check, {"batch": self.axes["batch"]}, requests, {"collections": self.rows})


class ObstoreCollectClient(CollectClient, ObstorePublishClient):
    """A client that collects garbage with the library obstore."""

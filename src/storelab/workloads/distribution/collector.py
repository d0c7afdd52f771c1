"""Collection of garbage: what no root catalog that is kept needs is found by the catalogs alone, and deleted.

Mark, then sweep, as CernVM-FS 2.12.0 does it (`garbage_collector_impl.h`): the roots that are kept are walked, and all
that they need is alive. Then the other roots of the reflog are walked: what they name and is not alive is dead. The
reflog without these roots comes last; the manifest stays. A collection that was interrupted goes on when it is run
again: data go first, then catalogs from below, so that what is still there can be found until it is gone.

May import: `stratum`, `datasets`, `core`.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from storelab.core import clock
from storelab.core.errors import MeasurementFailed
from storelab.datasets.release import catalogs, names
from storelab.workloads.distribution.replicator import Other
from storelab.workloads.distribution.stratum import Stratum, spread


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
                for key in self._named(catalog, blob):
                    if catalogs.is_catalog(key):
                        if key not in seen:
                            seen.add(key)
                            below.append(key)
                    elif key not in alive and key not in asked:
                        asked.add(key)
                        self.found.dead += 1
                        yield key
            level = below

    def _named(self, catalog: str, blob: bytes) -> Iterator[str]:
        try:
            yield from catalogs.contents(catalog, blob, self.repository)
        except ValueError as error:
            raise NotWhole(f"{self.stratum.endpoint.url}: a catalog cannot be read: {error}") from None

    def _sweep(self, keys: Iterable[str], workers: int) -> None:
        if workers:
            spread(_batches(keys, self.batch), self._delete, workers)

    def _delete(self, keys: Sequence[str], worker: int) -> None:
        self.stratum.delete(keys, worker)


def _batches(keys: Iterable[str], most: int) -> Iterator[list[str]]:
    left = iter(keys)
    while batch := list(islice(left, most)):
        yield batch

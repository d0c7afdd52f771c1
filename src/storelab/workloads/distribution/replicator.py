"""Replication: stratum 0 is read by its manifest and catalogs, and what stratum 1 lacks is copied.

A catalog is put when all that it names is there. So a catalog that is there stands for all below it: nothing of it is
looked at again, and a replication that was interrupted goes on where it was. The manifest comes last. May import:
`stratum`, `datasets`, `core`.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from graphlib import TopologicalSorter

from storelab.core.errors import MeasurementFailed
from storelab.datasets.release import catalogs, names
from storelab.workloads.distribution.stratum import Failed, Stratum, spread


class Other(MeasurementFailed):
    """Stratum 1 holds something else."""


class Replicator:
    """source, target: strata; repository: its name. `known`: data that this process put, or saw, at the target: what a
    changed catalog names again is not looked at again."""

    def __init__(self, source: Stratum, target: Stratum, repository: str, workers: int):
        self.source, self.target, self.repository, self.workers = source, target, repository, workers
        self.known: set[str] = set()

    def manifest(self, stratum: Stratum) -> tuple[bytes, dict[str, str]] | None:
        """Bytes and fields; None where the stratum has none. Raises Failed."""
        try:
            text = stratum.get(f"{self.repository}/{names.MANIFEST}")
        except FileNotFoundError:
            return None
        try:
            return text, names.manifest_fields(text)
        except ValueError as error:
            raise Failed(f"{stratum.endpoint.url}: the manifest is damaged: {error}") from None

    def run(self) -> int | None:
        """Copy what is missing; returns how many objects were looked at, None where stratum 1 is up to date, or stratum
        0 has nothing yet. Raises Failed, Other, OutOfTime."""
        here, there = self.manifest(self.source), self.manifest(self.target)
        if here is None:
            return None
        text, fields = here
        if there:
            self._same(fields, there[1])
            if there[0] == text:
                return None
        blobs: dict[str, bytes] = {}  # catalogs
        looked = 0

        def fetch(key: str) -> bytes:
            blobs[key] = self.source.get(key)
            return blobs[key]

        def data() -> Generator[str]:
            nonlocal looked
            for key in catalogs.references(fields["C"], fetch, self.repository, self._there):
                looked += 1
                if (names.parts(key) or ("", ""))[1] != names.CATALOG and key not in self.known:
                    self.known.add(key)
                    yield key

        try:
            with closing(data()) as wanted:  # a walk holds an SQLite file, which wants to be closed by its own thread
                spread(wanted, self._copy, max(1, self.workers - 1))  # one more connection walks
        except BaseException as error:
            self.known.clear()  # nobody knows which of them arrived
            if isinstance(error, (LookupError, OSError, ValueError)):
                raise Failed(f"{self.source.endpoint.url}: stratum 0 is not whole: {error}") from None
            raise
        for key in self._from_below(blobs):
            self.target.put(key, blobs[key], always=True)
        for name in (names.REFLOG, names.MANIFEST):
            key = f"{self.repository}/{name}"
            self.target.put(key, text if name == names.MANIFEST else self.source.get(key), always=True)
        return looked + 2

    def _from_below(self, blobs: dict[str, bytes]) -> Iterator[str]:
        """These catalogs, each behind all that it names: several may name the same one."""
        below: dict[str, list[str]] = {key: [] for key in blobs}
        for key, named in below.items():

            def other(catalog: str, key: str = key, named: list[str] = named) -> bool:
                if catalog in blobs and catalog != key:
                    named.append(catalog)
                return catalog != key

            root = (names.parts(key) or ("", ""))[0]
            for _ in catalogs.references(root, blobs.__getitem__, self.repository, other):
                pass
        return iter(TopologicalSorter(below).static_order())

    def _there(self, catalog: str) -> bool:
        """Whether the target has this catalog, and so all that it names."""
        if self.target.there(catalog):
            self.target.log.skip()
            return True
        return False

    def _copy(self, key: str, worker: int) -> None:
        if self.target.pattern.head and self.target.there(key, worker):
            self.target.log.skip()
            return
        self.target.put(key, self.source.get(key, worker), worker, always=True)

    def _same(self, mine: dict[str, str], theirs: dict[str, str]) -> None:
        """Raises Other where the target's manifest is of another repository, or newer than the source's."""
        where = self.target.endpoint.url
        if theirs.get("N") != mine.get("N"):
            raise Other(f"{where}: stratum 1 holds the repository {theirs.get('N')!r}, not {mine.get('N')!r}")
        if int(theirs.get("S", 0)) > int(mine.get("S", 0)):
            raise Other(f"{where}: stratum 1 has revision {theirs['S']}, stratum 0 only {mine.get('S')}")

"""Publish and replicate a release, with one client process for `publish` and `replicate` each.

A day is published in groups: data, catalogs, reflog, manifest. Each group is complete before the next begins. Until the
manifest is written, the repository is that of the last complete day. A repeated publication finds the existing objects.
A failed day stays in its folder, and the next publication also sends its missing objects. The time to make a day is not
included.

A replication reads stratum 0 by its manifest and catalogs, and copies the objects that are missing in stratum 1. A
catalog is written after all objects that it names. An existing catalog therefore proves that all objects below it
exist, so that they are not checked again, and an interrupted replication continues where it stopped. The manifest is
written last.
"""

import importlib.metadata
import itertools
import os
import platform
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from graphlib import TopologicalSorter
from typing import Any, ClassVar

from storelab.core import clock, records
from storelab.core.axes.distribution import NOWHERE, PATTERNS, days_of
from storelab.core.errors import MeasurementFailed
from storelab.core.model import derive_seed
from storelab.datasets.release import catalogs, names
from storelab.datasets.release.build import Day, Item
from storelab.engines.common.guard import Guard
from storelab.engines.common.objects import put_prefix
from storelab.engines.contract import Check, Client, Job, Result
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads.distribution.stratum import WAITS, Failed, Log, ObstoreStratum, OutOfTime, Stratum, spread

DATA = ("data", "chunk")
CATALOG, REFLOG, MANIFEST = "catalog", "reflog", "manifest"


def groups(days: Sequence[Day]) -> Iterator[Iterable[tuple[Day, Item]]]:
    """Yield the objects of these days in the order of upload, with the newest day last.

    The groups are: data, catalogs except the newest root, this root, reflog, manifest. Only the newest day has reflog
    and manifest.
    """
    newest = days[-1]

    def of(*kinds: str) -> Iterator[tuple[Day, Item]]:
        return ((day, item) for day in days for item in day.objects() if item.kind in kinds)

    def root(day: Day, item: Item) -> bool:
        return day is newest and newest.facts["root_catalog"] == (names.parts(item.key) or ("",))[0]

    yield of(*DATA)
    yield ((day, item) for day, item in of(CATALOG) if not root(day, item))
    yield ((day, item) for day, item in of(CATALOG) if root(day, item))
    for kind in (REFLOG, MANIFEST):
        yield ((newest, item) for item in newest.objects() if item.kind == kind)


def publish(stratum: Stratum, days: Sequence[Day], workers: int) -> int:
    """Upload these days, the newest last, and return the number of their objects.

    Raises Failed or OutOfTime. The store then still has the manifest of the last published day.
    """
    counted = itertools.count()

    def send(what: tuple[Day, Item], worker: int) -> None:
        day, item = what
        next(counted)
        stratum.put(item.key, day.path(item).read_bytes(), worker, always=item.kind in (REFLOG, MANIFEST))

    for group in groups(days):
        spread(group, send, workers)
    return next(counted)


class Other(MeasurementFailed):
    """Stratum 1 has another repository, or a newer revision."""


class Replicator:
    """A replicator from the stratum `source` to the stratum `target`, for one repository.

    `known` has the data that this process wrote or found at the target. They are not checked again if a changed catalog
    names them.
    """

    def __init__(self, source: Stratum, target: Stratum, repository: str, workers: int):
        self.source, self.target, self.repository, self.workers = source, target, repository, workers
        self.known: set[str] = set()

    def manifest(self, stratum: Stratum) -> tuple[bytes, dict[str, str]] | None:
        """Return the bytes and the fields of the manifest, or None if the stratum has no manifest. Raises Failed."""
        try:
            text = stratum.get(f"{self.repository}/{names.MANIFEST}")
        except FileNotFoundError:
            return None
        try:
            return text, names.manifest_fields(text)
        except ValueError as error:
            raise Failed(f"{stratum.endpoint.url}: the manifest is damaged: {error}") from None

    def run(self) -> int | None:
        """Copy missing objects, and return the number of objects that were checked.

        Returns None if stratum 1 is up to date or stratum 0 is empty. Raises Failed, Other or OutOfTime.
        """
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
            with closing(data()) as wanted:  # the walk uses an SQLite file, which only its thread can close
                spread(wanted, self._copy, max(1, self.workers - 1))  # one more connection walks
        except BaseException as error:
            self.known.clear()  # it is unknown which of these objects arrived
            if isinstance(error, (LookupError, OSError, ValueError)):
                raise Failed(f"{self.source.endpoint.url}: stratum 0 is incomplete: {error}") from None
            raise
        for key in self._from_below(blobs):
            self.target.put(key, blobs[key], always=True)
        for name in (names.REFLOG, names.MANIFEST):
            key = f"{self.repository}/{name}"
            self.target.put(key, text if name == names.MANIFEST else self.source.get(key), always=True)
        return looked + 2

    def _from_below(self, blobs: dict[str, bytes]) -> Iterator[str]:
        """Return these catalogs, each after all catalogs that it names. Several catalogs can name the same one."""
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
        """Return True if the target has this catalog, and therefore all objects that it names."""
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
        """Raise Other if the target's manifest belongs to another repository, or is newer than the source's."""
        where = self.target.endpoint.url
        if theirs.get("N") != mine.get("N"):
            raise Other(f"{where}: stratum 1 has the repository {theirs.get('N')!r}, not {mine.get('N')!r}")
        if int(theirs.get("S", 0)) > int(mine.get("S", 0)):
            raise Other(
                f"{where}: stratum 1 has revision {theirs['S']}, but stratum 0 has the older revision {mine.get('S')}"
            )


SECOND_STORE = "STORELAB_OTHER_STORE_"  # prefix of the variables with the keys of the second store
PUBLISHED, UNCHANGED, FAILED, CUT = "published", "unchanged", "failed", "cut"  # states of a day in a stratum
COUNTED = ("stored", "bytes", "heads", "gets", "puts", "skipped", "retries", "failures")


def outcome(act: Callable[[], Any], done: str) -> tuple[str, str | None, Any]:
    """Return the state, the reason and the value of `act`.

    The state is `done`, or it shows a failure or the deadline; the reason then explains it.
    """
    try:
        return done, None, act()
    except Failed as error:
        return FAILED, str(error), None
    except OutOfTime:
        return CUT, "the deadline was reached", None


class PublishClient(Client):
    """A client that publishes to the point's store."""

    kind: ClassVar[type[Stratum]] = Stratum

    def __init__(self, job: Job):
        super().__init__(job)
        self.axes = job.point.axes
        self.pattern = PATTERNS[self.axes["pattern"]]
        self.expired = days_of(self.axes.get("expired", NOWHERE))
        self.folder = job.scratch / "release"
        self.rows: dict[str, list[Any]] = {name: [] for name in records.DAYS}
        self.owed: list[Any] = []  # days that were made and not yet published
        self.strata: list[Stratum] = []
        self.done = 0

    def stratum(self, endpoint: Endpoint, bucket: Bucket, keys: Credentials | None, limited: bool) -> Stratum:
        guard = Guard(self.job.limits, self.axes["clients"]) if limited else None
        seed = derive_seed(self.job.point.seed, len(self.strata))
        log = Log(self.job.number, guard)
        made = self.kind(endpoint, bucket, put_prefix(self.job.attempt), keys, self.pattern, log, seed)
        self.strata.append(made)
        return made

    def prepare(self) -> None:
        from storelab.core.campaign.release import Release as Settings
        from storelab.datasets.release.build import Release

        self.folder.mkdir(parents=True, exist_ok=True)
        self.settings = Settings.model_validate(self.job.point.fixed["release"])
        self.release = Release(self.settings)
        self.open()

    def open(self) -> None:
        self.zero = self.stratum(
            self.job.endpoint, self.job.account_buckets[0], Credentials.found(os.environ), limited=True
        )

    def run(self, start_ns: int, deadline_ns: int) -> None:
        for stratum in self.strata:
            stratum.deadline_ns = deadline_ns
        for n in range(1, self.axes["days"] + 1):
            if clock.now_ns() >= deadline_ns or not self.one_day(n):
                return
            self.done = n

    def one_day(self, n: int) -> bool:
        """Make and publish a day. Return False after the deadline."""
        begun = clock.now_ns()
        self.owed.append(self.release.day(n, self.folder))
        prepared = clock.now_ns() - begun
        facts = self.owed[-1].facts
        self.zero.expired = n in self.expired
        columns = {"files": facts["new_files"], "raw_bytes": facts["raw_bytes"], "prepare_ns": prepared}
        act = partial(publish, self.zero, self.owed, self.axes["workers"])
        state = self.tried(n, 0, [self.zero], act, columns)
        self.zero.expired = False
        if state == PUBLISHED:
            for day in self.owed:
                shutil.rmtree(day.folder)
            self.owed.clear()
            self.zero.sent.clear()
        return state != CUT

    def tried(self, n: int, number: int, strata: list[Stratum], act: Any, columns: dict[str, Any]) -> str:
        """Do the work of a day for a stratum, add its row with all requests to these strata, and return its state.

        act: a function that returns the objects, or None for no change. If a day's signature is expired on purpose, its
        requests are recorded only in this row.
        """
        for stratum in strata:
            stratum.log.begin(kept=not stratum.expired)
        begin = clock.now_ns()
        state, reason, objects = outcome(act, PUBLISHED)
        if state == PUBLISHED and objects is None:
            state = UNCHANGED
        row = dict.fromkeys(self.rows) | columns
        row |= {"client": self.job.number, "stratum": number, "day": n, "state": state, "reason": reason}
        row |= {"begin_ns": begin, "end_ns": clock.now_ns(), "objects": objects or 0}
        self.keep(row | self.counted(strata))
        return state

    def keep(self, row: dict[str, Any]) -> None:
        """Add a row to the table."""
        for name, column in self.rows.items():
            column.append(row[name])

    def counted(self, strata: list[Stratum]) -> dict[str, int | None]:
        """Return the counts COUNTED since the day began. Unknown counts are null."""
        return {name: sum(stratum.log.counts[name] for stratum in strata) for name in COUNTED}

    def all_done(self) -> Check:
        requested = self.axes["days"]
        states = [s for s, stratum in zip(self.rows["state"], self.rows["stratum"], strict=True) if not stratum]
        done = f"{self.done} of {requested} days done, {states.count(FAILED)} of them failed"
        late = "; the deadline was reached: set a longer `duration`" if self.done < requested else ""
        return Check("days", self.done == requested, done + late)

    def result(self) -> Result:
        settings = {"head_before_put": self.pattern.head}
        return self.reported(self.all_done(), settings, {"HEAD": 1, "GET": 1, "PUT": 1}, {"days": self.rows})

    def reported(
        self, check: Check, settings: dict[str, Any], requests: dict[str, int], tables: dict[str, Any]
    ) -> Result:
        """Return the result of the stratum in the point's store.

        settings: additional settings; requests: the number of requests of each operation.
        """
        record = self.recorded()
        settings = {"workers": self.axes["workers"]} | settings | {"x_amz_acl": self.pattern.acl or ""}
        return Result(
            record.log.ops(),
            engine={
                "name": self.axes["engine"],
                "version": self.version(),
                "settings": settings | WAITS,
                "requests_per_operation": requests,
                "errors": record.log.messages,
            },
            checks=[check],
            connections={"max": len(record.wires) or self.axes["workers"], "samples": []},
            tables=tables,
        )

    def version(self) -> str:
        """Return the version of the engine."""
        return f"Python {platform.python_version()} http.client"

    def recorded(self) -> Stratum:
        """Return the stratum in the point's store, whose operations are recorded individually."""
        return self.zero

    def close(self) -> None:
        for stratum in self.strata:
            stratum.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class ObstorePublishClient(PublishClient):
    """A client that publishes with the library obstore."""

    kind = ObstoreStratum

    def version(self) -> str:
        return f"obstore {importlib.metadata.version('obstore')}"


class ReplicateClient(PublishClient):
    """A client that publishes to a second store, and replicates each day from there to the point's store."""

    def open(self) -> None:

        place, keys = self.job.extra["stratum0"], Credentials.found(os.environ, SECOND_STORE)
        self.zero = self.stratum(Endpoint(**place["endpoint"]), Bucket(**place["bucket"]), keys, limited=False)
        self.one = self.stratum(
            self.job.endpoint, self.job.account_buckets[0], Credentials.found(os.environ), limited=True
        )
        self.replicator = Replicator(self.zero, self.one, self.settings.repository, self.axes["workers"])

    def one_day(self, n: int) -> bool:
        if not super().one_day(n):
            return False
        return self.tried(n, 1, [self.one, self.zero], self.replicator.run, {}) != CUT

    def recorded(self) -> Stratum:
        return self.one

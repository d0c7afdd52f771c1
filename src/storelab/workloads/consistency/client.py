"""The client of `consistency`: several workers, each with keys of its own, through all front-ends.

Every worker of every client checks, and is load for the others: all keys lie in one bucket. Client 0's first worker
looks besides at buckets and at a listing of many pages. The last tenth of the time, 5 s at most, is for a last look at
what was deleted.
"""

import importlib.metadata
import os
import platform
import threading
from abc import abstractmethod
from typing import ClassVar

from storelab.core import clock
from storelab.core.errors import MeasurementFailed
from storelab.core.model import derive_seed
from storelab.engines.common.objects import put_prefix
from storelab.engines.contract import Check, Client, Result
from storelab.stores.protocols.endpoint import Endpoint
from storelab.workloads.consistency import rounds
from storelab.workloads.consistency.ledger import OBJECTS, ONCE, Ledger
from storelab.workloads.consistency.listings import MANY_THREADS, Many, NamespaceWorker, stem
from storelab.workloads.consistency.rounds import Worker
from storelab.workloads.consistency.seen import OK, View, body

LAST_LOOK, MOST_LAST_LOOK_NS = 0.1, 5_000_000_000
PATIENCE_NS = 3_000_000_000  # after the deadline, for answers that are still to come


class ConsistencyClient(Client):
    """What both engines share."""

    requests: ClassVar[dict[str, int]] = {}  # of an operation, where the engine tells
    version: ClassVar[str]  # of the library
    workers: list[Worker]

    def prepare(self) -> None:
        job, axes = self.job, self.job.point.axes
        self.endpoints = job.endpoints or [job.endpoint]
        self.bucket, self.size = job.own_buckets[0], axes["object_size"]
        self.special = job.client == 0
        scenarios = OBJECTS + (ONCE if self.special and not self.bucket.prefix else ONCE[:1] if self.special else ())
        self.ledger = Ledger(job.client, job.limits, axes["clients"], scenarios, len(self.endpoints))
        self.failure: BaseException | None = None
        self.workers = []
        for number in range(axes["workers"]):
            views = [self.view(endpoint) for endpoint in self.endpoints]
            prefix = f"{put_prefix(job.attempt)}{job.client}/{number}/"
            kind = NamespaceWorker if self.special and not number else Worker
            worker = kind(
                number, views, self.ledger, prefix, self.size, derive_seed(job.point.seed, job.client, number)
            )
            self.workers.append(worker)
            # The anchor is there all the time. The other front-ends read it, so that their connections are open.
            seen = views[0].first(worker.anchor, body(worker.anchor, 1, "anchor", self.size))
            if seen.state != OK:
                raise MeasurementFailed(
                    f"{self.endpoints[0].url}: an object cannot be put: {seen.said()} {seen.message}"
                )
            for other in views[1:]:
                other.get(worker.anchor)
        self.many = Many(f"{put_prefix(job.attempt)}many/")
        if self.special:
            extra = [self.view(self.endpoints[0]) for _ in range(len(self.workers), MANY_THREADS)]
            self.many.upload([worker.views[0] for worker in self.workers] + extra)
            for more in extra:
                more.close()
            first = self.workers[0]
            assert isinstance(first, NamespaceWorker)
            first.prepare(self.many, "" if self.bucket.prefix else stem(self.bucket, job.attempt))

    @abstractmethod
    def view(self, endpoint: Endpoint) -> View:
        """A front-end, opened, as one thread sees it."""

    def run(self, start_ns: int, deadline_ns: int) -> None:
        self.ledger.deadline_ns = deadline_ns
        until = deadline_ns - min(MOST_LAST_LOOK_NS, int((deadline_ns - start_ns) * LAST_LOOK))
        threads = [threading.Thread(target=self._work, args=(worker, until), daemon=True) for worker in self.workers]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:  # what a store that hangs owes is not waited for
                thread.join(max(0.0, (deadline_ns + PATIENCE_NS - clock.now_ns()) / 1e9))
        finally:
            self.ledger.over.set()
        if self.failure:
            raise self.failure

    def _work(self, worker: Worker, until_ns: int) -> None:
        try:
            worker.run(until_ns)
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self.failure = self.failure or error
            self.ledger.over.set()

    def result(self) -> Result:
        ledger = self.ledger
        tried, anomalies = ledger.total("tried"), ledger.total("anomalies")
        told = ": ".join([f"{tried} tries, {anomalies} anomalies", *list(ledger.messages.values())[:1]])
        return Result(
            ledger.ops(),
            engine={
                "name": self.job.point.axes["engine"],
                "version": self.version,
                "settings": {
                    "protocol": self.endpoints[0].protocol,
                    "workers": len(self.workers),
                    "front_ends": len(self.endpoints),
                    "retries": 0,
                    "watched_s": rounds.BOUND_NS / 1e9,
                    "long_listing_keys": len(self.many.there),
                },
                "requests_per_operation": self.requests,
                "errors": ledger.messages,
                "cut_off": ledger.cut_off,
                "deleted_keys": sum(len(names) for worker in self.workers for names in worker.gone),
                "deleted_keys_looked_at_again": sum(len(worker.looked_again) for worker in self.workers),
            },
            checks=[Check("answers judged", tried > 0, told)],
            connections={"max": len(self.workers) * len(self.endpoints), "samples": []},
            tables=ledger.tables(),
        )

    def close(self) -> None:
        for worker in getattr(self, "workers", []):
            if isinstance(worker, NamespaceWorker):
                worker.close()
            for view in worker.views:
                view.close()


class WireClient(ConsistencyClient):
    """Engine `wire`: plain signed S3 requests."""

    requests: ClassVar[dict[str, int]] = {"PUT": 1, "GET": 1, "DELETE": 1}
    version = f"Python {platform.python_version()} http.client"

    def view(self, endpoint: Endpoint) -> View:
        from storelab.workloads.consistency.s3 import S3View

        return S3View(endpoint, self.bucket, os.environ)


class FsspecClient(ConsistencyClient):
    """Engine `fsspec`: every other protocol."""

    version = f"fsspec {importlib.metadata.version('fsspec')}"

    def view(self, endpoint: Endpoint) -> View:
        from storelab.workloads.consistency.files import FilesView

        return FilesView(endpoint, self.bucket, os.environ)

"""The clients of `publish` and `replicate`: one process, as the publishing tool is one.

Each day is made, which is not part of it, and published; a day that fails stays in its folder, and the next one sends
what is missing of it, too. May import: what `workloads` may.
"""

import importlib.metadata
import os
import platform
import shutil
from functools import partial
from typing import Any

from storelab.core import clock, records
from storelab.core.axes.distribution import NOWHERE, days_of
from storelab.core.model import derive_seed
from storelab.engines.common.guard import Guard
from storelab.engines.common.objects import put_prefix
from storelab.engines.contract import Check, Client, Job, Result
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads.distribution import patterns, publisher
from storelab.workloads.distribution.stratum import Failed, Log, OutOfTime, Stratum

BESIDE = "STORELAB_BESIDE_"  # begin of the variables that hold the keys of the second store
PUBLISHED, UNCHANGED, FAILED, CUT = "published", "unchanged", "failed", "cut"  # states of a day in a stratum
COUNTED = ("stored", "bytes", "heads", "gets", "puts", "skipped", "retries", "failures")


class PublishClient(Client):
    """Publishes to the point's store."""

    def __init__(self, job: Job):
        super().__init__(job)
        self.axes = job.point.axes
        self.pattern = patterns.PATTERNS[self.axes["pattern"]]
        self.expired = days_of(self.axes.get("expired", NOWHERE))
        self.folder = job.scratch / "release"
        self.rows: dict[str, list[Any]] = {name: [] for name in records.DAYS}
        self.owed: list[Any] = []  # days that were made and are not yet published
        self.strata: list[Stratum] = []
        self.done = 0

    def stratum(self, endpoint: Endpoint, bucket: Bucket, keys: Credentials | None, limited: bool) -> Stratum:
        guard = Guard(self.job.limits, self.axes["clients"]) if limited else None
        seed = derive_seed(self.job.point.seed, len(self.strata))
        log = Log(self.job.number, guard)
        made = self.kind()(endpoint, bucket, put_prefix(self.job.attempt), keys, self.pattern, log, seed)
        self.strata.append(made)
        return made

    def kind(self) -> type[Stratum]:
        return Stratum

    def prepare(self) -> None:
        from storelab.core.campaign.release import Release as Settings
        from storelab.datasets.release.build import Release

        self.folder.mkdir(parents=True, exist_ok=True)
        self.settings = Settings.model_validate(self.job.point.fixed["release"])
        self.release = Release(self.settings)
        self.open()

    def open(self) -> None:
        self.zero = self.stratum(
            self.job.endpoint, self.job.own_buckets[0], Credentials.found(os.environ), limited=True
        )

    def run(self, start_ns: int, deadline_ns: int) -> None:
        for stratum in self.strata:
            stratum.deadline_ns = deadline_ns
        for n in range(1, self.axes["days"] + 1):
            if clock.now_ns() >= deadline_ns or not self.one_day(n):
                return
            self.done = n

    def one_day(self, n: int) -> bool:
        """Make and publish a day; false where the deadline came."""
        begun = clock.now_ns()
        self.owed.append(self.release.day(n, self.folder))
        prepared = clock.now_ns() - begun
        facts = self.owed[-1].facts
        self.zero.expired = n in self.expired
        told = {"files": facts["new_files"], "raw_bytes": facts["raw_bytes"], "prepare_ns": prepared}
        act = partial(publisher.publish, self.zero, self.owed, self.axes["workers"])
        state = self.tried(n, 0, [self.zero], act, told)
        self.zero.expired = False
        if state == PUBLISHED:
            for day in self.owed:
                shutil.rmtree(day.folder)
            self.owed.clear()
            self.zero.sent.clear()
        return state != CUT

    def tried(self, n: int, number: int, strata: list[Stratum], act: Any, told: dict[str, Any]) -> str:
        """Do what a day is for a stratum, and keep its row, with all that was asked of these; returns its state. act:
        gives the objects, None for no change. What is asked on a day whose signature is expired on purpose is in its
        row alone."""
        for stratum in strata:
            stratum.log.begin(kept=not stratum.expired)
        objects, reason, begin = None, None, clock.now_ns()
        try:
            objects = act()
            state = UNCHANGED if objects is None else PUBLISHED
        except Failed as error:
            state, reason = FAILED, str(error)
        except OutOfTime:
            state, reason = CUT, "the deadline came"
        row = dict.fromkeys(self.rows) | told
        row |= {"client": self.job.number, "stratum": number, "day": n, "state": state, "reason": reason}
        row |= {"begin_ns": begin, "end_ns": clock.now_ns(), "objects": objects or 0}
        row |= self.counted(strata)
        for name, column in self.rows.items():
            column.append(row[name])
        return state

    def counted(self, strata: list[Stratum]) -> dict[str, int | None]:
        """COUNTED since the day began; null where it is not known."""
        return {name: sum(stratum.log.counts[name] for stratum in strata) for name in COUNTED}

    def all_done(self) -> Check:
        asked = self.axes["days"]
        states = [s for s, stratum in zip(self.rows["state"], self.rows["stratum"], strict=True) if not stratum]
        told = f"{self.done} of {asked} days done, {states.count(FAILED)} of them failed"
        late = "; the deadline came: raise `duration`" if self.done < asked else ""
        return Check("days", self.done == asked, told + late)

    def result(self) -> Result:
        own = self.recorded()
        return Result(
            own.log.ops(),
            engine={
                "name": self.axes["engine"],
                "version": self.version(),
                "settings": {
                    "workers": self.axes["workers"],
                    "head_before_put": self.pattern.head,
                    "x_amz_acl": self.pattern.acl or "",
                    **self.waits(),
                },
                "requests_per_operation": {"HEAD": 1, "GET": 1, "PUT": 1},
                "errors": own.log.messages,
            },
            checks=[self.all_done()],
            connections={"max": len(own.wires) or self.axes["workers"], "samples": []},
            tables={"days": self.rows},
        )

    @staticmethod
    def waits() -> dict[str, Any]:
        """What the record says of retries, time-outs and signatures."""
        waits = {"retries": patterns.RETRIES, "longest_wait_ms": 1000 * patterns.LONGEST_WAIT_S}
        return waits | {"timeout_s": patterns.TIMEOUT_S, "signature": "version 4"}

    def version(self) -> str:
        """Of the engine."""
        return f"Python {platform.python_version()} http.client"

    def recorded(self) -> Stratum:
        """The stratum in the point's store, whose operations are recorded one by one."""
        return self.zero

    def close(self) -> None:
        for stratum in self.strata:
            stratum.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class ObstorePublishClient(PublishClient):
    """By the library obstore."""

    def kind(self) -> type[Stratum]:
        from storelab.workloads.distribution.by_obstore import ObstoreStratum

        return ObstoreStratum

    def version(self) -> str:
        return f"obstore {importlib.metadata.version('obstore')}"


class ReplicateClient(PublishClient):
    """Publishes to a second store, and replicates each day from there to the point's store."""

    def open(self) -> None:
        from storelab.workloads.distribution.replicator import Replicator

        place, keys = self.job.extra["stratum0"], Credentials.found(os.environ, BESIDE)
        self.zero = self.stratum(Endpoint(**place["endpoint"]), Bucket(**place["bucket"]), keys, limited=False)
        self.one = self.stratum(self.job.endpoint, self.job.own_buckets[0], Credentials.found(os.environ), limited=True)
        self.replicator = Replicator(self.zero, self.one, self.settings.repository, self.axes["workers"])

    def one_day(self, n: int) -> bool:
        if not super().one_day(n):
            return False
        return self.tried(n, 1, [self.one, self.zero], self.replicator.run, {}) != CUT

    def recorded(self) -> Stratum:
        return self.one

"""`probe`: make the capability table, which shows what a store supports (evaluations 2012-2015, "S3 functions").

Every answer is verified. Speed is not measured: a point has no rate, and its answers are in `answers.<client>.parquet`.
A point ends after the last question, or at the deadline; the remaining questions are `not tried`.

A protocol is one module with `QUESTIONS` and `CONTEXT`, and one line in this file. A new question is a function and its
entry in `QUESTIONS`. Topic and name are its place in the capability table and never change.
"""

import importlib
import re
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from storelab.core import axes, clock
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.engines import contract
from storelab.engines.contract import Client, GangJob, Result
from storelab.stores.base import ERROR, NOT_TRIED, AdminAnswer, Store
from storelab.stores.managed.accounts import QUESTIONS
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.base import Made, Workload
from storelab.workloads.staging import buckets, written

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.stores.protocols.access import Access, Ours
    from storelab.workloads.probe.answers import Check


SPARE = 100_000  # number of the first bucket that the probe makes; sweeps have far fewer buckets
MAX_BYTES = 64 * 10**6  # maximum size of an object of the probe
# number of buckets in addition to the counted ones: one for short uses, one with versions, one that is public
SPECIAL = 3


PROTOCOLS = {"s3": "s3", "http": "http", "webhdfs": "webhdfs", "file": "files", "root": "root"}  # protocol -> module


def ask_administration(store: Store) -> list[AdminAnswer]:
    """Return the answer of the store's administration to each question, for every store.

    If a tool fails, the answer is `error`, because this shows nothing about the system.
    """
    without = f"storelab runs {store.settings.kind} without users"
    why = without if store.managed else "storelab may not use the administration of this store"
    try:
        return store.administration() or [AdminAnswer(name, NOT_TRIED, why) for name in QUESTIONS]
    except Exception as error:  # noqa: BLE001  an error here must not end the probe
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
        return [AdminAnswer(name, ERROR, why) for name in QUESTIONS]


def _module(protocol: str) -> Any:
    """Return the module of a protocol. It is imported only here, because some protocols need additional libraries."""
    return importlib.import_module(f"storelab.workloads.probe.{PROTOCOLS[protocol]}")


def checks(protocol: str) -> "list[Check]":
    """Return all questions of a protocol, in their order."""
    from storelab.workloads.probe.answers import Check

    return [Check(topic, name, ask) for (topic, name), ask in _module(protocol).QUESTIONS.items()]


class ProbeClient(Client):
    """A client that asks one question after another.

    Only the first client asks questions that need separate buckets.
    """

    def prepare(self) -> None:
        self.checks = [
            c
            for c in checks(self.job.endpoint.protocol)
            if self.job.client == 0 or c.topic not in ("buckets", "versioning")
        ]
        self.context = _module(self.job.endpoint.protocol).CONTEXT(self.job)
        self.asked: list[Any] = []

    def run(self, start_ns: int, deadline_ns: int) -> None:
        from storelab.workloads.probe import answers

        hidden = self.context.secrets()
        for check in self.checks:
            self.asked.append(answers.ask_question(check, self.context, deadline_ns, hidden))

    def result(self) -> Result:
        from storelab import __version__
        from storelab.workloads.probe.answers import TimedAnswer

        now = clock.now_ns()
        administration = self.job.extra.get("administration", []) if self.job.client == 0 else []
        self.asked += [
            TimedAnswer("administration", t["check"], t["answer"], t["evidence"], now, now) for t in administration
        ]
        n = len(self.asked)
        columns = {
            "client": [self.job.client] * n,
            "topic": [a.topic for a in self.asked],
            "check": [a.check for a in self.asked],
            "answer": [a.answer for a in self.asked],
            "evidence": [a.evidence for a in self.asked],
            "start_ns": [a.start_ns for a in self.asked],
            "end_ns": [a.end_ns for a in self.asked],
        }
        return Result(
            {
                **{name: columns[name] for name in ("client", "start_ns", "end_ns")},
                "op": ["PROBE"] * n,
                "count": [1] * n,
                "bytes": [0] * n,  # a probe moves bytes but has no throughput
                "status": [0] * n,
            },
            engine={
                "name": "wire",
                "version": __version__,
                "settings": {"protocol": self.job.endpoint.protocol, "redirects": "not followed", "retries": 0},
                "requests_per_operation": {},
                "details": {f"{a.topic}: {a.check}": a.detail for a in self.asked if a.detail},
            },
            tables={"answers": columns},
            checks=[contract.Check("asked", n == len(self.checks) + len(administration), f"{n} questions")],
        )

    def close(self) -> None:
        if hasattr(self, "context"):
            self.context.close()


def _spares(config: "Config", store: Store, point: Point) -> dict[str, Any]:
    """Return {spare_buckets, why_none}: names of buckets for the probe, which belong to the first account."""
    if store.protocol != "s3":
        return {"spare_buckets": [], "why_none": "the store has folders instead of buckets"}
    if getattr(store.settings, "bucket", None):
        return {"spare_buckets": [], "why_none": "storelab may not make buckets here: the store's `bucket` is set"}
    room = config.limits.buckets - len(buckets.campaign_buckets(store, config.name))
    if room < 1:
        return {"spare_buckets": [], "why_none": "limits.buckets allows no further bucket"}
    counted = min(point.axes["max_buckets"], room)
    return {
        "spare_buckets": [store.bucket(config.name, SPARE + i, 0).name for i in range(SPECIAL + counted)],
        "why_none": "",
    }


def tidy(store: Store, campaign: str, places: list[Bucket], ours: "Ours") -> int:
    """Remove the objects of probes that are `ours`, and the buckets that a probe made. Return the number of objects.

    Buckets with foreign content are not removed.
    """
    from storelab.workloads.probe.context import PREFIX

    ways = buckets.accesses(store, places)
    gone = 0
    for place in places:
        gone += buckets.delete_prefix(ways[place.account], place, PREFIX, ours=ours).objects
    if store.protocol == "s3" and not getattr(store.settings, "bucket", None):
        first = store.bucket(campaign, SPARE, 0).name
        for bucket in buckets.campaign_buckets(store, campaign):
            number = bucket.name.rpartition("-")[2]
            if bucket.account == 0 and len(bucket.name) == len(first) and number.isdigit() and int(number) >= SPARE:
                gone += _drop(ways.get(0) or store.access(0), bucket, ours)
    return gone


def _drop(access: "Access", bucket: Bucket, ours: "Ours") -> int:
    """Delete a marked bucket of the probe with the probe's objects, including versions."""
    from botocore.exceptions import ClientError

    if any(not ours(bucket.name, key, size) for key, size in buckets.list_keys(access, bucket)):
        return 0  # it has foreign objects, which `storelab clean` reports
    with suppress(ClientError):
        getattr(access, "way", access).s3.delete_bucket_policy(Bucket=bucket.name)  # only S3 has such buckets
    return buckets.drop(access, bucket, ours).objects


class Probe(Workload):
    """The workload that checks which operations of its protocol a store supports."""

    def expected_objects(self, point: Point, attempt: str) -> list[Made]:
        from storelab.workloads.probe import context

        begin = re.escape(context.folder_of(attempt))
        return [
            Made(begin + context.KNOWN, context.SIZE, context.SIZE),
            Made(rf"{begin}(?P<client>0|[1-9]\d*)/.+", 0, MAX_BYTES),
            Made("|".join(map(re.escape, context.IN_SPARES)), 0, context.SIZE, rf".+-[1-9]\d{{{len(str(SPARE)) - 1}}}"),
        ]

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Make the buckets, write the known object into each, and collect facts for the clients.

        The facts are names of buckets that the probe may make, and the answers of the store's administration.
        """
        from storelab.workloads.probe import context

        places = job.buckets
        buckets.prepare(config, store, places)
        ways = buckets.accesses(store, places)
        tidy(store, config.name, places, written.noted(config, store))  # remove what a killed attempt left
        for place in places:
            ways[place.account].write(
                place.name,
                place.prefix + context.folder_of(job.attempt) + context.KNOWN,
                context.known_body(point.seed),
            )
        job.extra = {
            "campaign": config.name,
            "writer": written.writer(config, store),
            "administration": [asdict(t) for t in ask_administration(store)],
            **_spares(config, store, point),
        }

    def after(self, store: Store, point: Point, job: GangJob, folder: Any) -> list[dict[str, Any]]:
        """Remove only what the probe left.

        If a store cannot delete, this is an answer of the probe and not a failure.
        """
        try:
            ours = written.written_by(store, point, job.attempt, self.expected_objects(point, job.attempt))
            left = tidy(store, job.extra["campaign"], job.buckets, ours)
            detail = f"{left} objects of the probe removed"
        except (UserError, MeasurementFailed) as error:
            detail = f"not everything could be removed, `storelab clean` tries again: {error}"
        return [asdict(contract.Check("removed", True, detail))]


PROBE = Probe(
    "probe",
    (
        axes.engine(
            "probe", "wire", "Program or library that sends requests: plain HTTP, the client of XRootD, or POSIX calls."
        ),
        axes.MAX_BUCKETS,
        axes.CLIENTS,
        axes.FRONT_ENDS,
        axes.ACCOUNTS,
        *axes.DEPLOYMENT,
    ),
    "Capabilities of the store: every question of the capability table is asked, and each answer is verified.",
    direction="write",
    needs=("second_account",),
)

"""`probe`: the capability table: what a store can do, each answer verified (evaluations 2012-2015, "S3 functions").

Not a measurement of speed: a point has no rate, its answers are in `answers.<client>.parquet`. Ends when all is asked,
at the latest at the deadline; what was not asked by then is `not tried`. A protocol is one module with `QUESTIONS` and
`CONTEXT`, and one line here. A new question is a function and its entry in `QUESTIONS`; topic and name are its place in
the capability table and never change.
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
from storelab.stores.base import ERROR, NOT_TRIED, Store, Told
from storelab.stores.managed.accounts import QUESTIONS
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.base import Made, Workload
from storelab.workloads.staging import buckets, written

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.stores.protocols.access import Access, Ours
    from storelab.workloads.probe.answers import Check


SPARE = 100_000  # number of the first bucket that the probe makes for itself: no sweep comes near
MOST_BYTES = 64 * 10**6  # no object of the probe is longer
SPECIAL = 3  # of them, beside those that are counted: one for short uses, one with versions, one that is public


PROTOCOLS = {"s3": "s3", "http": "http", "webhdfs": "webhdfs", "file": "files", "root": "root"}  # -> module


def ask_administration(store: Store) -> list[Told]:
    """Return an answer of the store's administration to each question, whatever the store. A tool that fails is an
    `error`: it says nothing of what the system can do."""
    without = f"storelab runs {store.settings.kind} without users"
    why = without if store.managed else "no administration that storelab may use"
    try:
        return store.administration() or [Told(name, NOT_TRIED, why) for name in QUESTIONS]
    except Exception as error:  # noqa: BLE001  a question next to the probe itself
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
        return [Told(name, ERROR, why) for name in QUESTIONS]


def _module(protocol: str) -> Any:
    """Return the module of a protocol; it is imported only now, for some need libraries that others lack."""
    return importlib.import_module(f"storelab.workloads.probe.{PROTOCOLS[protocol]}")


def checks(protocol: str) -> "list[Check]":
    """Return all questions of a protocol, in the order of asking."""
    from storelab.workloads.probe.answers import Check

    return [Check(topic, name, ask) for (topic, name), ask in _module(protocol).QUESTIONS.items()]


class ProbeClient(Client):
    """Asks one question after the other. Clients behind the first ask only what does not need buckets of their own."""

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
            self.asked.append(answers.ask(check, self.context, deadline_ns, hidden))

    def result(self) -> Result:
        from storelab import __version__
        from storelab.workloads.probe.answers import Asked

        now = clock.now_ns()
        told = self.job.extra.get("administration", []) if self.job.client == 0 else []
        self.asked += [Asked("administration", t["check"], t["answer"], t["evidence"], now, now) for t in told]
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
                "bytes": [0] * n,  # a probe moves bytes and has no throughput
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
            checks=[contract.Check("asked", n == len(self.checks) + len(told), f"{n} questions")],
        )

    def close(self) -> None:
        if hasattr(self, "context"):
            self.context.close()


def _spares(config: "Config", store: Store, point: Point) -> dict[str, Any]:
    """{spare_buckets, why_none}: names of buckets for the probe, all of the first account."""

    if store.protocol != "s3":
        return {"spare_buckets": [], "why_none": "the store has folders instead of buckets"}
    if getattr(store.settings, "bucket", None):
        return {"spare_buckets": [], "why_none": "storelab may not make buckets here: the store's `bucket` is set"}
    room = config.limits.buckets - len(buckets.own_buckets(store, config.name))
    if room < 1:
        return {"spare_buckets": [], "why_none": "limits.buckets allows no further bucket"}
    counted = min(point.axes["most_buckets"], room)
    return {
        "spare_buckets": [store.bucket(config.name, SPARE + i, 0).name for i in range(SPECIAL + counted)],
        "why_none": "",
    }


def tidy(store: Store, campaign: str, places: list[Bucket], ours: "Ours") -> int:
    """Remove the objects of probes that are `ours`, and every bucket that a probe made, unless it holds something else;
    returns the number of objects."""
    from storelab.workloads.probe.context import PREFIX

    ways = buckets.accesses(store, places)
    gone = 0
    for place in places:
        gone += buckets.delete_prefix(ways[place.account], place, PREFIX, ours=ours).objects
    if store.protocol == "s3" and not getattr(store.settings, "bucket", None):
        first = store.bucket(campaign, SPARE, 0).name
        for bucket in buckets.own_buckets(store, campaign):
            number = bucket.name.rpartition("-")[2]
            if bucket.account == 0 and len(bucket.name) == len(first) and number.isdigit() and int(number) >= SPARE:
                gone += _drop(ways.get(0) or store.access(0), bucket, ours)
    return gone


def _drop(access: "Access", bucket: Bucket, ours: "Ours") -> int:
    """A marked bucket of the probe with what the probe put there, versions too."""
    from botocore.exceptions import ClientError

    if any(not ours(bucket.name, key, size) for key, size in buckets.list_keys(access, bucket)):
        return 0  # of somebody else: `storelab clean` tells of it
    with suppress(ClientError):
        getattr(access, "way", access).s3.delete_bucket_policy(Bucket=bucket.name)  # only S3 has such buckets
    return buckets.drop(access, bucket, ours).objects


class Probe(Workload):
    def makes(self, point: Point, attempt: str) -> list[Made]:
        from storelab.workloads.probe import context

        begin = re.escape(context.folder_of(attempt))
        return [
            Made(begin + context.KNOWN, context.SIZE, context.SIZE),
            Made(rf"{begin}(?P<client>0|[1-9]\d*)/.+", 0, MOST_BYTES),
            Made("|".join(map(re.escape, context.IN_SPARES)), 0, context.SIZE, rf".+-[1-9]\d{{{len(str(SPARE)) - 1}}}"),
        ]

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Buckets, the known object in each, names that the probe may make buckets of, what the store's administration
        tells."""
        from storelab.workloads.probe import context

        places = job.buckets
        buckets.prepare(config, store, places)
        ways = buckets.accesses(store, places)
        tidy(store, config.name, places, written.noted(config, store))  # of an attempt that was killed
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
        """Remove what the probe left, and only that. That a store does not delete is an answer of the probe, no
        failure of the point."""
        try:
            ours = written.of_attempt(store, point, job.attempt, self.makes(point, job.attempt))
            left = tidy(store, job.extra["campaign"], job.buckets, ours)
            detail = f"{left} objects of the probe removed"
        except (UserError, MeasurementFailed) as error:
            detail = f"not all could be removed, `storelab clean` tries again: {error}"
        return [asdict(contract.Check("removed", True, detail))]


PROBE = Probe(
    "probe",
    (
        axes.engine("probe", "wire", "What asks: plain HTTP without an SDK; XRootD's own client; POSIX calls."),
        axes.MOST_BUCKETS,
        axes.CLIENTS,
        axes.FRONT_ENDS,
        axes.ACCOUNTS,
        *axes.DEPLOYMENT,
    ),
    "What the store can do: every question of the capability table, each answer verified. No speed is measured.",
    direction="write",
    needs=("second_account",),
)

"""Workloads for the distribution of software: `publish`, `replicate`, `collect_garbage` and `launch`.

A nightly release is published day by day to stratum 0, and copied to stratum 1 on another store (experiment 14 of the
evaluations, figure 15 of J. Phys. Conf. Ser. 664 022001). Objects that only older days need are found and deleted while
other roles upload (experiment 15, figure 16). Clients repeatedly start an application from a repository, optionally
through a cache.
"""

from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import axes, records
from storelab.core.axes.distribution import CVMFS, MAX_BYTES, NOWHERE, PATTERNS, SQUID, TUNED, days_of, objects_of
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.datasets.release import names
from storelab.engines.common.objects import put_prefix
from storelab.engines.contract import Check, GangJob
from storelab.stores.base import Store
from storelab.stores.protocols.access import AccessRefused
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.base import Made, Workload, refuse
from storelab.workloads.objects import MAX_BATCH
from storelab.workloads.staging import buckets

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.workloads.distribution.proof import Staged
    from storelab.workloads.distribution.served import Opened
    from storelab.workloads.distribution.squid import Squid

TOOL = "cvmfs"  # engine with the real tool
TRIAL = ".cvmfstrial"  # object that exists only during the test of public read access
LEVEL = 6  # zlib level of the tool, which cannot be changed
MAX_LISTED = 60_000  # maximum number of files of all applications in the job
LOCAL = "local"  # kind of a launcher


@dataclass
class Attempt:
    """The open resources of an attempt until `cleanup`, and its findings."""

    opened: "Opened | None" = None  # the repository while it is publicly readable
    cache: "Squid | None" = None
    cache_counts: dict[str, Any] = field(default_factory=dict)
    zero: Store | None = None  # stratum 0 of a replication
    staged: "Staged | None" = None  # content before the garbage collection
    collection: dict[str, Any] | None = None  # observations after the garbage collection


_attempts: dict[str, Attempt] = {}


def _attempt(job: GangJob) -> Attempt:
    return _attempts.setdefault(job.attempt, Attempt())


def _refuse_days(point: Point) -> None:
    """Raise UserError if a point uses more days than the release has."""
    from storelab.core.campaign.release import Release

    days, most = point.axes["days"], Release.model_validate(point.fixed["release"]).all_days
    hint = "set fewer days, or increase `release.days`"
    refuse(point, ("days", days > most, f"{days} days are more than the {most} days of the release", hint))


class Distribution(Workload):
    """The base class of workloads that publish a repository or read from one."""

    def cleanup(self, job: GangJob) -> None:
        """Stop the cache, and end public access to the repository."""
        attempt = _attempts.pop(job.attempt, Attempt())
        if attempt.cache:
            attempt.cache.stop()
        if attempt.opened:
            with suppress(MeasurementFailed):  # the policy cannot be removed if the store is down
                attempt.opened.close()


class Publish(Distribution):
    """The workload in which one publisher adds the days of a release to a repository."""

    number = 0  # number of the stratum in the point's store

    def one_release(self, point: Point) -> None:
        """Raise UserError if the point has more days than the release, or several clients."""
        _refuse_days(point)
        clients, hint = point.axes["clients"], "remove this axis; `workers` sets the number of connections"
        refuse(
            point,
            ("clients", clients > 1, f"{clients} clients are too many: a repository has only one publisher", hint),
        )

    def validate(self, point: Point) -> None:
        given = point.axes
        try:
            days_of(given["expired"])
        except ValueError:
            hint = "write it like 22-25, or none"
            refuse(point, ("expired", True, f"{given['expired']!r} is not a day or a range of days", hint))
        self.one_release(point)
        default_way = given["engine"] == "obstore" and (given["pattern"] != TUNED or given["expired"] != NOWHERE)
        problem = "obstore signs requests itself, and sends no x-amz-acl"
        refuse(
            point, ("engine", default_way, problem, "use the engine `wire`, or the pattern `tuned` without `expired`")
        )
        if given["engine"] == TOOL:
            self.by_the_tool(point)
        most = PATTERNS[given["pattern"]].most
        problem = f"{given['workers']} connections, but pattern {given['pattern']} has at most {most}"
        refuse(
            point, ("workers", bool(most and given["workers"] > most), problem, "set fewer, or use the pattern `tuned`")
        )

    def by_the_tool(self, point: Point) -> None:
        """Raise UserError for values that the real tool does not support."""
        given = point.axes
        refuse(
            point,
            ("pattern", given["pattern"] != CVMFS, "cvmfs_swissknife has only one pattern", "use the pattern `cvmfs`"),
            (
                "expired",
                given["expired"] != NOWHERE,
                "cvmfs_swissknife signs with today's date",
                "use the engine `wire`",
            ),
            ("scheme", given["scheme"] == "https", "cvmfs_swissknife uses HTTP here", "set the scheme to http"),
        )
        if (level := point.fixed["release"]["zlib_level"]) != LEVEL:
            problem = f"{level}, but cvmfs_swissknife compresses at level {LEVEL}"
            raise UserError("release.zlib_level", problem, f"set it to {LEVEL}, or use the engine `wire`")

    def expected_objects(self, point: Point, attempt: str) -> list[Made]:
        return [Made(objects_of(put_prefix(attempt), point.fixed["release"]["repository"]), 1, MAX_BYTES)]

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Make the bucket.

        The real tool reads without a signature, so the prefix of the attempt is made public for it.
        """
        places = job.buckets
        buckets.prepare(config, store, places)
        if point.axes["engine"] != TOOL:
            return
        from storelab.workloads.distribution import served

        place, prefix, access = places[0], put_prefix(job.attempt), store.access(places[0].account)
        trial = f"{point.fixed['release']['repository']}/{TRIAL}"
        key, what = f"{place.prefix}{prefix}{trial}", "with engine `cvmfs`"
        access.write(place.name, key, b"anybody may read this")
        try:
            opened = served.Opened(store, store.endpoints(1)[0], place, prefix, trial, what)
        finally:
            access.delete(place.name, [key])
        _attempt(job).opened = opened
        job.extra = {"url": opened.url}

    def after(self, store: Store, point: Point, job: GangJob, folder: Path) -> list[dict[str, Any]]:
        """Check that all objects that the manifest needs, and all acknowledged objects, can be read."""
        return [self._proof(store, job.buckets[0], point, job, folder, self.number)]

    def _proof(
        self, store: Store, bucket: Bucket, point: Point, job: GangJob, folder: Path, number: int
    ) -> dict[str, Any]:
        from storelab.workloads.distribution import proof

        fetch = proof.reader(store.access(bucket.account), bucket, put_prefix(job.attempt))
        sent = []
        if number == self.number:  # keys of uploads that succeeded according to the record
            table = records.read_table(sorted(folder.glob("ops.*.parquet")), ["object", "op", "error"])
            rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
            sent = [key for key, op, error in rows if error is None and op == "PUT" and key is not None]
        days = records.read_table(sorted(folder.glob("days.*.parquet"))).to_pydict()
        repository = point.fixed["release"]["repository"]
        return proof.stratum(f"stratum {number}", fetch, repository, proof.last_day(days, number), sent)


class Replicate(Publish):
    """The workload that copies a published repository from one store (stratum 0) to another store (stratum 1)."""

    number = 1

    def second_store(self, point: Point) -> str:
        return "" if point.axes["stratum0"] == NOWHERE else str(point.axes["stratum0"])

    def validate(self, point: Point) -> None:
        super().validate(point)
        zero, both = self.second_store(point), f"both strata are on {point.store}"
        refuse(
            point,
            ("stratum0", not zero, "the store to replicate from is not set", "set it to another store of `stores`"),
            ("stratum0", zero == point.store, both, "set another store, or remove this one from the sweep"),
        )

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Make a bucket on stratum 0 too. The objects that will be written there are recorded first."""
        from storelab.core.campaign.release import a_day
        from storelab.stores import all_stores
        from storelab.workloads.staging import left_over, stage, written

        super().before(config, store, point, job)
        _attempt(job).zero = zero = all_stores(config)[self.second_store(point)]
        place = stage.buckets_of(config, zero, 1)[0]
        left_over.remove(config, zero)
        left_over.add(config, zero.name, point, a_day(point.fixed["release"])[1] * point.axes["days"], 1)
        written.note_attempt(config, zero, job.attempt, point, self.expected_objects(point, job.attempt))
        buckets.prepare(config, zero, [place])
        endpoint = zero.endpoints(1)[0]
        job.extra = {"stratum0": {"endpoint": asdict(endpoint), "bucket": asdict(place)}}

    def after(self, store: Store, point: Point, job: GangJob, folder: Path) -> list[dict[str, Any]]:
        """Check that both strata can be read."""
        place, zero = Bucket(**job.extra["stratum0"]["bucket"]), _attempt(job).zero
        assert zero is not None
        return [self._proof(zero, place, point, job, folder, 0), *super().after(store, point, job, folder)]

    def observe(self, store: Store, point: Point, job: GangJob, folder: Path) -> dict[str, Any]:
        """Return `stratum0`, a description of the second store in the format of `store` in the record."""
        zero = _attempt(job).zero
        assert zero is not None
        facts = {"name": zero.name, "kind": zero.settings.kind, "version": zero.version()}
        return {"stratum0": facts | {"on_this_host": zero.on_this_host(), "deployment": zero.deployment()}}


class CollectGarbage(Publish):
    """The workload that collects garbage: it deletes objects of a repository that none of the kept days needs."""

    def validate(self, point: Point) -> None:
        self.one_release(point)
        given = point.axes
        keep, batch, untuned = given["keep"], given["batch"], given["pattern"] != TUNED
        many = f"{batch} objects are more than one request may delete"
        one = f"{batch} objects per request, but pattern {given['pattern']} deletes one per request"
        none = f"{keep} of {given['days']} days are kept, so there is no garbage"
        obstore = given["engine"] == "obstore"
        refuse(
            point,
            ("keep", keep >= given["days"], none, "keep fewer days, or set more `days`"),
            ("batch", batch > MAX_BATCH, many, f"set at most {MAX_BATCH}"),
            ("batch", batch > 1 and untuned, one, f"use the pattern `{TUNED}`, or a batch of 1"),
            (
                "engine",
                obstore and untuned,
                "obstore sends no x-amz-acl",
                f"use the engine `wire`, or the pattern `{TUNED}`",
            ),
        )

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Publish the days, which is not measured. Raises UserError if objects in the store cannot be deleted."""
        from storelab.core.campaign.release import Release
        from storelab.host import scratch
        from storelab.workloads.distribution import garbage
        from storelab.workloads.staging import left_over

        super().before(config, store, point, job)
        bucket, prefix = job.buckets[0], put_prefix(job.attempt)
        settings = Release.model_validate(point.fixed["release"])
        _must_delete(store, bucket, prefix, settings.repository)
        note = partial(left_over.add, config, store.name, point)
        days, keep, folder = point.axes["days"], point.axes["keep"], scratch.folder(config.scratch)
        _attempt(job).staged = garbage.stage_days(store, bucket, prefix, settings, days, keep, folder, note)

    def after(self, store: Store, point: Point, job: GangJob, folder: Path) -> list[dict[str, Any]]:
        """Check that all live objects exist and are undamaged, and that no dead object exists."""
        from storelab.workloads.distribution import proof

        bucket, prefix, attempt = job.buckets[0], put_prefix(job.attempt), _attempt(job)
        access = store.access(bucket.account)
        assert attempt.staged is not None

        def listed() -> list[str]:
            return [key[len(bucket.prefix + prefix) :] for key, _ in buckets.list_keys(access, bucket, prefix)]

        fetch, repository = proof.reader(access, bucket, prefix), point.fixed["release"]["repository"]
        attempt.collection, checks = proof.look(attempt.staged, point.axes["keep"], repository, fetch, listed)
        return checks

    def observe(self, store: Store, point: Point, job: GangJob, folder: Path) -> dict[str, Any]:
        """Return `collection`: the counts of live and dead objects, and the findings about them."""
        return {"collection": _attempt(job).collection}


def _must_delete(store: Store, bucket: Bucket, prefix: str, repository: str) -> None:
    """Raise UserError if an uploaded object cannot be deleted."""
    access, key = store.access(bucket.account), f"{bucket.prefix}{prefix}{repository}/.cvmfspublished"
    access.write(bucket.name, key, b"to be deleted")
    reason = "the object still exists"
    try:
        access.delete(bucket.name, [key])
        if access.read(bucket.name, key) is None:
            return
    except (AccessRefused, MeasurementFailed, UserError) as error:
        reason = str(error) or "403"
    problem = f"objects cannot be deleted, but the workload collects garbage in this store ({reason})"
    raise UserError(f"stores.{store.name}", problem, "remove the sweep, or remove the store from it")


class Launch(Distribution):
    """The workload in which clients start applications from a published repository."""

    def validate(self, point: Point) -> None:
        from storelab.workloads.distribution import launch

        _refuse_days(point)
        given = point.axes
        files = given["applications"] * given["start_files"] * launch.MAX_FILES_RATIO
        many = f"{given['applications']} applications of {given['start_files']} files are too many for a job"
        secret = given["http_cache"] == SQUID and given["scheme"] == "https"
        hint = "set scheme to http, or http_cache to none"
        refuse(
            point,
            (
                "applications",
                files > MAX_LISTED,
                many,
                f"keep their product below {MAX_LISTED / launch.MAX_FILES_RATIO:.0f}",
            ),
            ("http_cache", secret, "https bypasses an HTTP cache", hint),
        )

    def require(self, point: Point) -> None:
        if point.axes["http_cache"] == SQUID:
            from storelab.workloads.distribution import squid

            squid.installed(f"sweeps.{point.sweep}.axes.http_cache")

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Stage the repository, make it public, choose the applications, and start an empty cache if requested."""
        from storelab.workloads.distribution import launch, proof, served, squid

        given, release = point.axes, point.fixed["release"]
        elsewhere = given["http_cache"] == SQUID and config.launcher.kind != LOCAL
        problem = "the cache is only accessible on this host, but the clients run on other nodes"
        refuse(point, ("http_cache", elsewhere, problem, "use the launcher local, or set http_cache to none"))
        at = served.ensure(config, store, release, given["days"])
        fetch = proof.reader(store.access(at.bucket.account), at.bucket, at.prefix)
        chosen = []
        try:
            for number in range(given["applications"]):
                chosen.append(
                    launch.choose(at.root, fetch, at.repository, release["seed"], number, given["start_files"])
                )
        except LookupError as error:
            refuse(point, ("days", True, str(error), "use a release with files"))
        trial, attempt = f"{at.repository}/{names.MANIFEST}", _attempt(job)
        attempt.opened = served.Opened(store, store.endpoints(1)[0], at.bucket, at.prefix, trial)
        if given["http_cache"] == SQUID:
            attempt.cache = squid.Squid(attempt.opened.url, f"sweeps.{point.sweep}.axes.http_cache")
        job.extra = {
            "url": attempt.opened.url,
            "proxy": attempt.cache.url if attempt.cache else "",
            "repository": at.repository,
            "applications": [asdict(one) for one in chosen],
        }

    def after(self, store: Store, point: Point, job: GangJob, folder: Path) -> list[dict[str, Any]]:
        """Check that all requests went through the cache."""
        attempt = _attempt(job)
        if attempt.cache is None:
            return []
        attempt.cache_counts = counts = attempt.cache.record()
        statuses = records.read_table(sorted(folder.glob("ops.*.parquet")), ["status"])["status"].to_pylist()
        sent = sum(status is not None and status > 0 for status in statuses)  # number of requests that were answered
        counted = f"{sent} requests sent, {counts['requests']} counted by the cache, {counts['hits']} of them hits"
        return [asdict(Check("through the cache", counts["requests"] >= sent, counted))]

    def observe(self, store: Store, point: Point, job: GangJob, folder: Path) -> dict[str, Any]:
        """Return the applications, and the counts of the cache."""
        chosen = [{"catalogs": a["catalogs"], "files": len(a["files"])} for a in job.extra["applications"]]
        counts = _attempt(job).cache_counts
        return {"applications": chosen} | ({"http_cache": counts} if counts else {})


_AXES = (
    axes.PATTERN,
    axes.DAYS,
    axes.EXPIRED,
    replace(axes.CLIENTS, help="A repository has one publisher: 1."),
    replace(axes.WORKERS, default=16, help="Connections; at most 16 with pattern `cvmfs`."),
)
PUBLISH = Publish(
    "publish",
    (
        axes.engine(
            "publish",
            "wire",
            "Program or library that sends requests: `wire`: plain signed S3 requests; `obstore`: less "
            "CPU; `cvmfs`: the real tool.",
        ),
        *_AXES,
        *axes.DEPLOYMENT,
    ),
    "Publication of a nightly software release (`release`) day by day, as in CernVM-FS.",
    direction="write",
    needs=("release",),
    finishes=True,
)
REPLICATE = Replicate(
    "replicate",
    (
        axes.engine("replicate", "wire", "Program or library that sends requests: plain signed S3 requests."),
        axes.STRATUM0,
        *_AXES,
        *axes.DEPLOYMENT,
    ),
    "Publication to a second store, and replication from there day by day, by manifest and catalogs.",
    direction="write",
    needs=("release",),
    finishes=True,
)
COLLECT_GARBAGE = CollectGarbage(
    "collect_garbage",
    (
        axes.engine(
            "collect_garbage",
            "wire",
            "Program or library that sends requests: plain signed S3 requests, or obstore with less CPU.",
        ),
        replace(
            axes.PATTERN,
            help="`cvmfs`: x-amz-acl on every request, and a retry delays all others; `tuned`: neither.",
        ),
        replace(axes.DAYS, help="Number of days of the release that are published before the measurement."),
        axes.KEEP,
        replace(
            axes.BATCH, help="1: one DELETE per object; more: one DeleteObjects request for this number of objects."
        ),
        replace(axes.CLIENTS, help="A repository has one collector: 1."),
        replace(axes.WORKERS, default=400, help="Requests in flight, each over its own connection."),
        *axes.DEPLOYMENT,
    ),
    "Deletion of objects that only older days of a release need, as in CernVM-FS.",
    direction="write",
    needs=("release",),
    finishes=True,
)
LAUNCH = Launch(
    "launch",
    (
        axes.engine("launch", "wire", "Program or library that sends requests: plain unsigned GET requests."),
        replace(axes.DAYS, default=1, help="Number of days after which the release is read."),
        axes.START_FILES,
        axes.APPLICATIONS,
        axes.CLIENT_CACHE,
        axes.HTTP_CACHE,
        axes.CLIENTS,
        replace(
            axes.WORKERS,
            default=1,
            help="Number of GET requests of files that a start has in flight; CernVM-FS uses 1.",
        ),
        *axes.DEPLOYMENT,
    ),
    "Repeated starts of an application from a published release: manifest, catalogs, files; cold or warm, with or "
    "without an HTTP cache.",
    needs=("release",),
)

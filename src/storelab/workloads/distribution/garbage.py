"""`collect_garbage`: what only older days of a release need is found and deleted, while other roles upload (experiment
15 of the evaluations, figure 16 of J. Phys. Conf. Ser. 664 022001).
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import axes
from storelab.core.axes.distribution import TUNED
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.engines.common.objects import put_prefix
from storelab.stores.base import Store
from storelab.stores.protocols.access import AccessRefused
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.distribution.workload import Publish
from storelab.workloads.objects.delete import MOST_BATCH
from storelab.workloads.staging import buckets

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.engines.contract import GangJob
    from storelab.workloads.distribution.staged import Staged

_staged: dict[str, "Staged"] = {}  # attempt -> what was there before its collection
_counts: dict[str, dict[str, Any]] = {}  # attempt -> what was seen afterwards


class CollectGarbage(Publish):
    def possible(self, point: Point) -> None:
        self.one_release(point)
        place, given = f"sweeps.{point.sweep}.axes", point.axes
        if given["keep"] >= given["days"]:
            problem = f"{given['keep']} of {given['days']} days are kept: nothing is garbage"
            raise UserError(f"{place}.keep", problem, "keep fewer, or publish more `days`")
        if given["batch"] > MOST_BATCH:
            problem = f"{given['batch']} objects are more than one request may delete"
            raise UserError(f"{place}.batch", problem, f"at most {MOST_BATCH}")
        if given["batch"] > 1 and given["pattern"] != TUNED:
            problem = f"{given['batch']} objects in a request, and pattern {given['pattern']} deletes one in each"
            raise UserError(f"{place}.batch", problem, f"sweep pattern `{TUNED}`, or a batch of 1")
        if given["engine"] == "obstore" and given["pattern"] != TUNED:
            problem = "obstore sends no x-amz-acl"
            raise UserError(f"{place}.engine", problem, f"sweep `wire`, or pattern `{TUNED}`")

    def before(self, config: "Config", store: Store, point: Point, job: "GangJob") -> None:
        """Publish the days, which is not measured. Raises UserError where the store deletes nothing."""
        from storelab.core.campaign.release import Release
        from storelab.host import scratch
        from storelab.workloads.distribution import staged
        from storelab.workloads.staging import left_over

        super().before(config, store, point, job)
        bucket, prefix = job.buckets[0], put_prefix(job.attempt)
        settings = Release.model_validate(point.fixed["release"])
        _must_delete(store, bucket, prefix, settings.repository)
        _staged[job.attempt] = staged.days(
            store,
            bucket,
            prefix,
            settings,
            point.axes["days"],
            point.axes["keep"],
            scratch.folder(config.scratch),
            partial(left_over.add, config, store.name, point),
        )

    def after(self, store: Store, point: Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        """Is all that is alive there, and whole, and nothing of the dead?"""
        from storelab.workloads.distribution import collected, proof

        bucket, prefix = job.buckets[0], put_prefix(job.attempt)
        access = store.access(bucket.account)

        def listed() -> list[str]:
            return [key[len(bucket.prefix + prefix) :] for key, _ in buckets.list_keys(access, bucket, prefix)]

        was, fetch = _staged.pop(job.attempt), proof.reader(access, bucket, prefix)
        repository = point.fixed["release"]["repository"]
        _counts[job.attempt], checks = collected.look(was, point.axes["keep"], repository, fetch, listed)
        return checks

    def observe(self, store: Store, point: Point, job: "GangJob", folder: Path) -> dict[str, Any]:
        """`collection`: what was alive and dead, and what was found of both."""
        return {"collection": _counts.pop(job.attempt)}


def _must_delete(store: Store, bucket: Bucket, prefix: str, repository: str) -> None:
    """Raises UserError where an object that is put cannot be deleted."""
    access, key = store.access(bucket.account), f"{bucket.prefix}{prefix}{repository}/.cvmfspublished"
    access.write(bucket.name, key, b"to be deleted")
    told = "the object is still there"
    try:
        access.delete(bucket.name, [key])
        if access.read(bucket.name, key) is None:
            return
    except (AccessRefused, MeasurementFailed, UserError) as error:
        told = str(error) or "403"
    problem = f"deletes nothing, and garbage is to be collected there ({told})"
    raise UserError(f"stores.{store.name}", problem, "leave the sweep out, or the store")


COLLECT_GARBAGE = CollectGarbage(
    "collect_garbage",
    (
        axes.engine("collect_garbage", "wire", "What asks: plain signed S3 requests, or obstore, at less CPU."),
        replace(
            axes.PATTERN,
            help="`cvmfs`: x-amz-acl on every request, and a retry holds up all others; `tuned`: neither.",
        ),
        replace(axes.DAYS, help="So many days of the release are published before it begins, which is not measured."),
        axes.KEEP,
        replace(axes.BATCH, help="1: a DELETE for each object; more: one DeleteObjects request for so many."),
        replace(axes.CLIENTS, help="A repository has one collector: 1."),
        replace(axes.WORKERS, default=400, help="Requests in flight, each over a connection of its own."),
        *axes.DEPLOYMENT,
    ),
    "What only older days of a release need is deleted, as CernVM-FS collects garbage; the days are published before.",
    direction="write",
    needs=("release",),
    finishes=True,
)

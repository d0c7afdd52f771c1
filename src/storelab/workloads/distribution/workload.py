"""`publish` and `replicate`: a nightly release of software, published day by day to stratum 0, and copied to stratum 1
on another store (experiment 14 of the evaluations, figure 15 of J. Phys. Conf. Ser. 664 022001).
"""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import axes
from storelab.core.axes.distribution import NOWHERE, TUNED, days_of
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.engines.common.names import put_prefix
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.base import Made, Workload
from storelab.workloads.distribution import patterns
from storelab.workloads.staging import buckets

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config

MOST_BYTES = 10**9  # of an object: a catalog may be large
_zeros: dict[str, Store] = {}  # attempt -> its stratum 0


def _acknowledged(folder: Path) -> list[str]:
    """Keys of uploads that the record says were done."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    files = [str(path) for path in sorted(folder.glob("ops.*.parquet"))]
    done = pc.field("error").is_null() & (pc.field("op") == "PUT")
    return pq.read_table(files, columns=["object"], filters=done)["object"].to_pylist()


def _days(folder: Path) -> dict[str, list[Any]]:
    import pyarrow.parquet as pq

    return pq.read_table([str(path) for path in sorted(folder.glob("days.*.parquet"))]).to_pydict()


class Publish(Workload):
    number = 0  # of the stratum in the point's store

    def one_release(self, point: Point) -> None:
        """Raises UserError: more days than there are, or more clients than one."""
        from storelab.core.campaign.release import Release

        place, given = f"sweeps.{point.sweep}.axes", point.axes
        if given["days"] > (most := Release.model_validate(point.fixed["release"]).all_days):
            problem = f"{given['days']} days, and the release has {most}"
            raise UserError(f"{place}.days", problem, "ask for fewer, or raise `release.days`")
        if given["clients"] > 1:
            problem = f"{given['clients']} clients, and a repository has one publisher"
            raise UserError(f"{place}.clients", problem, "leave the axis out; `workers` are its connections")

    def possible(self, point: Point) -> None:
        place, given = f"sweeps.{point.sweep}.axes", point.axes
        try:
            days_of(given["expired"])
        except ValueError:
            problem = f"{given['expired']!r} is no day and no span of days"
            raise UserError(f"{place}.expired", problem, "write it like 22-25, or none") from None
        self.one_release(point)
        if given["engine"] == "obstore" and (given["pattern"] != TUNED or given["expired"] != NOWHERE):
            problem = "obstore signs by itself, and sends no x-amz-acl"
            raise UserError(f"{place}.engine", problem, "sweep `wire`, or pattern `tuned` without `expired`")
        most = patterns.PATTERNS[given["pattern"]].most
        if most and given["workers"] > most:
            problem = f"{given['workers']} connections, and pattern {given['pattern']} has {most} at most"
            raise UserError(f"{place}.workers", problem, "sweep fewer, or pattern `tuned`")

    def makes(self, point: Point, attempt: str) -> list[Made]:
        begin = re.escape(put_prefix(attempt)) + re.escape(point.fixed["release"]["repository"])
        return [Made(rf"{begin}/(?:data/[0-9a-f]{{2}}/[0-9a-f]{{38}}[A-Z]?|\.cvmfs[a-z]+)", 1, MOST_BYTES)]

    def before(self, config: "Config", store: Store, point: Point, job: dict[str, Any]) -> None:
        buckets.ensure(store, config.name, [Bucket(**b) for b in job["buckets"]])

    def after(self, store: Store, point: Point, job: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
        """Is all there that the manifest needs, and all that was acknowledged? Everything is read again."""
        return [self._proof(store, Bucket(**job["buckets"][0]), point, job, folder)]

    def _proof(
        self, store: Store, bucket: Bucket, point: Point, job: dict[str, Any], folder: Path, number: int | None = None
    ) -> dict[str, Any]:
        from storelab.workloads.distribution import proof

        number = self.number if number is None else number
        fetch = proof.reader(store.access(bucket.account), bucket, put_prefix(job["attempt"]))
        sent = _acknowledged(folder) if number == self.number else []
        last = proof.last_day(_days(folder), number)
        return proof.stratum(f"stratum {number}", fetch, point.fixed["release"]["repository"], last, sent)


class Replicate(Publish):
    number = 1

    def beside(self, point: Point) -> str:
        return "" if point.axes["stratum0"] == NOWHERE else str(point.axes["stratum0"])

    def possible(self, point: Point) -> None:
        super().possible(point)
        place = f"sweeps.{point.sweep}.axes.stratum0"
        if not self.beside(point):
            raise UserError(place, "no store is named to replicate from", "give another one of `stores`")
        if self.beside(point) == point.store:
            raise UserError(place, f"both strata lie on {point.store}", "name another store, or leave this one out")

    def before(self, config: "Config", store: Store, point: Point, job: dict[str, Any]) -> None:
        """Besides, a bucket on stratum 0; what is about to be written there is noted first."""
        from storelab.core.campaign.release import a_day
        from storelab.stores import all_stores
        from storelab.workloads.staging import left_over, stage, written

        super().before(config, store, point, job)
        _zeros[job["attempt"]] = zero = all_stores(config)[self.beside(point)]
        place = stage.buckets_of(config, zero, 1)[0]
        left_over.remove(config, zero)
        left_over.add(config, zero.name, point, a_day(point.fixed["release"])[1] * point.axes["days"], 1)
        written.note_attempt(config, zero, job["attempt"], point, self.makes(point, job["attempt"]))
        buckets.ensure(zero, config.name, [place])
        endpoint = zero.endpoints(1)[0]
        job["extra"] = {"stratum0": {"endpoint": asdict(endpoint), "bucket": asdict(place)}}

    def after(self, store: Store, point: Point, job: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
        """Both strata are read again."""
        place = Bucket(**job["extra"]["stratum0"]["bucket"])
        return [
            self._proof(_zeros[job["attempt"]], place, point, job, folder, 0),
            *super().after(store, point, job, folder),
        ]

    def observe(self, store: Store, point: Point, job: dict[str, Any], folder: Path) -> dict[str, Any]:
        """`stratum0`: the second store, as `store` of the record tells of the first."""
        zero = _zeros.pop(job["attempt"])
        told = {"name": zero.name, "kind": zero.settings.kind, "version": zero.version()}
        return {"stratum0": told | {"on_this_host": zero.on_this_host(), "deployment": zero.deployment()}}


_AXES = (
    axes.PATTERN,
    axes.DAYS,
    axes.EXPIRED,
    replace(axes.CLIENTS, help="A repository has one publisher: 1."),
    replace(axes.WORKERS, default=16, help="Connections; of the pattern `cvmfs` at most 16."),
)
PUBLISH = Publish(
    "publish",
    (
        axes.engine("publish", "wire", "What asks: plain signed S3 requests, or obstore, at less CPU."),
        *_AXES,
        *axes.DEPLOYMENT,
    ),
    "A nightly release of software (`release`), published day by day as CernVM-FS does.",
    direction="write",
    needs=("release",),
)
REPLICATE = Replicate(
    "replicate",
    (
        axes.engine("replicate", "wire", "What asks: plain signed S3 requests."),
        axes.STRATUM0,
        *_AXES,
        *axes.DEPLOYMENT,
    ),
    "The same, published to a second store and copied from there, day by day, by manifest and catalogs.",
    direction="write",
    needs=("release",),
)

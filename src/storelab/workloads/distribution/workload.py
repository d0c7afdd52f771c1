"""`publish` and `replicate`: a nightly release of software, published day by day to stratum 0, and copied to stratum 1
on another store (experiment 14 of the evaluations, figure 15 of J. Phys. Conf. Ser. 664 022001).
"""

import re
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import axes, records
from storelab.core.axes.distribution import CVMFS, NOWHERE, TUNED, days_of
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.engines.common.objects import put_prefix
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.base import Made, Workload
from storelab.workloads.distribution import patterns
from storelab.workloads.staging import buckets

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.engines.contract import GangJob
    from storelab.workloads.distribution.launch.public import Opened

MOST_BYTES = 10**9  # of an object: a catalog may be large
TOOL = "cvmfs"  # engine: the real tool
TRIAL = ".cvmfstrial"  # object that is there only while it is tried whether anybody may read
LEVEL = 6  # of zlib: the tool has no other
_zeros: dict[str, Store] = {}  # attempt -> its stratum 0
_opened: dict[str, "Opened"] = {}  # attempt -> its repository, open to all


def _acknowledged(folder: Path) -> list[str]:
    """Keys of uploads that the record says were done."""
    table = records.read_table(sorted(folder.glob("ops.*.parquet")), ["object", "op", "error"])
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return [key for key, op, error in rows if error is None and op == "PUT" and key is not None]


def _days(folder: Path) -> dict[str, list[Any]]:
    return records.read_table(sorted(folder.glob("days.*.parquet"))).to_pydict()


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
        if given["engine"] == TOOL:
            self.by_the_tool(point)
        most = patterns.PATTERNS[given["pattern"]].most
        if most and given["workers"] > most:
            problem = f"{given['workers']} connections, and pattern {given['pattern']} has {most} at most"
            raise UserError(f"{place}.workers", problem, "sweep fewer, or pattern `tuned`")

    def by_the_tool(self, point: Point) -> None:
        """Raises UserError: what the real tool does not do, or was never asked to do here."""
        given, place = point.axes, f"sweeps.{point.sweep}.axes"
        refused = (
            ("pattern", given["pattern"] != CVMFS, "cvmfs_swissknife has one way to ask", "sweep pattern `cvmfs`"),
            ("expired", given["expired"] != NOWHERE, "cvmfs_swissknife signs with today's date", "sweep engine `wire`"),
            ("scheme", given["scheme"] == "https", "cvmfs_swissknife speaks HTTP here", "sweep scheme http"),
        )
        for axis, wrong, problem, mend in refused:
            if wrong:
                raise UserError(f"{place}.{axis}", problem, mend)
        if (level := point.fixed["release"]["zlib_level"]) != LEVEL:
            problem = f"{level}, and cvmfs_swissknife compresses at level {LEVEL}"
            raise UserError("release.zlib_level", problem, f"set it to {LEVEL}, or sweep engine `wire`")

    def makes(self, point: Point, attempt: str) -> list[Made]:
        begin = re.escape(put_prefix(attempt)) + re.escape(point.fixed["release"]["repository"])
        return [Made(rf"{begin}/(?:data/[0-9a-f]{{2}}/[0-9a-f]{{38}}[A-Z]?|\.cvmfs[a-z]+)", 1, MOST_BYTES)]

    def before(self, config: "Config", store: Store, point: Point, job: "GangJob") -> None:
        """The real tool reads without a signature: for it, what lies below the attempt's prefix is opened to all."""
        places = job.buckets
        buckets.prepare(config, store, places)
        if point.axes["engine"] != TOOL:
            return
        from storelab.workloads.distribution.launch import public

        place, prefix, access = places[0], put_prefix(job.attempt), store.access(places[0].account)
        trial = f"{point.fixed['release']['repository']}/{TRIAL}"
        key, what = f"{place.prefix}{prefix}{trial}", "with engine `cvmfs`"
        access.write(place.name, key, b"anybody may read this")
        try:
            opened = public.Opened(store, store.endpoints(1)[0], place, prefix, trial, what)
        finally:
            access.delete(place.name, [key])
        _opened[job.attempt] = opened
        job.extra = {"url": opened.url}

    def ended(self, job: "GangJob") -> None:
        if opened := _opened.pop(job.attempt, None):
            with suppress(MeasurementFailed):  # a store that is down has closed it as well as can be
                opened.close()

    def after(self, store: Store, point: Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        """Is all there that the manifest needs, and all that was acknowledged? Everything is read again."""
        return [self._proof(store, job.buckets[0], point, job, folder)]

    def _proof(
        self, store: Store, bucket: Bucket, point: Point, job: "GangJob", folder: Path, number: int | None = None
    ) -> dict[str, Any]:
        from storelab.workloads.distribution import proof

        number = self.number if number is None else number
        fetch = proof.reader(store.access(bucket.account), bucket, put_prefix(job.attempt))
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

    def before(self, config: "Config", store: Store, point: Point, job: "GangJob") -> None:
        """Besides, a bucket on stratum 0; what is about to be written there is noted first."""
        from storelab.core.campaign.release import a_day
        from storelab.stores import all_stores
        from storelab.workloads.staging import left_over, stage, written

        super().before(config, store, point, job)
        _zeros[job.attempt] = zero = all_stores(config)[self.beside(point)]
        place = stage.buckets_of(config, zero, 1)[0]
        left_over.remove(config, zero)
        left_over.add(config, zero.name, point, a_day(point.fixed["release"])[1] * point.axes["days"], 1)
        written.note_attempt(config, zero, job.attempt, point, self.makes(point, job.attempt))
        buckets.prepare(config, zero, [place])
        endpoint = zero.endpoints(1)[0]
        job.extra = {"stratum0": {"endpoint": asdict(endpoint), "bucket": asdict(place)}}

    def after(self, store: Store, point: Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        """Both strata are read again."""
        place = Bucket(**job.extra["stratum0"]["bucket"])
        return [
            self._proof(_zeros[job.attempt], place, point, job, folder, 0),
            *super().after(store, point, job, folder),
        ]

    def observe(self, store: Store, point: Point, job: "GangJob", folder: Path) -> dict[str, Any]:
        """`stratum0`: the second store, as `store` of the record tells of the first."""
        zero = _zeros.pop(job.attempt)
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
        axes.engine(
            "publish",
            "wire",
            "What asks: plain signed S3 requests; obstore, at less CPU; `cvmfs`: the real tool, cvmfs_swissknife.",
        ),
        *_AXES,
        *axes.DEPLOYMENT,
    ),
    "A nightly release of software (`release`), published day by day as CernVM-FS does.",
    direction="write",
    needs=("release",),
    finishes=True,
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
    finishes=True,
)

"""`launch`: clients start an application from a repository of software, again and again; a cache may stand between."""

from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import axes, records
from storelab.core.axes.launches import SQUID
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.datasets.release import names
from storelab.engines.contract import Check, GangJob
from storelab.stores.base import Store
from storelab.workloads.base import Workload

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.workloads.distribution.launch.public import Opened
    from storelab.workloads.distribution.launch.squid import Squid

MOST_LISTED = 60_000  # files of all applications that the clients are told of
LOCAL = "local"  # kind of a launcher


@dataclass
class Served:
    """What an attempt has open: the repository without signatures, the cache; what it told at the end."""

    opened: "Opened"
    cache: "Squid | None" = None
    told: dict[str, Any] = field(default_factory=dict)


_served: dict[str, Served] = {}  # by attempt


def _place(point: Point, axis: str) -> str:
    return f"sweeps.{point.sweep}.axes.{axis}"


class Launch(Workload):
    def possible(self, point: Point) -> None:
        from storelab.core.campaign.release import Release
        from storelab.workloads.distribution.launch import applications

        given = point.axes
        if given["days"] > (most := Release.model_validate(point.fixed["release"]).all_days):
            problem = f"{given['days']} days, and the release has {most}"
            raise UserError(_place(point, "days"), problem, "ask for fewer, or raise `release.days`")
        if given["applications"] * given["start_files"] * applications.MOST > MOST_LISTED:
            problem = (
                f"{given['applications']} applications of {given['start_files']} files are more than a gang is told"
            )
            mend = f"keep their product below {MOST_LISTED / applications.MOST:.0f}"
            raise UserError(_place(point, "applications"), problem, mend)
        if given["http_cache"] == SQUID and given["scheme"] == "https":
            problem = "https goes past an HTTP cache"
            raise UserError(_place(point, "http_cache"), problem, "sweep scheme http, or http_cache none")

    def require(self, point: Point) -> None:
        if point.axes["http_cache"] == SQUID:
            from storelab.workloads.distribution.launch import squid

            squid.installed(_place(point, "http_cache"))

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """The repository is staged and open to all; the applications are chosen; an empty cache stands in front."""
        from storelab.workloads.distribution import proof
        from storelab.workloads.distribution.launch import applications, public, squid, staged

        given, release = point.axes, point.fixed["release"]
        place = _place(point, "http_cache")
        if given["http_cache"] == SQUID and config.launcher.kind != LOCAL:
            problem = "the cache listens on this host only, and clients run on other nodes"
            raise UserError(place, problem, "use launcher local, or http_cache none")
        at = staged.ensure(config, store, release, given["days"])
        fetch = proof.reader(store.access(at.bucket.account), at.bucket, at.prefix)
        try:
            chosen = [
                applications.choose(at.root, fetch, at.repository, release["seed"], number, given["start_files"])
                for number in range(given["applications"])
            ]
        except LookupError as error:
            raise UserError(_place(point, "days"), str(error), "publish a tree with files") from None
        trial = f"{at.repository}/{names.MANIFEST}"
        endpoint = store.endpoints(1)[0]
        served = _served[job.attempt] = Served(public.Opened(store, endpoint, at.bucket, at.prefix, trial))
        if given["http_cache"] == SQUID:
            served.cache = squid.Squid(served.opened.url, place)
        job.extra = {
            "url": served.opened.url,
            "proxy": served.cache.url if served.cache else "",
            "repository": at.repository,
            "applications": [asdict(one) for one in chosen],
        }

    def after(self, store: Store, point: Point, job: GangJob, folder: Path) -> list[dict[str, Any]]:
        """Did all requests go through the cache?"""
        served = _served[job.attempt]
        if served.cache is None:
            return []
        served.told = served.cache.told()
        sent, counted = _sent(folder), served.told["requests"]
        told = f"{sent} requests sent, {counted} counted by the cache, {served.told['hits']} of them hits"
        return [asdict(Check("through the cache", counted >= sent, told))]

    def observe(self, store: Store, point: Point, job: GangJob, folder: Path) -> dict[str, Any]:
        """The applications, and what the cache counted."""
        chosen = [{"catalogs": a["catalogs"], "files": len(a["files"])} for a in job.extra["applications"]]
        told = _served[job.attempt].told
        return {"applications": chosen} | ({"http_cache": told} if told else {})

    def ended(self, job: GangJob) -> None:
        """The cache is stopped, and the repository is no longer open to all."""
        served = _served.pop(job.attempt, None)
        if served is None:
            return
        if served.cache:
            served.cache.stop()
        with suppress(MeasurementFailed):  # a store that is down has closed it as well as can be
            served.opened.close()


def _sent(folder: Path) -> int:
    """Requests of all clients that were answered."""
    statuses = records.read_table(sorted(folder.glob("ops.*.parquet")), ["status"])["status"].to_pylist()
    return sum(status is not None and status > 0 for status in statuses)


LAUNCH = Launch(
    "launch",
    (
        axes.engine("launch", "wire", "What asks: plain unsigned GETs."),
        replace(axes.DAYS, default=1, help="The release as it is after so many days is read."),
        axes.START_FILES,
        axes.APPLICATIONS,
        axes.CLIENT_CACHE,
        axes.HTTP_CACHE,
        axes.CLIENTS,
        replace(axes.WORKERS, default=1, help="GETs of files that a start has in flight; CernVM-FS has one."),
        *axes.DEPLOYMENT,
    ),
    "An application starts from a published release, again and again: manifest, catalogs, files; cold or warm, with or "
    "without an HTTP cache.",
    needs=("release",),
)

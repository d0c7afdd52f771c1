"""`calibrate`: what the clients could do at most: the very engine against a server that does almost nothing; memory;
files.

Nothing is staged and nothing is kept: objects of the null server are there without being written. See
docs/calibration.md.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab import stores
from storelab.core import calibration
from storelab.core.calibration import LOCAL, NETWORK
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.engines.contract import Client, GangJob, Job
from storelab.stores.base import Store
from storelab.workloads.base import Workload
from storelab.workloads.metadata.list import LIST
from storelab.workloads.metadata.stat import STAT
from storelab.workloads.objects.delete import DELETE
from storelab.workloads.objects.get import GET
from storelab.workloads.objects.get_range import GET_RANGE
from storelab.workloads.objects.put import PUT

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config

OPERATIONS = {w.name: w for w in (PUT, GET, GET_RANGE, DELETE, STAT, LIST)}  # those of `calibration.OPERATIONS`
KEYS = 64  # objects that downloads choose from
DELETIONS, MOST_DELETIONS = 100_000, 800_000  # names of objects to delete: requests of a client, objects of a point


def stand_in(point: Point) -> Point:
    """The point that the operation's own client is to believe it measures: axes that a calibration lacks stand at
    their default."""
    spec = OPERATIONS[point.axes["operation"]]
    return replace(point, workload=spec.name, axes={a.name: point.axes.get(a.name, a.default) for a in spec.axes})


def _manifest(config: "Config", store: Store, point: Point, job: GangJob, files: list[Any]) -> Path:
    """Path of a manifest of objects that the null server has, in the point's working folder."""
    from storelab.core import records
    from storelab.datasets import payload
    from storelab.workloads.staging import stage

    size, seed = point.axes["object_size"], point.fixed["data_seed"]
    dataset = {"name": "null", "kind": "payload", "seed": seed, "object_size": size}
    objects = {
        "key": [f"data/{files[i % payload.BODIES].name}/{i:07d}" for i in range(KEYS)],
        "bucket": [0] * KEYS,
        "body": [i % payload.BODIES for i in range(KEYS)],
    }
    places = [job.buckets[0]]
    path = (config.campaign_dir / "work" / point.key / job.attempt / "manifest.json").absolute()
    records.write_json(path, stage.manifest_of(store, dataset, places, payload.body_sums(files), objects))
    return path


def _listed(config: "Config", store: Store, point: Point, job: GangJob) -> Path:
    """Path of a manifest of a folder of keys that the null server lists: it reads them off the folder's name."""
    from storelab.core import records
    from storelab.core.plan import sweeps
    from storelab.workloads.staging import stage

    values = stand_in(point).axes | {"buckets": 1, "accounts": 1}
    dataset = sweeps.folders_of_keys(point.fixed["data_seed"], values)
    path = (config.campaign_dir / "work" / point.key / job.attempt / "manifest.json").absolute()
    places = [job.buckets[0]]
    records.write_json(path, stage.manifest_of(store, dataset, places, [], {"key": [], "bucket": [], "body": []}))
    return path


def _names(point: Point) -> list[list[tuple[int, str]]]:
    """For each client (bucket, key) of objects to delete: more than it can in the time, or the run ends early."""
    clients = point.axes["clients"]
    n = min(DELETIONS * point.axes["batch"], MOST_DELETIONS // clients)
    return [[(0, f"put/{c}/{i:07d}") for i in range(n)] for c in range(clients)]


class Calibrate(Workload):
    def covers(self, kind: str) -> bool:
        """Return whether the clients' ceiling, measured against the near-null server, holds for such a store."""
        return stores.has_ceiling(kind)

    def client(self, job: Job) -> Client:
        if job.point.axes["target"] == NETWORK:
            return OPERATIONS[job.point.axes["operation"]].client(replace(job, point=stand_in(job.point)))
        from storelab.workloads.calibrate import local_copies

        return local_copies.CLIENTS[job.point.axes["operation"]](job)

    def possible(self, point: Point) -> None:
        """Raises UserError where operation, engine and target do not go together."""
        operation, target, engine = (point.axes[name] for name in ("operation", "target", "engine"))
        place = f"sweeps.{point.sweep}.axes"
        fit = calibration.OPERATIONS if target == NETWORK else LOCAL[target]
        if operation not in fit:
            raise UserError(
                f"{place}.operation", f"{operation!r} does not go with target {target!r}", f"one of: {', '.join(fit)}"
            )
        engines = OPERATIONS[operation].axis("engine").choices if target == NETWORK else ("none",)
        if engine not in engines:
            raise UserError(
                f"{place}.engine",
                f"{engine!r} does no {operation} at target {target!r}",
                f"one of: {', '.join(engines)}",
            )
        if operation == "get_range" and not point.axes["range_size"]:
            raise UserError(f"{place}.range_size", "get_range needs one", "give it, e.g. 4 kB")
        if operation == "list":
            if not point.axes["keys"]:
                raise UserError(f"{place}.keys", "list needs some", "give them, e.g. 1000")
            LIST.possible(stand_in(point))

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Give the null server its bodies, and the clients the names of objects. Limits guard systems under test: here
        there is none."""
        from storelab.datasets import payload
        from storelab.host import scratch

        job.limits |= {"throughput": None, "requests_per_s": None}
        operation = point.axes["operation"]
        if point.axes["target"] != NETWORK:
            job.extra = {"disk": str((store.folder / "calibrate").absolute())}  # type: ignore[attr-defined]
            return
        if operation == "delete":
            job.extra = {"objects": _names(point)}
        if operation == "list":
            job.manifest = _listed(config, store, point, job)
        if operation in ("get", "get_range", "stat"):
            files = payload.body_files(
                scratch.folder(config.scratch), point.fixed["data_seed"], point.axes["object_size"]
            )
            store.add_bodies(files)  # type: ignore[attr-defined]
            job.manifest = _manifest(config, store, point, job, files)


CALIBRATE = Calibrate(
    calibration.WORKLOAD,
    calibration.AXES,
    (
        "What clients could do at most, against a server that does almost nothing. A campaign asks for these points by "
        "itself."
    ),
    needs=("null_server",),
)

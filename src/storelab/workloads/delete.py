"""`delete`: clients delete objects that were made for the point, one by one or many a request, until none is left or the deadline.

"UDS generation 1 cannot do large deletes properly" (J. Phys. Conf. Ser. 664 022001); here the rate of deletions itself, against workers.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import axes
from storelab.core.model import Axis, Point, Workload
from storelab.engines.contract import Check, Client, Job
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads import put

if TYPE_CHECKING:
    from storelab.core.config import Config

SPEC = Workload(
    "delete",
    (
        Axis("engine", "text", "obstore", "Engine", "What deletes.", choices=("obstore", "loadgen")),
        Axis("object_size", "size", 4000, "Object size", "Size of every object."),
        Axis(
            "batch", "int", 1, "Objects per request", "1: DELETE of one object; more: one DeleteObjects request for so many (at most 1000)."
        ),
        *axes.PLACES,
        axes.ARRIVAL_RATE,
        axes.BALANCE,
        *axes.DEPLOYMENT,
        axes.CLIENTS_PER_NODE,
    ),
    "Deletion of objects made for the point (`objects` of the sweep); a run ends early when none is left.",
    direction="write",
    only_s3=axes.ONLY_S3,
    needs=("objects",),
)


def client(job: Job) -> Client:
    if job.point.axes["engine"] == "loadgen":
        from storelab.engines.loadgen.client import LoadgenDelete

        return LoadgenDelete(job)
    from storelab.engines.obstore.transfers import ObstoreDelete

    return ObstoreDelete(job)


def before(config: "Config", store: Store, point: Point, job: dict[str, Any]) -> None:
    """Make the objects, and share them out: each client deletes such as lie in its account's buckets."""
    from storelab.datasets import payload
    from storelab.engines.common.names import put_key
    from storelab.host import scratch
    from storelab.workloads.staging import left_over, stage, upload

    put.before(config, store, point, job)
    places, count, clients = [Bucket(**b) for b in job["buckets"]], point.fixed["objects"], point.axes["clients"]
    left_over.add(config, store.name, point, count * point.axes["object_size"], count)
    files = payload.body_files(scratch.folder(config.scratch), point.fixed["data_seed"], point.axes["object_size"])
    keys = [(n % len(places), put_key(job["attempt"], 0, n)) for n in range(count)]
    items = [(places[b], key, files[n % payload.BODIES]) for n, (b, key) in enumerate(keys)]
    upload.put_items(store, "objects to delete", items, stage.report)
    shares: list[list[tuple[int, str]]] = [[] for _ in range(clients)]
    turn = [0] * job["accounts"]
    for bucket, key in keys:
        account = places[bucket].account
        takers = range(account, clients, job["accounts"])
        shares[takers[turn[account] % len(takers)]].append((bucket, key))
        turn[account] += 1
    job["extra"] = {"objects": shares}


def after(store: Store, point: Point, job: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Is what was reported as deleted gone? Deletions that failed, or were cut off, may have happened all the same."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from storelab.engines.common.names import put_prefix
    from storelab.workloads.staging import buckets

    deleted = 0
    for table in folder.glob("ops.*.parquet"):
        columns = pq.read_table(table, columns=["count", "error"])
        good = columns.filter(pc.is_null(columns["error"]))
        deleted += pc.sum(good["count"]).as_py() or 0
    places = [Bucket(**b) for b in job["buckets"]]
    ways, prefix = buckets.accesses(store, places), put_prefix(job["attempt"])
    listed = sum(1 for b in places for _ in buckets.list_keys(ways[b.account], b, prefix))
    left = point.fixed["objects"] - deleted
    detail = f"{deleted} of {point.fixed['objects']} objects reported as deleted, {listed} still listed, {left} at most"
    return [asdict(Check("gone", listed <= left, detail))]

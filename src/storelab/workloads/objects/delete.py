"""`delete`: clients delete objects that were made for the point, one by one or many a request, until none is left or
the deadline.

"UDS generation 1 cannot do large deletes properly" (J. Phys. Conf. Ser. 664 022001); here the rate of deletions
itself, against workers.
"""

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import axes
from storelab.core.errors import UserError
from storelab.core.model import Point, accounts_of
from storelab.engines.common.objects import put_key, put_prefix
from storelab.engines.contract import Check, GangJob
from storelab.stores.base import Store
from storelab.workloads.objects.put import Put, succeeded
from storelab.workloads.staging import buckets

if TYPE_CHECKING:
    from storelab.core.config import Config

MOST_BATCH = 1000  # keys of one DeleteObjects request (Amazon S3 API reference)


def shared_out(
    keys: Sequence[tuple[int, str]], owners: Sequence[int], clients: int, accounts: int
) -> list[list[tuple[int, str]]]:
    """Objects (bucket's number, key) by client: each goes to one that uses its bucket's account. owners: by bucket."""
    shares: list[list[tuple[int, str]]] = [[] for _ in range(clients)]
    users: dict[int, list[list[tuple[int, str]]]] = {}
    for client, share in enumerate(shares):
        for account in accounts_of(client, clients, accounts):
            users.setdefault(account, []).append(share)
    takers = {account: itertools.cycle(own) for account, own in users.items()}
    for bucket, key in keys:
        next(takers[owners[bucket]]).append((bucket, key))
    return shares


class Delete(Put):
    def possible(self, point: Point) -> None:
        if point.axes["batch"] > MOST_BATCH:
            problem = f"{point.axes['batch']} objects are more than one request may delete"
            raise UserError(f"sweeps.{point.sweep}.axes.batch", problem, f"at most {MOST_BATCH}")

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Make the objects, and share them out: each client deletes objects in the buckets of its own accounts."""
        from storelab.datasets import payload
        from storelab.host import scratch
        from storelab.workloads.staging import left_over, upload

        super().before(config, store, point, job)
        places, count, clients = job.buckets, point.fixed["objects"], point.axes["clients"]
        left_over.add(config, store.name, point, count * point.axes["object_size"], count)
        files = payload.body_files(scratch.folder(config.scratch), point.fixed["data_seed"], point.axes["object_size"])
        keys = [(n % len(places), put_key(job.attempt, 0, n)) for n in range(count)]
        items = [(places[b], key, files[n % payload.BODIES]) for n, (b, key) in enumerate(keys)]
        upload.put_items(store, "objects to delete", items)
        job.extra = {"objects": shared_out(keys, [b.account for b in places], clients, job.accounts)}

    def after(self, store: Store, point: Point, job: GangJob, folder: Path) -> list[dict[str, Any]]:
        """Is what was reported as deleted gone? Deletions that failed, or were cut off, may have happened all the
        same."""
        deleted = int(succeeded(folder)["count"].to_numpy().sum())
        places = job.buckets
        ways, prefix = buckets.accesses(store, places), put_prefix(job.attempt)
        listed = sum(1 for b in places for _ in buckets.list_keys(ways[b.account], b, prefix))
        left = point.fixed["objects"] - deleted
        detail = (
            f"{deleted} of {point.fixed['objects']} objects reported as deleted, {listed} still listed, {left} at most"
        )
        return [asdict(Check("gone", listed <= left, detail))]


DELETE = Delete(
    "delete",
    (
        axes.engine("delete", "obstore", "What deletes."),
        axes.OBJECT_SIZE,
        axes.BATCH,
        *axes.PLACES,
        axes.ARRIVAL_RATE,
        axes.BALANCE,
        *axes.DEPLOYMENT,
        axes.CLIENTS_PER_NODE,
    ),
    "Deletion of objects made for the point (`objects` of the sweep); a run ends early when none is left.",
    direction="write",
    needs=("objects",),
)

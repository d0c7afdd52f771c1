"""Workloads with whole objects, ranges of objects, and their metadata.

`put`, `get`, `get_range`, `delete`, `rewrite`, `stat`, `list` and `space` are experiments 1-5 and 9 of the evaluations
of 2012-2015. `put` and `rewrite` upload until the deadline, and the uploaded objects are checked afterwards. `delete`
deletes objects that were made for the point. `get`, `get_range`, `stat` and `list` read staged objects. `space`
measures the raw bytes that a store uses for the stored bytes.
"""

import hashlib
import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import axes, records, units
from storelab.core.errors import UserError
from storelab.core.model import Point, accounts_of
from storelab.datasets import payload
from storelab.engines.common import ledger
from storelab.engines.common.ledger import STAMP
from storelab.engines.common.objects import fixed_offset, put_key, put_keys, put_prefix
from storelab.engines.contract import Check, GangJob
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.base import ACCESS, ONCE, Made, Workload, refuse
from storelab.workloads.staging import buckets, written

if TYPE_CHECKING:  # a client process must start fast
    import pyarrow as pa

    from storelab.core.config import Config

MAX_BATCH = 1000  # maximum number of keys of one DeleteObjects request (Amazon S3 API reference)
MAX_PAGE = 1000  # maximum number of keys of one page of a listing (Amazon S3 API reference)
SETTLE_S = 1.0  # time between two readings of the used bytes, which have settled when two readings agree within SETTLED
SETTLED, LONGEST_S = 0.002, 20.0
WATCHED_S = 15.0  # time after the deletion before the store is asked to reclaim space


def succeeded(folder: Path) -> "pa.Table":
    """Return `object` (null in bins, which have no object names) and `count` of all operations without an error."""
    table = records.read_table(sorted(folder.glob("ops.*.parquet")), ["object", "count", "error"])
    return table.filter(table["error"].is_null()).drop_columns(["error"])


class Put(Workload):
    """The workload that uploads whole objects until the deadline."""

    def expected_objects(self, point: Point, attempt: str) -> list[Made]:
        size = point.axes["object_size"]
        return [Made(put_keys(attempt), size, size)]

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Make the buckets. In some stores, the first upload would make them and take longer."""
        buckets.prepare(config, store, job.buckets)

    def after(self, store: Store, point: Point, job: GangJob, folder: Path) -> list[dict[str, Any]]:
        """Check that all objects reported as uploaded exist.

        Every key must be listed with its size. A sample is read back and must have the right SHA-256.
        """
        if point.axes.get("ledger") == "kept":
            return self.noted(folder)
        size, done = point.axes["object_size"], succeeded(folder)
        named = done["object"].drop_null().to_pylist()
        reported = set(named)
        # number of keys in bins: the listing must have at least this number of additional keys
        unnamed = int(done["count"].to_numpy().sum()) - len(named)
        places = job.buckets
        ways = buckets.accesses(store, places)
        stored: dict[str, Bucket] = {}
        wrong = 0
        for bucket in places:
            for key, length in buckets.list_keys(ways[bucket.account], bucket, put_prefix(job.attempt)):
                stored[key] = bucket
                wrong += (key in reported or unnamed > 0) and length != size
        missing = len(reported - stored.keys()) or max(0, len(reported) + unnamed - len(stored))
        detail = f"{len(reported) + unnamed} reported, {missing} not listed, {wrong} of a wrong size"
        files = payload.body_files(job.scratch, point.fixed["data_seed"], size)
        sums = [body["sha256"] for body in payload.body_sums(files)]
        known = sorted(stored if unnamed else reported & stored.keys())
        sample = random.Random(point.seed).sample(known, min(4, len(known)))
        good = 0
        for key in sample:
            data = ways[stored[key].account].read(stored[key].name, key) or b""
            good += hashlib.sha256(data).hexdigest() == sums[int(key.rpartition("/")[2]) % payload.BODIES]
        read = f"{good} of {len(sample)} uploaded objects have the right SHA-256"
        return [
            asdict(Check("all listed", not missing and not wrong, detail)),
            asdict(Check("read back", bool(sample) and good == len(sample), read)),
        ]

    def noted(self, folder: Path) -> list[dict[str, Any]]:
        """Check that all writes reported as done are in the ledgers. Whether the store kept the objects is a result."""
        done, (counts, unknown) = int(succeeded(folder)["count"].to_numpy().sum()), ledger.acknowledged(folder)
        known = sum(counts.values())  # can be more, because acknowledgements after the drain are in no record
        detail = f"{known} acknowledged writes in the ledgers, {unknown} of unknown outcome; {done} reported as done"
        return [asdict(Check("ledger", known >= done > 0, detail))]


class Rewrite(Put):
    """The workload that writes, overwrites and deletes a limited set of keys, and compares a ledger with the store.

    Lost, outdated or restored objects can only occur if keys are written more than once.
    """

    def validate(self, point: Point) -> None:
        size = point.axes["object_size"]
        problem = f"objects of {size} B are too short to identify their write"
        refuse(point, ("object_size", size < STAMP, problem, f"at least {STAMP} B"))

    def after(self, store: Store, point: Point, job: GangJob, folder: Path) -> list[dict[str, Any]]:
        return self.noted(folder)


def shared_out(
    keys: Sequence[tuple[int, str]], owners: Sequence[int], clients: int, accounts: int
) -> list[list[tuple[int, str]]]:
    """Return the objects (bucket's number, key) of each client.

    A client gets only objects of buckets that it can access.

    owners: the account of each bucket.
    """
    shares: list[list[tuple[int, str]]] = [[] for _ in range(clients)]
    users: dict[int, list[list[tuple[int, str]]]] = {}
    for client, share in enumerate(shares):
        for account in accounts_of(client, clients, accounts):
            users.setdefault(account, []).append(share)
    takers = {account: itertools.cycle(workers) for account, workers in users.items()}
    for bucket, key in keys:
        next(takers[owners[bucket]]).append((bucket, key))
    return shares


class Delete(Put):
    """The workload that deletes objects, one or several per request.

    It is motivated by "UDS generation 1 cannot do large deletes properly" (J. Phys. Conf. Ser. 664 022001).
    """

    def validate(self, point: Point) -> None:
        batch = point.axes["batch"]
        problem = f"{batch} objects are more than one request may delete"
        refuse(point, ("batch", batch > MAX_BATCH, problem, f"set at most {MAX_BATCH}"))

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Make the objects and distribute them. Each client deletes objects in the buckets of its accounts."""
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
        """Check that no object reported as deleted exists.

        Deletions that failed or were interrupted possibly took effect.
        """
        deleted, count = int(succeeded(folder)["count"].to_numpy().sum()), point.fixed["objects"]
        places = job.buckets
        ways, prefix = buckets.accesses(store, places), put_prefix(job.attempt)
        listed = sum(1 for b in places for _ in buckets.list_keys(ways[b.account], b, prefix))
        left = count - deleted
        detail = f"{deleted} of {count} objects reported as deleted, {listed} still listed, {left} at most"
        return [asdict(Check("gone", listed <= left, detail))]


class Get(Workload):
    """The workload that downloads whole staged objects."""

    def validate(self, point: Point) -> None:
        """Raise UserError if each object is read once and there are fewer objects than clients."""
        clients = point.axes["clients"]
        if point.axes["access"] in ONCE and clients > (objects := point.fixed["objects"]):
            problem = f"{clients} clients read each object once, but there are only {objects}"
            raise UserError(f"sweeps.{point.sweep}.objects", problem, "set more `objects`, or fewer clients")


class GetRange(Get):
    """The workload that reads one range of a staged object per request."""

    def validate(self, point: Point) -> None:
        """Raise UserError if a range is not within its object, or for the reasons of `get`."""
        length, size, offset = (point.axes[name] for name in ("range_size", "object_size", "offset"))
        shown = units.format_size(length)
        behind = f"a range of {shown} at {offset} ends after the end of the object"
        refuse(
            point,
            ("range_size", length > size, f"{shown} is larger than the object", "make it smaller than `object_size`"),
            ("offset", bool(length) and fixed_offset(offset) + length > size, behind, "set a smaller offset"),
        )
        super().validate(point)


class List(Workload):
    """The workload that lists whole folders.

    One operation is one listing with all its pages, as in warp's `list`. The rate is in keys listed per second. The
    listing includes everything below the folder, so `prefix_depth` changes the tree but not the number of keys.

    Each answer is compared with the staged keys. Missing, foreign, repeated and unordered keys, wrong sizes, too long
    pages and endless listings have different error classes. A failed listing counts with all its keys.
    """

    def validate(self, point: Point) -> None:
        """Raise UserError for more keys, longer pages or deeper folders than are supported."""
        keys, page, depth = (point.axes[name] for name in ("keys", "page_size", "prefix_depth"))
        most = payload.key_digits(keys)
        deep = f"{keys} keys are too few for {depth} levels of folders"
        refuse(
            point,
            ("keys", keys > payload.MAX_KEYS, f"{keys} keys are too many", f"set at most {payload.MAX_KEYS}"),
            ("page_size", page > MAX_PAGE, f"{page} keys per page are too many", f"set at most {MAX_PAGE}"),
            ("prefix_depth", depth >= most, deep, f"set at most {most - 1}, or more `keys`"),
        )


def settled(store: Store) -> int:
    """Return the used bytes when two readings a second apart agree within 0.2 %, or at the latest after LONGEST_S."""
    end, last = time.monotonic() + LONGEST_S, store.used_bytes() or 0
    while True:
        time.sleep(SETTLE_S)
        now = store.used_bytes() or 0
        if abs(now - last) <= SETTLED * max(now, 1) or time.monotonic() > end:
            return now
        last = now


class Space(Put):
    """The workload that measures the raw bytes used per stored byte, and the bytes that are freed after deletion.

    The raw bytes include all copies. The freed bytes are measured over time. Experiment 9 of the evaluations left the
    space overhead of erasure coding as future work.
    """

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        super().before(config, store, point, job)
        store.reclaim()
        job.extra["used_before_bytes"] = settled(store)

    def observe(self, store: Store, point: Point, job: GangJob, folder: Any) -> dict[str, Any]:
        """Delete the uploads of this point, and measure how the space is freed.

        Returns `objects` and `stored_bytes` (as listed), `used_before_bytes`, `used_after_put_bytes`,
        `used_after_delete_bytes`, `used_after_reclaim_bytes`, and `returned`: [[seconds after the deletion, used
        bytes], …].
        """
        places = job.buckets
        ways, prefix = buckets.accesses(store, places), put_prefix(job.attempt)
        sizes = [size for b in places for _, size in buckets.list_keys(ways[b.account], b, prefix)]
        used = settled(store)
        ours = written.written_by(store, point, job.attempt, self.expected_objects(point, job.attempt))
        begun = time.monotonic()
        for b in places:
            buckets.delete_prefix(ways[b.account], b, prefix, ours=ours)
        deleted = time.monotonic()
        returned = []
        while (second := time.monotonic() - deleted) < WATCHED_S:
            returned.append([round(second, 3), store.used_bytes() or 0])
            time.sleep(SETTLE_S)
        begun_reclaim = time.monotonic()
        store.reclaim()
        reclaim_s = time.monotonic() - begun_reclaim
        return {
            "objects": len(sizes),
            "stored_bytes": sum(sizes),
            "used_before_bytes": job.extra["used_before_bytes"],
            "used_after_put_bytes": used,
            "used_after_delete_bytes": returned[-1][1],
            "used_after_reclaim_bytes": settled(store),
            "delete_s": round(deleted - begun, 3),
            "reclaim_s": round(reclaim_s, 3),
            "returned": returned,
        }


# Axes after the axes of each workload, in this order: distribution, rate, deployment.
PACE = (axes.ARRIVAL_RATE, axes.BALANCE, *axes.DEPLOYMENT, axes.CLIENTS_PER_NODE, axes.ROUND_TRIP)
_MOVES = (
    "Program or library that transfers the bytes: s5cmd, fsspec (all protocols), obstore (S3, times of "
    "each operation), or "
    "loadgen (like obstore, with the least CPU)."
)
_WHOLE = (axes.OBJECT_SIZE, *axes.PLACES, axes.PART_SIZE, axes.PARALLEL_PARTS, *PACE)

PUT = Put(
    "put",
    (axes.engine("put", "s5cmd", _MOVES), *_WHOLE),
    "Upload of new objects, each key once.",
    direction="write",
)
GET = Get(
    "get",
    (axes.engine("get", "s5cmd", _MOVES), *_WHOLE, ACCESS, axes.WORKING_SET),
    "Download of staged objects; the order differs between clients.",
    dataset="payload",
)
GET_RANGE = GetRange(
    "get_range",
    (
        axes.engine("get_range", "fsspec", "Program or library that transfers the bytes."),
        replace(axes.OBJECT_SIZE, default=10_000_000),
        axes.RANGE_SIZE,
        axes.OFFSET,
        *axes.PLACES,
        *PACE,
        ACCESS,
        axes.WORKING_SET,
    ),
    "Download of one range of a staged object. An answer with a wrong length or wrong bytes is an error.",
    dataset="payload",
)
DELETE = Delete(
    "delete",
    (
        axes.engine("delete", "obstore", "Library or program that deletes."),
        axes.OBJECT_SIZE,
        axes.BATCH,
        *axes.PLACES,
        *PACE,
    ),
    "Deletion of objects made for the point (`objects` of the sweep). A run ends early if all are deleted.",
    direction="write",
    needs=("objects",),
)
REWRITE = Rewrite(
    "rewrite",
    (
        axes.engine("rewrite", "obstore", "Program or library that writes."),
        axes.OBJECT_SIZE,
        axes.KEYS_PER_WORKER,
        axes.DELETIONS,
        *axes.PLACES,
        *PACE,
    ),
    "Writes, overwrites and deletions of a limited set of keys, each used by one worker. Every acknowledged write "
    "is read back.",
    direction="write",
)
# Other programs call this STAT (warp) or HEAD (COSBench). It measures requests for an object without its bytes.
STAT = Workload(
    "stat",
    (axes.engine("stat", "obstore", "Library or program that sends requests."), axes.OBJECT_SIZE, *axes.PLACES, *PACE),
    "HEAD of staged objects; the order differs between clients. A wrong status or size is an error.",
    dataset="payload",
)
LIST = List(
    "list",
    (
        axes.engine("list", "loadgen", "Program that lists."),
        axes.KEYS,
        axes.PREFIX_DEPTH,
        replace(axes.OBJECT_SIZE, default=100),
        *axes.PLACES,
        *PACE,
    ),
    "Listing of all pages of a folder of staged keys. Every key is checked. The rate is in keys/s.",
    dataset="keys",
)
SPACE = Space(
    "space",
    (
        axes.engine("space", "s5cmd", _MOVES),
        axes.OBJECT_SIZE,
        axes.CLIENTS,
        axes.WORKERS,
        axes.BUCKETS,
        *axes.DEPLOYMENT,
    ),
    "Raw bytes used for each stored byte, and freed after deletion. Objects are uploaded until the deadline.",
    direction="write",
    needs=("used_bytes",),
)

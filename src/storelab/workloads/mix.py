"""`mix`: clients send GET, PUT, HEAD, LIST and DELETE by weights, on a changing set of objects, until the deadline.

Each client has separate objects, made for the point. All clients together have `objects` of the sweep at the start, and
never more. An upload creates a new key if an object was deleted before; otherwise it overwrites one. While an object is
deleted or overwritten, other operations do not use it. See docs/mixes.md.
"""

import hashlib
import random
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from storelab.core import axes, records
from storelab.core.axes import mixes
from storelab.core.errors import UserError
from storelab.core.model import Point, accounts_of
from storelab.engines.common import objects
from storelab.engines.common.objects import put_key, put_keys, put_prefix
from storelab.engines.contract import Check, GangJob
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.base import Made, refuse
from storelab.workloads.objects import MAX_PAGE, PACE, Put
from storelab.workloads.staging import buckets

if TYPE_CHECKING:
    from storelab.core.config import Config

MIN_OBJECTS = 2  # minimum number of objects for each worker: one that it uses, and one that others can choose
CHECKED = 8  # number of objects that are read back at the end


class Known(NamedTuple):
    """The final state of a key according to the records.

    size is None if it was deleted. sure is True if no operation on it failed.
    """

    size: int | None
    puts: int  # number of successful uploads to this key
    staged: bool
    sure: bool


def places(point: Point, job: GangJob, client: int) -> list[Bucket]:
    """Return the buckets of a client's uploads, which are used in turn: upload n goes to bucket client + n."""
    accounts = accounts_of(client, point.axes["clients"], job.accounts)
    buckets = [b for b in job.buckets if b.account in accounts]
    first = client % len(buckets)
    return buckets[first:] + buckets[:first]


def population(point: Point, job: GangJob) -> list[tuple[Bucket, str, int, int]]:
    """Return bucket, relative key, number of the body and bytes of every object that exists at the start."""
    from storelab.datasets.payload import BODIES

    out = []
    for client in range(point.axes["clients"]):
        buckets = places(point, job, client)
        for n, size in enumerate(objects.sizes_at_start(point, client)):
            out.append((buckets[n % len(buckets)], put_key(job.attempt, client, n), n % BODIES, size))
    return out


class Mix(Put):
    """The workload in which clients use several operations at the same time, with given weights."""

    def validate(self, point: Point) -> None:
        """Raise UserError if there are too few objects to choose from."""
        needed = MIN_OBJECTS * point.axes["clients"] * point.axes["workers"]
        if point.fixed["objects"] < needed:
            problem = f"{point.fixed['objects']} objects are too few for {needed // MIN_OBJECTS} operations at a time"
            raise UserError(f"sweeps.{point.sweep}.objects", problem, f"set at least {needed}")
        page = point.axes.get("page_size", 1)
        refuse(point, ("page_size", page > MAX_PAGE, f"{page} keys per page are too many", f"set at most {MAX_PAGE}"))

    def expected_objects(self, point: Point, attempt: str) -> list[Made]:
        return [Made(put_keys(attempt), 0, mixes.largest(point.fixed["sizes"]))]

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Make the buckets, and the objects that exist at the start."""
        from storelab.datasets import payload
        from storelab.host import scratch
        from storelab.workloads.staging import left_over, upload

        super().before(config, store, point, job)
        items = population(point, job)
        left_over.add(config, store.name, point, sum(size for *_, size in items), len(items))
        largest = mixes.largest(point.fixed["sizes"])
        files = payload.body_files(scratch.folder(config.scratch), point.fixed["data_seed"], largest)
        upload.put_cut(store, "objects of a mix", items, files)

    def after(self, store: Store, point: Point, job: GangJob, folder: Path) -> list[dict[str, Any]]:
        """Compare the objects in the store with the recorded answers.

        Every key without a failed operation must be listed with the size of its last upload, or be deleted. A sample is
        read back.
        """
        known = self._known(point, job, folder)
        if known is None:
            return [asdict(Check("what is left", True, "not compared, because operations were recorded as bins"))]
        every = job.buckets
        ways = buckets.accesses(store, every)
        listed = {
            key[len(place.prefix) :]: (place, size)
            for place in every
            for key, size in buckets.list_keys(ways[place.account], place, put_prefix(job.attempt))
        }
        missing = wrong = back = 0
        for name, now in known.items():
            if not now.sure:
                continue
            found = listed.get(name)
            missing += now.size is not None and found is None
            back += now.size is None and found is not None
            wrong += now.size is not None and found is not None and found[1] != now.size
        strange = sum(name not in known for name in listed)
        detail = f"{len(listed)} listed, {missing} missing, {back} that were deleted, {wrong} of a wrong size, "
        detail += f"{strange} foreign"
        good, sample = self._read_back(point, job, ways, listed, known)
        return [
            asdict(Check("what is left", not (missing or wrong or back or strange), detail)),
            asdict(Check("read back", good == sample, f"{good} of {sample} remaining objects have the right SHA-256")),
        ]

    def _read_back(self, point: Point, job: GangJob, ways: Any, listed: Any, known: Any) -> tuple[int, int]:
        from storelab.datasets import payload

        largest = mixes.largest(point.fixed["sizes"])
        files = payload.body_files(job.scratch, point.fixed["data_seed"], largest)
        there = sorted(n for n, now in known.items() if now.sure and now.size is not None and n in listed)
        sample, good = random.Random(point.seed).sample(there, min(CHECKED, len(there))), 0
        for name in sample:
            place, _ = listed[name]
            now = known[name]
            overwritten = now.puts - (not now.staged)
            body = files[(int(name.rpartition("/")[2]) + overwritten) % payload.BODIES]
            with open(body, "rb") as f:
                wanted = hashlib.sha256(f.read(now.size)).digest()
            data = ways[place.account].read(place.name, place.prefix + name) or b""
            good += hashlib.sha256(data).digest() == wanted
        return good, len(sample)

    def _known(self, point: Point, job: GangJob, folder: Path) -> dict[str, Known] | None:
        """Return the final state of every key from the records, or None if operations were recorded as bins."""
        prefix = put_prefix(job.attempt)
        known = {key: Known(size, 0, True, True) for _, key, _, size in population(point, job)}
        rows: list[tuple[int, str, str, int, str | None]] = []
        for path in sorted(folder.glob("ops.*.parquet")):
            table = records.read_table(path, ["end_ns", "op", "object", "bytes", "error", "latency_hist"])
            if table["latency_hist"].null_count < len(table):
                return None
            table = table.drop_columns(["latency_hist"])
            for end, op, name, size, error in zip(*(c.to_pylist() for c in table.columns), strict=True):
                if op in ("PUT", "DELETE") and prefix in name:
                    rows.append((end, op, prefix + name.partition(prefix)[2], size, error))
        for _, op, name, size, error in sorted(rows, key=lambda row: row[0]):
            was = known.get(name, Known(None, 0, False, True))
            if error is not None:
                known[name] = was._replace(sure=False)
            elif op == "PUT":
                known[name] = was._replace(size=size, puts=was.puts + 1)
            else:
                known[name] = was._replace(size=None)
        return known


MIX = Mix(
    "mix",
    (
        axes.engine("mix", "loadgen", "Program or library that mixes the operations."),
        axes.MIX,
        axes.SIZES,
        *axes.PLACES,
        *PACE,
    ),
    "GET, PUT, HEAD, LIST and DELETE by weights, on a changing set of `objects`. Every answer is checked.",
    direction="write",
    needs=("objects",),
)

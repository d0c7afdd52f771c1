"""`put`: clients upload new objects until the deadline (experiments 1-5 of the evaluations 2012-2015)."""

import hashlib
import random
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import records
from storelab.core.model import Point
from storelab.engines.common import ledger
from storelab.engines.common.objects import put_keys, put_prefix
from storelab.engines.contract import Check, GangJob
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.base import Made, Workload, whole_objects
from storelab.workloads.staging import buckets

if TYPE_CHECKING:  # a client process must start fast
    import pyarrow as pa

    from storelab.core.config import Config


def succeeded(folder: Path) -> "pa.Table":
    """`object` (null in bins, where objects have no names) and `count` of all clients' operations without an error."""
    table = records.read_table(sorted(folder.glob("ops.*.parquet")), ["object", "count", "error"])
    return table.filter(table["error"].is_null()).drop_columns(["error"])


class Put(Workload):
    def makes(self, point: Point, attempt: str) -> list[Made]:
        size = point.axes["object_size"]
        return [Made(put_keys(attempt), size, size)]

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Make the buckets; the first upload would make them in some stores, and pay for it."""
        buckets.prepare(config, store, job.buckets)

    def after(self, store: Store, point: Point, job: GangJob, folder: Path) -> list[dict[str, Any]]:
        """Did all that was reported as uploaded arrive? Every key listed with its size; a sample read back, SHA-256
        compared."""
        from storelab.datasets import payload

        if point.axes.get("ledger") == "kept":
            return self.noted(folder)
        size, done = point.axes["object_size"], succeeded(folder)
        named = done["object"].drop_null().to_pylist()
        reported = set(named)
        unnamed = int(done["count"].to_numpy().sum()) - len(named)  # in bins: at least so many must be listed besides
        places = job.buckets
        ways = buckets.accesses(store, places)
        stored: dict[str, Bucket] = {}
        wrong = 0
        for bucket in places:
            for key, length in buckets.list_keys(ways[bucket.account], bucket, put_prefix(job.attempt)):
                stored[key] = bucket
                wrong += (key in reported or unnamed > 0) and length != size
        missing = len(reported - stored.keys()) or max(0, len(reported) + unnamed - len(stored))
        told = f"{len(reported) + unnamed} reported, {missing} not listed, {wrong} of a wrong size"
        files = payload.body_files(job.scratch, point.fixed["data_seed"], size)
        sums = [body["sha256"] for body in payload.body_sums(files)]
        known = sorted(stored if unnamed else reported & stored.keys())
        sample = random.Random(point.seed).sample(known, min(4, len(known)))
        good = 0
        for key in sample:
            data = ways[stored[key].account].read(stored[key].name, key) or b""
            good += hashlib.sha256(data).hexdigest() == sums[int(key.rpartition("/")[2]) % payload.BODIES]
        checks = (
            Check("all listed", not missing and not wrong, told),
            Check(
                "read back",
                bool(sample) and good == len(sample),
                f"{good} of {len(sample)} uploaded objects have the right SHA-256",
            ),
        )
        return [asdict(c) for c in checks]

    def noted(self, folder: Path) -> list[dict[str, Any]]:
        """Is all that was reported as done in the ledgers? Whether the store kept it is a result, and no check."""
        done, (counts, unknown) = int(succeeded(folder)["count"].to_numpy().sum()), ledger.acknowledged(folder)
        known = sum(counts.values())  # more: what was acknowledged after the drain is in no record
        detail = f"{known} acknowledged writes in the ledgers, {unknown} of unknown outcome; {done} reported as done"
        return [asdict(Check("ledger", known >= done > 0, detail))]


PUT = Put("put", whole_objects("put"), "Upload of new objects, each key once.", direction="write")

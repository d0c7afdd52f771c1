"""`put`: clients upload new objects until the deadline (experiments 1-5 of the evaluations 2012-2015)."""

import hashlib
import random
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core.model import Point
from storelab.engines.contract import Check
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.base import Workload, whole_objects

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config


class Put(Workload):
    def before(self, config: "Config", store: Store, point: Point, job: dict[str, Any]) -> None:
        """Make the buckets; the first upload would make them in some stores, and pay for it."""
        from storelab.workloads.staging import buckets

        buckets.ensure(store, config.name, [Bucket(**b) for b in job["buckets"]])

    def after(self, store: Store, point: Point, job: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
        """Did all that was reported as uploaded arrive? Every key listed with its size; a sample read back, SHA-256
        compared."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        from storelab.datasets import payload
        from storelab.engines.common.names import put_prefix
        from storelab.workloads.staging import buckets

        size = point.axes["object_size"]
        reported, unnamed = set(), 0  # in bins objects have no names: so many must be listed at least
        for table in folder.glob("ops.*.parquet"):
            columns = pq.read_table(table, columns=["object", "count", "error"])
            good = columns.filter(pc.is_null(columns["error"]))
            named = good.filter(pc.is_valid(good["object"]))
            reported |= set(named["object"].to_pylist())
            unnamed += (pc.sum(good["count"]).as_py() or 0) - len(named)
        places = [Bucket(**b) for b in job["buckets"]]
        ways = buckets.accesses(store, places)
        stored: dict[str, Bucket] = {}
        wrong = 0
        for bucket in places:
            for key, length in buckets.list_keys(ways[bucket.account], bucket, put_prefix(job["attempt"])):
                stored[key] = bucket
                wrong += (key in reported or unnamed > 0) and length != size
        missing = len(reported - stored.keys()) or max(0, len(reported) + unnamed - len(stored))
        told = f"{len(reported) + unnamed} reported, {missing} not listed, {wrong} of a wrong size"
        checks = [Check("all listed", not missing and not wrong, told)]
        files = payload.body_files(Path(job["scratch"]), point.fixed["data_seed"], size)
        sums = [body["sha256"] for body in payload.body_sums(files)]
        known = sorted(stored if unnamed else reported & stored.keys())
        sample = random.Random(point.seed).sample(known, min(4, len(known)))
        good = 0
        for key in sample:
            data = ways[stored[key].account].read(stored[key].name, key) or b""
            good += hashlib.sha256(data).hexdigest() == sums[int(key.rpartition("/")[2]) % payload.BODIES]
        checks.append(
            Check(
                "read back",
                bool(sample) and good == len(sample),
                f"{good} of {len(sample)} uploaded objects have the right SHA-256",
            )
        )
        return [asdict(c) for c in checks]


PUT = Put("put", whole_objects("put"), "Upload of new objects, each key once.", direction="write")

"""Mixed operations by loadgen: the program itself draws operations, sizes and objects, and holds every answer against
what it knows."""

from collections.abc import Sequence
from typing import Any

from storelab.core.axes import mixes
from storelab.core.model import derive_seed
from storelab.datasets import payload
from storelab.engines.common import mixing
from storelab.engines.common.guard import Guard
from storelab.engines.common.names import put_key
from storelab.engines.common.told import Teller
from storelab.engines.contract import Check, Job, Result
from storelab.engines.loadgen.client import VERIFY_EVERY, LoadgenClient


class LoadgenMix(LoadgenClient):
    """A mix on the client's own objects."""

    def __init__(self, job: Job):
        super().__init__(job)
        self.size = mixes.largest(job.point.fixed["sizes"])
        self.guard = Guard(job.limits | mixing.NO_ROOM, job.point.axes["clients"], told=Teller(job.told))

    def told(self) -> dict[str, Any]:
        point = self.job.point
        self.files = payload.body_files(self.job.scratch.parent, point.fixed["data_seed"], self.size)
        name = put_key(self.job.attempt, self.job.client, 0).removesuffix("00000000")
        weights = point.fixed["mix"]
        return {
            "operations": [{"op": op.upper(), "share": share} for op, share in weights.items() if share],
            "population": {
                "start": mixing.start(point, self.job.client),
                "most": mixing.objects_at_a_time(point, self.job.client),
            },
            "sizes": point.fixed["sizes"],
            "bodies": [str(f) for f in self.files],
            "uploads": [{"bucket": i, "prefix": self.job.buckets[i].prefix + name} for i in self.own],
            "first_put": self.job.client,
            "page_size": point.axes["page_size"],
            "verify": VERIFY_EVERY,
            "seed": derive_seed(point.seed, self.job.client),
        }

    def checks(self) -> Sequence[Check]:
        compared, differ = self.summary["compared"], self.summary["differ"]
        told = f"{compared - differ} of {compared} answers compared hold the right bytes"
        return (Check("content", not differ, told),)

    def result(self) -> Result:
        out = super().result()
        out.engine |= {"listed": self.summary["listed"], "mixed": self.summary["mixed"]}
        return out

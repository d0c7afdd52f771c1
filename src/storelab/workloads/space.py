"""`space`: raw bytes that a store uses for the bytes stored, and how much of it comes back after deletion, and when.

Experiment 9 of the evaluations left the space overhead of erasure coding as future work. Objects are uploaded until the
deadline as by `put`; what the store then uses in all copies is asked of the store itself (`Store.used_bytes`).
"""

import time
from typing import TYPE_CHECKING, Any

from storelab.core import axes
from storelab.core.model import Point
from storelab.engines.common.objects import put_prefix
from storelab.stores.base import Store
from storelab.workloads.base import MOVES
from storelab.workloads.objects.put import Put
from storelab.workloads.staging import buckets, written

if TYPE_CHECKING:
    from storelab.core.config import Config
    from storelab.engines.contract import GangJob

SETTLE_S = 1.0  # between two looks at the used bytes; settled when two agree within SETTLED
SETTLED, LONGEST_S = 0.002, 20.0
WATCHED_S = 15.0  # after the deletion, before the store is told to give space back


def settled(store: Store) -> int:
    """Used bytes once two looks a second apart agree within 0.2 %, at the latest after LONGEST_S."""
    end, last = time.monotonic() + LONGEST_S, store.used_bytes() or 0
    while True:
        time.sleep(SETTLE_S)
        now = store.used_bytes() or 0
        if abs(now - last) <= SETTLED * max(now, 1) or time.monotonic() > end:
            return now
        last = now


class Space(Put):
    def before(self, config: "Config", store: Store, point: Point, job: "GangJob") -> None:
        super().before(config, store, point, job)
        store.reclaim()
        job.extra["used_before_bytes"] = settled(store)

    def observe(self, store: Store, point: Point, job: "GangJob", folder: Any) -> dict[str, Any]:
        """Delete what this point uploaded, and watch the space come back.

        Gives objects and stored_bytes (as listed), used_before_bytes, used_after_put_bytes, used_after_delete_bytes,
        used_after_reclaim_bytes, and returned: [[seconds after the deletion, used bytes], …].
        """
        places = job.buckets
        ways, prefix = buckets.accesses(store, places), put_prefix(job.attempt)
        sizes = [size for b in places for _, size in buckets.list_keys(ways[b.account], b, prefix)]
        used = settled(store)
        ours = written.of_attempt(store, point, job.attempt, self.makes(point, job.attempt))
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


SPACE = Space(
    "space",
    (
        axes.engine("space", "s5cmd", MOVES),
        axes.OBJECT_SIZE,
        axes.CLIENTS,
        axes.WORKERS,
        axes.BUCKETS,
        *axes.DEPLOYMENT,
    ),
    "Raw bytes used for each byte stored, and what comes back after deletion; objects are uploaded until the deadline.",
    direction="write",
    needs=("used_bytes",),
)

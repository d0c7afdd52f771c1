"""`rewrite`: clients put, overwrite and delete objects over a bounded set of keys, and keep a ledger of it, which is
read back: what is lost, stale or resurrected can only show where keys are written more than once.
"""

from pathlib import Path
from typing import Any

from storelab.core import axes
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.engines.common.ledger import STAMP
from storelab.engines.contract import GangJob
from storelab.stores.base import Store
from storelab.workloads.base import Workload
from storelab.workloads.objects.put import Put


class Rewrite(Put):
    def possible(self, point: Point) -> None:
        if (size := point.axes["object_size"]) < STAMP:
            problem = f"objects of {size} B cannot tell which write they are of"
            raise UserError(f"sweeps.{point.sweep}.axes.object_size", problem, f"at least {STAMP} B")

    def after(self, store: Store, point: Point, job: GangJob, folder: Path) -> list[dict[str, Any]]:
        return self.noted(folder)


REWRITE: Workload = Rewrite(
    "rewrite",
    (
        axes.engine("rewrite", "obstore", "What writes."),
        axes.OBJECT_SIZE,
        axes.KEYS_PER_WORKER,
        axes.DELETIONS,
        *axes.PLACES,
        axes.ARRIVAL_RATE,
        axes.BALANCE,
        *axes.DEPLOYMENT,
        axes.CLIENTS_PER_NODE,
    ),
    "Puts, overwrites and deletions over a bounded set of keys, each of one worker; every acknowledged write is read "
    "back.",
    direction="write",
)

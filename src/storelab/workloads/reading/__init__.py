"""What the workloads that read ROOT files share: cold reads, and which ways of making requests go together.

May import: `links`, `base`, `stores`, `core`.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import axes
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.workloads.base import Workload
from storelab.workloads.reading import links

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.engines.contract import GangJob
    from storelab.stores.base import Store

# At the end of each workload's axes, so that paths of older points stay what they are.
BUCKETS = replace(
    axes.BUCKETS, help="Buckets with a copy of the file each; client i reads copy i mod n. 1: shared by all."
)
LATER = (axes.CODEC, BUCKETS, axes.THRIFT, axes.AMPLIFICATION, axes.TRANSPORT, axes.ACCESS)
OF_READERS = (axes.HEADER, axes.CONNECTIONS, axes.SPLIT)  # behind these
READER = (
    "Reader and protocol: `uproot-s3fs` merges over a fixed gap; `planned`: storelab's read planner and "
    "decoder; `root`: ROOT itself; `davix`: davix's vector reads, and storelab's decoder."
)


class Reading(Workload):
    def before(self, config: "Config", store: "Store", point: Point, job: "GangJob") -> None:
        """Links that an earlier point of the sweep measured. Of cold reads: tell clients the folders of this machine in
        which the store's data lie; they drop what is cached of them."""
        links.tell(config, point, job)
        if point.axes["access"] != "cold":
            return
        folders = [str(store.data)] if store.managed else []  # type: ignore[attr-defined]
        if store.protocol == "file":
            folders += sorted({str(store.path / b.name) for b in job.buckets})  # type: ignore[attr-defined]
        job.extra["pages"] = [] if store.deployment()["backing"] in ("memory", "tmpfs") else folders

    def after(self, store: "Store", point: Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        links.keep(point, job, folder)
        return []


class Replay(Reading):
    def possible(self, point: Point) -> None:
        """Raises UserError: planned requests have no fixed gap, a fixed gap neither thrift nor bound."""
        merge = point.axes["merge"]
        for axis in (axes.GAP,) if merge == "planned" else (axes.THRIFT, axes.AMPLIFICATION):
            if point.axes[axis.name] != axis.default:
                mend = "sweep merge gap" if merge == "planned" else "sweep merge planned"
                raise UserError(f"sweeps.{point.sweep}.axes.{axis.name}", f"merge {merge} has no {axis.name}", mend)

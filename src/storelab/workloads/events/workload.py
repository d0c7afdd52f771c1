"""`events`: jobs, each on its own file, process events until they are stopped together.

Experiment 16, the storage laboratory of the HEPiX Storage Working Group (progress notes, September 2010): events
processed are counted, and the MB/s into the nodes. There a job had many files; here it goes through its one again and
again, each time with empty caches. Its CMS use case is a scan, almost serial; its ATLAS use case navigates at random.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import axes
from storelab.core.axes import AHEAD
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.datasets.root.generated import SCALES
from storelab.workloads.base import ACCESS, Workload
from storelab.workloads.reading import links

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.engines.contract import GangJob
    from storelab.stores.base import Store


class Events(Workload):
    def possible(self, point: Point) -> None:
        """Raises UserError: a job has its file for itself; a read-ahead belongs to a cache that has one."""
        place, values = f"sweeps.{point.sweep}.axes", point.axes
        if values["clients"] > values["files"]:
            problem = f"{values['clients']} clients read a file of their own each, and there are {values['files']}"
            raise UserError(f"{place}.files", problem, "raise `files`, or sweep fewer clients")
        known = SCALES.get(values["scale"])
        if known and values["step"] > known.entries:
            problem = f"file {values['scale']} holds {known.entries} events"
            raise UserError(f"{place}.step", problem, "make the step smaller")
        cache, ahead = values["cache"], values["cache"] in AHEAD
        if ahead != (values["read_ahead"] > 0):
            problem = f"cache {cache} reads ahead by 0 B" if ahead else f"cache {cache} does not read ahead"
            mend = "give a size, like 1 MiB" if ahead else f"leave it out, or sweep cache {' or '.join(AHEAD)}"
            raise UserError(f"{place}.read_ahead", problem, mend)

    def before(self, config: "Config", store: "Store", point: Point, job: "GangJob") -> None:
        """Links that an earlier point of the sweep measured."""
        links.tell(config, point, job)

    def after(self, store: "Store", point: Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        links.keep(point, job, folder)
        return []


EVENTS = Events(
    "events",
    (
        axes.engine(
            "events",
            "fsspec",
            "How a job reads: `fsspec`, basket by basket through a file object with a `cache` (all protocols); "
            "`planned`: each step's baskets at once, by the read planner.",
        ),
        axes.SCALE,
        axes.NAVIGATION,
        axes.STEP,
        axes.VOLUME,
        axes.CLIENTS,
        axes.FILES,
        axes.CACHE,
        axes.READ_AHEAD,
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        axes.CODEC,
        axes.THRIFT,
        axes.AMPLIFICATION,
        axes.CLIENTS_PER_NODE,
        replace(
            ACCESS,
            help="`warm`: a job goes through its file again and again; `once`: once, and the run ends when all jobs "
            "are through; `cold`: the same, after the store was started anew and the kernel dropped its files from "
            "memory.",
        ),
    ),
    (
        "Jobs on files of their own, stopped together: events processed, and bytes moved for each; scan or random "
        "navigation."
    ),
    dataset="root",
)

"""Workloads: the operations that are measured.

A new workload is a module and one line in this file. `staging/` makes the data that workloads read.

This package imports only `engines`, `stores`, `install`, `host`, `datasets`, `readplan` and `core`.
"""

from storelab.core.model import Point
from storelab.workloads.base import Roles, Workload
from storelab.workloads.calibrate import CALIBRATE
from storelab.workloads.consistency.workload import CONSISTENCY
from storelab.workloads.distribution.workload import COLLECT_GARBAGE, LAUNCH, PUBLISH, REPLICATE
from storelab.workloads.mix import MIX
from storelab.workloads.objects import DELETE, GET, GET_RANGE, LIST, PUT, REWRITE, SPACE, STAT
from storelab.workloads.probe.workload import PROBE
from storelab.workloads.reading.workloads import EVENTS, READ_ENTRIES, READ_VOLUME, REPLAY

WORKLOADS: dict[str, Workload] = {
    "put": PUT,
    "get": GET,
    "get_range": GET_RANGE,
    "delete": DELETE,
    "rewrite": REWRITE,
    "stat": STAT,
    "list": LIST,
    "mix": MIX,
    "read_volume": READ_VOLUME,
    "read_entries": READ_ENTRIES,
    "replay": REPLAY,
    "events": EVENTS,
    "space": SPACE,
    "publish": PUBLISH,
    "replicate": REPLICATE,
    "launch": LAUNCH,
    "collect_garbage": COLLECT_GARBAGE,
    "consistency": CONSISTENCY,
    "probe": PROBE,
    "calibrate": CALIBRATE,
}


def workload_of(point: Point) -> Workload:
    """Return the workload of a point. For a point with roles, return the combined workloads of the roles."""
    parts = point.parts()
    if parts[0].point is point:
        return WORKLOADS[point.workload]
    return Roles.of(point.workload, {part.name: WORKLOADS[part.point.workload] for part in parts})

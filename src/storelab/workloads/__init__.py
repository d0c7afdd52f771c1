"""Workloads: what is asked of a store. A file or a folder each; a new one is that and one line here. `staging/` makes
what they read.

May import: `engines`, `stores`, `install`, `host`, `datasets`, `readplan`, `core`.
"""

from storelab.core.model import Point
from storelab.engines import load
from storelab.workloads.base import Workload
from storelab.workloads.roles import Roles

_REGISTRY = (
    "storelab.workloads.objects.put:PUT",
    "storelab.workloads.objects.get:GET",
    "storelab.workloads.objects.get_range:GET_RANGE",
    "storelab.workloads.objects.delete:DELETE",
    "storelab.workloads.objects.rewrite:REWRITE",
    "storelab.workloads.metadata.stat:STAT",
    "storelab.workloads.metadata.list:LIST",
    "storelab.workloads.mix:MIX",
    "storelab.workloads.reading.read_volume:READ_VOLUME",
    "storelab.workloads.reading.read_entries:READ_ENTRIES",
    "storelab.workloads.replay.workload:REPLAY",
    "storelab.workloads.events.workload:EVENTS",
    "storelab.workloads.space:SPACE",
    "storelab.workloads.distribution.workload:PUBLISH",
    "storelab.workloads.distribution.workload:REPLICATE",
    "storelab.workloads.distribution.launch.workload:LAUNCH",
    "storelab.workloads.distribution.garbage:COLLECT_GARBAGE",
    "storelab.workloads.consistency.workload:CONSISTENCY",
    "storelab.workloads.probe.workload:PROBE",
    "storelab.workloads.calibrate.workload:CALIBRATE",
)
WORKLOADS = {w.name: w for w in map(load, _REGISTRY)}


def of(point: Point) -> Workload:
    """The workload of a point; where it has roles, those of all of them together."""
    parts = point.parts()
    if parts[0].point is point:
        return WORKLOADS[point.workload]
    return Roles.of(point.workload, {part.name: WORKLOADS[part.point.workload] for part in parts})

"""Workloads: what is asked of a store. A file or a folder each; a new one is that and one line here. `staging/` makes what they read.

May import: `engines`, `stores`, `install`, `host`, `datasets`, `readplan`, `core`.
"""

from storelab.workloads.calibrate.workload import CALIBRATE
from storelab.workloads.consistency.workload import CONSISTENCY
from storelab.workloads.delete import DELETE
from storelab.workloads.events.workload import EVENTS
from storelab.workloads.get import GET
from storelab.workloads.get_range import GET_RANGE
from storelab.workloads.probe.workload import PROBE
from storelab.workloads.put import PUT
from storelab.workloads.read_entries import READ_ENTRIES
from storelab.workloads.read_volume import READ_VOLUME
from storelab.workloads.replay.workload import REPLAY
from storelab.workloads.space import SPACE

_TRANSFERS = (PUT, GET, GET_RANGE, DELETE)
_READS = (READ_VOLUME, READ_ENTRIES, REPLAY, EVENTS)
WORKLOADS = {w.name: w for w in (*_TRANSFERS, *_READS, SPACE, CONSISTENCY, PROBE, CALIBRATE)}

"""Workloads: what is asked of a store. A file or a folder each; a new one is that and one line here. `staging/` makes what they read.

May import: `engines`, `stores`, `install`, `host`, `datasets`, `readplan`, `core`.
"""

from storelab.workloads import delete, get, get_range, put, read_entries, read_volume, space
from storelab.workloads.calibrate import workload as calibrate
from storelab.workloads.consistency import workload as consistency
from storelab.workloads.events import workload as events
from storelab.workloads.probe import workload as probe
from storelab.workloads.replay import workload as replay

_ALL = (put, get, get_range, delete, read_volume, read_entries, replay, events, space, consistency, probe, calibrate)
WORKLOADS = {w.SPEC.name: w.SPEC for w in _ALL}
MODULES = {w.SPEC.name: w for w in _ALL}

"""Workloads: one file each; a new one is that file and one line here (level 2, measuring side)."""

from storelab.workloads import calibrate, consistency, delete, events, get, get_range, probe, put, read_entries, read_volume, replay, space

_ALL = (put, get, get_range, delete, read_volume, read_entries, replay, events, space, consistency, probe, calibrate)
WORKLOADS = {w.SPEC.name: w.SPEC for w in _ALL}
MODULES = {w.SPEC.name: w for w in _ALL}

"""Workloads: one file each; a new one is that file and one line here (level 2, measuring side)."""

from storelab.workloads import calibrate, consistency, delete, get, get_range, probe, put, read_entries, space

WORKLOADS = {w.SPEC.name: w.SPEC for w in (put, get, get_range, delete, read_entries, space, consistency, probe, calibrate)}
MODULES = {w.SPEC.name: w for w in (put, get, get_range, delete, read_entries, space, consistency, probe, calibrate)}

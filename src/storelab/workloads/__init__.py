"""Workloads: one file each; a new one is that file and one line here (level 2, measuring side)."""

from storelab.workloads import consistency, get, get_range, probe, put, read_entries, space

WORKLOADS = {w.SPEC.name: w.SPEC for w in (put, get, get_range, read_entries, space, consistency, probe)}
MODULES = {w.SPEC.name: w for w in (put, get, get_range, read_entries, space, consistency, probe)}

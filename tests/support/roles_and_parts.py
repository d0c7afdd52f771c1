"""A campaign with the sweeps of `several` and `soaked`: roles, faults, and points measured in parts."""

import made_records
import several
import soaked

PARTS = {name: sweep | {"repetitions": 1} for name, sweep in soaked.CONFIG["sweeps"].items()}
CONFIG = several.CONFIG | {"campaign": "roles", "name": "roles", "sweeps": several.CONFIG["sweeps"] | PARTS}


def write(folder):
    """Write the records of all points below `folder`."""
    made_records.write(folder, CONFIG, lambda p: (soaked if p.sweep in PARTS else several).record(p, folder))

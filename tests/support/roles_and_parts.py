"""One campaign with the sweeps of `several` and `soaked`: roles, faults, and points measured in parts."""

import several
import soaked

from storelab.core import config, evidence, plan, records
from storelab.workloads import WORKLOADS

PARTS = {name: sweep | {"repetitions": 1} for name, sweep in soaked.CONFIG["sweeps"].items()}
CONFIG = several.CONFIG | {"campaign": "roles", "name": "roles", "sweeps": several.CONFIG["sweeps"] | PARTS}


def write(folder):
    """Write the records of all points below `folder`."""
    settings = config.Config.model_validate(CONFIG)
    points = plan.make(settings, WORKLOADS)
    for point in points:
        (soaked if point.sweep in PARTS else several).record(point, folder)
    records.write_json(folder / "raw" / "plan.json", plan.to_json(settings, points, WORKLOADS))
    evidence.write_sums(folder / "raw")

"""Measure plan_s, the time to plan 2000 points, and dry_run_s, that of `snakemake -n` with all measuring rules."""

import time
from pathlib import Path

from common import BIN, laboratory, options, report, run, say, sized, timed

from storelab.core import plan
from storelab.stores import config
from storelab.workloads import WORKLOADS

SWEEPS = {
    "up": {
        "workload": "put",
        "axes": {
            "clients": list(range(1, 26)),
            "workers": [1, 2, 4, 8],
            "front_ends": [1, 2],
            "object_size": ["4 kB", "1 MB"],
        },
    },
    "down": {"workload": "get", "axes": {"clients": list(range(1, 26)), "workers": [1, 2, 4, 8], "front_ends": [1, 2]}},
    "many": {
        "workload": "get",
        "axes": {
            "buckets": list(range(2, 52)),
            "object_size": ["10 kB", "1 MB"],
            "clients": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        },
    },
    "entries": {
        "workload": "read_entries",
        "axes": {"clients": list(range(1, 41)), "entry_fraction": [100, 50, 10, 1, 0.1], "volume_fraction": [100, 50]},
    },
}


def main() -> None:
    args = options(__doc__)
    n = sized(args, 7, 3, 1)
    values: dict[str, list[float]] = {"plan_s": [], "dry_run_s": []}
    with laboratory(SWEEPS) as folder:
        for i in range(n):
            say(f"plan_scale: repetition {i + 1} of {n}")
            begun = time.monotonic()
            points = plan.make(config.load(Path(folder) / "config.yaml"), WORKLOADS)
            values["plan_s"].append(time.monotonic() - begun)
            assert len(points) == 2000, len(points)
            command = [
                str(BIN / "snakemake"),
                "-n",
                "--profile",
                "profiles/local",
                "--config",
                "measure=true",
                "--",
                "collect",
            ]
            values["dry_run_s"].append(timed(command, folder))
    report("plan_scale", n, values, args)


if __name__ == "__main__":
    run(main)

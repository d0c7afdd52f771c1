"""Measure overhead_s: wall time of a point (`storelab measure`, 4 local clients, put of 4 kB) outside of its window."""

from pathlib import Path

from common import BIN, laboratory, options, report, run, say, sized, storelab, timed

from storelab.core import plan
from storelab.stores import config
from storelab.workloads import WORKLOADS

WINDOW_S = 2


def main() -> None:
    args = options(__doc__)
    n, window_s = sized(args, 20, 5, 1), sized(args, WINDOW_S, WINDOW_S, 1)
    sweeps = {
        w: {"workload": w, "duration": f"{window_s} s", "warm_up": "500 ms", "axes": {"clients": 4}}
        for w in ("put", "get")
    }
    values: dict[str, list[float]] = {"overhead_s": [], "overhead_put_s": [], "overhead_get_s": []}
    with laboratory(sweeps, repetitions=n + 1) as folder:
        storelab(folder, "up", "seaweedfs")
        storelab(folder, "plan", "--write")
        storelab(folder, "stage")
        points = plan.make(config.load(Path(folder) / "config.yaml"), WORKLOADS)
        for i, point in enumerate(points):
            wall = timed([str(BIN / "storelab"), "measure", point.key], folder)
            say(f"point_overhead: {i + 1} of {len(points)}: {point.workload} {wall - window_s:.2f} s")
            if point.rep > 1:  # the first repetition warms the page cache
                values["overhead_s"].append(wall - window_s)
                values[f"overhead_{point.workload}_s"].append(wall - window_s)
    report("point_overhead", n, values, args, servers=["seaweedfs"])


if __name__ == "__main__":
    run(main)

"""Measure the rate of one client at the near-null server by engine, and the CPU time of an operation on both sides.

One client has 16 workers; client and server are on the same host. Operations: put and get of 4 kB and 16 MB, ranges of
4 kB. Figures are medians of six runs, interleaved in the order of the plan. `<operation>_<size>_<engine>_per_s`:
operations per second in the window; `…_client_ms`, `…_server_ms`: CPU time of client and server per operation.
docs/calibration.md shows the saved result in a table that table.py writes.
"""

import os
from collections import defaultdict

import pandas as pd
import ports
from common import laboratory, options, report, run, say, sized, storelab

from storelab.core import plan
from storelab.stores import config
from storelab.workloads import WORKLOADS

ENGINES = ("s5cmd", "fsspec", "obstore", "loadgen")
SIZES = {4_000: "4kB", 16_000_000: "16MB"}
SWEEPS = {
    "whole": {"axes": {"operation": ["put", "get"], "engine": list(ENGINES), "object_size": ["4 kB", "16 MB"]}},
    # s5cmd cannot read ranges.
    "ranges": {"axes": {"operation": "get_range", "engine": list(ENGINES[1:]), "object_size": "16 MB"}},
}


def sweeps(window_s: int, few: bool) -> dict:
    """Return the campaign's sweeps; few: only small objects and two engines."""
    shared = {"workload": "calibrate", "duration": f"{window_s} s", "warm_up": "250 ms"}
    out = {name: shared | {"axes": sweep["axes"] | {"workers": 16}} for name, sweep in SWEEPS.items()}
    out["ranges"]["axes"] |= {"range_size": "4 kB"}
    if few:
        out["whole"]["axes"] |= {"engine": ["s5cmd", "loadgen"], "object_size": "4 kB"}
        out["ranges"]["axes"] |= {"engine": "loadgen"}
    return out


def figures(points: pd.DataFrame, cores: int) -> dict[str, list[float]]:
    """Return the values of each figure, one per valid run. points: rows of points.csv."""
    out: dict[str, list[float]] = defaultdict(list)
    for row in points[points["state"] == "ok"].to_dict("records"):
        cell = f"{row['operation']}_{SIZES[row['object_size_bytes']]}_{row['engine']}"
        rate = row["overlap_rate_per_s"]
        out[f"{cell}_per_s"].append(rate)
        for side in ("client", "server"):
            out[f"{cell}_{side}_ms"].append(row[f"{side}_cpu_percent"] / 100 * cores / rate * 1000)
    return dict(out)


def main() -> None:
    args = options(__doc__.splitlines()[0])
    n = sized(args, 6, 3, 1)
    stores = {"ceiling": {"kind": "nullserver", "port": ports.block()}}
    with laboratory(
        sweeps(sized(args, 2, 2, 1), args.smoke), stores, stores_to_measure=["ceiling"], repetitions=n
    ) as folder:
        storelab(folder, "plan", "--write")
        planned = plan.make(config.load(folder / "config.yaml"), WORKLOADS)
        for i, point in enumerate(planned, 1):
            storelab(folder, "measure", point.key)
            say(f"ceilings: {i} of {len(planned)}: {point.key}")
        storelab(folder, "collect")
        storelab(folder, "tables")
        points = pd.read_csv(folder / "results" / "bench" / "tables" / "points.csv")
    report("ceilings", n, figures(points, os.cpu_count() or 1), args)


if __name__ == "__main__":
    run(main)

"""Measure seconds_20M and gb_20M: wall time and peak memory of `storelab tables`, which reads 20 million operation
records and another 20 million operations in bins on two cores.

The records are synthetic, but storelab's own writers write them. 40 points of 4 clients have single rows: GET and PUT,
a quarter of them in an open loop, and one operation in a thousand fails. 8 points have bins of 100 ms. The time
includes the check of the checksums.
"""

import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from common import BIN, environ, options, report, run, say, sized

from storelab.core import integrity, plan, records
from storelab.core.model import Point
from storelab.engines.common import bins
from storelab.stores import config
from storelab.workloads import WORKLOADS

T0, S = 1_760_000_000_000_000_000, 10**9
CLIENTS, SECONDS = 4, 30
SWEEPS = {
    "get": {"workload": "get", "axes": {"object_size": ["4 kB", "64 kB", "1 MB", "10 MB"], "workers": [8, 32]}},
    "put": {"workload": "put", "axes": {"object_size": ["4 kB", "64 kB", "1 MB", "10 MB"], "workers": [8, 16, 32]}},
    "open": {"workload": "get", "axes": {"arrival_rate": [5000, 10000, 15000, 16000], "object_size": "8 kB"}},
    "binned": {"workload": "get", "axes": {"object_size": ["1 kB", "2 kB"], "workers": [64, 128]}},
}
REPETITIONS = {"get": 2, "put": 1, "open": 3, "binned": 2}  # 40 points with single rows, 8 in bins


def settings() -> config.Config:
    sweeps = {
        name: s
        | {
            "duration": f"{SECONDS} s",
            "repetitions": REPETITIONS[name],
            "axes": s["axes"] | {"engine": "obstore", "clients": CLIENTS},
        }
        for name, s in SWEEPS.items()
    }
    body = {"campaign": "scale", "name": "scale", "calibrate": False, "sweeps": sweeps, "use_stores": ["one"]}
    return config.Config.model_validate(
        body | {"stores": {"one": {"kind": "s3", "endpoint": "https://s3.example.org"}}}
    )


def operations(rng: np.random.Generator, n: int, point: Point, start: int) -> dict[str, np.ndarray]:
    """Return the times of n operations of one client.

    Latencies are log-normal around 5 ms. In an open loop, each operation was due up to 20 ms before it began.
    """
    begun = start + np.sort(rng.integers(0, SECONDS * S, n))
    took = rng.lognormal(np.log(5e6), 0.6, n).astype(np.int64)
    times = {
        "start_ns": begun,
        "first_byte_ns": begun + (took * rng.uniform(0.2, 0.9, n)).astype(np.int64),
        "end_ns": begun + took,
    }
    return times | ({"intended_ns": begun - rng.integers(0, 20_000_000, n)} if point.axes["arrival_rate"] else {})


def single(rng: np.random.Generator, n: int, point: Point, client: int, start: int) -> dict[str, Any]:
    """Return the columns of `ops`: GETs of a thousand staged objects, or PUTs to new keys."""
    put, failed, one = point.workload == "put", rng.random(n) < 0.001, np.ones(n, np.int64)
    names = pa.array(
        [f"put/{point.order}/{client}/{i:08d}" if put else f"payload/{i:06d}" for i in range(n if put else 1000)]
    )
    index = np.arange(n, dtype=np.int32) if put else rng.integers(0, 1000, n).astype(np.int32)
    return {
        "client": np.full(n, client, np.int16),
        "worker": rng.integers(0, point.axes["workers"], n).astype(np.int16),
        "op": pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array(["PUT" if put else "GET"])),
        "object": pa.DictionaryArray.from_arrays(pa.array(index), names),
        "count": one,
        "bytes": np.where(failed, 0, point.axes["object_size"]),
        "requests": one.astype(np.int32),
        "status": np.where(failed, 503, 200).astype(np.int16),
        "error": pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(n, np.int8), mask=~failed), pa.array(["SlowDown"])
        ).cast(pa.string()),
        **operations(rng, n, point, start),
    }


def run_json(point: Point, start: int) -> dict[str, Any]:
    client = {
        "host": "node",
        "endpoint": "https://s3.example.org",
        "cpu_user_s": 1.0,
        "cpu_system_s": 1.0,
        "start_ns": start,
        "end_ns": start + SECONDS * S,
    }
    return {
        "campaign": "scale",
        "point": asdict(point),
        "start_ns": start,
        "deadline_ns": start + SECONDS * S,
        "clients": [client | {"client": i, "lateness_ns": 0} for i in range(CLIENTS)],
        "store": {"name": "one", "kind": "s3"},
        "engine": {"name": "obstore", "version": "1"},
    }


def make(folder: Path, rows: int) -> None:
    """Write a whole campaign with `rows` single rows and the same number of operations in bins."""
    chosen = settings()
    points = plan.make(chosen, WORKLOADS)
    in_bins = [p for p in points if p.sweep == "binned"]
    each, each_bin = rows // ((len(points) - len(in_bins)) * CLIENTS), rows // (len(in_bins) * CLIENTS)
    assert (len(points), len(in_bins)) == (48, 8), (len(points), len(in_bins))
    rng = np.random.default_rng(20150413)
    like = operations(rng, each_bin, in_bins[0], T0)
    folded = bins.binned(
        T0, like["start_ns"], like["end_ns"], "GET", sums={"bytes": np.full(each_bin, 1000), "requests": 1}
    )
    for point in points:
        start, place = T0 + point.order * 100 * S, folder / "raw" / point.key
        for client in range(CLIENTS):
            if point.sweep == "binned":
                ends = [end + start - T0 for end in folded["end_ns"]]
                columns = folded | {"client": [client] * len(ends), "end_ns": ends}
            else:
                columns = single(rng, each, point, client, start)
            records.write_table(place / f"ops.{client}.parquet", records.OPS, columns, sync=False)
        records.finish(place, run_json(point, start))
    records.write_json(folder / "raw" / "plan.json", plan.to_json(chosen, points, WORKLOADS))
    integrity.write_sums(folder / "raw")


def two_cores() -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def analyse(folder: Path) -> tuple[float, float]:
    """Return wall seconds and peak memory (10^9 bytes) of `storelab tables`, run in a separate process."""
    begun = time.monotonic()
    child = subprocess.Popen(
        [str(BIN / "storelab"), "tables", "--campaign-dir", str(folder)],
        env=environ(),
        cwd=folder,
        stdout=subprocess.DEVNULL,
        preexec_fn=two_cores,
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit("storelab tables failed")
    return time.monotonic() - begun, usage.ru_maxrss * 1024 / 1e9


def main() -> None:
    args = options(__doc__)
    rows, n = sized(args, (20_000_000, 5), (2_000_000, 3), (64_000, 1))
    label = sized(args, "20M", "2M", "20M")
    seconds, gb = f"seconds_{label}", f"gb_{label}"
    values: dict[str, list[float]] = {seconds: [], gb: []}
    folder = Path(tempfile.mkdtemp(prefix="storelab-analysis-"))
    try:
        begun = time.monotonic()
        make(folder, rows)
        size = sum(p.stat().st_size for p in integrity.raw_files(folder / "raw"))
        say(
            f"analysis_scale: {rows} rows and the same number of operations in bins, {size / 1e9:.2f} GB, "
            f"made in {time.monotonic() - begun:.0f} s"
        )
        for i in range(n):
            took, peak = analyse(folder)
            values[seconds].append(took)
            values[gb].append(peak)
            say(f"analysis_scale: {i + 1} of {n}: {took:.1f} s, {peak:.2f} GB")
        from storelab.analysis.tables import build

        counted = build.read(folder, "points")[["operations", "errors"]].to_numpy().sum()
        assert abs(counted / (2 * rows) - 1) < 0.001, f"{counted} operations in the tables"
    finally:
        shutil.rmtree(folder)
    report("analysis_scale", n, values, args)


if __name__ == "__main__":
    run(main)

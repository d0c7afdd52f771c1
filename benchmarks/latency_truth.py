"""Compare the latencies that the engines obstore and loadgen record with the true ones, in closed and in open loop.

A server delays its answers by a known distribution (log-normal, median 40 ms), and stalls for half a second. In the
closed loop, the truth is the delay that the server itself gave each request. In the open loop it counts from the
schedule: a request that is due in a stall waits for its end. Errors are relative, |measured - truth| / truth, for the
same requests. They include the way over loopback and the wake-up of threads (about 0.7 ms on two cores).
"""

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import ports
import pyarrow.parquet as pq
from common import options, report, run, say, sized
from delay_server import DelayServer

from storelab.core import clock
from storelab.core.model import Point
from storelab.datasets import payload
from storelab.engines.contract import Job, Result
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads import WORKLOADS

ENGINES, SEED = ("obstore", "loadgen"), 1
SECONDS, RATE, STALL = 8, 200, (0.375, 0.5)  # stall: begin as a fraction of the window, length in s
CASES = {"closed": (False, False), "closed_stall": (False, True), "open": (True, False), "open_stall": (True, True)}
QUANTILES = {"p50": 0.5, "p99": 0.99}


def delays(n: int = 10_000) -> list[float]:
    rng = random.Random(20150413)
    return [rng.lognormvariate(0, 0.5) * 0.040 for _ in range(n)]


def quantile(values: list[float], q: float) -> float:
    """Return the smallest value that at least a fraction q of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-q * len(ordered) // 1) - 1))]


def body(folder: Path, size: int) -> bytes:
    """Return the content of all objects; engines find it by the body files in their scratch folder."""
    return payload.body_files(folder, SEED, size)[0].read_bytes()


def columns(result: Result) -> dict[str, list[Any]]:
    """Return the columns of `ops`, from a file that the engine wrote or from memory."""
    if result.written is not None:
        return pq.read_table(result.written.file).to_pydict()
    return {name: np.asarray(values).tolist() for name, values in result.ops.items()}


def job(url: str, folder: Path, body: bytes, workers: int, rate: int, engine: str) -> Job:
    axes = {a.name: a.default for a in WORKLOADS["get"].axes} | {
        "engine": engine,
        "object_size": len(body),
        "workers": workers,
    }
    point = Point("delayed", "get", axes | {"arrival_rate": rate}, 1, "", "", 1, 1, {"data_seed": SEED}, None)
    manifest = folder / "manifest.json"
    keys = [f"data/{i}" for i in range(16)]
    objects = {"key": keys, "bucket": [0] * len(keys), "body": [0] * len(keys)}
    sums = payload.body_sums(payload.body_files(folder, SEED, len(body)))
    manifest.write_text(json.dumps({"dataset": {"seed": SEED}, "bodies": sums, "objects": objects}))
    return Job(point, 0, Endpoint(url), [Bucket("bucket")], folder / "scratch", manifest, "truth")


def measured(
    server: DelayServer, opened: bool, stall: bool, engine: str, seconds: int
) -> tuple[list[float], list[float]]:
    """Return (recorded latencies, true latencies) in s of the operations that began before the deadline."""
    server.reset()
    with tempfile.TemporaryDirectory(prefix="storelab-truth-") as folder:
        client = WORKLOADS["get"].client(
            job(server.url, Path(folder), server.body, 160 if opened else 8, RATE if opened else 0, engine)
        )
        try:
            client.prepare()
            start = clock.now_ns() + 50_000_000
            if stall:
                begin = start + int(STALL[0] * seconds * 1e9)
                server.stalls = [(begin, begin + int(STALL[1] * 1e9))]
            client.run(start, start + seconds * 10**9)
            result = client.result()
            ops = columns(result)
        finally:
            client.close()
    begun = ops["intended_ns"] if opened else ops["start_ns"]
    recorded = [(end - begin) / 1e9 for begin, end in zip(begun, ops["end_ns"], strict=True)]
    if any(e is not None for e in ops["error"]) or not all(c.ok for c in result.checks):
        raise SystemExit(
            f"latency_truth: the run was not clean: {result.engine['errors']}, {[c.detail for c in result.checks]}"
        )
    if not opened:
        return recorded, [(answered - received) / 1e9 for received, _, answered in server.log]
    truth = []
    for k, (received, _, answered) in enumerate(sorted(server.log)):
        due = start + int(k * 1e9 / RATE)
        stall = next(((begin, stop) for begin, stop in server.stalls if begin <= due < stop), None)
        served = answered - max(
            received, stall[1] if stall else 0
        )  # the time that the server slept, including its oversleeping
        truth.append(((stall[1] - due if stall else 0) + served) / 1e9)
    return recorded, truth


def repetition(server: DelayServer, values: dict[str, list[float]], engine: str, seconds: int) -> None:
    worst = 0.0
    for case, (opened, stall) in CASES.items():
        recorded, truth = measured(server, opened, stall, engine, seconds)
        shown = []
        for name, q in QUANTILES.items():
            a, b = quantile(recorded, q), quantile(truth, q)
            error = abs(a - b) / b
            worst = max(worst, error)
            values.setdefault(f"{engine}_{case}_{name}", []).append(error)
            values.setdefault(f"{engine}_{case}_{name}_ms", []).append(1e3 * a)
            values.setdefault(f"{engine}_{case}_{name}_off_us", []).append(1e6 * (a - b))
            shown.append(f"{name} {1e3 * a:.2f} ms, truth {1e3 * b:.2f} ms")
        say(f"latency_truth: {engine}: {case}: {len(recorded)} operations: {'; '.join(shown)}")
    values.setdefault(f"{engine}_worst_relative_error", []).append(worst)


def main() -> None:
    import os

    args: argparse.Namespace = options(__doc__)
    n, seconds = sized(args, 5, 2, 1), sized(args, SECONDS, SECONDS, 1)
    os.environ.update(Credentials("truth", "truth").environ())
    values: dict[str, list[float]] = {f"{engine}_worst_relative_error": [] for engine in ENGINES}
    with (
        tempfile.TemporaryDirectory(prefix="storelab-truth-") as folder,
        DelayServer(ports.block(), delays(), body(Path(folder), 4000)) as server,
    ):
        for _ in range(n):
            for engine in ENGINES:
                repetition(server, values, engine, seconds)
    values["worst_relative_error"] = [
        max(both) for both in zip(*(values[f"{e}_worst_relative_error"] for e in ENGINES), strict=True)
    ]
    report("latency_truth", n, values, args)


if __name__ == "__main__":
    run(main)

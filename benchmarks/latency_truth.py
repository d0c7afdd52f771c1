"""worst_relative_error closed_p50 … open_stall_p99: latencies that the engine records, against the truth of a server that delays its
answers by a known distribution (log-normal, median 40 ms) and stalls for half a second, in closed and in open loop.

Truth: in the closed loop what the server itself did to each request; in the open loop that, counted from the schedule: a request that
is due in a stall waits for its end. Errors are relative, |measured - truth| / truth, of the same requests; the way over loopback and the
waking of threads are in them (some 0.7 ms on two cores).
"""

import argparse
import hashlib
import json
import random
import tempfile
from pathlib import Path

import ports
from common import options, report, say
from delay_server import DelayServer

from storelab import clock
from storelab.engines.obstore_transfers import ObstoreGet
from storelab.model import Point
from storelab.stores.base import Bucket, Credentials, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.base import Job

SECONDS, RATE, STALL = 8, 200, (3.0, 3.5)
CASES = {"closed": (False, False), "closed_stall": (False, True), "open": (True, False), "open_stall": (True, True)}
QUANTILES = {"p50": 0.5, "p99": 0.99}


def delays(n: int = 10_000) -> list[float]:
    rng = random.Random(20150413)
    return [rng.lognormvariate(0, 0.5) * 0.040 for _ in range(n)]


def quantile(values: list[float], q: float) -> float:
    """The smallest value that at least a part q of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-q * len(ordered) // 1) - 1))]


def job(url: str, folder: Path, body: bytes, workers: int, rate: int) -> Job:
    axes = {a.name: a.default for a in WORKLOADS["get"].axes} | {"engine": "obstore", "object_size": len(body), "workers": workers}
    point = Point("delayed", "get", axes | {"arrival_rate": rate}, 1, "", "", 1, 1, {"data_seed": 1}, None)
    manifest = folder / "manifest.json"
    keys = [f"data/{i}" for i in range(16)]
    objects = {"key": keys, "bucket": [0] * len(keys), "body": [0] * len(keys)}
    manifest.write_text(json.dumps({"bodies": [{"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}], "objects": objects}))
    return Job(point, 0, Endpoint(url), [Bucket("bucket")], folder / "scratch", manifest, "truth")


def measured(server: DelayServer, opened: bool, stall: bool) -> tuple[list[float], list[float]]:
    """(latencies recorded, latencies in truth) in seconds, of the operations that were begun before the deadline."""
    server.reset()
    with tempfile.TemporaryDirectory(prefix="storelab-truth-") as folder:
        client = ObstoreGet(job(server.url, Path(folder), server.body, 160 if opened else 8, RATE if opened else 0))
        try:
            client.prepare()
            start = clock.now_ns() + 50_000_000
            if stall:
                server.stalls = [(start + int(STALL[0] * 1e9), start + int(STALL[1] * 1e9))]
            client.run(start, start + SECONDS * 10**9)
            result = client.result()
        finally:
            client.close()
    ops = result.ops
    begun = ops["intended_ns"] if opened else ops["start_ns"]
    recorded = [(end - begin) / 1e9 for begin, end in zip(begun.tolist(), ops["end_ns"].tolist(), strict=True)]
    if any(e is not None for e in ops["error"]) or not all(c.ok for c in result.checks):
        raise SystemExit(f"latency_truth: the run was not clean: {result.engine['errors']}, {[c.detail for c in result.checks]}")
    if not opened:
        return recorded, [(answered - received) / 1e9 for received, _, answered in server.log]
    truth = []
    for k, (received, _, answered) in enumerate(sorted(server.log)):
        due = start + int(k * 1e9 / RATE)
        stall = next(((begin, stop) for begin, stop in server.stalls if begin <= due < stop), None)
        served = answered - max(received, stall[1] if stall else 0)  # as long as the server slept, its oversleeping included
        truth.append(((stall[1] - due if stall else 0) + served) / 1e9)
    return recorded, truth


def repetition(server: DelayServer, values: dict[str, list[float]]) -> None:
    worst = 0.0
    for case, (opened, stall) in CASES.items():
        recorded, truth = measured(server, opened, stall)
        said = []
        for name, q in QUANTILES.items():
            a, b = quantile(recorded, q), quantile(truth, q)
            error = abs(a - b) / b
            worst = max(worst, error)
            values.setdefault(f"{case}_{name}", []).append(error)
            values.setdefault(f"{case}_{name}_ms", []).append(1e3 * a)
            said.append(f"{name} {1e3 * a:.2f} ms, truth {1e3 * b:.2f} ms")
        say(f"latency_truth: {case}: {len(recorded)} operations: {'; '.join(said)}")
    values.setdefault("worst_relative_error", []).append(worst)


def main() -> None:
    import os

    args: argparse.Namespace = options(__doc__)
    n = 2 if args.quick else 5
    os.environ.update(Credentials("truth", "truth").environ())
    values: dict[str, list[float]] = {"worst_relative_error": []}
    with DelayServer(ports.block(), delays(), b"x" * 4000) as server:
        for _ in range(n):
            repetition(server, values)
    report("latency_truth", n, values, args)


if __name__ == "__main__":
    main()

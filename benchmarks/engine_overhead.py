"""Measure put_4kB, put_100MB, get_4kB and get_100MB: storelab's rate divided by that of s5cmd without storelab.

Without storelab: `timeout -s INT T s5cmd … run FILE`; the rate is the number of operations that `--stat` counts as
successful, divided by T. storelab: one client of a gang; the rate is the number of recorded operations divided by T.
Both use the same server, body files and objects. They are interleaved, and their order changes with every repetition.
"""

import itertools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from common import laboratory, options, report, run, say, sized

from storelab.core import plan
from storelab.core.model import Point
from storelab.engines import s5cmd
from storelab.engines.common.objects import put_prefix
from storelab.engines.contract import Job
from storelab.engines.s5cmd import S5cmdGet, S5cmdPut
from storelab.host import scratch
from storelab.measure import point as measure
from storelab.stores import config, make
from storelab.stores.base import Store
from storelab.stores.protocols import environment
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import buckets, stage

CASES = {  # name: (workload, size, workers, seconds, staged objects, commands in the file)
    "put_4kB": ("put", "4 kB", 8, 4, 64, 100_000),
    "put_100MB": ("put", "100 MB", 2, 12, 8, 1_000),
    "get_4kB": ("get", "4 kB", 8, 4, 64, 100_000),
    "get_100MB": ("get", "100 MB", 2, 6, 8, 2_000),
}


def job_of(conf: config.Config, store: Store, point: Point, attempt: str) -> Job:
    manifest = stage.manifest_path(conf, store.name, point.dataset) if point.dataset else None
    places = stage.buckets_of(conf, store, 1)
    return Job(point, 0, store.endpoints(1)[0], places, scratch.folder(conf.scratch) / attempt, manifest, attempt)


def by_hand(conf: config.Config, store: Store, point: Point, seconds: int, lines: int, attempt: str) -> float:
    """Return the operations per second of the command file, run by s5cmd without storelab."""
    client = (S5cmdPut if point.workload == "put" else S5cmdGet)(job_of(conf, store, point, attempt))
    client.prepare()
    file = client.job.scratch / "commands"
    file.write_text("".join(itertools.islice(client.commands(), lines)))
    command = s5cmd.command(client.job.endpoint, point.axes["workers"])
    env = environment.client(os.environ, client.job.endpoint, store.credentials())
    done = subprocess.run(
        ["timeout", "-s", "INT", str(seconds), *command, str(file)], capture_output=True, text=True, env=env
    )
    client.close()
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    if not summary["success"]:
        raise SystemExit(f"engine_overhead: s5cmd by hand completed no operation in {seconds} s: {done.stderr[-300:]}")
    return summary["success"] / seconds


def ours(conf: config.Config, points: list[Point], point: Point, seconds: int) -> float:
    """Return the operations per second that storelab recorded in the whole window."""
    measure.point(conf, points, point.key)
    table = pq.read_table(conf.raw / point.key / "ops.0.parquet", columns=["error"])
    return (table.num_rows - sum(e is not None for e in table["error"].to_pylist())) / seconds


def clean_up(store: Store, conf: config.Config, attempt: str) -> None:
    place = stage.buckets_of(conf, store, 1)[0]
    buckets.delete_prefix(store.access(), place, put_prefix(attempt), ours=lambda *_: True)
    store.reclaim()


def main() -> None:
    args = options(__doc__)
    n, longest = sized(args, 10, 5, 1), sized(args, 60, 60, 2)
    sweeps = {
        name: {
            "workload": w,
            "duration": f"{min(t, longest)} s",
            "warm_up": "500 ms",
            "objects": sized(args, objects, objects, 2),
            "axes": {"object_size": "4 kB" if args.smoke else size, "workers": workers},
        }
        for name, (w, size, workers, t, objects, _) in CASES.items()
    }
    values: dict[str, list[float]] = {name: [] for name in CASES}
    with (
        laboratory(sweeps, repetitions=n) as folder,
        tempfile.TemporaryDirectory(prefix="storelab-engine-", dir="/dev/shm") as shm,
    ):
        places = {"results": str(folder / "results"), "state": str(folder / ".storelab"), "scratch": shm}
        conf = config.load(Path(folder) / "config.yaml", (), places)
        points = plan.make(conf, WORKLOADS)
        store = make("seaweedfs", conf.stores["seaweedfs"], Path(conf.state))
        store.up(1)
        buckets.ensure(store, conf.name, stage.buckets_of(conf, store, 1))
        for i in range(n):
            for point in (p for p in points if p.rep == i + 1):
                _, _, _, seconds, _, lines = CASES[point.sweep]
                seconds = min(seconds, longest)
                if point.dataset:
                    stage.ensure(conf, store, point.dataset, say)
                rates = {}
                for side in ("ours", "hand") if i % 2 else ("hand", "ours"):
                    rates[side] = (
                        ours(conf, points, point, seconds)
                        if side == "ours"
                        else by_hand(conf, store, point, seconds, lines, f"hand{i}")
                    )
                    clean_up(store, conf, f"hand{i}")
                values[point.sweep].append(rates["ours"] / rates["hand"])
                say(
                    f"engine_overhead: {i + 1} of {n}: {point.sweep} ours {rates['ours']:.1f}/s, "
                    f"by hand {rates['hand']:.1f}/s"
                )
    report("engine_overhead", n, values, args, servers=["seaweedfs"])


if __name__ == "__main__":
    run(main)

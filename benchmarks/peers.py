"""geomean_vs_best_peer cells_beyond, and a figure per cell: our put and get of 4 kB and 100 MB beside plain s5cmd, boto3 threads, s3fs
and, where it is installed, warp, on the same SeaweedFS and versitygw, interleaved; client CPU per 1000 operations or per GB beside.

A cell is a server, an operation and a size: the rate of our best engine (by median) over that of the best peer, in the same repetition.
`cells_beyond`: cells whose 95 % interval (Hodges-Lehmann, see storelab.comparing) lies wholly below 0.95.
"""

import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import ports
from common import environ, laboratory, options, report, say

from storelab import comparing, config, measure, plan, stage, units
from storelab.model import Point
from storelab.stores import buckets, make
from storelab.stores.base import Store
from storelab.workloads import WORKLOADS

SIZES = {"4kB": ("4 kB", 16, {"put": 3, "get": 3}, 256, 200_000), "100MB": ("100 MB", 2, {"put": 9, "get": 5}, 8, 2_000)}
# size: (as written, workers, seconds, objects to read, commands of s5cmd's file)
SERVERS = ("seaweedfs", "versitygw")
ENGINES = ("s5cmd", "obstore")
PEERS = ("s5cmd", "boto3", "s3fs", "warp")
BEYOND = 0.95


def sweeps() -> dict[str, Any]:
    return {
        f"{w}_{name}": {
            "workload": w,
            "duration": f"{seconds[w]} s",
            "warm_up": "200 ms",
            "objects": objects,
            "axes": {"engine": list(ENGINES), "object_size": size, "workers": workers},
        }
        for name, (size, workers, seconds, objects, _) in SIZES.items()
        for w in ("put", "get")
    }


class Cell:
    """Runs of everybody in one cell: rates in operations/s and CPU seconds per operation, by name, a value per repetition."""

    def __init__(self) -> None:
        self.rates: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}

    def note(self, name: str, rate: float, cpu_s: float, operations: int) -> None:
        self.rates.setdefault(name, []).append(rate)
        self.cpu.setdefault(name, []).append(cpu_s / max(1, operations))

    def best(self, ours: bool) -> str:
        return max((n for n in self.rates if n.startswith("storelab ") is ours), key=lambda n: statistics.median(self.rates[n]))


def ours(conf: config.Config, points: list[Point], point: Point, cell: Cell) -> None:
    record = measure.point(conf, points, point.key)
    assert record is not None
    operations = sum(c["operations"] for c in record["clients"])
    seconds = (record["deadline_ns"] - record["start_ns"]) / 1e9
    cell.note(f"storelab {point.axes['engine']}", operations / seconds, record["host"]["client_cpu_s"], operations)


def peer(name: str, conf: config.Config, store: Store, point: Point, cell: Cell) -> None:
    """Run a peer against the store on the objects of the point, and remove what it uploaded."""
    size, put = point.axes["object_size"], point.workload == "put"
    short = next(s for s, v in SIZES.items() if units.parse(v[0], "size", "") == size)
    _, workers, all_seconds, objects, most = SIZES[short]
    seconds = all_seconds[point.workload]
    place, scratch = stage.buckets_of(conf, store, 1)[0], stage.scratch_dir(conf) / "peers"
    scratch.mkdir(exist_ok=True)
    keys = [f"{place.prefix}data/payload-{short}-{objects}x1/{i:07d}" for i in range(objects)]
    job = {"url": store.endpoints(1)[0].url, "bucket": place.name, "prefix": f"{place.prefix}put/peer/{name}/", "keys": keys}
    job |= {"body": str(stage.payload.body_files(stage.scratch_dir(conf), conf.seed, size)[0]), "scratch": str(scratch), "size": size}
    job |= {"workers": workers, "seconds": seconds, "most": most}
    (scratch / "job.json").write_text(json.dumps(job))
    keyed = environ() | store.credentials(0).environ()
    command = [sys.executable, str(Path(__file__).with_name("peer_clients.py")), name, point.workload, str(scratch / "job.json")]
    done = subprocess.run(command, capture_output=True, text=True, env=keyed, timeout=seconds + 300)
    if done.returncode:
        raise SystemExit(f"peers: {name} failed: {done.stderr[-1000:]}")
    said = json.loads(done.stdout.strip().splitlines()[-1])
    cell.note(name, said["operations"] / said["seconds"], said["cpu_s"], said["operations"])
    if put:
        buckets.delete_prefix(store.access(), place, "put/peer/")
        store.reclaim()
    shutil.rmtree(scratch, ignore_errors=True)


def measured(conf: config.Config, systems: dict[str, Store], peers: list[str], cells: dict[str, Cell], n: int) -> None:
    """All repetitions; in each, everybody's turn in every cell, in an order shuffled anew."""
    points, rng = plan.make(conf, WORKLOADS), random.Random(conf.seed)
    for rep in range(1, n + 1):
        for server, store in systems.items():
            for other in systems.values():
                other.suspend()
            store.resume()
            store.up(1)
            buckets.ensure(store, conf.name, stage.buckets_of(conf, store, 1))
            for sweep in sweeps():
                own = [p for p in points if p.rep == rep and p.store == server and p.sweep == sweep]
                if own[0].dataset:
                    stage.ensure(conf, store, own[0].dataset, say)
                cell = cells.setdefault(f"{server}_{sweep}", Cell())
                turns: list[Any] = [*own, *peers]
                rng.shuffle(turns)
                for turn in turns:
                    peer(turn, conf, store, own[0], cell) if isinstance(turn, str) else ours(conf, points, turn, cell)
            say(f"peers: {rep} of {n}: {server} done")


def compare(cells: dict[str, Cell], values: dict[str, list[float]]) -> None:
    """Figures of all cells, and the two of the whole."""
    logs, beyond = [], 0
    for name, cell in cells.items():
        we, they = cell.best(True), cell.best(False)
        found = comparing.ratio(cell.rates[they], cell.rates[we])
        values[name] = [a / b for a, b in zip(cell.rates[we], cell.rates[they], strict=True)]
        logs.append(math.log(found.ratio))
        beyond += found.high < BEYOND
        say(f"peers: {name}: {we} over {they}: {found.ratio:.2f} [{found.low:.2f}, {found.high:.2f}]")
        large = name.endswith("100MB")
        for who, rates in cell.rates.items():
            cpu = statistics.median(cell.cpu[who]) * (10 if large else 1000)
            shown = f"{statistics.median(rates):.1f}/s, client CPU {cpu:.3f} s per {'GB' if large else '1000 operations'}"
            say(f"peers:     {who:18s} {shown}")
            values[f"{name}_cpu_{who.replace(' ', '_')}"] = [c * (10 if large else 1000) for c in cell.cpu[who]]
    values["geomean_vs_best_peer"] = [math.exp(statistics.fmean(logs))]
    values["cells_beyond"] = [float(beyond)]


def main() -> None:
    args = options(__doc__)
    n = 2 if args.quick else 5
    peers = [p for p in PEERS if p != "warp" or shutil.which("warp")]
    cells: dict[str, Cell] = {}
    values: dict[str, list[float]] = {}
    stores = {name: {"kind": name, "port": ports.block()} for name in SERVERS}
    with (
        laboratory(sweeps(), stores=stores, repetitions=n, use_stores=list(SERVERS)) as folder,
        tempfile.TemporaryDirectory(prefix="storelab-peers-", dir="/dev/shm") as shm,  # data of the servers too: clients are compared
    ):
        own_places = {"results": str(folder / "results"), "state": f"{shm}/state", "scratch": shm}
        conf = config.load(Path(folder) / "config.yaml", (), own_places)
        systems = {name: make(name, conf.stores[name], Path(conf.state)) for name in SERVERS}
        try:
            measured(conf, systems, peers, cells, n)
        finally:
            for store in systems.values():
                store.down()
    compare(cells, values)
    report("peers", n, values, args, missing=[p for p in PEERS if p not in peers] or None)


if __name__ == "__main__":
    main()

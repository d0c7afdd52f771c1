"""geomean_vs_best_peer cells_beyond, and loadgen_* figures, and a figure per cell: our put and get beside plain s5cmd, boto3 threads, s3fs,
obstore (asyncio) and, where it is installed, warp, on the same SeaweedFS and versitygw, interleaved; client CPU beside.

A cell is a server, an operation, a size and a number of connections: the rate of our best engine (by median) over that of the best peer, in the
same repetition. `cells_beyond`: cells whose 95 % interval (Hodges-Lehmann, see storelab.analysis.statistics.ratios) lies wholly below 0.95. `loadgen_geomean_vs_best`
and `loadgen_cells_beyond`: the same of the engine loadgen over the best of all others. `loadgen_vs_obstore_*`, `loadgen_cpu_vs_obstore_*`: over
obstore's asyncio on versitygw, of rates and of client CPU per operation; `loadgen_cpu_vs_thriftiest_16MB`: CPU per GB over that of the thriftiest
other one, the worst cell.
"""

import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ports
from common import environ, laboratory, options, report, run, say

from storelab.analysis.statistics import ratios as comparing
from storelab.core import config, plan, units
from storelab.core.model import Point
from storelab.measure import point as measure
from storelab.stores import make
from storelab.stores.base import Store
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import buckets, stage

SERVERS = ("seaweedfs", "versitygw")
ENGINES = ("obstore", "loadgen")  # s5cmd by storelab beside s5cmd by hand: engine_overhead.py
PEERS = ("s5cmd", "boto3", "s3fs", "obstore", "warp")
QUICK_PEERS = ("s5cmd", "obstore", "warp")  # the others are far behind where there are many connections
BEYOND = 0.95


class Size(NamedTuple):
    """size: of objects, as written; commands: in s5cmd's file."""

    size: str
    workers: int
    seconds: dict[str, float]
    objects: int
    commands: int
    peers: tuple[str, ...]


SIZES = {
    "4kB_8": Size("4 kB", 8, {"put": 2, "get": 2}, 256, 100_000, QUICK_PEERS),
    "4kB_32": Size("4 kB", 32, {"put": 2, "get": 2}, 256, 100_000, PEERS),
    "16MB_8": Size("16 MB", 8, {"put": 3, "get": 2}, 16, 5_000, QUICK_PEERS),
    "100MB_2": Size("100 MB", 2, {"put": 6, "get": 3}, 8, 2_000, PEERS),
}


def sweeps() -> dict[str, Any]:
    return {
        f"{w}_{name}": {
            "workload": w,
            "duration": f"{s.seconds[w]} s",
            "warm_up": "200 ms",
            "objects": s.objects,
            "axes": {"engine": list(ENGINES), "object_size": s.size, "workers": s.workers},
        }
        for name, s in SIZES.items()
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

    def best(self, of: Callable[[str], bool]) -> str:
        return max(filter(of, self.rates), key=lambda n: statistics.median(self.rates[n]))

    def ratios(self, a: str, b: str) -> list[float]:
        """Rates of a over those of b, by repetition."""
        return [x / y for x, y in zip(self.rates[a], self.rates[b], strict=True)]


def ours(conf: config.Config, points: list[Point], point: Point, cell: Cell) -> None:
    record = measure.point(conf, points, point.key)
    assert record is not None
    operations = sum(c["operations"] for c in record["clients"])
    seconds = (record["deadline_ns"] - record["start_ns"]) / 1e9
    cell.note(f"storelab {point.axes['engine']}", operations / seconds, record["host"]["client_cpu_s"], operations)


def peer(name: str, conf: config.Config, store: Store, point: Point, noted: Cell) -> None:
    """Run a peer against the store on the objects of the point, and remove what it uploaded."""
    size, put, workers = point.axes["object_size"], point.workload == "put", point.axes["workers"]
    cell = SIZES[point.sweep.partition("_")[2]]
    objects, seconds, short = cell.objects, cell.seconds[point.workload], units.format_size(size).replace(" ", "")
    place, scratch = stage.buckets_of(conf, store, 1)[0], stage.scratch_dir(conf) / "peers"
    scratch.mkdir(exist_ok=True)
    keys = [f"{place.prefix}data/payload-{short}-{objects}x1/{i:07d}" for i in range(objects)]
    job = {
        "url": store.endpoints(1)[0].url,
        "bucket": place.name,
        "prefix": f"{place.prefix}put/peer/{name}/",
        "keys": keys,
    }
    job |= {
        "body": str(stage.payload.body_files(stage.scratch_dir(conf), conf.seed, size)[0]),
        "scratch": str(scratch),
        "size": size,
    }
    job |= {"workers": workers, "seconds": seconds, "most": cell.commands}
    (scratch / "job.json").write_text(json.dumps(job))
    keyed = environ() | store.credentials(0).environ()
    command = [
        sys.executable,
        str(Path(__file__).with_name("peer_clients.py")),
        name,
        point.workload,
        str(scratch / "job.json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=keyed, timeout=seconds + 300)
    if done.returncode:
        raise SystemExit(f"peers: {name} failed: {done.stderr[-1000:]}")
    said = json.loads(done.stdout.strip().splitlines()[-1])
    noted.note(name, said["operations"] / said["seconds"], said["cpu_s"], said["operations"])
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
                turns: list[Any] = [*own, *(p for p in SIZES[sweep.partition("_")[2]].peers if p in peers)]
                rng.shuffle(turns)
                for turn in turns:
                    peer(turn, conf, store, own[0], cell) if isinstance(turn, str) else ours(conf, points, turn, cell)
            say(f"peers: {rep} of {n}: {server} done")


def over_best(
    cells: dict[str, Cell], ours: Callable[[str], bool], values: dict[str, list[float]] | None = None
) -> tuple[float, float]:
    """(geometric mean over the cells, cells beyond) of the best of ours over the best of the others."""
    logs, beyond = [], 0
    for name, cell in cells.items():
        we, they = cell.best(ours), cell.best(lambda n: not ours(n))
        found = comparing.ratio(cell.rates[they], cell.rates[we])
        logs.append(math.log(found.ratio))
        beyond += found.high < BEYOND
        say(f"peers: {name}: {we} over {they}: {found.ratio:.2f} [{found.low:.2f}, {found.high:.2f}]")
        if values is not None:
            values[name] = cell.ratios(we, they)
    return math.exp(statistics.fmean(logs)), float(beyond)


def costs(name: str, cell: Cell, values: dict[str, list[float]]) -> None:
    """CPU seconds of the clients per 1000 operations, of large objects per GB."""
    size = units.parse(SIZES[name.split("_", 2)[2]].size, "size", "")
    large = size >= 10**6
    for who, rates in cell.rates.items():
        cpu = [c * (1e9 / size if large else 1000) for c in cell.cpu[who]]
        shown = f"{statistics.median(rates):.1f}/s, client CPU {statistics.median(cpu):.3f} s per {'GB' if large else '1000 operations'}"
        say(f"peers:     {name} {who:18s} {shown}")
        values[f"{name}_cpu_{who.replace(' ', '_')}"] = cpu


def native(cells: dict[str, Cell], values: dict[str, list[float]]) -> None:
    """Figures of the engine loadgen."""
    own = "storelab loadgen"
    values["loadgen_geomean_vs_best"], values["loadgen_cells_beyond"] = (
        [v] for v in over_best(cells, lambda n: n == own)
    )
    for w in ("get", "put"):
        small = [cells[f"versitygw_{w}_{name}"] for name, s in SIZES.items() if s.size == "4 kB"]
        values[f"loadgen_vs_obstore_{w}4k"] = [r for c in small for r in c.ratios(own, "obstore")]
        values[f"loadgen_cpu_vs_obstore_{w}4k"] = [
            a / b for c in small for a, b in zip(c.cpu[own], c.cpu["obstore"], strict=True)
        ]
    worst = []
    for name, cell in cells.items():
        if name.endswith("16MB_8"):
            cpu = {who: statistics.median(c) for who, c in cell.cpu.items()}
            worst.append(cpu[own] / min(c for who, c in cpu.items() if who != own))
    values["loadgen_cpu_vs_thriftiest_16MB"] = [max(worst)]


def main() -> None:
    args = options(__doc__)
    n = 2 if args.quick else 5
    peers = [p for p in PEERS if p != "warp" or shutil.which("warp")]
    cells: dict[str, Cell] = {}
    values: dict[str, list[float]] = {}
    stores = {name: {"kind": name, "port": ports.block()} for name in SERVERS}
    with (
        laboratory(sweeps(), stores=stores, repetitions=n, use_stores=list(SERVERS)) as folder,
        tempfile.TemporaryDirectory(
            prefix="storelab-peers-", dir="/dev/shm"
        ) as shm,  # data of the servers too: clients are compared
    ):
        own_places = {"results": str(folder / "results"), "state": f"{shm}/state", "scratch": shm}
        conf = config.load(Path(folder) / "config.yaml", (), own_places)
        systems = {name: make(name, conf.stores[name], Path(conf.state)) for name in SERVERS}
        try:
            measured(conf, systems, peers, cells, n)
        finally:
            for store in systems.values():
                store.down()
    geomean, beyond = over_best(cells, lambda n: n.startswith("storelab "), values)
    values["geomean_vs_best_peer"], values["cells_beyond"] = [geomean], [beyond]
    for name, cell in cells.items():
        costs(name, cell, values)
    native(cells, values)
    report("peers", n, values, args, missing=[p for p in PEERS if p not in peers] or None)


if __name__ == "__main__":
    run(main)

"""Compare put and get of storelab with s5cmd, boto3 threads, s3fs, obstore (asyncio, threads) and warp.

All run on the same SeaweedFS and versitygw, interleaved. The CPU time of the clients is measured too. warp.py builds
warp. Both sides are counted in the same way (counting.py): a run begins WARM_S before the window and ends TAIL_S
after it. Operations and CPU time are those within the window; an operation at an edge counts by its fraction. CPU time
is that of the process and its children, as sampled by storelab's own monitor.

A cell is a server, an operation, a size and a number of connections. Its figure is the rate of storelab's best engine
(by median) divided by that of the best peer, in the same repetition. `cells_beyond`: cells whose 95 % interval
(Hodges-Lehmann, see storelab.analysis.statistics.ratios) is entirely below 0.95. `loadgen_geomean_vs_best`,
`loadgen_cells_beyond`: the same for the engine loadgen against the best of all others. `loadgen_vs_obstore_*`,
`loadgen_cpu_vs_obstore_*`: rates and client CPU per operation, divided by those of obstore's asyncio on versitygw.
`loadgen_cpu_vs_thriftiest_16MB`: CPU per GB divided by that of the client that needs least, in the worst cell.
"""

import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import counting
import ports
import pyarrow.parquet as pq
import warp
from common import environ, laboratory, options, report, run, say, sized

from storelab.analysis.statistics import ratios as comparing
from storelab.core import clock, plan, units
from storelab.core.model import Point
from storelab.host import scratch
from storelab.host.monitor import Monitor
from storelab.measure import point as measure
from storelab.stores import config, make
from storelab.stores.base import Store
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import buckets, stage

SERVERS = ("versitygw", "seaweedfs")
ENGINES = ("obstore", "loadgen")  # engine_overhead.py compares s5cmd run by storelab with s5cmd run by hand
PEERS = ("s5cmd", "boto3", "s3fs", "obstore", "obstore_threads", "warp")
QUICK_PEERS = (
    "s5cmd",
    "obstore",
    "obstore_threads",
    "warp",
)  # the others are much slower with many connections
BEYOND = 0.95
TICK_S = 0.01  # resolution of the kernel's CPU times
WARM_S, TAIL_S = 0.5, 1.0  # longer than any operation here


class Size(NamedTuple):
    """The size of a cell. size: of objects, as text; seconds: of the window; commands: in s5cmd's file."""

    size: str
    workers: int
    seconds: dict[str, float]
    objects: int
    commands: int
    peers: tuple[str, ...]


SIZES = {
    "4kB_8": Size("4 kB", 8, {"put": 2, "get": 2}, 256, 100_000, QUICK_PEERS),
    "4kB_32": Size("4 kB", 32, {"put": 2, "get": 2}, 256, 100_000, PEERS),
    "16MB_8": Size("16 MB", 8, {"put": 3, "get": 3}, 16, 10_000, QUICK_PEERS),
    "100MB_2": Size("100 MB", 2, {"put": 5, "get": 5}, 8, 2_000, PEERS),
}
SMOKE = {
    "4kB_8": Size("4 kB", 8, {"put": 0.3, "get": 0.3}, 16, 20_000, PEERS),
    "16MB_8": Size("16 MB", 2, {"put": 0.5, "get": 0.5}, 2, 2_000, ("obstore",)),
}


def run_s(seconds: float) -> float:
    """Return the duration of a run whose window has this number of seconds."""
    return warm_s(seconds) + seconds + min(TAIL_S, seconds)


def warm_s(seconds: float) -> float:
    """Return the seconds before the window; a smoke run has fewer."""
    return min(WARM_S, seconds)


def window(begin_ns: int, seconds: float) -> tuple[int, int]:
    """Return (begin, end) of the window in ns, for a run that began at `begin_ns`."""
    opened = begin_ns + int(warm_s(seconds) * 1e9)
    return opened, opened + int(seconds * 1e9)


def sweeps(sizes: dict[str, Size]) -> dict[str, Any]:
    return {
        f"{w}_{name}": {
            "workload": w,
            "duration": f"{1000 * run_s(s.seconds[w]):.0f} ms",
            "warm_up": f"{1000 * warm_s(s.seconds[w]):.0f} ms",
            "objects": s.objects,
            "axes": {"engine": list(ENGINES), "object_size": s.size, "workers": s.workers},
        }
        for name, s in sizes.items()
        for w in ("put", "get")
    }


class Cell:
    """All runs in one cell: name -> rates (operations/s) and CPU seconds per operation, one value per repetition."""

    def __init__(self) -> None:
        self.rates: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}

    def note(
        self,
        name: str,
        window: tuple[int, int],
        times: tuple[Sequence[int], Sequence[int]],
        samples: Sequence[tuple[int, float]],
    ) -> None:
        """Add a run. times: starts and ends of operations, shape (n,); samples: CPU seconds so far; all times in ns."""
        operations = counting.in_window(*times, window)
        if operations == 0:
            raise SystemExit(f"peers: {name} completed no operation in the window")
        self.rates.setdefault(name, []).append(operations / (window[1] - window[0]) * 1e9)
        self.cpu.setdefault(name, []).append(max(TICK_S, counting.cpu_in_window(samples, window)) / operations)

    def best(self, of: Callable[[str], bool]) -> str:
        return max(filter(of, self.rates), key=lambda n: statistics.median(self.rates[n]))

    def ratios(self, a: str, b: str) -> list[float]:
        """Return the rates of a divided by those of b, by repetition."""
        return [x / y for x, y in zip(self.rates[a], self.rates[b], strict=True)]


def ours(conf: config.Config, points: list[Point], point: Point, seconds: float, cell: Cell) -> None:
    record = measure.point(conf, points, point.key).to_json()
    assert record is not None
    folder = conf.raw / point.key
    ops = pq.read_table(folder / "ops.0.parquet", columns=["start_ns", "end_ns", "error", "latency_hist"]).to_pydict()
    if any(e is not None for e in ops["error"]) or any(h is not None for h in ops["latency_hist"]):
        raise SystemExit(f"peers: {point.key}: operations failed, or were recorded in bins")
    samples = counting.cpu_samples(pq.read_table(folder / "monitor.0.parquet").to_pydict())
    name = f"storelab {point.axes['engine']}"
    cell.note(name, window(record["start_ns"], seconds), (ops["start_ns"], ops["end_ns"]), samples)


def job_of(name: str, conf: config.Config, store: Store, point: Point, size: Size, folder: Path) -> dict[str, Any]:
    """Return the job of a peer: the objects of the point, and a separate prefix for uploads."""
    place = stage.buckets_of(conf, store, 1)[0]
    object_size = point.axes["object_size"]
    data_set = point.dataset["name"] if point.dataset else ""
    return {
        "url": store.endpoints(1)[0].url,
        "bucket": place.name,
        "prefix": f"{place.prefix}put/peer/{name}/",
        "keys": [f"{place.prefix}data/{data_set}/{i:07d}" for i in range(size.objects)],
        "body": str(stage.payload.body_files(scratch.folder(conf.scratch), conf.seed, object_size)[0]),
        "scratch": str(folder),
        "times": str(folder / "times.json"),
        "size": object_size,
        "workers": size.workers,
        "run_s": run_s(size.seconds[point.workload]),
        "most": size.commands,
    }


def peer(name: str, conf: config.Config, store: Store, point: Point, size: Size, cell: Cell) -> None:
    """Run a peer against the store on the objects of the point, and remove what it uploaded."""
    with tempfile.TemporaryDirectory(prefix="peer-", dir=conf.scratch) as folder:
        job = job_of(name, conf, store, point, size, Path(folder))
        (Path(folder) / "job.json").write_text(json.dumps(job))
        keyed = environ() | store.credentials(0).environ()
        script = Path(__file__).with_name("peer_clients.py")
        command = [sys.executable, str(script), name, point.workload, f"{folder}/job.json"]
        begin, samples = watched(command, keyed, job["run_s"])
        times = json.loads(Path(job["times"]).read_text())
    if name == "warp":  # its start-up must not count
        begin = min(times["start_ns"])
    cell.note(name, window(begin, size.seconds[point.workload]), (times["start_ns"], times["end_ns"]), samples)
    if point.workload == "put":
        buckets.delete_prefix(store.access(), stage.buckets_of(conf, store, 1)[0], "put/peer/", ours=lambda *_: True)
        store.reclaim()


def watched(command: list[str], env: dict[str, str], seconds: float) -> tuple[int, list[tuple[int, float]]]:
    """Run a peer under storelab's monitor; return (its agreed start in ns, samples of its CPU time)."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    ended = threading.Timer(seconds + 300, process.kill)
    ended.start()
    try:
        line = process.stdout.readline()
        begin = clock.now_ns() + 200_000_000
        # Longer than the run, because the monitor samples until it is stopped.
        monitor = Monitor({}, lambda: {0: process.pid}, int((seconds + 300) * 1e9))
        monitor.start(begin)
        if line == "ready\n":
            process.stdin.write(f"{begin}\n")
            process.stdin.flush()
            line = process.stdout.readline()
        monitor.stop()  # takes its last sample
        process.stdin.close()
        if process.wait(60) or line != "done\n":
            raise SystemExit(f"peers: {' '.join(command[2:4])} failed, for the reason above")
    finally:
        ended.cancel()
        process.kill()
    return begin, counting.cpu_samples(monitor.columns())


def measured(
    conf: config.Config,
    systems: dict[str, Store],
    peers: list[str],
    sizes: dict[str, Size],
    cells: dict[str, Cell],
    n: int,
) -> None:
    """Run all repetitions: in each, every client runs in every cell, in a new random order."""
    points, rng = plan.make(conf, WORKLOADS), random.Random(conf.seed)
    for rep in range(1, n + 1):
        for server, store in systems.items():
            for other in systems.values():
                other.suspend()
            store.resume()
            store.up(1)
            buckets.ensure(store, conf.name, stage.buckets_of(conf, store, 1))
            for sweep in sweeps(sizes):
                own = [p for p in points if p.rep == rep and p.store == server and p.sweep == sweep]
                if own[0].dataset:
                    stage.ensure(conf, store, own[0].dataset, say)
                cell, size = cells.setdefault(f"{server}_{sweep}", Cell()), sizes[sweep.partition("_")[2]]
                seconds = size.seconds[own[0].workload]
                turns = [partial(ours, conf, points, point, seconds, cell) for point in own]
                turns += [partial(peer, p, conf, store, own[0], size, cell) for p in size.peers if p in peers]
                rng.shuffle(turns)
                for turn in turns:
                    turn()
            say(f"peers: {rep} of {n}: {server} done")


def over_best(
    cells: dict[str, Cell], ours: Callable[[str], bool], values: dict[str, list[float]] | None = None
) -> tuple[float, float]:
    """Return (geometric mean over the cells, cells beyond) of our best rate divided by the best of the others."""
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


def costs(name: str, cell: Cell, size: int, values: dict[str, list[float]]) -> None:
    """Record the CPU seconds of the clients, per 1000 operations, or per GB for large objects."""
    large = size >= 10**6
    for who, rates in cell.rates.items():
        cpu = [c * (1e9 / size if large else 1000) for c in cell.cpu[who]]
        unit = "GB" if large else "1000 operations"
        shown = f"{statistics.median(rates):.1f}/s, client CPU {statistics.median(cpu):.3f} s per {unit}"
        say(f"peers:     {name} {who:18s} {shown}")
        values[f"{name}_cpu_{who.replace(' ', '_')}"] = cpu


def native(cells: dict[str, Cell], sizes: dict[str, Size], values: dict[str, list[float]]) -> None:
    """Record the figures of the engine loadgen."""
    own = "storelab loadgen"
    values["loadgen_geomean_vs_best"], values["loadgen_cells_beyond"] = (
        [v] for v in over_best(cells, lambda n: n == own)
    )
    for w in ("get", "put"):
        small = [cells[f"versitygw_{w}_{name}"] for name, s in sizes.items() if s.size == "4 kB"]
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
    n, sizes = sized(args, 5, 2, 1), sized(args, SIZES, SIZES, SMOKE)
    servers = sized(args, SERVERS, SERVERS, SERVERS[:1])
    missing = [] if warp.binary() else ["warp: it is not built: run benchmarks/warp.py"]
    peers = [p for p in PEERS if p != "warp" or not missing]
    cells: dict[str, Cell] = {}
    values: dict[str, list[float]] = {}
    stores = {name: {"kind": name, "port": ports.block()} for name in servers}
    with (
        laboratory(sweeps(sizes), stores=stores, repetitions=n, stores_to_measure=list(servers)) as folder,
        tempfile.TemporaryDirectory(
            prefix="storelab-peers-", dir="/dev/shm"
        ) as shm,  # in memory, also the data of the servers, because clients are compared
    ):
        own_places = {"results": str(folder / "results"), "state": f"{shm}/state", "scratch": shm}
        conf = config.load(Path(folder) / "config.yaml", (), own_places)
        systems = {name: make(name, conf.stores[name], Path(conf.state)) for name in servers}
        try:
            measured(conf, systems, peers, sizes, cells, n)
        finally:
            for store in systems.values():
                store.down()
    geomean, beyond = over_best(cells, lambda n: n.startswith("storelab "), values)
    values["geomean_vs_best_peer"], values["cells_beyond"] = [geomean], [beyond]
    for name, cell in cells.items():
        costs(name, cell, units.parse(sizes[name.split("_", 2)[2]].size, "size", ""), values)
    native(cells, sizes, values)
    report("peers", n, values, args, missing, servers)


if __name__ == "__main__":
    run(main)

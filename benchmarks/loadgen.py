"""Measure the engine loadgen by itself: loadgen_vs_wrk, *_per_core, memory_mb.

loadgen_vs_wrk: rate of signed GETs of 4 kB from nginx (files on tmpfs) divided by the rate of unsigned GETs by `wrk`,
with the same number of connections and threads. *_per_core: operations (4 kB) and Gbit (16 MB) per second of the
client's CPU, from storelab's near-null server, by http and https. memory_mb: the largest resident memory with 1000
connections and 10 million operations, with records in bins (not with --quick).
"""

import json
import os
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ports
from common import absent, options, report, run, say, sized

from storelab.engines import loadgen
from storelab.install import program
from storelab.stores import all_stores
from storelab.stores.config import Config
from storelab.stores.protocols.endpoint import Credentials

SECONDS, CONNECTIONS, KEYS = 3, 32, 64
SMALL, LARGE = 4_000, 16_000_000
NGINX = """daemon off; pid {0}/pid; error_log {0}/error.log; worker_processes auto;
events {{ worker_connections 4096; }}
http {{ access_log off; sendfile on; keepalive_requests 1000000000; open_file_cache max=1000;
  client_body_temp_path {0}/t;
  proxy_temp_path {0}/t; fastcgi_temp_path {0}/t; uwsgi_temp_path {0}/t; scgi_temp_path {0}/t;
  server {{ listen 127.0.0.1:{1}; root {0}; }} }}
"""


@contextmanager
def nginx(folder: Path, port: int) -> Iterator[str]:
    """Serve the files below `folder` as http://…/ until the block ends."""
    (folder / "conf").write_text(NGINX.format(folder, port))
    server = subprocess.Popen(
        [program("nginx", "nginx", "loadgen"), "-c", folder / "conf", "-p", folder], stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(1.0)
        if server.poll() is not None:
            raise SystemExit(f"loadgen: nginx did not start: {(folder / 'error.log').read_text()[-300:]}")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def drive(
    folder: Path, url: str, size: int, keys: list[str], ca_file: str = "", **more: Any
) -> tuple[dict[str, Any], float, float]:
    """Return (summary, CPU seconds, largest resident memory in MB) of one run."""
    now, seconds = time.time_ns(), more.pop("seconds", SECONDS)
    job = {
        "schema": 1,
        "endpoints": [{"url": url, "region": "us-east-1", "addressing": "path", "verify": True, "ca_file": ca_file}],
        "buckets": ["data"],
        "operations": [{"op": "GET"}],
        "objects": {"key": keys, "bucket": [0] * len(keys)},
        "object_size": size,
        "workers": CONNECTIONS,
        "records": str(folder / "ops.parquet"),
        "start_ns": now + 500_000_000,
        "deadline_ns": now + 500_000_000 + int(seconds * 1e9),
    } | more
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    keyed = dict(os.environ, **Credentials("any", "body").environ())
    process = subprocess.Popen([loadgen.binary()], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=keyed, text=True)
    _, printed = process.communicate(json.dumps(job))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    summary = json.loads(printed.splitlines()[-1]).get("summary") if process.returncode == 0 else None
    if not summary or summary["errors"]:
        raise SystemExit(f"loadgen: the run was not clean: {printed[-300:]}")
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return summary, cpu_s, used.ru_maxrss / 1e3


def wrk(url: str, seconds: int) -> float:
    threads = min(CONNECTIONS, os.cpu_count() or 1)
    command = ["wrk", f"-t{threads}", f"-c{CONNECTIONS}", f"-d{seconds}s", f"{url}/data/0"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"Requests/sec:\s*([\d.]+)", printed)
    if not found or "Non-2xx" in printed:
        raise SystemExit(f"loadgen: wrk failed: {printed[-300:]}")
    return float(found.group(1))


def compare_with_wrk(folder: Path, values: dict[str, list[float]], n: int, seconds: int) -> None:
    (folder / "data").mkdir()
    for i in range(KEYS):
        (folder / "data" / str(i)).write_bytes(os.urandom(SMALL))
    with nginx(folder, ports.block()) as url:
        for _ in range(n):
            theirs = wrk(url, seconds)
            summary, cpu_s, _ = drive(folder, url, SMALL, [str(i) for i in range(KEYS)], seconds=seconds)
            ours = summary["operations"] / seconds
            say(
                f"loadgen: nginx: {ours:.0f} signed GET/s ({1e6 * cpu_s / summary['operations']:.1f} µs of CPU each), "
                f"wrk {theirs:.0f} GET/s"
            )
            values.setdefault("loadgen_vs_wrk", []).append(ours / theirs)


def per_core(folder: Path, state: Path, values: dict[str, list[float]], n: int, seconds: int, operations: int) -> None:
    """Measure rates per core. operations: those of the run whose memory is measured, 0 for none."""
    bodies = {size: folder / f"1-{size}-0" for size in (SMALL, LARGE)}
    for size, body in bodies.items():
        body.write_bytes(os.urandom(size))
    stores = {
        "plain": {"kind": "nullserver", "port": ports.block()},
        "secured": {"kind": "nullserver", "port": ports.block(), "tls": True},
    }
    sweeps = {"it": {"workload": "calibrate", "duration": "1 s"}}
    config = {
        "campaign": "bench",
        "name": "bench",
        "state": str(state),
        "stores": stores,
        "stores_to_measure": ["plain"],
        "sweeps": sweeps,
    }
    systems = {name: store for name, store in all_stores(Config.model_validate(config)).items() if name in stores}
    try:
        for store in systems.values():
            store.up(1)
            store.add_bodies(list(bodies.values()))  # type: ignore[attr-defined]
        for _ in range(n):
            for name, scheme in (("plain", "http"), ("secured", "https")):
                end = systems[name].endpoints(1)[0]
                for size, figure in ((SMALL, "per_core_4k"), (LARGE, "gbit_per_core")):
                    keys = [f"data/{bodies[size].name}/{i:07d}" for i in range(KEYS)]
                    workers = CONNECTIONS if size == SMALL else 4
                    summary, cpu_s, _ = drive(
                        folder, end.url, size, keys, end.ca_file or "", workers=workers, seconds=seconds
                    )
                    done = summary["operations"] if size == SMALL else summary["bytes"] * 8e-9
                    values.setdefault(f"{scheme}_{figure}", []).append(done / cpu_s)
        if operations:
            memory(folder, systems["plain"].endpoints(1)[0].url, bodies[SMALL].name, values, operations)
    finally:
        for store in systems.values():
            store.down()


def memory(folder: Path, url: str, body: str, values: dict[str, list[float]], operations: int) -> None:
    """Measure the memory of one process that runs until it has done this number of operations."""
    keys = [f"data/{body}/{i:07d}" for i in range(10_000)]
    summary, _, _ = drive(folder, url, SMALL, keys, workers=1000, seconds=1)
    seconds = 1.1 * operations / summary["operations"]
    say(f"loadgen: memory: {seconds:.0f} s with 1000 connections")
    # The kernel gives the largest memory of all children; the earlier ones used less than this one.
    summary, _, largest = drive(folder, url, SMALL, keys, workers=1000, seconds=seconds)
    say(f"loadgen: memory: {summary['operations']} operations, {summary['rows']} rows, {largest:.0f} MB")
    values["memory_mb"] = [largest]
    values["memory_operations"] = [float(summary["operations"])]


def main() -> None:
    args = options(__doc__)
    n, seconds = sized(args, 5, 3, 1), sized(args, SECONDS, SECONDS, 1)
    missing = [f"loadgen_vs_wrk: {name} is not installed" for name in absent(["wrk", "nginx"])]
    values: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="storelab-loadgen-", dir="/dev/shm") as shm:
        folder = Path(shm)
        folder.chmod(0o755)  # a server that root starts reads as another user
        if not missing:
            compare_with_wrk(folder, values, n, seconds)
        per_core(folder, folder / "state", values, n, seconds, sized(args, 10_000_000, 0, 20_000))
    report("loadgen", n, values, args, missing, ["nginx", "nullserver"])


if __name__ == "__main__":
    run(main)

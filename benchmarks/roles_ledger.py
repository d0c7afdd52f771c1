"""The cost of writing a ledger. A part of `roles.py`; only `roles.py` may import it."""

import json
import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ports
from common import say

from storelab.core import clock
from storelab.core.model import Point
from storelab.engines.contract import Job
from storelab.host import processes
from storelab.install import program
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads import WORKLOADS


@contextmanager
def _null_server(folder: Path) -> Iterator[str]:
    at = f"127.0.0.1:{ports.block()}"
    command = [str(program("nullserver", "loadgen", "roles")), "-listen", at, "-bodies", str(folder)]
    server = subprocess.Popen(command, preexec_fn=processes.die_with_parent())
    try:
        clock.sleep_until(clock.now_ns() + 300_000_000)
        yield f"http://{at}"
    finally:
        server.terminate()
        server.wait(timeout=10)


def _cpu_s() -> float:
    """Return the CPU time of all ended children."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _put(url: str, folder: Path, engine: str, kept: bool, seconds: float) -> tuple[float, float]:
    """Return the rate of uploads of 4 kB by one client with 16 workers, and its CPU seconds per upload."""
    axes = {"object_size": 4000, "workers": 16, "clients": 1, "ledger": "kept" if kept else "none", "engine": engine}
    fixed = {"data_seed": 1, "duration_ns": int(seconds * 1e9), "warm_up_ns": 0}
    point, end, before = Point("null", "put", axes, 1, "k", "s", 1, 0, fixed), Endpoint(url), _cpu_s()
    with tempfile.TemporaryDirectory(prefix="storelab-ledger-", dir="/dev/shm") as scratch:
        path = folder / "ledger.0"
        client = WORKLOADS["put"].client(
            Job(point, 0, end, [Bucket("b")], Path(scratch) / "c", None, "a", endpoints=[end], ledger=path)
        )
        try:
            client.prepare()
            start = clock.now_ns() + 50_000_000
            client.run(start, start + int(seconds * 1e9))
            result = client.result()
        finally:
            client.close()
    path.unlink(missing_ok=True)
    if result.engine["errors"]:
        raise SystemExit(f"roles: the run was not clean: {json.dumps(result.engine['errors'])}")
    done = result.written.operations if result.written else int(sum(result.ops["count"]))
    return done / seconds, (_cpu_s() - before) / done


def cost(n: int, seconds: float) -> dict[str, list[float]]:
    """Return the ledger's cost for n pairs of runs in alternating order, at the near-null server on the same cores.

    `ledger_cost_<engine>`: loss of the put rate in percent; `ledger_cost`: both engines together;
    `ledger_cpu_<engine>`: additional CPU time of the client in percent.
    """
    values: dict[str, list[float]] = {"ledger_cost": []}
    os.environ.update(Credentials("bench", "bench").environ())
    with tempfile.TemporaryDirectory(prefix="storelab-cost-") as name, _null_server(Path(name)) as url:
        for i in range(n):
            for engine in ("obstore", "loadgen"):
                order = (True, False) if i % 2 else (False, True)
                found = {kept: _put(url, Path(name), engine, kept, seconds) for kept in order}
                (rate, cpu), (rate_without, cpu_without) = found[True], found[False]
                values.setdefault(f"ledger_cost_{engine}", []).append(100 * (1 - rate / rate_without))
                values.setdefault(f"ledger_cpu_{engine}", []).append(100 * (cpu / cpu_without - 1))
                values.setdefault(f"ledger_{engine}_per_s", []).append(rate)
                values["ledger_cost"].append(values[f"ledger_cost_{engine}"][-1])
                say(f"roles: cost {i + 1} of {n}: {engine}: {rate_without:.0f}/s without, {rate:.0f}/s with")
    return values

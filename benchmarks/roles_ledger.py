"""Parts of `roles.py` about the ledger: does its reading back catch a store that breaks its word, and what does keeping it cost?

May be imported by `roles.py` alone.
"""

import json
import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ports
from common import say
from lossy_proxy import LossyProxy

from storelab.core import clock, plan
from storelab.core.config import Config
from storelab.core.model import Point
from storelab.engines.contract import Job
from storelab.host import processes
from storelab.install import program
from storelab.measure import point
from storelab.measure.durability.judge import FAULTS
from storelab.stores import all_stores
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads import WORKLOADS

# Many keys: a lie that a later write of its key heals cannot be seen.
AXES = {"engine": "loadgen", "object_size": "1 kB", "clients": 2, "workers": 8, "keys_per_worker": 500}
PUTS = {k: v for k, v in AXES.items() if k != "keys_per_worker"} | {"ledger": "kept"}
LIES = ("drop", "flip", "stale", "resurrect", "all")
EVERY = 1000
TRIES = 20  # of a seed until a lie stands: deleted objects that come back are soon written over


def _config(folder: Path, stores: dict[str, Any], used: str, name: str, sweep: dict[str, Any]) -> Config:
    return Config.model_validate(
        {
            "campaign": name,
            "name": name,
            "results": str(folder / "results"),
            "state": str(folder / "state"),
            "stores": stores,
            "use_stores": [used],
            "repetitions": 1,
            "calibrate": False,
            "sweeps": {"s": sweep},
        }
    )


def _reading(folder: Path, url: str, name: str, seconds: float, workload: str) -> dict[str, int]:
    """Faults that were found by the reading at the end of one run at that address."""
    axes = AXES if workload == "rewrite" else PUTS
    sweep = {"workload": workload, "duration": f"{seconds:g} s", "warm_up": "100 ms", "axes": axes}
    config = _config(folder, {"one": {"kind": "s3", "endpoint": url, "prefix": "bench"}}, "one", name, sweep)
    (planned,) = plan.make(config, WORKLOADS)
    record = point.point(config, [planned], planned.key)
    (found,) = record["durability"]["readings"]
    return {fault: found[fault] for fault in FAULTS if found[fault]}


def lossy(n: int, seconds: float) -> dict[str, list[float]]:
    """`lossy_caught`: percent of runs behind the lossy proxy in which exactly as many faults were found as lies stood at the end;
    `honest_alarms`: percent of runs behind the same proxy, honest, in which any fault was found. n runs of each, seeded."""
    caught, alarms, none_stood = 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="storelab-lossy-") as name:
        folder = Path(name)
        settings = {"it": {"kind": "seaweedfs", "port": ports.block()}}
        store = all_stores(_config(folder, settings, "it", "it", {"workload": "put", "duration": "1 s"}))["it"]
        store.up(1)
        try:
            keys = store.credentials()
            os.environ.update(keys.environ() if keys else {})
            url = store.endpoints(1)[0].url
            for i in range(n):
                lies, workload = LIES[i % len(LIES)], "put" if i % 10 in (5, 6) else "rewrite"
                for more in range(TRIES):
                    with LossyProxy(url, lies, EVERY, seed=1000 * more + i) as proxy:
                        found = _reading(folder, proxy.url, f"lossy{i}-{more}", seconds * (1 + min(more, 4)), workload)
                        proxy.stop()
                    if standing := sum(proxy.standing.values()):
                        break
                    none_stood += 1
                caught += standing == sum(found.values()) > 0
                say(f"roles: lossy {i + 1} of {n}: {lies}, {workload}: {proxy.standing} stand, found {found}")
                with LossyProxy(url, "none", EVERY, seed=i) as proxy:
                    alarms += bool(_reading(folder, proxy.url, f"honest{i}", seconds, workload))
        finally:
            store.down()
    return {
        "lossy_caught": [100 * caught / n],
        "honest_alarms": [100 * alarms / n],
        "lossy_runs": [n],
        "lossy_without": [none_stood],
    }


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
    """CPU time of all children that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _put(url: str, folder: Path, engine: str, kept: bool, seconds: float) -> tuple[float, float]:
    """(uploads of 4 kB per second by one client with 16 workers, the client's CPU seconds of one)."""
    axes = {"object_size": 4000, "workers": 16, "clients": 1, "ledger": "kept" if kept else "none", "engine": engine}
    fixed = {"data_seed": 1, "duration_ns": int(seconds * 1e9), "warm_up_ns": 0}
    told, end, before = Point("null", "put", axes, 1, "k", "s", 1, 0, fixed), Endpoint(url), _cpu_s()
    with tempfile.TemporaryDirectory(prefix="storelab-ledger-", dir="/dev/shm") as scratch:
        path = folder / "ledger.0"
        client = WORKLOADS["put"].client(
            Job(told, 0, end, [Bucket("b")], Path(scratch) / "c", None, "a", endpoints=[end], ledger=path)
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
    """`ledger_cost_<engine>`: percent of the put rate that the ledger costs, against the near-null server on the same cores; a pair of
    runs each time, their order in turns. `ledger_cost`: both engines together; `ledger_cpu_<engine>`: percent more CPU of the client."""
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

"""Test that reading back a ledger finds the lost and changed objects of a store, and no faults of a correct store.

The figures are counts, not times: a busy machine only makes the benchmark slower.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import ports
from common import options, report, run, say, sized
from lossy_proxy import LossyProxy

from storelab.core import plan
from storelab.measure import point
from storelab.measure.look import FAULTS
from storelab.stores import all_stores
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS

# Many keys, because a later write of the same key repairs a false answer, which then cannot be seen.
AXES = {"engine": "loadgen", "object_size": "1 kB", "clients": 2, "workers": 8, "keys_per_worker": 500}
PUTS = {k: v for k, v in AXES.items() if k != "keys_per_worker"} | {"ledger": "kept"}
LIES = ("drop", "flip", "stale", "resurrect", "all")
EVERY = 1000
TRIES = 20  # maximum tries until a false answer remains, because objects that come back are soon overwritten


def _config(folder: Path, stores: dict[str, Any], used: str, name: str, sweep: dict[str, Any]) -> Config:
    return Config.model_validate(
        {
            "campaign": name,
            "name": name,
            "results": str(folder / "results"),
            "state": str(folder / "state"),
            "stores": stores,
            "stores_to_measure": [used],
            "repetitions": 1,
            "calibrate": False,
            "sweeps": {"s": sweep},
        }
    )


def _reading(folder: Path, url: str, name: str, seconds: float, workload: str) -> dict[str, int]:
    """Return the faults that the reading at the end of one run at that address found."""
    axes = AXES if workload == "rewrite" else PUTS
    sweep = {"workload": workload, "duration": f"{seconds:g} s", "warm_up": "100 ms", "axes": axes}
    config = _config(folder, {"one": {"kind": "s3", "endpoint": url, "prefix": "bench"}}, "one", name, sweep)
    (planned,) = plan.make(config, WORKLOADS)
    record = point.point(config, [planned], planned.key).to_json()
    (found,) = record["durability"]["readings"]
    return {fault: found[fault] for fault in FAULTS if found[fault]}


def lossy(n: int, seconds: float) -> dict[str, list[float]]:
    """Return the figures of n seeded runs behind the lossy proxy, and of n runs behind the same proxy in honest mode.

    `lossy_caught`: percent of lossy runs in which the number of faults found equals the number of false answers that
    remained at the end; `honest_alarms`: percent of honest runs in which any fault was found.
    """
    caught, alarms, without = 0, 0, 0
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
                    if remaining := sum(proxy.remaining.values()):
                        break
                    without += 1
                caught += remaining == sum(found.values()) > 0
                say(f"lossy: {i + 1} of {n}: {lies}, {workload}: {proxy.remaining} remain, found {found}")
                with LossyProxy(url, "none", EVERY, seed=i) as proxy:
                    alarms += bool(_reading(folder, proxy.url, f"honest{i}", seconds, workload))
        finally:
            store.down()
    return {
        "lossy_caught": [100 * caught / n],
        "honest_alarms": [100 * alarms / n],
        "lossy_runs": [n],
        "lossy_without": [without],
    }


def main() -> None:
    args = options(__doc__)
    n = sized(args, 100, 10, 2)
    report("lossy", n, lossy(n, sized(args, 3.0, 2.0, 1.0)), args, servers=["seaweedfs"])


if __name__ == "__main__":
    run(main)

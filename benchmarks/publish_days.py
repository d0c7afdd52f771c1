"""Publish days to a store: one with 1/100 of the real size, and 110 with 1/1000, which are also replicated.

A part of `publish.py`; only `publish.py` may import it.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ports
import pyarrow.parquet as pq
from common import say

from storelab.core import plan
from storelab.measure import point
from storelab.stores import all_stores
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS

EVEN = {"files_deviation": 0, "bytes_deviation": "0 B"}  # each day has the mean number of files and bytes
MOST_S = {"day": 600, "all": 1800}  # duration of a point


def _config(folder: Path, name: str, stores: dict[str, Any], **more: Any) -> Config:
    settings = {"campaign": name, "name": name, "results": str(folder / "results"), "state": str(folder / "state")}
    settings |= {"stores": stores, "stores_to_measure": [list(stores)[-1]], "repetitions": 1, "calibrate": False}
    return Config.model_validate(settings | {"limits": {"stored_bytes": "50 GB"}} | more)


@contextmanager
def _store(folder: Path) -> Iterator[dict[str, Any]]:
    """Start the embedded store; yield two prefixes in it, configured as external stores."""
    own = _config(
        folder, "own", {"it": {"kind": "seaweedfs", "port": ports.block()}}, sweeps={"s": {"workload": "put"}}
    )
    store = all_stores(own)["it"]
    store.up(1)
    try:
        keys = store.credentials()
        os.environ.update(keys.environ() if keys else {})
        url = store.endpoints(1)[0].url
        yield {name: {"kind": "s3", "endpoint": url, "prefix": name} for name in ("zero", "one")}
    finally:
        store.down()


def _days(config: Config) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Measure the only point of a campaign; return (its record, its days)."""
    (planned,) = plan.make(config, WORKLOADS)
    run = point.point(config, [planned], planned.key).to_json()
    return run or {}, pq.read_table(config.raw / planned.key / "days.0.parquet").to_pylist()


def published(days: int, factor: float) -> dict[str, list[float]]:
    """Return `day_s`, the time to make and publish a day with the real tool's requests, and `day_prepare_s` to make it.

    days: number of measured days; an additional first day makes the tree and does not count.
    """
    with tempfile.TemporaryDirectory(prefix="storelab-day-") as name, _store(Path(name)) as stores:
        sweep = {"workload": "publish", "duration": f"{MOST_S['day']} s", "warm_up": "0 s", "axes": {"days": days + 1}}
        release = {"factor": factor, "days": days + 1} | EVEN
        _, rows = _days(_config(Path(name), "day", stores, release=release, sweeps={"s": sweep}))
    kept = rows[1:]
    say(f"publish: days of {kept[-1]['files']} files, {kept[-1]['bytes'] / 1e6:.0f} MB")
    return {
        "day_s": [(r["prepare_ns"] + r["end_ns"] - r["begin_ns"]) / 1e9 for r in kept],
        "day_prepare_s": [r["prepare_ns"] / 1e9 for r in kept],
        "day_mb": [r["bytes"] / 1e6 for r in kept],
    }


def replicated(n: int, days: int, factor: float) -> dict[str, list[float]]:
    """Return `days110_s`, the time to make, publish and replicate the days within one store, n times.

    `days110_objects`: number of objects at stratum 1 afterwards.
    """
    values: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="storelab-days-") as name, _store(Path(name)) as stores:
        axes = {"days": days, "stratum0": "zero"}
        sweep = {"workload": "replicate", "duration": f"{MOST_S['all']} s", "warm_up": "0 s", "axes": axes}
        for i in range(n):
            release = {"factor": factor, "days": days, "seed": 20150413 + i}
            run, rows = _days(_config(Path(name), f"days{i}", stores, release=release, sweeps={"s": sweep}))
            values.setdefault("days110_s", []).append((rows[-1]["end_ns"] - run["start_ns"]) / 1e9)
            values.setdefault("days110_objects", []).append(sum(r["stored"] for r in rows if r["stratum"] == 1))
            say(f"publish: {i + 1} of {n}: {days} days replicated in {values['days110_s'][-1]:.0f} s")
    return values

"""Compare the recorded time of a fault with the time of its effect.

A part of `roles.py`; only `roles.py` may import it. The commands of a fault cut and open a proxy (`gate.py`), which
logs the true times.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import ports
from common import say

from storelab.analysis.records.campaign import load
from storelab.analysis.tables.build import Tables
from storelab.core import plan
from storelab.host import processes
from storelab.measure import collect, plan_file, point
from storelab.stores import all_stores
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS

CUT, OPENED = 40, 70  # percent of the run
STORE = {"kind": "seaweedfs"}


def _config(folder: Path, stores: dict[str, Any], used: str, **more: Any) -> Config:
    places = {"results": str(folder / "results"), "state": str(folder / "state")}
    head = {"campaign": used, "name": used, "stores": stores, "stores_to_measure": [used], "calibrate": False}
    return Config.model_validate(head | places | more)


@contextmanager
def _gate(url: str, log: Path) -> Iterator[tuple[int, str]]:
    """Start a gate in front of the store; yield its (pid, URL)."""
    command = [sys.executable, str(Path(__file__).with_name("gate.py")), urlsplit(url).netloc, str(log)]
    gate = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=processes.die_with_parent())
    try:
        assert gate.stdout
        yield gate.pid, f"http://127.0.0.1:{int(gate.stdout.readline())}"
    finally:
        gate.terminate()
        gate.wait(timeout=10)


def _campaign(folder: Path, url: str, pid: int, n: int, seconds: float) -> Config:
    """Return a campaign that reads through the gate, which a fault cuts and opens."""
    acts = [
        {"at": f"{CUT} %", "act": "command", "command": f"kill -USR1 {pid}", "undo": f"kill -USR2 {pid}"},
        {"at": f"{OPENED} %", "act": "command", "command": f"kill -USR2 {pid}"},
    ]
    reads = {"workload": "get", "objects": 16, "axes": {"engine": "loadgen", "object_size": "4 kB", "workers": 4}}
    sweep = {"duration": f"{seconds:g} s", "warm_up": "0 s", "axes": {"fault": "gate"}, "roles": {"reads": reads}}
    more = {"repetitions": n, "faults": {"gate": acts}, "sweeps": {"s": sweep}}
    return _config(folder, {"far": {"kind": "s3", "endpoint": url, "prefix": "bench"}}, "far", **more)


def _distance(at: float, step: pd.Series) -> float:
    """Return the seconds between a time and a step of the axis; 0 within the step."""
    return max(0.0, step["second"] - at, at - step["second"] - step["step_s"])


def of_run(line: pd.DataFrame, acts: pd.DataFrame, moments: list[float]) -> tuple[float, float]:
    """Return the worst distances of one run in s: between an act and its moment, and between an act and its effect.

    The effect is the step in which clients first show it. line, acts: rows of timeline.csv and disturbances.csv;
    moments: when the gate was cut and opened.
    """
    cut, opened = sorted(acts["begin_s"])[:2]
    failing = line[line["errors"] > 0].iloc[0]
    served = line[(line["second"] + line["step_s"] > opened) & (line["operations"] > 0)].iloc[0]
    exact = max(abs(cut - moments[0]), abs(opened - moments[1]))
    return exact, max(_distance(cut, failing), _distance(opened, served))


def placed(n: int, seconds: float) -> dict[str, list[float]]:
    """Return the results of n runs: `event_moment_ms` and `event_error_ms`, the first and the larger of `of_run`."""
    values: dict[str, list[float]] = {"event_error_ms": [], "event_moment_ms": []}
    with tempfile.TemporaryDirectory(prefix="storelab-events-") as name:
        folder = Path(name)
        store = all_stores(
            _config(folder, {"it": STORE | {"port": ports.block()}}, "it", sweeps={"s": {"workload": "put"}})
        )["it"]
        store.up(1)
        try:
            keys = store.credentials()
            os.environ.update(keys.environ() if keys else {})
            with _gate(store.endpoints(1)[0].url, folder / "moments") as (pid, url):
                config = _campaign(folder, url, pid, n, seconds)
                points = plan.make(config, WORKLOADS)
                plan_file.write(config, points, WORKLOADS)
                runs = [point.point(config, points, p.key).to_json() for p in points]
                collect.write_sums(config, points)
            tables = Tables(load(config.raw.parent))
            moments = [line.split() for line in (folder / "moments").read_text().splitlines()]
            for planned, run in zip(points, runs, strict=True):
                assert run
                within = [
                    (int(at) - run["start_ns"]) / 1e9
                    for _, at in moments
                    if run["start_ns"] < int(at) < run["deadline_ns"]
                ]
                line, acts = (
                    tables[table][tables[table]["key"] == planned.key] for table in ("timeline", "disturbances")
                )
                exact, seen = of_run(line, acts[acts["kind"] == "act"], within)
                values["event_moment_ms"].append(1000 * exact)
                values["event_error_ms"].append(1000 * max(exact, seen))
                say(
                    f"roles: event {planned.rep} of {n}: {1000 * exact:.1f} ms from its moment, "
                    f"{1000 * seen:.1f} ms from its effect"
                )
        finally:
            store.down()
    return values

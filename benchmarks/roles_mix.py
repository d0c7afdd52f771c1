"""Mixes of operations: compare their starts, shares and gaps with the requested ones.

A part of `roles.py`; only `roles.py` may import it. The engine is loadgen at the near-null server. The mix has no LIST,
because that server lists no objects.
"""

import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ports
import pyarrow.parquet as pq
from common import say

from storelab.engines import loadgen
from storelab.host import processes
from storelab.stores import all_stores
from storelab.stores.config import Config
from storelab.stores.protocols.endpoint import Credentials

MIX = {"GET": 50.0, "PUT": 15.0, "HEAD": 25.0, "DELETE": 10.0}
RATE, SIZE, OBJECTS, WORKERS = 20_000, 4000, 2000, 64


def drive(folder: Path, url: str, body: Path, seconds: float, **more: Any) -> tuple[dict[str, Any], Any]:
    """Return (summary, rows) of one run of a mix; `more`: keys of the job, for example rate, arrivals, seed."""
    now, records = time.time_ns(), folder / "ops.parquet"
    job = {
        "schema": loadgen.SCHEMA,
        "endpoints": [{"url": url, "region": "us-east-1", "addressing": "path", "verify": True}],
        "buckets": ["bench"],
        "operations": [{"op": op, "share": share} for op, share in MIX.items()],
        "population": {"start": [SIZE] * OBJECTS, "most": OBJECTS},
        "sizes": {"fixed": SIZE},
        "object_size": SIZE,
        "bodies": [str(body)],
        # The second last part of a key names the body that the near-null server returns for it.
        "uploads": [{"bucket": 0, "prefix": f"put/{body.name}/"}],
        "workers": WORKERS,
        "verify": loadgen.VERIFY_EVERY,
        "records": str(records),
        "start_ns": now + 500_000_000,
        "deadline_ns": now + 500_000_000 + int(seconds * 1e9),
    } | more
    run = subprocess.run(
        [loadgen.binary()],
        input=json.dumps(job),
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | Credentials("any", "body").environ(),
        preexec_fn=processes.die_with_parent(),
        check=False,
    )
    summary = json.loads(run.stderr.splitlines()[-1]).get("summary") if run.returncode == 0 else None
    if not summary or summary["errors"] or summary["binned"]:
        raise SystemExit(f"roles: the run was not clean: {run.stderr[-300:]}")
    return summary, pq.read_table(records, columns=["op", "start_ns", "intended_ns"])


def mix_error(ops: Sequence[str]) -> float:
    """Return the largest difference between a measured and a requested share, in percentage points."""
    seen, n = dict(zip(*np.unique(np.asarray(ops), return_counts=True), strict=True)), len(ops)
    return max(abs(100 * seen.get(op, 0) / n - 100 * share / sum(MIX.values())) for op, share in MIX.items())


def kolmogorov_smirnov(gaps: Any, mean: float) -> float:
    """Return the p-value of a Kolmogorov-Smirnov test that the gaps are exponential with this mean.

    With D the largest distance of the distributions: Q(x) = 2 sum (-1)^(k-1) exp(-2 k² x²), x = D (sqrt n + 0.12 + 0.11
    / sqrt n) (M. A. Stephens, J. R. Stat. Soc. B 32 (1970) 115; W. H. Press et al., Numerical Recipes in C, 2nd ed.,
    section 14.3).
    """
    values = np.sort(-np.expm1(-np.asarray(gaps, float) / mean))
    n = len(values)
    ranks = np.arange(n)
    distance = max(float(np.max((ranks + 1) / n - values)), float(np.max(values - ranks / n)))
    x = distance * (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n))
    if x < 0.2:  # the sum converges slowly to 1
        return 1.0
    return min(1.0, max(0.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 101))))


def planned(n: int, seconds: float) -> dict[str, list[float]]:
    """Return the figures of n runs with even gaps and n Poisson runs.

    The rate is 20 000 operations/s, or half of the rate of a closed loop if that is less (`planned_per_s`).
    `start_error_p99_ms`: p99 of actual minus due start; `mix_error_percent`: see `mix_error`; `poisson_ks_p`: of the
    gaps between due times.
    """
    out: dict[str, list[float]] = {"start_error_p99_ms": [], "mix_error_percent": [], "poisson_ks_p": []}
    with tempfile.TemporaryDirectory(prefix="storelab-mix-", dir="/dev/shm") as shm:
        folder = Path(shm)
        body = folder / f"1-{SIZE}-0"
        body.write_bytes(os.urandom(SIZE))
        settings = {"null": {"kind": "nullserver", "port": ports.block()}}
        sweeps = {"it": {"workload": "calibrate", "duration": "1 s"}}
        config = {"campaign": "bench", "name": "bench", "state": str(folder / "state"), "stores": settings}
        store = all_stores(Config.model_validate(config | {"stores_to_measure": ["null"], "sweeps": sweeps}))["null"]
        store.up(1)
        try:
            store.add_bodies([body])  # type: ignore[attr-defined]
            url = store.endpoints(1)[0].url
            limit = sorted(drive(folder, url, body, min(seconds, 3.0))[0]["operations"] for _ in range(3))[1]
            limit /= min(seconds, 3.0)
            rate = min(RATE, int(limit / 2))
            say(f"roles: {limit:.0f} mixed operations/s in a closed loop; {rate}/s are planned")
            for i in range(n):
                for arrivals in ("even", "poisson"):
                    summary, rows = drive(folder, url, body, seconds, rate=rate, arrivals=arrivals, seed=i + 1)
                    late = rows["start_ns"].to_numpy() - rows["intended_ns"].to_numpy()
                    out["start_error_p99_ms"].append(float(np.quantile(late, 0.99)) / 1e6)
                    out["mix_error_percent"].append(mix_error(rows["op"].to_pylist()))
                    if summary["not_begun"]:
                        say(f"roles: operations that never began: {summary['not_begun']}")
                    if arrivals == "poisson":
                        due = np.sort(rows["intended_ns"].to_numpy())
                        out["poisson_ks_p"].append(kolmogorov_smirnov(np.diff(due), 1e9 / rate))
        finally:
            store.down()
    return out | {"planned_per_s": [float(rate)]}

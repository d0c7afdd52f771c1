"""A table of application starts with known values, made from synthetic records."""

import made_records
import pandas as pd

from storelab.analysis.tables import releases
from storelab.core import records

S = 10**9


BY = ["store", "workload", "clients", "http_cache", "client_cache"]


def row(client, launch, state, begin, end, files=10, **more):
    counts = {"objects": 12, "gets": 12, "kept": 0, "bytes": 1_000_000, "raw_bytes": 1, "application": 0}
    times = {"begin_ns": int(begin * S), "end_ns": int(end * S)}
    files = files if state == "whole" else 0
    return {"client": client, "launch": launch, "state": state, "files": files} | times | counts | more


ROWS = [  # two clients begin together at 100; the warm-up is 2 s; the first client stops at 110
    row(0, 0, "whole", 100, 101),
    row(0, 1, "whole", 101, 103, files=20, kept=6, gets=6),
    row(0, 2, "failed", 103, 104),
    row(0, 3, "whole", 104, 110),
    row(1, 0, "whole", 100, 104),
    row(1, 1, "whole", 104, 110.5, files=40),  # ended after the first client had stopped
    row(1, 2, "cut", 110.5, 111),
]


def run_of(http_cache):
    seen = (
        {"requests": 80, "hits": 50, "origin_requests": 20, "origin_bytes": 2_500_000}
        if http_cache == "squid"
        else None
    )
    ends = [{"start_ns": 100 * S, "end_ns": end * S} for end in (110, 111)]
    fixed = {"warm_up_ns": 2 * S, "release": {"factor": 0.001}}
    point = {"fixed": fixed, "axes": {"http_cache": http_cache}}
    own = {"start_ns": 100 * S, "deadline_ns": 111 * S, "clients": ends, "point": point}
    return own | {"observed": {"http_cache": seen} if seen else {}, "schema": 4}


def make_table(tmp_path):
    """Make the table. Two runs have no cache, the second one is half as fast. One run with Squid is twice as fast.

    One run is invalid.
    """
    rows, runs, points = {}, {}, []
    for number, (slow, http_cache, state) in enumerate(
        ((1, "none", "ok"), (2, "none", "ok"), (0.5, "squid", "ok"), (9, "none", "invalid"))
    ):
        key = f"a/launch/rep~{number}"
        rows[key] = [r | {"begin_ns": r["end_ns"] - int(slow * (r["end_ns"] - r["begin_ns"]))} for r in ROWS]
        runs[key] = run_of(http_cache)
        points.append(["a", "launch", 2, http_cache, "none", key, state, True])
    campaign = made_records.campaign(tmp_path, "launches", records.LAUNCHES, rows, runs)
    points = pd.DataFrame(points, columns=[*BY, "key", "state", "shared_host"])
    return releases.launches_table(releases.launches_of_runs(campaign), points, BY)

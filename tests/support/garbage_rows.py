"""A table of garbage collections with known values, made from synthetic records."""

import made_records
import pandas as pd

from storelab.analysis.tables import releases
from storelab.core import records

S = 10**9


AXES = {"engine": "wire", "pattern": "cvmfs", "days": 9, "keep": 2, "batch": 1, "workers": 400}


SEEN = {"alive": 50, "dead": 900, "dead_bytes": 3_000_000, "read": 52, "asked": 900, "lost": 0, "left": 0, "others": 0}


def tried(client, number, begin, marked, end, deletes, state="collected", **more):
    counts = dict.fromkeys(("gets", "requests", "retries", "failures"), 1)
    times = {"begin_ns": begin * S, "marked_ns": marked if marked is None else marked * S, "end_ns": end * S}
    row = {"client": client, "number": number, "state": state, "kept": 2, "dropped": 7, "alive": 50, "dead": deletes}
    return row | times | {"deletes": deletes} | counts | more


def run_of(workers, store="alpha", lingering=0, role="deletions"):
    seen = {"collection": SEEN | {"lingering": lingering}}
    axes = AXES | {"workers": workers}
    if role is None:
        point = {"store": store, "workload": "collect_garbage", "axes": axes, "fixed": {"release": {"factor": 0.001}}}
        return {"point": point, "clients": [{"client": 0}], "observed": seen}
    content = {"name": role, "fixed": {"release": {"factor": 0.001}}}
    point = {"store": store, "workload": "roles-collect", "axes": {"redundancy": "replica-2"}}
    point["fixed"] = {"roles": [{"name": "uploads", "fixed": {}}, content]}
    uploads = {"name": "uploads", "workload": "put", "axes": {}, "clients": [0, 1]}
    own = {"name": role, "workload": "collect_garbage", "axes": axes, "clients": [2]}
    return {"point": point, "roles": [uploads, own], "observed": {role: seen, "uploads": {}}}


RUNS = {  # key -> (record, tries)
    "alpha/roles-collect/workers~0040_rep~001": (
        run_of(40),
        [  # 300 in 3 s; a pause until all live objects are known; then 600 in 6 s
            tried(2, 1, 10, 12, 15, 300, "failed", failures=2, retries=3),
            tried(2, 2, 16, None, 17, 0, "failed"),
            tried(2, 3, 20, 21, 27, 600),
        ],
    ),
    "alpha/roles-collect/workers~0040_rep~002": (run_of(40, lingering=4), [tried(2, 1, 0, 1, 4, 900)]),
    "alpha/roles-collect/workers~0040_rep~003": (run_of(40), [tried(2, 1, 0, 1, 2, 900)]),  # not valid
    "alpha/roles-collect/rep~001": (run_of(400), [tried(2, 1, 0, 1, 2, 900)]),
    "beta/collect_garbage/rep~001": (run_of(400, "beta", role=None), [tried(0, 1, 0, 2, 12, 900)]),
}


PHASES = [  # key, role, does, phase, rate
    ("alpha/roles-collect/workers~0040_rep~001", "uploads", "put", "before", 100.0),
    ("alpha/roles-collect/workers~0040_rep~001", "others", "publish", "before", 100.0),
    ("alpha/roles-collect/workers~0040_rep~001", "uploads", "put", "during", 50.0),
    ("alpha/roles-collect/workers~0040_rep~001", "others", "publish", "during", 70.0),
    ("alpha/roles-collect/workers~0040_rep~001", "deletions", "collect_garbage", "during", 5000.0),
    ("alpha/roles-collect/workers~0040_rep~001", "uploads", "put", "after", 220.0),
    ("alpha/roles-collect/workers~0040_rep~002", "uploads", "put", "before", 100.0),
    ("alpha/roles-collect/workers~0040_rep~002", "uploads", "put", "during", 80.0),
    ("alpha/roles-collect/rep~001", "uploads", "put", "before", 0.0),
    ("alpha/roles-collect/rep~001", "uploads", "put", "during", 10.0),
]


def make_table(tmp_path):
    rows = {key: tries for key, (_, tries) in RUNS.items()}
    runs = {key: run for key, (run, _) in RUNS.items()}
    campaign = made_records.campaign(tmp_path, "collections", records.COLLECTIONS, rows, runs)
    points = pd.DataFrame(
        {
            "order": range(len(runs)),
            "key": list(runs),
            "store": [r["point"]["store"] for r in runs.values()],
            "workload": [r["point"]["workload"] for r in runs.values()],
            "rep": [1, 2, 3, 1, 1],
            "state": ["ok", "ok", "invalid", "ok", "ok"],
            "shared_host": True,
        }
    )
    phases = pd.DataFrame(PHASES, columns=["key", "role", "does", "phase", "rate_per_s"])
    made = releases.collections_table(campaign, points.sample(frac=1, random_state=1), phases)
    path = tmp_path / "collections.csv"  # as read from the file
    made.to_csv(path, index=False)
    assert list(made["key"]) == list(runs)
    return pd.read_csv(path)

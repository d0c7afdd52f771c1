"""Make rows of tables that compare printed with measured numbers."""

import itertools

import pandas as pd
from throughput_rows import groups, spread

from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import earlier


def threads() -> pd.DataFrame:
    """Return throughput.csv of one client with the printed operations and sizes."""
    parts = [
        groups(workload=w, object_size_bytes=s, workers=[1, 8, 64], value=[10.0, 80.0, 90.0])
        for w in ("put", "get")
        for s in (4000, 10**7)
    ]
    return pd.concat(parts, ignore_index=True)


def whole() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return throughput.csv and resources.csv with values for all measures of earlier.csv."""
    parts = [
        groups(workload=w, object_size_bytes=s, clients=[1, 4], front_ends=[1, 2], access=a)
        for w, s, a in (("put", 4000, None), ("get", 4000, "cold"), ("put", 10**8, None), ("get", 10**8, "warm"))
    ]
    rates = pd.concat(parts, ignore_index=True)
    used = rates.assign(**{f"link_{part}_percent": 80.0 for part in ("median", "low", "high")})
    return rates, used


def events() -> pd.DataFrame:
    """Return events.csv of two systems, two settings, both navigations and two numbers of jobs."""
    rows = []
    for store, cache, navigation, jobs in itertools.product(
        ("alpha", "beta"), ("none", "readahead"), ("scan", "random"), (1, 4)
    ):
        ahead = cache == "readahead"
        value = 100.0 * (1 if store == "alpha" else 2) * (3 if ahead else 1) * jobs
        row = {"store": store, "workload": "events", "engine": "fsspec", "navigation": navigation, "cache": cache}
        row |= {"read_ahead_bytes": 2**21 * ahead, "clients": jobs, "files": 4, "n": 3, "interval": "range"}
        row |= {"nodes": 1, "shared_host": True, "duration_s": 60.0}
        row |= spread("events", "per_s", value) | spread("wire", "mb_per_s", 0.1 * value)
        rows.append(row | spread("asked", "mb_per_s", 9 * value) | spread("processed", "events", 60 * value))
    return pd.DataFrame(rows)


def probed() -> pd.DataFrame:
    """Return the answers of a store to both questions, and of another store to one of them."""
    asked = [("ranges", "multi-range 2", "no"), ("multipart", "upload", "yes")]
    rows = [{"store": "alpha", "redundancy": "default", "topic": t, "check": c, "answer": a} for t, c, a in asked]
    return pd.DataFrame([*rows, {**rows[0], "store": "beta", "answer": "yes"}])


STORE = {"name": "alpha", "kind": "ceph", "version": "16.2.15 (abc)"}
DEPLOYED = {"system": "Ceph", "front_ends": 2, "servers": 3, "redundancy": "replica-3"}


def systems() -> pd.DataFrame:
    """Return table1.csv of two stores. One of them had up to four front-ends."""
    deployed = (DEPLOYED, DEPLOYED | {"front_ends": 4})
    runs = {str(i): {"store": STORE | {"deployment": d}, "clients": []} for i, d in enumerate(deployed)}
    return earlier.table1(Campaign(None, {"points": []}, runs, {}), probed())

"""A campaign with random records that produces every kind of table cell.

It has single operations and bins, operations that hung or never began, errors, reads, events and calibrations. `runs`
returns the random values, from which tests compute every cell with plain loops. `write` writes the records. `table`
returns a table of the shared campaign `cells`, and `check` compares one of its rows.
"""

import copy
import functools
import math
import random
import statistics
from collections import defaultdict
from dataclasses import asdict

import pandas as pd
import pytest

from storelab.core import integrity, plan, records
from storelab.stores import config
from storelab.workloads import WORKLOADS

S, MS = 10**9, 10**6
T0 = 1_760_000_000 * S
BIN = 100 * MS
SHORT = {"duration": "4 s", "warm_up": "1 s"}
CONFIG = {
    **{"campaign": "cells", "name": "cells", "stores_to_measure": ["alpha"], "repetitions": 3, "calibrate": True},
    "stores": {"alpha": {"kind": "s3", "endpoint": "https://s3.example.org"}},
    "sweeps": {
        "single": SHORT | {"workload": "get", "axes": {"engine": "obstore", "clients": [1, 2]}},
        "due": SHORT | {"workload": "get", "axes": {"engine": "obstore", "arrival_rate": 150, "clients": 2}},
        "binned": SHORT
        | {"workload": "put", "axes": {"engine": "loadgen", "clients": 2, "object_size": ["4 kB", "2 MB"]}},
        "entries": SHORT | {"workload": "read_entries", "axes": {"entry_fraction": [100, 10], "clients": [1, 2]}},
        "volume": SHORT | {"workload": "read_volume", "axes": {"volume_fraction": 20}},
        "jobs": SHORT | {"workload": "events", "axes": {"clients": [1, 2], "files": 2, "cache": ["none", "all"]}},
    },
}
PHASES = ("plan", "transfer", "decompress", "deserialise")
CLASSES = ((503, "SlowDown"), (404, "NoSuchKey"), (None, "ConnectTimeout"), (0, "HTTP 500"))


class Run:
    """The raw records of a point."""

    def __init__(self, point, state):
        rng = self.rng = random.Random(f"cells {point.key}")
        self.point, self.state, self.start = point, state, T0 + point.order * 30 * S
        self.duration, self.warm_up = point.fixed["duration_ns"], point.fixed["warm_up_ns"]
        self.deadline = self.start + self.duration
        n = self.n = point.axes["clients"]
        self.starts = [self.start + rng.choice([1, 5 * MS, 200 * MS]) for _ in range(n)]
        self.ends = [self.deadline + rng.choice([-300 * MS, 0, 100 * MS]) for _ in range(n)]
        self.begin, self.first_end = max(self.starts) + self.warm_up, min(*self.ends, self.deadline)
        self.length = (self.first_end - self.begin) / S
        self.engines = [self.engine(c) for c in range(n)]
        readers = point.workload in ("read_entries", "read_volume", "events")
        self.reads = [self.draw_reads(c) for c in range(n)] if readers else []
        self.ops = [[self.of_read(r) for r in reads] for reads in self.reads] or [self.draw(c) for c in range(n)]

    def engine(self, client):
        """Return the report of a client's engine."""
        longest = [[self.start + (2 + client) * S, (300 + client) * MS], [self.start + S, 20 * MS]]
        content = {"pauses": {"sum_ns": (330 + client) * MS, "longest_ns": longest[0][1], "longest": longest}}
        if self.point.sweep == "single" and self.point.rep == 2:
            content = {}  # this engine records no CPU time
        if self.point.sweep == "due":
            content["not_begun"] = [0, 5, 700][self.point.rep - 1] - client if self.point.rep > 1 else None
        if self.point.rep != 3 or client:  # missing for the first client of every third run
            content["opening"] = {
                "requests": 3,
                "asked_bytes": 5000,
                "wire_bytes": None if self.point.rep == 2 else 6000,
            }
        return content

    def draw(self, client):
        rng, out = self.rng, []
        # the widths differ in the first run
        binned = self.point.sweep == "binned" and (client == 0 or self.point.rep > 1)
        edges = [self.begin, self.begin + 1, self.first_end, self.first_end + 1, self.begin - 1]
        many = 60 if self.point.workload == "calibrate" else 1400 if self.point.sweep == "single" else 500
        for i in range(40 if binned else many):
            took = int(10 ** rng.uniform(5, 8.3))
            begun = edges[i] if i < 5 else rng.randrange(self.start, self.deadline)
            error, status = None, 200
            if self.point.workload != "calibrate" and rng.random() < 0.1:
                status, error = rng.choice(CLASSES)
            if self.point.rep == 3 and self.point.workload != "calibrate" and rng.random() < (0.2 if binned else 0.02):
                status, error = None, "Hung"
            row = {"client": client, "op": self.point.workload.upper(), "count": 1, "status": status, "error": error}
            if error == "Hung":
                took = self.deadline + 3 * S - begun
            row |= {"start_ns": begun, "end_ns": begun + took, "first_byte_ns": begun + took // 3}
            if self.point.sweep == "due":
                row |= {"intended_ns": begun, "start_ns": begun + took // 2}
            if binned:
                row |= {"start_ns": None, "first_byte_ns": None, "end_ns": begun + 50 * MS}
                uppers = sorted({math.ceil(1.02 ** rng.randrange(600, 900)) for _ in range(rng.randrange(1, 6))})
                row["latency_hist"] = [{"upper_ns": u, "count": rng.randrange(1, 90)} for u in uppers]
                row["count"] = sum(b["count"] for b in row["latency_hist"])
            out.append(row | {"bytes": 0 if error else row["count"] * 1000})
        return out

    def draw_reads(self, client):
        rng, out = self.rng, []
        wired = not (self.point.sweep == "jobs" and self.point.rep == 2)  # a transport without counters
        for i in range(30):
            end = (
                [self.begin, self.first_end, self.begin + 1][i]
                if i < 3
                else rng.randrange(self.start, self.deadline + S)
            )
            opens = i == 0 or (self.point.axes["clients"] == 2 and i % 7 == 0)
            row = {"client": client, "read": i, "entries": rng.randrange(1, 50), "branches": 5}
            row |= {"baskets": rng.randrange(5, 50), "needed_bytes": rng.randrange(1000, 9000)}
            lost = not wired or (self.point.sweep == "entries" and rng.random() < 0.2)
            row |= {
                "asked_bytes": 20_000 + rng.randrange(9000),
                "wire_bytes": None if lost else rng.randrange(9000, 90_000),
            }
            row |= {"requests": rng.randrange(4, 20), "start_ns": end - 50 * MS, "end_ns": end}
            row |= {"open_ns": rng.randrange(1, 9 * MS) if opens else 0}
            out.append(row | {f"{p}_ns": rng.randrange(1, 9 * MS) for p in PHASES})
        return out

    def of_read(self, r):
        row = {
            "client": r["client"],
            "op": "READ",
            "count": 1,
            "bytes": r["needed_bytes"],
            "status": 200,
            "error": None,
        }
        return row | {"start_ns": r["start_ns"], "end_ns": r["end_ns"]}

    def run_json(self):
        rng, clients = self.rng, []
        for c, (s, e) in enumerate(zip(self.starts, self.ends, strict=True)):
            scheme = "https" if self.point.workload != "calibrate" or self.point.axes["scheme"] == "https" else "http"
            clients.append(
                {"client": c, "host": f"node-{c}", "start_ns": s, "end_ns": e, "lateness_ns": s - self.start}
            )
            clients[-1] |= {
                "endpoint": f"{scheme}://x",
                "cpu_user_s": 0.5 + c,
                "cpu_system_s": 0.25,
                "connections_max": 8,
            }
            clients[-1] |= {
                "operations": sum(r["count"] for r in self.ops[c] if r["error"] is None),
                "bytes": 10_000 * (c + 1),
                "engine": self.engines[c],
            }
        self.host = {"cores": 4, "seconds": 5.0, "cpu_busy_s": rng.choice([4.0, 9.0, 18.0])}
        self.host |= {"server_cpu_s": rng.choice([0.5, 2.0]), "client_cpu_s": sum(0.75 + c for c in range(self.n))}
        self.watched = [self.counters(c) for c in range(self.n)]
        nodes = [{"host": f"node-{c}", "ranks": [c], "watched": {"network": w}} for c, w in enumerate(self.watched)]
        engine = {"name": "x", "version": "1", "settings": {}, "requests_per_operation": {}}
        return {
            **{"campaign": "cells", "point": asdict(self.point), "attempt": "1", "start_ns": self.start},
            **{"deadline_ns": self.deadline, "clients": clients, "host": self.host, "engine": engine, "nodes": nodes},
            **{
                "store": {"name": self.point.store, "kind": "s3"},
                "checks": [],
                "events": [],
                "valid": self.state == "ok",
            },
            "budget": {"reason": None if self.state == "ok" else "too many failed"},
        }

    def counters(self, client):
        """Return the counters of a node: over a link, or over loopback (every third), or less than the client moved."""
        kind = (self.point.order + client) % 3 if self.point.workload == "calibrate" else 0
        link = {"rx_bytes": 11_000 * (client + 1), "tx_bytes": 10}
        most = [{"lo": {"rx_bytes": 1, "tx_bytes": 2}, "eth0": link}]
        most += [{"lo": {"rx_bytes": 1, "tx_bytes": 99_000}, "eth0": link}, {"eth0": {"rx_bytes": 4, "tx_bytes": 999}}]
        return most[kind]

    def over_link(self):
        """Return True if interfaces moved more bytes than loopback, and more than half of the clients' bytes."""
        for c, counters in enumerate(self.watched):
            most = {name: max(v.values()) for name, v in counters.items()}
            loopback = most.pop("lo", 0)
            if not (sum(most.values()) > loopback and sum(most.values()) > 10_000 * (c + 1) / 2):
                return False
        return True

    @property
    def every(self):
        return [op for ops in self.ops for op in ops]


def _planned():
    settings = config.Config.model_validate(copy.deepcopy(CONFIG))
    return settings, plan.make(settings, WORKLOADS)


@functools.cache
def runs():
    """Return key -> Run in the order of the plan. In two sweeps, the first repetitions with one client are invalid."""
    found = {}
    for p in _planned()[1]:
        invalid = p.rep == 1 and p.axes["clients"] == 1 and p.sweep in ("single", "jobs")
        found[p.key] = Run(p, "invalid" if invalid else "ok")
        found[p.key].record = found[p.key].run_json()
    return found


def write(folder):
    """Write all records into `folder/raw`."""
    settings, points = _planned()
    for key, run in runs().items():
        for name, kinds, files in (("ops", records.OPS, run.ops), ("reads", records.READS, run.reads)):
            for client, rows in enumerate(files):
                columns = {c: [r.get(c) for r in rows] for c in dict.fromkeys(c for r in rows for c in r)}
                records.write_table(folder / "raw" / key / f"{name}.{client}.parquet", kinds, columns)
        records.finish(folder / "raw" / key, copy.deepcopy(run.record))
    records.write_json(folder / "raw" / "plan.json", plan.to_json(settings, points, WORKLOADS))
    integrity.write_sums(folder / "raw")


# Comparison of tables with the random values


@functools.cache
def table(name):
    """Return a table of the shared campaign, read from its CSV file."""
    import campaigns
    from storelab.analysis.tables import build

    return build.read(campaigns.built("cells"), name)


@functools.cache
def identity():
    """Return the columns that identify a group of points."""
    from storelab.analysis.tables import points

    settings, planned = _planned()
    return set(points.identity(plan.to_json(settings, planned, WORKLOADS)))


def check(row, expected, where):
    """Compare columns of a row: numbers with the precision of the file, None and NaN as missing, others exactly."""
    for column, value in expected.items():
        found = row[column]
        if value is None or (isinstance(value, float) and math.isnan(value)):
            assert pd.isna(found), (where, column, found)
        elif isinstance(value, float):
            assert float(found) == pytest.approx(value, rel=1e-8, abs=1e-8), (where, column)
        else:
            assert found == value, (where, column)


def rate(run, rows, earned=lambda row: 1):
    """Return a rate in the window: each operation counts by the part of its duration inside. NaN if one is unknown."""
    total = 0.0
    for row in rows:
        if row["start_ns"] < run.first_end:
            inside = min(row["end_ns"], run.first_end) - max(row["start_ns"], run.begin)
            value = earned(row)
            total += math.nan if value is None else value * max(0, inside) / (row["end_ns"] - row["start_ns"])
    return total / run.length


def few(group):
    """Return True if fewer than 10 reads of a run overlap its window."""

    def inside(run):
        reads = (row for client in run.reads for row in client)
        return sum(r["end_ns"] > run.begin and r["start_ns"] < run.first_end for r in reads)

    return any(inside(run) < 10 for run in group)


def groups(sweep):
    """Return the valid runs of each group of points of a sweep."""
    out = defaultdict(list)
    for key, run in runs().items():
        if run.point.sweep == sweep and run.state == "ok":
            out[key.rpartition("rep~")[0]].append(run)
    return list(out.values())


def row_of(found, run, **more):
    """Return the row of the group of a run."""
    rows = found[(found["workload"] == run.point.workload) & (found["store"] == run.point.store)]
    wanted = {a.column: run.point.axes[a.name] for a in WORKLOADS[run.point.workload].axes if a.column in rows} | more
    for column, value in wanted.items():
        rows = rows[rows[column].isna() if pd.isna(value) else rows[column] == value]
    assert len(rows) == 1, (run.point.key, len(rows))
    return rows.iloc[0]


def median_low_high(values):
    """Return median, minimum and maximum, as tables define the interval for fewer than six runs."""
    known = [float(v) for v in values if v is not None and not math.isnan(v)]
    return (statistics.median(known), min(known), max(known)) if known else (math.nan,) * 3


def spread(name, unit, values):
    """Return the three columns of a metric over runs."""
    parts = (f"{name}_{part}_{unit}" for part in ("median", "low", "high"))
    return dict(zip(parts, median_low_high(values), strict=True))


def counted(group):
    """Return the columns with numbers of runs of a group."""
    return {"n": len(group), "interval": "range", "coverage_percent": float(100 * (1 - 2 / 2 ** len(group)))}


def cpu(group):
    """Return the median CPU use of clients and server in percent of four cores during five seconds."""
    return {
        f"{who}_cpu_percent": float(statistics.median(100 * r.host[f"{who}_cpu_s"] / 20 for r in group))
        for who in ("client", "server")
    }


def mean(values):
    """Return the mean of the known values; None if there are none."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def without_openings(run):
    """Return the reads of a run without the costs of opening the file; `opening` has these costs."""
    out, names = [], ("requests", "asked_bytes", "wire_bytes")
    for r in (r for reads in run.reads for r in reads):
        known = run.engines[r["client"]].get("opening") or dict.fromkeys(names)
        took = known if r["open_ns"] else dict.fromkeys(known, 0)
        less = {name: None if None in (r[name], took[name]) else r[name] - took[name] for name in names}
        out.append(r | less | {"opening": took if r["open_ns"] else None})
    return out


def openings(rows):
    """Return requests, MB and seconds of one opening. MB are wire bytes, or requested bytes if those are unknown."""
    opened = [r for r in rows if r["opening"]]
    moved = mean([r["opening"]["wire_bytes"] or r["opening"]["asked_bytes"] for r in opened])
    out = {"opening_requests": mean([r["opening"]["requests"] for r in opened])}
    return out | {
        "opening_mb": None if moved is None else moved / 1e6,
        "opening_s": mean([r["open_ns"] for r in opened]) / S,
    }

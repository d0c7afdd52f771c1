"""Whole tables, cell by cell, of a second campaign by construction: latency with bins, hung and never begun operations,
errors, sparse reads, events, calibration. Every value follows here from the drawn records, by plain loops."""

import copy
import math
import random
import statistics
from collections import Counter, defaultdict
from dataclasses import asdict

import pandas as pd
import pytest

from storelab.analysis.records.campaign import load
from storelab.analysis.tables import build
from storelab.core import config, evidence, plan, records
from storelab.workloads import WORKLOADS

S, MS = 10**9, 10**6
T0 = 1_760_000_000 * S
BIN = 100 * MS
SHORT = {"duration": "4 s", "warm_up": "1 s"}
CONFIG = {
    **{"campaign": "cells", "name": "cells", "use_stores": ["alpha"], "repetitions": 3, "calibrate": True},
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
    """One point's raw records."""

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
        """What a client says of itself."""
        longest = [[self.start + (2 + client) * S, (300 + client) * MS], [self.start + S, 20 * MS]]
        told = {"pauses": {"sum_ns": (330 + client) * MS, "longest_ns": longest[0][1], "longest": longest}}
        if self.point.sweep == "single" and self.point.rep == 2:
            told = {}  # it did not watch itself
        if self.point.sweep == "due":
            told["not_begun"] = [0, 5, 700][self.point.rep - 1] - client if self.point.rep > 1 else None
        if self.point.rep != 3 or client:  # the first client of every third run does not tell
            told["opening"] = {"requests": 3, "asked_bytes": 5000, "wire_bytes": None if self.point.rep == 2 else 6000}
        return told

    def draw(self, client):
        rng, out = self.rng, []
        binned = self.point.sweep == "binned" and (client == 0 or self.point.rep > 1)  # in the first run they differ
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
        wired = not (self.point.sweep == "jobs" and self.point.rep == 2)  # a transport that tells nothing
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
            clients[-1] |= {"operations": len(self.ops[c]), "bytes": 10_000 * (c + 1), "engine": self.engines[c]}
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
        """Of a node: over a link, or (every third) over loopback, or too little for what the client moved."""
        kind = (self.point.order + client) % 3 if self.point.workload == "calibrate" else 0
        link = {"rx_bytes": 11_000 * (client + 1), "tx_bytes": 10}
        most = [{"lo": {"rx_bytes": 1, "tx_bytes": 2}, "eth0": link}]
        most += [{"lo": {"rx_bytes": 1, "tx_bytes": 99_000}, "eth0": link}, {"eth0": {"rx_bytes": 4, "tx_bytes": 999}}]
        return most[kind]

    def over_link(self):
        """Interfaces moved more than loopback, and more than half of what the clients of the node moved."""
        for c, counters in enumerate(self.watched):
            most = {name: max(v.values()) for name, v in counters.items()}
            loopback = most.pop("lo", 0)
            if not (sum(most.values()) > loopback and sum(most.values()) > 10_000 * (c + 1) / 2):
                return False
        return True

    @property
    def every(self):
        return [op for ops in self.ops for op in ops]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(tables, runs by key)."""
    folder = tmp_path_factory.mktemp("cells")
    settings = config.Config.model_validate(copy.deepcopy(CONFIG))
    points, runs = plan.make(settings, WORKLOADS), {}
    for p in points:
        wrong = p.rep == 1 and p.axes["clients"] == 1 and p.sweep in ("single", "jobs")
        run = runs[p.key] = Run(p, "invalid" if wrong else "ok")
        place = folder / "raw" / p.key
        for name, kinds, files in (("ops", records.OPS, run.ops), ("reads", records.READS, run.reads)):
            for client, rows in enumerate(files):
                known = dict.fromkeys(c for r in rows for c in r)
                records.write_table(
                    place / f"{name}.{client}.parquet", kinds, {c: [r.get(c) for r in rows] for c in known}
                )
        records.finish(place, run.run_json())
    records.write_json(folder / "raw" / "plan.json", plan.to_json(settings, points, WORKLOADS))
    evidence.write_sums(folder / "raw")
    tables = build.Tables(load(folder))
    for name in ("points", "latency", "errors", "errors_over_time", "sparse", "events", "calibration"):
        tables[name]  # now, not by the test that asks first
    return tables, runs


def same(found, expected, where):
    """Numbers to nine digits, all else exactly; None and NaN: nothing there."""
    if expected is None or (isinstance(expected, float) and math.isnan(expected)):
        assert pd.isna(found), (where, found)
    elif isinstance(expected, float):
        assert float(found) == pytest.approx(expected, rel=1e-9, abs=1e-9), where
    else:
        assert found == expected, where


def grouped(runs, sweep, count=lambda run: run.state == "ok"):
    out = defaultdict(list)
    for key, run in runs.items():
        if run.point.sweep == sweep and count(run):
            out[key.rpartition("rep~")[0]].append(run)
    return list(out.values())


def row_of(table, run, **more):
    """The row of the group that a run is of."""
    rows = table[(table["workload"] == run.point.workload) & (table["store"] == run.point.store)]
    for axis in WORKLOADS[run.point.workload].axes:
        if axis.column in rows:
            rows = rows[
                rows[axis.column].isna()
                if pd.isna(run.point.axes[axis.name])
                else rows[axis.column] == run.point.axes[axis.name]
            ]
    for column, value in more.items():
        rows = rows[rows[column] == value]
    assert len(rows) == 1, (run.point.key, len(rows))
    return rows.iloc[0]


def median_low_high(values):
    """Of fewer than six runs: the median and the extremes."""
    known = [float(v) for v in values if v is not None and not math.isnan(v)]
    return (statistics.median(known), min(known), max(known)) if known else (math.nan,) * 3


def cpu(group):
    """Medians of the parts of the host's four cores over its five seconds."""
    return {
        "client_cpu_percent": float(statistics.median(100 * r.host["client_cpu_s"] / 20 for r in group)),
        "server_cpu_percent": float(statistics.median(100 * r.host["server_cpu_s"] / 20 for r in group)),
    }


# Latency


LEVELS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


def nearest(values, level):
    return sorted(values)[math.ceil(round(level * len(values), 6)) - 1]


def bounded(ended, least, level):
    """(quantile, whether it is a lower bound): the operations of `least` are longer than all that ended."""
    rank = math.ceil(round(level * (len(ended) + len(least)), 6))
    return (sorted(ended)[rank - 1], False) if rank <= len(ended) else (sorted(ended + least)[rank - 1], True)


def spread_in_buckets(uppers):
    """Of a histogram: values evenly spaced in their logarithm in their bucket; uppers: each value's bucket."""
    counts, out, last = Counter(uppers), [], 0.0
    for upper in sorted(counts):
        low = max(upper / 1.02, last)
        out += [low * (upper / low) ** ((i + 0.5) / counts[upper]) for i in range(counts[upper])]
        last = upper
    return out


def latency_of(run):
    """Column -> value in ms of one run, from its drawn operations."""
    single, binned = [], any("latency_hist" in op for op in run.every)
    out, of = {"binned": binned}, {"ended": [], "failed": [], "Hung": []}
    ttfb = []
    for op in run.every:
        kind = {None: "ended", "Hung": "Hung"}.get(op["error"], "failed")
        if "latency_hist" in op:
            if run.begin < op["end_ns"] and (op["end_ns"] <= run.first_end or kind == "Hung"):
                of[kind] += [b["upper_ns"] for b in op["latency_hist"] for _ in range(b["count"])]
            continue
        begun = op.get("intended_ns") or op["start_ns"]
        if begun <= run.first_end and (begun > run.begin or kind == "Hung"):
            took = op["end_ns"] - begun
            of[kind].append(round(1.02 ** math.ceil(math.log(took) / math.log(1.02))) if binned else took)
            single.append((op["client"], begun, op["end_ns"], kind))
            if kind == "ended" and op.get("first_byte_ns"):
                ttfb.append(op["first_byte_ns"] - begun)
    missed = []
    for engine in run.engines:
        waited = [i * run.n * S / run.point.axes["arrival_rate"] for i in range(engine.get("not_begun") or 0)]
        missed += [w for w in waited if w < run.duration - run.warm_up]
    out |= {
        "operations": len(of["ended"]),
        "failed": len(of["failed"]),
        "hung": len(of["Hung"]),
        "not_begun": len(missed),
    }
    least = [u / 1.02 for u in of["Hung"]] if binned else of["Hung"]
    least, values = least + missed, of["ended"]
    every, names = len(values) + len(least), []
    plain = spread_in_buckets(values) if binned and not least else values
    for name, level in LEVELS.items():
        value, bound = bounded(plain, least, level)
        told = every >= round(1 / (1 - level))
        out[f"latency_{name}"] = value / MS if told else None
        names += [f"latency_{name}"] if told and bound else []
    out["latency_max"] = max(values + least) / MS
    out["bounds"] = {*names, "latency_max"} if least else set()
    for name in ("p50", "p99"):
        value, bound = bounded(ttfb, least, LEVELS[name]) if ttfb else (None, True)
        known = not binned and len(ttfb) >= round(1 / (1 - LEVELS[name])) and not bound
        out[f"ttfb_{name}"] = value / MS if known else None
    watched = all("pauses" in e for e in run.engines) and not binned and every >= 100
    out["paused"] = paused(run, single, int(bounded(plain, least, 0.99)[0])) if watched else None
    return out


def paused(run, single, longer):
    """Percent of the operations of the tail that were in flight while their own client did not run."""
    tail = [(c, b, e) for c, b, e, kind in single if kind == "ended" and e - b > longer]
    stood = {c: engine["pauses"]["longest"] for c, engine in enumerate(run.engines)}
    met = [any(b < at + ns and e > at for at, ns in stood[c]) for c, b, e in tail]
    return 100 * sum(met) / len(met) if met else 0.0


@pytest.mark.parametrize("sweep", ["single", "due", "binned"])
def test_every_cell_of_latency(built, sweep):
    tables, runs = built
    seen = Counter()
    for group in grouped(runs, sweep):
        of_runs = [latency_of(r) for r in group]
        first = group[0].point
        row = row_of(tables["latency"], group[0], op=first.workload.upper())
        expected = {c: sum(o[c] for o in of_runs) for c in ("operations", "failed", "hung", "not_begun")}
        bounds = set().union(*(o["bounds"] for o in of_runs))
        order = [*(f"latency_{n}" for n in LEVELS), "latency_max"]
        expected |= {"n": len(group), "interval": "range", "coverage_percent": float(100 * (1 - 2 / 2 ** len(group)))}
        expected |= {"loop": "open" if sweep == "due" else "closed", "binned": any(o["binned"] for o in of_runs)}
        expected["lower_bounds"] = ", ".join(m for m in order if m in bounds) or None
        waits = [o["paused"] for o in of_runs if o["paused"] is not None]
        expected |= {"paused_percent": max(waits) if waits else None, "shared_host": False, "duration_s": 4.0} | cpu(
            group
        )
        expected["concurrency"] = first.axes["clients"] * first.axes["workers"]
        expected |= dict.fromkeys(("access_proven", "disk_reads_percent", "first_over_again"))  # nobody asked for cold
        done = [100 * (o["operations"] + o["failed"]) / (r.length * 150) for o, r in zip(of_runs, group, strict=True)]
        expected["completed_percent"] = min(*done, 100.0) if sweep == "due" else None
        for metric in (*order, "ttfb_p50", "ttfb_p99"):
            values = [o[metric] for o in of_runs]
            three = median_low_high(values) if None not in values else (math.nan,) * 3
            expected |= {f"{metric}_{part}_ms": v for part, v in zip(("median", "low", "high"), three, strict=True)}
        for column, value in expected.items():
            same(row[column], value, (first.key, column))
        assert set(expected) | set(tables["by"]) == set(tables["latency"].columns) - {"op"}
        seen.update(k for k in ("hung", "not_begun", "failed") if expected[k])
        seen.update({"paused"} if waits and max(waits) else set())
    assert seen["failed"] and seen["hung"] and bool(seen["not_begun"]) == (sweep == "due")
    assert bool(seen["paused"]) == (sweep != "binned"), "the drawn runs have something of each"


def test_latencies_of_points(built):
    """points.csv: the median and p99 of the run's only kind of operation; how long it was to last."""
    tables, runs = built
    table = tables["points"].set_index("key")
    for key, run in runs.items():
        same(table.loc[key, "duration_s"], run.duration / S, key)
        same(table.loc[key, "warm_up_s"], run.warm_up / S, key)
        if run.point.sweep in ("single", "due", "binned"):
            one = latency_of(run)
            for name in ("latency_p50", "latency_p99", "ttfb_p50"):
                same(table.loc[key, f"{name}_ms"], one[name], (key, name))
            names = [m for m in (*(f"latency_{n}" for n in LEVELS), "latency_max") if m in one["bounds"]]
            same(table.loc[key, "latency_lower_bounds"], ", ".join(names) or None, key)


def test_pauses_and_operations_that_never_began_of_points(built):
    """The client that stood still most; sums where every client tells, else nothing."""
    tables, runs = built
    table = tables["points"].set_index("key")
    for key, run in runs.items():
        watched = [330.0 + c for c, engine in enumerate(run.engines) if "pauses" in engine]
        same(table.loc[key, "pauses_ms"], max(watched) if watched else None, key)
        same(table.loc[key, "pause_longest_ms"], max(watched) - 30 if watched else None, key)
        waiting = [engine.get("not_begun") for engine in run.engines]
        same(table.loc[key, "not_begun"], None if None in waiting else sum(waiting), key)
        assert pd.isna(table.loc[key, "hung"]), "no client counts them itself"


# Errors


def test_every_cell_of_errors(built):
    tables, runs = built
    table, found = tables["errors"], {}
    for row in table.to_dict("records"):
        found[row["key"], row["status"], row["error"]] = row
    assert len(found) == len(table)
    expected, fractions = {}, []
    for key, run in runs.items():
        every, bad = sum(op["count"] for op in run.every), [op for op in run.every if op["error"]]
        whole = sum(op["count"] for op in bad)
        for what in {(op["status"] or 0, op["error"]) for op in bad}:
            mine = [op for op in bad if (op["status"] or 0, op["error"]) == what]
            ends = [(op["end_ns"] - run.start) / S for op in mine]
            took = [op["end_ns"] - (op.get("intended_ns") or op["start_ns"]) for op in mine if op["start_ns"]]
            count = sum(op["count"] for op in mine)
            expected[(key, *what)] = {
                **{"state": run.state, "rep": run.point.rep, "op": run.point.workload.upper(), "operations": count},
                **{"fraction": count / every, "run_fraction": whole / every, "first_s": min(ends), "last_s": max(ends)},
                **{"latency_p50_ms": nearest(took, 0.5) / MS if took else None, "store": "alpha"},
            }
    assert set(found) == set(expected) and len(expected) > 40
    for place, cells in expected.items():
        for column, value in cells.items():
            same(found[place][column], value, (place, column))
    fractions = [
        (-e["run_fraction"], key, -e["operations"], status, error) for (key, status, error), e in expected.items()
    ]
    assert list(found) == [(key, status, error) for _, key, _, status, error in sorted(fractions)], "the worst first"


def test_every_cell_of_errors_over_time(built):
    tables, runs = built
    table, expected = tables["errors_over_time"], Counter()
    for key, run in runs.items():
        if not any(op["error"] for op in run.every):
            continue
        for op in run.every:
            passed = op["end_ns"] - run.start
            if passed <= 0:
                continue
            told = {503: "503 SlowDown", 404: "404 NoSuchKey"}.get(op["status"], op["error"]) if op["error"] else "good"
            second = next(s for s in range(20) if s * S < passed <= (s + 1) * S)
            expected[key, second, told] += op["count"]
    found = {(r["key"], r["second"], r["class"]): r for r in table.to_dict("records")}
    assert set(found) == set(expected) and len(found) == len(table)
    for (key, _, _), row in found.items():
        count = expected[row["key"], row["second"], row["class"]]
        told = (row["operations"], row["state"], row["workload"], row["failure_budget"], row["shared_host"])
        assert told == (count, runs[key].state, runs[key].point.workload, 0.01, False)


# Reads


def mean(values):
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def freed(run):
    """Its reads without what opening took: rows with requests, asked, wire, and with `opening` where they opened."""
    out = []
    for r in (r for reads in run.reads for r in reads):
        told = run.engines[r["client"]].get("opening") or dict.fromkeys(("requests", "asked_bytes", "wire_bytes"))
        took = told if r["open_ns"] else dict.fromkeys(told, 0)
        own = {
            k: None if None in (r[k], took[k]) else r[k] - took[k] for k in ("requests", "asked_bytes", "wire_bytes")
        }
        out.append(r | own | {"opening": took if r["open_ns"] else None})
    return out


def openings(rows):
    """(requests, MB, seconds) of one opening: over the wire, or what was asked for where the wire does not tell."""
    opened = [r for r in rows if r["opening"]]
    moved = [r["opening"]["wire_bytes"] or r["opening"]["asked_bytes"] for r in opened]
    requests = mean([r["opening"]["requests"] for r in opened])
    return requests, None if mean(moved) is None else mean(moved) / 1e6, mean([r["open_ns"] for r in opened]) / S


def sparse_of(run):
    """Column -> value of one run; the share's amplification needs the other runs."""
    rows = freed(run)
    good = [r for r in rows if run.begin < r["end_ns"] <= run.first_end]
    wired = [r for r in rows if r["wire_bytes"] is not None]
    out = {f"{n}_mb_per_read": mean([r[f"{n}_bytes"] for r in rows]) / 1e6 for n in ("needed", "asked", "wire")}
    out |= {"requests_per_read": mean([r["requests"] for r in rows])}
    out |= {f"{n}_per_read": mean([r[n] for r in rows]) for n in ("entries", "branches", "baskets")}
    out["amplification_ratio"] = sum(r["wire_bytes"] for r in wired) / sum(r["needed_bytes"] for r in wired)
    out |= {"reads_per_s": len(good) / run.length, "entries_per_s": sum(r["entries"] for r in good) / run.length}
    out["needed_mb_per_s"] = sum(r["needed_bytes"] for r in good) / 1e6 / run.length
    out["wire_mb_per_s"] = sum(r["wire_bytes"] or 0 for r in good) / 1e6 / run.length
    out |= {f"{p}_s_per_read": mean([r[f"{p}_ns"] for r in rows]) / S for p in PHASES}
    return out | dict(zip(("opening_requests", "opening_mb", "opening_s"), openings(rows), strict=True))


@pytest.mark.parametrize("sweep", ["entries", "volume"])
def test_every_cell_of_sparse(built, sweep):
    """share_amplification: over the volume of the runs that read all entries, whatever their clients, times the share."""
    tables, runs = built
    table = tables["sparse"]
    whole = [
        sparse_of(r) for r in runs.values() if r.point.sweep == sweep and r.point.axes.get("entry_fraction", 100) == 100
    ]
    volume, entries = (statistics.median(w[c] for w in whole) for c in ("needed_mb_per_read", "entries_per_read"))
    groups = grouped(runs, sweep)
    for group in groups:
        of_runs = [sparse_of(r) for r in group]
        for one in of_runs:
            one["share_amplification_ratio"] = one["wire_mb_per_read"] / (volume * one["entries_per_read"] / entries)
        row = row_of(table, group[0])
        expected = {
            c: float(statistics.median(o[f"{c}_per_read"] for o in of_runs)) for c in ("entries", "branches", "baskets")
        }
        expected |= {
            "n": 3,
            "interval": "range",
            "coverage_percent": 75.0,
            "reads": 30 * 3 * group[0].n,
            "shared_host": False,
        }
        expected |= cpu(group)
        for column in of_runs[0]:
            if column in ("entries_per_read", "branches_per_read", "baskets_per_read"):
                continue
            name = next(n for n in ("share_amplification", *(column.split("_")[:1])) if column.startswith(f"{n}_"))
            three = median_low_high([o[column] for o in of_runs])
            for part, value in zip(("median", "low", "high"), three, strict=True):
                expected[f"{name}_{part}_{column.removeprefix(f'{name}_')}"] = value
        assert set(expected) | set(tables["by"]) == set(table.columns)
        for column, value in expected.items():
            same(row[column], value, (group[0].point.key, column))
    assert len(groups) == {"entries": 4, "volume": 1}[sweep]


def events_of(run):
    rows = freed(run)
    good = [r for r in rows if run.begin < r["end_ns"] <= run.first_end]
    done = [r for r in rows if r["end_ns"] <= run.first_end]
    known = all(r["wire_bytes"] is not None for r in rows)
    sums = {
        n: sum(r[c] or 0 for r in good)
        for n, c in (("needed", "needed_bytes"), ("asked", "asked_bytes"), ("wire", "wire_bytes"))
    }
    events = sum(r["entries"] for r in good)
    sums["wire"] = sums["wire"] if known else math.nan
    out = {f"{n}_mb_per_s": sums[n] / 1e6 / run.length for n in sums} | {"events_per_s": events / run.length}
    out |= {f"{n}_bytes_per_event": sums[n] / events for n in ("wire", "needed")}
    out |= {
        "requests_per_event": sum(r["requests"] or 0 for r in good) / events,
        "amplification_ratio": sums["wire"] / sums["needed"],
    }
    moved = (
        sum(r["wire_bytes"] + (r["opening"] or {"wire_bytes": 0})["wire_bytes"] for r in done) / 1e6
        if known
        else math.nan
    )
    out |= {"processed_events": sum(r["entries"] for r in done), "moved_mb": moved}
    return out | dict(zip(("opening_requests", "opening_mb", "opening_s"), openings(rows), strict=True))


def test_every_cell_of_events(built):
    tables, runs = built
    table = tables["events"]
    groups = grouped(runs, "jobs")
    for group in groups:
        of_runs = [events_of(r) for r in group]
        row = row_of(table, group[0])
        expected = {"n": len(group), "interval": "range", "coverage_percent": float(100 * (1 - 2 / 2 ** len(group)))}
        expected |= {"nodes": group[0].n, "shared_host": False, "duration_s": 4.0} | cpu(group)
        for column in of_runs[0]:
            name, _, unit = column.partition("_")
            for part, value in zip(
                ("median", "low", "high"), median_low_high([o[column] for o in of_runs]), strict=True
            ):
                expected[f"{name}_{part}_{unit}"] = value
        assert set(expected) | set(tables["by"]) == set(table.columns)
        for column, value in expected.items():
            same(row[column], value, (group[0].point.key, column))
    assert len(groups) == len(table) == 4 and {len(g) for g in groups} == {2, 3}


# Calibration


def rate_of(run):
    return sum(run.begin < op["end_ns"] <= run.first_end for op in run.every) / run.length


def busy(run):
    """Of the workers' time what clients and server took, or the part of the host's cores: what is more."""
    axes = run.point.axes
    workers = axes["clients"] * axes["workers"]
    took = run.host["client_cpu_s"] / 5 + run.host["server_cpu_s"] / 5
    return 100 * max(took / workers, run.host["cpu_busy_s"] / 5 / 4)


def test_every_cell_of_calibration(built):
    tables, runs = built
    table, kinds = tables["calibration"], defaultdict(dict)
    agree = ("operation", "engine", "object_size", "range_size", "batch", "clients", "workers", "part_size")
    agree += ("parallel_parts", "clients_per_node", "payload")
    for run in runs.values():
        if run.point.workload == "calibrate":
            axes = run.point.axes
            kinds[axes["target"], *(axes[a] for a in agree)][axes["phase"]] = run
    assert len(table) == len(kinds) and len(kinds) > 4
    seen = Counter()
    for kind, phases in kinds.items():
        rates = {phase: rate_of(run) for phase, run in phases.items()}
        best = phases[max(rates, key=rates.get)]
        columns = dict(zip(("target", *agree), kind, strict=True))
        rows = table
        for name, value in columns.items():
            column = {
                "object_size": "object_size_bytes",
                "range_size": "range_size_bytes",
                "part_size": "part_size_bytes",
            }.get(name, name)
            rows = rows[rows[column].astype(object) == value] if column in rows else rows
        assert len(rows) == 1, kind
        count = sum(op["count"] for op in best.every)
        expected = {
            **{"before_rate_per_s": rates["before"], "after_rate_per_s": rates.get("after")},
            **{"rate_per_s": max(rates.values()), "throughput_mb_per_s": max(rates.values()) * 1000 / 1e6},
            "drift_percent": 100 * (rates["after"] / rates["before"] - 1) if "after" in rates else None,
            **{"runs": len(phases), "client_cpu_ms_per_operation": 1000 * sum(0.75 + c for c in range(best.n)) / count},
            **{"over_link": best.over_link(), "busy_percent": busy(best), "duration_s": best.duration / S},
            **{"scheme": best.point.axes["scheme"] if best.point.axes["scheme"] == "https" else "http"} | cpu([best]),
        }
        for column, value in expected.items():
            same(rows.iloc[0][column], value, (kind, column))
        seen.update([("link", best.over_link()), ("idle", busy(best) < 50)])
    assert len(seen) == 4, "over a link and not, busy and idle"


def test_the_ceilings_of_points(built):
    """The larger rate of before and after, of the same operation, engine, size, clients; of a link, or the clients."""
    tables, runs = built
    table = tables["points"].set_index("key")
    ceilings = defaultdict(list)
    same_axes = ("engine", "object_size", "clients", "workers")
    for run in runs.values():
        if run.point.workload == "calibrate" and run.point.axes["target"] == "network":
            ceilings[run.point.axes["operation"], *(run.point.axes[a] for a in same_axes)].append(run)
    told = Counter()
    for key, run in runs.items():
        if run.point.sweep not in ("single", "due", "binned"):
            same(table.loc[key, "ceiling_rate_per_s"], None, key)
            same(table.loc[key, "bound_by"], None, key)
            continue
        known = ceilings[run.point.workload, *(run.point.axes[a] for a in same_axes)]
        best = max(known, key=rate_of)
        rate = table.loc[key, "overlap_rate_per_s"]
        percent = 100 * rate / rate_of(best)
        of = "link" if best.over_link() and busy(best) < 50 else "client"
        expected = {"ceiling_rate_per_s": rate_of(best), "ceiling_percent": float(percent), "ceiling_of": of}
        expected["bound_by"] = of if percent > 80 else None
        told.update([of])
        for column, value in expected.items():
            same(table.loc[key, column], value, (key, column))
    assert sum(told.values()) == 5 * 3 and set(told) <= {"link", "client"}

"""A synthetic campaign of points with roles. All rates, pauses and counts are known."""

from dataclasses import asdict

import made_records

from storelab.core import records

S, MS = 10**9, 10**6
BIN = 100 * MS
T0 = 1_790_000_000 * S
PUT = {"workload": "put", "axes": {"engine": "obstore", "object_size": "1 MB", "clients": 2, "workers": 2}}
GET = {"workload": "get", "axes": {"engine": "loadgen", "object_size": "4 kB", "clients": 1, "workers": 4}}
DELETE = {"workload": "delete", "axes": {"engine": "obstore", "clients": 1, "workers": 8}}
DELETE |= {"begin": "3 s", "end": "6 s", "objects": 1000}
FAULTS = {"roles": {"uploads": PUT, "downloads": GET}}
TENANTS = {
    "victim": {"workload": "get", "axes": {"engine": "obstore", "clients": 1, "arrival_rate": 100}},
    "aggressor": {"workload": "get", "axes": {"engine": "loadgen", "arrival_rate": [100, 200, 400]}},
}
VICTIM = {"x": "aggressor.arrival_rate", "y": "p99", "caption": "What the aggressor does to the victim"}
CONFIG = {
    **{"campaign": "several", "name": "several", "stores_to_measure": ["alpha"], "repetitions": 3, "calibrate": False},
    "stores": {"alpha": {"kind": "s3", "endpoint": "https://s3.example.org"}},
    "faults": {
        "killed": [
            {"at": "4 s", "act": "kill", "actor": "data.0"},
            {"at": "6 s", "act": "restart", "actor": "data.0"},
        ]
    },
    "sweeps": {
        "faults": FAULTS | {"axes": {"fault": ["none", "killed"]}, "duration": "10 s", "warm_up": "1 s"},
        "beside": {"duration": "9 s", "warm_up": "1 s", "roles": {"uploads": PUT, "deletions": DELETE}},
        "tenants": {"duration": "4 s", "warm_up": "1 s", "roles": TENANTS},
    },
    "figures": {"victim": VICTIM | {"table": "roles", "where": {"role": "victim"}}},
}
OPS = {"put": "PUT", "get": "GET", "delete": "DELETE"}
# Times of a killed actor in repetition `rep`, in ms after the start.
KILLED, RESTARTED, BACK, REBUILDS = 4020, 6000, 6300, 6400


def noticed(rep):
    return 4500 + 100 * rep


def whole(rep):
    return 7500 + 100 * rep


def served(rep):
    """Return the time in ms at which downloads continue."""
    return 5020 + 100 * rep


def rates(sweep, role, axes, rep):
    """Return the rates of a role: begin and end in ms, operations per second, latency in ms, status of failures."""
    if sweep == "faults" and axes["fault"] == "none":
        return [(0, 10000, 100 if role == "uploads" else 200, 20, None)]
    if sweep == "faults" and role == "uploads":
        low = 50 - 10 * rep
        failing = [(KILLED, noticed(rep), 20, 5, 503), (KILLED, 4200, 10, 5, 0)]
        healing = [(BACK, whole(rep), 80, 30, None), (whole(rep), 10000, 100, 20, None)]
        return [(0, KILLED, 100, 20, None), (KILLED, BACK, low, 60, None), *failing, *healing]
    if sweep == "faults":
        return [(0, 4000, 200, 10, None), (served(rep) // 100 * 100, 10000, 200, 10, None)]
    if sweep == "beside" and role == "uploads":
        return [(0, 3000, 100, 20, None), (3000, 6000, 100 - 10 * rep, 25, None), (6000, 9000, 100, 20, None)]
    if sweep == "beside":
        return [(3000, 6000, 300, 25, None)]
    load = axes["aggressor.arrival_rate"]
    if role == "victim":
        return [(0, 4000, 99, 5, None), (0, 4000, 6, load / 10 + rep, None)]
    return [(0, 4000, load, 8, None)]


def single(start, spans, size, op, clients):
    """Return the single operations of each client, evenly spaced in each span."""
    out = {client: [] for client in clients}
    number = 0
    for begin, end, rate, latency, status in spans:
        count = (end - begin) * rate // 1000
        for i in range(count):
            at = start + begin * MS + (2 * i + 1) * (end - begin) * MS // (2 * count)
            client = clients[number % len(clients)]
            number += 1
            good = status is None
            row = {"client": client, "worker": 0, "op": op, "count": 1, "bytes": size if good else 0, "end_ns": at}
            row |= {"start_ns": at - round(latency * MS), "status": 200 if good else status}
            row |= {"object": f"o{number:05d}" if good else None, "error": None if good else "Refused"}
            out[client].append(row)
    return {client: sorted(rows, key=lambda row: row["end_ns"]) for client, rows in out.items()}


def bins(start, spans, size, op, client):
    """Return the same operations in bins of 100 ms, with the same edges as the steps."""
    rows = []
    for begin, end, rate, latency, _ in spans:
        for at in range(begin + 100, end + 1, 100):
            count = rate // 10
            row = {"client": client, "op": op, "count": count, "bytes": count * size, "end_ns": start + at * MS}
            rows.append(row | {"status": 200, "latency_hist": [{"upper_ns": latency * MS, "count": count}]})
    return {client: rows}


def events(point, start):
    """Return the events of run.json: acts, and reported states of the store."""
    if point.axes["fault"] == "none":
        return []

    def act(what, due, begin, done):
        content = {"kind": "act", "fault": "killed", "act": what, "actor": "data.0", "due_ns": start + due * MS}
        return content | {"time_ns": start + begin * MS, "done_ns": start + done * MS, "error": None, "detail": ""}

    def state(at, name):
        return {"kind": "state", "time_ns": start + at * MS, "state": name, "detail": f"it says {name}"}

    rep = point.rep
    found = [state(0, "clean"), act("kill", 4000, KILLED, 4050), state(noticed(rep), "degraded")]
    found += [act("restart", 6000, RESTARTED, BACK), state(REBUILDS, "recovering"), state(whole(rep), "clean")]
    return found


def durability(point, start):
    if point.axes["fault"] == "none":
        return None
    clean = {"lost": 0, "corrupted": 0, "stale": 0, "resurrected": 0, "unreadable": 0, "examples": []}
    down = {"when": "down", "time_ns": start + 5 * S, "states": 30_000, "read": 200} | clean | {"unreadable": 7}
    example = {"key": "uploads/o00017", "what": "stale"}
    end = {"when": "recovered", "time_ns": start + 12 * S, "states": 40_000, "read": 40_000} | clean
    end |= {"stale": 1, "examples": [example]} if point.rep == 2 else {}
    acknowledged = {"put": 39_000, "overwrite": 600, "delete": 400}
    return {"acknowledged": acknowledged, "unacknowledged": 3, "readings": [down, end]}


def record(point, folder, change=None):
    """Write the record of a point. change: function that can change run.json before it is written."""
    start = T0 + point.order * 60 * S
    deadline = start + point.fixed["duration_ns"]
    clients, found, place = [], [], folder / "raw" / point.key
    for part in point.parts():
        axes, ranks = part.point.axes, list(part.ranks)
        spans = rates(point.sweep, part.name, point.axes, point.rep)
        size = axes["object_size"] if part.point.workload != "delete" else 0
        make = bins if axes["engine"] == "loadgen" else single
        rows = make(start, spans, size, OPS[part.point.workload], ranks[0] if make is bins else ranks)
        for client, own in rows.items():
            columns = {c: [row.get(c) for row in own] for c in records.OPS}
            good = sum(row["count"] for row in own if row.get("error") is None)
            records.write_table(place / f"ops.{client}.parquet", records.OPS, columns)
            clients.append(
                {"client": client, "role": part.name, "host": "node-0", "start_ns": start + part.begin_ns}
                | {"end_ns": start + part.end_ns, "lateness_ns": 0, "endpoint": "https://s3.example.org"}
                | {
                    "cpu_user_s": 0.5,
                    "cpu_system_s": 0.25,
                    "connections_max": 8,
                    "operations": good,
                }
            )
        engine = {"name": axes["engine"], "version": "1.0", "settings": {}, "requests_per_operation": {}}
        found.append(
            {"name": part.name, "workload": part.point.workload, "axes": axes, "clients": ranks, "engine": engine}
            | {"begin_ns": start + part.begin_ns, "end_ns": start + part.end_ns}
        )
    run = {
        **{"schema": records.SCHEMA, "campaign": "several", "point": asdict(point), "attempt": "1", "valid": True},
        **{"start_ns": start, "deadline_ns": deadline, "clients": clients, "roles": found},
        **{"events": events(point, start)},
        **{"host": {"cpu_busy_s": 9.0, "cores": 4, "seconds": 10.0, "server_cpu_s": 2.0}, "checks": []},
        **{"engine": {}, "store": {"name": "alpha", "kind": "s3"}},
    }  # fmt: skip
    if kept := durability(point, start):
        run["durability"] = kept
    if change:
        change(run)
    records.finish(place, run)


def write(folder, change=None, **more):
    """Write the whole campaign, and return its points. more: keys of the configuration."""
    return made_records.write(folder, CONFIG | more, lambda point: record(point, folder, change))

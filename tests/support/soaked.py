"""A synthetic campaign measured in parts. All rates, memory sizes and numbers of files are known.

The sweep `soak` has 12 parts of two roles in bins of 1 s. The role `readers` is constant. From part to part, the rate
of `writers` falls by 2/s, and the store grows by 10 MB and one open file. From the second to the last quarter of each
part, a writer grows by 20 MB and one file. Part 5 is invalid. The warm-up ends inside a bin. The sweep `short` has 3
parts of one workload, which are too few for a conclusion. `write` writes the campaign into a folder.
"""

from dataclasses import asdict

import made_records

from storelab.core import records

S, MS, MB = 10**9, 10**6, 10**6
T0 = 1_790_000_000 * S
APART = 600 * S  # time between the starts of two parts
PARTS, INVALID = 12, 5
TIMES = {"duration": "40 s", "warm_up": "4300 ms", "bins": "1 s"}
ROLES = {
    "readers": {"workload": "get", "axes": {"engine": "loadgen", "object_size": "4 kB", "clients": 2}},
    "writers": {"workload": "put", "axes": {"engine": "obstore", "object_size": "1 MB", "clients": 1}},
}
CONFIG = {
    **{"campaign": "soak", "name": "soak", "stores_to_measure": ["alpha"], "repetitions": 1, "calibrate": False},
    "stores": {"alpha": {"kind": "s3", "endpoint": "https://s3.example.org"}},
    "sweeps": {
        "soak": TIMES | {"parts": PARTS, "roles": ROLES},
        "short": TIMES | {"parts": 3, "workload": "get", "axes": {"engine": "loadgen"}},
    },
}


def rate(role, part):
    """Return the operations per second of all clients of a role. All bins have the same number."""
    return {"readers": 200, "writers": 100 - 2 * part, "": 300}[role]


def latency_ms(role, part):
    return {"readers": 5, "writers": 20 + part, "": 4}[role]


def rss_mb(what, role, part, quarter):
    """Return the memory in MB of a client or of the store."""
    if what == "server":
        return 500 + 10 * part
    return 100 + 10 * quarter if role == "writers" else 80


def files(what, role, part, quarter):
    if what == "server":
        return 50 + part
    return 20 + quarter // 2 if role == "writers" else 12


def ops(start, seconds, count, size, op, client, latency):
    rows = []
    for second in range(1, seconds + 1):
        hist = [{"upper_ns": latency * MS, "count": count}]
        row = {"client": client, "op": op, "count": count, "bytes": count * size, "end_ns": start + second * S}
        rows.append(row | {"status": 200, "latency_hist": hist})
    return rows


def monitor(point, start, lasts, roles):
    """Return the samples of the monitor at 40 equal steps of the run. Every fifth sample has open files."""
    rows, part = [], point.axes["part"]
    for k in range(41):
        quarter = min(3, k // 10)
        now = {"host": "node-0", "time_ns": start + k * lasts // 40, "cpu_user_s": 0.1 * k, "cpu_system_s": 0.1 * k}
        rows.append(now | {"what": "host", "name": "", "rss_bytes": 2 * 10**9})
        trees = [("server", name, "") for name in ("master", "volume")]
        trees += [("client", str(rank), role) for role, ranks in roles.items() for rank in ranks]
        for what, name, role in trees:
            share = 2 if what == "server" else 1
            seen = {"rss_bytes": rss_mb(what, role, part, quarter) * MB // share}
            if k % 5 == 0:
                own = files(what, role, part, quarter)
                seen["files"] = own - 10 if name == "master" else 10 if name == "volume" else own
            rows.append(now | seen | {"what": what, "name": name})
    return {c: [row.get(c) for row in rows] for c in records.MONITOR}


def record(point, folder):
    part, lasts = point.axes["part"], point.fixed["duration_ns"]
    start = T0 + (part - 1) * APART + (0 if "roles" in point.fixed else 10**6 * S)
    clients, found, place, having = [], [], folder / "raw" / point.key, {}
    for role in point.parts():
        axes, ranks = role.point.axes, [*role.ranks]
        having[role.name] = ranks
        op = {"put": "PUT", "get": "GET"}[role.point.workload]
        for rank in ranks:
            count = rate(role.name, part) // len(ranks)
            rows = ops(start, lasts // S, count, axes["object_size"], op, rank, latency_ms(role.name, part))
            columns = {c: [row.get(c) for row in rows] for c in records.OPS}
            records.write_table(place / f"ops.{rank}.parquet", records.OPS, columns)
            clients.append(
                {"client": rank, "host": "node-0", "start_ns": start, "end_ns": start + lasts, "lateness_ns": 0}
                | {"endpoint": "https://s3.example.org", "cpu_user_s": 4.0, "cpu_system_s": 4.0, "connections_max": 8}
                | ({"role": role.name} if role.name else {})
            )
        engine = {"name": axes["engine"], "version": "1.0", "settings": {}, "requests_per_operation": {}}
        found.append(
            {"name": role.name, "workload": role.point.workload, "axes": axes, "clients": ranks, "engine": engine}
            | {"begin_ns": start, "end_ns": start + lasts}
        )
    records.write_table(place / "monitor.0.parquet", records.MONITOR, monitor(point, start, lasts, having))
    valid = part != INVALID
    run = {
        **{"schema": records.SCHEMA, "campaign": "soak", "point": asdict(point), "attempt": "1", "valid": valid},
        **({} if valid else {"budget": {"reason": "2 % of the operations failed"}}),
        **{"start_ns": start, "deadline_ns": start + lasts, "clients": clients, "events": [], "checks": []},
        **({"roles": found} if "roles" in point.fixed else {}),
        **{"host": {"cpu_busy_s": 9.0, "cores": 4, "seconds": 40.0, "server_cpu_s": 2.0}, "engine": found[0]["engine"]},
        **{"store": {"name": "alpha", "kind": "s3"}},
    }  # fmt: skip
    records.finish(place, run)


def write(folder, **more):
    """Write the whole campaign, and return its points. more: keys of the configuration."""
    return made_records.write(folder, CONFIG | more, lambda point: record(point, folder))

"""Records of runs with roles that take 20 s from `T0` on: acts, reported states, and random operations."""

import random
from fractions import Fraction

from storelab.analysis.records import roles
from storelab.analysis.records.campaign import Campaign
from storelab.core import records

S, MS = 10**9, 10**6
T0 = 1_790_000_000 * S
BIN, WIDE = 100 * MS, 700 * MS  # default width of bins, and width in a sweep with `bins`
UPLOADS = {"name": "uploads", "workload": "put", "clients": [0, 1], "begin_ns": T0, "end_ns": T0 + 20 * S}
RECORD = {"schema": 3, "files": {}}


def ns(second):
    return T0 + round(second * S)


def act(second, what, done=None, actor="osd.0", kind="act"):
    times = {"due_ns": ns(second), "time_ns": ns(second), "done_ns": ns(second if done is None else done)}
    return {"kind": kind, "fault": "f", "act": what, "actor": actor} | times


def state(second, name):
    return {"kind": "state", "time_ns": ns(second), "state": name, "detail": ""}


KILL, RESTART = act(5, "kill"), act(9, "restart", 9.5)


def run_of(*events, roles=(UPLOADS,), clients=None):
    clients = clients or [{"client": rank, "end_ns": r["end_ns"]} for r in roles for rank in r["clients"]]
    run = {"start_ns": T0, "deadline_ns": T0 + 20 * S, "roles": list(roles), "clients": clients, "events": list(events)}
    return run | {"point": {"fixed": {"warm_up_ns": S}}} | RECORD


def deletions(begin, end, *events, stopped=None):
    """Return a run in which a second role deletes from `begin` to `end`."""
    role = {"name": "deletions", "workload": "delete", "clients": [2], "begin_ns": ns(begin), "end_ns": ns(end)}
    clients = [{"client": rank, "end_ns": T0 + 20 * S} for rank in (0, 1)]
    return run_of(*events, roles=(UPLOADS, role), clients=[*clients, {"client": 2, "end_ns": ns(stopped or end)}])


def seconds(run, last=None):
    """Return (name, begin, end) of each phase in seconds. last: client -> second of its last operation."""
    ends = {client: ns(at) for client, at in (last or {}).items()}
    return [(p.name, (p.begin_ns - T0) / S, (p.end_ns - T0) / S) for p in roles.phases(run, ends)]


def upload(end, took=5, **more):
    """Return an upload that ended at `end` and took `took` ms."""
    row = {"client": 0, "op": "PUT", "count": 1, "bytes": 10, "status": 200, "error": None, "latency_hist": None}
    return row | {"end_ns": ns(end), "start_ns": ns(end) - took * MS} | more


def drawn(seed, binned, width=BIN):
    """Return (operations, run). Some operations are at edges of phases and steps, in bins across edges, or failed."""
    rng, rows = random.Random(seed), []
    edges = [ns(at) for at in (0, 1, 5, 9.5, 20)]
    at = [e + d for e in edges for d in (-1, 0, 1)] + [rng.randrange(T0 - S, T0 + 21 * S) for _ in range(600)]
    for end in at:
        in_bin, failed = binned and rng.random() < 0.6, rng.random() < 0.2
        end = max(end, T0 + width) if in_bin else end
        count, took = rng.randrange(1, 30) if in_bin else 1, rng.randrange(1, 50) * MS
        row = {"client": rng.randrange(3), "op": "PUT", "count": count, "bytes": 0 if failed else 1000 * count}
        row |= {"end_ns": end, "start_ns": None if in_bin else end - took, "error": "Refused" if failed else None}
        row["latency_hist"] = [{"upper_ns": took, "count": count}] if in_bin else None
        rows.append(row | {"status": rng.choice([500, 503]) if failed else 200})
    run = deletions(5, 10, KILL, RESTART)
    run["point"]["fixed"] |= {} if width == BIN else {"bin_ns": width}
    return rows, run


def campaign_of(folder, rows, run):
    """Write a campaign of one point with these operations, and return it."""
    for client in range(3):
        columns = {c: [r.get(c) for r in rows if r["client"] == client] for c in records.OPS}
        records.write_table(folder / "raw" / "k" / f"ops.{client}.parquet", records.OPS, columns)
        run = run | {"files": run["files"] | {f"ops.{client}.parquet": {}}}
    having = {"uploads": {}, "deletions": {}}
    plan = {"points": [{"key": "k", "workload": "roles-x"}], "workloads": {"roles-x": {"roles": having, "axes": []}}}
    return Campaign(folder, plan, {"k": run}, {})


def of_role(rows, name):
    return [r for r in rows if (r["client"] == 2) == (name == "deletions")]


def counted(rows, low, high, good, width=BIN):
    """Return operations and bytes that end in (low, high]. A bin counts by its part in this interval."""

    def part(row):
        if row["latency_hist"]:
            return Fraction(max(0, min(row["end_ns"], high) - max(row["end_ns"] - width, low)), width)
        return Fraction(low < row["end_ns"] <= high)

    mine = [(part(r), r) for r in rows if (r["error"] is None) == good]
    return float(sum(p * r["count"] for p, r in mine)), float(sum(p * r["bytes"] for p, r in mine))

"""Write a small synthetic campaign with known numbers for tests, in the format of measured records.

`make(folder)` writes `raw/`. All rates are computed from PER_CLIENT and `jitter`, so that tests can check tables
exactly. To see the figures and the paper, run it as a script: `python tests/support/make_examples.py FOLDER
[repetitions] [stores]`.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import example_monitor

from storelab.core import integrity, plan, records
from storelab.core.model import Point
from storelab.stores import config
from storelab.workloads import WORKLOADS

T0 = 1_760_000_000_000_000_000  # agreed start of the first point in UTC ns
S = 10**9
ENTRIES = 10_000  # entries of the synthetic ROOT file
VOLUME = 80_000_000  # compressed bytes of the file
DURATION, WARM_UP = 4 * S, 1 * S
# Operations/s of one client in the first repetition, by workload and size.
PER_CLIENT = {"put": {4_000: 100, 10_000_000: 10}, "get": {4_000: 200, 10_000_000: 20}, "list": {100: 5}}

_MOVED = {"object_size": ["4 kB", "10 MB"], "clients": [1, 2, 4], "front_ends": [1, 2]}
_FRACTIONS = {"entry_fraction": [100, 1, 0.1], "clients": [1, 2]}
CONFIG = {
    "campaign": "example",
    "name": "example",
    "title": "An example with imagined records",
    "authors": ["A. Tester", "B. Tester & Sons"],
    "stores_to_measure": ["alpha"],
    "repetitions": 3,
    "calibrate": False,
    "stores": {"alpha": {"kind": "seaweedfs"}, "beta": {"kind": "s3", "endpoint": "https://s3.example.org"}},
    "sweeps": {
        "upload": {"workload": "put", "duration": "4 s", "axes": _MOVED},
        "download": {"workload": "get", "duration": "4 s", "axes": _MOVED},
        "entries": {"workload": "read_entries", "duration": "4 s", "axes": _FRACTIONS},
    },
}
_TIMED = {"workload": "get", "duration": "4 s"}
LATENCY = {  # sweeps of an engine that records the times of each operation
    "closed": {**_TIMED, "axes": {"engine": "obstore", "object_size": ["4 kB", "10 MB"], "clients": [1, 2, 4]}},
    "open": {**_TIMED, "axes": {"engine": "obstore", "object_size": "4 kB", "arrival_rate": [100, 200, 400]}},
}
METADATA = {  # operations that move no bytes
    "asked": {"workload": "stat", "duration": "4 s", "axes": {"object_size": ["4 kB", "10 MB"], "clients": [1, 2, 4]}},
    "listed": {"workload": "list", "duration": "4 s", "axes": {"page_size": [100, 1000], "clients": [1, 2]}},
}
_JOBS = {"workload": "events", "duration": "4 s"}
_NODE = {"navigation": ["scan", "random"], "clients": [1, 2], "files": 2, "step": 20}
EVENTS = {  # jobs that read without a cache, with a cache, and with planned requests
    "jobs_plain": {**_JOBS, "axes": _NODE},
    "jobs_ahead": {**_JOBS, "axes": _NODE | {"cache": "readahead", "read_ahead": "1 MiB"}},
    "jobs_planned": {**_JOBS, "axes": _NODE | {"engine": "planned"}},
}
# one point of three workloads each: four times faster, for tests that check files but no numbers
ONE_EACH = {
    name: {"workload": workload, "duration": "4 s"}
    for name, workload in (("upload", "put"), ("download", "get"), ("entries", "read_entries"))
}
REFUSED = {**_TIMED, "axes": {"object_size": "4 kB", "clients": [1, 2]}}  # a sweep whose points `make` can make invalid


def jitter(rep: int) -> int:
    """Return the additional operations/s of a client in repetition `rep`: 0, 1, -1, 2, -2, ..."""
    return (rep // 2) * (1 if rep % 2 == 0 else -1)


def ceiling(point: Point) -> int:
    """Return the operations/s of a client in a calibration.

    The rate is 1.2 times that with two front-ends, and 5 % less after the campaign.
    """
    known = PER_CLIENT.get(point.axes["operation"], {}).get(point.axes["object_size"], 500)
    before = 24 * known // 10
    return before if point.axes["phase"] == "before" else before - before // 20


def per_client(point: Point) -> int:
    """Return the operations/s of a client. They depend on the number of front-ends, not on the number of clients."""
    if point.workload == "calibrate":
        return ceiling(point)
    rate = PER_CLIENT[point.workload if point.workload in PER_CLIENT else "put"][point.axes["object_size"]]
    return rate * point.axes.get("front_ends", 1) + jitter(point.rep)


def observed(point: Point) -> dict[str, Any]:
    """Return the space that the store reports: a tenth remains after deletion, and nothing after reclaiming."""
    copies = {"default": 1, "replica-2": 2, "replica-3": 3}[point.axes["redundancy"]]
    objects = 100 + point.rep
    stored = objects * point.axes["object_size"]
    used = {"put": 1000 + copies * stored, "delete": 1000 + copies * stored // 10, "reclaim": 1000}
    return {
        "objects": objects,
        "stored_bytes": stored,
        "used_before_bytes": 1000,
        **{f"used_after_{state}_bytes": value for state, value in used.items()},
        "delete_s": 0.5,
        "reclaim_s": 2.0,
        "returned": [[0.0, used["put"]], [1.0, used["delete"]]],
    }


def write_answers(point: Point, folder: Path, client: int, start: int) -> None:
    """Write the answers of a probe point, or the scenarios of a consistency point."""
    if point.workload == "probe" and client == 0:
        liar = "differs" if point.store == "alpha" else "yes"
        rows = [
            ("ranges", "multi_range_2", liar, "206 with the first range only & no word of it"),
            ("ranges", "single_range", "yes", "206"),
        ]
        columns = dict(zip(("topic", "check", "answer", "evidence"), map(list, zip(*rows, strict=True)), strict=True))
        times = {"client": [0] * 2, "start_ns": [start] * 2, "end_ns": [start + S] * 2}
        records.write_table(folder / "answers.0.parquet", records.TABLES["answers"], columns | times)
    if point.workload == "consistency":
        tried = {"client": [client] * 2, "scenario": ["read_after_write"] * 2, "same_front_end": [True, False]}
        counts = {"tried": [100, 50], "anomalies": [0, 0], "errors": [1, 0]}
        records.write_table(folder / f"scenarios.{client}.parquet", records.TABLES["scenarios"], tried | counts)


def even(start: int, rate: int, until: int) -> list[int]:
    """Return completion times at start + i/rate seconds, i = 1, 2, ..., up to `until` (ns)."""
    return [start + i * S // rate for i in range(1, (until - start) * rate // S + 1)]


def put_or_get(point: Point, client: int, start: int) -> dict[str, list[Any]]:
    """Return evenly spaced operations as s5cmd records them, with only the end time.

    Client 0 has a tail of half a second after the deadline. Each client has one failed operation at 2 s.
    """
    op = {"get": "GET", "stat": "HEAD", "list": "LIST"}.get(point.workload, "PUT")
    ends = even(start, per_client(point), start + DURATION + (S // 2 if client == 0 else 0))
    n = len(ends)
    return {
        "client": [client] * (n + 1),
        "op": [op] * (n + 1),
        "object": [f"o{i}" for i in range(n + 1)],
        "count": [point.axes.get("keys") or 1] * (n + 1),
        "bytes": [0 if point.workload in ("stat", "list") else point.axes["object_size"]] * n + [0],
        "end_ns": [*ends, start + 2 * S],
        "status": [0] * (n + 1),
        "error": [None] * n + ["SlowDown"],
    }


def times(point: Point, ends: list[int]) -> dict[str, list[Any]]:
    """Return the start, first-byte and due times of operations.

    Operation i takes 1 to 100 ms, and its first byte arrives after half of this time. In an open loop, it was due 0 to
    40 ms before its start.
    """
    begins = [end - (1 + 37 * i % 100) * 1_000_000 for i, end in enumerate(ends)]
    first = [b + (e - b) // 2 for b, e in zip(begins, ends, strict=True)]
    out = {"start_ns": begins, "first_byte_ns": first}
    if point.axes.get("arrival_rate"):
        out["intended_ns"] = [b - i % 5 * 10_000_000 for i, b in enumerate(begins)]
    return out


def refused(ops: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return a copy of the operations in which every second one has status 503."""
    odd = [i % 2 for i in range(len(ops["end_ns"]))]
    answer = {"error": ["SlowDown" if o else None for o in odd], "status": [503 if o else 200 for o in odd]}
    return ops | answer | {"bytes": [0 if o else b for o, b in zip(odd, ops["bytes"], strict=True)]}


def read_entries(point: Point, client: int, start: int) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return the operations and reads of a client that reads selections.

    It reads 2, 10 or 20 times per s for 100, 1 or 0.1 % of the entries or of the volume. A read needs 80, 8 or 2 MB and
    takes 80, 24 or 12 MB on the wire. The first one has an opening of 1 MB in 3 requests and 1 ms.
    """
    entries = point.axes.get("entry_fraction", 100.0)
    fraction = entries if point.workload == "read_entries" else point.axes["volume_fraction"]
    rate, needed, wire, requests = {
        100.0: (2, VOLUME, VOLUME, 8),
        1.0: (10, VOLUME // 10, 3 * VOLUME // 10, 16),
        0.1: (20, VOLUME // 40, 6 * VOLUME // 40, 6),
    }[fraction]
    ends = even(start, rate, start + DURATION)
    n, length = len(ends), S // rate
    begins = [e - length for e in ends]
    first = [1] + [0] * (n - 1)
    traffic = {"wire_bytes": [wire + 1_000_000 * f for f in first], "requests": [requests + 3 * f for f in first]}
    ops = {
        "client": [client] * n,
        "op": ["READ"] * n,
        "count": [1] * n,
        "bytes": [needed] * n,
        **traffic,
        "start_ns": begins,
        "end_ns": ends,
        "status": [200] * n,
    }
    phases = {f"{p}_ns": [length // 5] * n for p in ("plan", "transfer", "decompress", "deserialise")}
    reads = {
        "client": [client] * n,
        "read": list(range(n)),
        "entries": [max(1, round(ENTRIES * entries / 100))] * n,
        "branches": [500] * n,
        "baskets": [4000] * n,
        "needed_bytes": [needed] * n,
        "asked_bytes": traffic["wire_bytes"],
        **traffic,
        "start_ns": begins,
        "end_ns": ends,
        "open_ns": [10**6 * f for f in first],
        **phases,
    }
    return ops, reads


def events(point: Point, client: int, start: int) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return the operations and reads of a client that processes events.

    Steps of 20 events end at 10 per s (no cache), 40 per s (cache; random navigation: 5) or 50 per s (planned), plus
    the `jitter` of the repetition. Each needs 100 kB in 10 requests (planned: 2), or 300 kB in 1 request through a
    cache. The first one has an opening of 1 MB in 3 requests.
    """
    cached, planned = point.axes["cache"] != "none", point.axes["engine"] == "planned"
    rate = (50 if planned else (40 if point.axes["navigation"] == "scan" else 5) if cached else 10) + jitter(point.rep)
    wire, requests = (300_000, 1) if cached else (100_000, 2 if planned else 10)
    ends = even(start, rate, start + DURATION + S // 2)  # half a second after the deadline
    n = len(ends)
    first = [1] + [0] * (n - 1)
    moved = {"wire_bytes": [wire + 1_000_000 * f for f in first], "requests": [requests + 3 * f for f in first]}
    times = {"start_ns": [e - S // rate for e in ends], "end_ns": ends}
    ops = {"client": [client] * n, "op": ["READ"] * n, "object": [f"events-{client:04d}.root"] * n}
    ops |= {"count": [1] * n, "bytes": [100_000] * n}
    reads = {"client": [client] * n, "read": list(range(n)), "entries": [point.axes["step"]] * n}
    reads |= {"branches": [50] * n, "baskets": [10] * n}
    reads |= {"needed_bytes": [100_000] * n, "asked_bytes": moved["wire_bytes"], **moved, **times}
    reads |= {f"{p}_ns": [10**6] * n for p in ("plan", "transfer", "decompress", "deserialise")} | {
        "open_ns": [10**6 * f for f in first]
    }
    return ops | moved | times | {"status": [200] * n}, reads


def run_json(point: Point, start: int, endpoint: str) -> dict[str, Any]:
    n = point.axes["clients"]
    client = {
        "host": "node-a",
        "pid": 1,
        "clock_offset_ns": 0,
        "saw_go_in_time": True,
        "exit_status": 0,
        "endpoint": endpoint,
        "cpu_user_s": 0.5,
        "cpu_system_s": 0.25,
        "max_rss_bytes": 50_000_000,
        "connections_max": 8,
        "network": {"rx_bytes": 0, "tx_bytes": 0},
    }
    clients = [
        client
        | {"client": i, "lateness_ns": i * 1_000_000, "start_ns": start + i * 1_000_000, "end_ns": start + DURATION}
        | {"endpoint": endpoint.replace(":18300", f":{18300 + i % point.axes.get('front_ends', 1)}")}
        for i in range(n)
    ]
    if point.axes.get("engine") == "obstore":
        quiet = {"count": 0, "sum_ns": 0, "longest_ns": 0, "longest": []}
        clients = [c | {"engine": {"hung": 0, "hung_s": 0.0, "not_begun": 0, "pauses": quiet}} for c in clients]
    if point.workload in ("read_volume", "read_entries", "replay", "events"):
        sizes = dict.fromkeys(("asked_bytes", "body_bytes", "wire_bytes"), 1_000_000)
        opening = {"requests": 3, **sizes, "ns": 10**6}
        clients = [c | {"engine": {"opening": opening}} for c in clients]
    engine = {
        "name": point.axes["engine"],
        "version": "2.3.0",
        "settings": {"retries": 0, "workers": point.axes.get("workers", 1)},
        "requests_per_operation": {"get": {"GET": 2}, "put": {"PUT": 1}}.get(point.workload, {}),
    }
    return {
        "campaign": "example",
        "point": asdict(point),
        "attempt": "1",
        "start_ns": start,
        "deadline_ns": start + DURATION,
        "clients": clients,
        "host": {"cpu_busy_s": 6.0, "cores": 2, "seconds": 4.0, "client_cpu_s": 0.75 * n, "server_cpu_s": 2.0},
        "store": {
            "name": point.store,
            "kind": "seaweedfs",
            "version": "4.48",
            "deployment": {"front_ends": point.axes.get("front_ends", 1), "redundancy": "000", "backing": "tmpfs"},
        },
        "environment": {
            "storelab": "0.1.0",
            "git_commit": "0" * 40,
            "python": "3.11.7",
            "kernel": "6.1.0",
            "cpu_model": "Imagined CPU @ 2 GHz (100 % virtual)",
            "cores": 2,
            "memory_bytes": 8_000_000_000,
            "packages": {"uproot": "5.7.7", "s3fs": "2026.9.0", "duckdb": "2.0.0"},
            "platform": "Linux-6.1.0_x86_64",
        },
        "engine": engine,
        "checks": [{"name": "bytes_of_every_answer", "ok": True, "detail": ""}],
        "events": [],
    }


def write_point(raw: Path, point: Point, valid: bool = True) -> None:
    """Write the record of a point: Parquet files, then run.json. In an invalid point, half of the operations failed."""
    folder, start, done = raw / point.key, T0 + point.order * 10 * S, []
    for client in range(point.axes["clients"]):
        if point.workload in ("probe", "consistency"):
            ops = {"client": [client], "op": ["PROBE"], "count": [1], "bytes": [0]}
            ops |= {"start_ns": [start], "end_ns": [start + S]}
        elif point.workload in ("read_volume", "read_entries", "replay", "events"):
            ops, reads = (events if point.workload == "events" else read_entries)(point, client, start)
            records.write_table(folder / f"reads.{client}.parquet", records.READS, reads)
        else:
            ops = put_or_get(point, client, start)
            ops |= times(point, ops["end_ns"]) if point.axes.get("engine") == "obstore" else {}
            ops = ops if valid else refused(ops)
        records.write_table(folder / f"ops.{client}.parquet", records.OPS, ops)
        errors = ops.get("error", [None] * len(ops["count"]))
        good = sum(n for n, error in zip(ops["count"], errors, strict=True) if error is None)
        done.append((good, sum(ops["count"]) - good))
        write_answers(point, folder, client, start)
    if point.store == "alpha":
        example_monitor.write(point, folder, start, DURATION)
    here = f"{'https' if point.axes.get('scheme') == 'https' else 'http'}://127.0.0.1:18300"
    run = run_json(point, start, "https://s3.example.org" if point.store == "beta" else here)
    for client, operations in zip(run["clients"], done, strict=True):
        client["operations"], client["errors"] = operations
    run["host"] |= example_monitor.of_host(point) if point.store == "alpha" else {}
    run |= {"observed": observed(point)} if point.workload == "space" else {}
    reason = "50 % of the operations failed, more than failure_budget = 1 %"
    broken = {"valid": False, "budget": {"reason": reason, "failure_budget": 0.01}}
    records.finish(folder, run if valid else run | broken)


def make(
    folder: Path,
    failed: tuple[str, ...] = ("alpha/put/object_size~10MB_clients~0004_rep~002",),
    invalid: tuple[str, ...] = (),
    **changes: Any,
) -> list[Point]:
    """Write `folder/raw` of the campaign CONFIG with `changes`.

    Points in `failed` (keys, or names of workloads) get a failed.json. Points of the sweeps in `invalid` get an invalid
    record.
    """
    settings = config.Config.model_validate(CONFIG | changes)
    points = plan.make(settings, WORKLOADS)
    raw = folder / "raw"
    for point in points:
        if point.key in failed or point.workload in failed:
            records.fail(raw / point.key, point, "client 3 did not arrive within 60 s (50 % of _all_ {clients})")
        else:
            write_point(raw, point, point.sweep not in invalid)
    records.write_json(raw / "plan.json", plan.to_json(settings, points, WORKLOADS))
    integrity.write_sums(raw)
    return points


if __name__ == "__main__":
    stores = ["alpha", "beta"][: int(sys.argv[3]) if len(sys.argv) > 3 else 1]
    made = make(Path(sys.argv[1]), repetitions=int(sys.argv[2]) if len(sys.argv) > 2 else 3, stores_to_measure=stores)
    print(f"{len(made)} points in {sys.argv[1]}/raw")

"""The clients of a gang on one host, a process each: `python -m storelab.gang.client CLASS … -- FOLDER RANK …`.

CLASS is that of a client (`module:name`), loaded at once. Which clients are wanted comes on standard input
(`prefork.py`): FOLDER and RANK only tell whose process it is, where that is known at its start. The folder holds
`job.json` (point, endpoints, buckets, times: nothing secret), the environment of a client its credentials. It leaves
`ops.<rank>.parquet`, `reads.<rank>.parquet` if the workload reads ROOT files, and at last `result.<rank>`.
"""

import contextlib
import os
import platform
import resource
import signal
import sys
import traceback
from collections.abc import Collection, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any

from storelab import engines
from storelab.core import clock, records
from storelab.core.engines import CATALOGUE
from storelab.core.errors import MeasurementFailed, UserError, of_memory, of_system
from storelab.core.model import Point, accounts_of
from storelab.core.redaction import redacted, without_tokens
from storelab.engines.common.guard import LimitExceeded
from storelab.engines.contract import Job, Result
from storelab.gang import prefork, rendezvous
from storelab.host import proc, processes
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS


def load_job(folder: Path, rank: int) -> tuple[Job, dict[str, Any]]:
    """The client's own job, which is that of its role where the point has roles; and what its gang agrees on, with
    `role` and `begin_ns` of such a client."""
    gang = records.read_json(folder / "job.json")
    data = next((role for role in gang.get("roles", ()) if rank in role["ranks"]), gang)
    client, endpoints, point = rank - data.get("ranks", [0])[0], data["endpoints"], Point(**data["point"])
    accounts = accounts_of(client, point.axes.get("clients", 1), data["accounts"])
    job = Job(
        point=point,
        client=client,
        endpoint=Endpoint(**endpoints[client % len(endpoints)]),
        buckets=[Bucket(**b) for b in data["buckets"]],
        scratch=Path(gang["scratch"]) / f"{gang['attempt']}-{rank}",
        manifest=Path(data["manifest"]) if data["manifest"] else None,
        attempt=data["attempt"],
        limits=data["limits"],
        account=accounts[0],
        accounts=accounts,
        endpoints=[Endpoint(**e) for e in endpoints],
        extra=data.get("extra", {}),
        rank=rank,
        ledger=folder / f"ledger.{rank}",
        told=folder / f"told.{rank}" if gang.get("tells") else None,
    )
    return job, gang | {key: data[key] for key in ("role", "begin_ns") if key in data}


def usage() -> dict[str, float]:
    """CPU seconds and peak memory of this process and its ended children."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu_user_s": own.ru_utime + children.ru_utime,
        "cpu_system_s": own.ru_stime + children.ru_stime,
        "max_rss_bytes": max(own.ru_maxrss, children.ru_maxrss) * 1024,
    }


def write_ops(path: Path, result: Result) -> tuple[int, int, int]:
    """Write the operations; returns how many succeeded, how many failed, and the useful bytes."""
    if (done := result.written) is not None:
        records.write_atomic(path, done.file.read_bytes(), sync=False)  # from tmpfs into the folder of the gang
        return done.operations, done.errors, done.bytes
    kinds = result.ops.get("error", [])
    shown = {kind: without_tokens(kind) for kind in set(kinds) if kind is not None}  # some are a server's own words
    ops = result.ops
    if any(kind != text for kind, text in shown.items()):
        ops = ops | {"error": [shown.get(kind) for kind in kinds]}
    records.write_table(path, records.OPS, ops, sync=False)
    counts = result.ops.get("count", [1] * len(result.ops["end_ns"]))
    errors = result.ops.get("error", [None] * len(counts))  # a missing column is null
    failed = sum(int(n) for n, e in zip(counts, errors, strict=True) if e is not None)
    return int(sum(counts)) - failed, failed, int(sum(result.ops["bytes"]))


def write_result(folder: Path, rank: int, result: Result) -> dict[str, Any]:
    operations, errors, size = write_ops(folder / f"ops.{rank}.parquet", result)
    if result.reads is not None:
        records.write_table(folder / f"reads.{rank}.parquet", records.READS, result.reads, sync=False)
    for name, columns in result.tables.items():
        records.write_table(folder / f"{name}.{rank}.parquet", records.TABLES[name], columns, sync=False)
    return {
        "engine": result.engine,
        "checks": [asdict(c) for c in result.checks],
        "connections_max": result.connections.get("max"),
        "connections": result.connections.get("samples", []),
        "operations": operations,
        "errors": errors,
        "bytes": size,
    }


def run(folder: Path, rank: int) -> int:
    """Join, measure, leave the result; returns the exit status.

    Any failure is written into `result.<rank>` too, so that nobody waits for it.
    """
    job, data = load_job(folder, rank)
    client = WORKLOADS[job.point.workload].client(job)
    out: dict[str, Any] = {
        "client": rank,
        "host": platform.node(),
        "pid": os.getpid(),
        "clock_offset_ns": int(os.environ.get(clock.OFFSET, "0")),
        "endpoint": job.endpoint.url,
        **({"role": data["role"]} if "role" in data else {}),
    }
    try:
        client.prepare()
        before, disk_before = usage(), proc.disk_reads(os.getpid())
        place, about = rendezvous.Folder(folder), {"host": out["host"], "pid": out["pid"]}
        start = rendezvous.join(place, rank, data["size"], data["timeout_ns"] / 1e9, about)
        due = start.t0_ns + data.get("begin_ns", 0)  # of a role that begins later
        deadline = due + job.point.fixed["duration_ns"]
        clock.sleep_until(due)
        begun = clock.now_ns()
        client.run(begun, deadline)
        ended = clock.now_ns()
        after, disk_after = usage(), proc.disk_reads(os.getpid())
        out |= {
            "t0_ns": start.t0_ns,
            "begin_ns": due,
            "deadline_ns": deadline,
            "saw_go_in_time": start.saw_in_time,
            "lateness_ns": begun - due,
            "start_ns": begun,
            "end_ns": min(ended, deadline),
            "cpu_user_s": after["cpu_user_s"] - before["cpu_user_s"],
            "cpu_system_s": after["cpu_system_s"] - before["cpu_system_s"],
            "max_rss_bytes": after["max_rss_bytes"],
            "disk_read_bytes": None if None in (disk_before, disk_after) else disk_after - disk_before,
        }
        out |= write_result(folder, rank, client.result())
        out["exit_status"] = 0
    except (rendezvous.GangAborted, LimitExceeded, MeasurementFailed, UserError) as error:
        out |= {"exit_status": 1, "failure": str(error)}
    except MemoryError:
        out |= {"exit_status": 1, "failure": str(of_memory())}
    except Exception as error:  # whatever a library raises is this client's result
        here = isinstance(error, OSError) and error.filename is not None  # a file: full disk, removed folder
        out |= {"exit_status": 1, "failure": str(of_system(error)) if here else f"{type(error).__name__}: {error}"}
        raise
    finally:
        client.close()
        if "exit_status" in out:
            rendezvous.Folder(folder).put(f"result.{rank}", redacted(out))
    return out["exit_status"]


def preload(folder: Path, ranks: Sequence[int]) -> None:
    """Load what the clients of these ranks use, before they are forked."""
    load({place for rank in ranks if (place := place_of(load_job(folder, rank)[0].point))})


def load(places: Collection[str]) -> None:
    prefork.without_pandas()
    for place in places:
        engines.load(place)


def place_of(point: Point) -> str:
    """Where the class of its clients is (`module:name`); '' where its workload chooses another way."""
    engine = CATALOGUE.get(point.axes.get("engine", ""))
    use = engine.uses.get(point.workload) if engine else None
    return use.client if use else ""


def one(folder: Path, rank: int) -> int:
    """A client, from its first signal handler to its exit status."""
    # A client that receives a signal closes its engine on the way out (`finally` in `run`).
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda *_: sys.exit(143))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # programs in Go do so themselves
    try:
        return run(folder, rank)
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:  # noqa: BLE001  (nobody is above it)
        print(without_tokens(traceback.format_exc()), file=sys.stderr)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def main() -> None:
    processes.no_core_dumps()
    with contextlib.suppress(Exception):  # no client is there to tell it: `preload` raises it again
        load([*takewhile(lambda word: word != "--", sys.argv[1:])])
    prefork.run(preload, one)


if __name__ == "__main__":
    main()

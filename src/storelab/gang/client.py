"""The clients of a gang on one host, one process each: `python -m storelab.gang.client CLASS … -- FOLDER RANK …`.

CLASS is the class of a client (`module:name`), which is loaded immediately. Standard input lists the clients to start
(`prefork.py`). FOLDER and RANK have no effect; they identify the process in process lists, if they are known at its
start. The folder contains `job.json` (point, endpoints, buckets, times; no secrets). The environment of a client
contains its credentials. A client writes `ops.<rank>.parquet`, `reads.<rank>.parquet` if the workload reads ROOT files,
and finally `result.<rank>`.
"""

import contextlib
import os
import platform
import resource
import signal
import sys
import traceback
from collections.abc import Collection, Sequence
from itertools import takewhile
from pathlib import Path

from storelab import engines
from storelab.core import clock, records
from storelab.core.engines import CATALOGUE
from storelab.core.errors import (
    MeasurementFailed,
    UserError,
    lacks_processes,
    memory_error,
    process_error,
    system_error,
)
from storelab.core.model import Point
from storelab.core.redaction import redacted, without_tokens
from storelab.engines.common.guard import LimitExceeded
from storelab.engines.contract import Client, ClientResult, GangJob, Job, Result
from storelab.gang import prefork, rendezvous
from storelab.host import proc, processes
from storelab.workloads import WORKLOADS


def load_job(folder: Path, rank: int) -> Job:
    """Read the job of one client from the folder of its gang."""
    return GangJob.read(folder).job_of_client(rank, folder)


def usage() -> dict[str, float]:
    """Return the CPU seconds and the peak memory of this process and its ended children."""
    process, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu_user_s": process.ru_utime + children.ru_utime,
        "cpu_system_s": process.ru_stime + children.ru_stime,
        "max_rss_bytes": max(process.ru_maxrss, children.ru_maxrss) * 1024,
    }


def write_ops(path: Path, result: Result) -> tuple[int, int, int]:
    """Write the operations. Return the numbers of successful and of failed operations, and the useful bytes."""
    if (done := result.written) is not None:
        records.write_atomic(path, done.file.read_bytes(), sync=False)  # copy from tmpfs to the folder of the gang
        return done.operations, done.errors, done.bytes
    kinds = result.ops.get("error", [])
    # error classes can contain text of a server
    shown = {kind: without_tokens(kind) for kind in set(kinds) if kind is not None}
    ops = result.ops
    if any(kind != text for kind, text in shown.items()):
        ops = ops | {"error": [shown.get(kind) for kind in kinds]}
    records.write_table(path, records.OPS, ops, sync=False)
    counts = result.ops.get("count", [1] * len(result.ops["end_ns"]))
    errors = result.ops.get("error", [None] * len(counts))  # without this column, no operation failed
    failed = sum(int(n) for n, e in zip(counts, errors, strict=True) if e is not None)
    return int(sum(counts)) - failed, failed, int(sum(result.ops["bytes"]))


def write_tables(folder: Path, rank: int, result: Result, out: ClientResult) -> None:
    """Write all tables of a client, and add its other results to `out`."""
    out.operations, out.errors, out.bytes = write_ops(folder / f"ops.{rank}.parquet", result)
    if result.reads is not None:
        records.write_table(folder / f"reads.{rank}.parquet", records.READS, result.reads, sync=False)
    for name, columns in result.tables.items():
        records.write_table(folder / f"{name}.{rank}.parquet", records.TABLES[name], columns, sync=False)
    out.engine, out.checks = result.engine, result.checks
    out.connections_max, out.connections = result.connections.get("max"), result.connections.get("samples", [])


def run(folder: Path, rank: int) -> int:
    """Join the gang, measure, and write the result. Return the exit status.

    Failures are also written to `result.<rank>`, so that the coordinator does not wait for this file.
    """
    job = load_job(folder, rank)
    client = WORKLOADS[job.point.workload].client(job)
    place = rendezvous.Folder(folder)
    offset = int(os.environ.get(clock.OFFSET, "0"))
    out = ClientResult(rank, platform.node(), os.getpid(), offset, job.endpoint.url, job.role)
    try:
        client.prepare()
        measure(client, job, place, out)
        write_tables(folder, rank, client.result(), out)
        out.exit_status = 0
    except (rendezvous.GangAborted, LimitExceeded, MeasurementFailed, UserError) as error:
        out.failure = str(error)
    except MemoryError:
        out.failure = str(memory_error())
    except Exception as error:  # the errors of all libraries are results of this client
        if lacks_processes(error):
            out.failure = str(process_error())
            return out.exit_status
        # The error of a local file, for example on a full disk or in a removed folder, has a file name.
        here = isinstance(error, OSError) and error.filename is not None
        out.failure = str(system_error(error)) if here else f"{type(error).__name__}: {error}"
        raise
    finally:
        client.close()
        if out.failure or not out.exit_status:  # no result if a signal ended the client
            place.put(f"result.{rank}", redacted(out.to_json()))
    return out.exit_status


def measure(client: Client, job: Job, place: rendezvous.Folder, out: ClientResult) -> None:
    """Wait for the other clients, and work from the start of the client's role until the deadline."""
    before, disk_before = usage(), proc.disk_reads(os.getpid())
    start = rendezvous.join(place, job.rank, job.size, job.timeout_ns / 1e9, {"host": out.host, "pid": out.pid})
    out.t0_ns, out.saw_go_in_time = start.t0_ns, start.saw_in_time
    out.begin_ns = start.t0_ns + job.begin_ns
    out.deadline_ns = out.begin_ns + job.point.fixed["duration_ns"]
    clock.sleep_until(out.begin_ns)
    out.start_ns = clock.now_ns()
    out.lateness_ns = out.start_ns - out.begin_ns
    client.run(out.start_ns, out.deadline_ns)
    out.end_ns = min(clock.now_ns(), out.deadline_ns)
    after, disk_after = usage(), proc.disk_reads(os.getpid())
    out.cpu_user_s = after["cpu_user_s"] - before["cpu_user_s"]
    out.cpu_system_s = after["cpu_system_s"] - before["cpu_system_s"]
    out.max_rss_bytes = int(after["max_rss_bytes"])
    out.disk_read_bytes = None if disk_before is None or disk_after is None else disk_after - disk_before


def preload(folder: Path, ranks: Sequence[int]) -> None:
    """Import the modules of these ranks' clients before the clients are forked."""
    load({place for rank in ranks if (place := place_of(load_job(folder, rank).point))})


def load(places: Collection[str]) -> None:
    """Import these classes of clients (`module:name`), without pandas, which clients do not need."""
    prefork.without_pandas()
    for place in places:
        engines.load(place)


def place_of(point: Point) -> str:
    """Return the class of the point's clients as `module:name`; '' if it cannot be known before the clients start."""
    engine = CATALOGUE.get(point.axes.get("engine", ""))
    use = engine.uses.get(point.workload) if engine else None
    return use.client if use else ""


def one(folder: Path, rank: int) -> int:
    """Run a client, from its first signal handler to its exit status."""
    # A signal raises SystemExit, so that the client closes its engine (`finally` in `run`).
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda *_: sys.exit(143))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # Go programs do this themselves
    try:
        return run(folder, rank)
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:  # noqa: BLE001  (the last handler of the client's process)
        print(without_tokens(traceback.format_exc()), file=sys.stderr)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def main() -> None:
    """Import the engines of the command line once, then start each client as a copy of this process."""
    processes.no_core_dumps()
    with contextlib.suppress(Exception):  # no client exists yet that could report it; `preload` raises it again
        load([*takewhile(lambda word: word != "--", sys.argv[1:])])
    prefork.run(preload, one)


if __name__ == "__main__":
    main()

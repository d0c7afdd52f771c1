"""`calibrate`: measure the maximum rate of the clients, with the null server, memory, or files.

Nothing is staged, because the null server answers for objects that were never written. See docs/calibration.md. Memory
and files are measured by the simplest possible loops, without a store. A record is a bin with the operations of one
worker in about 10 ms. Files are written with a temporary name and renamed, as in s5cmd, through the page cache and
without fsync. Files are read that have just been written.
"""

import os
import platform
import shutil
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab import stores
from storelab.core import calibration, clock
from storelab.core.calibration import LOCAL, NETWORK
from storelab.core.model import Point
from storelab.engines.contract import Check, Client, GangJob, Job, Result
from storelab.stores.base import Store
from storelab.workloads.base import Workload, refuse
from storelab.workloads.objects import DELETE, GET, GET_RANGE, LIST, PUT, STAT

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config


OPERATIONS = {w.name: w for w in (PUT, GET, GET_RANGE, DELETE, STAT, LIST)}  # the workloads of `calibration.OPERATIONS`
NEEDED = {"get_range": "range_size", "list": "keys"}  # axes that these operations require
KEYS = 64  # number of objects from which downloads choose
# maximum number of requests of a client, and of objects of a point, that delete objects
DELETIONS, MAX_DELETIONS = 100_000, 800_000
BIN_NS = 10_000_000
PATTERN = bytes(range(251))  # the length is a prime number, so that no alignment hides a shift


class LocalClient(Client):
    """A client whose workers are threads. Each thread repeats its operation until the deadline."""

    op = ""

    def prepare(self) -> None:
        self.size, self.workers = self.job.point.axes["object_size"], self.job.point.axes["workers"]
        self.rows: list[tuple[int, int, int]] = []  # (worker, number of operations, end in ns)
        self.body = (PATTERN * (self.size // len(PATTERN) + 1))[: self.size]
        self.buffers: list[Any] = []  # targets of reads and copies
        self.operations = [self.operation(i) for i in range(self.workers)]
        for operation in self.operations:
            operation()

    @abstractmethod
    def operation(self, worker: int) -> Callable[[], object]:
        """Return the function that this worker repeats."""

    def moved(self) -> bool:
        """Return True if the content after the operations is correct."""
        return all(bytes(buffer) == self.body for buffer in self.buffers)

    def run(self, start_ns: int, deadline_ns: int) -> None:
        def work(worker: int) -> None:
            operation, now = self.operations[worker], clock.now_ns()
            while now < deadline_ns:
                count, end = 0, min(now + BIN_NS, deadline_ns)
                while now < end:
                    operation()
                    count, now = count + 1, clock.now_ns()
                if now <= deadline_ns:
                    self.rows.append((worker, count, now))

        with ThreadPoolExecutor(self.workers) as pool:
            list(pool.map(work, range(self.workers)))

    def result(self) -> Result:
        workers, counts, ends = (list(c) for c in zip(*self.rows, strict=True)) if self.rows else ([], [], [])
        n = len(ends)
        return Result(
            {
                "client": [self.job.client] * n,
                "worker": workers,
                "op": [self.op] * n,
                "count": counts,
                "bytes": [c * self.size for c in counts],
                "end_ns": ends,
                "status": [0] * n,
                "error": [None] * n,
            },
            engine={
                "name": "none",
                "version": f"Python {platform.python_version()}",
                "settings": {"workers": self.workers, "target": self.job.point.axes["target"]},
                "requests_per_operation": {},
            },
            checks=[
                Check("operations completed", n > 0, f"{sum(counts)} operations"),
                Check("content", self.moved(), "the data of the last operations"),
            ],
        )

    def close(self) -> None:
        shutil.rmtree(self.job.scratch, ignore_errors=True)


class MemoryCopy(LocalClient):
    """A client that copies from one array to another. Each worker has separate arrays."""

    op = "COPY"

    def operation(self, worker: int) -> Callable[[], object]:
        import numpy as np

        source, target = np.frombuffer(self.body, np.uint8), np.zeros(self.size, np.uint8)
        self.buffers.append(target)
        return lambda: np.copyto(target, source)


class FileClient(LocalClient):
    """The base class of clients that use one file per worker in the client's folder."""

    def prepare(self) -> None:
        disk = self.job.point.axes["target"] == "disk"
        self.folder = (
            Path(self.job.extra["disk"]) / f"{self.job.attempt}-{self.job.client}" if disk else self.job.scratch
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        super().prepare()

    def file(self, worker: int) -> Path:
        return self.folder / f"{worker:04d}"

    def close(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)
        super().close()


class FileWrite(FileClient):
    """A client that writes whole files into a folder of its host."""

    op = "WRITE"

    def operation(self, worker: int) -> Callable[[], object]:
        path, temporary, body = str(self.file(worker)), str(self.folder / f"{worker:04d}.tmp"), memoryview(self.body)

        def write() -> None:
            fd, at = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 0
            while at < len(body):
                at += os.write(fd, body[at:])
            os.close(fd)
            os.replace(temporary, path)

        return write

    def moved(self) -> bool:
        return self.file(0).read_bytes() == self.body


class FileRead(FileClient):
    """A client that reads whole files from a folder of its host."""

    op = "READ_FILE"

    def operation(self, worker: int) -> Callable[[], object]:
        path, buffer = str(self.file(worker)), memoryview(bytearray(self.size))
        self.file(worker).write_bytes(self.body)
        self.buffers.append(buffer)

        def read() -> None:
            fd, at = os.open(path, os.O_RDONLY), 0
            while at < len(buffer):
                at += os.readv(fd, [buffer[at:]])
            os.close(fd)

        return read


CLIENTS = {"copy": MemoryCopy, "write": FileWrite, "read": FileRead}  # operation -> client


def stand_in(point: Point) -> Point:
    """Return the point for the client of the operation. Axes that a calibration lacks have their default value."""
    spec = OPERATIONS[point.axes["operation"]]
    return replace(point, workload=spec.name, axes={a.name: point.axes.get(a.name, a.default) for a in spec.axes})


def _manifest(config: "Config", store: Store, point: Point, job: GangJob, files: list[Any]) -> Path:
    """Return the path of a manifest of the null server's objects, in the point's working folder.

    The objects have the bodies in `files`. Without files, the manifest describes a folder of keys, which the server
    derives from the name of the folder.
    """
    from storelab.core import records
    from storelab.core.plan import sweeps
    from storelab.datasets import payload
    from storelab.workloads.staging import stage

    count, seed = KEYS if files else 0, point.fixed["data_seed"]
    if files:
        dataset = {"name": "null", "kind": "payload", "seed": seed, "object_size": point.axes["object_size"]}
    else:
        dataset = sweeps.folders_of_keys(seed, stand_in(point).axes | {"buckets": 1, "accounts": 1})
    objects = {
        "key": [f"data/{files[i % payload.BODIES].name}/{i:07d}" for i in range(count)],
        "bucket": [0] * count,
        "body": [i % payload.BODIES for i in range(count)],
    }
    path = (config.campaign_dir / "work" / point.key / job.attempt / "manifest.json").absolute()
    records.write_json(path, stage.manifest_of(store, dataset, job.buckets[:1], payload.body_sums(files), objects))
    return path


def _names(point: Point) -> list[list[tuple[int, str]]]:
    """Return the (bucket, key) of objects to delete for each client.

    There are more objects than a client can delete, because otherwise the run would end early.
    """
    clients = point.axes["clients"]
    n = min(DELETIONS * point.axes["batch"], MAX_DELETIONS // clients)
    return [[(0, f"put/{c}/{i:07d}") for i in range(n)] for c in range(clients)]


class Calibrate(Workload):
    """The workload that measures the maximum rate of the clients, with the null server, memory or files."""

    def covers(self, kind: str) -> bool:
        """Return True if the clients' ceiling, measured with the null server, applies to this kind of store."""
        return stores.has_ceiling(kind)

    def client(self, job: Job) -> Client:
        if job.point.axes["target"] == NETWORK:
            return OPERATIONS[job.point.axes["operation"]].client(replace(job, point=stand_in(job.point)))

        return CLIENTS[job.point.axes["operation"]](job)

    def validate(self, point: Point) -> None:
        """Raise UserError if operation, engine and target cannot be combined."""
        operation, target, engine = (point.axes[name] for name in ("operation", "target", "engine"))
        fit = calibration.OPERATIONS if target == NETWORK else LOCAL[target]
        wrong = f"{operation!r} cannot be combined with target {target!r}"
        refuse(point, ("operation", operation not in fit, wrong, f"one of: {', '.join(fit)}"))
        engines = OPERATIONS[operation].axis("engine").choices if target == NETWORK else ("none",)
        wrong = f"{engine!r} cannot do {operation} at target {target!r}"
        no_range, no_keys = (operation == name and not point.axes[axis] for name, axis in NEEDED.items())
        refuse(
            point,
            ("engine", engine not in engines, wrong, f"one of: {', '.join(engines)}"),
            ("range_size", no_range, "get_range needs a range size", "set it, e.g. to 4 kB"),
            ("keys", no_keys, "list needs a number of keys", "set it, e.g. to 1000"),
        )
        if operation == "list":
            LIST.validate(stand_in(point))

    def before(self, config: "Config", store: Store, point: Point, job: GangJob) -> None:
        """Give the bodies to the null server, and the names of objects to the clients.

        Limits are disabled, because they protect real stores.
        """
        from storelab.datasets import payload
        from storelab.host import scratch

        job.limits |= {"throughput": None, "requests_per_s": None}
        operation = point.axes["operation"]
        if point.axes["target"] != NETWORK:
            job.extra = {"disk": str((store.folder / "calibrate").absolute())}  # type: ignore[attr-defined]
            return
        if operation == "delete":
            job.extra = {"objects": _names(point)}
        if operation == "list":
            job.manifest = _manifest(config, store, point, job, [])
        if operation in ("get", "get_range", "stat"):
            size = point.axes["object_size"]
            files = payload.body_files(scratch.folder(config.scratch), point.fixed["data_seed"], size)
            store.add_bodies(files)  # type: ignore[attr-defined]
            job.manifest = _manifest(config, store, point, job, files)


CALIBRATE = Calibrate(
    calibration.WORKLOAD,
    calibration.AXES,
    (
        "The maximum rate of the clients, against a server that does almost nothing. A campaign adds these points "
        "automatically."
    ),
    needs=("null_server",),
)

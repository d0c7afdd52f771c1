"""Memory and files as `calibrate` sees them: the plainest loops that a client could run, without any store.

A record is a bin: the operations of one worker in some 10 ms. Files are written to a temporary name and renamed, as
s5cmd does, through the page cache and without fsync; reads are of files that were just written.
"""

import os
import platform
import shutil
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from storelab.core import clock
from storelab.engines.contract import Check, Client, Result

BIN_NS = 10_000_000
PATTERN = bytes(range(251))  # a prime: no alignment hides a shift


class LocalClient(Client):
    """Workers are threads; each repeats its operation until the deadline."""

    op = ""

    def prepare(self) -> None:
        self.size, self.workers = self.job.point.axes["object_size"], self.job.point.axes["workers"]
        self.rows: list[tuple[int, int, int]] = []  # worker, count, end in ns
        self.body = (PATTERN * (self.size // len(PATTERN) + 1))[: self.size]
        self.buffers: list[Any] = []  # where reads and copies end
        self.operations = [self.operation(i) for i in range(self.workers)]
        for operation in self.operations:
            operation()

    @abstractmethod
    def operation(self, worker: int) -> Callable[[], object]:
        """What this worker repeats."""

    def moved(self) -> bool:
        """Whether what the operations left is what it should be."""
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
                Check("something moved", n > 0, f"{sum(counts)} operations"),
                Check("content", self.moved(), "what was moved last"),
            ],
        )

    def close(self) -> None:
        shutil.rmtree(self.job.scratch, ignore_errors=True)


class MemoryCopy(LocalClient):
    """From one array to another, of the worker's own."""

    op = "COPY"

    def operation(self, worker: int) -> Callable[[], object]:
        import numpy as np

        source, target = np.frombuffer(self.body, np.uint8), np.zeros(self.size, np.uint8)
        self.buffers.append(target)
        return lambda: np.copyto(target, source)


class FileClient(LocalClient):
    """Files of each worker in a folder of the client's own."""

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


CLIENTS = {"copy": MemoryCopy, "write": FileWrite, "read": FileRead}  # of an operation

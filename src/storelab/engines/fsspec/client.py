"""Engine `fsspec`, common part: put, get, get_range by one interface on S3, HTTP, root://, WebHDFS and local files.

Each operation is one call of the file system (`cat_file`, `pipe_file`), timed around it: a record has `start_ns` and
`end_ns`, but no time of the first byte, which fsspec does not report. Asynchronous file systems (s3fs, http) run their
operations as tasks of one loop; the others (root://, WebHDFS, local files) in threads, each with its own file system.
Retries are off.
"""

import asyncio
import os
import shutil
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import version
from typing import Any, NamedTuple

from storelab.core import clock
from storelab.engines.common.error_classes import classify
from storelab.engines.common.guard import Guard, LimitExceeded
from storelab.engines.contract import Check, Client, Result
from storelab.host import proc
from storelab.stores.protocols import filesystems

ASYNCHRONOUS = ("s3", "http")
DISTRIBUTION = {"s3": "s3fs", "http": "fsspec", "root": "fsspec-xrootd", "webhdfs": "fsspec", "file": "fsspec"}
REQUESTS = {"s3": 1, "http": 1}  # per operation; not known for other protocols
KEPT, KEPT_BYTES = 16, 200_000_000  # answers kept for the content check


class Transfer(NamedTuple):
    """One operation to do. key: for the record; path: in the file system; body: index; begin, end: bytes, or None."""

    key: str
    path: str
    body: int
    begin: int | None = None
    end: int | None = None


class FsspecClient(Client):
    """Common part: workers take tasks from an endless list until the deadline. A record takes 6 numbers in memory."""

    op = ""

    def prepare(self) -> None:
        point = self.job.point
        self.size, self.workers = point.axes["object_size"], point.axes["workers"]
        self.endpoint = self.job.endpoint
        self.guard = Guard(self.job.limits, point.axes["clients"])
        self.asynchronous = self.endpoint.protocol in ASYNCHRONOUS
        self.lock = threading.Lock()
        self.rows: list[tuple[int, str, int, int, int, int | None, str | None]] = []
        self.kept: list[tuple[Transfer, bytes]] = []
        self.messages: dict[str, str] = {}
        self.samples: list[tuple[int, int]] = []
        self.most_kept = max(2, min(KEPT, KEPT_BYTES // max(self.size, 1)))
        self.stop: BaseException | None = None
        self.moved = self.failed = self.cut_off = 0
        self.job.scratch.mkdir(parents=True, exist_ok=True)
        self.prepare_tasks()
        # This takes the imports, certificates and first connection out of the measurement. The answer does not matter.
        question = filesystems.path(self.endpoint, self.job.own_buckets[0])
        if self.asynchronous:
            self.loop = asyncio.new_event_loop()
            self.fs = self.loop.run_until_complete(self._connect(question))
            return
        self.systems = [filesystems.data(self.endpoint, os.environ, 1) for _ in range(self.workers)]
        with suppress(Exception):
            self.systems[0].info(question)

    async def _connect(self, question: str) -> Any:
        fs = filesystems.data(self.endpoint, os.environ, self.workers, asynchronous=True)
        self.session = await fs.set_session()
        with suppress(Exception):
            await fs._info(question)
        return fs

    @abstractmethod
    def prepare_tasks(self) -> None:
        """Read the manifest, or the bodies to upload."""

    @abstractmethod
    def tasks(self) -> Iterator[Transfer]:
        """Endless; called under the lock."""

    @abstractmethod
    def do(self, fs: Any, task: Transfer) -> bytes | None:
        """The operation itself, blocking."""

    @abstractmethod
    async def ado(self, fs: Any, task: Transfer) -> bytes | None:
        """The operation itself, as a coroutine."""

    @abstractmethod
    def judge(self, task: Transfer, answer: bytes | None) -> int:
        """Useful bytes. Raises WrongAnswer if the length is not what was asked for."""

    def run(self, start_ns: int, deadline_ns: int) -> None:
        self.stream, self.deadline_ns = self.tasks(), deadline_ns
        sampler = threading.Thread(target=self._sample, daemon=True)
        sampler.start()
        if self.asynchronous:
            self.loop.run_until_complete(self._run_async())
        else:
            with ThreadPoolExecutor(self.workers) as pool:
                list(pool.map(self._work, range(self.workers)))
        if self.stop:
            raise self.stop

    def _work(self, worker: int) -> None:
        """One thread. Operations in flight at the deadline are finished, then cut off: nothing can interrupt them."""
        fs = self.systems[worker]
        while clock.now_ns() < self.deadline_ns and self.stop is None:
            with self.lock:
                task = next(self.stream)
            begun = clock.now_ns()
            try:
                answer, error = self.do(fs, task), None
            except Exception as caught:  # noqa: BLE001 - whatever a library raises is a failed operation
                answer, error = None, caught
            self._note(worker, task, begun, answer, error)

    async def _run_async(self) -> None:
        workers = [asyncio.create_task(self._work_async(self.fs, i)) for i in range(self.workers)]
        _, late = await asyncio.wait(workers, timeout=max(0.0, (self.deadline_ns - clock.now_ns()) / 1e9))
        for task in late:
            task.cancel()
        self.cut_off += len(late)
        await asyncio.gather(*workers, return_exceptions=True)

    async def _work_async(self, fs: Any, worker: int) -> None:
        while clock.now_ns() < self.deadline_ns and self.stop is None:
            task = next(self.stream)
            begun = clock.now_ns()
            try:
                answer, error = await self.ado(fs, task), None
            except Exception as caught:  # noqa: BLE001 - whatever a library raises is a failed operation
                answer, error = None, caught
            self._note(worker, task, begun, answer, error)

    def _note(self, worker: int, task: Transfer, begun: int, answer: bytes | None, error: Exception | None) -> None:
        ended = clock.now_ns()
        moved, status, kind = 0, None, None
        try:
            if error:
                raise error
            moved = self.judge(task, answer)
        except Exception as caught:  # noqa: BLE001
            kind, status = classify(caught)
            self.messages.setdefault(kind, f"{type(caught).__name__}: {caught}"[:300])
        with self.lock:
            if ended > self.deadline_ns:
                self.cut_off += 1
                return
            self.rows.append((worker, task.key, moved, begun, ended, status, kind))
            self.moved += moved
            self.failed += kind is not None
            if kind is None and answer is not None:
                if len(self.kept) < self.most_kept:
                    self.kept.append((task, answer))
                else:
                    self.kept[len(self.rows) % self.most_kept] = (task, answer)
            try:
                self.guard.observe(ended, self.moved, len(self.rows), len(self.rows) - self.failed, self.failed)
            except LimitExceeded as limit:
                first = next(iter(self.messages.values()), "")
                self.stop = LimitExceeded(f"{limit}{': ' if first else ''}{first}")

    def _sample(self) -> None:
        """Count this process's open sockets five times a second."""
        while clock.now_ns() < self.deadline_ns:
            self.samples.append((clock.now_ns(), proc.sockets(os.getpid()) or 0))
            time.sleep(max(0.0, min(0.2, (self.deadline_ns - clock.now_ns()) / 1e9)))

    def result(self) -> Result:
        columns = list(zip(*self.rows, strict=True)) or [[] for _ in range(7)]
        workers, keys, moved, begun, ended, statuses, errors = columns
        n = len(self.rows)
        ops = {
            "client": [self.job.client] * n,
            "worker": workers,
            "op": [self.op] * n,
            "object": keys,
            "count": [1] * n,
            "bytes": moved,
            "wire_bytes": [None] * n,
            "requests": [None] * n,
            "start_ns": begun,
            "first_byte_ns": [None] * n,
            "end_ns": ended,
            "status": statuses,
            "error": errors,
            "latency_hist": [None] * n,
        }
        good = n - self.failed
        library = DISTRIBUTION[self.endpoint.protocol]
        engine = {
            "name": "fsspec",
            "version": f"{library} {version(library)}, fsspec {version('fsspec')}",
            "settings": {
                "protocol": self.endpoint.protocol,
                "workers": self.workers,
                "retries": 0,
                "pool": self.workers,
            },
            "requests_per_operation": {self.op: REQUESTS.get(self.endpoint.protocol)},
            "errors": self.messages,
            "cut_off": self.cut_off,
        }
        first = next(iter(self.messages.values()), "")
        checks = [Check("something moved", good > 0, first or f"{good} operations"), self.check_content()]
        most = max((count for _, count in self.samples), default=None)
        return Result(ops, engine=engine, checks=checks, connections={"max": most, "samples": self.samples})

    @abstractmethod
    def check_content(self) -> Check: ...

    def close(self) -> None:
        if getattr(self, "loop", None) is not None:
            with suppress(Exception):
                self.loop.run_until_complete(self.session.close())
            self.loop.close()
        shutil.rmtree(self.job.scratch, ignore_errors=True)

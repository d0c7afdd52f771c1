"""Engine `fsspec`: put, get and get_range through one interface to S3, HTTP, root://, WebHDFS and local files.

Each operation is one call of the file system (`cat_file`, `pipe_file`), and the time of this call is measured. A record
has `start_ns` and `end_ns`, but no time of the first byte, because fsspec does not report it. Asynchronous file systems
(s3fs, http) run operations as tasks of one event loop. For others (root://, WebHDFS, local files), each worker is a
thread with a separate file system. Retries are off.
"""

import asyncio
import hashlib
import itertools
import os
import socket
import threading
from abc import abstractmethod
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from threading import Lock
from typing import Any, NamedTuple

from readplan.transports import WrongAnswer
from storelab.core import clock
from storelab.core.records import HUNG
from storelab.engines.common import ledger
from storelab.engines.common.error_classes import classify, error_message
from storelab.engines.common.guard import LimitExceeded
from storelab.engines.common.objects import put_key, range_begins, read_once, staged_objects
from storelab.engines.common.timing import IN_FLIGHT, Watch, drain_s
from storelab.engines.common.transfers import SAMPLE_NS, TransferClient, orders
from storelab.engines.contract import Check, Job, Result
from storelab.host import proc
from storelab.stores.protocols import filesystems

ASYNCHRONOUS = ("s3", "http")
DISTRIBUTION = {"s3": "s3fs", "http": "fsspec", "root": "fsspec-xrootd", "webhdfs": "fsspec", "file": "fsspec"}
REQUESTS = {"s3": 1, "http": 1}  # number of requests per operation; unknown for other protocols
KEPT, KEPT_BYTES = 16, 200_000_000  # maximum number and bytes of the answers that are kept for the content check


@cache
def is_local(host: str) -> bool:
    """Return True if an address belongs to the host, or network namespace, of this process."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind((host, 0))
        return True
    except OSError:  # the address of another host, or a name that cannot be resolved
        return False


class ServerReads:
    """The number of operations and the bytes of each server (host:port). Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])

    def add(self, server: str, size: int) -> None:
        with self._lock:
            count = self._counts[server]
            count[0] += 1
            count[1] += size

    def record(self) -> list[dict[str, Any]]:
        """Return server, operations, bytes and `local` of each server, sorted by server.

        `local` is True if the server is on the client's host.
        """
        return [
            {"server": server, "operations": n, "bytes": size, "local": is_local(server.rpartition(":")[0].strip("[]"))}
            for server, (n, size) in sorted(self._counts.items())
        ]


def data_server(file: Any) -> str:
    """Return the data server of an open file of XRootD's client, or '' if unknown."""
    return str(file.get_property("DataServer") or "")


def data_server_of_read(fs: Any, path: str) -> str:
    """Return the data server of the last `cat_file` of fsspec-xrootd, which keeps the last file open."""
    item = fs._readonly_filehandle_cache._cache.get(fs.unstrip_protocol(path))
    return data_server(item.handle) if item else ""


class Transfer(NamedTuple):
    """One operation to do.

    Attributes
    ----------
    key
        Object name for the record.
    path
        Path in the file system.
    body
        Index of the payload body.
    begin, end
        Range in bytes, or None for the whole object.
    number
        Number of the key, for the ledger.
    """

    key: str
    path: str
    body: int
    begin: int | None = None
    end: int | None = None
    number: int = 0


class FsspecClient(TransferClient):
    """The base class of the clients of this engine. Workers take tasks until the deadline.

    An operation needs the memory of six numbers.
    """

    engine = "fsspec"
    book: ledger.Book | None = None

    def __init__(self, job: Job):
        super().__init__(job)
        self.endpoint = job.endpoint
        self.asynchronous = self.endpoint.protocol in ASYNCHRONOUS
        self.lock = threading.Lock()
        self.rows: list[tuple[int, str, int, int, int, int | None, str | None]] = []
        self.kept: deque[tuple[Transfer, bytes]] = deque(maxlen=max(2, min(KEPT, KEPT_BYTES // max(self.size, 1))))
        self.loop: asyncio.AbstractEventLoop | None = None
        self.stop: LimitExceeded | None = None
        self.moved = self.failed = 0
        self.flying: dict[int, tuple[Transfer, int]] = {}  # task in flight and its start (ns), by worker
        self.closed = False
        self.server_reads = ServerReads()  # by the data servers to which clients were redirected

    def prepare(self) -> None:
        self.prepare_tasks()
        # Imports, certificates and the first connection must not be measured. The answer is not used.
        question = filesystems.path(self.endpoint, self.job.account_buckets[0])
        if self.asynchronous:
            self.loop = asyncio.new_event_loop()
            self.systems = [self.loop.run_until_complete(self._connect(question))]
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
        """Yield tasks, without end unless each object is read once. The caller holds the lock."""

    @abstractmethod
    async def do(self, fs: Any, task: Transfer) -> bytes | None:
        """Perform the operation. This blocks if the file system is not asynchronous."""

    @abstractmethod
    def judge(self, task: Transfer, answer: bytes | None) -> int:
        """Return the useful bytes of an answer. Raises WrongAnswer if the length is wrong."""

    def run(self, start_ns: int, deadline_ns: int) -> None:
        self.stream, self.deadline_ns = self.tasks(), deadline_ns
        self.last_ns = deadline_ns + int(drain_s(deadline_ns - start_ns) * 1e9)
        threading.Thread(target=self._sample, daemon=True).start()
        watch = Watch()
        watch.start()
        if self.loop is not None:
            self.loop.run_until_complete(self._together())
        else:
            threads = [
                threading.Thread(target=lambda i=i: asyncio.run(self._work(i)), daemon=True)
                for i in range(self.workers)
            ]
            for t in threads:
                t.start()
            for t in threads:
                t.join(max(0.0, (self.last_ns - clock.now_ns()) / 1e9))
        self.pauses = watch.stop()
        with self.lock:  # a thread cannot be interrupted, so its later operations are not recorded
            self.closed = True
        if self.stop:
            raise self.stop
        # Operations that are still in flight count as hung.
        begins = [begun for _, begun in self.flying.values()]
        self.hung = {"hung": len(begins), "hung_s": sum(max(0, self.deadline_ns - b) for b in begins) / 1e9}
        if begins:
            self.messages.setdefault(HUNG, IN_FLIGHT)
        for worker, (task, begun) in self.flying.items():
            self.rows.append((worker, task.key, 0, begun, self.last_ns, None, HUNG))

    async def _together(self) -> None:
        """Run all workers in one event loop. Operations that are in flight after the drain time are cancelled."""
        workers = [asyncio.create_task(self._work(i)) for i in range(self.workers)]
        _, late = await asyncio.wait(workers, timeout=max(0.0, (self.last_ns - clock.now_ns()) / 1e9))
        self.closed = True
        for task in late:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, worker: int) -> None:
        """Run one worker: a task of the event loop, or a thread with a separate file system."""
        fs = self.systems[worker % len(self.systems)]
        note, acknowledged = self.book.writer(worker) if self.book else (None, None)
        while self.stop is None:
            with self.lock:
                task = next(self.stream, None)
            if (
                task is None or (begun := clock.now_ns()) >= self.deadline_ns
            ):  # only one reading of the clock, because the lock or another thread can take time
                return
            if note:
                try:
                    note(task.number, 1, ledger.NEW, begun)
                except LimitExceeded as limit:  # a request that cannot be recorded in the ledger is not sent
                    self.stop = limit
                    return
            self.flying[worker] = task, begun
            answer, moved, status, kind = None, 0, None, None
            try:
                answer = await self.do(fs, task)
                moved = self.judge(task, answer)
                if acknowledged:
                    acknowledged(clock.now_ns())
            except Exception as error:  # noqa: BLE001 - any error of a library is a failed operation
                kind, status = classify(error)
                self.messages.setdefault(kind, error_message(error))
            row = (worker, task.key, moved, begun, clock.now_ns(), status, kind)
            with self.lock:
                if self.closed:
                    return
                del self.flying[worker]
                self._note(row, task, answer)

    def _note(self, row: tuple[Any, ...], task: Transfer, answer: bytes | None) -> None:
        _, _, moved, _, ended, _, kind = row
        self.rows.append(row)
        self.moved += moved
        self.failed += kind is not None
        if kind is None and answer is not None:
            self.kept.append((task, answer))
        try:
            self.guard.observe(ended, self.moved, len(self.rows), len(self.rows) - self.failed, self.failed)
        except LimitExceeded as limit:
            self.stop = limit.because(self.messages.values())

    def _sample(self) -> None:
        """Count the open connections five times a second."""
        while (now := clock.now_ns()) < self.deadline_ns:
            self.samples.append((now, self.open_connections()))
            clock.sleep_until(min(now + SAMPLE_NS, self.deadline_ns))

    def open_connections(self) -> int:
        return proc.sockets(os.getpid()) or 0

    def result(self) -> Result:
        columns = list(zip(*self.rows, strict=True)) or [[] for _ in range(7)]
        names = ("worker", "object", "bytes", "start_ns", "end_ns", "status", "error")
        n = len(self.rows)
        ops = {"client": [self.job.number] * n, "op": [self.op] * n, "count": [1] * n}
        ops |= dict(zip(names, columns, strict=True))
        versions, settings, requests = self.described()
        return self.outcome(
            ops,
            n - self.failed - self.hung["hung"],
            versions,
            settings,
            requests,
            [self.check_content()],
            **self.hung,
            pauses=self.pauses,
            **({"servers": servers} if (servers := self.server_reads.record()) else {}),
        )

    def described(self) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """Return the versions, the settings, and the number of requests per operation."""
        protocol = self.endpoint.protocol
        library = DISTRIBUTION[protocol]
        versions = f"{library} {version(library)}, fsspec {version('fsspec')}"
        return versions, {"protocol": protocol, "pool": self.workers}, {self.op: REQUESTS.get(protocol)}

    @abstractmethod
    def check_content(self) -> Check: ...

    def close(self) -> None:
        if self.loop is not None:
            with suppress(Exception):
                self.loop.run_until_complete(self.session.close())
            self.loop.close()
        super().close()


class FsspecPut(FsspecClient):
    """A client that uploads bodies from memory to new keys, in the account's buckets in turn."""

    op = "PUT"

    def prepare_tasks(self) -> None:
        self.bodies = [f.read_bytes() for f in self.body_files()]
        if self.job.point.axes.get("ledger") == "kept":
            self.book = ledger.Book(ledger.begin(self.job, rewritten=False))
        # Above twice its chunk size, s3fs uploads in parts. A server without multipart uploads gets a single PUT.
        parts = {"max_concurrency": 1} | ({} if self.endpoint.multipart else {"chunksize": max(self.size, 1)})
        self.single_put = parts if self.endpoint.protocol == "s3" else {}
        if self.endpoint.protocol in ("file", "webhdfs", "root"):
            fs = filesystems.data(self.endpoint, os.environ, 1)
            # Each client uses a separate folder, like the jobs of an experiment.
            for bucket in self.job.account_buckets:
                first = filesystems.path(self.endpoint, bucket, put_key(self.job.attempt, self.job.client, 0))
                fs.makedirs(first.rpartition("/")[0], exist_ok=True)

    def tasks(self) -> Iterator[Transfer]:
        for n in itertools.count():
            to = self.upload(n)
            yield Transfer(to.key, filesystems.path(self.endpoint, to.place, to.name), to.body, number=n)

    async def do(self, fs: Any, task: Transfer) -> None:
        body = self.bodies[task.body]
        if self.asynchronous:
            await fs._pipe_file(task.path, body, **self.single_put)
        elif self.endpoint.protocol == "root":  # fsspec-xrootd has no pipe_file
            with fs.open(task.path, "wb") as f:
                f.write(body)
                server = data_server(f._myFile)
            self.server_reads.add(server, len(body))
        else:
            fs.pipe_file(task.path, body)

    def judge(self, task: Transfer, answer: bytes | None) -> int:
        return self.size

    def check_content(self) -> Check:
        # The coordinator lists the uploaded objects, and reads them back to compare them.
        return Check(
            "bodies", all(len(b) == self.size for b in self.bodies), f"{len(self.bodies)} bodies of {self.size} B"
        )


class FsspecGet(FsspecClient):
    """A client that downloads whole staged objects, in an order that differs between clients."""

    op = "GET"

    def prepare_tasks(self) -> None:
        self.manifest, staged = staged_objects(self.job)
        self.objects = [Transfer(o.key, filesystems.path(self.endpoint, o.place, o.name), o.body) for o in staged]
        # Otherwise s3fs first requests the size of whole objects, and splits large objects into ranges.
        self.single_get = {"max_concurrency": 1} if self.endpoint.protocol == "s3" else {}

    def tasks(self) -> Iterator[Transfer]:
        return orders(self.objects, self.rng(), read_once(self.job))

    async def do(self, fs: Any, task: Transfer) -> bytes:
        if self.asynchronous:
            return await fs._cat_file(task.path, start=task.begin, end=task.end, **self.single_get)
        body = fs.cat_file(task.path, start=task.begin or 0, end=self.size if task.end is None else task.end)
        if self.endpoint.protocol == "root":
            self.server_reads.add(data_server_of_read(fs, task.path), len(body))
        return body

    def judge(self, task: Transfer, answer: bytes | None) -> int:
        got, wanted = len(answer or b""), self.size if task.begin is None else task.end - task.begin
        if got != wanted:
            raise WrongAnswer(f"the answer has {got} B instead of {wanted} B")
        return got

    def check_content(self) -> Check:
        """Compare the SHA-256 of the kept answers with the manifest."""
        self.compared = len(self.kept)
        sums = [body["sha256"] for body in self.manifest["bodies"]]
        good = sum(hashlib.sha256(answer).hexdigest() == sums[task.body] for task, answer in self.kept)
        return Check(
            "content", 0 < good == len(self.kept), f"{good} of {len(self.kept)} answers have the right SHA-256"
        )


class FsspecGetRange(FsspecGet):
    """A client that downloads one range of `range_size` bytes of a staged object per request."""

    op = "GET_RANGE"

    def prepare_tasks(self) -> None:
        super().prepare_tasks()
        self.length = self.job.point.axes["range_size"]
        self.bodies = [f.read_bytes() for f in self.body_files(self.manifest["dataset"]["seed"])]

    def tasks(self) -> Iterator[Transfer]:
        rng = self.rng()
        for task in orders(self.objects, rng, read_once(self.job)):
            for begin in range_begins(self.job.point.axes["offset"], self.size, self.length, rng):
                yield task._replace(begin=begin, end=begin + self.length)

    def check_content(self) -> Check:
        """Compare the kept answers with the bodies. A wrong offset or a whole object is an error."""
        self.compared = len(self.kept)
        good = sum(answer == self.bodies[task.body][task.begin : task.end] for task, answer in self.kept)
        return Check("content", 0 < good == len(self.kept), f"{good} of {len(self.kept)} ranges have the right bytes")

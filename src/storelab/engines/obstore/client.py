"""Engine `obstore`, common part: S3 by the Rust library object_store, in process, from memory, each operation timed.

A client has one process for each core of its share, each with at least 4 workers. Each process runs a `Loop` of
threads. For small requests, threads with blocking calls need half the CPU of asyncio, and obstore releases the lock of
the interpreter while it waits. After large objects, the interpreter sometimes aborts at exit. Therefore each process
first writes its results to a file, and then ends by `os._exit`.

Retries are off. A PUT is one request unless the axis `part_size` is set. Payloads are not signed (`UNSIGNED-PAYLOAD`),
so the client does not hash content. There is one connection per operation in flight, because the library has no limit.
"""

import contextlib
import importlib.metadata
import itertools
import multiprocessing
import os
import signal
import threading
import time
from abc import abstractmethod
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, NamedTuple

from storelab.core import clock
from storelab.core.errors import MeasurementFailed, lacks_processes, memory_error, process_error
from storelab.core.model import derive_seed
from storelab.core.records import HUNG
from storelab.engines.common import bins, ledger
from storelab.engines.common.error_classes import classify, error_message
from storelab.engines.common.guard import EVERY_NS, Guard, LimitExceeded, ProgressWriter
from storelab.engines.common.timing import IN_FLIGHT, ClosedLoop, OpenLoop, Poisson, Watch, drain_s, merge_pauses
from storelab.engines.common.transfers import SAMPLE_NS, TransferClient
from storelab.engines.contract import Check, Job, Result
from storelab.host import proc, processes
from storelab.stores.protocols import s3_clients
from storelab.stores.protocols.endpoint import Bucket

# for the content check, a worker's first and every 64th answer is kept, within these limits of number and bytes
KEPT, KEPT_BYTES, EVERY = 16, 200_000_000, 64
COLUMNS = ("worker", "object", "count", "bytes", "requests", "start_ns", "first_byte_ns", "end_ns", "intended_ns")
FAILED = ("status", "error")  # HTTP status; and 0, or 1 + the index of the error class in `messages`
MIN_WORKERS = 4  # minimum number of workers per process: a thread needs less memory and CPU than a process
GRACE_S = 30.0  # time after the drain to write the results
READ_TIMEOUT = "30s"
# minimum bytes of a chunk: with larger values, the library first assembles the chunks, which are then discarded
ANY_CHUNK = 1


class Task(NamedTuple):
    """One operation to do.

    key is the index in the client's list of object names, or -1. bucket is the index of the bucket.
    """

    key: int
    bucket: int
    path: str
    body: int = 0
    begin: int = 0
    end: int = 0
    paths: tuple[str, ...] = ()
    count: int = 1  # number of objects, also if the operation fails
    note: tuple[int, int, int] = (0, 0, 0)  # for the ledger: number of the key, generation, kind of write
    slot: Any = None  # place of the object, which is notified when the operation is acknowledged
    given: Any = None  # for a mix: the planned operation of its population


class Outcome(NamedTuple):
    """The result of an operation.

    It has the number of objects, the useful bytes, the time when the head of the answer arrived (ns; 0: unknown), and
    the content if it is kept.
    """

    count: int
    size: int
    first_ns: int
    content: bytes | None = None


Operation = Callable[[Task, bool], Outcome]


@dataclass
class Loop:
    """The part of a client that runs in one process: worker numbers, an operation, and the tasks of each worker."""

    operation: Operation
    tasks: Callable[[int], Iterator[Task]]  # number of a worker -> its tasks, endless or finite
    workers: list[int]
    size: int  # size of an object in bytes, which limits the number of kept answers
    requests: int  # HTTP requests of one operation
    guard: Guard
    book: ledger.Book | None = None
    progress_file: Path | None = None
    messages: dict[str, str] = field(default_factory=dict)
    stop: LimitExceeded | None = None
    closed: bool = False

    def run(self, start_ns: int, deadline_ns: int, arrivals: ClosedLoop | OpenLoop) -> None:
        """Work until the deadline, and then wait for operations in flight. Raises LimitExceeded.

        Operations that are still in flight after the drain time count as hung.
        """
        self.lock, self.locks = threading.Lock(), [threading.Lock() for _ in self.workers]
        self.parts = [{name: array("q") for name in COLUMNS + FAILED} for _ in self.workers]
        most = max(1, min(KEPT, KEPT_BYTES // max(self.size, 1)))
        self.kept: deque[tuple[Task, bytes]] = deque(maxlen=most)
        self.busy: list[tuple[Task, int, int] | None] = [None] * len(self.workers)  # task, start and due time (ns)
        self.moved = self.operations = self.failed = 0
        numbers = range(len(self.workers))
        threads = [threading.Thread(target=self._work, args=(i, arrivals), daemon=True) for i in numbers]
        clock.sleep_until(start_ns)
        for t in threads:
            t.start()
        if self.progress_file:
            threading.Thread(
                target=self._write_progress, args=(ProgressWriter(self.progress_file),), daemon=True
            ).start()
        last_ns = deadline_ns + int(drain_s(deadline_ns - start_ns) * 1e9)
        for t in threads:
            t.join(max(0.0, (last_ns - clock.now_ns()) / 1e9))
        self.closed = True
        for lock in self.locks:  # operations that end later are not recorded
            lock.acquire()
        if self.stop:
            raise self.stop
        flying = [(i, *task) for i, task in enumerate(self.busy) if task]
        self.hung = {"hung": len(flying), "hung_s": sum(max(0, deadline_ns - begun) for *_, begun, _ in flying) / 1e9}
        if flying:
            self.messages.setdefault(HUNG, IN_FLIGHT)
            error = list(self.messages).index(HUNG) + 1
        for i, task, begun, due in flying:
            times, moved = (begun, 0, last_ns, due), (task.count, 0, self.requests)
            values = (self.workers[i], task.key, *moved, *times, 0, error)
            for column, value in zip(self.parts[i].values(), values, strict=True):
                column.append(value)

    def _work(self, i: int, arrivals: ClosedLoop | OpenLoop) -> None:
        worker, appends = self.workers[i], [column.append for column in self.parts[i].values()]
        tasks, now = self.tasks(worker), clock.now_ns
        begin, acknowledged = self.book.writer(worker) if self.book else (None, None)
        for n in itertools.count():
            if self.stop is not None or (task := next(tasks, None)) is None or (turn := arrivals.next()) is None:
                return
            due, begun = turn
            self.busy[i] = (task, begun, due)
            status = error = 0
            try:
                if begin:
                    begin(*task.note, begun)
                done = self.operation(task, n % EVERY == 0)
            except LimitExceeded as limit:
                self.stop = limit
                return
            except Exception as caught:  # noqa: BLE001 - any error of the library is a failed operation
                kind, status = classify(caught)
                self.messages.setdefault(kind, error_message(caught))
                error, done = list(self.messages).index(kind) + 1, Outcome(task.count, 0, 0)
            ended = now()
            if acknowledged and not error:
                acknowledged(ended)
            times = (begun, done.first_ns, ended, due)
            values = (worker, task.key, done.count, done.size, self.requests, *times, status, error)
            with self.locks[i]:
                if self.closed:
                    return
                if done.content is not None:
                    self.kept.append((task, done.content))
                for append, value in zip(appends, values, strict=True):
                    append(value)
                self.busy[i] = None
            if self.guard.active:
                self._watch(ended, done.size, error > 0)

    def _write_progress(self, writer: ProgressWriter) -> None:
        """Write the totals of all workers regularly, in a separate thread, so that no operation waits for it."""
        seen, operations, errors, moved = [0] * len(self.parts), 0, 0, 0
        while not self.closed:
            for i, part in enumerate(self.parts):
                rows = slice(seen[i], len(part["error"]))  # `error` is the column that is filled last
                counts, kinds = part["count"][rows], part["error"][rows]
                failed = sum(n for n, error in zip(counts, kinds, strict=True) if error)
                operations, errors = operations + sum(counts) - failed, errors + failed
                moved += sum(part["bytes"][rows])
                seen[i] = rows.stop
            writer.note(clock.now_ns(), operations, errors, moved)
            time.sleep(EVERY_NS / 1e9)

    def _watch(self, now_ns: int, size: int, failed: bool) -> None:
        with self.lock:
            self.moved += size
            self.operations += 1
            self.failed += failed
            try:
                self.guard.observe(
                    now_ns, self.moved, self.operations * self.requests, self.operations - self.failed, self.failed
                )
            except LimitExceeded as limit:
                self.stop = limit.because(self.messages.values())

    def save(self, path: Path) -> None:
        """Write the columns of all threads, each of shape (operations,), as one .npz file."""
        import numpy as np

        names = COLUMNS + FAILED
        np.savez(path, **{n: np.concatenate([np.frombuffer(p[n], np.int64) for p in self.parts]) for n in names})


class ObstoreClient(TransferClient):
    """A client that forks its processes in `prepare`, releases them at the start, and collects their columns."""

    engine = "obstore"
    multi_delete = False  # True to delete several keys per request
    store_per_bucket = False  # True for requests to a bucket itself
    ledger: Path | None = None  # file in which writes are recorded
    performs: tuple[str, ...] = ()  # operations, if the client performs several kinds

    def __init__(self, job: Job):
        super().__init__(job)
        axes = job.point.axes
        self.endpoint, self.parallel = job.endpoint, self.parallel or 1
        self.clients, self.arrival_rate = axes["clients"], axes.get("arrival_rate", 0)
        cores = len(os.sched_getaffinity(0)) // self.clients
        self.processes = max(1, min(cores, self.workers // MIN_WORKERS))
        self.children: list[tuple[ForkProcess, Connection]] = []

    def prepare(self) -> None:
        import obstore

        self.obstore = obstore
        self.prepare_tasks()
        fork = multiprocessing.get_context("fork")
        self.times = fork.SimpleQueue()  # start and deadline, once for each process
        for i in range(self.processes):
            here, there = fork.Pipe(duplex=False)  # duplex pipes are sockets, which `samples` would count
            child = fork.Process(target=self._child, args=(i, there))
            child.start()
            there.close()
            self.children.append((child, here))
        for _, pipe in self.children:
            self._receive(pipe, GRACE_S)

    @staticmethod
    def _receive(pipe: Connection, wait_s: float) -> Any:
        """Return the next message of a process.

        Raises the error of the process, or MeasurementFailed if it sends no message.
        """
        try:
            message = pipe.recv() if pipe.poll(wait_s) else MeasurementFailed("it did not answer in time")
        except EOFError:
            message = MeasurementFailed("it ended unexpectedly")
        if isinstance(message, MeasurementFailed):
            raise MeasurementFailed(f"a process of the engine obstore failed: {message}")
        if isinstance(message, LimitExceeded):
            raise message
        return message

    @abstractmethod
    def prepare_tasks(self) -> None:
        """Read the manifest, or the bodies to upload, before the processes are forked."""

    @abstractmethod
    def tasks(self, worker: int) -> Iterator[Task]:
        """Return the tasks of one worker (0 … workers - 1), endless or finite."""

    @abstractmethod
    def do(self, task: Task, keep: bool) -> Outcome:
        """Perform the operation, and block until it ends. Raises WrongAnswer.

        keep: True to return the content too.
        """

    def download(self, task: Task, keep: bool, part: tuple[int, int] | None = None) -> tuple[int, list[bytes], int]:
        """Send one request, and return the arrival time of the answer's head (ns), the kept chunks, and the bytes.

        part: the range (begin, end) to download; without it, the whole object.
        """
        options = None if part is None else {"range": part}
        # returns after the head of the answer
        answer = self.obstore.get(self.stores[task.bucket], task.path, options=options)
        first, size, chunks = clock.now_ns(), 0, []
        for chunk in answer.stream(min_chunk_size=ANY_CHUNK):
            size += len(chunk)
            if keep:
                chunks.append(bytes(chunk))
        return first, chunks, size

    @abstractmethod
    def names(self, keys: Any) -> list[str | None]:
        """Return the object names of operations. keys: `Task.key` of each operation, shape (n,)."""

    def operations(self, keys: Any) -> Any:
        """Return the operation of all tasks, or an array with one operation per task. keys: `Task.key` of each task."""
        return self.op

    @abstractmethod
    def requests(self) -> int:
        """Return the number of HTTP requests of one operation."""

    def more(self) -> dict[str, Any]:
        """Return additional values that a process reports when it ends."""
        return {}

    def verify(self, kept: list[tuple[Task, bytes]]) -> tuple[int, str]:
        """Return the number of correct kept answers, and a description. Runs in the process that kept them."""
        return 0, ""

    def open(self) -> None:
        """Make one store per account or bucket, and open a first connection of each account.

        It runs in a process of the engine. The first connections are not measured.
        """
        buckets = self.job.buckets
        # `timeout` limits the whole operation; `read_timeout` ends an operation without an answer
        waits = {"read_timeout": READ_TIMEOUT, "timeout": "24h"}
        options = {"unsigned_payload": True, "disable_bulk_delete": not self.multi_delete}
        if self.multi_delete or self.store_per_bucket or self.endpoint.addressing == "virtual":
            self.stores = [s3_clients.store(self.endpoint, b.name, waits, self._further(b), **options) for b in buckets]
            self.paths = ["" for _ in buckets]
        else:
            each = dict.fromkeys(map(self._further, buckets))
            by_account = {a: s3_clients.store(self.endpoint, None, waits, a, **options) for a in each}
            self.stores = [by_account[self._further(b)] for b in buckets]
            self.paths = [f"{b.name}/" for b in buckets]
        for bucket_index in {buckets[i].account: i for i in reversed(self.bucket_indices)}.values():
            with contextlib.suppress(Exception):  # the answer is not used
                self.obstore.head(
                    self.stores[bucket_index], f"{self.paths[bucket_index]}{buckets[bucket_index].prefix}storelab-hello"
                )

    def _further(self, bucket: Bucket) -> int | None:
        """Return the account of a bucket if the client needs the keys of a further account for it, otherwise None."""
        return bucket.account if bucket.account in self.job.accounts[1:] else None

    def _child(self, index: int, pipe: Connection) -> None:
        """Run one process of the engine. It sends `ready`, and then its results or its error."""
        processes.die_with_parent()()
        for ending in (signal.SIGTERM, signal.SIGHUP):  # the handlers of the client raise SystemExit
            signal.signal(ending, signal.SIG_DFL)
        try:
            pipe.send(self._work(index, pipe))
        except LimitExceeded as limit:
            pipe.send(limit)
        except MemoryError:
            pipe.send(MeasurementFailed(str(memory_error())))
        except BaseException as error:  # noqa: BLE001 - the client reports any error
            text = str(process_error()) if lacks_processes(error) else f"{type(error).__name__}: {error}"
            pipe.send(MeasurementFailed(text[:500]))
        finally:
            os._exit(0)  # skips the interpreter's shutdown (see the module's docstring)

    def _work(self, index: int, pipe: Connection) -> dict[str, Any]:
        self.open()
        stride = self.clients * self.processes
        workers = list(range(index, self.workers, self.processes))
        guard = Guard(self.job.limits, stride, self.kept(len(workers)))
        book = ledger.Book(self.ledger) if self.ledger else None
        progress = self.job.progress_file and self.job.progress_file.with_name(f"{self.job.progress_file.name}.{index}")
        loop = Loop(self.do, self.tasks, workers, self.size, self.requests(), guard, book, progress)
        pipe.send("ready")
        start_ns, deadline_ns = self.times.get()
        arrivals: ClosedLoop | OpenLoop = ClosedLoop(deadline_ns)
        if self.arrival_rate:
            first = self.job.client * self.processes + index
            paced = (start_ns, deadline_ns, self.arrival_rate, first, stride)
            arrivals = OpenLoop(*paced)
            if self.job.point.axes.get("arrivals") == "poisson":
                arrivals = Poisson(*paced, derive_seed(self.job.point.seed, first, "arrivals"))
        watch = Watch()
        watch.start()
        loop.run(start_ns, deadline_ns, arrivals)
        paused = watch.stop()
        good, what = self.verify(list(loop.kept))
        loop.save(self.job.scratch / f"ops.{index}.npz")
        facts = {"kept": len(loop.kept), "good": good, "what": what, "messages": loop.messages} | self.more()
        return facts | loop.hung | {"not_begun": arrivals.missed(), "pauses": paused}

    def run(self, start_ns: int, deadline_ns: int) -> None:
        self.start_ns = next_sample = start_ns
        for _ in self.children:
            self.times.put((start_ns, deadline_ns))
        last = deadline_ns + int((drain_s(deadline_ns - start_ns) + GRACE_S) * 1e9)
        # `is_alive` reaps a process that has ended, so that its CPU time counts for this client.
        while (alive := [c for c, _ in self.children if c.is_alive()]) and (now := clock.now_ns()) < last:
            if next_sample <= now < deadline_ns:
                self.samples.append((now, sum(proc.sockets(child.pid) or 0 for child in alive)))
                next_sample = now + SAMPLE_NS
            time.sleep(0.02)
        self.facts = [self._receive(pipe, 0) for _, pipe in self.children]

    def result(self) -> Result:
        import numpy as np

        parts = [np.load(self.job.scratch / f"ops.{i}.npz") for i in range(self.processes)]
        columns = {name: np.concatenate([p[name] for p in parts]) for name in COLUMNS + FAILED}
        classes = [np.array([None, *f["messages"]], object) for f in self.facts]
        errors = np.concatenate([known[p["error"]] for known, p in zip(classes, parts, strict=True)])
        ops = self._columns(columns, errors, columns["status"].astype(np.int16))
        good = int(columns["count"][columns["error"] == 0].sum())
        self.messages = {name: text for f in self.facts for name, text in f["messages"].items()}
        kept, right = sum(f["kept"] for f in self.facts), sum(f["good"] for f in self.facts)
        self.compared = kept if any(f["what"] for f in self.facts) else None
        checks = [
            Check("content", right == kept, f"{right} of {kept} {f['what']}") for f in self.facts[:1] if f["what"]
        ]
        settings = {
            "processes": self.processes,
            "payload": "unsigned",
            "read_timeout": READ_TIMEOUT,
            "part_size_bytes": self.part_size or None,
            "parallel_parts": self.parallel,
        }
        return self.outcome(
            ops,
            good,
            importlib.metadata.version("obstore"),
            settings,
            dict.fromkeys(self.performs or (self.op,), self.requests()),
            checks,
            **{name: sum(f[name] for f in self.facts) for name in ("hung", "hung_s", "not_begun")},
            pauses=merge_pauses([f["pauses"] for f in self.facts]),
        )

    def _columns(self, columns: dict[str, Any], errors: Any, statuses: Any) -> dict[str, Any]:
        """Return columns of `records.OPS`, as bins if there are too many operations for single rows."""
        import numpy as np

        n = len(errors)
        sums = {name: columns[name] for name in ("count", "bytes", "requests")}
        times, op = {name: columns[name] for name in ("start_ns", "end_ns")}, self.operations(columns["object"])
        intended = columns["intended_ns"] if self.arrival_rate else None
        width_ns = self.job.point.fixed.get("bin_ns")
        if width_ns or not bins.stay_single(n, self.clients):
            moments = (self.start_ns, *times.values())
            out = bins.binned(*moments, op, errors, statuses, intended, sums, width_ns or bins.BIN_NS)
            return out | {"client": np.full(len(out["end_ns"]), self.job.number, np.int16)}
        return {
            **sums,
            **times,
            "worker": columns["worker"],
            "client": np.full(n, self.job.number, np.int16),
            "op": np.full(n, op, object),
            "status": statuses,
            "error": errors,
            "first_byte_ns": np.ma.masked_equal(columns["first_byte_ns"], 0),
            "object": self.names(columns["object"]),
            **({} if intended is None else {"intended_ns": intended}),
        }

    def close(self) -> None:
        for child, _ in self.children:
            child.kill()
            child.join()
        super().close()

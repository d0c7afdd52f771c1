"""Engine `obstore`, the loop of one process: threads work until the deadline and time each operation.

Threads with blocking calls take half of the CPU that asyncio takes for the same small requests; obstore releases the
interpreter's lock while it waits. Each loop has its own process. The interpreter may abort at its exit after large
objects, so results go to a file first, and the process leaves by `os._exit`.
"""

import itertools
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from storelab.core import clock
from storelab.core.records import HUNG
from storelab.engines.common.arrivals import IN_FLIGHT, Closed, Open, drain_s
from storelab.engines.common.error_classes import classify, said
from storelab.engines.common.guard import Guard, LimitExceeded
from storelab.engines.common.ledger import Book
from storelab.engines.common.told import EVERY_NS, Teller

KEPT, KEPT_BYTES, EVERY = 16, 200_000_000, 64  # answers kept for the content check: a worker's first and every 64th
COLUMNS = ("worker", "object", "count", "bytes", "requests", "start_ns", "first_byte_ns", "end_ns", "intended_ns")
FAILED = ("status", "error")  # HTTP status; 0, or 1 + the place of the error's class in `messages`


class Task(NamedTuple):
    """One operation to do. key: index in the client's list of object names, or -1; bucket: its index."""

    key: int
    bucket: int
    path: str
    body: int = 0
    begin: int = 0
    end: int = 0
    paths: tuple[str, ...] = ()
    count: int = 1  # objects, also where it fails
    note: tuple[int, int, int] = (0, 0, 0)  # for the ledger: number of the key, generation, kind of write
    slot: Any = None  # what learns that the operation was acknowledged
    given: Any = None  # of a mix: what its population knows


class Outcome(NamedTuple):
    """Result of an operation: objects, useful bytes, arrival of the answer's head (ns; 0: unknown), content if kept."""

    count: int
    size: int
    first_ns: int
    content: bytes | None = None


Operation = Callable[[Task, bool], Outcome]


@dataclass
class Loop:
    """One process's share of a client: worker numbers, an operation, endless or finite tasks for each worker."""

    operation: Operation
    tasks: Callable[[int], Iterator[Task]]  # by worker
    workers: list[int]
    size: int  # bytes of an object; limits how many answers are kept
    requests: int  # HTTP requests of one operation
    guard: Guard
    book: Book | None = None  # the ledger
    told: Path | None = None  # where it tells what is done so far
    messages: dict[str, str] = field(default_factory=dict)
    stop: LimitExceeded | None = None
    closed: bool = False

    def run(self, start_ns: int, deadline_ns: int, arrivals: Closed | Open) -> None:
        """Work until the deadline, then drain: operations in flight after that hung. Raises LimitExceeded."""
        self.lock, self.locks = threading.Lock(), [threading.Lock() for _ in self.workers]
        self.parts = [{name: array("q") for name in COLUMNS + FAILED} for _ in self.workers]
        most = max(1, min(KEPT, KEPT_BYTES // max(self.size, 1)))
        self.kept: deque[tuple[Task, bytes]] = deque(maxlen=most)
        self.busy: list[tuple[Task, int, int] | None] = [None] * len(self.workers)  # task, begun and due (ns)
        self.moved = self.operations = self.failed = 0
        numbers = range(len(self.workers))
        threads = [threading.Thread(target=self._work, args=(i, arrivals), daemon=True) for i in numbers]
        clock.sleep_until(start_ns)
        for t in threads:
            t.start()
        if self.told:
            threading.Thread(target=self._tell, args=(Teller(self.told),), daemon=True).start()
        last_ns = deadline_ns + int(drain_s(deadline_ns - start_ns) * 1e9)
        for t in threads:
            t.join(max(0.0, (last_ns - clock.now_ns()) / 1e9))
        self.closed = True
        for lock in self.locks:  # operations that end later are no longer recorded
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

    def _work(self, i: int, arrivals: Closed | Open) -> None:
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
            except Exception as caught:  # noqa: BLE001 - whatever the library raises is a failed operation
                kind, status = classify(caught)
                self.messages.setdefault(kind, said(caught))
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

    def _tell(self, teller: Teller) -> None:
        """What all workers have done so far, read beside them: no operation waits for it."""
        seen, operations, errors, moved = [0] * len(self.parts), 0, 0, 0
        while not self.closed:
            for i, part in enumerate(self.parts):
                rows = slice(seen[i], len(part["error"]))  # the column that is filled last
                counts, kinds = part["count"][rows], part["error"][rows]
                failed = sum(n for n, error in zip(counts, kinds, strict=True) if error)
                operations, errors = operations + sum(counts) - failed, errors + failed
                moved += sum(part["bytes"][rows])
                seen[i] = rows.stop
            teller.note(clock.now_ns(), operations, errors, moved)
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
        """Write columns of all threads, shape (operations,) each, as one .npz file."""
        import numpy as np

        names = COLUMNS + FAILED
        np.savez(path, **{n: np.concatenate([np.frombuffer(p[n], np.int64) for p in self.parts]) for n in names})

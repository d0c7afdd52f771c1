"""Engine `obstore`, common part: S3 by the Rust library object_store, in process, from memory, each operation timed.

A client is one or more processes (as many as its share of the cores, each with at least 4 workers), each a loop of
threads (`loop.py`). Retries are off. A PUT is one request unless the axis `part_size` asks for parts. Payloads are not
signed (`UNSIGNED-PAYLOAD`), so the client hashes no content. There are as many connections as operations in flight; the
library has no limit.
"""

import contextlib
import importlib.metadata
import multiprocessing
import os
import signal
import time
from abc import abstractmethod
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from storelab.core import clock
from storelab.core.errors import MeasurementFailed, of_memory
from storelab.core.model import derive_seed
from storelab.engines.common import bins, ledger, pauses, s3_library
from storelab.engines.common.arrivals import Closed, Open, Poisson, drain_s
from storelab.engines.common.guard import Guard, LimitExceeded
from storelab.engines.common.transfers import SAMPLE_NS, TransferClient
from storelab.engines.contract import Check, Job, Result
from storelab.engines.obstore.loop import COLUMNS, FAILED, Loop, Outcome, Task
from storelab.host import proc, processes
from storelab.stores.protocols.endpoint import Bucket

FEWEST_WORKERS = 4  # of one process: a thread costs less than a process
GRACE_S = 30.0  # after the drain, for writing results
READ_TIMEOUT = "30s"


class ObstoreClient(TransferClient):
    """Forks its processes in `prepare`, releases them at the start, gathers their columns."""

    engine = "obstore"
    multi_delete = False  # by requests of several keys
    store_per_bucket = False  # requests to a bucket itself need one
    ledger: Path | None = None  # where what is written is noted
    performs: tuple[str, ...] = ()  # operations, where they are several

    def __init__(self, job: Job):
        super().__init__(job)
        axes = job.point.axes
        self.endpoint, self.parallel = job.endpoint, self.parallel or 1
        self.clients, self.arrival_rate = axes["clients"], axes.get("arrival_rate", 0)
        cores = len(os.sched_getaffinity(0)) // self.clients
        self.processes = max(1, min(cores, self.workers // FEWEST_WORKERS))
        self.children: list[tuple[ForkProcess, Connection]] = []

    def prepare(self) -> None:
        import obstore

        self.obstore = obstore
        self.prepare_tasks()
        fork = multiprocessing.get_context("fork")
        self.times = fork.SimpleQueue()  # start and deadline, once for each process
        for i in range(self.processes):
            here, there = fork.Pipe(duplex=False)  # a pipe: duplex ones are sockets, which `samples` would count
            child = fork.Process(target=self._child, args=(i, there))
            child.start()
            there.close()
            self.children.append((child, here))
        for _, pipe in self.children:
            self._heard(pipe, GRACE_S)

    @staticmethod
    def _heard(pipe: Connection, wait_s: float) -> Any:
        """What a process says next. Raises what it failed with, or MeasurementFailed if it says nothing."""
        try:
            said = pipe.recv() if pipe.poll(wait_s) else MeasurementFailed("is silent")
        except EOFError:
            said = MeasurementFailed("ended")
        if isinstance(said, MeasurementFailed):
            raise MeasurementFailed(f"a process of the engine obstore failed: {said}")
        if isinstance(said, LimitExceeded):
            raise said
        return said

    @abstractmethod
    def prepare_tasks(self) -> None:
        """Read the manifest, or the bodies to upload; before the processes are forked."""

    @abstractmethod
    def tasks(self, worker: int) -> Iterator[Task]:
        """Tasks of one worker (0 … workers - 1), endless or finite."""

    @abstractmethod
    def do(self, task: Task, keep: bool) -> Outcome:
        """The operation, blocking; keep: return the content too. Raises WrongAnswer."""

    @abstractmethod
    def names(self, keys: Any) -> list[str | None]:
        """Object names of operations, from their `Task.key`, shape (n,)."""

    def operations(self, keys: Any) -> Any:
        """The operation of all tasks, or an array with that of each, from their `Task.key`."""
        return self.op

    @abstractmethod
    def requests(self) -> int:
        """HTTP requests of one operation."""

    def more(self) -> dict[str, Any]:
        """What a process tells besides, at its end."""
        return {}

    def verify(self, kept: list[tuple[Task, bytes]]) -> tuple[int, str]:
        """(answers with the right content, description) of the kept ones; runs in the process that kept them."""
        return 0, ""

    def open(self) -> None:
        """In an engine process: make the store of each account, or one per bucket; open a first connection of each
        account, which is not measured."""
        buckets = self.job.buckets
        waits = {"read_timeout": READ_TIMEOUT, "timeout": "24h"}  # 24h: of an operation; READ_TIMEOUT ends a silent one
        options = {"unsigned_payload": True, "disable_bulk_delete": not self.multi_delete}
        if self.multi_delete or self.store_per_bucket or self.endpoint.addressing == "virtual":
            self.stores = [s3_library.store(self.endpoint, b.name, waits, self._further(b), **options) for b in buckets]
            self.paths = ["" for _ in buckets]
        else:
            each = dict.fromkeys(map(self._further, buckets))
            by_account = {a: s3_library.store(self.endpoint, None, waits, a, **options) for a in each}
            self.stores = [by_account[self._further(b)] for b in buckets]
            self.paths = [f"{b.name}/" for b in buckets]
        for own in {buckets[i].account: i for i in reversed(self.own)}.values():
            with contextlib.suppress(Exception):  # the answer does not matter
                self.obstore.head(self.stores[own], f"{self.paths[own]}{buckets[own].prefix}storelab-hello")

    def _further(self, bucket: Bucket) -> int | None:
        """The account of a bucket that this client reaches with the keys of a further account; else None."""
        return bucket.account if bucket.account in self.job.accounts[1:] else None

    def _child(self, index: int, pipe: Connection) -> None:
        """A whole engine process: it tells the client `ready`, then its facts, or what it failed with."""
        processes.die_with_parent()()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            pipe.send(self._work(index, pipe))
        except LimitExceeded as limit:
            pipe.send(limit)
        except MemoryError:
            pipe.send(MeasurementFailed(str(of_memory())))
        except BaseException as error:  # noqa: BLE001 - the client reports it, whatever it is
            pipe.send(MeasurementFailed(f"{type(error).__name__}: {error}"[:500]))
        finally:
            os._exit(0)  # skips the interpreter's shutdown: see loop.py

    def _work(self, index: int, pipe: Connection) -> dict[str, Any]:
        self.open()
        stride = self.clients * self.processes
        workers = list(range(index, self.workers, self.processes))
        guard = Guard(self.job.limits, stride, self.kept(len(workers)))
        book = ledger.Book(self.ledger) if self.ledger else None
        told = self.job.told and self.job.told.with_name(f"{self.job.told.name}.{index}")
        loop = Loop(self.do, self.tasks, workers, self.size, self.requests(), guard, book, told)
        pipe.send("ready")
        start_ns, deadline_ns = self.times.get()
        arrivals: Closed | Open = Closed(deadline_ns)
        if self.arrival_rate:
            first = self.job.client * self.processes + index
            paced = (start_ns, deadline_ns, self.arrival_rate, first, stride)
            arrivals = Open(*paced)
            if self.job.point.axes.get("arrivals") == "poisson":
                arrivals = Poisson(*paced, derive_seed(self.job.point.seed, first, "arrivals"))
        watch = pauses.Watch()
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
        # A process that `is_alive` has seen end is waited for: its CPU time counts as this client's.
        while (alive := [c for c, _ in self.children if c.is_alive()]) and (now := clock.now_ns()) < last:
            if next_sample <= now < deadline_ns:
                self.samples.append((now, sum(proc.sockets(child.pid) or 0 for child in alive)))
                next_sample = now + SAMPLE_NS
            time.sleep(0.02)
        self.facts = [self._heard(pipe, 0) for _, pipe in self.children]

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
            pauses=pauses.together([f["pauses"] for f in self.facts]),
        )

    def _columns(self, columns: dict[str, Any], errors: Any, statuses: Any) -> dict[str, Any]:
        """Columns of `records.OPS`; as bins if there are too many operations for single rows."""
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

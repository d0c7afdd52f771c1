"""Perform single operations of the engine `obstore` on objects of one size, with one class per operation."""

import hashlib
import itertools
import mmap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readplan.transports import WrongAnswer
from storelab.datasets import payload
from storelab.engines.common import ledger
from storelab.engines.common.objects import deletions, key_folders, range_begins, read_once, staged_objects
from storelab.engines.common.transfers import orders
from storelab.engines.contract import Check, Result
from storelab.engines.obstore.client import ObstoreClient, Outcome, Task

PAGE = 1000


class ObstorePut(ObstoreClient):
    """A client that uploads bodies from memory to new keys, in the account's buckets in turn."""

    op = "PUT"

    def prepare_tasks(self) -> None:
        self.bodies = [mapped(f) for f in self.body_files()]
        if self.job.point.axes.get("ledger") == "kept":
            self.ledger = ledger.begin(self.job, rewritten=False)
        self.in_parts = bool(self.part_size) and self.size > self.part_size

    def tasks(self, worker: int) -> Iterator[Task]:
        for n in itertools.count(worker, self.workers):
            to = self.upload(n)
            yield Task(n, to.number, self.paths[to.number] + to.key, to.body, note=(n, 1, ledger.NEW))

    def names(self, keys: Any) -> list[str | None]:
        return [self.upload(n).key for n in keys.tolist()]

    def do(self, task: Task, keep: bool) -> Outcome:
        parts = {"chunk_size": self.part_size, "max_concurrency": self.parallel} if self.in_parts else {}
        self.obstore.put(
            self.stores[task.bucket], task.path, self.bodies[task.body], use_multipart=self.in_parts, **parts
        )
        return Outcome(1, self.size, 0)

    def requests(self) -> int:
        return -(-self.size // self.part_size) + 2 if self.in_parts else 1


class ObstoreGet(ObstoreClient):
    """A client that downloads whole staged objects; the order differs between workers.

    With `part_size`, an object is downloaded as parallel ranges.
    """

    op = "GET"

    def prepare_tasks(self) -> None:
        self.manifest, self.objects = staged_objects(self.job)
        self.parts = self.part_size if self.part_size and self.size > self.part_size else 0

    def orders(self, worker: int) -> Iterator[Task]:
        numbers = range(worker, len(self.objects), self.workers) if (once := read_once(self.job)) else None
        for i in orders(range(len(self.objects)) if numbers is None else numbers, self.rng(worker), once):
            staged = self.objects[i]
            yield Task(i, staged.number, self.paths[staged.number] + staged.key, staged.body, 0, self.size)

    tasks = orders

    def names(self, keys: Any) -> list[str | None]:
        known = [staged.key for staged in self.objects]
        return [known[i] for i in keys.tolist()]

    def open(self) -> None:
        super().open()
        # One pool for all workers, each of which has at most `parallel_parts` requests in flight.
        self.pool = ThreadPoolExecutor(self.workers * self.parallel) if self.parts else None

    def do(self, task: Task, keep: bool) -> Outcome:
        wanted = task.end - task.begin
        if not self.parts:
            part = None if wanted == self.size else (task.begin, task.end)
            first, chunks, got = self.download(task, keep, part)
        else:
            edges = [(a, min(a + self.parts, task.end)) for a in range(task.begin, task.end, self.parts)]
            answers = [
                a
                for i in range(0, len(edges), self.parallel)
                for a in self.pool.map(lambda e: self.download(task, keep, e), edges[i : i + self.parallel])
            ]
            first, got = min(a[0] for a in answers), sum(a[2] for a in answers)
            chunks = [c for a in answers for c in a[1]]
        if got != wanted:
            raise WrongAnswer(f"the answer has {got} B instead of {wanted} B")
        return Outcome(1, got, first, b"".join(chunks) if keep else None)

    def requests(self) -> int:
        return -(-self.size // self.parts) if self.parts else 1

    def verify(self, kept: list[tuple[Task, bytes]]) -> tuple[int, str]:
        """Compare the SHA-256 of the kept answers with the manifest."""
        sums = [body["sha256"] for body in self.manifest["bodies"]]
        good = sum(hashlib.sha256(answer).hexdigest() == sums[task.body] for task, answer in kept)
        return good, "kept answers have the right SHA-256"


def mapped(path: Path) -> Any:
    """Return the file's content without a copy. All workers and processes share the same memory on tmpfs."""
    if not path.stat().st_size:
        return b""
    with open(path, "rb") as f:
        return mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)


class ObstoreGetRange(ObstoreGet):
    """A client that downloads one range of `range_size` bytes of a staged object per request."""

    op = "GET_RANGE"

    def prepare_tasks(self) -> None:
        super().prepare_tasks()
        self.length, self.offset = self.job.point.axes["range_size"], self.job.point.axes["offset"]
        self.bodies = self.body_files(self.manifest["dataset"]["seed"])

    def tasks(self, worker: int) -> Iterator[Task]:
        rng = self.rng(worker, "ranges")
        for task in self.orders(worker):
            for begin in range_begins(self.offset, self.size, self.length, rng):
                yield task._replace(begin=begin, end=begin + self.length)

    def verify(self, kept: list[tuple[Task, bytes]]) -> tuple[int, str]:
        """Compare the kept answers with the bodies. A wrong offset or a whole object is an error."""
        good = 0
        for task, answer in kept:
            with open(self.bodies[task.body], "rb") as f:
                f.seek(task.begin)
                good += f.read(self.length) == answer
        return good, "kept ranges have the right bytes"


class ObstoreStat(ObstoreGet):
    """A client that sends HEAD requests for staged objects; the order differs between workers.

    The reported size is compared with the manifest.
    """

    op = "HEAD"

    def do(self, task: Task, keep: bool) -> Outcome:
        if (reported := self.obstore.head(self.stores[task.bucket], task.path)["size"]) != self.size:
            raise WrongAnswer(f"the server reports a size of {reported} B instead of {self.size} B")
        return Outcome(1, 0, 0)

    def verify(self, kept: list[tuple[Task, bytes]]) -> tuple[int, str]:
        return 0, ""  # each answer is compared when it arrives


class ObstoreDelete(ObstoreClient):
    """A client that deletes objects which were made for the point, one or `batch` objects per request.

    It ends when all objects are deleted, or at the deadline.
    """

    def prepare_tasks(self) -> None:
        self.batch = self.job.point.axes["batch"]
        self.op = "DELETE" if self.batch == 1 else "DELETE_MULTI"
        self.multi_delete = self.batch > 1
        self.pieces = deletions(self.job, self.batch)

    def tasks(self, worker: int) -> Iterator[Task]:
        for i in range(worker, len(self.pieces), self.workers):
            bucket, keys = self.pieces[i]
            yield Task(i, bucket, self.paths[bucket] + keys[0], paths=keys, count=len(keys))

    def names(self, keys: Any) -> list[str | None]:
        return [self.pieces[i][1][0] if self.batch == 1 else None for i in keys.tolist()]

    def do(self, task: Task, keep: bool) -> Outcome:
        self.obstore.delete(self.stores[task.bucket], task.path if self.batch == 1 else list(task.paths))
        return Outcome(len(task.paths), 0, 0)

    def requests(self) -> int:
        return 1

    def result(self) -> Result:
        out = super().result()
        left = sum(len(keys) for _, keys in self.pieces) - int(sum(out.ops["count"]))
        out.engine["left"] = left  # number of objects that were not deleted before the deadline
        out.checks.append(Check("no object twice", left >= 0, f"{left} objects were not deleted"))
        return out


class ObstoreList(ObstoreClient):
    """A client that lists whole folders, page by page, and compares every key with the staged keys.

    The account's buckets are listed in turn.
    """

    op = "LIST"
    store_per_bucket = True

    def prepare_tasks(self) -> None:
        axes = self.job.point.axes
        self.keys, self.depth = axes["keys"], axes["prefix_depth"]
        self.folders = key_folders(self.job)

    def tasks(self, worker: int) -> Iterator[Task]:
        at = worker
        while True:
            bucket, folder = self.folders[at % len(self.folders)]
            yield Task(-1, bucket, folder, count=self.keys)
            at += 1

    def names(self, numbers: Any) -> list[str | None]:
        return [None] * len(numbers)

    def do(self, task: Task, keep: bool) -> Outcome:
        chunks = self.obstore.list(self.stores[task.bucket], task.path, chunk_size=PAGE)
        listed = ((found["path"], found["size"]) for chunk in chunks for found in chunk)
        payload.check_listing(task.path, self.keys, self.depth, self.size, listed)
        return Outcome(self.keys, 0, 0)

    def requests(self) -> int:
        return -(-self.keys // PAGE)


@dataclass
class Slot:
    """A place for one object of a worker.

    The key is not used again after an operation with unknown outcome, because late effects of that operation must not
    change the expected result of a later operation.
    """

    number: int
    generation: int = 0
    there: bool = False
    acknowledged: bool = True


class ObstoreRewrite(ObstorePut):
    """A client that overwrites and deletes its own keys with obstore, and records its writes in a ledger."""

    performs = ("PUT", "DELETE")

    def prepare_tasks(self) -> None:
        super().prepare_tasks()
        self.in_parts = False
        self.ledger = ledger.begin(self.job, rewritten=True)
        self.mark = ledger.mark(self.job.attempt, self.job.client)

    def tasks(self, worker: int) -> Iterator[Task]:
        """Yield tasks. The key of a task is twice the number of the key, plus one for a deletion."""
        axes, rng = self.job.point.axes, self.rng(worker, "rewrite")
        numbers = itertools.count(worker, self.workers)
        slots = [Slot(next(numbers)) for _ in range(axes["keys_per_worker"])]
        while True:
            at = rng.randrange(len(slots))
            slot = slots[at]
            kind = ledger.NEW
            if slot.there:
                kind = ledger.DELETE if rng.random() * 100 < axes["deletions"] else ledger.OVERWRITE
            slot.generation += 1
            slot.acknowledged, deletes = False, kind == ledger.DELETE
            to, note = self.upload(slot.number), (slot.number, slot.generation, kind)
            path = self.paths[to.number] + to.key
            body = (slot.number + slot.generation) % len(self.bodies)
            yield Task(2 * slot.number + deletes, to.number, path, body, note=note, slot=slot)
            slot.there = not deletes
            if not slot.acknowledged:
                slots[at] = Slot(next(numbers))

    def do(self, task: Task, keep: bool) -> Outcome:
        number, generation, kind = task.note
        if kind == ledger.DELETE:
            self.obstore.delete(self.stores[task.bucket], task.path)
        else:
            rest = memoryview(self.bodies[task.body])[ledger.STAMP :]
            data = b"".join((ledger.stamp(self.mark, number, generation), rest))
            self.obstore.put(self.stores[task.bucket], task.path, data, use_multipart=False)
        task.slot.acknowledged = True
        return Outcome(1, 0 if kind == ledger.DELETE else self.size, 0)

    def names(self, keys: Any) -> list[str | None]:
        return super().names(keys // 2)

    def operations(self, keys: Any) -> Any:
        import numpy as np

        return np.where(keys % 2, "DELETE", "PUT").astype(object)

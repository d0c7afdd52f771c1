"""Perform mixed operations with the engine `obstore`, in one process whose threads share the client's objects.

`Population` decides which object an operation can read, write or delete, and which keys a listing must contain. The
program loadgen does the same (`loadgen/load/population.go`).
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from readplan.transports import WrongAnswer
from storelab.core.axes import mixes
from storelab.core.model import derive_seed
from storelab.datasets import payload
from storelab.datasets.payload import WrongListing
from storelab.engines.common.objects import (
    NO_SPACE_LIMITS,
    Deck,
    Sizes,
    objects_at_a_time,
    put_folder,
    put_key,
    sizes_at_start,
)
from storelab.engines.contract import Job, Result
from storelab.engines.obstore.client import Outcome, Task
from storelab.engines.obstore.transfers import PAGE, ObstoreClient, mapped

MAX_DOUBTED = 1_000_000
OPS = ("GET", "PUT", "HEAD", "LIST", "DELETE")
WAIT_S = 0.001  # pause in seconds if no operation of the mix is possible


@dataclass
class Object:
    """An object of the client.

    Attributes
    ----------
    number
        Number of the upload, from which the key is made.
    since
        Stamp of the last change.
    at
        Index in `ready`; -1 while the object is written or deleted, or if it does not exist.
    """

    number: int = 0
    size: int = 0
    version: int = 0
    since: int = 0
    at: int = -1
    readers: int = 0


@dataclass
class PlannedOperation:
    """One operation with its object.

    slot is -1 if there is no object. For a listing, `place` is the index of the folder, `after` the key after which the
    listing starts, and `since` the stamp when it began.
    """

    op: str
    number: int = -1
    slot: int = -1
    version: int = 0
    size: int = 0
    place: int = 0
    after: str = ""
    since: int = 0
    mark: int = 0


class Population:
    """The objects of one client during a mix. Thread-safe.

    Parameters
    ----------
    weights
        Weight of each operation.
    sizes
        Generator of object sizes.
    start
        Sizes in bytes of the objects that exist at the start.
    most
        Maximum number of objects.
    place
        Function that returns the index of the bucket for the number of an object.
    key
        Function that returns the complete key for the number of an object.
    folder
        Prefix of the keys, by index of the bucket.
    rng
        Random generator.
    """

    def __init__(
        self,
        weights: dict[str, float],
        sizes: Sizes,
        start: Sequence[int],
        most: int,
        place: Callable[[int], int],
        key: Callable[[int], str],
        folder: Sequence[str],
        rng: random.Random,
    ):
        self.ops = [op.upper() for op, share in weights.items() if share]
        self.deck = Deck([share for share in weights.values() if share], rng)
        self.sizes, self.rng, self.place, self.key, self.folder = sizes, rng, place, key, folder
        self.lock = threading.Lock()
        self.slots = [Object() for _ in range(most)]
        self.ready: list[int] = []
        self.where: dict[int, int] = {}
        self.left: list[int] = []  # numbers of objects that possibly exist, because an operation on them failed
        self.doubted: set[int] = set()
        self.next = self.first = len(start)
        self.stamp = self.listing = self.turn = self.overwritten = self.pages = self.keys = 0
        self.deleted: list[int] = []  # numbers deleted while listings are in flight
        for n, size in enumerate(start):
            self.slots[n] = Object(n, size)
            self.where[n] = n
            self._restore(n)
        self.empty = list(range(most - 1, self.next - 1, -1))

    def _restore(self, slot: int) -> None:
        self.slots[slot].at = len(self.ready)
        self.ready.append(slot)

    def _hold(self, slot: int) -> None:
        at, last = self.slots[slot].at, self.ready.pop()
        if last != slot:
            self.ready[at], self.slots[last].at = last, at
        self.slots[slot].at = -1

    def _idle(self) -> int:
        """Return a slot whose object is not being read, or -1 if there is none."""
        for _ in range(min(16, len(self.ready))):
            if not self.slots[slot := self.rng.choice(self.ready)].readers:
                return slot
        return next((slot for slot in self.ready if not self.slots[slot].readers), -1)

    def give(self) -> PlannedOperation | None:
        """Return the next operation, or None if no operation is possible at this moment."""
        with self.lock:
            found: list[PlannedOperation] = []

            def possible(kind: int) -> bool:
                given = self._give(self.ops[kind])
                found[:] = [given] if given else []
                return given is not None

            return found[0] if self.deck.deal(possible) is not None else None

    def _give(self, op: str) -> PlannedOperation | None:
        if op == "PUT":
            return self._give_put()
        if op == "LIST":
            return self._give_list()
        if op == "DELETE":
            if self.left:
                number = self.left.pop(0)
                return PlannedOperation(op, number, place=self.place(number))
            if (slot := self._idle()) < 0:
                return None
            self._hold(slot)
        else:
            if not self.ready:
                return None
            slot = self.rng.choice(self.ready)
            self.slots[slot].readers += 1
        o = self.slots[slot]
        return PlannedOperation(op, o.number, slot, o.version, o.size, self.place(o.number))

    def _give_put(self) -> PlannedOperation | None:
        """Return an upload to a new key if there is a free slot, otherwise one that overwrites an object."""
        if self.empty:
            slot = self.empty.pop()
            if over := len(self.left) >= len(self.slots):  # at most twice this number of objects can ever exist
                number = self.left.pop(0)
            else:
                number, self.next = self.next, self.next + 1
            self.slots[slot] = Object(number)
            self.where[number] = slot
        else:
            if (slot := self._idle()) < 0:
                return None
            self._hold(slot)
            self.slots[slot].version += 1
            number, over = self.slots[slot].number, True
        self.overwritten += over
        return PlannedOperation(
            "PUT", number, slot, self.slots[slot].version, self.sizes.draw(self.rng), self.place(number)
        )

    def _give_list(self) -> PlannedOperation:
        place, after = self.turn % len(self.folder), ""
        self.turn += 1
        if self.ready and (n := self.slots[self.rng.choice(self.ready)].number):
            after = f"{self.folder[place]}{n - 1:08d}"
        self.stamp += 1
        self.listing += 1
        return PlannedOperation("LIST", place=place, after=after, since=self.stamp, mark=len(self.deleted))

    def done(self, given: PlannedOperation, failed: bool) -> None:
        """Update the objects after an operation."""
        with self.lock:
            self.stamp += 1
            if given.op in ("GET", "HEAD"):
                self.slots[given.slot].readers -= 1
            elif given.op == "LIST":
                self.listing -= 1
                if not self.listing:
                    self.deleted = []
            elif failed:
                self._vacate(given)
                self.left.append(given.number)
                if len(self.doubted) < MAX_DOUBTED:
                    self.doubted.add(given.number)
            elif given.op == "PUT":
                self.slots[given.slot].size, self.slots[given.slot].since = given.size, self.stamp
                self._restore(given.slot)
            else:
                if self.listing:
                    self.deleted.append(given.number)
                self._vacate(given)

    def _vacate(self, given: PlannedOperation) -> None:
        if given.slot >= 0:
            del self.where[given.number]
            self.empty.append(given.slot)

    def holds(self, given: PlannedOperation, page: Iterable[tuple[str, int]], more: bool) -> None:
        """Compare a page of a listing with the known objects. Raises WrongListing.

        The page must have all keys of the folder after `given.after`. If there are more pages, it must have the first
        of these keys.
        """
        with self.lock:
            last, seen = given.after, set()
            for key, size in page:
                self.keys += 1
                n = self._number(given, key)
                if n is None or key <= given.after:
                    raise WrongListing("KeyForeign", f"{key[:200]!r} was never uploaded")
                if key == last:
                    raise WrongListing("KeyDoubled", f"{key!r} was listed twice")
                if key < last:
                    raise WrongListing("KeyOrder", f"{key!r} was listed after a later key")
                last = key
                seen.add(n)
                self._as_known(given, n, key, size)
            self.pages += 1
            for slot in self.ready:
                o = self.slots[slot]
                if o.number in seen or not self._untouched(o, given) or self.place(o.number) != given.place:
                    continue
                if (key := self.key(o.number)) > given.after and (not more or key < last) and self.next < 10**8:
                    raise WrongListing("KeyMissing", f"{key!r} was not listed")

    def _as_known(self, given: PlannedOperation, n: int, key: str, size: int) -> None:
        slot = self.where.get(n)
        if slot is not None:
            o = self.slots[slot]
            if self._untouched(o, given) and o.size != size:
                raise WrongListing("KeySize", f"{key!r} has {size} B instead of {o.size} B")
        elif n not in self.doubted and len(self.doubted) < MAX_DOUBTED and n not in self.deleted[given.mark :]:
            raise WrongListing("KeyDeleted", f"{key!r} was deleted before the listing began")

    def _untouched(self, o: Object, given: PlannedOperation) -> bool:
        """Return True if the object has not changed since the listing began."""
        return o.at >= 0 and o.since < given.since

    def _number(self, given: PlannedOperation, key: str) -> int | None:
        """Return the number of a key in the listed folder, or None if the client never used this key."""
        folder = self.folder[given.place]
        text = key[len(folder) :]
        if not key.startswith(folder) or not (text.isascii() and text.isdigit()) or len(text) > 12:
            return None
        n = int(text)
        return n if n < self.next and self.place(n) == given.place and self.key(n) == key else None

    def as_dict(self) -> dict[str, Any]:
        """Return the results of the mix, in the format of loadgen."""
        lost = {op: n for op, n in zip(self.ops, self.deck.lost, strict=True) if n}
        return {
            "there": len(self.ready),
            "left": len(self.left),
            "new": self.next - self.first,
            "overwritten": self.overwritten,
            "lost": lost,
        }


class ObstoreMix(ObstoreClient):
    """A client that performs a mix of operations on its own objects with obstore."""

    store_per_bucket = True

    def __init__(self, job: Job):
        super().__init__(job)
        self.size = mixes.largest(job.point.fixed["sizes"])
        self.processes = 1  # its threads share the population
        self.job = replace(job, limits=job.limits | NO_SPACE_LIMITS)

    def prepare_tasks(self) -> None:
        job, point = self.job, self.job.point
        self.bodies = [mapped(f) for f in self.body_files()]
        name = put_folder(job.attempt, job.client)
        self.objects = Population(
            point.fixed["mix"],
            Sizes(point.fixed["sizes"]),
            sizes_at_start(point, job.client),
            objects_at_a_time(point, job.client),
            lambda n: (job.client + n) % len(self.bucket_indices),
            self.key,
            [job.buckets[i].prefix + name for i in self.bucket_indices],
            random.Random(derive_seed(point.seed, job.client, "mix")),
        )
        self.performs = tuple(self.objects.ops)

    def key(self, n: int) -> str:
        """Return the complete key of upload n."""
        place = self.job.buckets[self.bucket_indices[(self.job.client + n) % len(self.bucket_indices)]]
        return place.prefix + put_key(self.job.attempt, self.job.client, n)

    def tasks(self, worker: int) -> Iterator[Task]:
        while True:
            while (given := self.objects.give()) is None:
                time.sleep(WAIT_S)
            bucket = self.bucket_indices[given.place]
            path = self.objects.folder[given.place] if given.op == "LIST" else self.key(given.number)
            body = (given.number + given.version) % payload.BODIES
            number = max(given.number, 0) * len(OPS) + OPS.index(given.op)
            yield Task(number, bucket, path, body, 0, given.size, given=given)

    def do(self, task: Task, keep: bool) -> Outcome:
        given: PlannedOperation = task.given
        try:
            out = self._do(task, given, keep)
        except BaseException:
            self.objects.done(given, True)
            raise
        self.objects.done(given, False)
        return out

    def _do(self, task: Task, given: PlannedOperation, keep: bool) -> Outcome:
        store = self.stores[task.bucket]
        if given.op == "PUT":
            content = memoryview(self.bodies[task.body])[: given.size]
            self.obstore.put(store, task.path, content, use_multipart=False)
            return Outcome(1, given.size, 0)
        if given.op == "GET":
            first, chunks, size = self.download(task, keep)
            if size != task.end:
                raise WrongAnswer(f"the answer has {size} B instead of {task.end} B")
            return Outcome(1, size, first, b"".join(chunks) if keep else None)
        if given.op == "HEAD":
            if (reported := self.obstore.head(store, task.path)["size"]) != given.size:
                raise WrongAnswer(f"the server reports a size of {reported} B instead of {given.size} B")
        elif given.op == "DELETE":
            self.obstore.delete(store, task.path)
        else:
            pages = self.obstore.list(store, task.path, offset=given.after or None, chunk_size=PAGE)
            page = next(iter(pages), [])
            self.objects.holds(given, ((found["path"], found["size"]) for found in page), len(page) >= PAGE)
        return Outcome(1, 0, 0)

    def verify(self, kept: list[tuple[Task, bytes]]) -> tuple[int, str]:
        good = sum(bytes(memoryview(self.bodies[task.body])[: task.end]) == content for task, content in kept)
        return good, "kept answers have the right bytes"

    def more(self) -> dict[str, Any]:
        return {"mixed": self.objects.as_dict(), "listed": {"pages": self.objects.pages, "keys": self.objects.keys}}

    def names(self, keys: Any) -> list[str | None]:
        coded = [divmod(k, len(OPS)) for k in keys.tolist()]
        return [None if OPS[kind] == "LIST" else self.key(n) for n, kind in coded]

    def operations(self, keys: Any) -> Any:
        import numpy as np

        return np.array(OPS, object)[keys % len(OPS)]

    def requests(self) -> int:
        return 1

    def result(self) -> Result:
        out = super().result()
        out.engine |= {name: self.facts[0][name] for name in ("mixed", "listed")}
        return out

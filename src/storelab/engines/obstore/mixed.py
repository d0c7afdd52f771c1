"""Mixed operations by the engine `obstore`: one process of threads, which share the client's objects."""

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from storelab.core import clock
from storelab.core.axes import mixes
from storelab.core.model import derive_seed
from storelab.datasets import payload
from storelab.engines.common import mixing
from storelab.engines.common.names import put_key
from storelab.engines.contract import Job, Result
from storelab.engines.obstore.listings import PAGE
from storelab.engines.obstore.loop import Outcome, Task
from storelab.engines.obstore.population import Given, Population
from storelab.engines.obstore.transfers import ANY_CHUNK, ObstoreClient, mapped
from storelab.readplan.transports import WrongAnswer

KINDS = ("GET", "PUT", "HEAD", "LIST", "DELETE")
WAIT_S = 0.001  # where nothing of the mix is possible


class ObstoreMix(ObstoreClient):
    """A mix on the client's own objects."""

    store_per_bucket = True

    def __init__(self, job: Job):
        super().__init__(job)
        self.size = mixes.largest(job.point.fixed["sizes"])
        self.processes = 1  # its threads share what they know of the objects
        self.job = replace(job, limits=job.limits | mixing.NO_ROOM)

    def prepare_tasks(self) -> None:
        job, point = self.job, self.job.point
        self.files = payload.body_files(job.scratch.parent, point.fixed["data_seed"], self.size)
        self.bodies = [mapped(f) for f in self.files]
        name = put_key(job.attempt, job.client, 0).removesuffix("00000000")
        self.objects = Population(
            point.fixed["mix"],
            mixing.Sizes(point.fixed["sizes"]),
            mixing.start(point, job.client),
            mixing.objects_at_a_time(point, job.client),
            lambda n: (job.client + n) % len(self.own),
            self.key,
            [job.buckets[i].prefix + name for i in self.own],
            random.Random(derive_seed(point.seed, job.client, "mix")),
        )
        self.performs = tuple(self.objects.ops)

    def key(self, n: int) -> str:
        """The whole name of upload n."""
        place = self.job.buckets[self.own[(self.job.client + n) % len(self.own)]]
        return place.prefix + put_key(self.job.attempt, self.job.client, n)

    def tasks(self, worker: int) -> Iterator[Task]:
        while True:
            while (given := self.objects.give()) is None:
                time.sleep(WAIT_S)
            bucket = self.own[given.place]
            path = self.objects.folder[given.place] if given.op == "LIST" else self.key(given.number)
            body = (given.number + given.version) % payload.BODIES
            number = max(given.number, 0) * len(KINDS) + KINDS.index(given.op)
            yield Task(number, bucket, path, body, 0, given.size, given=given)

    def do(self, task: Task, keep: bool) -> Outcome:
        given: Given = task.given
        try:
            out = self._do(task, given, keep)
        except BaseException:
            self.objects.done(given, True)
            raise
        self.objects.done(given, False)
        return out

    def _do(self, task: Task, given: Given, keep: bool) -> Outcome:
        store = self.stores[task.bucket]
        if given.op == "PUT":
            content = memoryview(self.bodies[task.body])[: given.size]
            self.obstore.put(store, task.path, content, use_multipart=False)
            return Outcome(1, given.size, 0)
        if given.op == "GET":
            return self._get(store, task, keep)
        if given.op == "HEAD":
            if (told := self.obstore.head(store, task.path)["size"]) != given.size:
                raise WrongAnswer(f"a size of {told} B instead of {given.size} B")
        elif given.op == "DELETE":
            self.obstore.delete(store, task.path)
        else:
            pages = self.obstore.list(store, task.path, offset=given.after or None, chunk_size=PAGE)
            page = next(iter(pages), [])
            self.objects.holds(given, ((found["path"], found["size"]) for found in page), len(page) >= PAGE)
        return Outcome(1, 0, 0)

    def _get(self, store: Any, task: Task, keep: bool) -> Outcome:
        answer = self.obstore.get(store, task.path)
        first, size, chunks = clock.now_ns(), 0, []
        for chunk in answer.stream(min_chunk_size=ANY_CHUNK):
            size += len(chunk)
            if keep:
                chunks.append(bytes(chunk))
        if size != task.end:
            raise WrongAnswer(f"{size} B instead of {task.end} B")
        return Outcome(1, size, first, b"".join(chunks) if keep else None)

    def verify(self, kept: list[tuple[Task, bytes]]) -> tuple[int, str]:
        good = sum(bytes(memoryview(self.bodies[task.body])[: task.end]) == content for task, content in kept)
        return good, "answers kept hold the right bytes"

    def more(self) -> dict[str, Any]:
        return {"mixed": self.objects.told(), "listed": {"pages": self.objects.pages, "keys": self.objects.keys}}

    def names(self, keys: Any) -> list[str | None]:
        coded = [divmod(k, len(KINDS)) for k in keys.tolist()]
        return [None if KINDS[kind] == "LIST" else self.key(n) for n, kind in coded]

    def operations(self, keys: Any) -> Any:
        import numpy as np

        return np.array(KINDS, object)[keys % len(KINDS)]

    def requests(self) -> int:
        return 1

    def result(self) -> Result:
        out = super().result()
        out.engine |= {name: self.facts[0][name] for name in ("mixed", "listed")}
        return out

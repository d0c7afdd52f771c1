"""Engine `obstore`: puts, overwrites and deletions over a bounded set of keys (workload `rewrite`)."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from storelab.engines.common import ledger
from storelab.engines.obstore.loop import Outcome, Task
from storelab.engines.obstore.transfers import ObstorePut


@dataclass
class Slot:
    """A place for one object of a worker. Its key is left alone after an operation whose outcome nobody knows: what
    such an operation may still do then cannot disturb what is expected of a later one."""

    number: int
    generation: int = 0
    there: bool = False
    acknowledged: bool = True


class ObstoreRewrite(ObstorePut):
    performs = ("PUT", "DELETE")

    def prepare_tasks(self) -> None:
        super().prepare_tasks()
        self.in_parts = False
        self.ledger = ledger.begin(self.job, rewritten=True)
        self.mark = ledger.mark(self.job.attempt, self.job.client)

    def tasks(self, worker: int) -> Iterator[Task]:
        """A task's key is twice the key's number, and one more for a deletion."""
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

"""Listings by the engine `obstore`. It has no setting for the size of a page: the store's own, 1000 keys."""

from collections.abc import Iterator
from typing import Any

from storelab.datasets import keys
from storelab.engines.common import shares
from storelab.engines.obstore.client import ObstoreClient
from storelab.engines.obstore.loop import Outcome, Task

PAGE = 1000


class ObstoreList(ObstoreClient):
    """Whole folders, page after page, the account's buckets in turn; every key is held against what was staged."""

    op = "LIST"
    store_per_bucket = True

    def prepare_tasks(self) -> None:
        axes = self.job.point.axes
        self.keys, self.depth = axes["keys"], axes["prefix_depth"]
        self.folders = shares.folders(self.job)

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
        keys.check(task.path, self.keys, self.depth, self.size, listed)
        return Outcome(self.keys, 0, 0)

    def requests(self) -> int:
        return -(-self.keys // PAGE)

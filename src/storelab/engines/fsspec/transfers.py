"""Uploads, downloads and downloads of ranges by the engine `fsspec`, and the checks of what was moved."""

import hashlib
import itertools
import os
from collections.abc import Iterator
from typing import Any

from storelab.datasets import payload
from storelab.engines.common import ledger, shares
from storelab.engines.common.names import put_key
from storelab.engines.common.ranges import begins
from storelab.engines.common.transfers import orders
from storelab.engines.contract import Check
from storelab.engines.fsspec import answered
from storelab.engines.fsspec.client import FsspecClient, Transfer
from storelab.readplan.transports import WrongAnswer
from storelab.stores.protocols import filesystems


class FsspecPut(FsspecClient):
    """Uploads of bodies held in memory to new keys, spread over the account's buckets round robin."""

    op = "PUT"

    def prepare_tasks(self) -> None:
        files = payload.body_files(self.job.scratch.parent, self.job.point.fixed["data_seed"], self.size)
        self.bodies = [f.read_bytes() for f in files]
        if self.job.point.axes.get("ledger") == "kept":
            self.book = ledger.Book(ledger.begin(self.job, rewritten=False))
        # s3fs uploads in parts above twice its chunk size; a server without multipart uploads gets one PUT.
        parts = {"max_concurrency": 1} | ({} if self.endpoint.multipart else {"chunksize": max(self.size, 1)})
        self.single_put = parts if self.endpoint.protocol == "s3" else {}
        if self.endpoint.protocol in ("file", "webhdfs", "root"):
            fs = filesystems.data(self.endpoint, os.environ, 1)
            # Each client has its own folder, as each job of an experiment writes into one.
            for bucket in self.job.own_buckets:
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
                server = answered.of_open_file(f._myFile)
            self.answered.add(server, len(body))
        else:
            fs.pipe_file(task.path, body)

    def judge(self, task: Transfer, answer: bytes | None) -> int:
        return self.size

    def check_content(self) -> Check:
        # The coordinator lists what arrived and reads it back for comparison.
        return Check("bodies", all(len(b) == self.size for b in self.bodies), f"{len(self.bodies)} of {self.size} B")


class FsspecGet(FsspecClient):
    """Downloads of whole staged objects, each client in its own order."""

    op = "GET"

    def prepare_tasks(self) -> None:
        self.manifest, own = shares.staged(self.job)
        self.objects = [Transfer(o.key, filesystems.path(self.endpoint, o.place, o.name), o.body) for o in own]
        # Else s3fs asks for the size of whole objects first, and cuts large ones into ranges.
        self.single_get = {"max_concurrency": 1} if self.endpoint.protocol == "s3" else {}

    def tasks(self) -> Iterator[Transfer]:
        return orders(self.objects, self.rng(), shares.once(self.job))

    async def do(self, fs: Any, task: Transfer) -> bytes:
        if self.asynchronous:
            return await fs._cat_file(task.path, start=task.begin, end=task.end, **self.single_get)
        body = fs.cat_file(task.path, start=task.begin or 0, end=self.size if task.end is None else task.end)
        if self.endpoint.protocol == "root":
            self.answered.add(answered.of_read_file(fs, task.path), len(body))
        return body

    def judge(self, task: Transfer, answer: bytes | None) -> int:
        got, wanted = len(answer or b""), self.size if task.begin is None else task.end - task.begin
        if got != wanted:
            raise WrongAnswer(f"{got} B instead of {wanted} B")
        return got

    def check_content(self) -> Check:
        """SHA-256 of the kept answers, of several bodies, against the manifest."""
        self.compared = len(self.kept)
        sums = [body["sha256"] for body in self.manifest["bodies"]]
        good = sum(hashlib.sha256(answer).hexdigest() == sums[task.body] for task, answer in self.kept)
        return Check(
            "content", 0 < good == len(self.kept), f"{good} of {len(self.kept)} answers have the right SHA-256"
        )


class FsspecGetRange(FsspecGet):
    """Downloads of one range of `range_size` bytes of a staged object: single-range requests."""

    op = "GET_RANGE"

    def prepare_tasks(self) -> None:
        super().prepare_tasks()
        self.length = self.job.point.axes["range_size"]
        files = payload.body_files(self.job.scratch.parent, self.manifest["dataset"]["seed"], self.size)
        self.bodies = [f.read_bytes() for f in files]

    def tasks(self) -> Iterator[Transfer]:
        rng = self.rng()
        for task in orders(self.objects, rng, shares.once(self.job)):
            for begin in begins(self.job.point.axes["offset"], self.size, self.length, rng):
                yield task._replace(begin=begin, end=begin + self.length)

    def check_content(self) -> Check:
        """The kept answers against the bodies: a wrong offset or a whole object never counts."""
        self.compared = len(self.kept)
        good = sum(answer == self.bodies[task.body][task.begin : task.end] for task, answer in self.kept)
        return Check("content", 0 < good == len(self.kept), f"{good} of {len(self.kept)} ranges hold the right bytes")

"""Share code between the engines for put, get, get_range and delete."""

import random
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from storelab.core.model import derive_seed
from storelab.datasets import payload
from storelab.engines.common.error_classes import NO_ANSWER, named
from storelab.engines.common.guard import Guard, ProgressWriter
from storelab.engines.common.objects import Staged, put_key
from storelab.engines.contract import Check, Client, Job, Result
from storelab.host import processes

SAMPLE_NS = 200_000_000  # time between two counts of the open connections


class TransferClient(Client):
    """One client of an engine that transfers whole objects or ranges of objects."""

    engine = ""
    op = ""
    process: subprocess.Popen | None = None  # program of the engine, if it runs one
    # number of answers that were compared with the data set; None if the engine does not compare
    compared: int | None = None
    differing = 0  # number of compared answers that differed, if these count as failed operations

    def __init__(self, job: Job):
        super().__init__(job)
        axes = job.point.axes
        self.size, self.workers = axes.get("object_size", 0), axes["workers"]
        # 0: default of the engine
        self.part_size, self.parallel = axes.get("part_size", 0), axes.get("parallel_parts", 0)
        self.guard = Guard(job.limits, axes["clients"], self.kept(self.workers), ProgressWriter(job.progress_file))
        self.bucket_indices = [i for i, bucket in enumerate(job.buckets) if job.owns(bucket)]
        self.samples: list[tuple[int, int]] = []  # (UTC ns, open connections)
        self.messages: dict[str, str] = {}  # first message of each error class
        job.scratch.mkdir(parents=True, exist_ok=True)

    def kept(self, workers: int) -> tuple[int, int] | None:
        """Return the maximum stored size of the uploads of `workers` workers (see `Guard`).

        Return None if the number of keys is not bounded.
        """
        keys = self.job.point.axes.get("keys_per_worker")
        return (workers * keys * self.size, self.size) if keys else None

    def rng(self, *more: Any) -> random.Random:
        """Return a random generator that depends only on the point, the client and `more`."""
        return random.Random(derive_seed(self.job.point.seed, self.job.client, *more))

    def upload(self, n: int) -> Staged:
        """Return the client's `n`-th upload: a new key, with a bucket of its accounts and a body taken in turn."""
        number = self.bucket_indices[(self.job.client + n) % len(self.bucket_indices)]
        key = put_key(self.job.attempt, self.job.client, n)
        return Staged(number, self.job.buckets[number], key, n % payload.BODIES)

    def body_files(self, seed: int | None = None) -> list[Path]:
        """Return the body files on tmpfs. seed: the seed of the data set to read; without it, the seed of uploads."""
        seed = self.job.point.fixed["data_seed"] if seed is None else seed
        return payload.body_files(self.job.scratch.parent, seed, self.size)

    def outcome(
        self,
        ops: dict[str, Any],
        good: int,
        version: str,
        settings: dict[str, Any],
        requests: Any,
        checks: Sequence[Check],
        **facts: Any,
    ) -> Result:
        """Return the result of the client.

        Parameters
        ----------
        ops
            Columns of `records.OPS`.
        good
            Number of operations without an error.
        version, settings
            Version and settings of the engine.
        requests
            Number of HTTP requests, by operation.
        checks
            Checks of the engine.
        facts
            Additional entries of `engine`.
        """
        self.messages = {kind: named(kind, text) for kind, text in self.messages.items()}
        if (n := self.compared) is not None:
            came = good + self.differing
            share = f"; {n} of {came} answers were compared ({100 * n / max(1, came):.3g} %)"
            checks = [replace(c, detail=c.detail + share) if c.name == "content" else c for c in checks]
            facts["compared"] = n
        engine = {
            "name": self.engine,
            "version": version,
            "settings": {"workers": self.workers, "retries": 0, **settings},
            "requests_per_operation": requests,
            "errors": self.messages,
            **facts,
        }
        moved = Check(
            "operations completed",
            good > 0,
            self._why_nothing() if not good else next(iter(self.messages.values()), f"{good} operations"),
        )
        most = max((count for _, count in self.samples), default=None)
        return Result(ops, engine=engine, checks=[moved, *checks], connections={"max": most, "samples": self.samples})

    def _why_nothing(self) -> str:
        """Return why no operation was successful: the first error, and the endpoint. The text is never empty."""
        url = self.job.endpoint.url
        if not self.messages:
            hint = "check that this endpoint answers, or set a longer `duration`"
            return f"no operation ended before the deadline at {url}; {hint}"
        kind, words = next(iter(self.messages.items()))
        where = f"no answer from {url}: " if kind in NO_ANSWER else f"at {url}: "
        return where + (words or kind)

    def close(self) -> None:
        """Stop the client's program if there is one, and remove its scratch folder."""
        if self.process is not None:
            processes.stop(self.process, 2.0, signal.SIGINT)
        shutil.rmtree(self.job.scratch, ignore_errors=True)


def orders(objects: Sequence[Any], rng: random.Random, once: bool = False) -> Iterator[Any]:
    """Yield all objects in a random order, then in another random order, without end.

    With `once`, yield each object only once, in the given order.
    """
    if once:
        yield from objects
        return
    while True:
        yield from rng.sample(objects, len(objects))

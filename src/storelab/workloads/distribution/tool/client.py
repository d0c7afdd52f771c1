"""The client of `publish` by `cvmfs_swissknife`: it writes the trees of the days, and the program does the rest.

The program compresses, hashes and uploads in one go: the time of a day has its preparation in it, so `prepare_ns` is
null. May import: what `workloads` may.
"""

import os
from collections import Counter
from functools import partial
from typing import Any

from storelab.core import clock
from storelab.datasets.release.trees import Trees
from storelab.engines.common.guard import Guard
from storelab.engines.common.objects import put_prefix
from storelab.engines.contract import Job, Result
from storelab.stores.protocols.endpoint import Credentials
from storelab.workloads.distribution.client import COUNTED, CUT, PUBLISHED, PublishClient
from storelab.workloads.distribution.stratum import Failed, Stratum
from storelab.workloads.distribution.tool import keys, program, repository
from storelab.workloads.distribution.tool.repository import Repository

OWN = 2  # objects of a day that the program does not count: reflog and manifest


class ToolClient(PublishClient):
    """One process of the program at a time."""

    def __init__(self, job: Job):
        super().__init__(job)
        names = ("op", "object", "count", "bytes", "end_ns", "status", "error")
        self.ops: dict[str, list[Any]] = {name: [] for name in names}
        self.spent: Counter[str] | None = None  # what the program counted on this day; None: it told nothing
        self.stored = self.bytes = self.gets = 0  # of all days
        self.messages: dict[str, str] = {}
        self.guard = Guard(job.limits, self.axes["clients"])
        self.config = -1

    def prepare(self) -> None:
        from storelab.core.campaign.release import Release as Settings

        own, bucket = Credentials.found(os.environ), self.job.own_buckets[0]
        told = keys.settings(self.job.endpoint, bucket, own, self.axes["workers"])
        path = program.binary()
        self.told_version = program.version(path)
        self.settings = Settings.model_validate(self.job.point.fixed["release"])
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.trees = Trees(self.settings, self.folder / "trees")
        self.config = keys.in_memory(told)
        (tool := self.folder / "tool").mkdir(mode=0o700)
        name, hidden = self.settings.repository, [told[f"CVMFS_S3_{key}_KEY"] for key in ("ACCESS", "SECRET")]
        self.runner = program.Runner(path, tool, name, self.config, hidden)
        alias, url = f"{bucket.prefix}{put_prefix(self.job.attempt)}{name}", f"{self.job.extra['url']}/{name}"
        self.repository = Repository(self.runner, self.settings, url, alias, self.trees)

    def run(self, start_ns: int, deadline_ns: int) -> None:
        self.runner.deadline_ns = deadline_ns
        super().run(start_ns, deadline_ns)

    def one_day(self, n: int) -> bool:
        """Write the tree of a day and publish it, with those that failed before it; false where the deadline came."""
        facts, self.spent = self.trees.add(n), None
        told = {"files": facts["new_files"], "raw_bytes": facts["raw_bytes"]}
        state = self.tried(n, 0, [], partial(self._publish, n), told)
        if state == PUBLISHED:
            self.trees.published()
        return state != CUT

    def _publish(self, n: int) -> int:
        """Publishes a day, keeps what the program counted, and holds it against the limits, which come too late for
        this day. Returns the number of its objects."""
        try:
            self.spent = self.repository.publish(n)
        except Failed as error:
            self.messages.setdefault("Tool", str(error))
            raise
        counted, end = self.counted([]), clock.now_ns()
        stored, size, gets = (counted[name] or 0 for name in ("stored", "bytes", "gets"))
        self._keep("PUT", stored, size, end)
        self._keep("GET", gets, self.spent[repository.GOT_BYTES], end)
        self.stored, self.bytes, self.gets = self.stored + stored, self.bytes + size, self.gets + gets
        done = self.stored + self.gets
        self.guard.observe(end, self.bytes, done, done, 0)
        return stored + (counted["skipped"] or 0) + OWN

    def _keep(self, op: str, count: int, size: int, end: int) -> None:
        """A bin of a whole day, whose operations nobody timed."""
        for name, value in {"op": op, "count": count, "bytes": size, "end_ns": end, "status": 0}.items():
            self.ops[name].append(value)
        for name in ("object", "error"):
            self.ops[name].append(None)

    def counted(self, strata: list[Stratum]) -> dict[str, int | None]:
        """What the program counts: uploads of data, chunks and catalogs, what was there already, downloads. It counts
        no HEADs, retries and failures, nor anything where it fails."""
        out: dict[str, int | None] = dict.fromkeys(COUNTED)
        if (spent := self.spent) is not None:
            stored = spent[repository.CHUNKS] + spent[repository.CATALOGS]
            size = spent[repository.BYTES] + spent[repository.CATALOG_BYTES]
            out |= {"stored": stored, "bytes": size}
            out |= {"gets": spent[repository.GETS], "skipped": spent[repository.DUPLICATES]}
        return out

    def result(self) -> Result:
        n, workers = len(self.ops["op"]), self.axes["workers"]
        told = {"workers": workers, "head_before_put": True, "x_amz_acl": "public-read", "union": "aufs"}
        return Result(
            {"client": [self.job.number] * n, **self.ops},
            engine={
                "name": self.axes["engine"],
                "version": self.version(),
                "settings": {**told, **self.waits(), "day_includes_preparation": True},
                "requests_per_operation": {"GET": 1, "PUT": 2},
                "errors": self.messages,
            },
            checks=[self.all_done()],
            connections={"max": workers, "samples": []},
            tables={"days": self.rows},
        )

    def version(self) -> str:
        return f"{program.NAME} {self.told_version}"

    def close(self) -> None:
        super().close()
        if self.config >= 0:
            os.close(self.config)
            self.config = -1

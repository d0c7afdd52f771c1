"""Engine `loadgen`: storelab's load generator, written in Go. It times each operation and needs little CPU.

The common part starts the program, sends it the job, reads its messages on standard error, and stops it. The program
writes the records (`ops`) itself. One connection per worker (and per part of an object) stays open. There are no
retries. Uploaded content comes from memory, and downloads are discarded. Every 64th answer is compared with the
content. If there is spare CPU, at least 300 answers per point are compared. See docs/loadgen.md.
"""

import base64
import json
import os
import signal
import subprocess
import threading
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from storelab.core import clock
from storelab.core.axes import mixes
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import derive_seed
from storelab.datasets import payload
from storelab.engines.common import bins, ledger, objects
from storelab.engines.common.guard import Guard, LimitExceeded, ProgressWriter
from storelab.engines.common.timing import drain_s
from storelab.engines.common.transfers import TransferClient
from storelab.engines.contract import Check, Job, Result, Written
from storelab.host import processes
from storelab.install import program
from storelab.stores.protocols.endpoint import Endpoint

TIMEOUT_S = 30.0  # timeout for a server that does not answer, as in the engine obstore
GRACE_S = 60.0  # time after the drain to write millions of records; also the time to connect before the start
# The first and every 64th answer of a worker is compared with the object's content. If there is spare CPU, more answers
# are compared. Their number is enough to find, with 95 % confidence, that 1 % of all answers are wrong.
VERIFY_EVERY = 64
SCHEMA = 1  # version of the job format


def binary() -> Path:
    """Return the path of the program. Raises UserError with the command that builds it."""
    return program("loadgen", "loadgen", "engine loadgen")


def described(ends: Sequence[Endpoint]) -> list[dict[str, Any]]:
    """Return the endpoints in the format of the job."""
    return [
        {"url": e.url, "region": e.region, "addressing": e.addressing, "verify": e.verify, "ca_file": e.ca_file or ""}
        for e in ends
    ]


class LoadgenClient(TransferClient):
    """A client that runs the program.

    It connects in `prepare`, sends start and deadline in `run`, and reads the records afterwards.
    """

    engine = "loadgen"

    def __init__(self, job: Job):
        super().__init__(job)
        self.parallel = self.parallel or 1
        self.version = ""
        self.summary: dict[str, Any] = {}
        self.stop: LimitExceeded | None = None
        self.plain: list[str] = []  # lines that are not JSON, which are error messages
        self.records = job.scratch / "ops.parquet"
        self.ready = threading.Event()
        self.drain_s = drain_s(job.point.fixed.get("duration_ns", 0))

    def prepare(self) -> None:
        job = self._common() | self.job_entries()
        self.process = subprocess.Popen(
            [binary()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=processes.die_with_parent(),
        )
        self.reader = threading.Thread(target=self._listen, daemon=True)
        self.reader.start()
        self._send(job)
        if not self.ready.wait(GRACE_S) or not self.version:
            self._failed("did not start in time")

    def _common(self) -> dict[str, Any]:
        job, axes = self.job, self.job.point.axes
        balance = axes.get("balance", "client")
        ends = [job.endpoint] if balance == "client" else job.endpoints
        rate, bin_ns = axes.get("arrival_rate", 0), job.point.fixed.get("bin_ns")
        return {
            "schema": SCHEMA,
            "endpoints": described(ends),
            "balance": "worker" if balance == "client" else balance,
            "buckets": [b.name for b in job.buckets],
            "operations": [{"op": self.op}],
            "object_size": self.size,
            "part_size": self.part_size,
            "parallel_parts": self.parallel,
            "payload": self.payload(),
            "workers": self.workers,
            "threads": max(1, len(os.sched_getaffinity(0)) // axes["clients"]),
            "rate": rate,
            "rate_first": job.client if rate else 0,
            "rate_stride": axes["clients"] if rate else 1,
            "arrivals": axes.get("arrivals", "even"),
            "seed": derive_seed(job.point.seed, job.client),
            "timeout_s": TIMEOUT_S,
            "drain_s": self.drain_s,
            "client": job.number,
            "most_single": max(1, 0 if bin_ns else bins.MAX_SINGLE // axes["clients"]),
            **({"bin_ns": bin_ns} if bin_ns else {}),
            "records": str(self.records),
        }

    @abstractmethod
    def job_entries(self) -> dict[str, Any]:
        """Return the entries of the job for this operation: objects, contents and ranges."""

    def uploads(self) -> dict[str, Any]:
        """Return the entries of the job for uploads: contents, target prefixes, and the first number."""
        self.files, name = self.body_files(), objects.put_folder(self.job.attempt, self.job.client)
        return {
            "bodies": [str(f) for f in self.files],
            "uploads": [{"bucket": i, "prefix": self.job.buckets[i].prefix + name} for i in self.bucket_indices],
            "first_put": self.job.client,
        }

    def payload(self) -> str:
        chosen = self.job.point.axes.get("payload", "default")
        return "unsigned" if chosen == "default" else chosen

    def _send(self, line: dict[str, Any]) -> None:
        try:
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self._failed("ended at once")

    def _failed(self, what: str) -> None:
        """Raise UserError with the program's message if it rejected the job, otherwise MeasurementFailed."""
        status = processes.stop(self.process, 2.0, signal.SIGINT)
        self.reader.join(5)
        reason = processes.why_ended(self.plain, 3)
        if status == 2 and reason:
            raise UserError("engine loadgen", reason.removeprefix("loadgen: "))
        raise MeasurementFailed(f"the program loadgen {what} (status {status}){': ' if reason else ''}{reason}")

    def _listen(self) -> None:
        """Read the lines that the program prints until it ends, and check the limits."""
        for line in self.process.stderr:
            try:
                ((what, values),) = json.loads(line).items()
            except (ValueError, AttributeError):
                self.plain.append(line.decode(errors="replace").strip())
                continue
            now = clock.now_ns()
            if what == "ready":
                self.version = values["version"]
                self.ready.set()
            elif what == "progress" and self.stop is None:
                self.samples.append((now, values["connections"]))
                try:
                    self.guard.observe(now, values["bytes"], values["requests"], values["operations"], values["errors"])
                except LimitExceeded as limit:
                    self.stop = limit
                    self.process.send_signal(signal.SIGINT)
            elif what == "summary":
                self.summary = values
        self.ready.set()  # otherwise `prepare` waits for a program that has ended

    def run(self, start_ns: int, deadline_ns: int) -> None:
        self._send({"start_ns": start_ns, "deadline_ns": deadline_ns})
        wait_s = (deadline_ns - clock.now_ns()) / 1e9 + self.drain_s + GRACE_S
        try:
            self.status = self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self._failed(f"did not end {self.drain_s + GRACE_S:.0f} s after the deadline")
        self.reader.join(5)
        if self.stop is not None:
            raise self.stop.because(self.summary.get("messages", {}).values())
        if self.status or not self.summary:
            self._failed("failed")

    def result(self) -> Result:
        summary = self.summary
        self.messages = summary["messages"]
        settings = {
            "threads": summary["threads"],
            "payload": self.payload(),
            "timeout_s": TIMEOUT_S,
            "part_size_bytes": self.part_size or None,
            "parallel_parts": self.parallel,
            "verified_every": VERIFY_EVERY,
        }
        requests = summary["requests_per_operation"]
        facts = {name: summary[name] for name in ("hung", "hung_s", "not_begun", "dials", "pauses")}
        out = self.outcome({}, summary["operations"], self.version, settings, requests, self.checks(), **facts)
        out.connections["max"] = summary["connections_max"]
        out.written = Written(self.records, summary["operations"], summary["errors"], summary["bytes"])
        return out

    def checks(self) -> Sequence[Check]:
        return ()


class LoadgenPut(LoadgenClient):
    """A client that uploads bodies to new keys, in the account's buckets in turn."""

    op = "PUT"

    def job_entries(self) -> dict[str, Any]:
        kept = self.job.point.axes.get("ledger") == "kept"
        return self.uploads() | ({"ledger": str(ledger.begin(self.job, rewritten=False))} if kept else {})


class LoadgenGet(LoadgenClient):
    """A client that downloads whole staged objects; the order differs between workers.

    With `part_size`, an object is downloaded as parallel ranges.
    """

    op = "GET"

    def job_entries(self) -> dict[str, Any]:
        self.manifest, staged = objects.staged_objects(self.job)
        self.files = self.body_files(self.manifest["dataset"]["seed"])
        reads = {"objects": objects.job_columns(staged), "once": objects.read_once(self.job)}
        return {"bodies": [str(f) for f in self.files], "verify": VERIFY_EVERY, **reads}

    def checks(self) -> Sequence[Check]:
        compared, differ = self.summary["compared"], self.summary["differ"]
        parts = self.summary["requests_per_operation"][self.op]  # each part is compared separately
        self.compared, self.differing = compared // parts, differ // parts
        same = payload.body_sums(self.files) == self.manifest["bodies"]
        return (
            Check(
                "content",
                compared > 0 and not differ,
                f"{compared - differ} of {compared} compared answers have the right bytes",
            ),
            Check("body files", same, "comparison of the SHA-256 of the body files with the data set"),
        )


class LoadgenGetRange(LoadgenGet):
    """A client that downloads one range of `range_size` bytes of a staged object per request."""

    op = "GET_RANGE"

    def job_entries(self) -> dict[str, Any]:
        length, offset = (self.job.point.axes[name] for name in ("range_size", "offset"))
        if offset not in ("random", "sequential"):
            offset = str(objects.fixed_offset(offset))
        return super().job_entries() | {"range": {"length": length, "offset": offset}}


class LoadgenStat(LoadgenClient):
    """A client that sends HEAD requests for staged objects; the order differs between workers.

    Status and size in each answer are compared with the expected ones.
    """

    op = "HEAD"

    def job_entries(self) -> dict[str, Any]:
        return {"objects": objects.job_columns(objects.staged_objects(self.job)[1])}


class LoadgenList(LoadgenClient):
    """A client that lists whole folders of staged keys, page by page. The program checks every key."""

    op = "LIST"

    def job_entries(self) -> dict[str, Any]:
        axes = self.job.point.axes
        return {
            "lists": [{"bucket": bucket, "prefix": folder} for bucket, folder in objects.key_folders(self.job)],
            "list_keys": axes["keys"],
            "list_depth": axes["prefix_depth"],
            "page_size": axes["page_size"],
        }

    def result(self) -> Result:
        out = super().result()
        out.engine["listed"] = self.summary["listed"]
        return out


class LoadgenDelete(LoadgenClient):
    """A client that deletes objects which were made for the point, one or `batch` objects per request.

    It ends when all objects are deleted, or at the deadline.
    """

    def job_entries(self) -> dict[str, Any]:
        batch = self.job.point.axes["batch"]
        self.op = "DELETE" if batch == 1 else "DELETE_MULTI"
        pieces = objects.deletions(self.job, batch)
        keys = [key for _, piece in pieces for key in piece]
        self.objects = len(keys)
        buckets = [b for b, piece in pieces for _ in piece]
        return {"operations": [{"op": self.op}], "batch": batch, "objects": {"key": keys, "bucket": buckets}}

    def checks(self) -> Sequence[Check]:
        left = self.objects - self.summary["operations"] - self.summary["errors"]
        return (Check("no object twice", left >= 0, f"{left} objects were not deleted"),)


class LoadgenMix(LoadgenClient):
    """A client that performs a mix of operations on its own objects with loadgen."""

    def __init__(self, job: Job):
        super().__init__(job)
        self.size = mixes.largest(job.point.fixed["sizes"])
        self.guard = Guard(
            job.limits | objects.NO_SPACE_LIMITS, job.point.axes["clients"], progress=ProgressWriter(job.progress_file)
        )

    def job_entries(self) -> dict[str, Any]:
        point = self.job.point
        weights = point.fixed["mix"]
        return self.uploads() | {
            "operations": [{"op": op.upper(), "share": share} for op, share in weights.items() if share],
            "population": {
                "start": objects.sizes_at_start(point, self.job.client),
                "most": objects.objects_at_a_time(point, self.job.client),
            },
            "sizes": point.fixed["sizes"],
            "page_size": point.axes["page_size"],
            "verify": VERIFY_EVERY,
            "seed": derive_seed(point.seed, self.job.client),
        }

    def checks(self) -> Sequence[Check]:
        compared, differ = self.summary["compared"], self.summary["differ"]
        detail = f"{compared - differ} of {compared} compared answers have the right bytes"
        return (Check("content", not differ, detail),)

    def result(self) -> Result:
        out = super().result()
        out.engine |= {"listed": self.summary["listed"], "mixed": self.summary["mixed"]}
        return out


class LoadgenRewrite(LoadgenPut):
    """A client that overwrites and deletes its own keys with loadgen, and records its writes in a ledger."""

    def job_entries(self) -> dict[str, Any]:
        axes = self.job.point.axes
        mark = ledger.mark(self.job.attempt, self.job.client)
        return super().job_entries() | {
            "operations": [{"op": "PUT"}, {"op": "DELETE"}],
            "ledger": str(ledger.begin(self.job, rewritten=True)),
            "rewrite": {
                "keys": axes["keys_per_worker"],
                "deletes": axes["deletions"] / 100,
                "stamp": base64.b64encode(mark).decode(),
            },
        }

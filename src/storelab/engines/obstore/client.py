"""Engine `obstore`, common part: S3 by the Rust library object_store, in process, from memory, each operation timed.

A client is one or more processes (as many as its share of the cores, each with at least 4 workers), each a loop of
threads (`loop.py`). Retries are off. A PUT is one request unless the axis `part_size` asks for parts. Payloads are not
signed (`UNSIGNED-PAYLOAD`), so the client hashes no content. There are as many connections as operations in flight; the
library has no limit.
"""

import importlib.metadata
import json
import os
import shutil
import signal
import time
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from storelab.core import clock
from storelab.core.errors import MeasurementFailed
from storelab.engines.common import bins
from storelab.engines.common.arrivals import Closed, Open
from storelab.engines.common.guard import Guard, LimitExceeded
from storelab.engines.contract import Check, Client, Result
from storelab.engines.obstore.loop import COLUMNS, DRAIN_S, Loop, Outcome, Task
from storelab.host import proc, processes
from storelab.stores.protocols.endpoint import Bucket

FEWEST_WORKERS = 4  # of one process: a thread costs less than a process
GRACE_S = 30.0  # after the drain, for writing results
READ_TIMEOUT, CONNECT_TIMEOUT = "30s", "10s"


def open_store(client: "ObstoreClient", bucket: Bucket | None = None) -> Any:
    """An `S3Store` for one bucket, or for all of them.

    With path addressing a key may begin with its bucket's name. One pool of connections then serves all buckets, as in
    other clients.
    """
    from obstore.store import S3Store

    end, environ = client.endpoint, os.environ
    options: dict[str, Any] = {
        "allow_http": True,
        "http1_only": True,
        "allow_invalid_certificates": not end.verify,
        "read_timeout": READ_TIMEOUT,
        "connect_timeout": CONNECT_TIMEOUT,
        "timeout": "24h",  # of a whole operation; a silent server ends by READ_TIMEOUT
        "randomize_addresses": False,
    }
    if end.ca_file:
        options["root_certificate"] = Path(end.ca_file).read_bytes()
    virtual = end.addressing == "virtual"
    url = end.url if bucket is None or not virtual else end.url.replace("://", f"://{bucket.name}.", 1)
    return S3Store(
        bucket.name if bucket else "all",
        endpoint=url,
        virtual_hosted_style_request=bucket is None or virtual,
        region=end.region,
        access_key_id=environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
        **({"session_token": token} if (token := environ.get("AWS_SESSION_TOKEN")) else {}),
        unsigned_payload=True,
        disable_bulk_delete=not client.multi_delete,
        client_options=options,
        retry_config={"max_retries": 0},
    )


class ObstoreClient(Client):
    """Forks its processes in `prepare`, releases them at the start, gathers their columns."""

    op = ""
    multi_delete = False
    per_bucket = False  # whether operations need a store object per bucket

    def prepare(self) -> None:
        import obstore

        axes = self.job.point.axes
        self.obstore, self.endpoint = obstore, self.job.endpoint
        self.size, self.workers = axes["object_size"], axes["workers"]
        self.part_size, self.parallel = axes.get("part_size", 0), axes.get("parallel_parts", 0) or 1
        self.arrival_rate = axes.get("arrival_rate", 0)
        self.prepare_tasks()
        cores = len(os.sched_getaffinity(0)) // axes["clients"]
        self.processes = max(1, min(cores, self.workers // FEWEST_WORKERS))
        self.samples: list[tuple[int, int]] = []
        self.children: list[int] = []
        self.job.scratch.mkdir(parents=True, exist_ok=True)
        self.start_read, self.start_write = os.pipe()
        for i in range(self.processes):
            self.children.append(self._fork(i))
        deadline = time.monotonic() + GRACE_S
        while any(not self._file(i, "ready").exists() for i in range(self.processes)):
            if time.monotonic() > deadline or any(self._ended(pid) for pid in self.children):
                log = next((t for i in range(self.processes) if (t := self._failure(i))), "")
                raise MeasurementFailed(f"a process of the engine obstore did not come up: {log}")
            time.sleep(0.005)

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

    @abstractmethod
    def requests(self) -> int:
        """HTTP requests of one operation."""

    def verify(self, kept: list[tuple[Task, bytes]]) -> tuple[int, str]:
        """(answers with the right content, description) of the kept ones; runs in the process that kept them."""
        return 0, ""

    def open(self) -> None:
        """In an engine process: make the store, or one per bucket; open a first connection, which is not measured."""
        buckets = self.job.buckets
        if self.per_bucket or self.endpoint.addressing == "virtual":
            self.stores = [open_store(self, b) for b in buckets]
            self.paths = ["" for _ in buckets]
        else:
            self.stores = [open_store(self)] * len(buckets)
            self.paths = [f"{b.name}/" for b in buckets]
        own = next(i for i, b in enumerate(buckets) if b.account == self.job.account)
        try:
            self.obstore.head(self.stores[own], f"{self.paths[own]}{buckets[own].prefix}storelab-hello")
        except Exception:  # noqa: BLE001 - the answer does not matter
            return

    def _file(self, index: int, kind: str) -> Path:
        return self.job.scratch / f"{kind}.{index}"

    def _failure(self, index: int) -> str:
        path = self._file(index, "failure")
        return path.read_text() if path.exists() else ""

    @staticmethod
    def _ended(pid: int) -> bool:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _fork(self, index: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            processes.die_with_parent()()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(self.start_write)
            self._process(index)
            status = 0
        except BaseException as error:  # noqa: BLE001 - the client reports it, whatever it is
            self._file(index, "failure").write_text(f"{type(error).__name__}: {error}"[:500])
        finally:
            os._exit(status)  # skips the interpreter's shutdown: see loop.py

    def _process(self, index: int) -> None:
        self.open()
        clients = self.job.point.axes["clients"]
        guard = Guard(self.job.limits, clients * self.processes)
        loop = Loop(
            self.do, self.tasks, list(range(index, self.workers, self.processes)), self.size, self.requests(), guard
        )
        self._file(index, "ready").touch()
        word = os.read(self.start_read, 16)  # each process takes one word
        if len(word) < 16:
            return  # the point was called off
        start_ns, deadline_ns = int.from_bytes(word[:8], "big"), int.from_bytes(word[8:16], "big")
        arrivals: Closed | Open = Closed(deadline_ns)
        if self.arrival_rate:
            stride = clients * self.processes
            arrivals = Open(start_ns, deadline_ns, self.arrival_rate, self.job.client * self.processes + index, stride)
        loop.run(start_ns, deadline_ns, arrivals)
        good, what = self.verify(list(loop.kept))
        loop.save(self.job.scratch / f"ops.{index}.npz")
        facts = {"kept": len(loop.kept), "good": good, "what": what, "messages": loop.messages, "cut_off": loop.cut_off}
        self._file(index, "facts").write_text(
            json.dumps(facts | {"missed": arrivals.missed(), "ended_ns": loop.ended_ns})
        )

    def run(self, start_ns: int, deadline_ns: int) -> None:
        self.start_ns = start_ns
        for _ in self.children:
            os.write(self.start_write, start_ns.to_bytes(8, "big") + deadline_ns.to_bytes(8, "big"))
        last = deadline_ns + int((DRAIN_S + GRACE_S) * 1e9)
        next_sample = start_ns
        while not all(map(self._ended, self.children)):
            now = clock.now_ns()
            if now > last:
                raise MeasurementFailed(
                    f"a process of the engine obstore did not end {DRAIN_S + GRACE_S:.0f} s after the deadline"
                )
            if next_sample <= now < deadline_ns:
                self.samples.append((now, sum(proc.sockets(pid) or 0 for pid in self.children)))
                next_sample = now + 200_000_000
            time.sleep(0.02)
        for pid in self.children:
            os.waitpid(pid, 0)  # from now on their CPU time counts as this client's
        self.children = []
        if failure := next(filter(None, map(self._failure, range(self.processes))), ""):
            name, _, text = failure.partition(": ")
            raise (LimitExceeded if name == "LimitExceeded" else MeasurementFailed)(
                text if name == "LimitExceeded" else failure
            )

    def result(self) -> Result:
        import numpy as np

        parts = [np.load(self.job.scratch / f"ops.{i}.npz") for i in range(self.processes)]
        facts = [json.loads(self._file(i, "facts").read_text()) for i in range(self.processes)]
        columns = {name: np.concatenate([p[name] for p in parts]) for name in COLUMNS}
        n = len(columns["end_ns"])
        errors, statuses = np.full(n, None, object), np.zeros(n, np.int16)
        before = 0
        for p in parts:
            errors[before + p["row"]], statuses[before + p["row"]] = p["error"], p["status"]
            before += len(p["end_ns"])
        ops = self._columns(columns, errors, statuses)
        good = int(columns["count"][[e is None for e in errors]].sum()) if n else 0
        messages = {name: text for f in facts for name, text in f["messages"].items()}
        kept, right = sum(f["kept"] for f in facts), sum(f["good"] for f in facts)
        checks = [
            Check("something moved", good > 0, next(iter(messages.values()), f"{good} operations")),
        ]
        if what := next((f["what"] for f in facts if f["what"]), ""):
            checks.append(Check("content", right == kept, f"{right} of {kept} {what}"))
        engine = {
            "name": "obstore",
            "version": importlib.metadata.version("obstore"),
            "settings": {
                "workers": self.workers,
                "processes": self.processes,
                "retries": 0,
                "payload": "unsigned",
                "read_timeout": READ_TIMEOUT,
                "part_size_bytes": self.part_size or None,
                "parallel_parts": self.parallel,
            },
            "requests_per_operation": {self.op: self.requests()},
            "errors": messages,
            "cut_off": sum(f["cut_off"] for f in facts),
            "not_begun": sum(f["missed"] for f in facts),  # open loop: due before the deadline, and no worker was free
        }
        most = max((count for _, count in self.samples), default=None)
        return Result(ops, engine=engine, checks=checks, connections={"max": most, "samples": self.samples})

    def _columns(self, columns: dict[str, Any], errors: Any, statuses: Any) -> dict[str, Any]:
        """Columns of `records.OPS`; as bins if there are too many operations for single rows."""
        import numpy as np

        n = len(errors)
        sums = {name: columns[name] for name in ("count", "bytes", "requests")}
        intended = columns["intended_ns"] if self.arrival_rate else None
        if not bins.stay_single(n, self.job.point.axes["clients"]):
            binned = bins.binned(
                self.start_ns, columns["start_ns"], columns["end_ns"], self.op, errors, statuses, intended, sums
            )
            return binned | {"client": np.full(len(binned["end_ns"]), self.job.client, np.int16)}
        single = sums | {name: columns[name] for name in ("worker", "start_ns", "end_ns")}
        single |= {
            "client": np.full(n, self.job.client, np.int16),
            "op": np.full(n, self.op, object),
            "status": statuses,
            "error": errors,
        }
        single["first_byte_ns"] = np.ma.masked_equal(columns["first_byte_ns"], 0)
        return (
            single | {"object": self.names(columns["object"])} | ({} if intended is None else {"intended_ns": intended})
        )

    def close(self) -> None:
        for pid in getattr(self, "children", []):
            if not self._ended(pid):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for end in (getattr(self, "start_read", None), getattr(self, "start_write", None)):
            if end is not None:
                os.close(end)
        shutil.rmtree(self.job.scratch, ignore_errors=True)

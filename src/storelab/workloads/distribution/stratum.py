"""A repository in one bucket, as the tool asks for it: HEAD, GET, PUT, DELETE, with retries, from several threads.

Every request is signed (version 4, with the SHA-256 of the payload). May import: `patterns`, `probe`, `engines`,
`stores`, `datasets`, `core`.
"""

import hashlib
import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.client import HTTPException
from typing import Any, TypeVar

from storelab.core import clock
from storelab.core.errors import MeasurementFailed
from storelab.datasets.release import names
from storelab.engines.common.error_classes import classify, said
from storelab.engines.common.guard import Guard
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads.distribution import many, patterns
from storelab.workloads.distribution.patterns import Pattern
from storelab.workloads.probe import signing
from storelab.workloads.probe.answers import Refuted
from storelab.workloads.probe.plain_http import Connection, Reply, error_code, md5_header

DAY_S = 86400
WALKER = -1  # who asks beside the threads of `spread`: a connection of its own
_Item = TypeVar("_Item")
NO_QUERY: Mapping[str, str] = {}
AHEAD = 2  # items for each thread that wait their turn
_END: Any = object()


class Failed(MeasurementFailed):
    """A request failed for good, and with it the day, or the replication."""


class OutOfTime(Exception):
    """The deadline came in the middle of a day."""


class Log:
    """Operations of one stratum as columns of `records.OPS`, and what they add up to since `begin`. Thread-safe."""

    def __init__(self, client: int, guard: Guard | None = None):
        self.client, self.guard = client, guard
        self.columns: dict[str, list[Any]] = {
            name: []
            for name in (
                "worker",
                "op",
                "object",
                "count",
                "bytes",
                "requests",
                "start_ns",
                "end_ns",
                "status",
                "error",
            )
        }
        self.messages: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.kept = True
        self.lock = threading.Lock()

    def begin(self, kept: bool = True) -> None:
        """A new day. kept: its operations are recorded one by one."""
        self.counts, self.kept = Counter(), kept

    def add(
        self,
        op: str,
        keys: Sequence[str],
        worker: int,
        size: int,
        tries: int,
        times: tuple[int, int],
        status: int,
        why: str | None = None,
    ) -> None:
        """An operation on so many keys that is over: done, or failed (why)."""
        name = keys[0] if len(keys) == 1 else None
        self._row(worker, op, name, len(keys), size, tries, *times, status, why)

    def _row(self, *values: Any) -> None:
        row = dict(zip(self.columns, values, strict=True))
        op, error = row["op"], row["error"]
        stored = op == "PUT" and names.parts(row["object"]) is not None  # reflog and manifest take their own place
        with self.lock:
            if self.kept:
                for column, value in zip(self.columns.values(), values, strict=True):
                    column.append(value)
            done = {"failures": 1} if error else {many.COUNTED[op]: row["count"], "operations": row["count"]}
            done |= {"stored": 1, "bytes": row["bytes"]} if stored and not error else {}
            for counts in (self.counts, self.total):
                counts.update(done)
                counts["retries"] += row["requests"] - 1
                counts["requests"] += row["requests"]
            if self.guard and self.guard.active:
                t = self.total
                self.guard.observe(row["end_ns"], t["bytes"], t["requests"], t["operations"], t["failures"])

    def skip(self) -> None:
        with self.lock:
            self.counts["skipped"] += 1

    def ops(self) -> dict[str, Any]:
        """Columns of `records.OPS`."""
        n = len(self.columns["op"])
        return {"client": [self.client] * n, **self.columns}


class Stratum:
    """keys: of the account, None for a store without. prefix: what stands in the bucket before the repository's name.

    `expired`: requests are signed as of the day before. `deadline_ns`: later than this no request begins.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        bucket: Bucket,
        prefix: str,
        keys: Credentials | None,
        pattern: Pattern,
        log: Log,
        seed: int = 0,
    ):
        if keys is None:
            raise MeasurementFailed(f"{endpoint.url}: no keys to sign requests with")
        self.endpoint, self.bucket, self.prefix, self.keys = endpoint, bucket.name, bucket.prefix + prefix, keys
        self.pattern, self.log, self.random = pattern, log, random.Random(seed)
        self.context = filesystems.tls_context(endpoint) if endpoint.url.startswith("https") else None
        self.wires: dict[int, Connection] = {}
        self.waiting = threading.Lock()
        self.expired = False
        self.sent: set[str] = set()  # keys that were acknowledged since it was emptied
        self.deadline_ns: int | None = None

    def there(self, key: str, worker: int = WALKER) -> bool:
        """HEAD. Raises Failed, OutOfTime."""
        return self._ask("HEAD", key, worker).status != 404

    def get(self, key: str, worker: int = WALKER) -> bytes:
        """Raises Failed, OutOfTime; FileNotFoundError where it is not there."""
        reply = self._ask("GET", key, worker)
        if reply.status == 404:
            raise FileNotFoundError(f"{self.endpoint.url}: {key} is not there")
        return reply.body

    def put(self, key: str, data: bytes, worker: int = WALKER, always: bool = False) -> None:
        """Upload what is absent, by the pattern: it looks, or remembers. always: what keeps its name is sent again.
        Raises Failed, OutOfTime."""
        if not always and (self.there(key, worker) if self.pattern.head else key in self.sent):
            self.log.skip()
            return
        self._ask("PUT", key, worker, data)
        self.sent.add(key)

    def delete(self, keys: Sequence[str], worker: int = WALKER) -> None:
        """One object by a DELETE, several by one request; what is not there is gone. Raises Failed, OutOfTime."""
        self._ask(many.ONE if len(keys) == 1 else many.SEVERAL, keys[0], worker, keys=keys)

    def _ask(self, op: str, key: str, worker: int, data: bytes | None = None, keys: Sequence[str] = ()) -> Reply:
        """One operation, with its retries. keys: all of them, where they may be several. Raises Failed, OutOfTime."""
        keys = keys or (key,)
        begun, tries, retries = clock.now_ns(), 0, 0
        while True:
            if self.pattern.waits_together:
                with self.waiting:  # nobody waits for a retry
                    pass
            if self.deadline_ns is not None and clock.now_ns() >= self.deadline_ns:
                raise OutOfTime
            tries += 1
            if op == many.SEVERAL:
                reply, kind, message = self._send_several(keys, worker)
            else:
                reply, kind, message = self._send(op, key, worker, data)
            status, times = reply.status if reply else 0, (begun, clock.now_ns())
            if reply and (reply.good or (status == 404 and op in ("HEAD", "GET", many.ONE))):
                size = 0 if op in many.DELETIONS else len(data if data is not None else reply.body)
                self.log.add(op, keys, worker, size, tries, times, status)
                return reply
            if reply and status == patterns.THROTTLED:
                self._wait(_throttled_s(reply.headers.get("Retry-After")))
            elif status in patterns.AGAIN and retries < patterns.RETRIES:
                retries += 1
                self._wait(self.random.uniform(0, patterns.LONGEST_WAIT_S))
            else:
                self.log.add(op, keys, worker, 0, tries, times, status, kind)
                self.log.messages.setdefault(kind, message)
                raise Failed(f"{op} {key}: {message}")

    def _send(self, op: str, key: str, worker: int, data: bytes | None) -> tuple[Reply | None, str, str]:
        """(reply or None, class of an error, words) of one request."""
        url, path = signing.place(self.endpoint, self.bucket, self.prefix + key)
        headers = {"x-amz-acl": self.pattern.acl} if self.pattern.acl else {}
        if data is not None:
            headers |= {"Content-Type": names.content_type(key), "Cache-Control": names.cache_control(key)}
        return self._exchange(op, url, path, worker, headers, data)

    def _send_several(self, keys: Sequence[str], worker: int) -> tuple[Reply | None, str, str]:
        """The same of one request that deletes all of these."""
        body = many.request([self.prefix + key for key in keys])
        headers = {"Content-Type": "application/xml", "Content-MD5": md5_header(body)}
        url, path = signing.place(self.endpoint, self.bucket)
        return self._exchange("POST", url, path, worker, headers, body, {"delete": ""})

    def _exchange(
        self,
        method: str,
        url: str,
        path: str,
        worker: int,
        headers: dict[str, str],
        data: bytes | None,
        query: Mapping[str, str] = NO_QUERY,
    ) -> tuple[Reply | None, str, str]:
        if worker not in self.wires:
            self.wires[worker] = Connection(url, self.context, patterns.TIMEOUT_S)
        wire = self.wires[worker]
        when = time.time() - DAY_S if self.expired else None
        digest = hashlib.sha256(data or b"").hexdigest()
        headers = signing.sign(method, wire.host, path, query, headers, digest, self.keys, self.endpoint.region, when)
        target = f"{path}?{signing.query_of(query)}" if query else path
        try:
            reply = wire.send(method, target, headers, data)
        except (OSError, HTTPException, Refuted) as error:
            return None, classify(error)[0], said(error)
        if query:
            reply = many.judged(reply)
        kind = error_code(reply.body) or f"Http{reply.status}"
        return reply, kind, f"{reply.status} {error_code(reply.body)}".strip()

    def _wait(self, seconds: float) -> None:
        if not self.pattern.waits_together:
            time.sleep(seconds)
            return
        with self.waiting:  # the tool waits in the thread that moves all bytes
            time.sleep(seconds)

    def close(self) -> None:
        for wire in self.wires.values():
            wire.close()


def _throttled_s(said_s: str | None) -> float:
    """How long to wait after a 429: as the server says, in seconds, but not too long."""
    known = said_s is not None and said_s.strip().isdigit()
    return min(float(said_s or 0), patterns.LONGEST_THROTTLED_S) if known else patterns.THROTTLED_S


def spread(items: Iterable[_Item], do: Callable[[_Item, int], None], workers: int) -> None:
    """Each item is done once, by one of so many threads: do(item, number of the thread). The first exception ends all,
    and is raised. Items are taken here, a few ahead of what is done."""
    ahead: queue.Queue[Any] = queue.Queue(AHEAD * workers)
    failure: list[BaseException] = []

    def work(number: int) -> None:
        while (item := ahead.get()) is not _END:
            try:
                if not failure:
                    do(item, number)
            except BaseException as error:  # noqa: BLE001 - raised again below
                failure.append(error)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(workers)]
    for thread in threads:
        thread.start()
    try:
        for item in items:
            if failure:
                break
            ahead.put(item)
    finally:
        for _ in threads:
            ahead.put(_END)
        for thread in threads:
            thread.join()
    if failure:
        raise failure[0]

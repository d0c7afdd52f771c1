"""Access a repository in one bucket with HEAD, GET, PUT and DELETE, with retries, from several threads.

The requests are those of the tool of CernVM-FS. Every request is signed (version 4, with the SHA-256 of the payload).
"""

import hashlib
import queue
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from http.client import HTTPException, HTTPMessage
from typing import Any, TypeVar

from storelab.core import clock
from storelab.core.axes.distribution import Pattern
from storelab.core.errors import MeasurementFailed
from storelab.datasets.release import names
from storelab.engines.common.error_classes import classify, error_message
from storelab.engines.common.guard import Guard
from storelab.stores.protocols import filesystems, s3_clients
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads.probe import signing
from storelab.workloads.probe.answers import Refuted
from storelab.workloads.probe.plain_http import Connection, Reply, error_code, md5_header

TIMEOUT_S = 60.0
RETRIES = 3
AGAIN = (0, 500, 502, 503)  # statuses that are retried; 0: no connection, or no answer
LONGEST_WAIT_S = 0.1  # maximum of the random time before a retry
WAITS = {  # values for the record
    "retries": RETRIES,
    "longest_wait_ms": 1000 * LONGEST_WAIT_S,
    "timeout_s": TIMEOUT_S,
    "signature": "version 4",
}
THROTTLED = 429
THROTTLED_S, LONGEST_THROTTLED_S = 0.25, 10.0  # wait in s without Retry-After, and maximum of Retry-After
DAY_S = 86400
WALKER = -1  # user of a separate connection, in addition to the threads of `spread`
_Item = TypeVar("_Item")
AHEAD = 2  # number of items per thread in the queue
_END: Any = object()
ONE, SEVERAL = "DELETE", "DELETE_MULTI"  # names of operations in records
COUNTED = {"HEAD": "heads", "GET": "gets", "PUT": "puts", ONE: "deletes", SEVERAL: "deletes"}  # operation -> its count
BUSY = ("InternalError", "ServiceUnavailable", "SlowDown")  # error codes of keys whose deletion can be retried
GONE = ("NoSuchKey",)
_CODE = re.compile(rb"<Error>.*?<Code>\s*([A-Za-z0-9.]{1,80})\s*</Code>", re.DOTALL)
HTTP_1_1 = 11


class Failed(MeasurementFailed):
    """A request failed permanently, so that the day or the replication failed."""


class OutOfTime(Exception):
    """The deadline was reached before a day of the release was complete."""


def spread(items: Iterable[_Item], do: Callable[[_Item, int], None], workers: int) -> None:
    """Call do(item, number of the thread) once for each item, in `workers` threads.

    The first exception ends all threads and is raised. Items are taken in the calling thread, a few in advance.
    """
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


class Log:
    """The operations of one stratum as columns of `records.OPS`, and their sums since `begin`. Thread-safe."""

    def __init__(self, client: int, guard: Guard | None = None):
        self.client, self.guard = client, guard
        columns = ("worker", "op", "object", "count", "bytes", "requests", "start_ns", "end_ns", "status", "error")
        self.columns: dict[str, list[Any]] = {name: [] for name in columns}
        self.messages: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.kept = True
        self.lock = threading.Lock()

    def begin(self, kept: bool = True) -> None:
        """Begin a day. kept: True to record its operations individually."""
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
        """Add an operation on one or several keys. why: the error class if it failed."""
        name = keys[0] if len(keys) == 1 else None
        row = (worker, op, name, len(keys), size, tries, *times, status, why)
        done = {"failures": 1} if why else {COUNTED[op]: len(keys), "operations": len(keys)}
        # reflog and manifest are overwritten, so they do not count
        if op == "PUT" and not why and names.parts(keys[0]) is not None:
            done |= {"stored": 1, "bytes": size}
        with self.lock:
            if self.kept:
                for column, value in zip(self.columns.values(), row, strict=True):
                    column.append(value)
            for counts in (self.counts, self.total):
                counts.update(done)
                counts["retries"] += tries - 1
                counts["requests"] += tries
            if self.guard and self.guard.active:
                t = self.total
                self.guard.observe(times[1], t["bytes"], t["requests"], t["operations"], t["failures"])

    def skip(self) -> None:
        with self.lock:
            self.counts["skipped"] += 1

    def ops(self) -> dict[str, Any]:
        """Return columns of `records.OPS`."""
        n = len(self.columns["op"])
        return {"client": [self.client] * n, **self.columns}


def judged(reply: Reply) -> Reply:
    """Return the answer to a deletion of several objects, with a status that includes the errors in its body.

    If an answer 200 names keys that were not deleted, its status becomes 503 if all can be retried, otherwise 403.
    """
    codes = [code.decode() for code in _CODE.findall(reply.body)] if reply.good else []
    left = [code for code in codes if code not in GONE]
    if not left:
        return reply
    return replace(reply, status=503 if all(code in BUSY for code in left) else 403)


class Stratum:
    """A repository in a bucket.

    keys: the keys of the account, or None for a store without keys; prefix: the text before the repository's name. If
    `expired`, requests are signed with the date of the day before. No request begins after `deadline_ns`.
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
            raise MeasurementFailed(f"{endpoint.url}: there are no keys to sign requests")
        self.endpoint, self.bucket, self.prefix, self.keys = endpoint, bucket.name, bucket.prefix + prefix, keys
        self.pattern, self.log, self.random = pattern, log, random.Random(seed)
        self.context = filesystems.tls_context(endpoint) if endpoint.url.startswith("https") else None
        self.wires: dict[int, Connection] = {}
        self.waiting = threading.Lock()
        self.expired = False
        self.sent: set[str] = set()  # acknowledged keys since it was last cleared
        self.deadline_ns: int | None = None

    def there(self, key: str, worker: int = WALKER) -> bool:
        """Return True if the object exists, by HEAD. Raises Failed or OutOfTime."""
        return self._ask("HEAD", [key], worker).status != 404

    def get(self, key: str, worker: int = WALKER) -> bytes:
        """Return the object. Raises FileNotFoundError if it does not exist, Failed or OutOfTime."""
        reply = self._ask("GET", [key], worker)
        if reply.status == 404:
            raise FileNotFoundError(f"{self.endpoint.url}: {key} does not exist")
        return reply.body

    def put(self, key: str, data: bytes, worker: int = WALKER, always: bool = False) -> None:
        """Upload an object if it is missing.

        Depending on the pattern, the store is asked by HEAD, or this process remembers its uploads. always: True to
        upload in any case, for objects that keep their names. Raises Failed or OutOfTime.
        """
        if not always and (self.there(key, worker) if self.pattern.head else key in self.sent):
            self.log.skip()
            return
        self._ask("PUT", [key], worker, data)
        self.sent.add(key)

    def delete(self, keys: Sequence[str], worker: int = WALKER) -> None:
        """Delete objects by one request. Missing objects count as deleted. Raises Failed or OutOfTime."""
        self._ask(ONE if len(keys) == 1 else SEVERAL, keys, worker)

    def _ask(self, op: str, keys: Sequence[str], worker: int, data: bytes | None = None) -> Reply:
        """Perform one operation, with its retries. Raises Failed or OutOfTime."""
        begun, tries, retries = clock.now_ns(), 0, 0
        while True:
            if self.pattern.waits_together:
                with self.waiting:  # wait while another thread waits for a retry
                    pass
            if self.deadline_ns is not None and clock.now_ns() >= self.deadline_ns:
                raise OutOfTime
            tries += 1
            reply, kind, message = self._send(op, keys, worker, data)
            status, times = reply.status if reply else 0, (begun, clock.now_ns())
            if reply and (reply.good or (status == 404 and op in ("HEAD", "GET", ONE))):
                size = 0 if op in (ONE, SEVERAL) else len(data if data is not None else reply.body)
                self.log.add(op, keys, worker, size, tries, times, status)
                return reply
            if reply and status == THROTTLED:
                # waiting time that the server requests, in seconds
                requested = (reply.headers.get("Retry-After") or "").strip()
                self._wait(
                    min(float(requested), LONGEST_THROTTLED_S)
                    if requested.isascii() and requested.isdigit()
                    else THROTTLED_S
                )
            elif status in AGAIN and retries < RETRIES:
                retries += 1
                self._wait(self.random.uniform(0, LONGEST_WAIT_S))
            else:
                self.log.add(op, keys, worker, 0, tries, times, status, kind)
                self.log.messages.setdefault(kind, message)
                raise Failed(f"{op} {keys[0]}: {message}")

    def _send(self, op: str, keys: Sequence[str], worker: int, data: bytes | None) -> tuple[Reply | None, str, str]:
        """Send one request, and return the reply or None, the error class, and the message."""
        query: Mapping[str, str] = {}
        if op == SEVERAL:
            data, query = signing.delete_body([self.prefix + key for key in keys]), {"delete": ""}
            headers = {"Content-Type": "application/xml", "Content-MD5": md5_header(data)}
            url, path = signing.place(self.endpoint, self.bucket)
        else:
            headers = {"x-amz-acl": self.pattern.acl} if self.pattern.acl else {}
            if data is not None:
                kind, cache = names.content_type(keys[0]), names.cache_control(keys[0])
                headers |= {"Content-Type": kind, "Cache-Control": cache}
            url, path = signing.place(self.endpoint, self.bucket, self.prefix + keys[0])
        if worker not in self.wires:
            self.wires[worker] = Connection(url, self.context, TIMEOUT_S)
        wire = self.wires[worker]
        method = "POST" if op == SEVERAL else op
        when = time.time() - DAY_S if self.expired else None
        digest = hashlib.sha256(data or b"").hexdigest()
        headers = signing.sign(method, wire.host, path, query, headers, digest, self.keys, self.endpoint.region, when)
        try:
            reply = wire.send(method, f"{path}?{signing.query_of(query)}" if query else path, headers, data)
        except (OSError, HTTPException, Refuted) as error:
            return None, classify(error)[0], error_message(error)
        if op == SEVERAL:
            reply = judged(reply)
        code = error_code(reply.body)
        return reply, code or f"Http{reply.status}", f"{reply.status} {code}".strip()

    def _wait(self, seconds: float) -> None:
        if not self.pattern.waits_together:
            time.sleep(seconds)
            return
        with self.waiting:  # the tool waits in the thread that transfers all bytes
            time.sleep(seconds)

    def close(self) -> None:
        for wire in self.wires.values():
            wire.close()


class ObstoreStratum(Stratum):
    """A stratum with the library obstore, which uses the keys in the environment."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        import obstore

        self.library = obstore
        self.store, self.several = (
            s3_clients.store(self.endpoint, self.bucket, {"timeout": f"{TIMEOUT_S:g}s"}, disable_bulk_delete=single)
            # by default, the library deletes even one object by the request for several objects
            for single in (True, False)
        )

    def _send(self, op: str, keys: Sequence[str], worker: int, data: bytes | None) -> tuple[Reply | None, str, str]:
        path, body = self.prefix + keys[0], b""
        try:
            if op == "PUT":
                kind, cache = names.content_type(keys[0]), names.cache_control(keys[0])
                attributes = {"Content-Type": kind, "Cache-Control": cache}
                self.library.put(self.store, path, data, use_multipart=False, attributes=attributes)
            elif op == "HEAD":
                self.library.head(self.store, path)
            elif op == ONE:
                self.library.delete(self.store, path)
            elif op == SEVERAL:
                self.library.delete(self.several, [self.prefix + key for key in keys])
            else:
                body = bytes(self.library.get(self.store, path).bytes())
            return Reply(200, HTTPMessage(), body, HTTP_1_1), "", ""
        except Exception as error:  # noqa: BLE001 - any error of the library is a failed request
            kind, status = classify(error)
            if isinstance(error, FileNotFoundError) and op != SEVERAL:
                kind, status = "NotFound", 404
            return Reply(status, HTTPMessage(), b"", HTTP_1_1) if status else None, kind, error_message(error)

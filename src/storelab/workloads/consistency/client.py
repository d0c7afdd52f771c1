"""Run the clients of `consistency`: several workers, each with separate keys, through all front-ends.

All keys are in one bucket. Every worker of every client checks the store, and is load for the other workers. The first
worker of client 0 also checks buckets and a listing of many pages. Deleted keys are checked again in the last tenth of
the time (at most 5 s).

Each thread uses a front-end as `S3View` (plain signed requests, no SDK, no retry) or as `FilesView`. `FilesView` uses
fsspec and storelab's access to any protocol, and an operation can be several requests.
"""

import hashlib
import importlib.metadata
import os
import platform
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar
from xml.etree import ElementTree

from storelab.core import clock
from storelab.core.errors import MeasurementFailed
from storelab.core.model import derive_seed
from storelab.engines.common.error_classes import classify
from storelab.engines.common.objects import put_prefix
from storelab.engines.contract import Check, Client, Result
from storelab.stores.protocols import filesystems, open_access
from storelab.stores.protocols.access import AccessRefused, NoSuchBucket
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads.consistency import rounds
from storelab.workloads.consistency.rounds import MANY_THREADS, Many, NamespaceWorker, Worker, stem
from storelab.workloads.consistency.seen import ABSENT, FAILED, OBJECTS, OK, ONCE, Ledger, Seen, View, body, listed
from storelab.workloads.probe import signing
from storelab.workloads.probe.plain_http import Connection, error_code

TIMEOUT_S = 15.0
MAX_PAGES = 1000
_MESSAGE = re.compile(rb"<Message>([^<]{1,300})</Message>")


class BrokenListing(Exception):
    """The answer is not a listing, or the pages of a listing do not end."""


class S3View(View):
    """A view through S3. environ contains the keys.

    It has one connection per host; with virtual addressing, one per bucket.
    """

    def __init__(self, endpoint: Endpoint, bucket: Bucket, environ: Mapping[str, str]):
        self.endpoint, self.bucket, self.prefix = endpoint, bucket.name, bucket.prefix
        self.keys = Credentials.found(environ)
        self.context = filesystems.tls_context(endpoint) if endpoint.url.startswith("https") else None
        self.wires: dict[str, Connection] = {}
        self.kept = {signing.place(endpoint, name)[0] for name in ("", self.bucket)}

    def _wire(self, url: str) -> Connection:
        if url not in self.wires:
            for old in self.wires.keys() - self.kept:
                self.wires.pop(old).close()  # the connection of a bucket that was removed
            self.wires[url] = Connection(url, self.context, TIMEOUT_S)
        return self.wires[url]

    def _ask(
        self, method: str, bucket: str, key: str = "", query: Mapping[str, str] | None = None, data: bytes = b""
    ) -> Seen:
        """Send one request. Status 404 gives `absent`, and every other unsuccessful answer `failed`."""
        url, path = signing.place(self.endpoint, bucket, key)
        wire, digest = self._wire(url), hashlib.sha256(data).hexdigest()
        headers = signing.sign(method, wire.host, path, query or {}, {}, digest, self.keys, self.endpoint.region)
        target = f"{path}?{signing.query_of(query)}" if query else path
        begun = clock.now_ns()
        try:
            reply = wire.send(method, target, headers, data or None)
        except Exception as error:  # noqa: BLE001 - any error of the connection is a failed operation
            name = type(error).__name__
            return Seen(begun, clock.now_ns(), FAILED, 0, name, f"{name}: {error}"[:300], requests=1)
        seen = Seen(begun, clock.now_ns(), OK, reply.status, data=reply.body, requests=1)
        if reply.good:
            return seen
        message = _MESSAGE.search(reply.body)
        return replace(
            seen,
            state=ABSENT if reply.status == 404 else FAILED,
            error=error_code(reply.body) or f"HTTP {reply.status}",
            message=message.group(1).decode("utf-8", "replace") if message else "",
        )

    def _pages(
        self, bucket: str, query: dict[str, str], root: str, entry: str, name: str, more: str, cut: int = 0
    ) -> Seen:
        """Return all pages of a listing as one answer.

        more: name of the element with the token of the next page; cut: the same as for `listing()`.
        """
        entries: list[tuple[str, int]] = []
        begun, tokens = 0, {""}
        for page in range(1, MAX_PAGES + 1):
            seen = self._ask("GET", bucket, query=query)
            begun = seen.start_ns if page == 1 else begun
            seen = replace(seen, start_ns=begun, requests=page)
            if seen.state != OK:
                return seen
            try:
                tree = ElementTree.fromstring(seen.data or b"")
                if tree.tag.rpartition("}")[2] != root:
                    raise BrokenListing(f"the answer has the element {tree.tag}")
                for element in tree.iterfind(f".//{{*}}{entry}"):
                    size = element.findtext("{*}Size") or 0  # buckets have no size
                    entries.append(((element.findtext(f"{{*}}{name}") or "")[cut:], int(size)))
                token, truncated = tree.findtext(f"{{*}}{more}"), tree.findtext("{*}IsTruncated")
                if truncated == "true" and not token:
                    raise BrokenListing("the listing is truncated but has no token")
                if not token or truncated == "false":
                    return replace(seen, data=None, **listed(entries))
                if token in tokens:
                    raise BrokenListing("the listing returns the same token again")
            except (ElementTree.ParseError, BrokenListing, ValueError) as error:
                return replace(seen, state=FAILED, error=type(error).__name__, message=str(error)[:300], data=None)
            tokens.add(token)
            query = {**query, "continuation-token": token}
        message = f"the listing has more than {MAX_PAGES} pages"
        return replace(seen, state=FAILED, error="BrokenListing", message=message, data=None)

    def put(self, key: str, body: bytes) -> Seen:
        return self._ask("PUT", self.bucket, self.prefix + key, data=body).done()

    def get(self, key: str) -> Seen:
        return self._ask("GET", self.bucket, self.prefix + key)

    def delete(self, key: str) -> Seen:
        return self._ask("DELETE", self.bucket, self.prefix + key).gone()

    def listing(self, bucket: str, prefix: str, cut: int) -> Seen:
        query = {"list-type": "2", "prefix": prefix}
        return self._pages(bucket, query, "ListBucketResult", "Contents", "Key", "NextContinuationToken", cut)

    def make_bucket(self, bucket: str) -> Seen:
        return self._ask("PUT", bucket, data=signing.location(self.endpoint) or b"").done()

    def drop_bucket(self, bucket: str) -> Seen:
        return self._ask("DELETE", bucket).gone()

    def head_bucket(self, bucket: str) -> Seen:
        seen = self._ask("HEAD", bucket)
        return replace(seen, state=OK) if seen.status in (301, 307, 403) else seen

    def bucket_names(self) -> Seen:
        return self._pages("", {}, "ListAllMyBucketsResult", "Bucket", "Name", "ContinuationToken").done()

    def close(self) -> None:
        for wire in self.wires.values():
            wire.close()


_NOTHING = ".storelab-is-this-there"  # no object ever has this name
_ABSENT = ("no such file", "[3011]")


class FilesView(View):
    """A view through fsspec. environ contains the keys of S3, or the token of HTTP."""

    def __init__(self, endpoint: Endpoint, bucket: Bucket, environ: Mapping[str, str]):
        self.endpoint, self.place, self.bucket, self.prefix = endpoint, bucket, bucket.name, bucket.prefix
        self.access = open_access(endpoint, Credentials.found(environ), "store")
        self.fs = filesystems.data(endpoint, environ, 1)
        self.pipes = endpoint.protocol in ("s3", "http")
        self.size = 0  # size of the bodies; some file systems need the end of a read

    def _path(self, key: str) -> str:
        return filesystems.path(self.endpoint, self.place, key)

    def _do(self, act: Callable[[], Any], show: Callable[[Any], dict[str, Any]] = lambda _: {}) -> Seen:
        """Perform `act`. A missing file or bucket gives `absent`. show: converts the result to fields of Seen."""
        begun = clock.now_ns()
        try:
            value = act()
            return Seen(begun, clock.now_ns(), **show(value))
        except (FileNotFoundError, NotADirectoryError, NoSuchBucket) as error:
            return Seen(begun, clock.now_ns(), ABSENT, error=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - the library of every protocol has its own error classes
            kind, status = classify(error)
            absent = status == 404 or (
                isinstance(error, OSError) and any(sign in str(error).lower() for sign in _ABSENT)
            )
            message = f"{type(error).__name__}: {error}"[:300]
            return Seen(begun, clock.now_ns(), ABSENT if absent else FAILED, status or 0, kind, message)

    def _write(self, path: str, body: bytes) -> None:
        if self.pipes:
            self.fs.pipe_file(path, body)
        else:
            with self.fs.open(path, "wb") as f:
                f.write(body)

    def put(self, key: str, body: bytes) -> Seen:
        self.size = len(body)
        return self._do(lambda: self._write(self._path(key), body)).done()

    def first(self, key: str, body: bytes) -> Seen:
        return self._do(lambda: self.access.write(self.bucket, self.prefix + key, body)).done()

    def get(self, key: str) -> Seen:
        # A cached answer is not an answer of the store. fsspec-xrootd continues to read a file that it has open, even
        # after its deletion.
        self.fs.invalidate_cache()
        # One more byte than was written is read, so that a longer file is detected.
        bounds = {} if self.pipes or self.endpoint.protocol == "file" else {"start": 0, "end": self.size + 1}
        return self._do(lambda: self.fs.cat_file(self._path(key), **bounds), lambda data: {"data": data})

    def delete(self, key: str) -> Seen:
        return self._do(lambda: self.access.delete(self.bucket, [self.prefix + key])).gone()

    def listing(self, bucket: str, prefix: str, cut: int) -> Seen:
        return self._do(
            lambda: list(self.access.keys(bucket, prefix)),
            lambda found: listed((key[cut:], size) for key, size in found),
        )

    def make_bucket(self, bucket: str) -> Seen:
        return self._do(lambda: self.access.make_bucket(bucket)).done()

    def drop_bucket(self, bucket: str) -> Seen:
        return self._do(lambda: self.access.drop_bucket(bucket)).gone()

    def head_bucket(self, bucket: str) -> Seen:
        def look() -> None:
            with suppress(AccessRefused):  # a bucket of another user also exists
                self.access.read(bucket, _NOTHING)

        return self._do(look)

    def bucket_names(self) -> Seen:
        return self._do(self.access.bucket_names, lambda names: {"names": dict.fromkeys(names, 0)})


LAST_LOOK, MAX_LAST_LOOK_NS = 0.1, 5_000_000_000
PATIENCE_NS = 3_000_000_000  # maximum wait after the deadline for outstanding answers


class ConsistencyClient(Client):
    """The base class of the clients of both engines."""

    view: ClassVar[type[S3View] | type[FilesView]]  # access of one thread to a front-end
    requests: ClassVar[dict[str, int]] = {}  # operation -> number of its requests, if known
    version: ClassVar[str]  # version of the library
    workers: list[Worker]

    def prepare(self) -> None:
        job, axes = self.job, self.job.point.axes
        self.endpoints = job.endpoints or [job.endpoint]
        self.bucket, self.size = job.account_buckets[0], axes["object_size"]
        self.special = job.client == 0
        scenarios = OBJECTS + (ONCE if self.special and not self.bucket.prefix else ONCE[:1] if self.special else ())
        self.ledger = Ledger(job.client, job.limits, axes["clients"], scenarios, len(self.endpoints))
        self.failure: BaseException | None = None
        self.workers = []
        for number in range(axes["workers"]):
            views: list[View] = [self.opened(endpoint) for endpoint in self.endpoints]
            prefix = f"{put_prefix(job.attempt)}{job.client}/{number}/"
            kind = NamespaceWorker if self.special and not number else Worker
            worker = kind(
                number, views, self.ledger, prefix, self.size, derive_seed(job.point.seed, job.client, number)
            )
            self.workers.append(worker)
            # The anchor is an object that always exists. The other front-ends read it, so that their connections are
            # open.
            seen = views[0].first(worker.anchor, body(worker.anchor, 1, "anchor", self.size))
            if seen.state != OK:
                raise MeasurementFailed(
                    f"{self.endpoints[0].url}: an object cannot be written: {seen.status_text()} {seen.message}"
                )
            for other in views[1:]:
                other.get(worker.anchor)
        self.many = Many(f"{put_prefix(job.attempt)}many/")
        if self.special:
            extra = [self.opened(self.endpoints[0]) for _ in range(len(self.workers), MANY_THREADS)]
            self.many.upload([worker.views[0] for worker in self.workers] + extra)
            for more in extra:
                more.close()
            first = self.workers[0]
            assert isinstance(first, NamespaceWorker)
            first.prepare(self.many, "" if self.bucket.prefix else stem(self.bucket, job.attempt))

    def opened(self, endpoint: Endpoint) -> View:
        return self.view(endpoint, self.bucket, os.environ)

    def run(self, start_ns: int, deadline_ns: int) -> None:
        self.ledger.deadline_ns = deadline_ns
        until = deadline_ns - min(MAX_LAST_LOOK_NS, int((deadline_ns - start_ns) * LAST_LOOK))
        threads = [threading.Thread(target=self._work, args=(worker, until), daemon=True) for worker in self.workers]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:  # do not wait for outstanding answers of a store that hangs
                thread.join(max(0.0, (deadline_ns + PATIENCE_NS - clock.now_ns()) / 1e9))
        finally:
            self.ledger.over.set()
        if self.failure:
            raise self.failure

    def _work(self, worker: Worker, until_ns: int) -> None:
        try:
            worker.run(until_ns)
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self.failure = self.failure or error
            self.ledger.over.set()

    def result(self) -> Result:
        ledger = self.ledger
        tried, anomalies = ledger.total("tried"), ledger.total("anomalies")
        summary = ": ".join([f"{tried} tries, {anomalies} anomalies", *list(ledger.messages.values())[:1]])
        return Result(
            ledger.ops(),
            engine={
                "name": self.job.point.axes["engine"],
                "version": self.version,
                "settings": {
                    "protocol": self.endpoints[0].protocol,
                    "workers": len(self.workers),
                    "front_ends": len(self.endpoints),
                    "retries": 0,
                    "watched_s": rounds.BOUND_NS / 1e9,
                    "long_listing_keys": len(self.many.there),
                },
                "requests_per_operation": self.requests,
                "errors": ledger.messages,
                "cut_off": ledger.cut_off,
                "deleted_keys": sum(len(names) for worker in self.workers for names in worker.gone),
                "deleted_keys_looked_at_again": sum(len(worker.looked_again) for worker in self.workers),
            },
            checks=[Check("answers judged", tried > 0, summary)],
            connections={"max": len(self.workers) * len(self.endpoints), "samples": []},
            tables=ledger.tables(),
        )

    def close(self) -> None:
        for worker in getattr(self, "workers", []):
            if isinstance(worker, NamespaceWorker):
                worker.close()
            for view in worker.views:
                view.close()


class WireClient(ConsistencyClient):
    """The client of the engine `wire`, which sends plain signed S3 requests."""

    view = S3View
    requests: ClassVar[dict[str, int]] = {"PUT": 1, "GET": 1, "DELETE": 1}
    version = f"Python {platform.python_version()} http.client"


class FsspecClient(ConsistencyClient):
    """The client of the engine `fsspec`, for all protocols except S3."""

    view = FilesView
    version = f"fsspec {importlib.metadata.version('fsspec')}"

"""An S3 proxy on loopback that gives false answers, which the workload `consistency` must find.

Requests are forwarded unchanged, with the signed Host header. Only answers are changed. The name of a key determines
its false answer. Each key gets at most one, and only once unless `stubborn` is set. The counter `false_answers` has the
number of false answers by the scenario that must find them.
"""

import contextlib
import http.client
import re
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from serving import serving

KEY = re.compile(r"put/[0-9a-f]+/(\d+)/(\d+)/(\d{7})\Z")
BUCKET = re.compile(r"/([a-z0-9-]+-x[0-9a-f]+-(\d{5}))/?\Z")
PHANTOM = "storelab-phantom"
OBJECT_LIES = {
    1: "read_after_write",
    2: "list_after_write",
    3: "overwrite",
    4: "monotonic_reads",
    5: "read_after_delete",
    6: "list_after_delete",
    7: "comes_back",
    8: "comes_back_listed",
}
BUCKET_LIES = {0: ("bucket_usable", "bucket_comes_back"), 1: ("bucket_listed", "bucket_gone"), 2: ("bucket_unlisted",)}


def object_lie(key: str) -> str | None:
    """Return the scenario of a key. Each worker begins with another scenario, so that a few rounds cover all."""
    client, worker, n = map(int, KEY.search(key).groups())
    return OBJECT_LIES.get((n + 1 + 4 * client + 2 * worker) % 9)


class Story:
    """The history of one key or bucket: bodies by version, and requests since the last write."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.deleted = False
        self.gets = self.lists = 0

    def write(self, data: bytes | None) -> None:
        self.deleted = data is None
        if data is not None:
            self.bodies.append(data)
        self.gets = self.lists = 0


class Server(ThreadingHTTPServer):
    """A server that accepts 256 waiting connections.

    Python's default of 5 is too small for clients with many workers.
    """

    request_queue_size = 256


class LyingProxy:
    """A proxy for these targets. urls: one URL for each front-end; false_answers: scenario -> number.

    lies: scenarios with false answers. The scenario `failures` gives errors for every tenth GET of an object, and for
    half a second for all listings of one worker.
    """

    def __init__(self, targets: list[tuple[str, int]], lies: set[str], stubborn: bool = False):
        self.lies, self.stubborn = lies, stubborn
        self.lock = threading.Lock()
        self.false_answers: Counter[str] = Counter()
        self.keys: dict[str, Story] = defaultdict(Story)
        self.buckets: dict[str, Story] = defaultdict(Story)
        self.phantom_heads = self.many_lists = self.gets = 0
        self.listings: Counter[str] = Counter()
        self.broken: tuple[str, float] | None = None
        self.servers = [self._server(target) for target in targets]
        self.urls = [f"http://127.0.0.1:{s.server_address[1]}" for s in self.servers]

    def _server(self, target: tuple[str, int]) -> Server:
        return Server(("127.0.0.1", 0), type("Handler", (Handler,), {"proxy": self, "target": target}))

    def __enter__(self) -> Self:
        self.context = contextlib.ExitStack()
        for server in self.servers:
            self.context.enter_context(serving(server))
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def _gives_wrong(self, scenario: str | None) -> bool:
        if scenario not in self.lies:
            return False
        self.false_answers[scenario] += 1
        return True

    def change(self, method: str, target: str, sent: bytes, status: int, answer: bytes) -> tuple[int, bytes]:
        """Return the status and body that the client gets."""
        parts = urlsplit(target)
        path, query = unquote(parts.path), parse_qs(parts.query)
        with self.lock:
            if "list-type" in query:
                return self._list(query["prefix"][0] if "prefix" in query else "", query, status, answer)
            if path == "/" and method == "GET":
                return status, self._list_buckets(answer)
            if KEY.search(path):
                return self._object(method, "put/" + path.partition("/put/")[2], sent, status, answer)
            if path.strip("/") == PHANTOM:
                self.phantom_heads += 1
            if found := BUCKET.match(path):
                return self._bucket(method, found.group(1), int(found.group(2)), status, answer)
            return status, answer

    def _object(self, method: str, key: str, sent: bytes, status: int, answer: bytes) -> tuple[int, bytes]:
        story, lie = self.keys[key], object_lie(key)
        if method in ("PUT", "DELETE"):
            if status < 300:
                story.write(sent if method == "PUT" else None)
            return status, answer
        story.gets += 1
        self.gets += 1
        if "failures" in self.lies and self.gets % 10 == 0:
            return 503, b"<Error><Code>SlowDown</Code></Error>"
        versions, first = len(story.bodies), story.gets == 1 or self.stubborn
        if lie == "read_after_write" and versions == 1 and not story.deleted and first and self._gives_wrong(lie):
            return 404, b"<Error><Code>NoSuchKey</Code></Error>"
        if lie == "overwrite" and versions == 2 and not story.deleted and first and self._gives_wrong(lie):
            return 200, story.bodies[0]
        if (
            lie == "monotonic_reads"
            and versions == 2
            and not story.deleted
            and story.gets == 2
            and self._gives_wrong(lie)
        ):
            return 200, story.bodies[0]
        if lie == "read_after_delete" and story.deleted and first and self._gives_wrong(lie):
            return 200, story.bodies[-1]
        if lie == "comes_back" and story.deleted and story.gets == 2 and self._gives_wrong(lie):
            return 200, story.bodies[-1]
        return status, answer

    def _list(self, prefix: str, query: dict[str, Any], status: int, answer: bytes) -> tuple[int, bytes]:
        if prefix.endswith("/many/"):
            return status, self._many("continuation-token" in query, answer)
        worker = prefix
        self.listings[worker] += 1
        if "failures" in self.lies and self.listings[worker] == 8 and self.broken is None:
            self.broken = worker, time.monotonic() + 0.5
        if self.broken and self.broken[0] == worker and time.monotonic() < self.broken[1]:
            return 500, b"<Error><Code>InternalError</Code></Error>"
        for key, story in self.keys.items():
            if not key.startswith(worker):
                continue
            story.lists += 1
            lie, shown = object_lie(key), b""
            if lie == "list_after_write" and len(story.bodies) == 1 and story.lists == 1 and self._gives_wrong(lie):
                answer = _hide(answer, key)
            if lie == "list_after_delete" and story.deleted and story.lists == 1 and self._gives_wrong(lie):
                shown = key.encode()
            if lie == "comes_back_listed" and story.deleted and story.lists == 2 and self._gives_wrong(lie):
                shown = key.encode()
            if shown:
                entry = b"<Contents><Key>%s</Key><Size>%d</Size></Contents>" % (shown, len(story.bodies[-1]))
                answer = answer.replace(b"</ListBucketResult>", entry + b"</ListBucketResult>")
        return status, answer

    def _many(self, second_page: bool, answer: bytes) -> bytes:
        """Omit a key in the first listing and repeat a key in the third one. The second listing is right."""
        self.many_lists += second_page
        entries = re.findall(rb"<Contents>.*?</Contents>", answer, re.DOTALL)
        if self.many_lists == 1 and second_page and self._gives_wrong("listing_complete"):
            return answer.replace(entries[0], b"")
        if self.many_lists == 3 and second_page and self._gives_wrong("listing_complete"):
            return answer.replace(entries[0], entries[0] * 2)
        return answer

    def _list_buckets(self, answer: bytes) -> bytes:
        for name, story in self.buckets.items():
            story.lists += 1
            lies = BUCKET_LIES.get(int(name[-5:]), ())
            if (
                "bucket_listed" in lies
                and not story.deleted
                and story.lists == 1
                and self._gives_wrong("bucket_listed")
            ):
                answer = re.sub(
                    rb"<Bucket>(?:(?!</Bucket>).)*<Name>%s</Name>.*?</Bucket>" % name.encode(),
                    b"",
                    answer,
                    flags=re.DOTALL,
                )
            lie = {1: "bucket_unlisted", 2: "bucket_comes_back"}.get(story.lists)
            if story.deleted and lie in lies and self._gives_wrong(lie):
                answer = answer.replace(b"<Buckets>", b"<Buckets><Bucket><Name>%s</Name></Bucket>" % name.encode())
        # A bucket that does not exist is listed until two requests for it.
        if "listed_bucket_exists" in self.lies and self.phantom_heads < 2:
            self.false_answers["listed_bucket_exists"] = 1
            answer = answer.replace(b"<Buckets>", b"<Buckets><Bucket><Name>%s</Name></Bucket>" % PHANTOM.encode())
        return answer

    def _bucket(self, method: str, name: str, n: int, status: int, answer: bytes) -> tuple[int, bytes]:
        story, lies = self.buckets[name], BUCKET_LIES.get(n, ())
        if method in ("PUT", "DELETE"):
            if status < 300:
                story.write(b"" if method == "PUT" else None)
            return status, answer
        story.gets += method == "HEAD"
        first = method == "HEAD" and story.gets == 1
        if first and "bucket_usable" in lies and not story.deleted and self._gives_wrong("bucket_usable"):
            return 404, b""
        if first and "bucket_gone" in lies and story.deleted and self._gives_wrong("bucket_gone"):
            return 200, b""
        return status, answer


def _hide(answer: bytes, key: str) -> bytes:
    return re.sub(
        rb"<Contents>(?:(?!</Contents>).)*<Key>%s</Key>.*?</Contents>" % key.encode(), b"", answer, flags=re.DOTALL
    )


class Handler(BaseHTTPRequestHandler):
    """A connection of a client, with a separate connection to the server."""

    proxy: LyingProxy
    target: tuple[str, int]
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.upstream = http.client.HTTPConnection(*self.target, timeout=20)

    def finish(self) -> None:
        self.upstream.close()
        with contextlib.suppress(OSError):
            super().finish()

    def pass_on(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("expect", "connection"):
                self.upstream.putheader(name, value)
        self.upstream.endheaders(sent or None)
        response = self.upstream.getresponse()
        status, data = self.proxy.change(self.command, self.path, sent, response.status, response.read())
        self.send_response_only(status)
        for name, value in response.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        if status not in (204, 304):
            length = (response.getheader("Content-Length") or "0") if self.command == "HEAD" else len(data)
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = pass_on

    def log_message(self, *_: object) -> None:
        """Log nothing."""

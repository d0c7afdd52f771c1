"""A bucket on loopback, in memory, that a test can look into and make fail.

It answers `PUT` (also as a copy), `HEAD`, `GET` and `DELETE` of objects, and the deletion of several at once. It takes
any signature.
"""

import http.server
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from urllib.parse import unquote, unquote_plus

from serving import serving


class Bucket(http.server.ThreadingHTTPServer):
    """A server of one bucket.

    objects: key -> bytes, without the bucket's name. asked: (method, key, headers) in order of arrival.
    answer(method, key): returns another (status, headers), or None for the right answer, or raises ConnectionError to
    hang up. It is called for each key of a request that deletes several as of a `DELETE`, and returns the `code` of its
    error in the headers; for the whole request as of a `POST`. most: the largest number of requests in flight.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, Message]] = []
        self.answer = lambda method, key: None
        self.busy = self.most = 0
        self.pause_s = 0.0
        self.lock = threading.Lock()
        self.meeting: tuple[threading.Barrier, tuple[str, ...]] | None = None
        self.missing = 0

    def meet(self, number: int, *methods: str) -> None:
        """Answer the next `number` requests by these methods only when all of them are there."""
        self.meeting, self.missing = (threading.Barrier(number, timeout=60), methods), number

    def wait(self, method: str) -> None:
        """Wait for other requests, if that was asked for."""
        time.sleep(self.pause_s)
        if self.meeting is None or method not in self.meeting[1]:
            return
        with self.lock:
            self.missing -= 1
            waits = self.missing >= 0
        if waits:
            with suppress(threading.BrokenBarrierError):
                self.meeting[0].wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def requests(self, *methods: str) -> list[tuple[str, str]]:
        return [(method, key) for method, key, _ in self.asked if method in methods or not methods]


class _Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20
    server: Bucket

    def log_message(self, *_) -> None:
        pass

    def handle_expect_100(self) -> bool:
        """Send `100 Continue` at once: the client waits for it with the body."""
        going = super().handle_expect_100()
        self.wfile.flush()
        return going

    def _do(self) -> None:
        key, server = re.sub("^/[^/]+/", "", self.path), self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with server.lock:
            server.asked.append((self.command, key, self.headers))
            server.busy += 1
            server.most = max(server.most, server.busy)
        server.wait(self.command)
        with server.lock:
            server.busy -= 1
        try:
            status, headers = server.answer(self.command, key) or (0, {})
        except ConnectionError:
            self.close_connection = True
            return
        result, key = b"", key.partition("?")[0]  # a signature may be in the query
        if not status and self.command == "POST":
            status, result = 200, self._several(body)
        if not status:
            if self.command == "PUT" and (source := self.headers.get("x-amz-copy-source")):
                name = unquote_plus(source).lstrip("/").partition("/")[2]  # '+' is a space, as at Amazon S3
                body = next(data for known, data in server.objects.items() if unquote(known) == name)
                result = b"<CopyObjectResult><ETag>0123456789abcdef</ETag></CopyObjectResult>"
            if self.command == "PUT":
                server.objects[key] = body
            status = 200 if key in server.objects else 404
            if self.command == "DELETE":
                server.objects.pop(key, None)
                status = 204
        data = server.objects[key] if self.command in ("GET", "HEAD") and status == 200 else result
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status == 200:
            self.send_header("ETag", '"0123456789abcdef"')
            self.send_header("Last-Modified", "Mon, 13 Apr 2015 00:00:00 GMT")
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _several(self, body: bytes) -> bytes:
        """Delete the keys of the body; the answer names those that stay, and the others unless it is to be quiet."""
        quiet, result = b"<Quiet>true</Quiet>" in body, ""
        for key in re.findall(r"<Key>(.*?)</Key>", body.decode()):
            if refused := self.server.answer("DELETE", key):
                code = refused[1].get("code", "AccessDenied")
                result += f"<Error><Key>{key}</Key><Code>{code}</Code><Message/></Error>"
                continue
            self.server.objects.pop(key, None)
            result += "" if quiet else f"<Deleted><Key>{key}</Key></Deleted>"
        return f'<?xml version="1.0" encoding="UTF-8"?><DeleteResult>{result}</DeleteResult>'.encode()

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _do


@contextmanager
def bucket() -> Iterator[Bucket]:
    """Serve a bucket until the context ends."""
    server = Bucket()
    with serving(server):
        yield server

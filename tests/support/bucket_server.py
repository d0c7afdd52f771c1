"""An S3 server on loopback with one bucket in memory. Tests can inspect the bucket and inject errors.

It supports `PUT` (also of copies), `HEAD`, `GET` and `DELETE` of objects, and the deletion of several objects in one
request. It accepts any signature.
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

    objects: key -> bytes, without the bucket's name. received: (method, key, headers) in order of arrival.
    answer(method, key): returns (status, headers) of a wrong answer, or None for the right answer, or raises
    ConnectionError to close the connection. For a request that deletes several objects, it is called with `POST` for
    the request, and with `DELETE` for each key. In the second case, the headers have the `code` of the error. most: the
    largest number of concurrent requests.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.objects: dict[str, bytes] = {}
        self.received: list[tuple[str, str, Message]] = []
        self.answer = lambda method, key: None
        self.busy = self.most = 0
        self.pause_s = 0.0
        self.lock = threading.Lock()
        self.meeting: tuple[threading.Barrier, tuple[str, ...]] | None = None
        self.missing = 0

    def meet(self, number: int, *methods: str) -> None:
        """Delay the answers to the next `number` requests with these methods until all of them have arrived."""
        self.meeting, self.missing = (threading.Barrier(number, timeout=60), methods), number

    def wait(self, method: str) -> None:
        """Wait for other requests if `meet` was called."""
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
        return [(method, key) for method, key, _ in self.received if method in methods or not methods]


class _Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20
    server: Bucket

    def log_message(self, *_) -> None:
        pass

    def handle_expect_100(self) -> bool:
        """Send `100 Continue` at once, because the client sends the body only after it."""
        going = super().handle_expect_100()
        self.wfile.flush()
        return going

    def _do(self) -> None:
        key, server = re.sub("^/[^/]+/", "", self.path), self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with server.lock:
            server.received.append((self.command, key, self.headers))
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
        result, key = b"", key.partition("?")[0]  # the query can have a signature
        if not status and self.command == "POST":
            status, result = 200, self._several(body)
        if not status:
            if self.command == "PUT" and (source := self.headers.get("x-amz-copy-source")):
                name = unquote_plus(source).lstrip("/").partition("/")[2]  # '+' means a space, as in Amazon S3
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
        """Delete the keys in the body. Return the keys with errors, and without `Quiet` also the deleted keys."""
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
    """Serve a bucket until the end of the context."""
    server = Bucket()
    with serving(server):
        yield server

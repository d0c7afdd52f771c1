"""A bucket on loopback, in memory, that a test can look into and make fail: `PUT`, `HEAD`, `GET`, `DELETE` of objects,
and of several at once. It takes any signature.
"""

import http.server
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message


class Bucket(http.server.ThreadingHTTPServer):
    """objects: key -> bytes, without the bucket's name; asked: (method, key, headers) in order of arrival;
    answer(method, key) gives another (status, headers) in place of the right answer, None for the right one, or raises
    ConnectionError to hang up. Of a request that deletes several it is asked for each key, as of a `DELETE`, and says
    the `code` of its error in the headers; of the whole request as `POST`.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, Message]] = []
        self.answer = lambda method, key: None
        self.busy = self.most = 0
        self.pause_s = 0.0
        self.lock = threading.Lock()

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

    def _do(self) -> None:
        key, server = re.sub("^/[^/]+/", "", self.path), self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with server.lock:
            server.asked.append((self.command, key, self.headers))
            server.busy += 1
            server.most = max(server.most, server.busy)
        time.sleep(server.pause_s)
        with server.lock:
            server.busy -= 1
        try:
            status, headers = server.answer(self.command, key) or (0, {})
        except ConnectionError:
            self.close_connection = True
            return
        told = b""
        if not status and self.command == "POST":
            status, told = 200, self._several(body)
        if not status:
            if self.command == "PUT":
                server.objects[key] = body
            status = 200 if key in server.objects else 404
            if self.command == "DELETE":
                server.objects.pop(key, None)
                status = 204
        data = server.objects[key] if self.command in ("GET", "HEAD") and status == 200 else told
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
        """Delete the keys of the body; the answer names those that stay, and unless it is to be quiet those that
        went.
        """
        keys, told = re.findall(r"<Key>(.*?)</Key>", body.decode()), ""
        for key in keys:
            if refused := self.server.answer("DELETE", key):
                told += (
                    f"<Error><Key>{key}</Key><Code>{refused[1].get('code', 'AccessDenied')}</Code><Message/></Error>"
                )
                continue
            self.server.objects.pop(key, None)
            told += "" if b"<Quiet>true</Quiet>" in body else f"<Deleted><Key>{key}</Key></Deleted>"
        return f'<?xml version="1.0" encoding="UTF-8"?><DeleteResult>{told}</DeleteResult>'.encode()

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _do


@contextmanager
def bucket() -> Iterator[Bucket]:
    server = Bucket()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

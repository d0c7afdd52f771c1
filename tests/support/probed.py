"""HTTP servers that answer the requests of the probe in a given mode."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from serving import serving

from storelab.core.model import Point
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Endpoint


class Handler(BaseHTTPRequestHandler):
    """A handler without log output. It sends head and body in one packet, because two packets would cause a delay."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    mode = ""

    def log_message(self, *_):
        pass

    def handle_expect_100(self):
        """Send `100 Continue` at once, because the client sends the body only after it."""
        going = super().handle_expect_100()
        self.wfile.flush()
        return going

    def answer(self, status, body, headers=None):
        self.send_response(status)
        length = {} if status == 204 else {"Content-Length": str(len(body))}
        for name, text in (length | (headers or {})).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def served(handler: type[Handler], **facts) -> Iterator[str]:
    """Run a server with a subclass of `handler` that has these attributes, and yield its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Configured", (handler,), facts))
    server.handle_error = lambda *_: None  # because clients close connections early
    with serving(server) as url:
        yield url


def job(endpoint: Endpoint, places: list[Bucket], **more) -> Job:
    """Return the job of a client of the probe."""
    axes = {"clients": 1, "max_buckets": 2}
    return Job(Point("s", "probe", axes, 1, "k", "p", 5, 1), 0, endpoint, places, Path(), None, "a", **more)

"""HTTP servers that answer the probe's questions in a chosen mode."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from serving import serving

from storelab.core.model import Point
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Endpoint


class Handler(BaseHTTPRequestHandler):
    """A handler that is silent, and sends head and body in one packet: two would wait for each other."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    mode = ""

    def log_message(self, *_):
        pass

    def handle_expect_100(self):
        """Send `100 Continue` at once: the client waits for it with the body."""
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
    """Serve with a subclass of `handler` that has these attributes; yield the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Configured", (handler,), facts))
    server.handle_error = lambda *_: None  # clients break off
    with serving(server) as url:
        yield url


def job(endpoint: Endpoint, places: list[Bucket], **more) -> Job:
    """Return the job of a probe's client."""
    axes = {"clients": 1, "max_buckets": 2}
    return Job(Point("s", "probe", axes, 1, "k", "p", 5, 1), 0, endpoint, places, Path(), None, "a", **more)

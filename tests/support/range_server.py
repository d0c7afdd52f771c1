"""A server on loopback that gives right, wrong or no answers to requests for several ranges."""

import http.server
import re
from collections.abc import Iterator
from contextlib import contextmanager

from serving import serving


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers about `server.data`.

    `server.mode` determines the answer to several ranges. `server.received` has the number of ranges of each request.
    """

    protocol_version = "HTTP/1.1"
    # sends head and body together; otherwise each answer waits 40 ms for the client's acknowledgement
    wbufsize = 1 << 20

    def log_message(self, *_):
        pass

    def do_GET(self):
        mode, data = self.server.mode, self.server.data
        ranges = [(int(a), int(b)) for a, b in re.findall(r"(\d+)-(\d+)", self.headers["Range"])]
        self.server.received.append(len(ranges))
        if mode == "whole" and len(ranges) > 1:
            return self.send(200, data)
        if mode in ("missing", "busy"):
            return self.send(404 if mode == "missing" else 503, b"no")
        if mode == "refused":
            return self.send(416, b"no")
        if len(ranges) == 1 or mode == "first":
            a, b = ranges[0]
            return self.send(206, data[a : b + 1], {"Content-Range": f"bytes {a}-{b}/{len(data)}"})
        if mode == "ten":
            ranges = ranges[:10]
        if mode == "some":
            ranges = ranges[:-1]
        if mode == "merged":
            ranges = [(ranges[0][0], ranges[-1][1])]
        if mode == "shuffled":
            ranges = ranges[::-1]
        body = b"".join(
            b"--cut\r\nContent-Type: x\r\nContent-range: bytes %d-%d/%d\r\n\r\n" % (a, b, len(data))
            + data[a : b + 1]
            + b"\r\n"
            for a, b in ranges
        )
        body += b"--cut--\r\n"
        if mode == "wrong":  # change a byte of the last part
            body = body[:-13] + bytes([body[-13] ^ 1]) + body[-12:]
        if mode == "broken":
            body = body[: len(body) // 2]
        if mode == "dies":
            self.send(206, body[: len(body) // 2], {"Content-Type": "multipart/byteranges; boundary=cut"}, len(body))
            self.close_connection = True
            return None
        return self.send(206, body, {"Content-Type": "multipart/byteranges; boundary=cut"})

    def send(self, status, body, headers=(), length=None):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def range_server(data: bytes) -> Iterator[http.server.ThreadingHTTPServer]:
    """Serve `data` at every path, without errors until `mode` is set."""
    one = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    one.handle_error = lambda *_: None  # because clients close connections on purpose
    one.data, one.mode, one.received = data, "right", []
    with serving(one):
        yield one

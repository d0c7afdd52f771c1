"""Transports of the read planner against servers that answer several ranges rightly, wrongly, and not at all."""

import http.server
import re
import threading

import numpy as np
import pytest

from storelab.readplan import HttpTransport, WrongAnswer

DATA = np.random.default_rng(1).bytes(300_000)


class Answers(http.server.BaseHTTPRequestHandler):
    """Of DATA; `server.mode` says how several ranges are answered."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        mode = self.server.mode
        ranges = [(int(a), int(b)) for a, b in re.findall(r"(\d+)-(\d+)", self.headers["Range"])]
        self.server.asked.append(len(ranges))
        if mode == "whole":
            return self.send(200, DATA)
        if mode == "refused":
            return self.send(416, b"no")
        if len(ranges) == 1 or mode == "first":
            a, b = ranges[0]
            return self.send(206, DATA[a : b + 1], {"Content-Range": f"bytes {a}-{b}/{len(DATA)}"})
        if mode == "some":
            ranges = ranges[:-1]
        if mode == "merged":
            ranges = [(ranges[0][0], ranges[-1][1])]
        if mode == "shuffled":
            ranges = ranges[::-1]
        body = b"".join(
            b"--cut\r\nContent-Type: x\r\nContent-range: bytes %d-%d/%d\r\n\r\n" % (a, b, len(DATA)) + DATA[a : b + 1] + b"\r\n"
            for a, b in ranges
        )
        body += b"--cut--\r\n"
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


@pytest.fixture
def server():
    one = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    one.mode, one.asked, one.daemon_threads = "right", [], True
    thread = threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield one
    one.shutdown()
    one.server_close()


def transport(server, **more):
    return HttpTransport(f"http://127.0.0.1:{server.server_port}/o", **more)


@pytest.mark.parametrize("mode", ["right", "shuffled", "merged"])
def test_each_part_is_taken_from_where_it_lies(server, mode):
    server.mode = mode
    starts = np.arange(200) * 1400 + np.arange(200) % 7
    stops = starts + 1 + np.arange(200) % 300
    one = transport(server, parallel=3, ranges=50)
    parts = one.fetch(starts, stops)
    assert [bytes(p) for p in parts] == [DATA[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
    assert sum(server.asked) == 200 and max(server.asked) <= 50 and len(server.asked) == one.requests == 4


def test_heads_stay_small_and_all_connections_have_work(server):
    starts = np.arange(300) * 900
    one = transport(server, parallel=4, ranges=1000, header_bytes=200)
    one.fetch(starts, starts + 5)
    assert max(server.asked) <= 200 // 6 and len(server.asked) > 10
    server.asked.clear()
    wide = transport(server, parallel=8)
    wide.fetch(starts[:16], starts[:16] + 5)
    assert server.asked == [2] * 8
    assert transport(server).fetch([], []) == []


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("whole", "status 200"),
        ("refused", "status 416"),
        ("first", r"only \(0, 9\) came"),
        ("some", "without 10000 to 10009"),
        ("broken", "cannot be read"),
    ],
)
def test_what_is_no_answer_is_an_error(server, mode, said):
    server.mode = mode
    with pytest.raises(WrongAnswer, match=said):
        transport(server, parallel=1).fetch([0, 5000, 10000], [10, 5010, 10010])


def test_a_server_that_breaks_off_is_an_error(server):
    server.mode = "dies"
    with pytest.raises(Exception, match=r"IncompleteRead|Connection broken"):
        transport(server, parallel=1).fetch([0, 5000, 10000], [10, 5010, 10010])

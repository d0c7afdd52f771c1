"""What a server answered to ranges, byte by byte: every kind of right, wrong and lying answer; and the probe against a server that lies."""

import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest

from storelab.core.model import Point
from storelab.engines.contract import Job
from storelab.readplan.multipart import Malformed, boundary, content_range, parse, range_header
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads.probe import answers, multirange
from storelab.workloads.probe.context import known_body
from storelab.workloads.probe.http import Http
from storelab.workloads.probe.http_ranges import RANGES
from storelab.workloads.probe.multirange import ERROR, FIRST, MERGED, RIGHT, SOME, WHOLE, WRONG, judge

DATA = random.Random(1).randbytes(50_000)
ASKED = [(0, 9), (1000, 1049), (49_990, 49_999)]


def multipart(ranges, data=DATA, mark="cut", name="Content-Range", total=None, shift=0) -> bytes:
    """A body as RFC 9110 wants it; `shift`: the bytes come from somewhere else."""
    parts = [
        f"\r\n--{mark}\r\nContent-Type: application/octet-stream\r\n{name}: bytes {a}-{b}/{total or len(data)}\r\n\r\n".encode()
        + data[a + shift : b + 1 + shift]
        for a, b in ranges
    ]
    return b"".join(parts) + f"\r\n--{mark}--\r\n".encode()


def kind(body, status=206, ranges=ASKED, content_type="multipart/byteranges; boundary=cut", **headers) -> str:
    return judge(status, {"content-type": content_type, **headers}, body, DATA, ranges).kind


@pytest.mark.parametrize("name", ["Content-Range", "content-range", "Content-range", "CONTENT-RANGE"])
@pytest.mark.parametrize(("mark", "said"), [("cut", "cut"), ("123456", '"123456"'), ("a b:c", '"a b:c"')])
def test_right(name, mark, said):
    body = multipart(ASKED, mark=mark, name=name)
    verdict = judge(206, {"content-type": f"Multipart/ByteRanges; boundary={said}"}, body, DATA, ASKED)
    assert verdict.kind == RIGHT and verdict.detail["parts"] == 3 and verdict.answer().answer == "yes"
    assert (
        judge(206, {"content-type": f"multipart/byteranges; charset=x; BOUNDARY={said}"}, body[2:], DATA, ASKED).kind
        == RIGHT
    )


def test_right_in_another_order_and_with_an_unknown_length():
    assert kind(multipart(ASKED[::-1])) == RIGHT
    assert kind(multipart(ASKED, total="*")) == RIGHT


def test_the_boundary_in_the_bytes_does_not_mislead():
    data = b"\r\n--cut\r\nContent-Range: bytes 0-9/100\r\n\r\n" * 100
    body = multipart([(0, 99), (2000, 2099)], data)
    headers = {"content-type": "multipart/byteranges; boundary=cut"}
    assert judge(206, headers, body, data, [(0, 99), (2000, 2099)]).kind == RIGHT


@pytest.mark.parametrize("count", [2, 200, 1500])
def test_many(count):
    size = 2_400_000
    data, ranges = random.Random(2).randbytes(size), multirange.spread(count, size)
    assert len(ranges) == count and all(b - a >= 19 for a, b in ranges) and ranges[-1][1] < size
    assert all(c - b > 1000 for (_, b), (c, _) in pairwise(ranges))
    headers = {"content-type": "multipart/byteranges; boundary=x"}
    assert judge(206, headers, multipart(ranges, data, "x"), data, ranges).kind == RIGHT
    assert judge(206, headers, multipart(ranges[:-1], data, "x"), data, ranges).kind in (SOME, FIRST)


def test_neighbours_may_be_merged_but_the_whole_may_not():
    near = [(100, 199), (250, 299)]
    assert kind(multipart([(100, 299)]), ranges=near) == RIGHT
    assert kind(multipart([(0, 49_999)])) == MERGED
    span = DATA[0:50_000]
    assert (
        kind(
            span[10:], ranges=[(10, 19), (49_000, 49_999)], content_type="", **{"content-range": "bytes 10-49999/50000"}
        )
        == MERGED
    )


def test_too_little():
    assert kind(multipart(ASKED[:1])) == FIRST
    assert kind(multipart(ASKED[:2])) == SOME
    assert kind(multipart(ASKED[1:])) == SOME
    assert kind(DATA[:10], content_type="", **{"content-range": "bytes 0-9/50000"}) == FIRST


def test_too_much():
    for status in (200, 206):
        assert kind(DATA, status, content_type="application/octet-stream") == WHOLE
    assert kind(DATA, 206, content_type="", **{"content-range": "bytes 0-49999/50000"}) == WHOLE
    assert kind(DATA, 206, ranges=[(0, 49_999)], content_type="", **{"content-range": "bytes 0-49999/50000"}) == RIGHT


def test_refused():
    for status in (400, 403, 416, 431, 500, 501):
        assert kind(b"<Error><Code>NotImplemented</Code></Error>", status) == ERROR
    assert "501 NotImplemented" in judge(501, {}, b"<Error><Code>NotImplemented</Code></Error>", DATA, ASKED).evidence


@pytest.mark.parametrize(
    "body",
    [
        multipart(ASKED, shift=1),
        multipart(ASKED)[:-70],
        multipart(ASKED, total=50_001),
        multipart([(0, 9), (1001, 1050), (49_990, 49_999)], shift=-1),
        multipart(ASKED).replace(b"1000-1049", b"1000-1048"),
        multipart(ASKED).replace(b"1000-1049", b"1000-1050"),
        multipart(ASKED).replace(b"1000-1049", b"1049-1000"),
        multipart(ASKED).replace(b"Content-Range", b"Content-Place"),
        multipart(ASKED, mark="other"),
        DATA[:10] + DATA[1000:1050] + DATA[49_990:],
        b"",
    ],
)
def test_wrong_bytes(body):
    assert kind(body) == WRONG
    assert (
        judge(206, {"content-type": "multipart/byteranges; boundary=cut"}, body, DATA, ASKED).answer().answer
        == "differs"
    )


def test_a_lie_about_one_range():
    one = [(100, 199)]
    assert kind(DATA[100:200], ranges=one, content_type="", **{"content-range": "bytes 100-199/50000"}) == RIGHT
    assert kind(DATA[101:201], ranges=one, content_type="", **{"content-range": "bytes 100-199/50000"}) == WRONG
    assert kind(DATA[100:200], ranges=one, content_type="", **{"content-range": "bytes 100-199/49999"}) == WRONG
    assert kind(DATA[100:199], ranges=one, content_type="", **{"content-range": "bytes 100-199/50000"}) == WRONG
    assert kind(DATA[100:200], ranges=one, content_type="") == WRONG  # without a word on where it stands
    assert kind(DATA[100:200], 200, ranges=one, content_type="", **{"content-range": "bytes 100-199/50000"}) == WRONG
    assert kind(b"", ranges=one, content_type="", **{"content-range": "bytes 100--1/50000"}) == WRONG  # XrdHttp 5.5.3
    assert kind(multipart(one), ranges=one) == RIGHT  # allowed, if odd


def test_headers():
    assert boundary("multipart/byteranges; boundary=x") == boundary('MULTIPART/byteranges;boundary="x"') == "x"
    assert boundary("multipart/mixed; boundary=x") is None and boundary("multipart/byteranges") is None
    assert content_range("bytes 0-9/100") == content_range("Bytes  0-9/100 ") == (0, 9, 100)
    assert content_range("bytes 0-9/*") == (0, 9, None)
    assert [content_range(t) for t in (None, "", "bytes */100", "bytes 9-0/100", "bytes 0-100/100", "0-9/100")] == [
        None
    ] * 6
    assert range_header([(0, 9), (20, 29)]) == "bytes=0-9,20-29"
    with pytest.raises(Malformed, match="does not stand"):
        parse(b"nothing", "cut")


# The probe's own questions, put to a server that claims to be right.


class Liar(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    mode, body = "right", b""

    def log_message(self, *_):
        pass

    def do_GET(self):
        data, mode = self.body, self.mode
        value = self.headers.get("Range", "")
        if not value:
            return self.answer(200, data)
        ranges = []
        for part in value.removeprefix("bytes=").split(","):
            first, _, last = part.partition("-")
            a = int(first) if first else len(data) - int(last)
            ranges.append((a, min(int(last), len(data) - 1) if first and last else len(data) - 1))
        if ranges[0][0] >= len(data):
            return self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        if mode == "whole":
            return self.answer(206, data)
        if mode == "cut":
            self.send_response(206)
            self.send_header("Content-Length", "500")
            self.end_headers()
            self.wfile.write(b"x" * 100)
            self.close_connection = True
            return None
        if mode == "hangs up":
            self.close_connection = True
            return None
        wrong = mode == "wrong"
        if mode == "first" or len(ranges) == 1:
            a, b = ranges[0]
            piece = data[a : b + 1][::-1] if wrong else data[a : b + 1]
            return self.answer(206, piece, {"Content-Range": f"bytes {a}-{b}/{len(data)}"})
        swapped = [*ranges[1:], ranges[0]] if mode == "swapped" else ranges
        parts = b"".join(
            f"\r\n--b\r\nContent-range: bytes {a}-{b}/{len(data)}\r\n\r\n".encode()
            + (bytes(b + 1 - a) if wrong else data[c : c + b + 1 - a])
            for (a, b), (c, _) in zip(ranges, swapped, strict=True)
        )
        return self.answer(206, parts + b"\r\n--b--\r\n", {"Content-Type": 'multipart/byteranges; boundary="b"'})

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def ask():
    """A function that asks all questions about ranges of a server in that mode; check -> answer."""
    servers = []

    def run(mode: str) -> dict[str, answers.Asked]:
        handler = type("H", (Liar,), {"mode": mode, "body": known_body(5)})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        point = Point("s", "probe", {"clients": 1}, 1, "k", "p", 5, 1)
        job = Job(
            point,
            0,
            Endpoint(f"http://127.0.0.1:{server.server_port}", protocol="http"),
            [Bucket("b")],
            Path(),
            None,
            "a",
        )
        context = Http(job)
        try:
            return {c.name: answers.ask(c, context, 1 << 62) for c in RANGES}
        finally:
            context.close()

    yield run
    for server in servers:
        server.shutdown()
        server.server_close()


MULTI = ("multi-range 2", "multi-range 200", "multi-range 1500")


def test_an_honest_server(ask):
    assert {a.answer for a in ask("right").values()} == {"yes"}


@pytest.mark.parametrize(
    ("mode", "answer", "word"),
    [("whole", "no", WHOLE), ("first", "differs", FIRST), ("wrong", "differs", WRONG), ("swapped", "differs", WRONG)],
)
def test_a_lying_server_is_caught(ask, mode, answer, word):
    """It says 206 to everything."""
    found = ask(mode)
    for name in MULTI:
        assert found[name].answer == answer and found[name].evidence.startswith(word), found[name]
    assert found["single range"].answer == {"whole": "no", "wrong": "differs"}.get(mode, "yes")


def test_a_server_that_breaks_off(ask):
    found = ask("cut")
    assert {found[n].answer for n in MULTI} == {"no"} and "announced 500 bytes, 100 came" in found[MULTI[0]].evidence
    assert found["after them, the object"].answer == "yes"  # a broken connection is not used again
    found = ask("hangs up")
    assert {found[n].answer for n in MULTI} == {"no"} and "RemoteDisconnected" in found[MULTI[0]].evidence


def test_whatever_a_question_raises_is_an_answer():
    def broken(_):
        raise KeyError("SECRET in a message")

    asked = answers.ask(answers.Check("t", "n", broken), None, 1 << 62, ["SECRET"])
    assert (asked.answer, asked.evidence) == ("error", "KeyError: '*** in a message'")
    assert answers.ask(answers.Check("t", "n", broken), None, 0).answer == "not tried"

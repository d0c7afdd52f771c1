"""Answers to several ranges, byte by byte: right, wrong and false ones; and the probe against a false server."""

import random
from itertools import pairwise

from probed import Handler, job, served

from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads.probe import answers, byteranges
from storelab.workloads.probe.byteranges import ERROR, FIRST, MERGED, PARTIAL, RANGES, RIGHT, WHOLE, WRONG, judge
from storelab.workloads.probe.context import known_body
from storelab.workloads.probe.http import Http

DATA = random.Random(1).randbytes(50_000)
ASKED = [(0, 9), (1000, 1049), (49_990, 49_999)]
ONE = [(100, 199)]


def multipart(ranges, data=DATA, mark="cut", name="Content-Range", total=None, shift=0) -> bytes:
    """Return a body as RFC 9110 defines it; with `shift`, the bytes come from another place."""
    kind = "Content-Type: application/octet-stream"
    head = f"\r\n--{mark}\r\n{kind}\r\n{name}: bytes {{}}-{{}}/{total or len(data)}\r\n\r\n"
    parts = [head.format(a, b).encode() + data[a + shift : b + 1 + shift] for a, b in ranges]
    return b"".join(parts) + f"\r\n--{mark}--\r\n".encode()


def judged(body, status=206, ranges=ASKED, mark="cut", data=DATA):
    return judge(status, {"content-type": f"multipart/byteranges; boundary={mark}"}, body, data, ranges)


def kind(*args, **more) -> str:
    return judged(*args, **more).kind


def plain(body, place, status=206, ranges=ASKED) -> str:
    """Return the kind of an answer of one piece that claims to come from `place`."""
    headers = {"content-type": "", "content-range": f"bytes {place}"} if place else {"content-type": ""}
    return judge(status, headers, body, DATA, ranges).kind


def test_right_parts_are_recognised():
    for name in ("Content-Range", "content-range", "Content-range", "CONTENT-RANGE"):
        for mark, quoted in (("cut", "cut"), ("123456", '"123456"'), ("a b:c", '"a b:c"')):
            body = multipart(ASKED, mark=mark, name=name)
            for parameters, sent in ((f"boundary={quoted}", body), (f"charset=x; BOUNDARY={quoted}", body[2:])):
                headers = {"content-type": f"Multipart/ByteRanges; {parameters}"}
                verdict = judge(206, headers, sent, DATA, ASKED)
                assert verdict.kind == RIGHT and verdict.detail["parts"] == 3 and verdict.answer().answer == "yes", mark
    assert kind(multipart(ASKED[::-1])) == RIGHT, "in another order"
    assert kind(multipart(ASKED, total="*")) == RIGHT, "of unknown length"


def test_boundary_inside_the_bytes_does_not_mislead():
    data = b"\r\n--cut\r\nContent-Range: bytes 0-9/100\r\n\r\n" * 100
    ranges = [(0, 99), (2000, 2099)]
    assert kind(multipart(ranges, data), data=data, ranges=ranges) == RIGHT


def test_many_ranges_are_spread_and_counted():
    size = 2_400_000
    data = random.Random(2).randbytes(size)
    for count in (2, 200, 1500):
        ranges = byteranges.spread(count, size)
        assert len(ranges) == count and all(b - a >= 19 for a, b in ranges) and ranges[-1][1] < size
        assert all(c - b > 1000 for (_, b), (c, _) in pairwise(ranges))
        assert kind(multipart(ranges, data), data=data, ranges=ranges) == RIGHT
        assert kind(multipart(ranges[:-1], data), data=data, ranges=ranges) in (PARTIAL, FIRST)


def test_only_neighbours_may_be_merged():
    assert kind(multipart([(100, 299)]), ranges=[(100, 199), (250, 299)]) == RIGHT
    assert kind(multipart([(0, 49_999)])) == MERGED
    assert plain(DATA[10:], "10-49999/50000", ranges=[(10, 19), (49_000, 49_999)]) == MERGED


def test_incomplete_answers_are_recognised():
    for body, found in ((ASKED[:1], FIRST), (ASKED[:2], PARTIAL), (ASKED[1:], PARTIAL)):
        assert kind(multipart(body)) == found
    assert plain(DATA[:10], "0-9/50000") == FIRST


def test_whole_object_is_recognised():
    for status in (200, 206):
        assert judge(status, {"content-type": "application/octet-stream"}, DATA, DATA, ASKED).kind == WHOLE
    assert plain(DATA, "0-49999/50000") == WHOLE
    assert plain(DATA, "0-49999/50000", ranges=[(0, 49_999)]) == RIGHT


def test_refusals_are_errors():
    body = b"<Error><Code>NotImplemented</Code></Error>"
    for status in (400, 403, 416, 431, 500, 501):
        assert kind(body, status) == ERROR
    assert "501 NotImplemented" in judge(501, {}, body, DATA, ASKED).evidence


def test_wrong_bytes_are_recognised():
    right = multipart(ASKED)
    for body in (
        multipart(ASKED, shift=1),
        right[:-70],
        multipart(ASKED, total=50_001),
        multipart([(0, 9), (1001, 1050), (49_990, 49_999)], shift=-1),
        right.replace(b"1000-1049", b"1000-1048"),
        right.replace(b"1000-1049", b"1000-1050"),
        right.replace(b"1000-1049", b"1049-1000"),
        right.replace(b"Content-Range", b"Content-Place"),
        multipart(ASKED, mark="other"),
        DATA[:10] + DATA[1000:1050] + DATA[49_990:],
        b"",
    ):
        verdict = judged(body)
        assert verdict.kind == WRONG and verdict.answer().answer == "differs", body[:200]


def test_false_answers_to_one_range_are_recognised():
    place = "100-199/50000"
    for body, result, status, found in (
        (DATA[100:200], place, 206, RIGHT),
        (DATA[101:201], place, 206, WRONG),
        (DATA[100:200], "100-199/49999", 206, WRONG),
        (DATA[100:199], place, 206, WRONG),
        (DATA[100:200], None, 206, WRONG),
        (DATA[100:200], place, 200, WRONG),
        (b"", "100--1/50000", 206, WRONG),  # XrdHttp 5.5.3
    ):
        assert plain(body, result, status, ONE) == found, (result, status)
    assert kind(multipart(ONE), ranges=ONE) == RIGHT, "allowed, if odd"


class Liar(Handler):
    """A server that claims to send `body`, and sends something else, depending on its `mode`."""

    body = b""

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
        if mode in ("cut", "hangs up"):
            self.close_connection = True
            return self.answer(206, b"x" * 100, {"Content-Length": "500"}) if mode == "cut" else None
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


def answers_in(mode: str) -> dict[str, answers.TimedAnswer]:
    """Ask a server in that mode all questions about ranges; return check -> answer."""
    with served(Liar, mode=mode, body=known_body(5)) as url:
        context = Http(job(Endpoint(url, protocol="http"), [Bucket("b")]))
        try:
            return {
                name: answers.ask_question(answers.Check(topic, name, ask), context, 1 << 62)
                for (topic, name), ask in RANGES.items()
            }
        finally:
            context.close()


MULTI = ("multi-range 2", "multi-range 200", "multi-range 1500")


def test_honest_server_passes():
    assert {a.answer for a in answers_in("right").values()} == {"yes"}


def test_lying_server_is_caught():
    """It answers 206 to everything."""
    for mode, answer, word in (
        ("whole", "no", WHOLE),
        ("first", "differs", FIRST),
        ("wrong", "differs", WRONG),
        ("swapped", "differs", WRONG),
    ):
        found = answers_in(mode)
        for name in MULTI:
            assert found[name].answer == answer and found[name].evidence.startswith(word), (mode, found[name])
        assert found["single range"].answer == {"whole": "no", "wrong": "differs"}.get(mode, "yes"), mode


def test_broken_connection_is_a_no_and_not_used_again():
    for mode, evidence in (("cut", "announced 500 bytes, but sent 100"), ("hangs up", "RemoteDisconnected")):
        found = answers_in(mode)
        assert {found[n].answer for n in MULTI} == {"no"} and evidence in found[MULTI[0]].evidence
        assert mode == "hangs up" or found["after them, the object"].answer == "yes"


def test_exception_of_a_question_is_an_answer():
    def broken(_):
        raise KeyError("SECRET in a message")

    found = answers.ask_question(answers.Check("t", "n", broken), None, 1 << 62, ["SECRET"])
    assert (found.answer, found.evidence) == ("error", "KeyError: '*** in a message'")
    assert answers.ask_question(answers.Check("t", "n", broken), None, 0).answer == "not tried"

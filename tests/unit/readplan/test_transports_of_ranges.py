"""Transports of planned ranges over stand-ins that know every byte: what is sent, what comes back, what is refused; and the calibration
of a link whose times are known exactly."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from storelab.readplan import link as links
from storelab.readplan import several, transports
from storelab.readplan.cost import Link
from storelab.readplan.transports import FsspecTransport, ObstoreTransport, WrongAnswer, checked, messages

DATA = bytes(np.random.default_rng(3).integers(0, 256, 40_000, dtype=np.uint8))


class Files:
    """An fsspec file system in memory; `asked` has what each call got."""

    def __init__(self, asynchronous):
        self.async_impl, self.asked = asynchronous, []

    def cat_ranges(self, paths, starts, stops, on_error, **more):
        self.asked.append((paths, on_error, more))
        return [DATA[a:b] for a, b in zip(starts, stops, strict=True)]


@pytest.mark.parametrize(("asynchronous", "parallel", "more"), [(True, 7, {"batch_size": 7}), (False, 1, {})])
def test_file_systems_fetch_in_parallel_where_they_can(asynchronous, parallel, more):
    fs = Files(asynchronous)
    transport = FsspecTransport(fs, "file", 7)
    assert transport.parallel == parallel and transport.fetch([0, 9], [4, 12]) == [DATA[:4], DATA[9:12]]
    assert fs.asked == [(["file", "file"], "raise", more)] and transport.requests == 2
    transport.fetch([1], [2])
    assert transport.requests == 3


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([b"ab"], "1 answers to 2 requests"),
        ([b"ab", b"abc"], "3 bytes came of 4 to 5"),
        ([b"a", b"ab"], "1 bytes came of 0 to 1"),
    ],
)
def test_other_bytes_than_asked_for(parts, said):
    with pytest.raises(WrongAnswer, match=said):
        checked(parts, [0, 4], [2, 6])


def test_what_is_right_comes_back():
    assert checked([b"ab", memoryview(b"cd")], [0, 4], [2, 6])[0] == b"ab"
    with pytest.raises(OSError, match="gone"):
        checked([b"ab", OSError("gone")], [0, 4], [2, 6])
    assert WrongAnswer("x").status == 0 and WrongAnswer("x", 404).status == 404 and str(WrongAnswer("x")) == "x"


def test_ranges_of_obstore_are_spread_over_its_threads(monkeypatch):
    calls = []

    def get_ranges(store, path, starts, ends, coalesce):
        assert (store, path, coalesce) == ("store", "path", 0)
        calls.append(list(starts))
        return [DATA[a:b] for a, b in zip(starts, ends, strict=True)]

    import obstore

    monkeypatch.setattr(obstore, "get_ranges", get_ranges)
    transport = ObstoreTransport("store", "path", 25)
    assert transport.threads == 3 and ObstoreTransport("store", "path", 4).threads == 2
    starts = [10 * i for i in range(8)]
    assert transport.fetch(starts, [s + 5 for s in starts]) == [DATA[s : s + 5] for s in starts]
    assert sorted(calls) == [starts[0::3], starts[1::3], starts[2::3]] and transport.requests == 8
    calls.clear()
    assert transport.fetch([5], [6]) == [DATA[5:6]] and calls == [[5]] and transport.fetch([], []) == []
    transport.close()
    assert transport.store is None


def test_messages_are_groups_where_ranges_share_requests():
    assert messages(SimpleNamespace(), [1, 2, 3], [2, 3, 4]) == 3
    assert messages(SimpleNamespace(groups=lambda a, b: [slice(0, 3)]), [1, 2, 3], [2, 3, 4]) == 1


# Several ranges in a request


def http(**options):
    return several.HttpTransport("http://127.0.0.1:9/x", **options)


def test_ranges_share_a_request_as_far_as_its_head_allows():
    """`bytes=` and for each range `first-last,`: 9 bytes each here, 54 in all for six."""
    starts = [1000 + 10 * i for i in range(12)]
    stops = [s + 5 for s in starts]
    for size, per_request in ((6 + 10 * 6, 6), (6 + 10 * 6 - 1, 5), (6 + 10, 1), (1, 1)):
        groups = http(parallel=1, header_bytes=size).groups(starts, stops)
        assert next(g.stop - g.start for g in groups) == per_request
        for g in groups:
            head = "bytes=" + "".join(f"{a}-{b - 1}," for a, b in zip(starts[g], stops[g], strict=True))
            assert len(head) <= size or g.stop - g.start == 1
    assert [(g.start, g.stop) for g in http(parallel=5, ranges=100).groups(starts, stops)] == [
        (0, 3),
        (3, 6),
        (6, 9),
        (9, 12),
    ]
    assert [(g.start, g.stop) for g in http(parallel=1, ranges=8).groups(starts, stops)] == [(0, 8), (8, 12)]
    # 1000 to 999 shorter by a digit: the last byte counts, not the stop
    assert len(http(parallel=1, header_bytes=6 + 8).groups([990, 993], [1000, 995])) == 2
    assert len(http(parallel=1, header_bytes=6 + 16).groups([990, 993], [1000, 995])) == 1


def test_how_many_ranges_surely_fit():
    for size in (9, 10, 12345):
        transport = http(header_bytes=200)
        n, longest = transport.fitting(size), f"{size}-{size},"
        assert len("bytes=" + longest * n) <= 200 < len("bytes=" + longest * (n + 1))
    assert http(header_bytes=10).fitting(10**9) == 1


class Server:
    """Answers with parts as told: `serve(asked)` gives (status, headers, body)."""

    def __init__(self, serve):
        self.serve, self.asked = serve, []

    def request(self, method, url, headers, preload_content):
        pairs = [tuple(map(int, r.split("-"))) for r in headers["Range"].removeprefix("bytes=").split(",")]
        self.asked.append(pairs)
        status, head, body = self.serve(pairs)
        return SimpleNamespace(
            status=status, headers=head, read=lambda: body, close=lambda: None, release_conn=lambda: None
        )


def multi(pairs, mark="x"):
    body = b"".join(
        f"--{mark}\r\nContent-Range: bytes {a}-{b}/40000\r\n\r\n".encode() + DATA[a : b + 1] + b"\r\n" for a, b in pairs
    )
    return 206, {"content-type": f"multipart/byteranges; boundary={mark}"}, body + f"--{mark}--".encode()


def one(pairs):
    a, b = pairs[0]
    return 206, {"content-range": f"bytes {a}-{b}/40000"}, DATA[a : b + 1]


def serving(serve, **options):
    transport = http(**options)
    transport.http = Server(serve)
    return transport


def test_parts_are_placed_by_their_own_heads():
    """In another order, and two ranges that the server joined."""
    transport = serving(lambda pairs: multi([pairs[2], (pairs[0][0], pairs[1][1])]))
    found = transport.ask([0, 10, 100], [10, 15, 120])
    assert [bytes(p) for p in found] == [DATA[:10], DATA[10:15], DATA[100:120]]
    assert transport.requests == 1 and transport.extra == len(multi([(100, 119), (0, 14)])[2]) - 35
    assert [bytes(p) for p in serving(one).ask([7], [9])] == [DATA[7:9]]
    transport = serving(multi, parallel=2)
    assert [bytes(p) for p in transport.fetch([0, 20, 40, 60], [5, 25, 45, 65])] == [
        DATA[s : s + 5] for s in (0, 20, 40, 60)
    ]
    assert sorted(map(len, transport.http.asked)) == [2, 2]


@pytest.mark.parametrize(
    ("serve", "status", "said"),
    [
        (lambda pairs: (200, {}, DATA), 200, "2 ranges were answered with status 200"),
        (lambda pairs: (206, {}, DATA), 206, "status 206, Content-Range None"),
        (lambda pairs: (416, {"content-range": "bytes 0-1/9"}, b""), 416, "status 416"),
        (one, 0, r"of 2 ranges, the first \(0, 4\), only \(0, 4\) came"),
        (lambda pairs: multi(pairs[:1]), 0, "of 2 ranges 1 parts came, without 20 to 24"),
        (lambda pairs: multi(pairs[1:]), 0, "of 2 ranges 1 parts came, without 0 to 4"),
        (lambda pairs: multi([pairs[0], (20, 23)]), 0, "without 20 to 24"),
        (lambda pairs: (206, {"content-type": "multipart/byteranges; boundary=x"}, b"?"), 0, "cannot be read"),
    ],
)
def test_answers_that_are_not_what_was_asked(serve, status, said):
    with pytest.raises(WrongAnswer, match=said) as error:
        serving(serve).ask([0, 20], [5, 25])
    assert error.value.status == status


def right(starts, stops):
    return lambda i, part: bytes(part) == DATA[starts[i] : stops[i]]


STARTS = [100 * i for i in range(300)]
STOPS = [s + 8 for s in STARTS]


@pytest.mark.parametrize(
    ("limit", "ranges", "tried"),
    [(1, 1, [1, 3]), (3, 3, [1, 3, 200, 50, 12]), (60, 50, [1, 3, 200, 50]), (1000, 200, [1, 3, 200])],
)
def test_how_many_ranges_a_server_really_answers(limit, ranges, tried):
    """It answers at most `limit` ranges, and with more the first one only: 200 are tried, then a quarter until it works."""
    transport = serving(lambda pairs: multi(pairs) if 1 < len(pairs) <= limit else one(pairs), ranges=200)
    seen = several.probe(transport, STARTS, STOPS, right(STARTS, STOPS))
    assert transport.ranges == ranges and [s["ranges"] for s in seen] == tried
    assert [s["answer"] == "right" for s in seen] == [n <= limit for n in tried]
    assert [len(a) for a in transport.http.asked] == tried


def test_wrong_bytes_and_much_besides_are_no_answer():
    transport = serving(lambda pairs: multi(pairs) if len(pairs) > 1 else one(pairs), ranges=50)
    seen = several.probe(transport, STARTS, STOPS, lambda i, part: i == 0)
    assert transport.ranges == 1 and seen[1] == {"ranges": 3, "answer": "2 with wrong bytes"}

    def chatty(pairs):
        return one(pairs) if len(pairs) == 1 else multi([(0, 39_999)])

    seen = several.probe(serving(chatty, ranges=50), STARTS, STOPS, right(STARTS, STOPS))
    assert seen[1]["answer"].endswith("other bytes came with it") and int(seen[1]["answer"].split()[0]) > 39_000


@pytest.mark.parametrize(("status", "raised"), [(429, True), (500, True), (503, True), (501, False), (400, False)])
def test_a_server_in_trouble_is_not_one_that_cannot(status, raised):
    transport = serving(lambda pairs: one(pairs) if len(pairs) == 1 else (status, {}, b""), ranges=50)
    if raised:
        with pytest.raises(WrongAnswer):
            several.probe(transport, STARTS, STOPS, right(STARTS, STOPS))
    else:
        assert [s["ranges"] for s in several.probe(transport, STARTS, STOPS, right(STARTS, STOPS))] == [
            1,
            3,
        ] and transport.ranges == 1


# The calibration of a link


class Clock:
    """A transport on a link: time passes as the model says; the first connections cost a second, later trials `late` times as much."""

    def __init__(self, link, ranges=1, noise=()):
        self.link, self.parallel, self.now, self.calls, self.noise, self.extra, self.most = (
            link,
            link.parallel,
            0.0,
            [],
            list(noise),
            0,
            ranges,
        )
        if ranges > 1:
            self.ranges = ranges

    def fetch(self, starts, stops):
        lengths = np.array(stops) - np.array(starts)
        assert min(starts) >= 0 and max(stops) <= self.size and (lengths > 0).all()
        together = getattr(self, "ranges", 1)
        model = links.replace(self.link, ranges=together) if together > 1 else links.replace(self.link, ranges=1)
        self.extra += len(starts) * self.link.part_bytes if together > 1 else 0
        self.now += model.seconds(lengths) + (1.0 if not self.calls else 0.0)
        self.calls.append((len(starts), int(lengths[0])))


def calibrated(link, size=120_000_000, **options):
    clock = Clock(link, **options)
    clock.size = size
    return clock, links.measure(clock, size, lambda: clock.now)


TRUE = Link(0.01, 2e-4, 5e-4, 4e8, 1e8, 16, header_bytes=0)


def test_what_is_tried():
    clock, found = calibrated(TRUE)
    ones, parallel = (1, links.SMALL), (16, links.SMALL)
    assert clock.calls[0] == parallel and clock.calls[1:8] == [ones] * 7 and clock.calls[8:11] == [parallel] * 3
    assert clock.calls[11] == (8 * 16, 64) and clock.calls[12:14] == [(1, 8 * 2**20)] * 2
    assert clock.calls[14:] == [(n, size) for size, n in links.SIZES for _ in range(2)]
    assert found.rtt_s == pytest.approx(0.01, rel=1e-3), "the first connections are in no trial"
    assert found.first_s == pytest.approx(2e-4, rel=0.01) and found.request_s == pytest.approx(5e-4, rel=0.01)
    assert found.stream == pytest.approx(1e8, rel=0.01) and found.parallel == 16 and found.ranges == 1


def test_few_in_flight_and_small_objects():
    clock, found = calibrated(links.replace(TRUE, parallel=1))
    assert clock.calls[11] == (64, 64) and found.first_s == 1e-6 and found.request_s == pytest.approx(5e-4, rel=0.01)
    clock, found = calibrated(TRUE, size=4096)
    assert found.curve == () and found.bandwidth == found.stream and max(n for _, n in clock.calls) == 512
    clock, found = calibrated(links.replace(TRUE, parallel=1), size=2**22)
    assert [size for size, _ in found.curve] == [2**15, 2**17]
    with pytest.raises(ValueError, match="too small"):
        calibrated(TRUE, size=4095)


@pytest.mark.parametrize("ranges", [1, 200])
@pytest.mark.parametrize("size", [100_000, 700_000, 2_800_000, 20_000_000, 104_000_000, 2_000_000_000])
def test_a_calibration_asks_for_no_more_than_the_object_holds(size, ranges):
    """56 MB were spent on a file of 2.8 MB."""
    clock, _ = calibrated(links.replace(TRUE, ranges=ranges, part_bytes=120, part_s=1e-6), size=size, ranges=ranges)
    spent = sum(count * length for count, length in clock.calls)
    assert 0.2 * min(size, 104e6) < spent <= min(size, 106_500_000)


class Stalls(Clock):
    """A busy machine: each trial takes up to twenty times as long as it should."""

    def fetch(self, starts, stops):
        before = self.now
        super().fetch(starts, stops)
        self.now = before + (self.now - before) * float(self.noise.pop())


def test_noise_makes_nothing_faster_than_four_times_what_was_seen():
    """On a busy machine, 10**12 B/s were taken: a trial of bytes was quicker than one of requests."""
    rng, doubtful = np.random.default_rng(5), set()
    true = Link(3e-4, 1e-4, 1e-4, 1e9, 8e8, 64, header_bytes=0)
    for size in (3_000_000, 200_000_000):
        for _ in range(60):
            clock = Stalls(true, noise=np.where(rng.random(60) < 0.5, 1.0, rng.uniform(1, 20, 60)))
            clock.size = size
            found = links.measure(clock, size, lambda clock=clock: clock.now)
            assert found.bandwidth <= 4 * true.bandwidth and found.stream <= 4 * true.stream
            assert found.request_s >= true.request_s / 4 and found.rtt_s >= true.rtt_s
            assert all(length / 4e9 <= seconds for length, seconds in found.curve)
            doubtful |= set(found.doubtful)
    assert doubtful == {"request_s", "stream", "curve"}


def test_times_never_fall_with_the_size_and_are_never_none():
    nothing = Link(0.0, 0.0, 0.0, 1e15, 1e15, 4, header_bytes=0)
    _, found = calibrated(nothing)
    assert (found.first_s, found.request_s) == (1e-6, 1e-6)
    seconds = [s for _, s in found.curve]
    assert seconds == sorted(seconds) and all(s >= 0 for s in seconds)
    assert math.isfinite(found.bandwidth) and found.bandwidth >= found.stream


def test_the_cost_of_one_more_range_in_a_request():
    link = links.replace(TRUE, part_bytes=120, part_s=3e-6, ranges=200)
    clock, found = calibrated(link, ranges=200)
    assert clock.ranges == 200 and found.ranges == 200 and found.part_bytes == 120
    assert clock.calls[-3:] == [(16 * 200, 64)] * 3
    assert found.part_s == pytest.approx(3e-6, rel=0.2)
    # no room for them: the object is too small
    _, small = calibrated(link, size=20_000, ranges=200)
    assert small.ranges == 1 and small.part_bytes == 0
    clock, _ = calibrated(link, size=40_000_000, ranges=10_000)
    assert clock.calls[-1][0] == links.MOST_TOGETHER
    assert transports.PARALLEL == 64


def test_vector_reads_count_elements():
    """A range longer than an element counts as several; an empty one as one."""
    transport = several.VectorTransport.__new__(several.VectorTransport)
    transport.longest, transport.ranges, transport.most, transport.parallel = 10, 4, 6, 1
    stops = [10, 31, 45, 50, 60]  # of 10, 21, 5, 0 and 10 bytes: 1, 3, 1, 1, 1 elements
    assert transport.groups([0, 10, 40, 50, 50], stops) == [slice(0, 4), slice(4, 5)]
    transport.most = 4
    assert transport.groups([0, 10, 40, 50, 50], stops) == [slice(0, 2), slice(2, 5)]

"""The read planner's parts against sums by hand: what a calibration tries, what guesses stand for, what transports hold and give back."""

import itertools
import math
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from memory_transport import Memory

from storelab.readplan import choose, several, source
from storelab.readplan import link as links
from storelab.readplan.cost import Link
from storelab.readplan.transports import ObstoreTransport, WrongAnswer

TRUE = Link(0.01, 2e-4, 5e-4, 4e8, 1e8, 16, header_bytes=0)


class Clock:
    """A transport whose time passes as the model says; `slow`: the numbers of calls that take 3 s more."""

    def __init__(self, link=TRUE, ranges=1, slow=()):
        self.link, self.parallel, self.now, self.extra, self.slow, self.calls = link, link.parallel, 0.0, 0, slow, []
        if ranges > 1:
            self.ranges = ranges

    def fetch(self, starts, stops):
        lengths = np.array(stops) - np.array(starts)
        self.now += links.replace(self.link, ranges=getattr(self, "ranges", 1)).seconds(lengths)
        self.now += 3.0 if len(self.calls) in self.slow else 0.0
        self.calls.append((len(starts), int(lengths[0])))


def measured(clock, size=120_000_000):
    return links.measure(clock, size, lambda: clock.now)


# The calibration of a link


def test_what_one_slow_answer_changes():
    """The trials in order: 0 opens, 1 to 7 one range, 8 to 10 as many as may be in flight, 11 many. Medians forget one of each."""
    quiet = measured(Clock())
    for slow in itertools.product((1, 4, 7), (8, 9, 10)):
        found = measured(Clock(slow=slow))
        for name in ("rtt_s", "first_s", "request_s"):
            assert getattr(found, name) == pytest.approx(getattr(quiet, name)), (slow, name)
        assert not set(found.doubtful) & {"request_s"}
    assert measured(Clock(slow=(8, 9))).first_s > 0.1, "two of three are no noise"


def test_small_objects_are_asked_for_twice_as_many_as_may_be_in_flight():
    """A quarter of the bytes has no room for eight times as many: 64 B each, five such trials aside, and never fewer than twice."""
    for size, parallel, together in ((4096, 16, 32), (30_000, 16, 37), (60_000, 64, 128)):
        clock = Clock(links.replace(TRUE, parallel=parallel))
        measured(clock, size)
        assert clock.calls[11] == (together, 64)


def test_of_an_object_for_several_ranges_three_quarters_are_for_single_ones():
    """The large range is an eighth of what may be spent, 8 MiB at most; the rest is for the trial of several."""
    for size in (200_000, 800_000, 8_000_000):
        one, more = Clock(), Clock(ranges=50)
        measured(one, size)
        measured(more, size)
        assert one.calls[12] == (1, size // 8) and more.calls[12] == (1, (3 * size // 4) // 8)
    assert more.ranges == 50 and all(length == 64 for _, length in more.calls[-3:])


def test_several_ranges_are_tried_where_each_request_gets_two():
    """1200 bytes apart; 16 in flight."""
    for together, known in ((31, False), (32, True), (33, True)):
        clock = Clock(links.replace(TRUE, part_bytes=120, ranges=200), ranges=200)
        found = measured(clock, 1200 * together)
        assert (found.ranges == 200) == known and ((together, 64) in clock.calls[-3:]) == known


def test_only_the_last_three_trials_put_several_ranges_into_a_request():
    """What one request takes is measured with one range in each, and the transport has its number back, after an error too."""
    held = []

    class Seen(Clock):
        def fetch(self, starts, stops):
            held.append(self.ranges)
            if len(held) == fails:
                raise OSError("gone")
            super().fetch(starts, stops)

    fails = 0
    measured(one := Seen(links.replace(TRUE, ranges=50), ranges=50), 8_000_000)
    assert held == [1] * (len(held) - 3) + [50] * 3 and len(held) > 15 and one.ranges == 50
    held.clear()
    fails = 2
    with pytest.raises(OSError, match="gone"):
        measured(one := Seen(ranges=50))
    assert held == [1, 1] and one.ranges == 50


def test_places_that_are_asked_for_are_bytes_of_the_object():
    """Whole numbers, within it; of several ranges in a request each time other ones, none a neighbour of another."""
    for size in (50_000, 1_000_003, 120_000_001):
        asked = []

        class Seen(Clock):
            def fetch(self, starts, stops):
                asked.append(starts)  # noqa: B023
                assert all(type(b) is int for b in (*starts, *stops)) and 0 <= min(starts) <= max(stops) <= size  # noqa: B023
                super().fetch(starts, stops)

        measured(Seen(links.replace(TRUE, ranges=50), ranges=50), size)
        count = min(16 * 50, size // 1200)
        assert [len(starts) for starts in asked[-3:]] == [count] * 3 and len(
            {*itertools.chain(*asked[-3:])}
        ) == 3 * count
        assert all(b - a == size // count for starts in asked[-3:] for a, b in itertools.pairwise(starts))


def test_the_fastest_rate_is_one_that_was_seen():
    """Of a server that sends a byte in ten seconds, too."""
    now = [0.0]

    def fetch(starts, stops):
        now[0] += 10.0 * sum(b - a for a, b in zip(starts, stops, strict=True))

    trials = links._Trials(SimpleNamespace(fetch=fetch, parallel=1), 10_000, lambda: now[0])
    assert (trials.spent, trials.fastest) == (0, 0)
    assert trials.fetch(np.array([0, 500]), 64) == 1280 and trials.spent == 128
    assert trials.fastest == pytest.approx(0.1)
    assert trials.spread(3, 10, 1) == 300 and trials.spent == 158 and trials.fastest == pytest.approx(0.1)


# Plans


def test_a_plan_of_nothing():
    for sizes in ([], [0, 0]):
        found = choose.plan(np.arange(len(sizes)) * 9, np.array(sizes, "i8"), TRUE)
        assert len(found) == len(found.start) == len(found.stop) == 0
        told = (found.gap, found.piece, found.seconds, found.wire_bytes, found.needed_bytes, found.asked_bytes)
        assert told == (0,) * 6 and found.amplification == 1


def test_of_equal_costs_the_quickest_and_of_none_in_the_bound_the_fewest_bytes():
    """A bound that a plan meets exactly holds it."""
    wire, seconds = np.array([100, 90, 80, 80]), np.array([1.0, 2.0, 4.0, 3.0])
    for bound, best in ((100, 0), (99.9, 1), (90, 1), (89, 3), (80, 3), (79, 3), (np.inf, 0)):
        assert choose._Wish(TRUE, 0.0, bound).best(np.ones(4, "i8"), wire, seconds) == best, bound
    assert choose._Wish(TRUE, np.inf, np.inf).best(np.ones(4, "i8"), wire, seconds) == 3


def cut_evenly(starts, stops, piece):
    """Each request in as few equal parts as `piece` allows: lengths of all parts."""
    counts = [math.ceil((b - a) / piece) for a, b in zip(starts, stops, strict=True)]
    return np.array([math.ceil((b - a) / n) for a, b, n in zip(starts, stops, counts, strict=True) for _ in range(n)])


def test_of_many_runs_every_gap_is_tried_with_every_length_where_these_are_few():
    """80 runs, few gaps, up to four lengths of parts: by trying all, none is quicker."""
    link = Link(0.001, 5e-4, 5e-4, 1e9, 2e7, 8)
    rng = np.random.default_rng(11)
    for _ in range(6):
        sizes = rng.integers(20_000, 60_000, 80)
        gaps = rng.choice([1000, 30_000, 300_000], 80)
        offsets = np.cumsum(gaps + sizes) - sizes
        pieces = (100_000, 200_000, 400_000)
        best = math.inf
        for gap in (0, 1000, 30_000, 300_000):
            cut = np.flatnonzero(gaps[1:] > gap)
            starts, stops = offsets[np.append(0, cut + 1)], (offsets + sizes)[np.append(cut, 79)]
            for piece in (10**12, *pieces):
                best = min(best, link.seconds(cut_evenly(starts.tolist(), stops.tolist(), piece)))
        found = choose.plan(offsets, sizes, link, pieces=pieces)
        assert found.seconds <= best * 1.011


def test_which_lengths_are_tried_with_each_gap(monkeypatch):
    """Few lengths: all. Many: every fourth, and all with the best gap. Of few runs: all with all ways to merge."""
    tried = []

    class Spied(choose._Tried):
        def __init__(self, ways, link, pieces):
            tried.append(tuple(pieces))
            super().__init__(ways, link, pieces)

    monkeypatch.setattr(choose, "_Tried", Spied)
    for n, runs, first in ((3, 40, 1), (4, 40, 1), (5, 40, 4), (21, 40, 4), (21, 5, 1)):
        tried.clear()
        pieces = tuple(50_000 * 2**i for i in range(n))
        choose.plan(np.arange(runs) * 100_000, np.full(runs, 30_000), TRUE, pieces=pieces)
        assert tried[0] == pieces[::first] and set(tried[1:]) == ({pieces} if runs > 10 else set())


def test_a_plan_is_costed_by_even_parts_before_they_are_moved_to_begins(monkeypatch):
    """First without any begin, then with those of the ranges; the cuts at begins stand if they take 1 % more at most."""
    given, split = [], choose.split

    def spied(start, stop, counts, begins):
        given.append(begins.tolist())
        return split(start, stop, counts, begins)

    monkeypatch.setattr(choose, "split", spied)
    sizes = np.full(400, 30_000)
    offsets = np.cumsum(sizes) - sizes
    link = Link(0.02, 1e-4, 3.2e-4, 1e9, 2e8, 64)
    found = choose.plan(offsets, sizes, link, pieces=(1_000_000, 2_000_000))
    assert given == [[], offsets.tolist()] and len(found) > 1
    assert set(found.start.tolist()) <= set(offsets.tolist())
    given.clear()
    # begins that lie so that parts become uneven: the even ones are quicker by more than that
    odd = np.array([0, 1_240_000])
    even = choose.plan(odd, np.array([1_240_000, 760_000]), Link(0.0, 0.0, 0.0, 1e9, 1e6, 2), pieces=(1_000_000,))
    assert given == [[], [0, 1_240_000]] and even.start.tolist() == [0, 1_000_000]


def test_a_plan_of_few_runs_is_one_that_no_gap_more_or_less_makes_quicker():
    """40 runs: all plans that differ by one gap, costed here; it takes several steps to get there from one gap for all."""
    rng = np.random.default_rng(4)
    link = Link(1e-3, 1e-4, 1e-3, 4e8, 1e8, 4, ((2**16, 1e-4), (2**18, 3e-3), (2**20, 4e-3)))
    steps = 0
    for _ in range(12):
        sizes, gaps = rng.integers(1000, 200_000, 40), rng.integers(1, 300_000, 40)
        offsets = np.cumsum(gaps + sizes) - sizes
        stops = offsets + sizes

        def took(cut):
            at = np.flatnonzero(cut)
            return link.seconds(stops[np.append(at, 39)] - offsets[np.append(0, at + 1)])  # noqa: B023

        found = choose.plan(offsets, sizes, link, pieces=())
        cut = np.isin(stops[:-1], found.stop)
        assert found.seconds == pytest.approx(took(cut))
        assert found.seconds <= min(took(cut ^ (np.arange(39) == i)) for i in range(39)) + 1e-12
        by_gap = [gaps[1:] > gap for gap in (0, *gaps)]
        start = min(by_gap, key=took)
        steps = max(steps, int((start ^ cut).sum()))
    assert steps > 1


def test_up_to_ten_runs_all_ways_to_merge_are_tried(monkeypatch):
    """Two for each gap; of eleven runs those near the best of one gap for all: itself, and one more or less."""
    tried = []

    class Spied(choose._Tried):
        def __init__(self, ways, link, pieces):
            super().__init__(ways, link, pieces)
            tried.append(len(self.cuts))

    monkeypatch.setattr(choose, "_Tried", Spied)
    for runs, counts in ((2, [2]), (9, [256]), (10, [512]), (11, [2, 11])):
        tried.clear()
        choose.plan(np.arange(runs) * 100_000, np.full(runs, 30_000), TRUE, pieces=())
        assert tried[: len(counts)] == counts and len(set(tried[1:])) == len(counts) - 1, runs


# uproot's reads


def test_the_guess_for_few_ranges():
    """10 ms of round trip, 0.1 ms for each that leaves with the first, 1 ms for each beyond those in flight, 100 MB/s a connection."""
    data = bytes(10**6)
    for n, parallel in ((1, 8), (3, 8), (5, 2)):
        one = source.PlannedSource("x", transport=Memory(data, parallel), num_bytes=10**12)
        begins = np.arange(n) * 10**10
        found = one.requests_for(np.column_stack([begins, begins + 300]))
        first = min(n, parallel)
        waits = 0.01 + (first - 1) * 1e-4 + (n - first) * 1e-3
        moving = max(n * 1000 / 1e9, n * 1000 / (first * 1e8), 300 / 1e8)  # 700 B of heads each
        assert len(found) == n and found.seconds == pytest.approx(waits + moving, rel=1e-9)
        assert one.link is None and not one.transport.requests, "nothing was measured"


def test_a_source_is_open_within_its_block():
    one = source.PlannedSource("x", transport=Memory(b"abc"), num_bytes=3)
    with one as held:
        assert held is one and not held.closed and bytes(held.chunk(1, 3).raw_data) == b"bc"
    assert one.closed


def test_what_lies_in_the_answers_of_a_plan():
    """By slices of the object: ranges of no byte, of one answer, over several that touch."""
    data = np.arange(100, dtype=np.uint8)
    requests = choose.Requests(np.array([10, 20, 50]), np.array([20, 40, 60]), 0, 0, 0.0, 0, 0)
    parts = [data[a:b].tobytes() for a, b in ((10, 20), (20, 40), (50, 60))]
    asked = [(10, 20), (12, 12), (19, 21), (10, 40), (55, 60), (5, 5), (99, 99), (30, 31)]
    found = source.gather(requests, parts, *map(np.array, zip(*asked, strict=True)))
    assert [f.tobytes() for f in found] == [data[a:b].tobytes() for a, b in asked]
    assert {f.dtype for f in found} == {np.dtype("u1")} and [len(f) for f in found] == [b - a for a, b in asked]
    for start, stop in ((9, 11), (39, 41), (20, 51), (40, 50), (59, 61), (70, 71)):
        with pytest.raises(ValueError, match=f"bytes {start} to {stop - 1} are not in the answers"):
            source.gather(requests, parts, np.array([start]), np.array([stop]))


# Transports


OWN = {"cert_reqs": "CERT_REQUIRED"}


def test_connections_of_an_http_transport():
    """As many as asked for and no more; no retry; 10 s to connect; who is trusted, and as whom it comes."""
    for url, more, trust in (
        ("https://h/x", {}, OWN),
        ("https://h/x", {"verify": False}, {"cert_reqs": "CERT_NONE"}),
        ("https://h/x", {"ca_file": "ca.pem"}, OWN | {"ca_certs": "ca.pem"}),
        ("https://h/x", {"certificate": "me.pem"}, OWN | {"cert_file": "me.pem"}),
        ("http://h/x", {"ca_file": "ca.pem", "certificate": "me.pem"}, {}),
    ):
        one = several.HttpTransport(url, parallel=3, timeout_s=7.0, **more)
        held = dict(one.http.connection_pool_kw)
        timeout, retries = held.pop("timeout"), held.pop("retries")
        assert (timeout.connect_timeout, timeout.read_timeout) == (10, 7.0)
        assert (retries if isinstance(retries, bool) else retries.total) is False
        assert held == {"maxsize": 3, "block": True} | trust, (url, more)
        one.close()
    one = several.HttpTransport("http://h/x")
    assert (one.parallel, one.ranges, one.header_bytes, one.requests, one.extra) == (16, 500, 7000, 0, 0)
    assert one.http.connection_pool_kw["timeout"].read_timeout == 120 and one.headers == {}


class Server:
    """Answers as told, and counts what was done with the answers."""

    def __init__(self, status, head, body=b""):
        self.status, self.head, self.body, self.done = status, head, body, []

    def request(self, method, url, headers, preload_content):
        def note(what):
            return lambda: self.done.append(what)

        def read():
            self.done.append("read")
            if isinstance(self.body, Exception):
                raise self.body
            return self.body

        return SimpleNamespace(
            status=self.status, headers=self.head, read=read, close=note("close"), release_conn=note("release")
        )


GONE = OSError("gone")
TOLD, UNTOLD = {"content-range": "bytes 0-0/77"}, {"content-range": "bytes 0-0/*"}


def test_connections_go_back_whatever_was_answered():
    """Once, after a question for the size and after one for a range: else the next one waits for ever."""
    for status, head, body, size, part in (
        (206, TOLD, b"a", 77, b"a"),
        (206, UNTOLD, b"a", None, b"a"),
        (200, {}, b"a" * 77, None, None),
        (404, TOLD, b"", None, None),
        (206, TOLD, GONE, None, None),
    ):
        one = several.HttpTransport("http://h/x", parallel=1)
        for ask, expected in ((one.size, size), (lambda one=one: one.ask([0], [1])[0], part)):
            one.http = Server(status, head, body)
            try:
                assert ask() == expected
            except OSError:
                assert expected is None
            done = one.http.done
            assert done[-1] == "release" and done.count("release") == 1, (status, head)
            assert ("close" in done) != ("read" in done) or body is GONE, "nothing of it is left on the connection"
        assert one.requests == 2


def test_up_to_600_bytes_beside_a_range_are_its_head():
    """Three ranges of 8 bytes: 1800 further bytes are right, one more is not."""
    starts, stops = [0, 1000, 2000], [8, 1008, 2008]
    for beside, answer in ((1799, "right"), (1800, "right"), (1801, "1801 other bytes came with it")):

        def serve(method, url, headers, preload_content, beside=beside):
            pairs = [tuple(map(int, r.split("-"))) for r in headers["Range"].removeprefix("bytes=").split(",")]
            if len(pairs) == 1:
                head, body = {"content-range": f"bytes 0-{pairs[0][1]}/9999"}, bytes(8)
            else:
                parts = [f"--x\r\nContent-Range: bytes {a}-{b}/9999\r\n\r\n".encode() + bytes(8) for a, b in pairs]
                body = b"".join(p + b"\r\n" for p in parts) + b"--x--"
                body += b" " * (beside + 24 - len(body))
                head = {"content-type": "multipart/byteranges; boundary=x"}
            closed = {"close": lambda: None, "release_conn": lambda: None}
            return SimpleNamespace(status=206, headers=head, read=lambda: body, **closed)

        one = several.HttpTransport("http://h/x")
        one.http = SimpleNamespace(request=serve)
        seen = several.probe(one, starts, stops, lambda i, part: bytes(part) == bytes(8))
        assert seen == [{"ranges": 1, "answer": "right"}, {"ranges": 3, "answer": answer}]
        assert one.ranges == (3 if answer == "right" else 1) and one.extra == beside


def test_elements_of_vector_reads():
    """One for each begun 10 bytes, and one for a range of none; at most six in a read."""
    one = several.VectorTransport.__new__(several.VectorTransport)
    one.longest, one.ranges, one.most, one.parallel = 10, 100, 6, 1
    for lengths, groups in (
        ([0] * 13, [6, 6, 1]),
        ([0, 10, 0, 10, 0, 10, 0], [6, 1]),
        ([11, 11, 11, 11], [3, 1]),
        ([10] * 7, [6, 1]),
        ([60, 1, 61, 1], [1, 1, 1, 1]),
    ):
        stops = np.cumsum(lengths)
        found = one.groups((stops - lengths).tolist(), stops.tolist())
        assert [g.stop - g.start for g in found] == groups, lengths


def test_what_waits_when_a_transport_closes_is_not_begun():
    """Calls in flight go on, and nobody waits for them."""
    for one in (ObstoreTransport("store", "path", 2), several.HttpTransport("http://h/x", 2)):
        go, begun = threading.Event(), threading.Semaphore(0)

        def work(go=go, begun=begun):
            begun.release()
            return go.wait(60)

        flying = [one.pool.submit(work) for _ in range(2)]
        for _ in flying:
            assert begun.acquire(timeout=60)
        waiting = [one.pool.submit(work) for _ in range(3)]
        one.close()
        assert not any(f.done() for f in flying) and all(f.cancelled() for f in waiting)
        go.set()
        assert [f.result(60) for f in flying] == [True, True]


def test_a_wrong_answer_is_an_error_of_the_network():
    error = WrongAnswer("said", 503)
    assert isinstance(error, OSError) and (error.status, str(error)) == (503, "said")

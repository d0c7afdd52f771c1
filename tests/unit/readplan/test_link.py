"""The calibration of a link with known times: its trials, its results, and the influence of noise."""

import itertools
import math
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
from link_model import LAN, WAN

from readplan import Link
from readplan import link as links

TRUE = Link(0.01, 2e-4, 5e-4, 4e8, 1e8, 16, header_bytes=0)
CURVE = ((2**17, 2e-4), (2**19, 1.6e-3), (2**21, 3e-3))
BENT = Link(**{**asdict(LAN), "curve": CURVE, "bandwidth": 2**21 / 3e-3, "stream": 4e8})
MULTI = replace(TRUE, part_bytes=120, part_s=3e-6, ranges=200)


class Clock:
    """A transport on a link: time passes as the model says, for `ranges` ranges in a request.

    slow: call -> extra seconds; factors: what each call takes, relative to the model, last first.
    `calls` has (ranges, bytes of a range) of each call, `places` their begins, `together` the ranges in a request.
    """

    def __init__(self, link, ranges=1, slow=(), factors=()):
        self.link, self.parallel, self.now, self.extra, self.size = link, link.parallel, 0.0, 0, 0
        self.slow, self.factors = dict(slow), list(factors)
        self.calls, self.places, self.together, self.fails = [], [], [], None
        if ranges > 1:
            self.ranges = ranges

    def fetch(self, starts, stops):
        assert all(type(place) is int for place in (*starts, *stops)) and min(starts) >= 0 and max(stops) <= self.size
        together, lengths = getattr(self, "ranges", 1), np.array(stops) - np.array(starts)
        assert (lengths > 0).all()
        self.together.append(together)
        if len(self.together) == self.fails:
            raise OSError("gone")
        seconds = replace(self.link, ranges=together).seconds(lengths)
        self.now += seconds * float(self.factors.pop() if self.factors else 1) + self.slow.get(len(self.calls), 0.0)
        self.extra += len(starts) * self.link.part_bytes if together > 1 else 0
        self.calls.append((len(starts), int(lengths[0])))
        self.places.append(starts)


def measured(clock, size=120_000_000):
    clock.size = size
    return links.measure(clock, size, lambda: clock.now)


def test_calibration_finds_link():
    for link in (LAN, WAN, BENT):
        clock = Clock(link)
        found = measured(clock)
        assert not found.doubtful and found.parallel == link.parallel
        for name in ("rtt_s", "first_s", "request_s", "stream", "bandwidth"):
            assert getattr(found, name) == pytest.approx(getattr(link, name), rel=0.1), name
        for length in (20_000, 500_000, 3_000_000):
            assert found.busy(np.array([length])) == pytest.approx(link.busy(np.array([length])), rel=0.15)
        assert sum(n for n, _ in clock.calls) < 1200 and sum(n * length for n, length in clock.calls) < 110e6


def test_trials_come_in_order():
    """The first trial opens the connections, which costs a second here, and counts for nothing."""
    clock = Clock(TRUE, slow={0: 1.0})
    found = measured(clock)
    ones, parallel = (1, links.SMALL), (16, links.SMALL)
    assert clock.calls[0] == parallel and clock.calls[1:8] == [ones] * 7 and clock.calls[8:11] == [parallel] * 3
    assert clock.calls[11] == (8 * 16, 64) and clock.calls[12:14] == [(1, 8 * 2**20)] * 2
    assert clock.calls[14:] == [(n, size) for size, n in links.SIZES for _ in range(2)]
    assert found.rtt_s == pytest.approx(0.01, rel=1e-3) and found.first_s == pytest.approx(2e-4, rel=0.01)
    assert found.request_s == pytest.approx(5e-4, rel=0.01) and found.stream == pytest.approx(1e8, rel=0.01)
    assert found.parallel == 16 and found.ranges == 1


def test_one_slow_trial_changes_nothing():
    """Medians forget one of seven single ranges, and one of three groups in flight."""
    quiet = measured(Clock(TRUE))
    for slow in itertools.product((1, 4, 7), (8, 9, 10)):
        found = measured(Clock(TRUE, slow=dict.fromkeys(slow, 3.0)))
        for name in ("rtt_s", "first_s", "request_s"):
            assert getattr(found, name) == pytest.approx(getattr(quiet, name)), (slow, name)
        assert "request_s" not in found.doubtful
    assert measured(Clock(TRUE, slow={8: 3.0, 9: 3.0})).first_s > 0.1, "two of three are not noise"


def test_noise_exaggerates_fourfold_at_most():
    """On a busy machine each trial takes up to twenty times as long; no value may be below a fourth of the trials."""
    rng, doubtful = np.random.default_rng(5), set()
    true = Link(3e-4, 1e-4, 1e-4, 1e9, 8e8, 64, header_bytes=0)
    for size, _ in itertools.product((3_000_000, 200_000_000), range(60)):
        found = measured(Clock(true, factors=np.where(rng.random(60) < 0.5, 1.0, rng.uniform(1, 20, 60))), size)
        assert found.bandwidth <= 4 * true.bandwidth and found.stream <= 4 * true.stream
        assert found.request_s >= true.request_s / 4 and found.rtt_s >= true.rtt_s
        assert all(length / 4e9 <= seconds for length, seconds in found.curve)
        doubtful |= set(found.doubtful)
    assert doubtful == {"request_s", "stream", "curve"}


def test_immediate_answers_give_finite_link():
    found = measured(Clock(Link(0.0, 0.0, 0.0, 1e15, 1e15, 4, header_bytes=0), slow={0: 1.0}))
    assert (found.first_s, found.request_s) == (1e-6, 1e-6)
    seconds = [s for _, s in found.curve]
    assert seconds == sorted(seconds) and all(s >= 0 for s in seconds)
    assert math.isfinite(found.bandwidth) and found.bandwidth >= found.stream


def test_fastest_rate_was_seen():
    """Use a server that needs ten seconds for a byte."""
    now = [0.0]

    def fetch(starts, stops):
        now[0] += 10.0 * sum(b - a for a, b in zip(starts, stops, strict=True))

    trials = links._Trials(SimpleNamespace(fetch=fetch, parallel=1), 10_000, lambda: now[0])
    assert (trials.spent, trials.fastest) == (0, 0)
    assert trials.fetch(np.array([0, 500]), 64) == 1280 and trials.spent == 128
    assert trials.fastest == pytest.approx(0.1)
    assert trials.spread(3, 10, 1) == 300 and trials.spent == 158 and trials.fastest == pytest.approx(0.1)


def test_small_objects_and_single_requests():
    """A quarter of the bytes is for small ranges, at least twice as many as may be in flight."""
    clock = Clock(replace(TRUE, parallel=1))
    found = measured(clock)
    assert clock.calls[11] == (64, 64) and found.first_s == 1e-6 and found.request_s == pytest.approx(5e-4, rel=0.01)
    found = measured(clock := Clock(TRUE), 4096)
    assert found.curve == () and found.bandwidth == found.stream and max(n for _, n in clock.calls) == 512
    assert [size for size, _ in measured(Clock(replace(TRUE, parallel=1)), 2**22).curve] == [2**15, 2**17]
    for size, parallel, together in ((4096, 16, 32), (30_000, 16, 37), (60_000, 64, 128)):
        measured(clock := Clock(replace(TRUE, parallel=parallel)), size)
        assert clock.calls[11] == (together, 64)
    for size in (100, 4095):
        with pytest.raises(ValueError, match="too small"):
            measured(Clock(TRUE), size)


def test_calibration_asks_for_object_once_at_most():
    for size in (100_000, 700_000, 2_800_000, 20_000_000, 104_000_000, 2_000_000_000):
        for ranges in (1, 200):
            measured(clock := Clock(replace(MULTI, part_s=1e-6, ranges=ranges), ranges=ranges), size)
            spent = sum(count * length for count, length in clock.calls)
            assert 0.2 * min(size, 104e6) < spent <= min(size, 106_500_000), (size, ranges)


def test_known_link_opens_all_connections_only():
    """An object of a few bytes is read as a whole by each connection."""
    for size, length in ((10**6, links.SMALL), (10, 10)):
        clock = Clock(TRUE)
        clock.size = size
        links.connect(clock, size)
        assert clock.calls == [(16, length)]
    assert links.assumed(7).doubtful == ("all",) and links.assumed(7).parallel == 7


# Several ranges in a request


def test_further_range_in_request_has_a_cost():
    found = measured(clock := Clock(MULTI, ranges=200))
    assert clock.ranges == 200 and found.ranges == 200 and found.part_bytes == 120
    assert clock.calls[-3:] == [(16 * 200, 64)] * 3
    assert found.part_s == pytest.approx(3e-6, rel=0.2)
    small = measured(Clock(MULTI, ranges=200), 20_000)
    assert small.ranges == 1 and small.part_bytes == 0, "the object has no room for them"
    measured(clock := Clock(MULTI, ranges=10_000), 40_000_000)
    assert clock.calls[-1][0] == links.MAX_RANGES
    for together, known in ((31, False), (32, True), (33, True)):  # 1200 bytes apart, 16 in flight, two in each request
        found = measured(clock := Clock(replace(MULTI, part_s=0.0), ranges=200), 1200 * together)
        assert (found.ranges == 200) == known and ((together, 64) in clock.calls[-3:]) == known


def test_single_ranges_get_three_quarters_of_object():
    """The large range is an eighth of what may be spent, 8 MiB at most."""
    for size in (200_000, 800_000, 8_000_000):
        measured(one := Clock(TRUE), size)
        measured(more := Clock(TRUE, ranges=50), size)
        assert one.calls[12] == (1, size // 8) and more.calls[12] == (1, (3 * size // 4) // 8)
    assert more.ranges == 50 and all(length == 64 for _, length in more.calls[-3:])


def test_transport_gets_number_of_ranges_back():
    """Only the last three trials put several ranges into a request. An error restores the number too."""
    measured(one := Clock(replace(TRUE, ranges=50), ranges=50), 8_000_000)
    assert one.together == [1] * (len(one.together) - 3) + [50] * 3 and len(one.together) > 15 and one.ranges == 50
    one = Clock(TRUE, ranges=50)
    one.fails = 2
    with pytest.raises(OSError, match="gone"):
        measured(one)
    assert one.together == [1, 1] and one.ranges == 50


def test_trials_of_several_ranges_share_no_place():
    for size in (50_000, 1_000_003, 120_000_001):
        measured(clock := Clock(replace(TRUE, ranges=50), ranges=50), size)
        count, last = min(16 * 50, size // 1200), clock.places[-3:]
        assert [len(starts) for starts in last] == [count] * 3 and len({*itertools.chain(*last)}) == 3 * count
        assert all(b - a == size // count for starts in last for a, b in itertools.pairwise(starts))

"""Compute the time model of the read planner in plain Python, and draw random links for property tests."""

import math
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st

from readplan.link import Link

PROPERTY = settings(max_examples=25, deadline=None, database=None, derandomize=True)
LAN = Link(rtt_s=3e-4, first_s=1e-4, request_s=1e-4, bandwidth=1e9, stream=8e8, parallel=64)
WAN = Link(rtt_s=0.02, first_s=1e-4, request_s=3.2e-4, bandwidth=1e9, stream=2e8, parallel=64)


def up(a, b):
    """Return the quotient a / b, rounded up."""
    return math.ceil(a / b)


def busy_of(link, length):
    """Return the transfer time of `length` bytes in s: by the curve, and beyond its last point by the bandwidth."""
    if not link.curve or link.ranges > 1:
        return length / link.bandwidth
    known = [(0, 0.0), *link.curve]
    for (a, s), (b, t) in pairwise(known):
        if length <= b:
            return s + (t - s) * (length - a) / (b - a)
    return known[-1][1] + (length - known[-1][0]) / link.bandwidth


def seconds_of(link, lengths):
    """Return (seconds, wire bytes, requests) for pieces of these lengths, as the docstring of `Link` defines them."""
    n, asked = len(lengths), sum(lengths)
    together = max(1, min(link.ranges, up(n, link.parallel)))
    requests = up(n, together)
    wire = asked + requests * link.header_bytes + (n * link.part_bytes if link.ranges > 1 else 0)
    seconds = link.rtt_s
    for i in range(1, requests):
        seconds += link.first_s if i < link.parallel else link.request_s
    seconds += n * link.part_s if link.ranges > 1 else 0
    moving = (wire - asked) / link.bandwidth + sum(busy_of(link, length) for length in lengths)
    streams = min(requests, link.parallel)
    return seconds + max(moving, wire / (streams * link.stream), max(lengths) / link.stream), wire, requests


def occupied_of(link):
    """Return the time in s for which one more request occupies the server."""
    return max(0, link.request_s - link.rtt_s / link.parallel)


@st.composite
def links(draw):
    """Draw a link with a curve of at most three points, and with one or several ranges per request."""
    times, rates = st.floats(1e-6, 1e-2), st.floats(1e5, 1e9)
    curve, size, took = [], 0, 0.0
    for more, longer in draw(st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 1e-3)), max_size=3)):
        size, took = size + more, took + longer
        curve.append((size, took))
    return Link(
        draw(times),
        draw(times),
        draw(times),
        draw(rates),
        draw(rates),
        draw(st.integers(1, 6)),
        tuple(curve),
        draw(st.sampled_from([0, 700])),
        draw(st.sampled_from([1, 1, 2, 3])),
        draw(st.integers(0, 150)),
        draw(times),
    )

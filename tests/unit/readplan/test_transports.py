"""Transports of the read planner against servers that answer several ranges rightly, wrongly, and not at all."""

import re

import numpy as np
import pytest
from range_server import range_server

from storelab.readplan import HttpTransport, WrongAnswer, several

DATA = np.random.default_rng(1).bytes(300_000)


@pytest.fixture
def server():
    with range_server(DATA) as one:
        yield one


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
    said = [len(f"{a}-{a + 4},") for a in starts.tolist()]
    fit = max(
        n for i in range(300) for n in range(1, 40) if sum(said[i : i + n]) - 1 + len("bytes=") <= 200 and i + n <= 300
    )
    assert max(server.asked) <= fit and sum(server.asked) == 300
    assert len(server.asked) < 2 * (sum(said) // 200 + 1), "and no smaller than that"
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


@pytest.mark.parametrize(
    ("mode", "ranges", "said"),
    [
        ("right", 100, "right"),
        ("shuffled", 100, "right"),
        ("merged", 1, "other bytes"),
        ("whole", 1, "status 200"),
        ("first", 1, r"only \(0, 49\) came"),
        ("some", 1, "without"),
        ("wrong", 1, "1 with wrong bytes"),
        ("ten", 6, "without"),
    ],
)
def test_a_probe_finds_what_the_server_truly_answers(server, mode, ranges, said):
    """The place of each part and its bytes are compared; a server that answers ten ranges of a hundred gets six, as it showed."""
    server.mode = mode
    starts = np.arange(100) * 2500
    one = transport(server, parallel=1)
    seen = several.probe(one, starts, starts + 50, lambda i, part: bytes(part) == DATA[i * 2500 : i * 2500 + 50])
    assert one.ranges == ranges and seen[0] == {"ranges": 1, "answer": "right"}
    assert any(re.search(said, s["answer"]) for s in seen[1:]), seen
    assert one.requests == len(seen) == len(server.asked)
    parts = one.fetch(starts, starts + 7)
    assert [bytes(p) for p in parts] == [DATA[a : a + 7] for a in starts]


@pytest.mark.parametrize("mode", ["missing", "busy"])
def test_a_probe_of_what_is_not_there_is_an_error(server, mode):
    server.mode = mode
    with pytest.raises(WrongAnswer) as failed:
        several.probe(transport(server), [0, 3000, 6000, 9000], [9, 3009, 6009, 9009], lambda i, part: True)
    assert failed.value.status == {"missing": 404, "busy": 503}[mode]

"""The time model of a link, compared with the same model in plain Python."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from link_model import LAN, PROPERTY, busy_of, links, occupied_of, seconds_of

from readplan import Link


@PROPERTY
@given(links(), st.lists(st.integers(1, 9000), min_size=1, max_size=20))
def test_model_follows_its_description(link, lengths):
    seconds, wire, requests = seconds_of(link, lengths)
    assert link.requests(len(lengths)) == requests
    assert link.wire(len(lengths), sum(lengths)) == wire
    assert link.seconds(np.array(lengths)) == pytest.approx(seconds, rel=1e-9)
    assert link.busy(np.array(lengths)) == pytest.approx([busy_of(link, n) for n in lengths], rel=1e-9, abs=1e-15)
    shared = wire / link.bandwidth + requests * occupied_of(link)
    assert link.shared(len(lengths), wire) == pytest.approx(shared, rel=1e-9)


@PROPERTY
@given(links(), st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 4)), min_size=1, max_size=6))
def test_counts_repeat_lengths(link, kinds):
    lengths, counts = np.array(kinds).T
    assert link.seconds(lengths, counts) == pytest.approx(link.seconds(np.repeat(lengths, counts)), rel=1e-9)


def test_impossible_link_is_refused():
    wrong = {"bandwidth": 0, "rtt_s": -1, "parallel": 0, "request_s": float("nan"), "curve": ((5, 1.0), (4, 2.0))}
    for name, value in [*wrong.items(), ("curve", ((5, -1.0),)), ("curve", ((0, 1.0),))]:
        with pytest.raises(ValueError, match=name):
            Link(**asdict(LAN) | {name: value})

"""Where ranges begin."""

import random

import pytest

from storelab.engines.common.ranges import begins, fixed


def test_sequential_ranges_cover_the_object_once():
    assert list(begins("sequential", 1000, 300, random.Random(1))) == [0, 300, 600]
    assert list(begins("sequential", 900, 300, random.Random(1))) == [0, 300, 600]


def test_random_ranges_reach_both_ends():
    rng = random.Random(1)
    seen = {b for _ in range(300) for b in begins("random", 12, 10, rng)}
    assert seen == {0, 1, 2}


@pytest.mark.parametrize(("offset", "begin"), [("1MB", 10**6), ("0B", 0)])
def test_a_fixed_place(offset, begin):
    assert list(begins(offset, 10**7, 5, random.Random(1))) == [begin] == [fixed(offset)]

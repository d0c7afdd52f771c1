"""What a mix draws: sizes from their distribution, and operations by their shares. Truth comes from closed forms."""

import math
import random
from itertools import pairwise

import pytest

from storelab.core.axes import mixes
from storelab.engines.common import mixing


def chi_square(seen, due) -> float:
    return sum((s - d) ** 2 / d for s, d in zip(seen, due, strict=True))


def test_sizes_come_from_their_distribution():
    rng, n = random.Random(3), 60_000
    table = mixing.Sizes({"size": [10, 20, 4000], "count": [5, 0, 15]})
    drawn = [table.draw(rng) for _ in range(n)]
    assert set(drawn) == {10, 4000} and chi_square([drawn.count(10), drawn.count(4000)], [n / 4, 3 * n / 4]) < 10.83
    cut = {"mean": 10_000, "sigma": 1.2, "least": 100, "most": 200_000}
    drawn = [mixing.Sizes(cut).draw(rng) for _ in range(n)]
    edges = [99.5, 1000.5, 3000.5, 6000.5, 12_000.5, 30_000.5, 80_000.5, 200_000.5]
    below = [0.5 * math.erfc(-(math.log(e) - (math.log(10_000) - 0.72)) / (1.2 * math.sqrt(2))) for e in edges]
    due = [n * (b - a) / (below[-1] - below[0]) for a, b in pairwise(below)]
    seen = [sum(a < d < b for d in drawn) for a, b in pairwise(edges)]
    assert sum(seen) == n and chi_square(seen, due) < 22.46  # 0.001 of 6 degrees of freedom
    assert sum(drawn) / n == pytest.approx(mixes.mean(cut), rel=0.03)
    assert mixing.Sizes({"fixed": 7}).draw(rng) == 7


def test_operations_come_by_their_shares_in_random_order():
    shares, n = [70.5, 15, 9.3, 5, 0.2], 50_300
    deck = mixing.Deck(shares, random.Random(7))
    dealt = [deck.deal(lambda kind: True) for _ in range(n)]
    due = [s / 100 * n for s in shares]
    seen = [dealt.count(kind) for kind in range(5)]
    assert chi_square(seen, due) < 18.47 and all(abs(s - d) < 100 for s, d in zip(seen, due, strict=True))
    again = sum((s / 100) ** 2 for s in shares)
    same = sum(a == b for a, b in pairwise(dealt)) / n
    assert abs(same - again) < 5 * math.sqrt(again * (1 - again) / n)


def test_impossible_operation_waits():
    deck = mixing.Deck([1, 1], random.Random(1))
    assert {deck.deal(lambda kind: kind == 0) for _ in range(30)} == {0}
    assert [deck.deal(lambda kind: True) for _ in range(60)].count(1) >= 40 and deck.lost == [0, 0]
    assert deck.deal(lambda kind: False) is None
    assert {deck.deal(lambda kind: kind == 0) for _ in range(5000)} == {0}
    assert deck.lost[1] > 4000 and len(deck.cards) < 3 * mixing.ROUND

"""What a mix draws: operations, sizes, and which objects are there at the start, whatever the engine. Pure."""

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from storelab.core.model import Point, derive_seed

ROUND = 1000  # cards that are shuffled together
# Limits that do not hold for a mix: what it puts is never more than its objects, however much it moves.
NO_ROOM = {"room_bytes": None, "disk_bytes": None}
WAITING = 100  # cards, at most, that wait for their operation to be possible


class Sizes:
    """Draws the sizes of objects from a distribution as a point keeps it (`fixed["sizes"]`)."""

    def __init__(self, told: Mapping[str, Any]):
        self.told = told
        self.below = list(accumulate(told.get("count", ())))
        self.mu = math.log(told["mean"]) - told["sigma"] ** 2 / 2 if "mean" in told else 0.0

    def draw(self, rng: random.Random) -> int:
        told = self.told
        if "fixed" in told:
            return int(told["fixed"])
        if "size" in told:
            return int(told["size"][bisect_right(self.below, rng.random() * self.below[-1])])
        while True:  # the mean lies between the bounds, so this ends soon
            size = round(math.exp(rng.gauss(self.mu, told["sigma"])))
            if told["least"] <= size <= told["most"]:
                return size


class Deck:
    """Deals operations by their shares: in every round of a thousand cards each comes as often as its share says, in
    random order. What a round cannot hold of a share is owed to the next."""

    def __init__(self, shares: Sequence[float], rng: random.Random):
        self.shares, self.rng = [s / sum(shares) for s in shares], rng
        self.owed = [0.0] * len(shares)
        self.lost = [0] * len(shares)  # cards that waited in vain
        self.cards: list[int] = []  # the next is the last

    def fill(self) -> None:
        """Put another round below the cards that are left."""
        fresh: list[int] = []
        for kind, share in enumerate(self.shares):
            self.owed[kind] += share * ROUND
            whole = max(0, math.floor(self.owed[kind]))
            self.owed[kind] -= whole
            fresh += [kind] * whole
        while len(fresh) < ROUND:
            most = max(range(len(self.owed)), key=lambda kind: self.owed[kind])
            self.owed[most] -= 1
            fresh.append(most)
        self.rng.shuffle(fresh)
        self.cards = fresh + self.cards

    def deal(self, possible: Callable[[int], bool]) -> int | None:
        """The next card whose operation is possible; those before it are dealt when they are, up to WAITING of them.
        None: nothing is possible."""
        tried: set[int] = set()
        passed = 0
        while passed < 3 * ROUND and len(tried) < len(self.shares):
            if passed == len(self.cards):
                self.fill()
            kind = self.cards[-1 - passed]
            if kind not in tried and possible(kind):
                before = self.cards[len(self.cards) - passed :]
                del self.cards[-1 - passed :]
                if passed <= WAITING:
                    self.cards += before
                else:
                    for other in before:
                        self.lost[other] += 1
                return kind
            tried.add(kind)
            passed += 1
        return None


def objects_at_a_time(point: Point, client: int) -> int:
    """A client's share of `objects`: as many are there at the start, and never more."""
    objects, clients = point.fixed["objects"], point.axes["clients"]
    return int(objects // clients + (client < objects % clients))


def start(point: Point, client: int) -> list[int]:
    """Sizes of the objects that are there for a client before it begins: its number 0, 1, …"""
    sizes, rng = Sizes(point.fixed["sizes"]), random.Random(derive_seed(point.seed, "start", client))
    return [sizes.draw(rng) for _ in range(objects_at_a_time(point, client))]

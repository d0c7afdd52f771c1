"""The objects of a mix in one process, which threads share: who may read, write, delete which, and what a listing must
hold. As the program loadgen does it (`loadgen/load/population.go`). Standard library and `engines.common` only."""

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from storelab.datasets.keys import WrongListing
from storelab.engines.common.mixing import Deck, Sizes

MOST_DOUBTED = 1_000_000


@dataclass
class Object:
    """number: of the upload whose name it has; since: stamp of when it became what it is; at: place among those that
    are ready, -1 while it is written or deleted, or not there."""

    number: int = 0
    size: int = 0
    version: int = 0
    since: int = 0
    at: int = -1
    readers: int = 0


@dataclass
class Given:
    """One operation with its object. slot: -1 where it has none. Of a listing: where, behind which key, since when."""

    op: str
    number: int = -1
    slot: int = -1
    version: int = 0
    size: int = 0
    place: int = 0
    after: str = ""
    since: int = 0
    mark: int = 0


class Population:
    """weights: by operation; start: sizes of the objects that are there; most: at a time; place: of a number, the index
    of where it lies; key: its whole name there; folder: what these begin with, by place."""

    def __init__(
        self,
        weights: dict[str, float],
        sizes: Sizes,
        start: Sequence[int],
        most: int,
        place: Callable[[int], int],
        key: Callable[[int], str],
        folder: Sequence[str],
        rng: random.Random,
    ):
        self.ops = [op.upper() for op, share in weights.items() if share]
        self.deck = Deck([share for share in weights.values() if share], rng)
        self.sizes, self.rng, self.place, self.key, self.folder = sizes, rng, place, key, folder
        self.lock = threading.Lock()
        self.slots = [Object() for _ in range(most)]
        self.ready: list[int] = []
        self.where: dict[int, int] = {}
        self.left: list[int] = []  # numbers that failed operations left: they may be there
        self.doubted: set[int] = set()
        self.next = self.first = len(start)
        self.stamp = self.listing = self.turn = self.overwritten = self.pages = self.keys = 0
        self.deleted: list[int] = []  # while listings are in flight
        for n, size in enumerate(start):
            self.slots[n] = Object(n, size)
            self.where[n] = n
            self._restore(n)
        self.empty = list(range(most - 1, self.next - 1, -1))

    def _restore(self, slot: int) -> None:
        self.slots[slot].at = len(self.ready)
        self.ready.append(slot)

    def _hold(self, slot: int) -> None:
        at, last = self.slots[slot].at, self.ready.pop()
        if last != slot:
            self.ready[at], self.slots[last].at = last, at
        self.slots[slot].at = -1

    def _idle(self) -> int:
        """A slot that nobody reads; -1: none."""
        for _ in range(min(16, len(self.ready))):
            if not self.slots[slot := self.rng.choice(self.ready)].readers:
                return slot
        return next((slot for slot in self.ready if not self.slots[slot].readers), -1)

    def give(self) -> Given | None:
        """The next operation; None: none is possible now."""
        with self.lock:
            found: list[Given] = []

            def possible(kind: int) -> bool:
                given = self._give(self.ops[kind])
                found[:] = [given] if given else []
                return given is not None

            return found[0] if self.deck.deal(possible) is not None else None

    def _give(self, op: str) -> Given | None:
        if op == "PUT":
            return self._give_put()
        if op == "LIST":
            return self._give_list()
        if op == "DELETE":
            if self.left:
                number = self.left.pop(0)
                return Given(op, number, place=self.place(number))
            if (slot := self._idle()) < 0:
                return None
            self._hold(slot)
        else:
            if not self.ready:
                return None
            slot = self.rng.choice(self.ready)
            self.slots[slot].readers += 1
        o = self.slots[slot]
        return Given(op, o.number, slot, o.version, o.size, self.place(o.number))

    def _give_put(self) -> Given | None:
        """A new name where there is room, else an object that is overwritten."""
        if self.empty:
            slot = self.empty.pop()
            if over := len(self.left) >= len(self.slots):  # so that no more than twice as many are ever there
                number = self.left.pop(0)
            else:
                number, self.next = self.next, self.next + 1
            self.slots[slot] = Object(number)
            self.where[number] = slot
        else:
            if (slot := self._idle()) < 0:
                return None
            self._hold(slot)
            self.slots[slot].version += 1
            number, over = self.slots[slot].number, True
        self.overwritten += over
        return Given("PUT", number, slot, self.slots[slot].version, self.sizes.draw(self.rng), self.place(number))

    def _give_list(self) -> Given:
        place, after = self.turn % len(self.folder), ""
        self.turn += 1
        if self.ready and (n := self.slots[self.rng.choice(self.ready)].number):
            after = f"{self.folder[place]}{n - 1:08d}"
        self.stamp += 1
        self.listing += 1
        return Given("LIST", place=place, after=after, since=self.stamp, mark=len(self.deleted))

    def done(self, given: Given, failed: bool) -> None:
        """Take over what became of an operation."""
        with self.lock:
            self.stamp += 1
            if given.op in ("GET", "HEAD"):
                self.slots[given.slot].readers -= 1
            elif given.op == "LIST":
                self.listing -= 1
                if not self.listing:
                    self.deleted = []
            elif failed:
                self._vacate(given)
                self.left.append(given.number)
                if len(self.doubted) < MOST_DOUBTED:
                    self.doubted.add(given.number)
            elif given.op == "PUT":
                self.slots[given.slot].size, self.slots[given.slot].since = given.size, self.stamp
                self._restore(given.slot)
            else:
                if self.listing:
                    self.deleted.append(given.number)
                self._vacate(given)

    def _vacate(self, given: Given) -> None:
        if given.slot >= 0:
            del self.where[given.number]
            self.empty.append(given.slot)

    def holds(self, given: Given, page: Iterable[tuple[str, int]], more: bool) -> None:
        """Hold a page against what is there: all keys of the folder behind `given.after`, or the first of them if there
        are more. Raises WrongListing."""
        with self.lock:
            last, seen = given.after, set()
            for key, size in page:
                self.keys += 1
                n = self._number(given, key)
                if n is None or key <= given.after:
                    raise WrongListing("KeyForeign", f"{key[:200]!r} was never put there")
                if key == last:
                    raise WrongListing("KeyDoubled", f"{key!r} came twice")
                if key < last:
                    raise WrongListing("KeyOrder", f"{key!r} came after a later key")
                last = key
                seen.add(n)
                self._as_known(given, n, key, size)
            self.pages += 1
            for slot in self.ready:
                o = self.slots[slot]
                if o.number in seen or not self._untouched(o, given) or self.place(o.number) != given.place:
                    continue
                if (key := self.key(o.number)) > given.after and (not more or key < last) and self.next < 10**8:
                    raise WrongListing("KeyMissing", f"{key!r} did not come")

    def _as_known(self, given: Given, n: int, key: str, size: int) -> None:
        slot = self.where.get(n)
        if slot is not None:
            o = self.slots[slot]
            if self._untouched(o, given) and o.size != size:
                raise WrongListing("KeySize", f"{key!r} has {size} B instead of {o.size} B")
        elif n not in self.doubted and len(self.doubted) < MOST_DOUBTED and n not in self.deleted[given.mark :]:
            raise WrongListing("KeyDeleted", f"{key!r} was deleted before the listing began")

    def _untouched(self, o: Object, given: Given) -> bool:
        """Whether the object is what it was before the listing began."""
        return o.at >= 0 and o.since < given.since

    def _number(self, given: Given, key: str) -> int | None:
        """The number of a key in the folder that is listed; None: it is none that was given out."""
        folder = self.folder[given.place]
        text = key[len(folder) :]
        if not key.startswith(folder) or not (text.isascii() and text.isdigit()) or len(text) > 12:
            return None
        n = int(text)
        return n if n < self.next and self.place(n) == given.place and self.key(n) == key else None

    def told(self) -> dict[str, Any]:
        """What a mix tells at its end, as loadgen does."""
        lost = {op: n for op, n in zip(self.ops, self.deck.lost, strict=True) if n}
        return {
            "there": len(self.ready),
            "left": len(self.left),
            "new": self.next - self.first,
            "overwritten": self.overwritten,
            "lost": lost,
        }

"""Name, share and draw the objects that clients upload, read and delete, for every engine."""

import math
import random
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from storelab.core import units
from storelab.core.model import Point, derive_seed
from storelab.core.records import read_json
from storelab.datasets import payload
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket

PUT_PREFIX = "put/"  # prefix, below the bucket's prefix, of everything that points upload
ROUND = 1000  # number of cards that are shuffled together
# Limits that do not apply to a mix, because the total size of its objects is bounded.
NO_SPACE_LIMITS = {"room_bytes": None, "disk_bytes": None}
WAITING = 100  # maximum number of cards that wait until their operation is possible


def put_prefix(attempt: str) -> str:
    """Return the prefix of all keys that an attempt uploads, relative to the bucket's prefix."""
    return f"{PUT_PREFIX}{attempt}/"


def put_folder(attempt: str, client: int) -> str:
    """Return the prefix of all keys that a client uploads, relative to the bucket's prefix."""
    return f"{PUT_PREFIX}{attempt}/{client}/"


def put_key(attempt: str, client: int, n: int) -> str:
    """Return the key of a client's `n`-th upload, relative to the bucket's prefix.

    The content of the object is body n mod `payload.BODIES`.
    """
    return f"{put_folder(attempt, client)}{n:08d}"


def put_keys(attempt: str) -> str:
    """Return a regular expression that matches all results of `put_key` for an attempt."""
    return rf"{re.escape(put_prefix(attempt))}(?P<client>0|[1-9]\d*)/(?:\d{{8}}|[1-9]\d{{8,}})"


class Staged(NamedTuple):
    """A staged object.

    Attributes
    ----------
    number
        Index of its bucket in the job.
    place
        The bucket.
    name
        Key, relative to the bucket's prefix.
    body
        Index of the payload body that it contains.
    """

    number: int
    place: Bucket
    name: str
    body: int

    @property
    def key(self) -> str:
        """Return the complete key in the bucket."""
        return self.place.prefix + self.name


def read_once(job: Job) -> bool:
    """Return True if each object is read only once, by one client."""
    return job.point.axes.get("access") in ("once", "cold")


def staged_objects(job: Job) -> tuple[dict[str, Any], list[Staged]]:
    """Return the manifest, and the objects that this client reads, from buckets of its accounts.

    If each object is read only once, the client gets its share of them, drawn by the point's seed.
    """
    manifest = read_json(job.manifest)
    columns, places = manifest["objects"], job.buckets
    rows = zip(columns["bucket"], columns["key"], columns["body"], strict=True)
    staged = [Staged(b, places[b], name, body) for b, name, body in rows if job.owns(places[b])]
    if not read_once(job):
        return manifest, staged
    accounts = 1 + max(b.account for b in places)  # client i uses account i mod n
    sharers = len(range(job.account, job.point.axes["clients"], accounts))
    random.Random(derive_seed(job.point.seed, job.account, "once")).shuffle(staged)
    return manifest, staged[job.client // accounts :: sharers]


def key_folders(job: Job) -> list[tuple[int, str]]:
    """Return the bucket's index and the complete prefix of the staged keys, for each bucket of the client's accounts.

    Each client begins with a different bucket.
    """
    dataset = read_json(job.manifest)["dataset"]
    folders = [(i, b.prefix + payload.keys_folder(dataset)) for i, b in enumerate(job.buckets) if job.owns(b)]
    first = job.client % len(folders)
    return folders[first:] + folders[:first]


def job_columns(staged: list[Staged]) -> dict[str, list[Any]]:
    """Return the objects as columns in the job format of loadgen."""
    return {"key": [o.key for o in staged], "bucket": [o.number for o in staged], "body": [o.body for o in staged]}


def deletions(job: Job, batch: int) -> list[tuple[int, tuple[str, ...]]]:
    """Return the bucket's index and the complete keys of each deletion request, ordered by the point's seed.

    Each request has at most `batch` keys.
    """
    keys_by_bucket: dict[int, list[str]] = {}
    for bucket, name in job.extra["objects"][job.client]:
        keys_by_bucket.setdefault(bucket, []).append(job.buckets[bucket].prefix + name)
    pieces = [
        (b, tuple(names[i : i + batch])) for b, names in keys_by_bucket.items() for i in range(0, len(names), batch)
    ]
    random.Random(derive_seed(job.point.seed, job.client)).shuffle(pieces)
    return pieces


def range_begins(offset: str, size: int, length: int, rng: random.Random) -> Iterator[int]:
    """Yield the offsets in bytes of the ranges of `length` bytes to read from one object of `size` bytes.

    offset: value of the axis, see `workloads/objects.py`. `sequential` yields all complete ranges of the object, from
    its start to its end.
    """
    if offset == "random":
        yield rng.randrange(size - length + 1)
    elif offset == "sequential":
        yield from range(0, size - length + 1, length)
    else:
        yield fixed_offset(offset)


def fixed_offset(offset: str) -> int:
    """Return the offset in bytes for a value of the axis; 0 for `random` and `sequential`."""
    return 0 if offset in ("random", "sequential") else units.parse(offset, "size", "offset")


class Sizes:
    """A generator of object sizes, from the distribution that a point contains (`fixed["sizes"]`)."""

    def __init__(self, distribution: Mapping[str, Any]):
        self.distribution = distribution
        self.below = list(accumulate(distribution.get("count", ())))
        self.mu = math.log(distribution["mean"]) - distribution["sigma"] ** 2 / 2 if "mean" in distribution else 0.0

    def draw(self, rng: random.Random) -> int:
        """Draw a size in bytes."""
        distribution = self.distribution
        if "fixed" in distribution:
            return int(distribution["fixed"])
        if "size" in distribution:
            return int(distribution["size"][bisect_right(self.below, rng.random() * self.below[-1])])
        while True:  # the mean is between the bounds, so this loop ends soon
            size = round(math.exp(rng.gauss(self.mu, distribution["sigma"])))
            if distribution["least"] <= size <= distribution["most"]:
                return size


class Deck:
    """A deck of cards, each of which is an operation. Each operation has its share of the cards.

    Every round has a thousand cards in random order. Fractions of a card are carried over to the next round.
    """

    def __init__(self, shares: Sequence[float], rng: random.Random):
        self.shares, self.rng = [s / sum(shares) for s in shares], rng
        self.owed = [0.0] * len(shares)
        self.lost = [0] * len(shares)  # number of dropped cards, which waited too long
        self.cards: list[int] = []  # the last card is dealt first

    def fill(self) -> None:
        """Add another round to the bottom of the deck."""
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
        """Return the next card whose operation is possible, or None if there is none.

        Up to WAITING skipped cards are dealt later.
        """
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
    """Return a client's share of `objects`: the number of its objects at the start, and the maximum number later."""
    objects, clients = point.fixed["objects"], point.axes["clients"]
    return int(objects // clients + (client < objects % clients))


def sizes_at_start(point: Point, client: int) -> list[int]:
    """Return the sizes in bytes of the client's objects that exist before it begins. They have the numbers 0, 1, …."""
    sizes, rng = Sizes(point.fixed["sizes"]), random.Random(derive_seed(point.seed, "start", client))
    return [sizes.draw(rng) for _ in range(objects_at_a_time(point, client))]

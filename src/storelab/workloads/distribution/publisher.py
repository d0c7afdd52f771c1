"""Publishing of one day: data, catalogs, reflog, manifest, in this order; each group is there before the next begins.

Until the manifest is put, the repository is that of the last whole day; what is done again finds what is there. A day
that failed is owed: the next day's publication sends what is missing of it, too. May import: `stratum`, `datasets`,
`core`.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from storelab.datasets.release import names
from storelab.datasets.release.build import Day, Item
from storelab.workloads.distribution.stratum import Stratum, spread

DATA = ("data", "chunk")
CATALOG, REFLOG, MANIFEST = "catalog", "reflog", "manifest"


def groups(days: Sequence[Day]) -> Iterator[Iterable[tuple[Day, Item]]]:
    """What is sent for these days, the newest last: data, catalogs but the newest root, this root, reflog, manifest.
    Reflog and manifest are those of the newest day alone."""
    newest = days[-1]

    def of(*kinds: str) -> Iterator[tuple[Day, Item]]:
        return ((day, item) for day in days for item in day.objects() if item.kind in kinds)

    def root(day: Day, item: Item) -> bool:
        return day is newest and newest.facts["root_catalog"] == _digest(item.key)

    yield of(*DATA)
    yield ((day, item) for day, item in of(CATALOG) if not root(day, item))
    yield ((day, item) for day, item in of(CATALOG) if root(day, item))
    for kind in (REFLOG, MANIFEST):
        yield ((newest, item) for item in newest.objects() if item.kind == kind)


def _digest(key: str) -> str:
    return (names.parts(key) or ("", ""))[0]


def publish(stratum: Stratum, days: Sequence[Day], workers: int) -> int:
    """Send these days, the newest last; returns the number of objects that they have. Raises Failed, OutOfTime: the
    manifest in the store is then still that of the last day that was published."""
    counted = itertools.count()

    def send(what: tuple[Day, Item], worker: int) -> None:
        day, item = what
        next(counted)
        stratum.put(item.key, day.path(item).read_bytes(), worker, always=item.kind in (REFLOG, MANIFEST))

    for group in groups(days):
        spread(group, send, workers)
    return next(counted)

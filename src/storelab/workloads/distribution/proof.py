"""Prove that a repository in a stratum is complete, and that a garbage collection was correct.

Every catalog and object that the manifest of a stratum needs is read again, and compared with its name. After a
collection, all live objects are read again. No dead object may exist, both immediately and some time later.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from storelab.datasets.release import catalogs, names
from storelab.engines.contract import Check
from storelab.stores.protocols.access import Access
from storelab.stores.protocols.endpoint import Bucket

THREADS, BLOCK = 8, 200  # number of readers, and number of keys that a reader takes at a time
MAX_SHOWN = 3
LATER_S = 10.0  # time until the second check for dead objects
# maximum number of dead objects that are requested individually, evenly distributed; all are looked up in a listing
MAX_REQUESTED = 5000


def reader(access: Access, bucket: Bucket, prefix: str) -> catalogs.Fetch:
    """Return a function that reads objects by their key. It raises FileNotFoundError if an object is missing."""

    def fetch(key: str) -> bytes:
        data = access.read(bucket.name, bucket.prefix + prefix + key)
        if data is None:
            raise FileNotFoundError(key)
        return data

    return fetch


def stratum(name: str, fetch: catalogs.Fetch, repository: str, day: int, sent: Iterable[str] = ()) -> dict[str, Any]:
    """Return the check of one stratum, as fields of `contract.Check`.

    day: the last day that was published to the stratum, or 0; sent: acknowledged keys, which are all read.
    """
    title = f"{name} whole"
    if not day:
        return asdict(Check(title, True, "no day was published"))
    try:
        fields = names.manifest_fields(fetch(f"{repository}/{names.MANIFEST}"))
        needed = dict.fromkeys(
            [*catalogs.references(fields["C"], fetch, repository), *names.further_objects(repository, fields)]
        )
    except (LookupError, OSError, ValueError) as error:
        return asdict(Check(title, False, f"{type(error).__name__}: {error}"))
    every = list(
        needed | dict.fromkeys(sent) | {f"{repository}/{last}": None for last in (names.REFLOG, names.MANIFEST)}
    )
    problems = list(verified(fetch, every))
    if int(fields["S"]) != day:
        problems.insert(0, f"the manifest names day {fields['S']} instead of the published day {day}")
    summary = f"{len(every)} objects read again, {len(needed)} of them named by the manifest of day {fields['S']}"
    summary += f"; {len(problems)} problems: {'; '.join(problems[:MAX_SHOWN])}" if problems else ""
    return asdict(Check(title, not problems, summary))


def verified(fetch: catalogs.Fetch, keys: list[str]) -> Iterable[str]:
    """Yield the problems of all keys, found by several readers."""
    left = iter(keys)
    blocks = iter(lambda: list(islice(left, BLOCK)), [])
    with ThreadPoolExecutor(THREADS) as pool:
        for problems in pool.map(lambda block: list(catalogs.verify(fetch, block)), blocks):
            yield from problems


def last_day(rows: Mapping[str, list[Any]], number: int) -> int:
    """Return the last day of a stratum according to the rows of `days`, or 0 if there is none.

    For stratum 1, this is the last day that stratum 0 had when it was replicated.
    """
    zero = one = 0
    for stratum_, day, state in zip(rows["stratum"], rows["day"], rows["state"], strict=True):
        if state == "published" and stratum_ == 0:
            zero = day
        elif state == "published":
            one = zero
    return one if number else zero


@dataclass(frozen=True)
class Staged:
    """The uploaded days of a release.

    Attributes
    ----------
    objects
        Size in bytes of each uploaded key, without reflog and manifest.
    roots
        Root catalog of each day.
    alive
        Keys that the last `keep` days need.
    """

    objects: dict[str, int]
    roots: list[str]
    alive: frozenset[str]

    @property
    def dead(self) -> set[str]:
        return self.objects.keys() - self.alive


def look(
    staged: Staged,
    keep: int,
    repository: str,
    fetch: catalogs.Fetch,
    listed: Callable[[], Iterable[str]],
    later_s: float | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the counts for the record, and the checks as fields of `contract.Check`.

    `listed` returns all keys of the repository. The counts are:

    - alive, dead: number of live and dead objects;
    - read: objects that were read again, with reflog and manifest;
    - lost: missing or damaged objects among these;
    - lingering, left: dead objects that were listed or answered immediately afterwards, and some time later;
    - others: foreign objects in the repository.
    """
    dead = staged.dead
    root_keys = [f"{repository}/{name}" for name in (names.REFLOG, names.MANIFEST)]
    every = sorted(staged.alive)
    requested = sorted(dead)[:: max(1, -(-len(dead) // MAX_REQUESTED))]
    seen, strangers = _remaining_objects(dead, requested, fetch, staged.objects.keys() | {*root_keys}, listed)
    first = time.monotonic()
    problems = [*_wrong_ends(staged, keep, repository, fetch), *verified(fetch, [*every, *root_keys])]
    time.sleep(max(0.0, first + (LATER_S if later_s is None else later_s) - time.monotonic()))
    left, strangers_left = _remaining_objects(dead, requested, fetch, staged.objects.keys() | {*root_keys}, listed)
    counts = {
        "alive": len(every),
        "dead": len(dead),
        "dead_bytes": sum(staged.objects[key] for key in dead),
        "read": len(every) + len(root_keys),
        "asked": len(requested),
        "lost": len(problems),
        "lingering": len(seen),
        "left": len(left),
        "others": len(strangers | strangers_left),
    }
    summary = f"{counts['read']} objects read again, {len(problems)} problems"
    gone = f"{len(dead)} dead objects: {len(seen)} still there immediately afterwards, {len(left)} some time later"
    gone += f"; {counts['others']} foreign objects" if counts["others"] else ""
    return counts, [
        asdict(Check("all alive", not problems, _with(summary, problems))),
        asdict(Check("dead gone", not left and not counts["others"], _with(gone, sorted(left)))),
    ]


def _with(summary: str, examples: list[str]) -> str:
    return f"{summary}: {'; '.join(examples[:MAX_SHOWN])}" if examples else summary


def _remaining_objects(
    dead: set[str], requested: list[str], fetch: catalogs.Fetch, known: set[str], listed: Callable[[], Iterable[str]]
) -> tuple[set[str], set[str]]:
    """Return the dead objects that are listed or can be read, and the listed keys that are unknown."""
    keys = set(listed())

    def answers(key: str) -> bool:
        try:
            fetch(key)
        except (LookupError, FileNotFoundError):
            return False
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        answered = {key for key, there in zip(requested, pool.map(answers, requested), strict=True) if there}
    return (keys & dead) | answered, keys - known


def _wrong_ends(staged: Staged, keep: int, repository: str, fetch: catalogs.Fetch) -> Iterable[str]:
    """Yield the problems of manifest and reflog: they must name the last day, and the days that are kept."""
    try:
        fields = names.manifest_fields(fetch(f"{repository}/{names.MANIFEST}"))
        roots = catalogs.reflog_roots(fetch(f"{repository}/{names.REFLOG}"))
    except (LookupError, OSError, ValueError) as error:
        yield f"manifest or reflog: {error}"
        return
    if fields["C"] != staged.roots[-1]:
        yield f"the manifest names the root {fields['C']}, the last day has {staged.roots[-1]}"
    if roots != staged.roots[-keep:]:
        yield f"the reflog names {len(roots)} roots, not just the {keep} that are kept"

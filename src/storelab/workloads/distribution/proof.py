"""Proofs of a repository: of a stratum, and of a collection of garbage.

Every catalog and object that the manifest of a stratum needs is read again, and compared with its name. After a
collection, all that was alive before is read again, and of the dead nothing is left, then and a while later.
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

THREADS, BLOCK = 8, 200  # readers; keys that each takes at a time
MOST_SHOWN = 3
LATER_S = 10.0  # until the dead are looked for once more
MOST_ASKED = 5000  # dead objects that are asked for one by one, spread evenly over their names; all are listed


def reader(access: Access, bucket: Bucket, prefix: str) -> catalogs.Fetch:
    """Reads objects of a repository by key. It raises FileNotFoundError for one that is not there."""

    def fetch(key: str) -> bytes:
        data = access.read(bucket.name, bucket.prefix + prefix + key)
        if data is None:
            raise FileNotFoundError(key)
        return data

    return fetch


def stratum(name: str, fetch: catalogs.Fetch, repository: str, day: int, sent: Iterable[str] = ()) -> dict[str, Any]:
    """The check of one stratum, as fields of `contract.Check`. day: the last one that was published to it, 0 for none;
    sent: keys that were acknowledged, all of which are read too."""
    title = f"{name} whole"
    if not day:
        return asdict(Check(title, True, "no day was published"))
    try:
        fields = names.manifest_fields(fetch(f"{repository}/{names.MANIFEST}"))
        needed = dict.fromkeys(
            [*catalogs.references(fields["C"], fetch, repository), *names.beside(repository, fields)]
        )
    except (LookupError, OSError, ValueError) as error:
        return asdict(Check(title, False, f"{type(error).__name__}: {error}"))
    every = list(
        needed | dict.fromkeys(sent) | {f"{repository}/{last}": None for last in (names.REFLOG, names.MANIFEST)}
    )
    problems = list(verified(fetch, every))
    if int(fields["S"]) != day:
        problems.insert(0, f"the manifest names day {fields['S']}, published was day {day}")
    told = f"{len(every)} objects read again, {len(needed)} of them named by the manifest of day {fields['S']}"
    told += f"; {len(problems)} problems: {'; '.join(problems[:MOST_SHOWN])}" if problems else ""
    return asdict(Check(title, not problems, told))


def verified(fetch: catalogs.Fetch, keys: list[str]) -> Iterable[str]:
    """The problems of all keys, by several readers."""
    left = iter(keys)
    blocks = iter(lambda: list(islice(left, BLOCK)), [])
    with ThreadPoolExecutor(THREADS) as pool:
        for problems in pool.map(lambda block: list(catalogs.verify(fetch, block)), blocks):
            yield from problems


def last_day(rows: Mapping[str, list[Any]], number: int) -> int:
    """The last day that a stratum has by the rows of `days`; 0 for none. What was replicated is the last day that
    stratum 0 had then."""
    zero = one = 0
    for stratum_, day, state in zip(rows["stratum"], rows["day"], rows["state"], strict=True):
        if state == "published" and stratum_ == 0:
            zero = day
        elif state == "published":
            one = zero
    return one if number else zero


@dataclass(frozen=True)
class Staged:
    """objects: key -> bytes of all that was uploaded, without reflog and manifest; roots: root catalog of each day;
    alive: keys that the last days need, as many as were asked for."""

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
    """(counts for the record, checks as fields of `contract.Check`). listed: keys of all objects of the repository.

    alive, dead: objects; read: those that were read again, reflog and manifest too; lost: of these, missing or damaged;
    lingering, left: dead ones that were listed or answered right afterwards, and a while later; others: objects in the
    repository that nobody put there.
    """
    dead = staged.dead
    own = [f"{repository}/{name}" for name in (names.REFLOG, names.MANIFEST)]
    every = sorted(staged.alive)
    asked = sorted(dead)[:: max(1, -(-len(dead) // MOST_ASKED))]
    seen, strangers = _there(dead, asked, fetch, staged.objects.keys() | {*own}, listed)
    first = time.monotonic()
    problems = [*_wrong_ends(staged, keep, repository, fetch), *verified(fetch, [*every, *own])]
    time.sleep(max(0.0, first + (LATER_S if later_s is None else later_s) - time.monotonic()))
    left, strangers_left = _there(dead, asked, fetch, staged.objects.keys() | {*own}, listed)
    counts = {
        "alive": len(every),
        "dead": len(dead),
        "dead_bytes": sum(staged.objects[key] for key in dead),
        "read": len(every) + len(own),
        "asked": len(asked),
        "lost": len(problems),
        "lingering": len(seen),
        "left": len(left),
        "others": len(strangers | strangers_left),
    }
    told = f"{counts['read']} objects read again, {len(problems)} problems"
    gone = f"{len(dead)} dead objects: {len(seen)} still there right afterwards, {len(left)} a while later"
    gone += f"; {counts['others']} objects that nobody put there" if counts["others"] else ""
    return counts, [
        asdict(Check("all alive", not problems, _with(told, problems))),
        asdict(Check("dead gone", not left and not counts["others"], _with(gone, sorted(left)))),
    ]


def _with(told: str, examples: list[str]) -> str:
    return f"{told}: {'; '.join(examples[:MOST_SHOWN])}" if examples else told


def _there(
    dead: set[str], asked: list[str], fetch: catalogs.Fetch, known: set[str], listed: Callable[[], Iterable[str]]
) -> tuple[set[str], set[str]]:
    """(dead ones that are listed or answer, keys that are listed and not known)."""
    keys = set(listed())

    def answers(key: str) -> bool:
        try:
            fetch(key)
        except (LookupError, FileNotFoundError):
            return False
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        answered = {key for key, there in zip(asked, pool.map(answers, asked), strict=True) if there}
    return (keys & dead) | answered, keys - known


def _wrong_ends(staged: Staged, keep: int, repository: str, fetch: catalogs.Fetch) -> Iterable[str]:
    """What is wrong with manifest and reflog: the last day, and the days that are kept."""
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

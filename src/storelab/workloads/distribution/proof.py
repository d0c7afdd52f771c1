"""Proof of a stratum: every catalog and object that its manifest needs is read again, and compared with its name.

May import: `stores`, `datasets`, `core`.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice
from typing import Any

from storelab.datasets.release import catalogs, names
from storelab.engines.contract import Check
from storelab.stores.protocols.access import Access
from storelab.stores.protocols.endpoint import Bucket

THREADS, BLOCK = 8, 200  # readers; keys that each takes at a time
MOST_SHOWN = 3


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

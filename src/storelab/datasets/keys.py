"""Folders of many small objects, whose names follow from their number: what `list` lists. Pure.

Key n of a folder is n, in as many digits as the last one has; `depth` levels of folders lie before it, each named after
the next digit: `4/2/427`. So the order of the names is that of the numbers, and nobody has to keep a million of them.
May import: nothing of storelab.
"""

from collections.abc import Iterable, Mapping
from typing import Any

MOST = 10**6  # keys of a folder


def digits(keys: int) -> int:
    """Digits in the name of each key."""
    return len(str(keys - 1))


def name(keys: int, depth: int, n: int) -> str:
    """Key n below its folder."""
    text = f"{n:0{digits(keys)}d}"
    return "".join(f"{digit}/" for digit in text[:depth]) + text


def number(keys: int, depth: int, key: str) -> int | None:
    """The number of a key below its folder; None: it is none of the folder's."""
    last = key.rpartition("/")[2]
    known = last.isascii() and last.isdigit() and len(last) <= digits(keys) and int(last) < keys
    return int(last) if known and name(keys, depth, int(last)) == key else None


def folder(dataset: Mapping[str, Any]) -> str:
    """The folder of a data set in each of its buckets, below the bucket's prefix. Beside it, not in it, lies the proof
    that it is staged."""
    return f"data/{dataset['name']}/keys/"


class WrongListing(Exception):
    """A listing that is not that of the folder. kind: class of the error, as loadgen names it."""

    def __init__(self, kind: str, words: str):
        super().__init__(words)
        self.kind = kind


def check(prefix: str, keys: int, depth: int, size: int, listed: Iterable[tuple[str, int]]) -> None:
    """Hold a listing, (whole key, bytes) as they come, against the folder `prefix` of `keys` objects of `size` bytes.

    Raises WrongListing at once for a key that is foreign, comes twice or has another size; at the end where keys are
    missing or came out of order.
    """
    due, seen, late = 0, 0, ""
    absent: set[int] = set()  # numbers that were passed over
    for key, told in listed:
        n = number(keys, depth, key[len(prefix) :]) if key.startswith(prefix) else None
        if n is None:
            raise WrongListing("KeyForeign", f"{key[:200]!r} is not a key of the folder")
        if n < due and n not in absent:
            raise WrongListing("KeyDoubled", f"{key!r} came twice")
        if told != size:
            raise WrongListing("KeySize", f"{key!r} has {told} B instead of {size} B")
        if n < due:
            absent.discard(n)
            late = late or key
        absent.update(range(due, n))
        due, seen = max(due, n + 1), seen + 1
    if seen < keys:
        first = prefix + name(keys, depth, min(absent, default=due))
        raise WrongListing("KeyMissing", f"{keys - seen} of {keys} keys did not come, {first!r} first")
    if late:
        raise WrongListing("KeyOrder", f"{late!r} came after a later key")

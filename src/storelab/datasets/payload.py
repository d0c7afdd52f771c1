"""Data sets for the workloads on objects: incompressible objects, and folders with many small objects.

The content of object i is body number i mod BODIES. A body is the byte stream of PCG64, seeded with (seed, size, number
of the body).

The workload `list` lists a folder of many keys. The name of key n is the number n, padded with zeros to the length of
the last one. It is preceded by `depth` levels of folders, each named after the next digit: `4/2/427`. Therefore the
names sort like the numbers, and checks need no list of names. May import: `core`.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from storelab.core import folders
from storelab.core.model import derive_seed

BODIES = 4
_CHUNK = 16 * 2**20
MAX_KEYS = 10**6  # maximum number of keys in a folder


def body_files(scratch: Path, seed: int, size: int) -> list[Path]:
    """Return the paths of the BODIES files of `size` bytes. Make them if they are missing.

    All clients of a host use them.
    """
    folder = scratch / "bodies"
    folders.private(folder, "scratch")
    paths = [folder / f"{seed}-{size}-{i}" for i in range(BODIES)]
    if all(p.exists() for p in paths):
        return paths
    import numpy as np

    with folders.lock_file(folder / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for i, path in enumerate(paths):
            if path.exists():
                continue
            rng = np.random.Generator(np.random.PCG64(derive_seed(seed, size, i)))
            temporary = path.with_suffix(".tmp")
            with open(temporary, "wb") as f:
                for begin in range(0, size, _CHUNK):
                    f.write(rng.bytes(min(_CHUNK, size - begin)))
            os.replace(temporary, path)
    return paths


def body_sums(paths: list[Path]) -> list[dict[str, Any]]:
    """Return the size in bytes and the SHA-256 of each body file."""
    out = []
    for path in paths:
        with open(path, "rb") as f:
            out.append({"size": path.stat().st_size, "sha256": hashlib.file_digest(f, "sha256").hexdigest()})
    return out


def objects(dataset: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of the manifest, shape (n,): key without the bucket's prefix, bucket index, body index."""
    n, buckets = dataset["objects"], dataset["buckets"]
    return {
        "key": [f"data/{dataset['name']}/{i:07d}" for i in range(n)],
        "bucket": [i % buckets for i in range(n)],
        "body": [i % BODIES for i in range(n)],
    }


def key_digits(keys: int) -> int:
    """Return the number of digits in the names of `keys` keys."""
    return len(str(keys - 1))


def key_name(keys: int, depth: int, n: int) -> str:
    """Return the name of key n, relative to its folder."""
    text = f"{n:0{key_digits(keys)}d}"
    return "".join(f"{digit}/" for digit in text[:depth]) + text


def key_number(keys: int, depth: int, key: str) -> int | None:
    """Return the number of a key, given relative to its folder; None if it is not a key of the folder."""
    last = key.rpartition("/")[2]
    known = last.isascii() and last.isdigit() and len(last) <= key_digits(keys) and int(last) < keys
    return int(last) if known and key_name(keys, depth, int(last)) == key else None


def keys_folder(dataset: Mapping[str, Any]) -> str:
    """Return the folder of a data set in each of its buckets, relative to the bucket's prefix.

    The object that marks the data set as staged is next to the folder, not in it.
    """
    return f"data/{dataset['name']}/keys/"


class WrongListing(Exception):
    """A listing does not match the folder. kind: error class in records; loadgen uses the same names."""

    def __init__(self, kind: str, words: str):
        super().__init__(words)
        self.kind = kind


def check_listing(prefix: str, keys: int, depth: int, size: int, listed: Iterable[tuple[str, int]]) -> None:
    """Compare a listing, an iterable of (key, bytes), with the folder `prefix` of `keys` objects of `size` bytes.

    Raise WrongListing at the first key that is unknown, repeated or has another size, and at the end if keys are
    missing or not in order.
    """
    due, seen, late = 0, 0, ""
    absent: set[int] = set()  # numbers that were missing so far
    for key, listed_size in listed:
        n = key_number(keys, depth, key[len(prefix) :]) if key.startswith(prefix) else None
        if n is None:
            raise WrongListing("KeyForeign", f"{key[:200]!r} is not a key of the folder")
        if n < due and n not in absent:
            raise WrongListing("KeyDoubled", f"{key!r} is listed twice")
        if listed_size != size:
            raise WrongListing("KeySize", f"{key!r} has {listed_size} B instead of {size} B")
        if n < due:
            absent.discard(n)
            late = late or key
        absent.update(range(due, n))
        due, seen = max(due, n + 1), seen + 1
    if seen < keys:
        first = prefix + key_name(keys, depth, min(absent, default=due))
        raise WrongListing("KeyMissing", f"{keys - seen} of {keys} keys are missing, the first is {first!r}")
    if late:
        raise WrongListing("KeyOrder", f"{late!r} is listed after a later key")

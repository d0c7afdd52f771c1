"""Reads a repository again: what a root catalog needs, what a reflog names, and whether all of it is whole.

Everything comes from a function `fetch(key) -> bytes`, so that a store, a folder and a test are read alike.
May import: `catalogs`, `names`.
"""

import hashlib
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from storelab.datasets.release import catalogs, names

Fetch = Callable[[str], bytes]  # raises LookupError or OSError where the object is not there


def _never(_: str) -> bool:
    return False


@contextmanager
def opened(blob: bytes) -> Iterator[sqlite3.Connection]:
    """An SQLite file from memory. Raises sqlite3.DatabaseError where it is none."""
    db = sqlite3.connect(":memory:")
    try:
        if blob[:16] != b"SQLite format 3\0":
            raise sqlite3.DatabaseError("file is not a database")
        db.deserialize(blob)
        yield db
    finally:
        db.close()


def references(root: str, fetch: Fetch, repository: str, skip: Callable[[str], bool] = _never) -> Iterator[str]:
    """Keys of all that a root catalog needs: each catalog before what it names, its files and chunks, then the nested
    ones. A catalog is walked once; the key of a file may come again.

    skip: given the key of a catalog, True leaves it out with all below it. Raises what `fetch` raises, and ValueError
    for a catalog that is damaged.
    """
    waiting, seen = [root], {root}
    while waiting:
        digest = waiting.pop()
        key = names.key(repository, digest, names.CATALOG)
        if skip(key):
            continue
        yield key
        for named in contents(key, fetch(key), repository):
            if not is_catalog(named):
                yield named
            elif (of := _digest(named)) not in seen:
                seen.add(of)
                waiting.append(of)


def contents(key: str, blob: bytes, repository: str) -> Iterator[str]:
    """Keys that one catalog names: files and chunks, then nested catalogs. Raises ValueError for one that is damaged.
    It holds an SQLite file open: close it in the thread that reads it."""
    try:
        with opened(zlib.decompress(blob)) as db:
            for (digest,) in db.execute("SELECT hash FROM catalog WHERE hash IS NOT NULL AND length(hash) = 20"):
                yield names.key(repository, digest.hex())
            for (digest,) in db.execute("SELECT hash FROM chunks"):
                yield names.key(repository, digest.hex(), names.CHUNK)
            for (text,) in db.execute("SELECT sha1 FROM nested_catalogs ORDER BY path DESC"):
                yield names.key(repository, text, names.CATALOG)
    except (sqlite3.DatabaseError, zlib.error) as error:
        raise ValueError(f"{key}: the catalog is damaged ({error})") from None


def is_catalog(key: str) -> bool:
    """Whether a content-addressed key is that of a catalog: digests have no capitals."""
    return key.endswith(names.CATALOG)


def _digest(key: str) -> str:
    return (names.parts(key) or ("", ""))[0]


def reflog_roots(blob: bytes) -> list[str]:
    """Root catalogs that a reflog names, the oldest first. Raises ValueError for a reflog that is damaged."""
    return [digest for digest, _ in _entries(blob)[1]]


def reflog_without(blob: bytes, gone: set[str]) -> bytes:
    """The reflog after these root catalogs were collected."""
    repository, entries = _entries(blob)
    return catalogs.reflog(repository, [entry for entry in entries if entry[0] not in gone])


def _entries(blob: bytes) -> tuple[str, list[tuple[str, int]]]:
    try:
        with opened(blob) as db:
            fqrn = db.execute("SELECT value FROM properties WHERE key = 'fqrn'").fetchone()
            rows = db.execute("SELECT hash, timestamp FROM refs WHERE type = ? ORDER BY timestamp, hash", (0,))
            return (fqrn[0] if fqrn else ""), rows.fetchall()
    except sqlite3.DatabaseError as error:
        raise ValueError(f"the reflog is damaged ({error})") from None


def verify(fetch: Fetch, keys: Iterable[str]) -> Iterator[str]:
    """A line for each object that is missing, is not what its name says, cannot be unpacked or opened."""
    for key in keys:
        try:
            blob = fetch(key)
        except (LookupError, OSError) as error:
            yield f"{key}: missing ({type(error).__name__})"
            continue
        if problem := _problem(key, blob):
            yield f"{key}: {problem}"


def _problem(key: str, blob: bytes) -> str:
    found, last = names.parts(key), key.rpartition("/")[2]
    try:
        if last == names.MANIFEST:
            names.manifest_fields(blob)
        elif last == names.REFLOG:
            reflog_roots(blob)
        elif found is None:
            return "no key of a repository"
        elif hashlib.sha1(blob).hexdigest() != found[0]:
            return f"SHA-1 is {hashlib.sha1(blob).hexdigest()}"
        else:
            data = zlib.decompress(blob)
            return _unsound(data) if found[1] == names.CATALOG else ""
    except zlib.error:
        return "no zlib stream"
    except ValueError as error:
        return str(error)
    return ""


def _unsound(data: bytes) -> str:
    try:
        with opened(data) as db:
            said = db.execute("PRAGMA quick_check").fetchone()[0]
            for table in ("catalog", "nested_catalogs", "chunks"):
                db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
            return "" if said == "ok" else f"the catalog is damaged ({said})"
    except sqlite3.DatabaseError as error:
        return f"the catalog does not open ({error})"

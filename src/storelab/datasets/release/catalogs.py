"""Write and read catalogs (SQLite files that list the files of folders and their objects), and the reflog.

Tables, flags and path hashes follow CvmFS's schema 2.5 (https://github.com/cvmfs/cvmfs, `catalog_sql.cc`,
`reflog_sql.cc`), as far as replication, garbage collection and reading need them. The second half of the module reads a
repository: it lists the objects that a root catalog needs and the root catalogs in a reflog, and checks objects. A
function `fetch(key) -> bytes` reads them, from a store or a folder. May import: `names`, `state`, `nightly`.
"""

import hashlib
import json
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storelab.datasets.release import names
from storelab.datasets.release.nightly import DAY_S, EPOCH
from storelab.datasets.release.state import FILE, FOLDER, LINK, State

DIR, MOUNT, REGULAR, SYMLINK, NESTED_ROOT, CHUNKED = 1, 2, 4, 8, 32, 64  # flags of an entry
MARKER = b".cvmfscatalog"
COUNTED = ("regular", "symlink", "dir", "nested", "chunked", "chunks", "file_size", "chunked_size")
Write = Callable[[bytes, str], tuple[bytes, str, int]]  # interface of `objects.Writer.object`
_SCHEMA = """
CREATE TABLE catalog (md5path_1 INTEGER, md5path_2 INTEGER, parent_1 INTEGER, parent_2 INTEGER, hardlinks INTEGER,
  hash BLOB, size INTEGER, mode INTEGER, mtime INTEGER, mtimens INTEGER, flags INTEGER, name TEXT, symlink TEXT,
  uid INTEGER, gid INTEGER, xattr BLOB, CONSTRAINT pk_catalog PRIMARY KEY (md5path_1, md5path_2));
CREATE INDEX idx_catalog_parent ON catalog (parent_1, parent_2);
CREATE TABLE chunks (md5path_1 INTEGER, md5path_2 INTEGER, offset INTEGER, size INTEGER, hash BLOB,
  CONSTRAINT pk_chunks PRIMARY KEY (md5path_1, md5path_2, offset, size),
  FOREIGN KEY (md5path_1, md5path_2) REFERENCES catalog(md5path_1, md5path_2));
CREATE TABLE nested_catalogs (path TEXT, sha1 TEXT, size INTEGER, CONSTRAINT pk_nested_catalogs PRIMARY KEY (path));
CREATE TABLE bind_mountpoints (path TEXT, sha1 TEXT, size INTEGER, CONSTRAINT pk_bind_mountpoints PRIMARY KEY (path));
CREATE TABLE statistics (counter TEXT, value INTEGER, CONSTRAINT pk_statistics PRIMARY KEY (counter));
CREATE TABLE properties (key TEXT, value TEXT, CONSTRAINT pk_properties PRIMARY KEY (key));
"""
_REFLOG = """
CREATE TABLE refs (hash TEXT, type INTEGER, timestamp INTEGER, CONSTRAINT pk_refs PRIMARY KEY (hash));
CREATE TABLE properties (key TEXT, value TEXT, CONSTRAINT pk_properties PRIMARY KEY (key));
"""
CATALOG_ENTRY = 0  # type of a reflog's entry
Fetch = Callable[[str], bytes]  # raises LookupError or OSError if the object is missing


@dataclass
class Catalog:
    """A written catalog. counts: numbers of entries in this catalog and all catalogs below it."""

    path: bytes  # of the folder, relative to the night
    name: str = ""  # of the object
    bytes: int = 0  # of the object
    size: int = 0  # before compression
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))


def path_hash(path: bytes) -> tuple[int, int]:
    """Return the MD5 of a complete path as two integers, as stored in catalogs. The path of the root is empty."""
    return struct.unpack("<qq", hashlib.md5(path, usedforsecurity=False).digest())


def _above(path: bytes) -> tuple[int, int]:
    return path_hash(path.rpartition(b"/")[0]) if path else (0, 0)


def _folders(state: State) -> list[bytes]:
    """Return the folders of the night that have separate catalogs, subfolders first.

    The last one is the night itself.
    """
    depth, found = state.settings.catalog_depth, {b""}
    for (path,) in state.db.execute("SELECT path FROM night WHERE type = ?", (FOLDER,)):
        if path.count(b"/") < depth:
            found.add(path)
    marked = "SELECT path FROM night WHERE type = ? AND substr(path, ?) = ?"
    for (path,) in state.db.execute(marked, (FILE, -len(MARKER) - 1, b"/" + MARKER)):
        found.add(path.rpartition(b"/")[0])
    return sorted(found, key=lambda p: (-p.count(b"/") if p else 1, p))


def _rows(state: State, folder: bytes, nested: Iterable[bytes]) -> Iterator[tuple[Any, ...]]:
    """Yield the entries of the catalog of a folder: all entries below it, but not the content of `nested` folders."""
    text = "SELECT path, type, size, mode, mtime, hash, target FROM night WHERE path >= ? AND path < ? ORDER BY path"
    low = folder + b"/" if folder else b""
    for path in sorted(p + b"/" for p in nested):
        yield from state.db.execute(text, (low, path))
        low = path[:-1] + b"0"  # "0" is the character after the slash
    if folder:
        yield from state.db.execute(text, (low, folder + b"0"))
    else:
        yield from state.db.execute(text.replace(" AND path < ?", ""), (low,))


class Book:
    """An open catalog that is written to a file."""

    def __init__(self, file: Path, root: bytes, day: int):
        file.unlink(missing_ok=True)
        self.file, self.db = file, sqlite3.connect(file, isolation_level=None)
        for line in ("page_size=4096", "journal_mode=OFF", "synchronous=OFF", "cache_size=-32768"):
            self.db.execute(f"PRAGMA {line}")
        self.db.executescript(_SCHEMA)
        self.db.execute("BEGIN")
        self.counts = dict.fromkeys(COUNTED, 0)
        about = {
            "schema": "2.5",
            "schema_revision": "7",
            "revision": str(day),
            "last_modified": str(EPOCH + DAY_S * day),
        }
        if root:
            about["root_prefix"] = root.decode("utf-8", "replace")
        self.db.executemany("INSERT INTO properties VALUES (?, ?)", sorted(about.items()))

    def entry(
        self, path: bytes, flags: int, size: int, mode: int, mtime: int, digest: bytes | None, link: bytes
    ) -> None:
        """Add an entry. path: complete path, from the root of the repository."""
        values = (*path_hash(path), *_above(path), 1, digest, size, mode, mtime, 0, flags)
        self.db.execute(
            f"INSERT INTO catalog VALUES ({'?, ' * 11} CAST(? AS TEXT), CAST(? AS TEXT), 0, 0, NULL)",
            (*values, path.rpartition(b"/")[2], link),
        )
        counted = "regular" if flags & ~CHUNKED == REGULAR else "symlink" if flags & SYMLINK else "dir"
        self.counts[counted] += 1
        self.counts["file_size"] += size if counted == "regular" else 0

    def folder(self, path: bytes, flags: int, mode: int, mtime: int) -> None:
        self.entry(path, DIR | flags, 4096, 0o040000 | mode, mtime, None, b"")

    def chunks(self, path: bytes, parts: list[tuple[int, int, bytes]]) -> None:
        at = path_hash(path)
        self.db.executemany("INSERT INTO chunks VALUES (?, ?, ?, ?, ?)", ((*at, *part) for part in parts))
        self.counts["chunked"] += 1
        self.counts["chunks"] += len(parts)
        self.counts["chunked_size"] += sum(part[1] for part in parts)

    def nested(self, path: bytes, name: str, size: int) -> None:
        self.db.execute("INSERT INTO nested_catalogs VALUES (CAST(? AS TEXT), ?, ?)", (path, name[:40], size))
        self.counts["nested"] += 1

    def close(self, below: Iterable[dict[str, int]]) -> tuple[bytes, dict[str, int]]:
        """Close the catalog. Return its bytes, and the counts of entries in it and in the catalogs below it."""
        tree = {key: self.counts[key] + sum(counts[key] for counts in below) for key in COUNTED}
        rows = [(f"self_{k}", v) for k, v in self.counts.items()] + [(f"subtree_{k}", v) for k, v in tree.items()]
        self.db.executemany("INSERT INTO statistics VALUES (?, ?)", rows)
        self.db.execute("COMMIT")
        self.db.close()
        data = self.file.read_bytes()
        self.file.unlink()
        return data, tree


def _fill(book: Book, state: State, at: bytes, folder: bytes, nested: dict[bytes, Catalog]) -> None:
    for path, kind, size, mode, mtime, digest, target in _rows(state, folder, nested):
        whole = at + b"/" + path
        if kind == FOLDER:
            book.folder(whole, MOUNT if path in nested else 0, mode, mtime)
        elif kind == LINK:
            book.entry(whole, REGULAR | SYMLINK, size, 0o120000 | mode, mtime, None, target)
        elif digest is not None:
            book.entry(whole, REGULAR, size, 0o100000 | mode, mtime, digest, b"")
        else:
            parts = state.db.execute("SELECT offset, size, hash FROM parts WHERE path = ? ORDER BY offset", (path,))
            book.entry(whole, REGULAR | CHUNKED, size, 0o100000 | mode, mtime, None, b"")
            book.chunks(whole, parts.fetchall())


def night(state: State, day: int, name: bytes, file: Path, write: Write) -> Iterator[Catalog]:
    """Write the catalogs of a night, nested ones first, and yield each. The last one is the catalog of the night."""
    folders = _folders(state)
    folder_set, made = set(folders), {path: {} for path in folders}
    for folder in folders:
        at = b"/" + name
        book = Book(file, at + b"/" + folder if folder else at, day)
        row = state.db.execute("SELECT mode, mtime FROM night WHERE path = ?", (folder,)).fetchone()
        mode, mtime = row or (0o755, EPOCH + DAY_S * day)
        book.folder(at + b"/" + folder if folder else at, NESTED_ROOT, mode, mtime)
        nested: dict[bytes, Catalog] = made.pop(folder)
        _fill(book, state, at, folder, nested)
        for path, child in sorted(nested.items()):
            book.nested(at + b"/" + path, child.name, child.size)
        data, counts = book.close(child.counts for child in list(nested.values()))
        _, object_name, stored = write(data, names.CATALOG)
        catalog = Catalog(folder, object_name, stored, len(data), counts)
        if folder:
            above = folder.rpartition(b"/")[0]
            while above not in folder_set:
                above = above.rpartition(b"/")[0]
            made[above][folder] = catalog
        yield catalog


def root(nights: Iterable[tuple[bytes, str, int, str]], day: int, file: Path, write: Write) -> Catalog:
    """Write the root catalog, which nests the catalogs of these nights: (name, object, size, counts as JSON)."""
    kept = sorted(nights)
    book = Book(file, b"", day)
    book.folder(b"", 0, 0o755, EPOCH + DAY_S * day)
    for name, object_of_night, size, _ in kept:
        book.folder(b"/" + name, MOUNT, 0o755, EPOCH + DAY_S * day)
        book.nested(b"/" + name, object_of_night, size)
    data, counts = book.close([json.loads(text) for *_, text in kept])
    _, object_name, stored = write(data, names.CATALOG)
    return Catalog(b"", object_name, stored, len(data), counts)


def reflog(repository: str, roots: Iterable[tuple[str, int]]) -> bytes:
    """Return the bytes of a reflog that lists these root catalogs with their timestamps."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.executescript(_REFLOG)
    about = {"schema": "1.0", "schema_revision": "0", "fqrn": repository}
    db.executemany("INSERT INTO properties VALUES (?, ?)", sorted(about.items()))
    rows = ((digest, CATALOG_ENTRY, when) for digest, when in roots)
    db.executemany("INSERT OR IGNORE INTO refs VALUES (?, ?, ?)", rows)
    blob = db.serialize()
    db.close()
    return blob


@contextmanager
def opened(blob: bytes) -> Iterator[sqlite3.Connection]:
    """Open the bytes of an SQLite file in memory. Raise sqlite3.DatabaseError for other bytes."""
    db = sqlite3.connect(":memory:")
    try:
        if blob[:16] != b"SQLite format 3\0":
            raise sqlite3.DatabaseError("file is not a database")
        db.deserialize(blob)
        yield db
    finally:
        db.close()


def references(
    root: str, fetch: Fetch, repository: str, skip: Callable[[str], bool] = lambda _: False
) -> Iterator[str]:
    """Yield the keys of all objects that a root catalog needs.

    The order is: a catalog, its files and chunks, its nested catalogs. Each catalog is read once, but the key of a file
    can be repeated. skip: function of the key of a catalog; True skips this catalog and all below it. Raises the errors
    of `fetch`, and ValueError for a damaged catalog.
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
            elif (nested := _digest(named)) not in seen:
                seen.add(nested)
                waiting.append(nested)


def contents(key: str, blob: bytes, repository: str) -> Iterator[str]:
    """Yield the keys in one catalog: files and chunks, then nested catalogs. Raise ValueError if it is damaged.

    The generator has an open SQLite file. Close it in the thread that reads it.
    """
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
    """Return True if a key is that of a catalog, which ends with the suffix C."""
    return key.endswith(names.CATALOG)


def _digest(key: str) -> str:
    return (names.parts(key) or ("", ""))[0]


def reflog_roots(blob: bytes) -> list[str]:
    """Return the root catalogs in a reflog, the oldest first. Raise ValueError if the reflog is damaged."""
    return [digest for digest, _ in _entries(blob)[1]]


def reflog_without(blob: bytes, gone: set[str]) -> bytes:
    """Return a copy of the reflog without these root catalogs, which a garbage collection removed."""
    repository, entries = _entries(blob)
    return reflog(repository, [entry for entry in entries if entry[0] not in gone])


def _entries(blob: bytes) -> tuple[str, list[tuple[str, int]]]:
    try:
        with opened(blob) as db:
            fqrn = db.execute("SELECT value FROM properties WHERE key = 'fqrn'").fetchone()
            rows = db.execute("SELECT hash, timestamp FROM refs WHERE type = ? ORDER BY timestamp, hash", (0,))
            return (fqrn[0] if fqrn else ""), rows.fetchall()
    except sqlite3.DatabaseError as error:
        raise ValueError(f"the reflog is damaged ({error})") from None


def verify(fetch: Fetch, keys: Iterable[str]) -> Iterator[str]:
    """Yield a message for each object that is missing, has a wrong SHA-1, or cannot be unpacked or opened."""
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
            return "not a key of a repository"
        elif hashlib.sha1(blob).hexdigest() != found[0]:
            return f"SHA-1 is {hashlib.sha1(blob).hexdigest()}"
        else:
            data = zlib.decompress(blob)
            return _unsound(data) if found[1] == names.CATALOG else ""
    except zlib.error:
        return "not a zlib stream"
    except ValueError as error:
        return str(error)
    return ""


def _unsound(data: bytes) -> str:
    try:
        with opened(data) as db:
            result = db.execute("PRAGMA quick_check").fetchone()[0]
            for table in ("catalog", "nested_catalogs", "chunks"):
                db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
            return "" if result == "ok" else f"the catalog is damaged ({result})"
    except sqlite3.DatabaseError as error:
        return f"the catalog cannot be opened ({error})"

"""The state of a release between its days: the tree of the last night, unfinished work, and the kept nights.

`State` is an SQLite file next to the folders of the days. After an interruption, it has the remaining work of a day.
`Known` has the names of all objects, possibly millions, to find the new ones of a day. It needs constant memory,
because SQLite looks up the names in the file, in the order of their hashes. May import: `core`, `objects`.
"""

import contextlib
import fcntl
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from storelab.core import folders
from storelab.core.campaign.release import Release
from storelab.core.errors import UserError, system_error
from storelab.datasets.release.objects import File, Kept

_CACHE_KIB = 64 * 1024
FOLDER, FILE, LINK = 0, 1, 2  # type of an entry of a night
BATCH_FILES, BATCH_BYTES = 256, 8_000_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS night (path BLOB PRIMARY KEY, type INTEGER, kind INTEGER, size INTEGER, mode INTEGER,
  mtime INTEGER, hash BLOB, target BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS parts (path BLOB, offset INTEGER, size INTEGER, hash BLOB, PRIMARY KEY (path, offset))
  WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS work (batch INTEGER, place INTEGER, path BLOB, size INTEGER, kind INTEGER,
  PRIMARY KEY (batch, place)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS done (batch INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS objects (name TEXT PRIMARY KEY, bytes INTEGER, place INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS skipped (path BLOB PRIMARY KEY, why TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS nights (name BLOB PRIMARY KEY, day INTEGER, hash TEXT, size INTEGER, counts TEXT)
  WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reflog (hash TEXT PRIMARY KEY, day INTEGER) WITHOUT ROWID;
"""


def _packed(name: str) -> bytes:
    """Return a name as the 20 bytes of the hash and the suffix."""
    return bytes.fromhex(name[:40]) + name[40:].encode()


def _plain(packed: bytes) -> str:
    return packed[:20].hex() + packed[20:].decode()


class Known:
    """The known objects: name (40 hexadecimal digits and suffix), size in bytes, and first day."""

    def __init__(self, path: Path):
        self.db = sqlite3.connect(path, isolation_level=None)
        for line in ("journal_mode=WAL", "synchronous=NORMAL", f"cache_size=-{_CACHE_KIB}", "temp_store=FILE"):
            self.db.execute(f"PRAGMA {line}")
        table = "known (name BLOB PRIMARY KEY, bytes INTEGER, day INTEGER) WITHOUT ROWID"
        self.db.execute(f"CREATE TABLE IF NOT EXISTS {table}")
        self.db.execute("CREATE TEMP TABLE asked (name BLOB PRIMARY KEY, bytes INTEGER) WITHOUT ROWID")

    def __enter__(self) -> "Known":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.db.close()

    def _ask(self, names: Iterable[tuple[str, int]]) -> None:
        self.db.execute("BEGIN")
        self.db.execute("DELETE FROM asked")
        self.db.executemany("INSERT OR IGNORE INTO asked VALUES (?, ?)", ((_packed(n), size) for n, size in names))
        self.db.execute("COMMIT")

    def _answers(self, where: str, *values: int) -> Iterator[str]:
        text = f"SELECT asked.name FROM asked LEFT JOIN known USING (name) WHERE {where} ORDER BY asked.name"
        return (_plain(row[0]) for row in self.db.execute(text, values))

    def add(self, names: Iterable[tuple[str, int]], day: int) -> Iterator[str]:
        """Add objects, pairs (name, bytes), and return the names that were not known before this day.

        After a crash, the same call returns the same names. Read the result before the next query.
        """
        self._ask(names)
        self.db.execute("INSERT OR IGNORE INTO known SELECT name, bytes, ? FROM asked ORDER BY name", (day,))
        return self._answers("known.day >= ?", day)

    def missing(self, names: Iterable[str]) -> Iterator[str]:
        """Return the names that are not known."""
        self._ask((name, 0) for name in names)
        return self._answers("known.name IS NULL")

    def remove(self, names: Iterable[str]) -> int:
        """Remove the names, and return how many of them were known."""
        self._ask((name, 0) for name in names)
        return self.db.execute("DELETE FROM known WHERE name IN (SELECT name FROM asked)").rowcount

    def __len__(self) -> int:
        return int(self.db.execute("SELECT count(*) FROM known").fetchone()[0])

    def bytes(self) -> int:
        """Return the bytes of all known objects."""
        return int(self.db.execute("SELECT total(bytes) FROM known").fetchone()[0])


class State:
    """The state of a release in a folder: a context manager that locks it against other processes."""

    def __init__(self, folder: Path, settings: Release):
        self.folder, self.settings = folder, settings

    def __enter__(self) -> "State":
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = folders.lock_file(self.folder / "lock")
        except OSError as error:
            raise system_error(error) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise UserError(self.folder.name, "another run makes days in this folder", "wait for it") from None
        try:
            self.db = sqlite3.connect(self.folder / "state.sqlite", isolation_level=None)
            for line in ("journal_mode=WAL", "synchronous=NORMAL", "cache_size=-65536", "temp_store=FILE"):
                self.db.execute(f"PRAGMA {line}")
            self.db.executescript(_SCHEMA)
            self._same()
        except sqlite3.DatabaseError as error:
            self.__exit__()
            raise UserError(
                f"{self.folder.name}/state.sqlite", f"cannot be read ({error})", "remove this folder"
            ) from None
        except UserError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "db"):
            self.db.close()
        self._lock.close()

    def _same(self) -> None:
        """Raise UserError if the folder was made with other settings, except for another number of days."""
        now = self.settings.model_dump(mode="json", exclude={"days"})
        before = json.loads(self.get("settings", "null"))
        if before is None:
            self.put("settings", json.dumps(now))
        elif before != now:
            key = next(k for k in {**before, **now} if before.get(k) != now.get(k))
            problem = f"{self.folder.name} was made with {before.get(key)!r}, but the setting is {now.get(key)!r}"
            raise UserError(f"release.{key}", problem, "set the old value, or give another folder")

    def get(self, key: str, default: Any = None) -> Any:
        row = self.db.execute("SELECT value FROM facts WHERE key = ?", (key,)).fetchone()
        return default if row is None else row[0]

    def put(self, key: str, value: Any) -> None:
        self.db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, value))

    @property
    def day(self) -> int:
        """Return the number of the last complete day; 0 if there is none."""
        return int(self.get("day", 0))

    # The work of a day

    def begin(self, day: int) -> None:
        """Delete the work of the last day and start that of a new day. Call it within a transaction."""
        for table in ("work", "done", "objects", "skipped"):
            self.db.execute(f"DELETE FROM {table}")
        self.put("working", day)
        self._batch, self._files, self._bytes = 0, 0, 0

    def wanted(self, file: File) -> None:
        """Add a file whose objects must be made."""
        if self._files and (self._files >= BATCH_FILES or self._bytes + file.size > BATCH_BYTES):
            self._batch, self._files, self._bytes = self._batch + 1, 0, 0
        self.db.execute(
            "INSERT INTO work VALUES (?, ?, ?, ?, ?)", (self._batch, self._files, file.path, file.size, file.kind)
        )
        self._files += 1
        self._bytes += file.size

    def due(self) -> Iterator[tuple[int, list[File]]]:
        """Yield (number, files) of the batches that are not done."""
        numbers = self.db.execute("SELECT DISTINCT batch FROM work WHERE batch NOT IN (SELECT batch FROM done)")
        for (number,) in numbers.fetchall():
            rows = self.db.execute("SELECT path, size, kind FROM work WHERE batch = ? ORDER BY place", (number,))
            yield number, [File(*row) for row in rows.fetchall()]

    def due_bytes(self) -> int:
        text = "SELECT total(size) FROM work WHERE batch NOT IN (SELECT batch FROM done)"
        return int(self.db.execute(text).fetchone()[0])

    def finished(self, batch: int, files: list[Kept]) -> None:
        """Record the objects of a batch and mark it as done. Their order is that of the files, not of the processes."""
        db = self.db
        with self.transaction():
            place = batch << 32
            for kept in files:
                if kept.problem:
                    db.execute("INSERT OR REPLACE INTO skipped VALUES (?, ?)", (kept.path, kept.problem))
                    db.execute("DELETE FROM night WHERE path = ?", (kept.path,))
                    continue
                db.execute("UPDATE night SET hash = ?, size = ? WHERE path = ?", (kept.whole, kept.size, kept.path))
                db.execute("DELETE FROM parts WHERE path = ?", (kept.path,))
                if kept.parts:
                    db.executemany("INSERT INTO parts VALUES (?, ?, ?, ?)", ((kept.path, *p) for p in kept.parts))
                rows = [(name, size, place + i) for i, (name, size) in enumerate(kept.objects)]
                place += len(rows)
                db.executemany(
                    "INSERT INTO objects VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET place = min(place, excluded.place)",
                    rows,
                )
            db.execute("INSERT INTO done VALUES (?)", (batch,))

    def doubt(self, folder: Path) -> None:
        """Mark all batches as not done if an object of a finished batch is missing or has the wrong size."""
        for name, size in self.db.execute("SELECT name, bytes FROM objects"):
            try:
                if (folder / "data" / name[:2] / name[2:]).stat().st_size == size:
                    continue
            except OSError:
                pass
            with self.transaction():
                self.db.execute("DELETE FROM done")
                self.db.execute("DELETE FROM objects")
            return

    def objects(self) -> Iterator[tuple[str, int]]:
        """Yield (name, bytes) in the order of the files."""
        yield from self.db.execute("SELECT name, bytes FROM objects ORDER BY place")

    def named(self) -> Iterator[tuple[str, int]]:
        """Yield (name, bytes) in the order of the names."""
        yield from self.db.execute("SELECT name, bytes FROM objects ORDER BY name")

    def without_known(self, new: Iterator[str], remove: Callable[[str], None]) -> None:
        """Keep only the new objects, and call `remove` with the name of each other object.

        After an interruption, `doubt` finds that removed objects are missing.
        """
        with self.transaction():
            self.db.execute("CREATE TEMP TABLE fresh (name TEXT PRIMARY KEY) WITHOUT ROWID")
            self.db.executemany("INSERT INTO fresh VALUES (?)", ((name,) for name in new))
            for (name,) in self.db.execute("SELECT name FROM objects WHERE name NOT IN (SELECT name FROM fresh)"):
                remove(name)
            self.db.execute("DELETE FROM objects WHERE name NOT IN (SELECT name FROM fresh)")
            self.db.execute("DROP TABLE fresh")

    def totals(self) -> dict[str, int]:
        """Return new_files, raw_bytes and new_bytes of the new content of the day, and the files of the night."""
        new = """SELECT count(*), total(night.size) FROM work JOIN night USING (path) WHERE
          lower(hex(night.hash)) IN (SELECT name FROM objects) OR EXISTS (SELECT 1 FROM parts
          WHERE parts.path = work.path AND lower(hex(parts.hash)) || 'P' IN (SELECT name FROM objects))"""
        files, raw = self.db.execute(new).fetchone()
        stored = self.db.execute("SELECT total(bytes) FROM objects").fetchone()[0]
        all_files = self.db.execute("SELECT count(*) FROM night WHERE type = ?", (FILE,)).fetchone()[0]
        return {"new_files": files, "raw_bytes": int(raw), "new_bytes": int(stored), "files": all_files}

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction: COMMIT at its end, ROLLBACK after an error."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

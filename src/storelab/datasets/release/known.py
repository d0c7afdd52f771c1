"""Names of objects on disk: millions of them, and what of a day is not among them. For its memory it does not matter
how many there are: SQLite looks each up in a tree sorted by hash, in the order of the hashes.

May import: nothing of storelab.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

_CACHE_KIB = 64 * 1024


def _packed(name: str) -> bytes:
    """20 bytes of hash and the suffix."""
    return bytes.fromhex(name[:40]) + name[40:].encode()


def _plain(packed: bytes) -> str:
    return packed[:20].hex() + packed[20:].decode()


class Known:
    """Names that are known (40 hexadecimal digits and suffix), with the bytes and the first day of their object."""

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
        """Those of the (name, bytes) that were not known before this day; all are known when this returns.

        Asked again after a crash, it gives the same names. Read the answer before anything else is asked.
        """
        self._ask(names)
        self.db.execute("INSERT OR IGNORE INTO known SELECT name, bytes, ? FROM asked ORDER BY name", (day,))
        return self._answers("known.day >= ?", day)

    def missing(self, names: Iterable[str]) -> Iterator[str]:
        """Those of the names that are not known."""
        self._ask((name, 0) for name in names)
        return self._answers("known.name IS NULL")

    def remove(self, names: Iterable[str]) -> int:
        """How many of the names were known; they are no more."""
        self._ask((name, 0) for name in names)
        return self.db.execute("DELETE FROM known WHERE name IN (SELECT name FROM asked)").rowcount

    def __len__(self) -> int:
        return int(self.db.execute("SELECT count(*) FROM known").fetchone()[0])

    def bytes(self) -> int:
        """Of all objects that are known."""
        return int(self.db.execute("SELECT total(bytes) FROM known").fetchone()[0])

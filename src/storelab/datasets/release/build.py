"""Make the days of a release: for each day, a folder with new objects, catalogs, reflog and manifest.

`day.json` lists the objects of a complete day in the order of upload. The next call finishes an interrupted day. May
import: `core`, the other modules of this folder.
"""

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import UserError, system_error
from storelab.datasets.release import catalogs, names, nightly, objects, tree
from storelab.datasets.release.state import Known, State

FILE = "day.json"
FEW_BYTES = 64_000_000  # with fewer bytes of files, starting processes costs more than it saves


class Item(NamedTuple):
    """An object to upload. kind: data, chunk, catalog, reflog or manifest."""

    key: str  # including the repository
    bytes: int
    kind: str


@dataclass(frozen=True)
class Day:
    """A complete day. facts: the content of `day.json` without the objects."""

    folder: Path
    facts: dict[str, Any]

    @property
    def n(self) -> int:
        return int(self.facts["day"])

    def objects(self) -> Iterator[Item]:
        """Yield all objects in the order of upload. Only one is in memory at a time."""
        with open(self.folder / FILE, encoding="utf-8") as file:
            for line in file:
                if line.startswith("["):
                    yield Item(*json.loads(line.rstrip(",\n")))

    def path(self, item: Item) -> Path:
        """Return the path of the local file with the content of an object."""
        return self.folder / item.key.partition("/")[2]


def write_day(folder: Path, facts: dict[str, Any], objects: Iterable[Item]) -> None:
    """Write `day.json`: one line with the facts, then one line for each object."""
    with open(folder / FILE, "w", encoding="utf-8") as file:
        file.write(json.dumps(facts, ensure_ascii=True)[:-1] + ', "objects": [')
        for i, item in enumerate(objects):
            file.write((",\n" if i else "\n") + json.dumps(list(item)))
        file.write("\n]}\n")
        file.flush()
        os.fsync(file.fileno())


def folder_of(folder: Path, n: int) -> Path:
    """Return the folder of day n of a release."""
    return folder / f"day-{n:04d}"


def read_day(folder: Path) -> Day:
    """Return the complete day in a folder. Raise UserError if there is none."""
    try:
        with open(folder / FILE, encoding="utf-8") as file:
            head = file.readline()
        facts = json.loads(head.rstrip("\n") + "]}")
    except (OSError, ValueError):
        raise UserError(
            folder.name, "has no complete day of a release", "make it again, or name another folder"
        ) from None
    del facts["objects"]
    return Day(folder, facts)


class Release:
    """A release with these settings. processes: number of processes that compress; default: one for each core."""

    def __init__(self, settings: Settings, processes: int | None = None):
        self.settings = settings
        self.processes = processes or len(os.sched_getaffinity(0))
        self._trees: Any = tree if settings.tree else nightly

    def day(self, n: int, folder: Path) -> Day:
        """Return day n (from 1). Make it and earlier days first if they are missing.

        Raise UserError if the release has fewer days, the folder was made with other settings, the folder of a version
        is missing, or the disk is full.
        """
        if not 1 <= n <= self.settings.all_days:
            raise UserError("release.days", f"there is no day {n}", f"use a day from 1 to {self.settings.all_days}")
        with State(folder, self.settings) as state, _disk(folder):
            while state.day < n:
                self._make(state, state.day + 1)
        return read_day(folder_of(folder, n))

    def last(self, folder: Path) -> int:
        """Return the number of the last complete day, or 0 if there is none."""
        if not (folder / "state.sqlite").exists():
            return 0
        with State(folder, self.settings) as state:
            return state.day

    def forget(self, folder: Path, roots: Collection[str], gone: Iterable[str]) -> None:
        """Remove root catalogs and objects from the state after a garbage collection removed them from the store.

        roots: 40 hexadecimal digits; gone: 40 hexadecimal digits and suffix. The next reflog does not list these root
        catalogs. If a later day needs a removed object, it is uploaded again.
        """
        with State(folder, self.settings) as state:
            with Known(folder / "known.sqlite") as known:
                known.remove(gone)
            with state.transaction():
                state.db.executemany("DELETE FROM reflog WHERE hash = ?", ((digest,) for digest in roots))

    def _make(self, state: State, n: int) -> None:
        whole = folder_of(state.folder, n)
        part = whole.with_suffix(".part")
        if state.get("working") != n:
            for left in (whole, part):  # may exist from a state that was removed
                shutil.rmtree(left, ignore_errors=True)
            with state.transaction():
                self._trees.begin(state, n)
        if not (whole / FILE).exists():
            self._objects(state, n, part)
            self._rest(state, n, part)
            part.rename(whole)
        facts = read_day(whole).facts
        with state.transaction():
            _keep(state, facts)
            state.put("day", n)
            state.db.execute("DELETE FROM facts WHERE key = 'working'")

    def _objects(self, state: State, n: int, part: Path) -> None:
        """Compress the remaining files, then remove the objects that existed before this day."""
        state.doubt(part)
        due = state.due_bytes()
        processes = 1 if due < FEW_BYTES else self.processes
        source = tree.source(self.settings, n) if self.settings.tree else None
        with contextlib.closing(objects.made(self.settings, part, source, n, state.due(), processes)) as batches:
            for number, files in batches:
                state.finished(number, files)
        with Known(state.folder / "known.sqlite") as known:
            fresh = known.add(state.named(), n)
            state.without_known(fresh, lambda name: (part / names.place(name)).unlink(missing_ok=True))

    def _rest(self, state: State, n: int, part: Path) -> None:
        """Write the catalogs, the reflog, the manifest and `day.json` of a day."""
        name, repository = self._trees.night(self.settings, n), self.settings.repository
        writer = objects.Writer(self.settings, part, None, n)
        scratch = part / "catalog.sqlite"
        written = list(catalogs.night(state, n, os.fsencode(name), scratch, writer.object))
        last = written[-1]
        night = (os.fsencode(name), last.name, last.size, json.dumps(last.counts))
        rows = state.db.execute(
            "SELECT name, hash, size, counts FROM nights WHERE day > ? AND name <> ?",
            (
                n - self.settings.nights,
                night[0],
            ),
        )
        root = catalogs.root([night, *rows.fetchall()], n, scratch, writer.object)
        written.append(root)
        with Known(state.folder / "known.sqlite") as known:
            fresh = set(known.add(((catalog.name, catalog.bytes) for catalog in written), n))
        when = nightly.EPOCH + nightly.DAY_S * n
        before = state.db.execute("SELECT hash, day FROM reflog ORDER BY day, hash").fetchall()
        log = catalogs.reflog(
            repository,
            [(digest, nightly.EPOCH + nightly.DAY_S * day) for digest, day in before] + [(root.name[:40], when)],
        )
        text = names.manifest_text(
            {
                "C": root.name[:40],
                "B": str(root.size),
                "R": hashlib.md5(b"", usedforsecurity=False).hexdigest(),
                "D": "240",
                "S": str(n),
                "G": "yes",
                "N": repository,
                "T": str(when),
                "Y": hashlib.sha1(log).hexdigest(),
            }
        )
        (part / names.REFLOG).write_bytes(log)
        (part / names.MANIFEST).write_bytes(text)
        sent = [catalog for catalog in written if catalog.name in fresh]
        for catalog in written:
            if catalog.name not in fresh:
                (part / names.place(catalog.name)).unlink(missing_ok=True)
        skipped = state.db.execute("SELECT path, why FROM skipped ORDER BY path").fetchall()
        facts = {
            "day": n,
            "repository": repository,
            "night": name,
            "catalogs": [catalog.name[:40] for catalog in sent],
            "root_catalog": root.name[:40],
            "reflog": f"{repository}/{names.REFLOG}",
            "manifest": f"{repository}/{names.MANIFEST}",
            **state.totals(),
            "removed_files": state.get("removed_files", 0),
            "skipped": [[os.fsdecode(path), why] for path, why in skipped],
            "zlib": objects.library(),
            "zlib_level": self.settings.zlib_level,
            "night_catalog": [last.name, last.size, last.counts],
        }
        write_day(part, facts, self._items(state, sent, len(log), len(text)))

    def _items(self, state: State, sent: list[catalogs.Catalog], log: int, text: int) -> Iterator[Item]:
        repository = self.settings.repository
        for name, size in state.objects():
            yield Item(names.key(repository, name), size, names.KINDS[name[40:]])
        for catalog in sent:
            yield Item(names.key(repository, catalog.name), catalog.bytes, "catalog")
        yield Item(f"{repository}/{names.REFLOG}", log, "reflog")
        yield Item(f"{repository}/{names.MANIFEST}", text, "manifest")


def _keep(state: State, facts: dict[str, Any]) -> None:
    """Copy the night and the root catalog of a complete day into the state. Repeated calls change nothing."""
    name, size, counts = facts["night_catalog"]
    row = (os.fsencode(facts["night"]), facts["day"], name, size, json.dumps(counts))
    state.db.execute("INSERT OR REPLACE INTO nights VALUES (?, ?, ?, ?, ?)", row)
    state.db.execute("DELETE FROM nights WHERE day <= ?", (facts["day"] - state.settings.nights,))
    state.db.execute("INSERT OR REPLACE INTO reflog VALUES (?, ?)", (facts["root_catalog"], facts["day"]))


@contextlib.contextmanager
def _disk(folder: Path) -> Iterator[None]:
    """Convert errors of the disk and of SQLite to UserError."""
    try:
        yield
    except OSError as error:
        raise system_error(error) from None
    except sqlite3.OperationalError as error:
        hint = "make room on this disk" if "full" in str(error) else "check this folder and its file system"
        raise UserError(folder.name, f"the state cannot be written ({error})", hint) from None

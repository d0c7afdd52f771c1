"""Write the days of a release as plain files for a publishing tool: the changes of a day, and the published content.

Removed files are marked as in the union file system aufs: a file `.wh.NAME` marks the removal of NAME, and a file
`.wh..wh..opq` marks a folder whose whole content is replaced. A folder with a file `.cvmfscatalog` gets a separate
catalog. May import: `campaign.release`, the other modules of this folder.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from storelab.core.campaign.release import KINDS
from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import system_error
from storelab.datasets.release import catalogs, nightly, objects, tree
from storelab.datasets.release.objects import File, Kept
from storelab.datasets.release.state import FILE, FOLDER, LINK, Known, State

GONE, REPLACED = ".wh.", ".wh..wh..opq"
ODD = (b".wh.", b".cvmfsgraft-")  # prefixes of names with a special meaning for the tool


class Trees:
    """The consecutive days of a release, in a folder on tmpfs.

    The folder `changed` has the content of the next publication: the whole folder of each unpublished night, and the
    marks of removals. The folder `there` has the names, types and sizes of the published content; its files are sparse
    and take no space.
    """

    def __init__(self, settings: Settings, folder: Path):
        self.settings, self.folder = settings, folder
        self.changed, self.there = folder / "changed", folder / "there"
        self.nights: dict[str, int] = {}  # folder of a night -> its day
        self._trees: Any = tree if settings.tree else nightly
        for part in (self.changed, self.there):
            part.mkdir(parents=True, exist_ok=True)

    def add(self, n: int) -> dict[str, int]:
        """Write the next day, n. Earlier days that are not published yet are published with it.

        Return the counts new_files, raw_bytes, files and removed_files as in `day.json` of `build.py`, and the number
        of skipped entries (skipped). Raise UserError if the folder of a real tree is missing or the disk is full.
        """
        try:
            return self._add(n)
        except OSError as error:
            raise system_error(error) from None

    def _add(self, n: int) -> dict[str, int]:
        name = self._trees.night(self.settings, n)
        for gone in [other for other, day in self.nights.items() if day <= n - self.settings.nights and other != name]:
            del self.nights[gone]
            shutil.rmtree(self.changed / gone, ignore_errors=True)
            if (self.there / gone).exists():
                (self.changed / f"{GONE}{gone}").touch()
        night = self.changed / name
        shutil.rmtree(night, ignore_errors=True)  # may exist from a day that was not published
        night.mkdir()
        if (self.there / name).exists():
            (night / REPLACED).touch()
        self.nights[name] = n
        with State(self.folder / "state", self.settings) as state:
            with state.transaction():
                self._trees.begin(state, n)
            return self._write(state, n, night)

    def _write(self, state: State, n: int, night: Path) -> dict[str, int]:
        folders = _rows(state, FOLDER)
        for path, _, _, _ in folders:
            _at(night, path).mkdir()
        written, files = self._due(state, n, night), 0
        for path, kind, size, mode, mtime in state.db.execute(_FILES, (FILE,)):
            if path not in written:  # unchanged since the day that its time gives
                day = (mtime - nightly.EPOCH) // nightly.DAY_S
                _put(_at(night, path), self._blocks(File(path, size, kind), day, None))
            _set(_at(night, path), mode, mtime)
            files += 1
        for path, _, mtime, target in _rows(state, LINK):
            _at(night, path).symlink_to(os.fsdecode(target))
            os.utime(_at(night, path), (mtime, mtime), follow_symlinks=False)
        when = nightly.EPOCH + nightly.DAY_S * n
        self._markers(night, [path for path, *_ in folders], when)
        for path, mode, mtime, _ in reversed(folders):
            _set(_at(night, path), mode | 0o700, mtime)  # the owner can write, so that the folder can be removed
        _set(night, 0o755, when)
        with Known(self.folder / "known.sqlite") as known:
            fresh = set(known.add(written.values(), n))
        sizes = [size for digest, size in written.values() if digest in fresh]
        counts = {"new_files": len(sizes), "raw_bytes": sum(sizes), "files": files}
        counts["removed_files"] = state.get("removed_files", 0)
        counts["skipped"] = state.db.execute("SELECT count(*) FROM skipped").fetchone()[0]
        return counts

    def _due(self, state: State, n: int, night: Path) -> dict[bytes, tuple[str, int]]:
        """Write the new files of day n, and return path -> (SHA-1 of the content, bytes)."""
        source = os.fsencode(tree.source(self.settings, n)) if self.settings.tree else None
        out = {}
        for number, files in state.due():
            kept = []
            for file in files:
                if _is_special(file.path):
                    kept.append(Kept(file.path, problem="its name has a special meaning for the publishing tool"))
                    continue
                try:
                    out[file.path] = _put(_at(night, file.path), self._blocks(file, n, source))
                    kept.append(Kept(file.path, out[file.path][1]))
                except _Unread as error:
                    _at(night, file.path).unlink(missing_ok=True)
                    kept.append(Kept(file.path, problem=str(error)))
            state.finished(number, kept)
        return out

    def _blocks(self, file: File, day: int, source: bytes | None) -> Iterator[bytes]:
        if source is not None:
            return _read(b"%b/%b" % (source, file.path))
        assert file.kind is not None
        return objects.blocks(self.settings.seed, file.path, day, KINDS[file.kind].body, file.size)

    def _markers(self, night: Path, folders: Iterable[bytes], when: int) -> None:
        """Write the files that mark separate catalogs into this release and its folders, down to `catalog_depth`."""
        for path in (b"", *(p for p in folders if p.count(b"/") < self.settings.catalog_depth)):
            marker = _at(night, path) / os.fsdecode(catalogs.MARKER)
            if not marker.exists():
                marker.touch()
                _set(marker, 0o644, when)

    def published(self) -> None:
        """Move the content of `changed` to `there` after it was published."""
        for entry in sorted(self.changed.iterdir()):
            if entry.name.startswith(GONE):
                shutil.rmtree(self.there / entry.name.removeprefix(GONE))
                entry.unlink()
                continue
            shutil.rmtree(self.there / entry.name, ignore_errors=True)
            (entry / REPLACED).unlink(missing_ok=True)
            for above, _, names in os.walk(entry):
                for name in names:
                    _make_sparse(Path(above, name))
            entry.rename(self.there / entry.name)


_FILES = "SELECT path, kind, size, mode, mtime FROM night WHERE type = ? ORDER BY path"


def _rows(state: State, kind: int) -> list[tuple[bytes, int, int, bytes]]:
    """Return (path, mode, time, target) of all folders or links of the night, folders before their content."""
    found = state.db.execute("SELECT path, mode, mtime, target FROM night WHERE type = ? ORDER BY path", (kind,))
    return [row for row in found.fetchall() if not _is_special(row[0])]


def _is_special(path: bytes) -> bool:
    return any(part.startswith(ODD) for part in path.split(b"/"))


class _Unread(Exception):
    """A file of a real tree cannot be read. The message has the reason."""


def _read(path: bytes) -> Iterator[bytes]:
    try:
        yield from objects.read(path)
    except OSError as error:
        raise _Unread(os.strerror(error.errno) if error.errno else str(error)) from None


def _at(night: Path, path: bytes) -> Path:
    return night / os.fsdecode(path)


def _put(path: Path, blocks: Iterator[bytes]) -> tuple[str, int]:
    """Write the blocks to a file, and return their SHA-1 and size in bytes."""
    digest, size = hashlib.sha1(), 0
    with open(path, "xb") as out:
        for block in blocks:
            out.write(block)
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size


def _set(path: Path, mode: int, mtime: int) -> None:
    path.chmod(mode)
    os.utime(path, (mtime, mtime))


def _make_sparse(path: Path) -> None:
    """Replace the content of a file by a hole: the size stays the same, and the disk space is freed."""
    found = path.lstat()
    if stat.S_ISREG(found.st_mode):
        path.chmod(0o600)
        os.truncate(path, 0)
        os.truncate(path, found.st_size)

"""Make the tree of a day from a real folder, which has one version of the software.

Entries that cannot be published are skipped. Changes are detected by content, not by the times of files, so that wrong
clocks do not matter. May import: `campaign.release`, `errors`, `objects`, `state`.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from storelab.core.campaign.release import Release, version_folder
from storelab.core.errors import UserError, cut
from storelab.datasets.release.objects import File
from storelab.datasets.release.state import FILE, FOLDER, LINK, State

ODD = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
}


def source(settings: Release, day: int) -> str:
    """Return the folder of the version that is published on a day. Raise UserError if it does not exist."""
    assert settings.tree is not None
    folder = Path(settings.tree.path).expanduser() / settings.tree.versions[day - 1]
    if not folder.is_dir():
        raise UserError("release.tree", f"{cut(str(folder))}: no such folder", "name versions that exist")
    return str(folder.resolve())


def night(settings: Release, day: int) -> str:
    """Return the folder of a version in the repository."""
    assert settings.tree is not None
    return version_folder(settings.tree.versions[day - 1])


def entries(root: bytes) -> Iterator[tuple[bytes, os.stat_result | None, str]]:
    """Yield (path, state, "") of all entries below root, each folder before its content. Do not follow links.

    An entry that cannot be read gives (path, None, reason).
    """
    waiting = [b""]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(root + b"/" + below) as found:
                names = sorted(entry.name for entry in found)
        except OSError as error:
            yield below, None, os.strerror(error.errno or 0)
            continue
        for name in names:
            path = below + b"/" + name if below else name
            try:
                state = os.lstat(root + b"/" + path)
            except OSError as error:
                yield path, None, os.strerror(error.errno or 0)
                continue
            yield path, state, ""
            if stat.S_ISDIR(state.st_mode):
                waiting.append(path)


def begin(state: State, day: int) -> None:
    """Make the tree of a day from the folder of its version, and list its files. Call it within a transaction."""
    folder = source(state.settings, day)
    if state.folder.resolve().is_relative_to(folder):
        problem = f"the state of the release is in {cut(folder)}, which is the published folder"
        raise UserError(
            "release.tree",
            problem,
            "keep the state of the release outside the published folder, or publish another folder",
        )
    db, root = state.db, os.fsencode(folder)
    state.begin(day)
    db.execute("CREATE TEMP TABLE before AS SELECT path FROM night WHERE type = ?", (FILE,))
    db.execute("DELETE FROM night")
    db.execute("DELETE FROM parts")
    insert = "INSERT INTO night (path, type, size, mode, mtime, target) VALUES (?, ?, ?, ?, ?, ?)"
    for path, found, why in entries(root):
        if found is None:
            _skip(state, path, why)
            continue
        about = (found.st_size, found.st_mode & 0o7777, int(found.st_mtime))
        if stat.S_ISDIR(found.st_mode):
            db.execute(insert, (path, FOLDER, *about, None))
        elif stat.S_ISREG(found.st_mode):
            db.execute(insert, (path, FILE, *about, None))
            state.wanted(File(path, found.st_size, None))
        elif stat.S_ISLNK(found.st_mode):
            try:
                db.execute(insert, (path, LINK, *about, _target(root + b"/" + path)))
            except OSError as error:
                _skip(state, path, os.strerror(error.errno or 0))
        else:
            _skip(state, path, ODD.get(stat.S_IFMT(found.st_mode), "neither file, folder nor link"))
    gone = "SELECT count(*) FROM before WHERE path NOT IN (SELECT path FROM night WHERE type = ?)"
    state.put("removed_files", db.execute(gone, (FILE,)).fetchone()[0])
    db.execute("DROP TABLE before")


def _target(path: bytes) -> bytes:
    return os.fsencode(Path(os.fsdecode(path)).readlink())


def _skip(state: State, path: bytes, why: str) -> None:
    state.db.execute("INSERT OR REPLACE INTO skipped VALUES (?, ?)", (path, why))

"""Generate the tree of a day: the volume of new content, and which files are changed, added and removed.

All numbers depend only on the seed and the day. The number of files of a day and their mean size are log-normal and
independent. Therefore files and bytes of a day have the means and deviations of the settings. The sizes of the files of
a day follow their kinds, scaled to the bytes of the day. May import: numpy in functions, `core`, `objects`, `state`.
"""

import hashlib
import math
from collections.abc import Iterator
from typing import Any

from storelab.core.campaign.release import KINDS, Release
from storelab.core.model import derive_seed
from storelab.datasets.release.objects import File, raw_size
from storelab.datasets.release.state import FILE, FOLDER, LINK, State

EPOCH = 1_428_883_200  # 13 April 2015; a constant, because releases must not depend on the clock of this machine
DAY_S = 86_400
_NUMBERS = 4096
LINK_SUFFIX = b".1"


def night(settings: Release, day: int) -> str:
    """Return the folder of a night in the repository. Names are reused in turn after `nights` nights."""
    return f"night-{(day - 1) % settings.nights + 1:02d}"


def _generator(*parts: Any) -> Any:
    import numpy as np

    return np.random.Generator(np.random.PCG64(derive_seed(*parts)))


def log_normal(mean: float, deviation: float) -> tuple[float, float]:
    """Return mu and sigma of the log-normal distribution with this mean and standard deviation."""
    squared = math.log1p((deviation / mean) ** 2)
    return math.log(mean) - squared / 2, math.sqrt(squared)


def volume(settings: Release, day: int) -> tuple[int, int]:
    """Return (new files, bytes of their objects) of a day."""
    rng = _generator(settings.seed, "volume", day)
    mu, sigma = log_normal(settings.files_a_day, settings.files_deviation)
    size_mu, size_sigma = log_normal(settings.bytes_a_day, settings.bytes_deviation)
    files = math.exp(mu + sigma * rng.standard_normal())
    # bytes = files * mean size, so the variances of the logarithms add up.
    mean = math.exp(size_mu - mu + math.sqrt(max(0.0, size_sigma**2 - sigma**2)) * rng.standard_normal())
    number = max(1, round(settings.factor * files))
    return number, max(1, round(settings.factor * files * mean))


def path(settings: Release, number: int, kind: int) -> bytes:
    """Return the path of a file from its number: project/package/kind/name. The first projects have the most files."""
    digest = hashlib.blake2b(b"%d %d" % (settings.seed, number), digest_size=8).digest()
    share, package = int.from_bytes(digest[:4], "big") / 2**32, int.from_bytes(digest[4:], "big")
    projects, packages = (max(1, round(n * math.sqrt(settings.factor))) for n in (40, 50))
    project = int(projects * share**2)
    described = KINDS[kind]
    return b"project-%02d/package-%03d/%b/f%07x%b" % (
        project,
        package % packages,
        described.folder.encode(),
        number,
        described.suffix.encode(),
    )


def _numbers(rng: Any, draw: str) -> Iterator[float]:
    while True:
        yield from getattr(rng, draw)(_NUMBERS).tolist()


def begin(state: State, day: int) -> None:
    """Make the tree of a day from the tree of the previous day, and list the new files.

    Call it within a transaction.
    """
    settings, db = state.settings, state.db
    state.begin(day)
    number, stored = volume(settings, day)
    live = db.execute("SELECT count(*) FROM night WHERE type = ?", (FILE,)).fetchone()[0]
    changed = min(live, round(settings.changed * number))
    most = max(1, round(settings.factor * settings.tree_files))
    removed = min(live - changed, max(0, live + number - changed - most))
    db.execute("CREATE TEMP TABLE draft (place INTEGER PRIMARY KEY, path BLOB, kind INTEGER, stored REAL)")
    db.execute("CREATE TEMP TABLE gone (path BLOB PRIMARY KEY) WITHOUT ROWID")
    _choose(state, day, live, changed, removed)
    _add(state, day, number - changed)
    total = db.execute("SELECT total(stored) FROM draft").fetchone()[0]
    mtime = EPOCH + DAY_S * day
    db.execute("UPDATE night SET mtime = ? WHERE path IN (SELECT path FROM draft)", (mtime,))
    db.execute("DELETE FROM night WHERE path IN (SELECT path FROM gone)")
    db.execute("DELETE FROM night WHERE path IN (SELECT CAST(path || ? AS BLOB) FROM gone)", (LINK_SUFFIX,))
    db.execute("DELETE FROM parts WHERE path IN (SELECT path FROM gone)")
    for file, kind, size in db.execute("SELECT path, kind, stored FROM draft ORDER BY place"):
        state.wanted(File(file, raw_size(KINDS[kind].body, size * stored / total), kind))
    db.execute("DROP TABLE draft")
    db.execute("DROP TABLE gone")
    state.put("removed_files", removed)


def _choose(state: State, day: int, live: int, changed: int, removed: int) -> None:
    """Choose exactly these numbers of files to change and to remove. All files have the same probability."""
    choice = _numbers(_generator(state.settings.seed, "choice", day), "random")
    z = _numbers(_generator(state.settings.seed, "changed", day), "standard_normal")
    for file, kind in state.db.execute("SELECT path, kind FROM night WHERE type = ?", (FILE,)):
        at = next(choice) * live
        if at < changed:
            _draft(state, file, kind, next(z))
            changed -= 1
        elif at < changed + removed:
            state.db.execute("INSERT INTO gone VALUES (?)", (file,))
            removed -= 1
        live -= 1


def _draft(state: State, file: bytes, kind: int, z: float) -> None:
    size = KINDS[kind].median * math.exp(KINDS[kind].sigma * z)
    state.db.execute("INSERT INTO draft (path, kind, stored) VALUES (?, ?, ?)", (file, kind, size))


def _add(state: State, day: int, number: int) -> None:
    """Add files with new paths, the folders that they need, and links to some of them."""
    settings, db = state.settings, state.db
    z = _numbers(_generator(settings.seed, "added", day), "standard_normal")
    draws = _numbers(_generator(settings.seed, "kinds", day), "random")
    first, mtime = state.get("files", 0), EPOCH + DAY_S * day
    bounds = [sum(kind.share for kind in KINDS[: i + 1]) for i in range(len(KINDS))]
    known: set[bytes] = {row[0] for row in db.execute("SELECT path FROM night WHERE type = ?", (FOLDER,))}
    insert = "INSERT INTO night (path, type, kind, size, mode, mtime, target) VALUES (?, ?, ?, ?, ?, ?, ?)"
    for i in range(first, first + number):
        at = next(draws)
        kind = next((k for k, bound in enumerate(bounds) if at < bound), len(KINDS) - 1)
        file = path(settings, i, kind)
        above = file
        while above := above.rpartition(b"/")[0]:
            if above not in known:
                known.add(above)
                db.execute(insert, (above, FOLDER, None, 4096, 0o755, mtime, None))
        db.execute(insert, (file, FILE, kind, 0, KINDS[kind].mode, mtime, None))
        if next(draws) < settings.links:
            target = file.rpartition(b"/")[2]
            db.execute(insert, (file + LINK_SUFFIX, LINK, None, len(target), 0o777, mtime, target))
        _draft(state, file, kind, next(z))
    state.put("files", first + number)

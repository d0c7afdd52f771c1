"""Which files an application reads when it starts, drawn by seed from the catalogs of a repository. Pure.

An application lives in one subtree: a catalog that has none below it, found from the root by drawing one of the nested
catalogs again and again, in proportion to their size. Its files are read along a walk: the first is drawn evenly; each
next one is, with probability NEAR, another file of the same folder, as long as there is one, else any other file of the
subtree, evenly. A start reads the first n files of the walk; n is log-normal. May import: `datasets`, `core.model`.
"""

import math
import os
import random
import sqlite3
import zlib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from statistics import NormalDist

from storelab.core.model import derive_seed
from storelab.datasets.release import catalogs, names
from storelab.datasets.release.catalogs import REGULAR, SYMLINK

NEAR = 0.7  # probability that the next file is one of the same folder
SIGMA = 0.25  # standard deviation of the logarithm of the number of files
MOST = 3.0  # of the median: no start reads more
TRIES = 50  # subtrees that are looked at, where they have no file
Place = tuple[int, int]  # the two halves of the MD5 of a path, by which a catalog finds it
_FILES = """SELECT md5path_1, md5path_2, parent_1, parent_2 FROM catalog WHERE (flags & ?) = ?
  ORDER BY md5path_1, md5path_2"""
_NESTED = "SELECT CAST(path AS BLOB), sha1, size FROM nested_catalogs ORDER BY CAST(path AS BLOB)"


@dataclass(frozen=True)
class Application:
    """catalogs: paths of the nested catalogs that lead to it, the outermost first; files: its walk."""

    catalogs: list[str]
    files: list[Place]


def choose(root: str, fetch: catalogs.Fetch, repository: str, seed: int, number: int, start_files: int) -> Application:
    """The application of this number in the repository of a root catalog. Raises LookupError where there is no file."""
    rng = random.Random(derive_seed(seed, "application", number))
    for _ in range(TRIES):
        catalogs, files = _subtree(root, fetch, repository, rng)
        if files:
            return Application(catalogs, walked(files, rng, math.ceil(MOST * start_files)))
    raise LookupError(f"the repository {repository} has no file in {TRIES} subtrees")


def _subtree(
    digest: str, fetch: catalogs.Fetch, repository: str, rng: random.Random
) -> tuple[list[str], list[tuple[Place, Place]]]:
    """(paths of nested catalogs, (file, folder) of all files in the last one)."""
    paths: list[str] = []
    while True:
        key = names.key(repository, digest, names.CATALOG)
        with catalogs.opened(zlib.decompress(fetch(key))) as db:
            nested = db.execute(_NESTED).fetchall()
            if not nested:
                return paths, files_of(db)
        path, digest, _ = nested[drawn([size for *_, size in nested], rng.random())]
        paths.append(os.fsdecode(path))


def files_of(db: sqlite3.Connection) -> list[tuple[Place, Place]]:
    """(file, folder) of the regular files of a catalog."""
    rows = db.execute(_FILES, (REGULAR | SYMLINK, REGULAR))
    return [((a, b), (c, d)) for a, b, c, d in rows]


def drawn(weights: list[int], at: float) -> int:
    """Index of one of these, in proportion to its weight. at: in [0, 1)."""
    left = at * sum(weights)
    for i, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return i
    return len(weights) - 1


class _Pool:
    """Things of which any one can be taken out at once."""

    def __init__(self, things: Iterable[Place]) -> None:
        self.things = list(things)
        self.at = {thing: i for i, thing in enumerate(self.things)}

    def __len__(self) -> int:
        return len(self.things)

    def one(self, at: float) -> Place:
        return self.things[int(at * len(self.things))]

    def remove(self, thing: Place) -> None:
        i, last = self.at.pop(thing), self.things.pop()
        if last != thing:
            self.things[i], self.at[last] = last, i


def walked(files: list[tuple[Place, Place]], rng: random.Random, most: int) -> list[Place]:
    """The walk through these (file, folder), each file once, `most` at most."""
    folder_of = dict(files)
    folders: dict[Hashable, list[Place]] = {}
    for file, folder in files:
        folders.setdefault(folder, []).append(file)
    every, near = _Pool(folder_of), {folder: _Pool(inside) for folder, inside in folders.items()}
    out: list[Place] = []
    while len(every) and len(out) < most:
        same = near[folder_of[out[-1]]] if out else every
        pool = same if rng.random() < NEAR and len(same) else every
        file = pool.one(rng.random())
        every.remove(file)
        near[folder_of[file]].remove(file)
        out.append(file)
    return out


def start(seed: int, client: int, number: int, applications: int, start_files: int) -> tuple[int, int]:
    """(application, files) of a client's start of this number."""
    rng = random.Random(derive_seed(seed, "start", client, number))
    which = int(rng.random() * applications)
    z = NormalDist().inv_cdf(max(rng.random(), 1e-9))
    return which, max(1, min(round(start_files * math.exp(SIGMA * z)), math.ceil(MOST * start_files)))

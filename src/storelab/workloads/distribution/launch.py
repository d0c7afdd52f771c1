"""Run a client of `launch`, which repeatedly starts an application and reads its files by manifest and catalogs.

Every object is read by an unsigned GET, checked by its SHA-1, and unpacked, as in clients of CernVM-FS. A failed
request is not repeated; the start then fails. Objects that the client keeps need a memory lookup, but no disk access
and no unpacking. botocore is not imported, because many clients start at the same time.

The files of an application are drawn by seed from the catalogs of a repository. An application is in one subtree, which
is a catalog without nested catalogs. It is found from the root by repeatedly drawing a nested catalog, with a
probability proportional to its size. The files of the subtree are read in a random order. The first file is drawn
uniformly. Each next file is, with probability NEAR, another file of the same folder if there is one; otherwise it is
any other file of the subtree, drawn uniformly. A start reads the first n files in this order, where n is log-normal.
"""

import hashlib
import math
import os
import platform
import random
import sqlite3
import threading
import time
import zlib
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from http.client import HTTPException
from itertools import count
from statistics import NormalDist
from typing import Any
from urllib.parse import quote, urlsplit

from storelab.core import clock, records
from storelab.core.axes.distribution import KEPT
from storelab.core.model import derive_seed
from storelab.datasets.release import catalogs, names
from storelab.datasets.release.catalogs import REGULAR, SYMLINK
from storelab.engines.common.error_classes import classify, error_message
from storelab.engines.common.guard import Guard
from storelab.engines.contract import Check, Client, Job, Result
from storelab.stores.protocols import filesystems
from storelab.workloads.probe.answers import Refuted
from storelab.workloads.probe.plain_http import Connection

NEAR = 0.7  # probability that the next file is in the same folder
SIGMA = 0.25  # standard deviation of the logarithm of the number of files
MAX_FILES_RATIO = 3.0  # maximum number of files of a start, in units of the median
TRIES = 50  # maximum number of subtrees that are tried to find one with files
Place = tuple[int, int]  # the two halves of the MD5 of a path, which is the key in a catalog
_FILES = """SELECT md5path_1, md5path_2, parent_1, parent_2 FROM catalog WHERE (flags & ?) = ?
  ORDER BY md5path_1, md5path_2"""
_NESTED_CATALOGS = "SELECT CAST(path AS BLOB), sha1, size FROM nested_catalogs ORDER BY CAST(path AS BLOB)"


@dataclass(frozen=True)
class Application:
    """An application.

    catalogs: the paths of the nested catalogs that lead to it, the outermost first; files: its files in reading order.
    """

    catalogs: list[str]
    files: list[Place]


def choose(root: str, fetch: catalogs.Fetch, repository: str, seed: int, number: int, start_files: int) -> Application:
    """Return an application of the repository with this root catalog. Raises LookupError if there are no files."""
    rng = random.Random(derive_seed(seed, "application", number))
    for _ in range(TRIES):
        catalogs, files = _subtree(root, fetch, repository, rng)
        if files:
            return Application(catalogs, walked(files, rng, math.ceil(MAX_FILES_RATIO * start_files)))
    raise LookupError(f"the repository {repository} has no file in {TRIES} subtrees")


def _subtree(
    digest: str, fetch: catalogs.Fetch, repository: str, rng: random.Random
) -> tuple[list[str], list[tuple[Place, Place]]]:
    """Return the paths of the nested catalogs, and (file, folder) of all files in the last catalog."""
    paths: list[str] = []
    while True:
        key = names.key(repository, digest, names.CATALOG)
        with catalogs.opened(zlib.decompress(fetch(key))) as db:
            nested = db.execute(_NESTED_CATALOGS).fetchall()
            if not nested:
                return paths, files_of(db)
        path, digest, _ = nested[drawn([size for *_, size in nested], rng.random())]
        paths.append(os.fsdecode(path))


def files_of(db: sqlite3.Connection) -> list[tuple[Place, Place]]:
    """Return (file, folder) of the regular files of a catalog."""
    rows = db.execute(_FILES, (REGULAR | SYMLINK, REGULAR))
    return [((a, b), (c, d)) for a, b, c, d in rows]


def drawn(weights: list[int], at: float) -> int:
    """Return the index of a weight, drawn with a probability proportional to the weight.

    at: a random number in [0, 1).
    """
    left = at * sum(weights)
    for i, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return i
    return len(weights) - 1


class _Pool:
    """A collection with fast random access and removal."""

    def __init__(self, items: Iterable[Place]) -> None:
        self.items = list(items)
        self.at = {item: i for i, item in enumerate(self.items)}

    def __len__(self) -> int:
        return len(self.items)

    def one(self, at: float) -> Place:
        return self.items[int(at * len(self.items))]

    def remove(self, item: Place) -> None:
        i, last = self.at.pop(item), self.items.pop()
        if last != item:
            self.items[i], self.at[last] = last, i


def walked(files: list[tuple[Place, Place]], rng: random.Random, most: int) -> list[Place]:
    """Return at most `most` of these files in a random reading order. files: pairs (file, folder)."""
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
    """Return the application, and the number of files, of the `number`-th start of a client."""
    rng = random.Random(derive_seed(seed, "start", client, number))
    which = int(rng.random() * applications)
    z = NormalDist().inv_cdf(max(rng.random(), 1e-9))
    return which, max(1, min(round(start_files * math.exp(SIGMA * z)), math.ceil(MAX_FILES_RATIO * start_files)))


TIMEOUT_S = 60.0
PAUSE_S = 0.1  # pause in s after a failed start
AGENT = "cvmfs storelab"
WHOLE, FAILED, CUT = "whole", "failed", "cut"  # states of a start; `cut`: interrupted by the deadline
MISMATCH = "ChecksumMismatch"
_FILE = "SELECT hash, size FROM catalog WHERE md5path_1 = ? AND md5path_2 = ?"
_CHUNKS = "SELECT hash FROM chunks WHERE md5path_1 = ? AND md5path_2 = ? ORDER BY offset"
_NESTED = "SELECT sha1 FROM nested_catalogs WHERE path = CAST(? AS TEXT)"


class Broken(Exception):
    """The start cannot continue."""


class OutOfTime(Exception):
    """The deadline was reached."""


class LaunchClient(Client):
    """A client that starts applications from a repository: it reads their catalogs and files."""

    def __init__(self, job: Job):
        super().__init__(job)
        self.axes = job.point.axes
        self.repository = job.extra["repository"]
        self.applications = [
            Application(a["catalogs"], [(f[0], f[1]) for f in a["files"]]) for a in job.extra["applications"]
        ]
        self.url, self.proxy = job.extra["url"], job.extra["proxy"]
        parts = urlsplit(self.url)
        self.host = parts.netloc
        self.path = self.url if self.proxy else parts.path  # a proxy needs the complete URL
        self.guard = Guard(job.limits, self.axes["clients"])
        self.warm = self.axes["client_cache"] == KEPT
        self.kept: set[str] = set()  # keys of files and chunks
        self.opened: dict[str, sqlite3.Connection] = {}  # digest -> open catalog
        names_ = ("worker", "op", "object", "bytes", "requests", "start_ns", "end_ns", "status", "error")
        self.ops: dict[str, list[Any]] = {name: [] for name in names_}
        self.rows: dict[str, list[Any]] = {name: [] for name in records.LAUNCHES}
        self.messages: dict[str, str] = {}
        self.sums = dict.fromkeys(("bytes", "gets", "done", "failures", "kept", "objects"), 0)
        self.lock, self.local, self.numbers = threading.Lock(), threading.local(), count()
        self.wires: list[Connection] = []
        self.pool: ThreadPoolExecutor | None = None
        self.deadline_ns = 0

    def prepare(self) -> None:
        if self.axes["workers"] > 1:
            self.pool = ThreadPoolExecutor(self.axes["workers"])

    def run(self, start_ns: int, deadline_ns: int) -> None:
        self.deadline_ns = deadline_ns
        for number in count():
            if clock.now_ns() >= deadline_ns:
                return
            if self._launch(number) == FAILED:
                time.sleep(min(PAUSE_S, max(0.0, (deadline_ns - clock.now_ns()) / 1e9)))

    def _launch(self, number: int) -> str:
        """Perform one start, and return its state. The row of an incomplete start includes the work that was done."""
        seed, axes = self.job.point.seed, self.axes
        which, files = start(seed, self.job.client, number, axes["applications"], axes["start_files"])
        before, state, reason = dict(self.sums), WHOLE, None
        counts = {"files": 0, "raw_bytes": 0}
        begin = clock.now_ns()
        try:
            self._read(self.applications[which], files, counts)
        except OutOfTime:
            state, reason = CUT, "the deadline was reached"
        except Broken as error:
            state, reason = FAILED, str(error)
        finally:
            if not self.warm:
                self._forget()
        row = {"client": self.job.number, "launch": number, "application": which, "state": state, "reason": reason}
        row |= {"begin_ns": begin, "end_ns": clock.now_ns()} | counts
        row |= {name: self.sums[name] - before[name] for name in ("objects", "gets", "bytes", "kept")}
        for name, column in self.rows.items():
            column.append(row[name])
        return state

    def _read(self, application: Application, files: int, counts: dict[str, int]) -> None:
        """Read the manifest, the catalogs that lead to the application, and the files."""
        text = self._get(f"{self.repository}/{names.MANIFEST}")
        try:
            digest = names.manifest_fields(text)["C"]
        except ValueError as error:
            raise Broken(str(error)) from None
        catalog = self._catalog(digest)
        for path in application.catalogs:
            found = catalog.execute(_NESTED, (path.encode("utf-8", "surrogateescape"),)).fetchone()
            if found is None:
                raise Broken(f"no nested catalog at {path!r}")
            catalog = self._catalog(found[0])
        wanted = application.files[:files]
        self._fetch_all(self._missing(self._keys(catalog, wanted, counts)))
        counts["files"] = len(wanted)

    def _keys(self, catalog: sqlite3.Connection, wanted: list[Place], counts: dict[str, int]) -> Iterator[str]:
        """Yield the keys of the objects of these files, in their order."""
        for place in wanted:
            found = catalog.execute(_FILE, place).fetchone()
            if found is None:
                raise Broken("a file is in none of the catalogs")
            digest, size = found
            counts["raw_bytes"] += size
            if digest is not None:
                yield names.key(self.repository, digest.hex())
                continue
            for (chunk,) in catalog.execute(_CHUNKS, place).fetchall():
                yield names.key(self.repository, chunk.hex(), names.CHUNK)

    def _missing(self, keys: Iterator[str]) -> Iterator[str]:
        """Yield each of these keys once, without the keys of objects that the client already has."""
        requested: set[str] = set()
        for key in keys:
            if key in requested or key in self.kept:
                self._count(objects=1, kept=1)
            else:
                requested.add(key)
                yield key

    def _fetch_all(self, keys: Iterator[str]) -> None:
        if self.pool is None:
            for key in keys:
                self._object(key)
            return
        futures = [self.pool.submit(self._object, key) for key in keys]
        try:
            for one in futures:
                one.result()
        finally:
            for one in futures:
                one.cancel()
            wait(futures)

    def _catalog(self, digest: str) -> sqlite3.Connection:
        if digest in self.opened:
            self._count(objects=1, kept=1)
            return self.opened[digest]
        key = names.key(self.repository, digest, names.CATALOG)
        db = sqlite3.connect(":memory:")
        self.opened[digest] = db
        try:
            db.deserialize(self._object(key, keep=False))
            db.execute("SELECT 1 FROM catalog LIMIT 1")
        except sqlite3.DatabaseError as error:
            raise Broken(f"{key}: the catalog does not open ({error})") from None
        except BaseException:
            self.opened.pop(digest).close()
            raise
        return db

    def _object(self, key: str, keep: bool = True) -> bytes:
        """Return an object that is named by its checksum, unpacked. Raises Broken or OutOfTime.

        keep: True to remember that the client has it.
        """
        blob = self._get(key, (names.parts(key) or ("", ""))[0])
        try:
            data = zlib.decompress(blob)
        except zlib.error as error:
            raise Broken(f"{key}: {error}") from None
        if keep:
            self.kept.add(key)
        return data

    def _get(self, key: str, digest: str = "") -> bytes:
        """Send one GET, and compare the answer with its name if the name is a checksum. Raises Broken or OutOfTime."""
        begin = clock.now_ns()
        if begin >= self.deadline_ns:
            raise OutOfTime
        worker, wire = self._wire()
        status, body, error, message = 0, b"", None, ""
        try:
            reply = wire.send("GET", f"{self.path}/{quote(key)}", {"Host": self.host, "User-Agent": AGENT})
            status, body = reply.status, reply.body
            if status != 200:
                error = message = f"Http{status}"
            elif digest and hashlib.sha1(body).hexdigest() != digest:
                error, message = MISMATCH, f"{len(body)} bytes with a wrong SHA-1"
        except (OSError, HTTPException, Refuted) as problem:
            error, message = classify(problem)[0], error_message(problem)
        size = 0 if error else len(body)
        self._note(worker, key, size, begin, status, error)
        if error:
            self.messages.setdefault(error, f"{key}: {message}")
            raise Broken(f"GET {key}: {message}")
        return body

    def _wire(self) -> tuple[int, Connection]:
        """Return the number and the connection of this thread."""
        if not hasattr(self.local, "wire"):
            self.local.number = next(self.numbers)
            url, endpoint = self.proxy or self.url, self.job.endpoint
            context = filesystems.tls_context(endpoint) if url.startswith("https") else None
            self.local.wire = Connection(url, context, TIMEOUT_S)
            self.wires.append(self.local.wire)
        return self.local.number, self.local.wire

    def _count(self, **more: int) -> None:
        with self.lock:
            for name, n in more.items():
                self.sums[name] += n

    def _note(self, worker: int, key: str, size: int, begin: int, status: int, error: str | None) -> None:
        end = clock.now_ns()
        with self.lock:
            for column, value in zip(
                self.ops.values(), (worker, "GET", key, size, 1, begin, end, status, error), strict=True
            ):
                column.append(value)
            s = self.sums
            s["gets"] += 1
            s["objects"] += 1
            s["bytes"] += size
            s["failures" if error else "done"] += 1
            if self.guard.active:
                self.guard.observe(end, s["bytes"], s["gets"], s["done"], s["failures"])

    def _forget(self) -> None:
        """Delete everything, because a cold client keeps nothing between starts."""
        self.kept.clear()
        while self.opened:
            self.opened.popitem()[1].close()

    def result(self) -> Result:
        n, whole = len(self.ops["op"]), self.rows["state"].count(WHOLE)
        wrong = self.ops["error"].count(MISMATCH)
        broken = f", {self.rows['state'].count(FAILED)} failed"
        reason = next((r for r, s in zip(self.rows["reason"], self.rows["state"], strict=True) if s == FAILED), "")
        late = (
            ""
            if whole or reason
            else "; the deadline was reached before the first start was complete: set a longer `duration`"
        )
        ops = {"client": [self.job.number] * n, "count": [1] * n} | self.ops
        return Result(
            ops,
            engine={
                "name": self.axes["engine"],
                "version": f"Python {platform.python_version()} http.client",
                "settings": {"workers": self.axes["workers"], "retries": 0, "timeout_s": TIMEOUT_S},
                "requests_per_operation": {"GET": 1},
                "errors": self.messages,
            },
            checks=[
                Check("starts", bool(whole), f"{whole} whole{broken}{': ' * bool(reason)}{reason}{late}"),
                Check("content", not wrong, f"{n - wrong} of {n} objects have the SHA-1 in their names"),
            ],
            connections={"max": len(self.wires), "samples": []},
            tables={"launches": self.rows},
        )

    def close(self) -> None:
        if self.pool:
            self.pool.shutdown()
        for wire in self.wires:
            wire.close()
        self._forget()

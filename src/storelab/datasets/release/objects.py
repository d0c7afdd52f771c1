"""Files become objects: compressed, named by the SHA-1 of the compressed bytes, big ones cut. Runs in many processes.

May import: zlib-ng in functions, `campaign.release`, `cutting`, `content`, `names`, `errors`.
"""

import contextlib
import hashlib
import multiprocessing
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import NamedTuple

from storelab.core.campaign.release import KINDS, Release
from storelab.core.errors import of_system
from storelab.datasets.release import content, cutting, names


class File(NamedTuple):
    """A file whose objects are wanted."""

    path: bytes  # below its night
    size: int
    kind: int | None  # of the generated tree, index in KINDS; None: a real file, below the folder of the version


@dataclass
class Kept:
    """What became of a file."""

    path: bytes
    size: int = 0  # as it was read
    whole: bytes | None = None  # SHA-1 of its only object
    parts: list[tuple[int, int, bytes]] = field(default_factory=list)  # offset, size, SHA-1 of each chunk
    objects: list[tuple[str, int]] = field(default_factory=list)  # name, bytes
    problem: str = ""  # why it is left out


def compressor(level: int) -> Callable[[bytes], bytes]:
    """bytes -> zlib stream."""
    from zlib_ng import zlib_ng

    return lambda data: zlib_ng.compress(data, level)


def library() -> str:
    """What compresses: the names of the objects rest on it."""
    from zlib_ng import zlib_ng

    return f"zlib-ng {zlib_ng.ZLIBNG_VERSION}"


def read(path: bytes) -> Iterator[bytes]:
    """A regular file in blocks; it never waits for the other end of a pipe."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is no regular file any more")
        while block := file.read(content.BLOCK):
            yield block


class Writer:
    """Writes the objects of files below `folder/data`."""

    def __init__(self, settings: Release, folder: Path, source: str | None, day: int):
        self.settings, self.folder, self.day = settings, os.fsencode(folder), day
        self.source = None if source is None else os.fsencode(source)
        self.compress = compressor(settings.zlib_level)

    def object(self, data: bytes, suffix: str = "") -> tuple[bytes, str, int]:
        """(SHA-1, name, bytes) of the object that was written."""
        stored = self.compress(data)
        digest = hashlib.sha1(stored)
        name = digest.hexdigest() + suffix
        with open(b"%b/%b" % (self.folder, names.place(name).encode()), "wb", buffering=0) as file:
            view = memoryview(stored)
            while view:
                view = view[file.write(view) :]
        return digest.digest(), name, len(stored)

    def _blocks(self, file: File) -> Iterator[bytes]:
        if file.kind is None:
            return read(b"%b/%b" % (self.source, file.path))
        return content.blocks(self.settings.seed, file.path, self.day, KINDS[file.kind].body, file.size)

    def file(self, file: File) -> Kept:
        """Raises UserError where objects cannot be written; a file that cannot be read is a `problem`."""
        kept, cut = Kept(file.path), self.settings.chunks
        pieces = cutting.chunks(self._blocks(file), cut.minimum, cut.average, cut.maximum)
        first = b""
        try:
            first = next(pieces, b"")
            second = next(pieces, None)
            if second is None:  # also a big file without a cut: CvmFS keeps a sole piece whole
                self._whole(kept, first)
                return kept
            for piece in (first, second):
                self._part(kept, piece)
            for piece in pieces:
                self._part(kept, piece)
        except OSError as error:
            return Kept(file.path, problem=os.strerror(error.errno) if error.errno else str(error))
        return kept

    def _written(self, data: bytes, suffix: str) -> tuple[bytes, str, int]:
        try:
            return self.object(data, suffix)
        except OSError as error:
            raise of_system(error) from None

    def _whole(self, kept: Kept, data: bytes) -> None:
        kept.whole, name, size = self._written(data, names.WHOLE)
        kept.size = len(data)
        kept.objects.append((name, size))

    def _part(self, kept: Kept, data: bytes) -> None:
        digest, name, size = self._written(data, names.CHUNK)
        kept.parts.append((kept.size, len(data), digest))
        kept.size += len(data)
        kept.objects.append((name, size))


def folders(folder: Path) -> None:
    """The folders that objects lie in."""
    for i in range(256):
        (folder / "data" / f"{i:02x}").mkdir(parents=True, exist_ok=True)


_writer: Writer  # of a process of the pool


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def begin(settings: Release, folder: Path, source: str | None, day: int) -> None:
    """A process of the pool begins; it ends when its parent does, however that ends."""
    global _writer
    _writer = Writer(settings, folder, source, day)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def batch(number: int, files: list[File]) -> tuple[int, list[Kept]]:
    """Work of a process of the pool."""
    return number, [_writer.file(file) for file in files]


def made(
    settings: Release,
    folder: Path,
    source: str | None,
    day: int,
    work: Iterable[tuple[int, list[File]]],
    processes: int,
) -> Iterator[tuple[int, list[Kept]]]:
    """Batches as they are finished. Few are under way at a time, however many there are."""
    folders(folder)
    if processes == 1:
        writer = Writer(settings, folder, source, day)
        for number, files in work:
            yield number, [writer.file(file) for file in files]
        return
    from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

    context = multiprocessing.get_context("forkserver")  # a process that has threads must not be forked
    context.set_forkserver_preload([__name__, "zlib_ng.zlib_ng", "numpy"])
    pool = ProcessPoolExecutor(processes, context, begin, (settings, folder, source, day))
    with contextlib.ExitStack() as stack:
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        due: set[Future[tuple[int, list[Kept]]]] = set()
        for number, files in work:
            due.add(pool.submit(batch, number, files))
            if len(due) > 2 * processes:
                done, due = wait(due, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while due:
            done, due = wait(due, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)

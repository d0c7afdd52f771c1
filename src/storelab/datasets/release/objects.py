"""Make the objects of files: generate the content, cut large files into chunks, compress them, and hash them.

The content is text, machine code or noise (its "body"), and depends only on the file's name, day and seed. Each process
generates one pool of 4 MiB for each body. A file is a line with a hash, followed by pieces of the pool at positions
that depend on its name. Therefore all files are different, and generating one costs little more than a copy.

Chunks are cut by content, as in CvmFS (xor32). The rolling sum of byte i is the exclusive or of the bytes i-31 ... i,
byte i-k shifted left by k. There is a cut before byte i if the difference of the sum and 2^31 - 1, as a signed 32-bit
number, has an absolute value below 2^32 / average. A chunk has at least `minimum` and at most `maximum` bytes.
(https://github.com/cvmfs/cvmfs, `chunk_detector.h`)

The name of an object is the SHA-1 of its compressed bytes. The work is distributed over several processes. May import:
numpy and zlib-ng in functions, `core`, `names`.
"""

import contextlib
import hashlib
import math
import multiprocessing
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple

from storelab.core.campaign.release import BODIES, KINDS, Release
from storelab.core.errors import system_error
from storelab.core.model import derive_seed
from storelab.datasets.release import names

WINDOW = 32
_MAGIC = 2**31 - 1
PIECE = 32 * 1024  # bytes of a piece of the pool: the window of zlib
BLOCK = 2**20
_POOL = 4 * 2**20
_WORDS, _PHRASES, _SEQUENCES = 3000, 6000, 3000
_MAX_RANDOM_BYTES = 6  # random bytes between two sequences; exclusive
_ENDS = (b"\n", b";\n    ", b", ", b"(")


def sums(data: bytes | memoryview) -> Any:
    """Return the rolling sums of the bytes from number 31 on: uint32, shape (len(data) - 31,)."""
    import numpy as np

    total = np.frombuffer(data, np.uint8).astype(np.uint32)
    for step in (1, 2, 4, 8, 16):  # combine sums over `step` bytes to sums over twice as many
        total = total[step:] ^ (total[:-step] << np.uint32(step))
    return total


def first_cut(data: bytes | memoryview, average: int) -> int | None:
    """Return the index of the first byte after the first cut, 31 or later; None if there is no cut."""
    import numpy as np

    threshold = (2**32 - 1) // average
    away = (sums(data) - np.uint32(_MAGIC)).view(np.int32)
    near = np.flatnonzero((away < threshold) & (away > -threshold))
    return int(near[0]) + WINDOW - 1 if near.size else None


def chunks(blocks: Iterable[bytes], minimum: int, average: int, maximum: int, step: int = 2**20) -> Iterator[bytes]:
    """Yield the chunks of a stream of blocks. At most `maximum` bytes and one block are in memory."""
    stream, held, ended = iter(blocks), bytearray(), False
    looked = minimum  # there is no cut before byte `looked` of `held`
    while True:
        # read one byte more, because the end of the data is not a cut
        while not ended and len(held) <= min(looked + step, maximum):
            block = next(stream, None)
            ended = block is None
            held += block or b""
        end = min(looked + step, maximum, len(held))
        cut = None
        if looked < end:
            begin = looked - WINDOW + 1
            found = first_cut(bytes(held[begin:end]), average)
            cut = None if found is None else begin + found
        if cut is None and end == maximum < len(held):
            cut = maximum
        if cut is not None:
            yield bytes(held[:cut])
            del held[:cut]
            looked = minimum
        elif end == len(held):
            if held:
                yield bytes(held)
            return
        else:
            looked = max(looked, end)


def ratio(body: str, stored: float) -> float:
    """Return the compression ratio of a file that has `stored` bytes after compression."""
    table = BODIES[body]
    for (low, first), (high, last) in pairwise(table):
        if stored < high:
            share = math.log(max(stored, low) / low) / math.log(high / low)
            return first + (last - first) * share
    return table[-1][1]


def raw_size(body: str, stored: float) -> int:
    """Return the size of a file that has about `stored` bytes after compression."""
    return max(1, round(stored * ratio(body, stored)))


def _ranked(rng: Any, n: int, size: int, power: float = 1.0) -> Any:
    """Return numbers below n, shape (size,), with the probability of number k proportional to 1 / (k + 1)^power."""
    import numpy as np

    weights = np.cumsum(1 / np.arange(1, n + 1) ** power)
    return np.searchsorted(weights / weights[-1], rng.random(size), side="right").clip(0, n - 1)


def _text(rng: Any) -> bytes:
    """Return random text: lines of phrases of words. The frequencies of phrases and words follow Zipf's law."""
    lengths = rng.integers(2, 11, _WORDS).tolist()
    words = [rng.integers(97, 123, n, dtype="u1").tobytes() for n in lengths]
    phrases = [
        b" ".join(words[i] for i in _ranked(rng, _WORDS, n)) + _ENDS[end]
        for n, end in zip(rng.integers(2, 7, _PHRASES).tolist(), rng.integers(0, 4, _PHRASES).tolist(), strict=True)
    ]
    out = bytearray()
    while len(out) < _POOL:
        out += b"".join(phrases[i] for i in _ranked(rng, _PHRASES, 20_000))
    return bytes(out[:_POOL])


def _code(rng: Any) -> bytes:
    """Return random data like machine code: byte sequences with frequencies by Zipf's law, random bytes, and zeros."""
    sequences = [rng.bytes(n) for n in rng.integers(4, 40, _SEQUENCES).tolist()]
    out = bytearray()
    while len(out) < _POOL:
        ranks, random_bytes = (
            _ranked(rng, _SEQUENCES, 20_000).tolist(),
            rng.integers(0, _MAX_RANDOM_BYTES, 20_000).tolist(),
        )
        addresses = rng.bytes(_MAX_RANDOM_BYTES * 20_000)
        for i, (rank, n) in enumerate(zip(ranks, random_bytes, strict=True)):
            out += sequences[rank] + addresses[_MAX_RANDOM_BYTES * i : _MAX_RANDOM_BYTES * i + n]
        out += bytes(2000)
    return bytes(out[:_POOL])


@lru_cache(maxsize=6)
def pool(seed: int, body: str) -> bytes:
    """Return the pool of a body: 4 MiB of content from which files are made."""
    import numpy as np

    rng = np.random.Generator(np.random.PCG64(derive_seed(seed, "release", body)))
    return {"text": _text, "code": _code}[body](rng) if body != "noise" else rng.bytes(_POOL)


def blocks(seed: int, path: bytes, day: int, body: str, size: int) -> Iterator[bytes]:
    """Yield the content of a file in blocks."""
    held = pool(seed, body)
    digest = hashlib.blake2b(b"%d %d " % (seed, day) + path, digest_size=16).digest()
    state = int.from_bytes(digest[:8], "big")
    block = bytearray(b"# " + digest.hex().encode() + b"\n")[:size]
    left = size - len(block)
    while left:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64  # Knuth's MMIX
        begin = (state >> 32) % (_POOL - PIECE)
        piece = min(PIECE, left)
        block += held[begin : begin + piece]
        left -= piece
        if len(block) >= BLOCK:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


class File(NamedTuple):
    """A file whose objects must be made."""

    path: bytes  # relative to its night
    size: int
    kind: int | None  # index in KINDS for a generated file; None for a real file in the folder of the version


@dataclass
class Kept:
    """The objects of a file, or the reason why it is skipped."""

    path: bytes
    size: int = 0  # number of bytes read
    whole: bytes | None = None  # SHA-1 of the only object of a file without chunks
    parts: list[tuple[int, int, bytes]] = field(default_factory=list)  # offset, size, SHA-1 of each chunk
    objects: list[tuple[str, int]] = field(default_factory=list)  # name, bytes
    problem: str = ""  # reason why it is skipped


def compressor(level: int) -> Callable[[bytes], bytes]:
    """Return the function that compresses bytes to a zlib stream."""
    from zlib_ng import zlib_ng

    return lambda data: zlib_ng.compress(data, level)


def library() -> str:
    """Return name and version of the compression library. The names of the objects depend on it."""
    from zlib_ng import zlib_ng

    return f"zlib-ng {zlib_ng.ZLIBNG_VERSION}"


def read(path: bytes) -> Iterator[bytes]:
    """Yield the content of a regular file in blocks. Raise OSError for other files, without waiting for a pipe."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is not a regular file any more")
        while block := file.read(BLOCK):
            yield block


class Writer:
    """A writer of objects into `folder/data`."""

    def __init__(self, settings: Release, folder: Path, source: str | None, day: int):
        self.settings, self.folder, self.day = settings, os.fsencode(folder), day
        self.source = None if source is None else os.fsencode(source)
        self.compress = compressor(settings.zlib_level)

    def object(self, data: bytes, suffix: str = "") -> tuple[bytes, str, int]:
        """Compress and write an object. Return (SHA-1, name, compressed bytes)."""
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
        return blocks(self.settings.seed, file.path, self.day, KINDS[file.kind].body, file.size)

    def file(self, file: File) -> Kept:
        """Write the objects of a file. Raise UserError if they cannot be written.

        If the file cannot be read, set `problem`.
        """
        kept, cut = Kept(file.path), self.settings.chunks
        pieces = chunks(self._blocks(file), cut.minimum, cut.average, cut.maximum)
        first = b""
        try:
            first = next(pieces, b"")
            second = next(pieces, None)
            if second is None:  # also for a large file without a cut, as in CvmFS
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
            raise system_error(error) from None

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
    """Make the 256 folders of the objects."""
    for i in range(256):
        (folder / "data" / f"{i:02x}").mkdir(parents=True, exist_ok=True)


_writer: Writer  # one per process of the pool


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def begin(settings: Release, folder: Path, source: str | None, day: int) -> None:
    """Initialise a process of the pool. It ends when its parent ends for any reason."""
    global _writer
    _writer = Writer(settings, folder, source, day)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def batch(number: int, files: list[File]) -> tuple[int, list[Kept]]:
    """Write the objects of a batch of files in a process of the pool."""
    return number, [_writer.file(file) for file in files]


def made(
    settings: Release,
    folder: Path,
    source: str | None,
    day: int,
    work: Iterable[tuple[int, list[File]]],
    processes: int,
) -> Iterator[tuple[int, list[Kept]]]:
    """Write the objects of all batches, and yield (number, objects of its files) of each when it is finished."""
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

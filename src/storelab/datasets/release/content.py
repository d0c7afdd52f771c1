"""What the files of the generated tree hold: text, code or noise, by the file's name, day and seed alone.

Each process makes one pool of each body (some MB, from the seed); a file is a line of its own and pieces of the pool,
whose begins follow from its name. So a file costs little more than a copy, and no two files are alike.
May import: numpy in functions, `campaign.release`, `model`.
"""

import hashlib
import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

from storelab.core.campaign.release import BODIES
from storelab.core.model import derive_seed

PIECE = 32 * 1024  # bytes from one place of the pool: as far as zlib looks back
BLOCK = 2**20
_POOL = 4 * 2**20
_WORDS, _PHRASES, _SEQUENCES = 3000, 6000, 3000
_OWN = 6  # fewer bytes than that stand between two sequences
_ENDS = (b"\n", b";\n    ", b", ", b"(")


def ratio(body: str, stored: float) -> float:
    """Bytes before compression over `stored` bytes after it."""
    table = BODIES[body]
    for (low, first), (high, last) in pairwise(table):
        if stored < high:
            share = math.log(max(stored, low) / low) / math.log(high / low)
            return first + (last - first) * share
    return table[-1][1]


def raw_size(body: str, stored: float) -> int:
    """Bytes of a file that takes about `stored` bytes when it is compressed."""
    return max(1, round(stored * ratio(body, stored)))


def _ranked(rng: Any, n: int, size: int, power: float = 1.0) -> Any:
    """Numbers below n, shape (size,), number k as often as 1 / (k + 1)^power tells."""
    import numpy as np

    weights = np.cumsum(1 / np.arange(1, n + 1) ** power)
    return np.searchsorted(weights / weights[-1], rng.random(size), side="right").clip(0, n - 1)


def _text(rng: Any) -> bytes:
    """Words in phrases in lines: both as frequent as their rank tells."""
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
    """Instructions in sequences that come again, as frequent as their rank tells, some bytes of their own between, and
    now and then nothing but zeros."""
    sequences = [rng.bytes(n) for n in rng.integers(4, 40, _SEQUENCES).tolist()]
    out = bytearray()
    while len(out) < _POOL:
        ranks, own = _ranked(rng, _SEQUENCES, 20_000).tolist(), rng.integers(0, _OWN, 20_000).tolist()
        addresses = rng.bytes(_OWN * 20_000)
        for i, (rank, n) in enumerate(zip(ranks, own, strict=True)):
            out += sequences[rank] + addresses[_OWN * i : _OWN * i + n]
        out += bytes(2000)
    return bytes(out[:_POOL])


@lru_cache(maxsize=6)
def pool(seed: int, body: str) -> bytes:
    """4 MiB of a body."""
    import numpy as np

    rng = np.random.Generator(np.random.PCG64(derive_seed(seed, "release", body)))
    return {"text": _text, "code": _code}[body](rng) if body != "noise" else rng.bytes(_POOL)


def blocks(seed: int, path: bytes, day: int, body: str, size: int) -> Iterator[bytes]:
    """The content of a file, in blocks."""
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

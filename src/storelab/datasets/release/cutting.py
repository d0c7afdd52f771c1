"""Where a big file is cut into chunks: where its last 32 bytes say so, as CvmFS does it (xor32). Pure.

The rolling sum of byte i is the exclusive or of the bytes i-31 ... i, byte i-k shifted left by k. A cut falls before
byte i where the sum, read as a signed number, is within 2^32 / average of 2^31 - 1 (going round at 2^32), at least
`minimum` and at most `maximum` bytes behind the last cut. (https://github.com/cvmfs/cvmfs, `chunk_detector.h`)
May import: numpy in functions; nothing of storelab.
"""

from collections.abc import Iterable, Iterator
from typing import Any

WINDOW = 32
_MAGIC = 2**31 - 1


def sums(data: bytes | memoryview) -> Any:
    """uint32, shape (len(data) - 31,): rolling sums of the bytes 31, 32, ..."""
    import numpy as np

    total = np.frombuffer(data, np.uint8).astype(np.uint32)
    for step in (1, 2, 4, 8, 16):  # of windows of `step` bytes, those of twice as many
        total = total[step:] ^ (total[:-step] << np.uint32(step))
    return total


def first_cut(data: bytes | memoryview, average: int) -> int | None:
    """Index of the first byte (31 or later) before which a cut falls; None: there is none."""
    import numpy as np

    threshold = (2**32 - 1) // average
    away = (sums(data) - np.uint32(_MAGIC)).view(np.int32)
    near = np.flatnonzero((away < threshold) & (away > -threshold))
    return int(near[0]) + WINDOW - 1 if near.size else None


def chunks(blocks: Iterable[bytes], minimum: int, average: int, maximum: int, step: int = 2**20) -> Iterator[bytes]:
    """The chunks of a stream of blocks. Never more than `maximum` bytes and a block are held."""
    stream, held, ended = iter(blocks), bytearray(), False
    looked = minimum  # no cut falls before byte `looked` of what is held
    while True:
        while not ended and len(held) <= min(looked + step, maximum):  # a byte more: a cut at the end is none
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

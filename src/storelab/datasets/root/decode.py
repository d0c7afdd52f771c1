"""Decodes baskets of a TTree to arrays of the wanted entries, without an object per basket.

May import: numpy, cramjam, xxhash. The layout of a basket is that of uproot's `models/TBasket.py` and ROOT's `TBasket`:
a key, compressed blocks of at most 16 MB, and in these the values, then, for branches of varying length, where each
entry begins. Branches of plain numbers (`Flat`) and lists of them (`Lists`) are decoded here; tests compare them with
uproot's arrays. All other branches are left to uproot.
"""

import lzma
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cramjam
import numpy as np
import xxhash

_KEY = struct.Struct(">iHiIHH")  # fNbytes, version, fObjlen, fDatime, fKeylen, fCycle
_END = struct.Struct(">Hiiii")  # version, fBufferSize, fNevBufSize, fNevBuf, fLast: before the last byte of the key
_SWAPPED = np.dtype(">i4")
_LARGE = 1000  # versions of keys above it have places of 8 bytes


class Broken(ValueError):
    """The bytes are no basket, or not one of this branch."""

    kind = "BrokenBasket"  # the error class of records


class Content(NamedTuple):
    """An unpacked basket: values, shape (n,) uint8; offsets of the entries in them, shape (entries + 1,) or None."""

    values: np.ndarray
    offsets: np.ndarray | None
    entries: int


@dataclass(frozen=True)
class Flat:
    """Branch with one number, or one array of fixed shape, per entry."""

    dtype: np.dtype  # as in the file: big-endian, shape included
    kind = "flat"


@dataclass(frozen=True)
class Lists:
    """Branch with a list of numbers per entry, after `header` bytes that are no values."""

    dtype: np.dtype
    header: int = 0
    kind = "lists"


Form = Flat | Lists


def form_of(interpretation: Any) -> Form | None:
    """How to decode a branch with this uproot interpretation; None: only uproot can."""
    from uproot.interpretation.jagged import AsJagged
    from uproot.interpretation.numerical import AsDtype

    if type(interpretation) is AsDtype and _plain(interpretation):
        return Flat(interpretation.from_dtype)
    if type(interpretation) is AsJagged and type(interpretation.content) is AsDtype and _plain(interpretation.content):
        return Lists(interpretation.content.from_dtype, interpretation.header_bytes)
    return None


def _plain(how: Any) -> bool:
    """Numbers that need no conversion except the order of their bytes."""
    return how.from_dtype.names is None and how.to_dtype == how.from_dtype.newbyteorder("=")


def place_of(data: np.ndarray) -> int:
    """Where a basket's bytes, shape (n,) uint8, say that they lie in the file. Raises Broken."""
    if len(data) < _KEY.size + 8:
        raise Broken(f"{len(data)} bytes are no basket")
    return struct.unpack_from(">q" if data[4:6].view(">u2")[0] > _LARGE else ">i", data, _KEY.size)[0]


def unpack(data: np.ndarray) -> Content:
    """The content of a basket's bytes as they are in the file, shape (n,) uint8. Raises Broken, and codec errors."""
    if len(data) < _KEY.size:
        raise Broken(f"{len(data)} bytes are no basket")
    view = memoryview(data)
    total, _, size, _, key, _ = _KEY.unpack_from(view)
    if total != len(view) or not _KEY.size + _END.size < key < total:
        raise Broken(f"a basket of {len(view)} bytes says that it has {total}, {key} of them its key")
    _, _, _, entries, last = _END.unpack_from(view, key - _END.size - 1)
    whole = data[key:] if total - key == size else decompress(view[key:], size)
    border = last - key
    if not 0 <= border <= size or entries < 0:
        raise Broken(f"a basket of {size} bytes says that its values end at {border}")
    if border == size:
        return Content(whole, None, entries)
    told = whole[border : border + 4 * (len(whole[border:]) // 4)].view(_SWAPPED)  # how many, then each, then the end
    offsets = told[1:] - key
    if len(offsets) < entries + 1:
        raise Broken(f"a basket of {entries} entries tells where {len(offsets)} begin")
    if told[0] != entries + 1:
        raise Broken(f"a basket of {entries} entries says that it tells where {told[0] - 1} begin")
    offsets[entries] = border
    return Content(whole[:border], offsets[: entries + 1], entries)


def embedded(basket: Any) -> Content:
    """The content of a basket that uproot found in the tree's header."""
    offsets = basket.byte_offsets
    return Content(basket.data, None if offsets is None else offsets.astype("i4", copy=False), basket.num_entries)


def decompress(view: memoryview, size: int) -> np.ndarray:
    """Unpacked bytes, shape (size,) uint8, of successive blocks: 9 bytes of header (ROOT's `RZip`), packed bytes."""
    out = np.empty(size, np.uint8)
    at = filled = 0
    while filled < size:
        if at + 9 > len(view):
            raise Broken(f"{size - filled} of {size} bytes are missing behind the last block")
        method = bytes(view[at : at + 2])
        packed = view[at + 3] | view[at + 4] << 8 | view[at + 5] << 16
        unpacked = view[at + 6] | view[at + 7] << 8 | view[at + 8] << 16
        block, target = view[at + 9 : at + 9 + packed], out[filled : filled + unpacked]
        if len(block) != packed or len(target) != unpacked:
            raise Broken(f"a block of {packed} bytes that gives {unpacked} does not fit")
        if method not in _METHODS:
            raise Broken(f"a block is packed by {method!r}: known are {', '.join(m.decode() for m in _METHODS)}")
        if (got := _METHODS[method](block, target)) != unpacked:
            raise Broken(f"a block gives {got} bytes and not {unpacked}")
        at, filled = at + 9 + packed, filled + unpacked
    return out


def _lz4(block: memoryview, target: np.ndarray) -> int:
    if xxhash.xxh64_intdigest(block[8:]) != int.from_bytes(block[:8], "big"):
        raise Broken("the checksum of a block packed by LZ4 is another")
    return cramjam.lz4.decompress_block_into(block[8:], target, output_len=len(target))


def _copied(plain: bytes, target: np.ndarray) -> int:
    if len(plain) == len(target):
        target[:] = np.frombuffer(plain, np.uint8)
    return len(plain)


_METHODS: dict[bytes, Callable[[memoryview, np.ndarray], int]] = {
    b"ZS": cramjam.zstd.decompress_into,
    b"L4": _lz4,
    b"ZL": lambda block, target: _copied(zlib.decompress(block), target),
    b"XZ": lambda block, target: _copied(lzma.decompress(block), target),
}


def take(form: Form, contents: Sequence[Content], wanted: Sequence[np.ndarray]) -> Any:
    """The wanted entries of baskets of one branch, in native byte order.

    For `Flat` an array, shape (n, …); for `Lists` (offsets, values), shapes (n + 1,) int64 and (m, …). wanted: for each
    basket the entries to take, counted from its first, ascending, shape (k,) int. Raises Broken if values do not fit
    the form.
    """
    dtype, shape = (form.dtype.base, form.dtype.shape) if form.dtype.subdtype else (form.dtype, ())
    native, width = dtype.newbyteorder("="), form.dtype.itemsize
    if isinstance(form, Flat):
        parts = [_values(c.values, dtype, shape, width, c.entries)[w] for c, w in zip(contents, wanted, strict=True)]
        return np.concatenate(parts).astype(native, copy=False) if parts else np.empty((0, *shape), native)
    counts, parts = [], []
    for content, entries in zip(contents, wanted, strict=True):
        if content.offsets is None:
            raise Broken("a branch of lists has a basket that does not tell where its entries begin")
        begins, ends = content.offsets[entries] + form.header, content.offsets[entries + 1]
        held = ends - begins
        if (held < 0).any() or (held % width).any():
            raise Broken(
                f"lists of values of {width} bytes have entries of {held[(held < 0) | (held % width > 0)][0]} bytes"
            )
        counts.append(held // width)
        if len(entries) and not form.header and entries[-1] - entries[0] == len(entries) - 1:
            parts.append(content.values[begins[0] : ends[-1]])
        else:
            parts += [content.values[b:e] for b, e in zip(begins.tolist(), ends.tolist(), strict=True)]
    offsets = np.zeros(sum(map(len, counts)) + 1, "i8")
    if counts:
        np.cumsum(np.concatenate(counts), out=offsets[1:])
    values = np.concatenate(parts) if parts else np.empty(0, np.uint8)
    return offsets, _values(values, dtype, shape, width, int(offsets[-1])).astype(native, copy=False)


def _values(raw: np.ndarray, dtype: np.dtype, shape: tuple[int, ...], width: int, n: int) -> np.ndarray:
    if len(raw) != n * width:
        raise Broken(f"{len(raw)} bytes are not {n} values of {width} bytes")
    return np.ascontiguousarray(raw).view(dtype).reshape((n, *shape))

"""Decode baskets of a TTree to arrays of the wanted entries, without an object per basket.

May import: numpy, cramjam, xxhash. The format of a basket is defined by ROOT's `TBasket` (in uproot:
`models/TBasket.py`): a key, then compressed blocks of at most 16 MB. The blocks contain the values and, for branches of
varying length, the offset of each entry. Branches of plain numbers (`Flat`) and lists of them (`Lists`) are decoded
here. Tests compare them with uproot's arrays, and packed ones (`Packed`) with ROOT's values. uproot decodes all other
branches.
"""

import lzma
import math
import re
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
_LARGE = 1000  # keys with a higher version have 8-byte positions


class Broken(ValueError):
    """The bytes are not a basket of this branch."""

    kind = "BrokenBasket"  # the error class of records


class Content(NamedTuple):
    """An unpacked basket. values: shape (n,) uint8; offsets: where each entry begins, shape (entries + 1,), or None."""

    values: np.ndarray
    offsets: np.ndarray | None
    entries: int


@dataclass(frozen=True)
class Packed:
    """The way in which ROOT stores values of Float16_t (`native` f4) and Double32_t (f8).

    With a factor, ROOT stores an integer, and the value is integer / factor + low. With a number of bits, it stores one
    byte for the exponent, then the sign and a mantissa of this number of bits. Otherwise it stores a float32.
    """

    native: str
    factor: float = 0.0
    low: float = 0.0
    bits: int = 0

    @property
    def stored(self) -> np.dtype:
        return np.dtype(">u4" if self.factor else "V3" if self.bits else ">f4")

    def values(self, stored: np.ndarray) -> np.ndarray:
        """Convert stored numbers to values in native byte order."""
        if self.factor:
            return (stored / self.factor + self.low).astype(self.native)
        if not self.bits:
            return stored.astype(self.native)
        parts = stored.view([("exponent", "u1"), ("mantissa", ">u2")])
        mantissa = parts["mantissa"].astype("u4")
        size = parts["exponent"].astype("u4") << 23 | (mantissa & (1 << self.bits + 1) - 1) << (23 - self.bits)
        sign = (mantissa >> self.bits + 1 & 1) << 31
        return (size | sign).view("f4").astype(self.native)


@dataclass(frozen=True)
class Flat:
    """A branch with one number, or one array of fixed shape, per entry."""

    dtype: np.dtype  # as in the file: big-endian, with the shape
    packed: Packed | None = None
    kind = "flat"


@dataclass(frozen=True)
class Lists:
    """A branch with a list of numbers per entry, after `header` bytes that are not values."""

    dtype: np.dtype
    header: int = 0
    packed: Packed | None = None
    kind = "lists"


Form = Flat | Lists


def form_of_branch(branch: Any) -> Form | None:
    """Return how to decode a branch of uproot; None if only uproot can decode it. Raise Broken, and uproot's errors."""
    return packed_form(branch) or form_of(branch.interpretation)


def packed_form(branch: Any) -> Form | None:
    """Return the form of a branch of Float16_t or Double32_t, None for other branches.

    uproot 5.7.7 mistakes dimensions for ranges, uses bit counts from 15 on (which ROOT ignores), and fails for arrays
    of Float16_t. Raise Broken.
    """
    leaves = branch.member("fLeaves")
    if len(leaves) != 1 or branch.branches:
        return None
    leaf, name = leaves[0], leaves[0].member("fTitle")
    if leaf.classname == "TLeafElement":
        native = _PACKED_TYPES.get(leaf.member("fType"))
        if native is None:
            return None
        if branch.streamer is None:
            raise Broken("the file has no class description, which says how its Float16_t or Double32_t is packed")
        packed = packing(native, str(branch.streamer.title))
    elif leaf.classname in _PACKED_LEAVES:
        name, _, kind = name.partition("/")
        if re.match(r"[fd]\[[^\]]*,", name):  # in files of older ROOT, only the branch has the dimensions
            name, kind = str(branch.title).partition("/")[0], name
        packed = packing(_PACKED_LEAVES[leaf.classname], kind)
    else:
        return None
    length = int(leaf.member("fLen"))
    shape = tuple(int(n) for n in re.findall(r"\[(\d+)\]", name)) or (length,)
    if math.prod(shape) != length:
        raise Broken(f"arrays of {length} values have the dimensions {shape} in their title")
    dtype = packed.stored if shape == (1,) else np.dtype((packed.stored, shape))
    listed = leaf.member("fLeafCount", none_if_missing=True) is not None
    return Lists(dtype, packed=packed) if listed else Flat(dtype, packed)


_PACKED_LEAVES = {"TLeafF16": "f4", "TLeafD32": "f8"}
_PACKED_TYPES = {19: "f4", 39: "f4", 9: "f8", 29: "f8"}  # of members: kFloat16, kDouble32; arrays of fixed length: + 20


def packing(native: str, title: str) -> Packed:
    """Return how ROOT packs values for a title with `[low, high, bits]`, like `GetRange` in TStreamerElement.cxx.

    The first bracket can be a dimension. If low is less than high, they are the range of values. Otherwise, a number of
    bits below 15 is the length of the mantissa. Without both, Float16_t has a mantissa of 12 bits and Double32_t is a
    float32.
    """
    whole = Packed(native, bits=12 if native == "f4" else 0)
    found = next((t.split(",") for t in re.findall(r"\[([^\]]*)\]", title)[:2] if "," in t), None)
    if found is None:
        return whole
    low, high, bits = _bound(found[0]), _bound(found[1]), 32
    if len(found) > 2 and (number := re.match(r"\s*([+-]?\d+)", found[2])):
        bits = int(number[1]) if 2 <= int(number[1]) <= 32 else 32
    if low < high:
        return Packed(native, (2.0**bits if bits < 32 else 2.0**32 - 1) / (high - low), low)
    return Packed(native, bits=bits) if bits < 15 else whole


def _bound(text: str) -> float:
    """Return a limit of a range from its text: a number, or a multiple of pi that ROOT accepts."""
    text = text.lower().replace(" ", "")
    if "pi" in text:
        times = ((("2pi", "2*pi", "twopi"), 2.0), (("pi/2",), 0.5), (("pi/4",), 0.25), (("pi",), 1.0))
        size = math.pi * next(factor for words, factor in times if any(w in text for w in words))
        return -size if "-" in text else size
    found = re.match(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text)
    return float(found[0]) if found else 0.0


def form_of(interpretation: Any) -> Form | None:
    """Return how to decode a branch with this interpretation of uproot; None if only uproot can decode it."""
    from uproot.interpretation.jagged import AsJagged
    from uproot.interpretation.numerical import AsDtype

    if type(interpretation) is AsDtype and _plain(interpretation):
        return Flat(interpretation.from_dtype)
    if type(interpretation) is AsJagged and type(interpretation.content) is AsDtype and _plain(interpretation.content):
        return Lists(interpretation.content.from_dtype, interpretation.header_bytes)
    return None


def _plain(how: Any) -> bool:
    """Return True if the numbers need no conversion except of their byte order."""
    return how.from_dtype.names is None and how.to_dtype == how.from_dtype.newbyteorder("=")


def place_of(data: np.ndarray) -> int:
    """Return the position in the file that the key of a basket declares. data: shape (n,) uint8. Raise Broken."""
    if len(data) < _KEY.size + 8:
        raise Broken(f"{len(data)} bytes are not a basket")
    return struct.unpack_from(">q" if data[4:6].view(">u2")[0] > _LARGE else ">i", data, _KEY.size)[0]


def unpack(data: np.ndarray) -> Content:
    """Unpack the bytes of a basket in the file, shape (n,) uint8. Raise Broken, and errors of codecs."""
    if len(data) < _KEY.size:
        raise Broken(f"{len(data)} bytes are not a basket")
    view = memoryview(data)
    total, _, size, _, key, _ = _KEY.unpack_from(view)
    if total != len(view) or not _KEY.size + _END.size < key < total:
        raise Broken(f"a basket of {len(view)} bytes declares {total} bytes and a key of {key}")
    _, _, _, entries, last = _END.unpack_from(view, key - _END.size - 1)
    whole = data[key:] if total - key == size else decompress(view[key:], size)
    border = last - key
    if not 0 <= border <= size or entries < 0:
        raise Broken(f"a basket of {size} bytes declares that its values end at {border}")
    if border == size:
        return Content(whole, None, entries)
    # the number of offsets, the offsets, the end
    offsets_area = whole[border : border + 4 * (len(whole[border:]) // 4)].view(_SWAPPED)
    offsets = offsets_area[1:] - key
    if len(offsets) < entries + 1:
        raise Broken(f"a basket of {entries} entries has {len(offsets)} offsets")
    if offsets_area[0] != entries + 1:
        raise Broken(f"a basket of {entries} entries declares {offsets_area[0] - 1} offsets")
    offsets[entries] = border
    return Content(whole[:border], offsets[: entries + 1], entries)


def embedded(basket: Any) -> Content:
    """Return the content of a basket that uproot found in the header of the tree."""
    offsets = basket.byte_offsets
    return Content(basket.data, None if offsets is None else offsets.astype("i4", copy=False), basket.num_entries)


def decompress(view: memoryview, size: int) -> np.ndarray:
    """Return the unpacked bytes, shape (size,) uint8, of blocks with a 9-byte header (ROOT's `RZip`)."""
    out = np.empty(size, np.uint8)
    at = filled = 0
    while filled < size:
        if at + 9 > len(view):
            raise Broken(f"{size - filled} of {size} bytes are missing after the last block")
        method = bytes(view[at : at + 2])
        packed = view[at + 3] | view[at + 4] << 8 | view[at + 5] << 16
        unpacked = view[at + 6] | view[at + 7] << 8 | view[at + 8] << 16
        block, target = view[at + 9 : at + 9 + packed], out[filled : filled + unpacked]
        if len(block) != packed or len(target) != unpacked:
            raise Broken(f"a block of {packed} bytes that unpacks to {unpacked} does not fit")
        if method not in _METHODS:
            known = ", ".join(m.decode() for m in _METHODS)
            raise Broken(f"a block is packed by {method!r}{_OLD.get(method, '')}; the known methods are {known}")
        if (got := _METHODS[method](block, target)) != unpacked:
            raise Broken(f"a block unpacks to {got} bytes instead of {unpacked}")
        at, filled = at + 9 + packed, filled + unpacked
    return out


def _lz4(block: memoryview, target: np.ndarray) -> int:
    if xxhash.xxh64_intdigest(block[8:]) != int.from_bytes(block[:8], "big"):
        raise Broken("the checksum of a block packed by LZ4 is wrong")
    return cramjam.lz4.decompress_block_into(block[8:], target, output_len=len(target))


def _copied(plain: bytes, target: np.ndarray) -> int:
    if len(plain) == len(target):
        target[:] = np.frombuffer(plain, np.uint8)
    return len(plain)


_OLD = {b"CS": ", of ROOT 3 and before"}
_METHODS: dict[bytes, Callable[[memoryview, np.ndarray], int]] = {
    b"ZS": cramjam.zstd.decompress_into,
    b"L4": _lz4,
    b"ZL": lambda block, target: _copied(zlib.decompress(block), target),
    b"XZ": lambda block, target: _copied(lzma.decompress(block), target),
}


def take(form: Form, contents: Sequence[Content], wanted: Sequence[np.ndarray | range]) -> Any:
    """Return the wanted entries of unpacked baskets of one branch, in native byte order.

    For `Flat`, return an array, shape (n, …). For `Lists`, return (offsets, values), shapes (n + 1,) int64 and (m, …).
    wanted: for each basket, the ascending entries to take, counted from its first entry: a range, or an array of int,
    shape (k,). Raise Broken if the values do not match the form.
    """
    dtype, shape = (form.dtype.base, form.dtype.shape) if form.dtype.subdtype else (form.dtype, ())
    width = form.dtype.itemsize
    if isinstance(form, Flat):
        parts = [np.empty((0, *shape), dtype)]
        for content, entries in zip(contents, wanted, strict=True):
            parts.append(_values(content.values, dtype, shape, width, content.entries)[_at(entries)])
        return _native(form, np.concatenate(parts))
    counts, parts = [], []
    for content, entries in zip(contents, wanted, strict=True):
        if content.offsets is None:
            raise Broken("a branch of lists has a basket without the offsets of its entries")
        begins, ends = content.offsets[:-1][_at(entries)] + form.header, content.offsets[1:][_at(entries)]
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
    return offsets, _native(form, _values(values, dtype, shape, width, int(offsets[-1])))


def _at(entries: np.ndarray | range) -> np.ndarray | slice:
    return slice(entries.start, entries.stop) if isinstance(entries, range) else entries


def _native(form: Form, stored: np.ndarray) -> np.ndarray:
    return form.packed.values(stored) if form.packed else stored.astype(stored.dtype.newbyteorder("="), copy=False)


def _values(raw: np.ndarray, dtype: np.dtype, shape: tuple[int, ...], width: int, n: int) -> np.ndarray:
    if len(raw) != n * width:
        raise Broken(f"{len(raw)} bytes are not {n} values of {width} bytes")
    return np.ascontiguousarray(raw).view(dtype).reshape((n, *shape))

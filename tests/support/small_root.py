"""Write small ROOT files with uproot: a tree with numbers, lists and strings, an RNTuple, and changed copies."""

import struct
from pathlib import Path

import awkward as ak
import numpy as np
import uproot


def columns(begin: int, n: int) -> dict:
    """Return the columns of n entries: numbers x from `begin` on, numbers n, lists of 0 to 3 numbers, and words."""
    return {
        "x": np.arange(float(n)) + begin,
        "n": np.arange(n, dtype="i4"),
        "hits": ak.values_astype(ak.Array([[float(i)] * (i % 4) for i in range(n)]), "f4"),
        "word": ak.Array([f"word {i + begin}" for i in range(n)]),
    }


def tree(path: Path, baskets: int = 3, entries: int = 20, compression=None, other: bool = False) -> Path:
    """Write a tree `events`, and optionally a tree `other`. Each branch has `baskets` baskets of `entries` entries."""
    with uproot.recreate(path, compression=compression) as file:
        made = file.mktree("events", {"x": "f8", "n": "i4", "hits": "var * float32", "word": "string"})
        for at in range(0, baskets * entries, entries):
            made.extend(columns(at, entries))
        if other:
            file.mktree("other", {"y": "f4"}).extend({"y": np.arange(5, dtype="f4")})
    return path


def ntuple(path: Path, clusters: tuple[int, ...] = (40, 40, 20)) -> Path:
    """Write an RNTuple `events` whose clusters have these numbers of entries."""
    with uproot.recreate(path) as file:
        made = file.mkrntuple("events", {k: ak.Array(v) for k, v in columns(0, clusters[0]).items()})
        begin = clusters[0]
        for n in clusters[1:]:
            made.extend({k: ak.Array(v) for k, v in columns(begin, n).items()})
            begin += n
    return path


def place(path: Path, name: str, number: int) -> tuple[int, int, int, int]:
    """Return (offset, size, bytes of the key, bytes of the values) of a basket of `events`."""
    with uproot.open(path) as file:
        branch = file["events"][name]
        basket = branch.basket(number)
        where = (int(branch.member(m)[number]) for m in ("fBasketSeek", "fBasketBytes"))
        return *where, basket.member("fKeylen"), basket.border


def changed(path: Path, at: int, layout: str, *values: int) -> None:
    """Write values at an offset of the file, packed by a `struct` format."""
    data = bytearray(path.read_bytes())
    struct.pack_into(layout, data, at, *values)
    path.write_bytes(data)

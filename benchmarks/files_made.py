"""Write ROOT files for `files.py` with uproot. A case is a file, a tree in it, and the content of its branches.

The content is computed by the formulas in this module: a list of entries for each branch. None: only uproot's own
`array()` knows it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot

CODECS = {"plain": None, "zlib": uproot.ZLIB(1), "lz4": uproot.LZ4(1), "zstd": uproot.ZSTD(1), "lzma": uproot.LZMA(1)}
NUMBERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "?")
LISTS = tuple(n for n in NUMBERS if n != "?")
STEP = 40  # entries of a basket or cluster
Truth = dict[str, Any]


@dataclass
class Case:
    """A file with its tree and its true content: branch -> entries. refused: part of the expected error, or ''."""

    path: Path
    tree: str | None
    truth: Truth = field(default_factory=dict)
    refused: str = ""


def numbers(dtype: str, at: int, n: int) -> np.ndarray:
    values = np.arange(at, at + n) % 50
    return (values % 3 == 0) if dtype == "?" else values.astype(dtype)


def lists(dtype: str, at: int, n: int, most: int = 4) -> ak.Array:
    """Return lists for n entries: entry i has i modulo `most` values."""
    counts = np.arange(at, at + n) % most
    values = np.concatenate([(np.arange(c) + i) % 100 for i, c in zip(range(at, at + n), counts, strict=True)] or [[]])
    return ak.unflatten(ak.Array(values.astype(dtype)), counts)


def words(at: int, n: int) -> list[str]:
    return [f"entry {i}" * (i % 3) for i in range(at, at + n)]


def tree(
    path: Path, codec: Any, kinds: dict[str, Any], content: Callable[[int, int], dict[str, Any]], parts: list[int]
) -> Truth:
    """Write a TTree `events` with one basket of each branch for each part; return its content."""
    truth: Truth = {}
    with uproot.recreate(path, compression=codec) as file:
        made, at = file.mktree("events", kinds), 0
        for n in parts:
            data = content(at, n)
            made.extend(data)
            at += n
            for name, values in data.items():
                truth.setdefault(name, []).extend(ak.to_list(values))
    return truth


def ntuple(path: Path, codec: Any, content: Callable[[int, int], Any], parts: list[int]) -> Truth:
    """Write an RNTuple `events` with one cluster for each part; return its content."""
    truth: Truth = {}
    with uproot.recreate(path, compression=codec) as file:
        made, at = None, 0
        for n in parts:
            data = {k: ak.Array(v) for k, v in content(at, n).items()}
            if made is None:
                made = file.mkrntuple("events", data)
            else:
                made.extend(data)
            at += n
            for name, values in data.items():
                truth.setdefault(name, []).extend(ak.to_list(values))
    return truth


def shapes() -> dict[str, tuple[dict[str, Any], Callable[[int, int], dict[str, Any]]]]:
    """Return kind of tree -> (types for `mktree`, function for the content of n entries from `at` on)."""
    return {
        "numbers": (
            {d.replace("?", "bool"): d for d in NUMBERS},
            lambda at, n: {d.replace("?", "bool"): numbers(d, at, n) for d in NUMBERS},
        ),
        "lists": ({d: f"var * {np.dtype(d).name}" for d in LISTS}, lambda at, n: {d: lists(d, at, n) for d in LISTS}),
        "words": (
            {"word": "string", "x": "f8"},
            lambda at, n: {"word": ak.Array(words(at, n)), "x": numbers("f8", at, n)},
        ),
        "arrays": (
            {"three": np.dtype(("f4", (3,))), "six": np.dtype(("i4", (2, 3)))},
            lambda at, n: {
                "three": numbers("f4", at, 3 * n).reshape(n, 3),
                "six": numbers("i4", at, 6 * n).reshape(n, 2, 3),
            },
        ),
        "records": (
            {"jet": "var * {pt: float32, charge: int32, id: uint8}"},
            lambda at, n: {
                "jet": ak.zip({"pt": lists("f4", at, n), "charge": lists("i4", at, n), "id": lists("u1", at, n)})
            },
        ),
    }


def fields(at: int, n: int) -> dict[str, Any]:
    """Return fields of an RNTuple: all kinds of numbers, texts, records, and lists of lists, texts and records."""
    outer = np.arange(at, at + n) % 3
    inner = np.concatenate([np.arange(c) for c in outer])
    letters = ak.Array([f"k{k}" for k in inner]) if len(inner) else ak.Array(["k"])[:0]
    return {d.replace("?", "bool"): numbers(d, at, n) for d in NUMBERS} | {
        "word": words(at, n),
        "list": lists("f4", at, n),
        "nested": ak.unflatten(ak.unflatten(np.repeat(inner, inner).astype("f4"), inner), outer),
        "words": ak.unflatten(letters, outer),
        "jet": ak.zip({"pt": lists("f4", at, n), "charge": lists("i4", at, n)}),
        "point": ak.zip({"x": numbers("f8", at, n), "y": numbers("i4", at, n)}),
    }


def renamed(path: Path, pairs: dict[bytes, bytes]) -> None:
    """Replace names of two letters by others of two letters in an uncompressed file."""
    data = path.read_bytes()
    for old, new in pairs.items():
        data = data.replace(b"\x02" + old, b"\x02" + new)
    path.write_bytes(data)


def doubled(path: Path) -> Truth:
    """Write a file in which two branch names occur twice: one for two numbers, one for lists and texts."""
    kinds = {"xa": "f8", "xb": "i4", "ya": "var * float32", "yb": "string"}

    def content(at, n):
        return {
            "xa": numbers("f8", at, n),
            "xb": numbers("i4", 2 * at, n),
            "ya": lists("f4", at, n),
            "yb": ak.Array(words(at, n)),
        }

    truth = tree(path, None, kinds, content, [STEP] * 3)
    renamed(path, {b"xb": b"xa", b"yb": b"ya"})
    return {"xa": truth["xa"], "xa#2": truth["xb"], "ya": truth["ya"], "ya#2": truth["yb"]}


def several(path: Path) -> Truth:
    """Write trees in folders, and an RNTuple in one of the folders."""
    with uproot.recreate(path) as file:
        for name in ("a", "folder/a", "folder/deeper/b"):
            file.mktree(name, {"x": "f8"}).extend({"x": np.arange(30.0) + len(name)})
        file.mkrntuple("folder/tuple", {"x": np.arange(10.0)})
    return {"x": (np.arange(30.0) + len("folder/deeper/b")).tolist()}


def long(path: Path) -> Truth:
    """Write a basket that is larger than one compressed block of 16 MB."""
    values = np.repeat(np.arange(2100.0), 1000)
    with uproot.recreate(path, compression=uproot.ZSTD(1)) as file:
        file.mktree("events", {"x": "f8"}).extend({"x": values})
    return {"x": values}  # a list of two million would take a minute


def by_uproot(folder: Path) -> Iterator[Case]:
    """Write the files one after the other, and yield their cases."""
    for codec, how in CODECS.items():
        for kind, (types, content) in shapes().items():
            path = folder / f"{kind}-{codec}.root"
            truth = tree(path, how, types, content, [STEP] * 3)
            if kind == "records":
                jets = truth.pop("jet")
                truth = {f"jet_{k}": [[j[k] for j in entry] for entry in jets] for k in jets[1][0]}
            yield Case(path, "events", truth)
        yield Case(path := folder / f"ntuple-{codec}.root", None, ntuple(path, how, fields, [STEP] * 3))
    types, content = shapes()["lists"]
    for name, parts in {
        "one-entry": [1],
        "many-baskets": [1] * 40,
        "uneven": [1, 37, 2, 5],
        "empty-first": [0, 20, 20],
        "empty-between": [20, 0, 20],
        "empty-last": [20, 20, 0],
    }.items():
        yield Case(path := folder / f"{name}.root", None, tree(path, uproot.ZLIB(1), types, content, parts))
        tuples = [p for p in parts if p]
        yield Case(path := folder / f"{name}-ntuple.root", None, ntuple(path, uproot.ZLIB(1), fields, tuples))
    none = lambda at, n: {"x": numbers("f8", at, n), "hits": lists("f4", 0, n, 1)}  # noqa: E731
    yield Case(
        path := folder / "no-value.root",
        None,
        tree(path, uproot.LZ4(1), {"x": "f8", "hits": "var * float32"}, none, [STEP] * 3),
    )
    yield Case(path := folder / "doubled.root", "events", doubled(path))
    yield Case(path := folder / "several.root", "folder/deeper/b", several(path))
    yield Case(path := folder / "long.root", "events", long(path))
    yield Case(path := folder / "empty.root", None, tree(path, None, types, content, []), refused="is empty")
    with uproot.recreate(path := folder / "no-tree.root") as file:
        file["histogram"] = np.histogram(np.arange(10.0))
    yield Case(path, None, refused="it has none")
    for name, bytes_, word in (
        ("text", b"event;pt;eta\n" * 99, "is not a ROOT file"),
        ("nothing", b"", "is empty (0 bytes)"),
        ("start", b"root", "is cut off (4 bytes"),
    ):
        (path := folder / f"{name}.root").write_bytes(bytes_)
        yield Case(path, None, refused=word)
    whole = (folder / "lists-zlib.root").read_bytes()
    (path := folder / "cut.root").write_bytes(whole[:-100])
    yield Case(path, None, refused=f"is cut off ({len(whole) - 100} of {len(whole)} bytes)")

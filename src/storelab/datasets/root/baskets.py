"""Baskets of a ROOT file: their table (the side-car file), selections for sparse reads, and the byte ranges to read.

May import: numpy, pyarrow, `core`; uproot in functions. The selections follow Arsuaga-Rios et al., "Using S3 cloud
storage with ROOT and CvmFS", J. Phys. Conf. Ser. 664 (2015) 022001 (by volume: its section on volume; by entries: Table
2). The volume is the sum of the compressed sizes of the free baskets. In small files, and for the last entries of some
files, baskets are embedded in the tree's header. They are read with the header and need no byte ranges. Their rows have
offset -1, and size and CRC-32 of their content in the unpacked header (values, then offsets of the entries). This size
is uncompressed, because the header is packed as a whole. The volume includes it, because branches are ordered by size;
`ranges()` and the needed bytes do not.

The name of a branch is its full path (`a/b` if it is split). If several branches have the same path, the first one in
the tree has this name, and the others are `path#2`, `path#3` …, because `tree[path]` returns only one of them.
"""

import itertools
import json
import math
import os
import random
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storelab.core import records

COLUMNS = ("branch", "basket", "entry_start", "entry_stop", "offset", "size")  # of `Baskets`
SCHEMA = pa.schema(
    [
        ("branch", pa.dictionary(pa.int32(), pa.string())),
        ("basket", pa.int32()),
        *((name, pa.int64()) for name in ("entry_start", "entry_stop", "offset", "size")),
        ("crc32", pa.uint32()),
    ]
)


def by_place(found: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the branches by unique names, in the order of the tree. found: (path, branch)."""
    pairs = list(found)
    taken, times, out = {path for path, _ in pairs}, dict[str, int](), dict[str, Any]()
    for path, branch in pairs:
        name = path
        while name in out or (name != path and name in taken):
            times[path] = times.get(path, 1) + 1
            name = f"{path}#{times[path]}"
        out[name] = branch
    return out


def branches_of(tree: Any) -> dict[str, Any]:
    """Return the branches of uproot's TTree by name, parents before their members."""
    return by_place(tree.iteritems(recursive=True, full_paths=True))


@dataclass(frozen=True)
class Baskets:
    """A table of the baskets of some branches, as arrays of shape (n,), ordered by branch and basket.

    names: of all branches, also of those without baskets; branch: index into `names`; entry_start: first entry;
    entry_stop: one after the last entry; offset, size: bytes in the file, including the key (embedded baskets: see
    the module); inside: uproot's objects of embedded baskets by row, if the tree is open.
    """

    names: list[str]
    branch: np.ndarray
    basket: np.ndarray
    entry_start: np.ndarray
    entry_stop: np.ndarray
    offset: np.ndarray
    size: np.ndarray
    inside: dict[int, Any] = field(default_factory=dict)

    @property
    def embedded(self) -> int:
        """Return the number of branches with embedded baskets."""
        return len(np.unique(self.branch[self.offset < 0]))

    @classmethod
    def from_tree(cls, tree: Any, names: Sequence[str] | None = None) -> "Baskets":
        """Return the baskets from uproot's branch metadata.

        tree: a TTree, or the result of `branches_of()`; names: default all. This reads the members instead of
        `entry_offsets`, which raises an error if the baskets do not have all entries. Embedded baskets get no rows if
        they cannot be parsed, or if they do not have exactly the entries after the free baskets.
        """
        branches = tree if isinstance(tree, dict) else branches_of(tree)
        names = list(branches) if names is None else list(names)
        columns: dict[str, list[np.ndarray]] = {
            k: [np.empty(0, "i8")] for k in ("branch", "basket", "start", "stop", "offset", "size")
        }
        inside: dict[int, Any] = {}
        rows = 0
        for i, name in enumerate(names):
            branch = branches[name]
            seek, size, entry = (np.asarray(branch.member(m)) for m in ("fBasketSeek", "fBasketBytes", "fBasketEntry"))
            free = seek[: branch.member("fWriteBasket")]
            n = len(free) if free.all() else int((free == 0).argmax())
            # A file that was not closed properly does not have the last entry number.
            edges = entry[: n + 1] if len(entry) > n else np.append(entry[:n], branch.member("fEntryNumber"))
            stop, size, seek = edges[1 : n + 1], size[:n], seek[:n]
            if branch.num_entries > (begun := int(edges[n]) if n else 0) and (held := _inside(branch, begun)):
                inside |= {rows + n + k: basket for k, basket in enumerate(held)}
                stop = np.append(stop, begun + np.cumsum([b.num_entries for b in held]))
                size, seek = np.append(size, [_plain(b).nbytes for b in held]), np.append(seek, np.full(len(held), -1))
            rows += (m := len(stop))
            start = np.concatenate((edges[:1] if n else [0], stop[:-1]))[:m]
            parts = (np.full(m, i), np.arange(m), start, stop, seek, size)
            for column, part in zip(columns.values(), parts, strict=True):
                column.append(part.astype("i8"))
        return cls(names, *(np.concatenate(c) for c in columns.values()), inside)

    @classmethod
    def from_table(cls, table: pa.Table) -> "Baskets":
        """Return the baskets of a `basket_table()`, whose chunks are combined."""
        column = table["branch"].combine_chunks()
        arrays = [table[k].to_numpy().astype("i8") for k in ("basket", "entry_start", "entry_stop", "offset", "size")]
        return cls(column.dictionary.to_pylist(), column.indices.to_numpy().astype("i8"), *arrays)

    def __len__(self) -> int:
        return len(self.branch)

    def chosen(self, branches: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of these branches, in their order, and the branch index of each row, shapes (m,)."""
        place = {name: i for i, name in enumerate(branches)}
        code = np.array([place.get(name, -1) for name in self.names])[self.branch]
        rows = np.lexsort((self.basket, code))
        rows = rows[code[rows] >= 0]
        return rows, code[rows]

    def inside_crc(self, row: int) -> int:
        """Return the CRC-32 of the content of an embedded basket in the header."""
        return zlib.crc32(_plain(self.inside[row]))


def _inside(branch: Any, begun: int) -> list[Any]:
    """Return uproot's objects of the embedded baskets from entry `begun` on; [] if they are invalid or incomplete."""
    try:
        found = [b for b in branch.embedded_baskets if b.num_entries]
    except Exception:  # noqa: BLE001 - uproot raises many classes if it cannot parse them
        return []
    return found if sum(b.num_entries for b in found) == branch.num_entries - begun else []


def _plain(basket: Any) -> np.ndarray:
    """Return the values and then the offsets of an embedded basket as bytes, shape (n,) uint8."""
    offsets = np.empty(0, "<i4") if basket.byte_offsets is None else np.asarray(basket.byte_offsets, "<i4")
    return np.concatenate((np.asarray(basket.data, "u1"), offsets.view("u1")))


def basket_table(path: Path, tree: str) -> pa.Table:
    """Return one row per basket of a local file.

    Columns: `branch, basket, entry_start, entry_stop, offset, size, crc32`; size and crc32 of the compressed basket.
    Metadata `storelab`: `{"tree", "entries", "branches", "embedded_branches"}`.
    """
    import uproot

    with uproot.open({str(path): None}) as file:
        found = file[tree]
        return table_of(Baskets.from_tree(found), path, found.name, int(found.num_entries))


def table_of(b: Baskets, path: Path, tree: str, entries: int) -> pa.Table:
    """Return the table of these baskets of a local file, as `basket_table()` does."""
    facts = {"tree": tree, "entries": entries, "branches": len(b.names), "embedded_branches": b.embedded}
    crc = np.empty(len(b), "u4")
    with path.open("rb") as f:  # reads instead of mapping, because a mapped file counts as memory
        for row in np.argsort(b.offset).tolist():
            crc[row] = (
                b.inside_crc(row)
                if row in b.inside
                else zlib.crc32(os.pread(f.fileno(), int(b.size[row]), int(b.offset[row])))
            )
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(b.branch, pa.int32()), pa.array(b.names, pa.string())),
        *(
            pa.array(c, f.type)
            for c, f in zip(
                (b.basket, b.entry_start, b.entry_stop, b.offset, b.size, crc), list(SCHEMA)[1:], strict=True
            )
        ),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA.with_metadata({"storelab": json.dumps(facts)}))


def facts(table: pa.Table) -> dict[str, Any]:
    """Return `{"tree", "entries", "branches", "embedded_branches"}` of a basket table."""
    return json.loads(table.schema.metadata[b"storelab"])


def write(table: pa.Table, path: Path) -> None:
    """Write the side-car file as Parquet, atomically."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_statistics=False)
    records.write_atomic(path, sink.getvalue().to_pybytes())


def read(path: Path) -> pa.Table:
    """Read a side-car file. Raise OSError if it is missing, ValueError if its columns are wrong."""
    table = records.read_table(path)
    if table.schema != SCHEMA or b"storelab" not in (table.schema.metadata or {}):
        raise ValueError(f"{path.name} is not a table of baskets: its columns are {', '.join(table.schema.names)}")
    return table


def _part(n: int, percent: float) -> Fraction:
    """Return this percentage of n without rounding errors: 0.1 % of 1000 is exactly 1."""
    if not 0 < percent <= 100:
        raise ValueError(f"{percent} is not a percentage in (0, 100]")
    return n * Fraction(str(percent)) / 100


def select_branches(table: pa.Table, volume_percent: float, without: Collection[str] = ()) -> list[str]:
    """Return the smallest branches whose total compressed size is within a percentage of the volume.

    Branches are ordered by size, then name. At least one is selected. Branches without baskets are never selected.
    Branches in `without` are not selected and do not count in the volume. Raise ValueError if the table is empty or the
    percentage is out of range.
    """
    grouped = table.group_by("branch").aggregate([("size", "sum")])
    found = zip(grouped["size_sum"].to_pylist(), grouped["branch"].cast(pa.string()).to_pylist(), strict=True)
    sizes = sorted((size, name) for size, name in found if name not in without)
    limit, volume, out = _part(sum(s for s, _ in sizes), volume_percent), 0, []
    if not sizes:
        raise ValueError("the table has no baskets")
    for size, name in sizes:
        volume += size
        if out and volume > limit:
            break
        out.append(name)
    return out


def select_entries(n_entries: int, percent: float, seed: int) -> np.ndarray:
    """Return distinct random entries, ascending, shape (k,) int64. k: this percentage of all entries, rounded up.

    Raise ValueError if the tree is empty or the percentage is out of range.
    """
    k = max(1, math.ceil(_part(n_entries, percent)))
    if k >= n_entries:
        if n_entries < 1:
            raise ValueError("the tree has no entries")
        return np.arange(n_entries, dtype="i8")
    return np.array(sorted(random.Random(seed).sample(range(n_entries), k)), dtype="i8")


def ranges(
    table: pa.Table | Baskets, branches: Sequence[str], entries: np.ndarray | range
) -> tuple[np.ndarray, int, list[tuple[int, int]]]:
    """Return the byte ranges to read for these entries of these branches: each free basket once.

    entries: an ascending array, or a range. Return (row numbers by ascending offset, shape (n,); the needed bytes,
    which are the sum of the sizes; [(offset, size)] of these rows). If several branches share data (pages of an
    RNTuple), only the row of the first branch is returned.
    """
    b = table if isinstance(table, Baskets) else Baskets.from_table(table)
    rows = _hit(b, branches, entries, b.offset >= 0)
    rows = rows[np.argsort(b.offset[rows], kind="stable")]
    rows = rows[np.diff(b.offset[rows], prepend=-1) > 0]
    return rows, int(b.size[rows].sum()), list(zip(b.offset[rows].tolist(), b.size[rows].tolist(), strict=True))


def embedded_rows(b: Baskets, branches: Sequence[str], entries: np.ndarray) -> np.ndarray:
    """Return the rows of the embedded baskets with these (ascending) entries of these branches, shape (n,)."""
    inside = b.offset < 0
    return _hit(b, branches, entries, inside) if inside.any() else np.empty(0, "i8")


def _hit(b: Baskets, branches: Sequence[str], entries: np.ndarray | range, kind: np.ndarray) -> np.ndarray:
    wanted = np.isin(np.array(b.names, dtype=object), list(branches))[b.branch]
    if isinstance(entries, range):
        hit = np.maximum(b.entry_start, entries.start) < np.minimum(b.entry_stop, entries.stop)
    else:
        entries = np.asarray(entries)
        hit = np.searchsorted(entries, b.entry_start) < np.searchsorted(entries, b.entry_stop)
    return np.flatnonzero(kind & wanted & hit)


def merge(offsets: np.ndarray, sizes: np.ndarray, gap: int) -> tuple[np.ndarray, np.ndarray]:
    """Merge ranges (ascending offsets) whose distance is at most `gap` bytes; return starts and stops, shape (m,) each.

    The rule is that of uproot's `CoalesceConfig(max_range_gap=gap)`. Each of the m results is one GET request.
    """
    if not len(offsets):
        return np.empty(0, "i8"), np.empty(0, "i8")
    reach = np.maximum.accumulate(offsets + sizes)
    first = np.concatenate(([True], offsets[1:] - reach[:-1] > gap))
    return offsets[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(offsets) - 1)]


def by_branch(b: Baskets, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Group rows by branch: yield (index of the branch, positions of its baskets in `rows`) for each branch."""
    order = np.lexsort((b.basket[rows], b.branch[rows]))
    codes = b.branch[rows][order]
    edges = np.flatnonzero(np.diff(codes, prepend=-1, append=-1))
    for begin, end in itertools.pairwise(edges):
        yield int(codes[begin]), order[begin:end]

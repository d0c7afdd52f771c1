"""One selection read of a ROOT file, basket by basket, through uproot on a counted s3fs.

May import: uproot, awkward, numpy, `datasets.root`, `engines.common`, `engines.uproot.s3fs_counted`. Phases: open
(header, tree, branches) → plan (ranges from uproot's branch metadata) → transfer (one `chunks()` call of uproot's
source) → verify (CRC-32 against the side-car; counted in no phase) → decompress (`Model_TBasket`) → deserialise
(uproot's interpretation, cut to the wanted entries). Nothing that was decoded is kept.
"""

import queue
import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import wait
from typing import Any

import cramjam  # noqa: F401 - uproot imports it at the first basket: this must not be measured
import numpy as np
import pyarrow as pa
import uproot
from fsspec.asyn import FSTimeoutError
from uproot.models.TBasket import Model_TBasket
from uproot.source.coalesce import CoalesceConfig
from uproot.source.cursor import Cursor

from storelab.core import clock
from storelab.datasets.root import baskets
from storelab.datasets.root.branches import branches_of
from storelab.datasets.root.by_uproot import how, interpret
from storelab.datasets.root.pages import Pages
from storelab.engines.common.selections import Late, WrongData, as_staged
from storelab.engines.uproot.s3fs_counted import CountedSource, OnceFileSystem


class Reader:
    """A ROOT file in a store and the branches to read from it.

    url: `s3://bucket/key`; tree: its name; side_car: `baskets.basket_table()` of the staged file; gap: largest gap, in
    bytes, over which ranges are merged. After `latest_ns` every phase raises Late.
    """

    def __init__(self, fs: OnceFileSystem, url: str, tree: str, side_car: pa.Table, branches: list[str], gap: int):
        self.fs, self.url, self.name, self.branches, self.gap = fs, url, tree, branches, gap
        self.file: Any = None
        self.layout: baskets.Baskets | None = None
        staged = baskets.Baskets.from_table(side_car)
        rows, code = staged.chosen(branches)
        columns = (getattr(staged, k)[rows] for k in ("basket", "entry_start", "entry_stop", "offset", "size"))
        self.staged = baskets.Baskets(branches, code, *columns)
        self.crc = side_car["crc32"].to_numpy()[rows]

    def open(self) -> None:
        """Open the file, read the tree's header with all branches. Raises Late, or what uproot and s3fs raise."""
        try:
            file = uproot.open(
                {self.url: None},
                handler=CountedSource,
                fs=self.fs,
                coalesce_config=CoalesceConfig(max_range_gap=self.gap),
                object_cache=None,
                array_cache=None,
            )
            tree = file[self.name]
            self.file, self.source = file, tree.file.source
            self.look(tree)
        except FSTimeoutError:
            raise Late from None

    def look(self, tree: Any) -> None:
        """Find the tree's branches, and how to interpret those to be read.

        Objects need the file's class descriptions, which uproot fetches when first asked.
        """
        self.objects = branches_of(tree)
        for name in self.branches:
            how(self.objects[name])

    def found(self) -> baskets.Baskets:
        """The branches to read, from uproot's metadata."""
        return baskets.Baskets.from_tree(self.objects, self.branches)

    def plan(self, entries: np.ndarray) -> tuple[np.ndarray, int, list[tuple[int, int]]]:
        """`baskets.ranges()` of these entries, from uproot's metadata. Raises WrongData if the side-car differs."""
        if self.layout is None:
            found = self.found()
            as_staged(found, self.staged, self.crc, self.url)
            self.layout = found
        return baskets.ranges(self.layout, self.branches, entries)

    def transfer(self, ranges: list[tuple[int, int]]) -> list[Any]:
        """All ranges by one call of uproot's source: chunks in the same order, each of the right length."""
        if not ranges:
            return []  # everything came with the header
        notifications: queue.Queue = queue.Queue()
        self.source.futures.clear()
        chunks = self.source.chunks([(offset, offset + size) for offset, size in ranges], notifications)
        for _ in chunks:
            try:
                chunk = notifications.get(timeout=max(0.0, (self.fs.latest_ns - clock.now_ns()) / 1e9))
            except queue.Empty:
                raise Late from None
            chunk.wait(insist=True)  # raises what the request raised, or OSError for a wrong length
        return chunks

    def settle(self, timeout_s: float) -> None:
        """After an error: let requests in flight end, or cancel them: their bytes belong to the read that asked."""
        if self.file is not None:
            for future in wait(self.source.futures, timeout=max(0.0, timeout_s)).not_done:
                future.cancel()

    def verify(self, rows: np.ndarray, chunks: list[Any]) -> None:
        """Raises WrongData for the first basket whose CRC-32 differs from the side-car's."""
        for crc, chunk in zip(self.crc[rows].tolist(), chunks, strict=True):
            if zlib.crc32(chunk.raw_data) != crc:
                raise WrongData(
                    "ChecksumMismatch",
                    f"bytes {chunk.start} to {chunk.stop - 1} of {self.url} are not those that were staged",
                )

    def decompress(self, rows: np.ndarray, chunks: list[Any]) -> list[Any]:
        """uproot's basket objects, in the order of `rows`."""
        layout, file, out = self.layout, self.file.file, []
        for code, number, chunk in zip(layout.branch[rows].tolist(), layout.basket[rows].tolist(), chunks, strict=True):
            self._hurry()
            out.append(
                Model_TBasket.read(
                    chunk, Cursor(chunk.start), {"basket_num": number}, file, file, self.objects[layout.names[code]]
                )
            )
        return out

    def embedded(self, entries: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Rows and basket objects of these entries in the tree's header: they need no transfer or decompression."""
        rows = baskets.embedded_rows(self.layout, self.branches, entries)
        return rows, [self.layout.inside[row] for row in rows.tolist()]

    def deserialise(self, rows: np.ndarray, data: Any, entries: np.ndarray) -> tuple[int, int, int]:
        """Make the arrays of `arrays()` and drop them: (branches, baskets, entries decoded over all branches).

        data: of `decompress()`; baskets from the tree's header are added here.
        """
        inside, held = self.embedded(entries)
        n: Counter[str] = Counter()
        for name, array in self.arrays(np.concatenate((rows, inside)), data + held, entries):
            n[name] += len(array)
        return len(+n), len(rows) + len(inside), n.total()

    def arrays(self, rows: np.ndarray, data: list[Any], entries: np.ndarray) -> Iterator[tuple[str, Any]]:
        """Branch by branch: its name, and the wanted entries as numpy array (plain numbers) or awkward array (others).

        Raises WrongData if a branch gives another number of entries than its baskets hold of the wanted ones.
        """
        layout = self.layout
        known: dict[tuple[bytes, bytes], tuple[np.ndarray, np.ndarray]] = {}
        for code, positions in baskets.by_branch(layout, rows):
            self._hurry()
            start, stop = layout.entry_start[rows[positions]], layout.entry_stop[rows[positions]]
            key = (start.tobytes(), stop.tobytes())  # branches share their clusters: look the entries up once
            if key not in known:
                known[key] = _local(start, stop, entries)
            edges, wanted = known[key]
            array = interpret(self.objects[layout.names[code]], [data[p] for p in positions], edges)
            if len(array) == edges[-1] and len(wanted) < len(array):
                array = array[wanted]
            if len(array) != len(wanted):
                raise WrongData(
                    "EntriesMismatch", f"{layout.names[code]}: {len(array)} entries decoded, {len(wanted)} wanted"
                )
            yield layout.names[code], array

    def _hurry(self) -> None:
        if clock.now_ns() > self.fs.latest_ns:
            raise Late


class TupleReader(Reader):
    """The same for an RNTuple: fields and pages instead of branches and baskets."""

    def look(self, tree: Any) -> None:
        self.pages = Pages.of(tree, self.branches)

    def found(self) -> baskets.Baskets:
        return self.pages.layout

    def decompress(self, rows: np.ndarray, chunks: list[Any]) -> dict[int, np.ndarray]:
        """Pages by their offset in the file."""
        self._hurry()
        return self.pages.unpack(rows, [chunk.raw_data for chunk in chunks])

    def deserialise(self, rows: np.ndarray, data: dict[int, np.ndarray], entries: np.ndarray) -> tuple[int, int, int]:
        n: Counter[str] = Counter()
        for name, array in self.pages.arrays(self.branches, data, entries):
            self._hurry()
            n[name] += len(array)
        return len(n), len(rows), n.total()


def _local(start: np.ndarray, stop: np.ndarray, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Baskets end to end: their edges, shape (b + 1,), and positions of the wanted entries, shape (k,)."""
    edges = np.concatenate(([0], np.cumsum(stop - start)))
    basket = np.minimum(np.searchsorted(stop, entries, side="right"), len(stop) - 1)
    inside = (entries >= start[basket]) & (entries < stop[basket])
    return edges, (edges[:-1] - start)[basket[inside]] + entries[inside]

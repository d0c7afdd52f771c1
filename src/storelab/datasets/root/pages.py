"""Pages of an RNTuple: list them in the same table as the baskets of a TTree, and make arrays from fetched pages.

As in uproot, a read fetches all pages of a field in a cluster. "Field" means a top-level field with all its subfields.
If several fields share a column (the offsets of a collection), its pages are listed for each of them. The format is
ROOT's "RNTuple Binary Format Specification" 1.0; uproot reads the metadata. A checksum of the stored bytes (XXH3, 64
bits) follows each page, unless the writer omitted it. uproot does not check it, this module does. May import: numpy,
xxhash, `datasets.root.{baskets,decode,header,reader}`, `core`; uproot in functions.
"""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import xxhash

from storelab.core.errors import error_text
from storelab.datasets.root import baskets, decode
from storelab.datasets.root.baskets import Baskets
from storelab.datasets.root.reader import Header, SelectionReader, Spent

SUM_BYTES = 8  # checksum after a page


@dataclass
class Pages:
    """Pages of some fields of an open RNTuple.

    layout: one row for each page, in the order of fields, clusters and columns. A row has the entry range of its
    cluster, the number of the page in its field (`basket`), and the stored size with checksum. unpacked: size of each
    unpacked page in bytes, shape (n,). summed: True for pages with a checksum, shape (n,). unreadable: reason for each
    field that uproot cannot interpret.
    """

    tuple: Any
    layout: Baskets
    unpacked: np.ndarray
    summed: np.ndarray
    unreadable: dict[str, str]

    @classmethod
    def of(cls, ntuple: Any, names: Sequence[str] | None = None) -> "Pages":
        """Return the pages of these top-level fields (default: all).

        Raise decode.Broken if a list of pages is damaged.
        """
        _read_lists(ntuple)
        _find_fields_below(ntuple)
        fields = {f.name: f for f in ntuple.fields}
        names, rows, unreadable = list(fields if names is None else names), [], {}
        clusters = [(int(c.num_first_entry), int(c.num_entries)) for c in ntuple.cluster_summaries]
        for i, name in enumerate(names):
            try:
                columns = _columns(fields[name])
            except Exception as error:  # noqa: BLE001 - uproot raises many classes for fields that it cannot interpret
                unreadable[name] = error_text(error)
                continue
            number = 0
            for (first, held), links in zip(clusters, ntuple.page_link_list, strict=True):
                for page, bits in _pages(ntuple, links, columns):
                    place = page.locator
                    size = -(-page.num_elements * bits // 8)
                    stored = int(place.num_bytes) + SUM_BYTES * page.has_checksum
                    rows.append((i, number, first, first + held, int(place.offset), stored, size, page.has_checksum))
                    number += 1
        table = np.array(rows, "i8").reshape(-1, 8)
        layout = Baskets(names, *(table[:, k] for k in range(6)))
        return cls(ntuple, layout, table[:, 6], table[:, 7].astype(bool), unreadable)

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Return the top-level fields by name."""
        return {field.name: field for field in self.tuple.fields}

    def stored(self, row: int, data: np.ndarray) -> np.ndarray:
        """Return the bytes of a page without its checksum. Raise decode.Broken if the checksum is wrong."""
        if not self.summed[row]:
            return data
        page, checksum = data[:-SUM_BYTES], int.from_bytes(bytes(data[-SUM_BYTES:]), "little")
        if xxhash.xxh3_64_intdigest(page) != checksum:
            at = int(self.layout.offset[row])
            raise decode.Broken(f"the page at {at} is damaged: its checksum (XXH3) is wrong")
        return page

    def unpack(self, rows: np.ndarray, data: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        """Check the checksums of these pages and return the unpacked pages by offset in the file.

        Raise decode.Broken, and errors of codecs.
        """
        out = {}
        for row, part in zip(rows.tolist(), data, strict=True):
            page, size = self.stored(row, part), int(self.unpacked[row])
            out[int(self.layout.offset[row])] = page if len(page) == size else decode.decompress(memoryview(page), size)
        return out

    def arrays(
        self, names: Sequence[str], unpacked: dict[int, np.ndarray], entries: np.ndarray | range
    ) -> Iterator[tuple[str, Any]]:
        """Decode one cluster at a time with uproot, and yield (field, awkward array) of the wanted entries.

        entries: ascending. Pass all entries as a range, because an array of them could need too much memory: a file of
        2 kB can have 100 million entries. Raise decode.Broken if uproot asks for a page that is missing.
        """
        whole = self.tuple
        int(whole.num_entries)  # uproot counts the clusters only once, so it must do so before they are restricted
        summaries, links = whole.cluster_summaries, whole.page_link_list
        whole.read_locator = partial(_fetched, whole.file.source, unpacked)
        try:
            for cluster, pages in sorted(zip(summaries, links, strict=True), key=lambda c: int(c[0].num_first_entry)):
                first, held = int(cluster.num_first_entry), int(cluster.num_entries)
                wanted = _within(entries, first, held)
                if not len(wanted):
                    continue
                # uproot would also read the next cluster if the last entry ends a cluster.
                whole._cluster_summaries, whole._page_link_list = [cluster], [pages]
                for name in names:
                    array = self.fields[name].array(entry_start=first, entry_stop=first + held, array_cache=None)
                    yield name, array if len(wanted) == held else array[np.asarray(wanted)]
        finally:
            whole._cluster_summaries, whole._page_link_list = summaries, links
            del whole.read_locator


def _within(entries: np.ndarray | range, first: int, held: int) -> np.ndarray | range:
    """Return the wanted entries that are in a cluster, as numbers relative to its first entry."""
    if isinstance(entries, range):
        return range(max(entries.start - first, 0), min(entries.stop - first, held))
    return entries[(entries >= first) & (entries < first + held)] - first


def _fetched(source: Any, unpacked: dict[int, np.ndarray], place: Any, size: int) -> tuple[Any, Any]:
    """Return (chunk of the unpacked page, cursor at its start).

    Replaces `read_locator` of uproot, which reads the file.
    """
    from uproot.source.chunk import Chunk
    from uproot.source.cursor import Cursor

    page = unpacked.get(int(place.offset))
    if page is None or len(page) != size:
        held = "is not among those of the selection" if page is None else f"has {len(page)} bytes"
        raise decode.Broken(f"uproot asks for {size} bytes of the page at {place.offset}, which {held}")
    return Chunk.wrap(source, page), Cursor(0)


def _read_lists(ntuple: Any) -> None:
    """Read the lists of pages for uproot, and check their checksums, which uproot does not check."""
    from uproot.models.RNTuple import PageLink

    lists = []
    for record in ntuple.footer.cluster_group_records:
        link = record.page_list_link
        chunk, cursor = ntuple.read_locator(link.locator, link.env_uncomp_size)
        raw = chunk.get(cursor.index, cursor.index + link.env_uncomp_size, cursor, {})
        if xxhash.xxh3_64_intdigest(raw[:-SUM_BYTES]) != int.from_bytes(bytes(raw[-SUM_BYTES:]), "little"):
            raise decode.Broken(f"the list of pages at {int(link.locator.offset)} is damaged: its checksum is wrong")
        lists.append(PageLink().read(chunk, cursor, {}))
    ntuple._page_list_envelopes = lists


def _find_fields_below(ntuple: Any) -> None:
    """Set the direct subfields of all fields in one pass, because uproot searches all fields for each of them.

    Fields below an anonymous field replace it, as in `uproot.behaviors.RNTuple.HasFields.fields`.
    """
    below: dict[int, list[int]] = {}
    for i, record in enumerate(ntuple.field_records):
        if record.parent_field_id != i:
            below.setdefault(record.parent_field_id, []).append(i)

    def flat(number: int) -> Iterator[Any]:
        for i in below.get(number, ()):
            if ntuple.all_fields[i].is_anonymous:
                yield from flat(i)
            else:
                yield ntuple.all_fields[i]

    for number, field in enumerate(ntuple.all_fields):
        field._fields = list(flat(number))


def _columns(field: Any) -> list[int]:
    """Return the numbers of the columns that uproot reads for a field."""
    form, _ = field.to_akform()
    return sorted({int(n) for n in re.findall(r'"column-(\d+)', form.to_json())})


def _pages(ntuple: Any, links: Any, columns: list[int]) -> Iterator[tuple[Any, int]]:
    """Yield (page, bits per element) of these columns in a cluster. The encoding of a column can differ by cluster."""
    for number in columns:
        if number < len(links) and links[number].suppressed:
            others = ntuple._column_records_dict[ntuple.column_records[number].field_id]
            number = next(c.idx for c in others if not links[c.idx].suppressed)
        if number < len(links):
            for page in links[number].pages:
                yield page, ntuple.column_records[number].nbits


class PageReader(SelectionReader):
    """A `SelectionReader` for an RNTuple, which keeps whole clusters in memory."""

    def __init__(self, pages: Pages, entries: int, transport: Any, link: Any, **options: Any):
        super().__init__(Header(pages.tuple.name, entries, pages.layout, [], {}), transport, link, **options)
        self.pages = pages

    def check(self, branches: Sequence[str]) -> None:
        missing = [b for b in branches if b not in self.number]
        if missing:
            raise KeyError(f"{missing[0]!r} is not a field of {self.header.tree}")
        self.branches = list(branches)

    def _batches(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        if not len(rows):
            return iter(())
        layout = self.header.layout
        _, cluster = np.unique(layout.entry_start[rows], return_inverse=True)
        group = np.cumsum(np.bincount(cluster, layout.size[rows])).astype("i8")[cluster] // self.batch
        return iter([rows[group == g] for g in np.unique(group)])

    def _arrays(
        self, rows: np.ndarray, data: list[Any], entries: np.ndarray, spent: Spent
    ) -> Iterator[tuple[str, Any]]:
        layout, clock = self.header.layout, time.perf_counter
        begun = clock()
        unpacked = self.pages.unpack(rows, data)
        spent.decompress_s += clock() - begun
        first, last = layout.entry_start[rows].min(), layout.entry_stop[rows].max()
        begun = clock()
        for name, array in self.pages.arrays(self.branches, unpacked, entries[(entries >= first) & (entries < last)]):
            spent.deserialise_s += clock() - begun
            spent.decoded += len(array)
            yield name, array
            begun = clock()


class PageSteps:
    """A `StepReader` for an RNTuple. It keeps the unpacked pages of the last cluster."""

    def __init__(self, pages: Pages, branches: Sequence[str]):
        self.pages, self.layout, self.branches = pages, pages.layout, list(branches)
        self.kept: dict[int, np.ndarray] = {}  # by offset in the file

    def rows(self, first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the pages with the events [first, stop), and those of them that were not read yet."""
        rows, _, _ = baskets.ranges(self.layout, self.branches, np.arange(first, stop))
        return rows, np.array([row for row in rows.tolist() if int(self.layout.offset[row]) not in self.kept], "i8")

    def unpack(self, rows: np.ndarray, data: Sequence[np.ndarray]) -> None:
        """Decompress these pages. Raise decode.Broken, and errors of codecs."""
        self.kept |= self.pages.unpack(rows, data)

    def arrays(self, rows: np.ndarray, first: int, stop: int) -> int:
        """Make the arrays of the events [first, stop), and return the number of decoded entries over all fields.

        uproot decodes a whole cluster each time.
        """
        decoded = sum(len(array) for _, array in self.pages.arrays(self.branches, self.kept, np.arange(first, stop)))
        last = rows[self.layout.entry_stop[rows] >= stop]
        self.kept = {offset: self.kept[offset] for offset in self.layout.offset[last].tolist()}
        return decoded

    def forget(self) -> None:
        self.kept.clear()

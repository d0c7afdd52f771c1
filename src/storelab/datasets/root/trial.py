"""Find the branches of a TTree that every reader can read, before a measurement uses them.

Every basket is unpacked and decoded once, and compared with the header and with its own key. Then each reader
(`READERS`) reads the ends of the branch and the entries around the border of two baskets. May import: numpy, awkward,
`readplan`, `datasets.root`, `core`.
"""

import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
from uproot.interpretation.grouped import AsGrouped
from uproot.interpretation.objects import AsObjects, AsStridedObjects
from uproot.interpretation.strings import AsStrings

from readplan.link import Link
from storelab.core.errors import error_text
from storelab.datasets.root import baskets, by_uproot, decode
from storelab.datasets.root.baskets import Baskets
from storelab.datasets.root.reader import Header, SelectionReader, StepReader

READERS = ("planned", "events", "uproot-s3fs")  # the engines whose decoding is tried here
TOGETHER = 32_000_000  # maximum bytes of baskets that uproot decodes in one call
LINK = Link(1e-4, 1e-5, 1e-5, 1e9, 1e9, 8)  # any values: requests to a local file need no plan
Step = Callable[[int], None]  # see `own_file`
COLLECTIONS = (3, 4)  # `fType` of branches that count objects, whose members are the branches below


GROUPS = "groups other branches, which are read separately"


class Unfit(ValueError):
    """The content of a branch differs from what its header or counter declares."""


class Miscounted(Unfit):
    """The length of a list differs from the length that its counter declares."""


class LocalRanges:
    """A local file with the interface of a transport."""

    parallel = 8

    def __init__(self, path: Path):
        self.file, self.requests = path.open("rb"), 0

    def fetch(self, starts: Any, stops: Any) -> list[bytes]:
        self.requests += len(starts)
        return [os.pread(self.file.fileno(), b - a, a) for a, b in zip(starts, stops, strict=True)]


class Kept(by_uproot.Decoder):
    """A decoder that keeps the arrays of one branch, because the readers decode the same baskets up to ten times."""

    def __init__(self, branches: dict[str, Any]):
        super().__init__(branches)
        self.kept: tuple[str, dict[Any, Any]] = "", {}

    def array(self, name: str, found: list[Any], edges: np.ndarray) -> Any:
        if self.kept[0] != name:
            self.kept = name, {}
        offsets = [b"" if b.byte_offsets is None else np.ascontiguousarray(b.byte_offsets) for b in found]
        data = (zlib.crc32(o, zlib.crc32(np.ascontiguousarray(b.data))) for b, o in zip(found, offsets, strict=True))
        if (key := (*edges.tolist(), *data)) not in self.kept[1]:
            self.kept[1][key] = super().array(name, found, edges)
        return self.kept[1][key]


class Trial:
    """A check of all branches of a tree in a local file. objects: result of `branches_of()`; layout: their baskets."""

    def __init__(self, tree: str, entries: int, objects: dict[str, Any], layout: Baskets, path: Path):
        self.tree, self.entries, self.objects, self.layout = tree, entries, objects, layout
        self.file = LocalRanges(path)
        self.edges = np.searchsorted(layout.branch, np.arange(len(layout.names) + 1))
        self.foreign = Kept(objects)
        self.counters: dict[int, np.ndarray | None] = {}  # by id of the branch
        self.packed: dict[str, str | None] = {}  # class of a branch -> its first packed member
        self.placed = self.moved = 0  # number of baskets with a declared position; of baskets with a wrong one
        self.elsewhere: dict[str, str] = {}  # branch -> message about its first basket with a wrong position

    def unreadable(self, step: Step | None) -> dict[str, str]:
        """Return the reason why each unreadable branch is omitted.

        Parents of split branches without entries are skipped.
        """
        out = {}
        for code, name in enumerate(self.layout.names):
            if step:
                step(len(self.layout.names))
            rows = np.arange(self.edges[code], self.edges[code + 1])
            held = self.layout.entry_stop[rows] - self.layout.entry_start[rows]
            if not held.sum() and self.objects[name].branches:
                continue
            if reason := self._reason(name, rows, held):
                out[name] = reason
        self._groups(out)
        if self.placed > 2 * self.moved:  # unless the whole file was copied into another file
            out = self.elsewhere | out
        return {name: out[name] for name in self.layout.names if name in out}

    def _groups(self, out: dict[str, str]) -> None:
        """For each branch that groups other branches, write a better reason if none of them can be read."""
        held = np.bincount(self.layout.branch, self.layout.entry_stop - self.layout.entry_start, len(self.edges) - 1)
        full = {id(self.objects[name]): name for name, n in zip(self.layout.names, held.tolist(), strict=True) if n}
        for name in [name for name, why in out.items() if why == GROUPS]:
            below = [full[id(b)] for b in self.objects[name].itervalues(recursive=True) if id(b) in full]
            if not below:
                out[name] = "groups other branches, which have no entries: uproot does not read its own baskets"
            elif all(b in out for b in below):
                out[name] = f"groups other branches, but none of them can be read: {below[0]}: {out[below[0]]}"

    def _reason(self, name: str, rows: np.ndarray, held: np.ndarray) -> str | None:
        start, stop = self.layout.entry_start[rows], self.layout.entry_stop[rows]
        if held.sum() != self.entries:
            return f"baskets of only {held.sum()} of {self.entries} entries can be found"
        if start[0] != 0 or (start[1:] != stop[:-1]).any() or (held < 0).any():
            return "its baskets are not consecutive"
        branch = self.objects[name]
        try:
            how = by_uproot.how(branch)
            if isinstance(how, AsGrouped):
                return GROUPS
            form = how if isinstance(how, decode.Form) else decode.form_of(how)
            self._unread(branch, how, form)
            self._counted(name, how, form, rows[held > 0])
        except Exception as error:  # noqa: BLE001 - codecs and uproot raise many classes
            return str(error) if isinstance(error, Unfit) else error_text(error)
        head = self._alone(name, rows, form)
        failed = {reader: why for reader in READERS if (why := self._fails(reader, head, rows))}
        if not failed:
            return None
        able = [r for r in READERS if r not in failed]
        reader, why = next(iter(failed.items()))
        return f"only {', '.join(able)} can read it; {reader}: {why}" if able else why

    def _data(self, row: int) -> Any:
        """Return a basket's bytes, shape (n,) uint8, or uproot's object if it is in the header."""
        if (inside := self.layout.inside.get(row)) is not None:
            return inside
        at, size = int(self.layout.offset[row]), int(self.layout.size[row])
        return np.frombuffer(os.pread(self.file.file.fileno(), size, at), np.uint8)

    def _unread(self, branch: Any, how: Any, form: decode.Form | None) -> None:
        """Raise Unfit for branches that uproot reads wrongly without an error."""
        if form is None and isinstance(how, AsStrings) and self._counter(branch) is not None:
            raise Unfit("strings of the objects of a collection: uproot reads only one for each entry")
        if form is not None or not isinstance(how, AsObjects | AsStridedObjects):
            return
        if (kind := typename(branch)) not in self.packed:
            self.packed[kind] = packed_member(branch.file.streamers, kind)
        if member := self.packed[kind]:
            raise Unfit(f"objects with {member}, which is packed: uproot ignores its range, bits and dimensions")

    def _counted(self, name: str, how: Any, form: decode.Form | None, rows: np.ndarray) -> None:
        """Check every basket against the counter.

        In some files, several branches have the name of the counter and the link leads to the wrong one. Therefore, if
        the lengths of the lists differ, try the other branches with this name.
        """
        counter, wrong = self._counter(self.objects[name]), None
        if counter is None or (counts := self._values(counter)) is None:
            return self._every_basket(name, how, form, rows, None)
        others = (b for b in self.objects.values() if b is not counter and b.name == counter.name)
        while counts is not None:
            try:
                return self._every_basket(name, how, form, rows, counts)
            except Miscounted as error:
                wrong = wrong or error
            counts = next((v for b in others if (v := self._values(b)) is not None), None)
        raise wrong

    def _every_basket(
        self, name: str, how: Any, form: decode.Form | None, rows: np.ndarray, counts: np.ndarray | None
    ) -> None:
        """Decode every basket of a branch. counts: number of values of each entry.

        Raise Unfit, decode.Broken, and errors of codecs and uproot.
        """
        layout = self.layout
        waiting: list[tuple[int, Any]] = []
        size = 0
        for row in rows.tolist():
            first, stop, data = int(layout.entry_start[row]), int(layout.entry_stop[row]), self._data(row)
            content = self._content(name, row, data)
            if content.entries != stop - first:
                where = f"basket {layout.basket[row]} has {content.entries} entries"
                raise Unfit(f"{where}, but its header declares {stop - first}")
            if form is None:
                if type(how) is AsStrings and content.offsets is not None:
                    _strings(how, content)
                waiting.append((row, data))
                size += int(layout.size[row])
            elif isinstance(form, decode.Lists):
                if content.offsets is None:
                    raise Unfit(
                        "its baskets have no offsets of their entries, so the baskets of its counter would also be read"
                    )
                offsets, _ = decode.take(form, [content], [range(stop - first)])
                self._lists(form, content, np.diff(offsets), None if counts is None else counts[first:stop])
            else:
                decode.take(form, [content], [range(stop - first)])
            if waiting and (size > TOGETHER or row == rows[-1]):
                self._by_uproot(name, waiting, counts)
                waiting, size = [], 0

    def _content(self, name: str, row: int, data: Any) -> decode.Content:
        if not isinstance(data, np.ndarray):
            return decode.embedded(data)
        self.placed += 1
        at, place = int(self.layout.offset[row]), decode.place_of(data)
        if place != at:
            number, self.moved = self.layout.basket[row], self.moved + 1
            self.elsewhere.setdefault(name, f"basket {number} at {at} declares the position {place}: it was moved")
        return decode.unpack(data)

    @staticmethod
    def _lists(form: decode.Lists, content: decode.Content, found: np.ndarray, counts: np.ndarray | None) -> None:
        """Raise Miscounted if an entry has another number of values than the counter or the list's header declares."""
        where, declared = "its counter", counts
        if form.header == 10:  # a std::vector: its header has bytes, version, number of values
            begins = content.offsets[:-1]
            declared = content.values[begins[:, None] + np.arange(6, 10)].view(">u4")[:, 0].astype("i8")
            where = "its header"
        if declared is not None and not np.array_equal(found, declared):
            i = int(np.flatnonzero(found != declared)[0])
            raise Miscounted(f"a list has {found[i]} values, but {where} declares {declared[i]}")

    def _counter(self, branch: Any) -> Any:
        """Return the branch that counts the values of each entry; None if there is none."""
        leaves = branch.member("fLeaves")
        leaf = leaves[0].member("fLeafCount", none_if_missing=True) if len(leaves) == 1 else None
        if leaf is None:
            return None
        parent = branch.parent
        of_objects = getattr(parent, "classname", "") == "TBranchElement" and parent.member("fType") in COLLECTIONS
        return parent if of_objects else branch.count_branch

    def _values(self, counter: Any) -> np.ndarray | None:
        """Return the values of a counter, shape (entries,); None if it is not a branch of integers."""
        if id(counter) not in self.counters:
            try:
                found = counter.array(library="np")
                whole = found.dtype.kind in "iu" and found.shape == (self.entries,)
                self.counters[id(counter)] = found.astype("i8") if whole else None
            except Exception:  # noqa: BLE001 - the counter itself is left out with its own reason
                self.counters[id(counter)] = None
        return self.counters[id(counter)]

    def _by_uproot(self, name: str, waiting: list[tuple[int, Any]], counts: np.ndarray | None) -> None:
        rows = np.array([row for row, _ in waiting])
        first, stop = int(self.layout.entry_start[rows[0]]), int(self.layout.entry_stop[rows[-1]])
        edges = np.append(self.layout.entry_start[rows], stop) - first
        found = self.foreign.unpack(name, self.layout.basket[rows].tolist(), [data for _, data in waiting])
        array = by_uproot.interpret(self.objects[name], found, edges)
        if len(array) != stop - first:
            raise Unfit(f"uproot finds {len(array)} entries in baskets of {stop - first}")
        if counts is not None and isinstance(array, ak.Array) and array.layout.purelist_depth > 1:
            sizes, declared = ak.to_numpy(ak.num(array, axis=1)), counts[first:stop]
            if not np.array_equal(sizes, declared):
                i = int(np.flatnonzero(sizes != declared)[0])
                raise Miscounted(f"a list has {sizes[i]} values, but its counter declares {declared[i]}")

    def _fails(self, reader: str, head: Header, rows: np.ndarray) -> str | None:
        """Return why a reader cannot read the first and last entries of a branch, or those at a border of baskets.

        Return None if it can.
        """
        try:
            for first, stop in self._parts(rows):
                if reader == "planned":
                    self._planned(head, first, stop)
                elif reader == "events":
                    self._steps(head, rows[0], first, stop)
                else:
                    self._same(head, rows, first, stop)
        except Exception as error:  # noqa: BLE001 - codecs and uproot raise many classes
            return error_text(error)
        return None

    def _parts(self, rows: np.ndarray) -> Iterator[tuple[int, int]]:
        """Yield the ranges [first, stop) to try: two entries at both ends, and at the first border of baskets."""
        held = rows[self.layout.entry_stop[rows] > self.layout.entry_start[rows]]
        ends = {0, self.entries - 1, *self.layout.entry_stop[held[:1]].tolist()} - {self.entries}
        yield from ((max(0, at - 1), min(self.entries, at + 1)) for at in sorted(ends))

    def _alone(self, name: str, rows: np.ndarray, form: decode.Form | None) -> Header:
        """Return the header of a tree that has only this branch."""
        columns = (getattr(self.layout, k)[rows] for k in ("basket", "entry_start", "entry_stop", "offset", "size"))
        inside = {i: self.layout.inside[row] for i, row in enumerate(rows.tolist()) if row in self.layout.inside}
        return Header(self.tree, self.entries, Baskets([name], np.zeros_like(rows), *columns, inside), [form], {})

    def _planned(self, head: Header, first: int, stop: int) -> list[Any]:
        """Return the arrays of consecutive entries, by the reader of the engine `planned`."""
        (name,), (form,) = head.layout.names, head.forms
        reader = SelectionReader(head, self.file, LINK, foreign=self.foreign)
        out = [array for _, array in reader.read([name], np.arange(first, stop))]
        found = sum(len(a[0]) - 1 if isinstance(form, decode.Lists) else len(a) for a in out)
        if found != stop - first:
            raise Unfit(f"{found} of {stop - first} entries are decoded")
        return out

    def _steps(self, head: Header, low: int, first: int, stop: int) -> None:
        """Read consecutive entries one by one, with the reader of the workload `events`.

        low: row of the branch's first basket.
        """
        reader = StepReader(head, head.layout.names, self.foreign)
        for entry in range(first, stop):
            rows, new = reader.rows(entry, entry + 1)
            reader.unpack(new, [self._data(low + row) for row in new.tolist()])
            if (found := reader.arrays(rows, entry, entry + 1)) != 1:
                raise Unfit(f"{found} entries are decoded instead of one")

    def _same(self, head: Header, rows: np.ndarray, first: int, stop: int) -> None:
        """Raise Unfit if the engine `uproot-s3fs` would read other values than the engine `planned`."""
        layout, branch, form = self.layout, self.objects[head.layout.names[0]], head.forms[0]
        rows = rows[(layout.entry_start[rows] < stop) & (layout.entry_stop[rows] > first)]
        begin, held = int(layout.entry_start[rows[0]]), layout.entry_stop[rows] - layout.entry_start[rows]
        parts = [self._data(row) for row in rows.tolist()]
        found = [
            by_uproot.basket(branch, int(n), part) if isinstance(part, np.ndarray) else part
            for n, part in zip(layout.basket[rows], parts, strict=True)
        ]
        theirs = by_uproot.interpret(branch, found, np.concatenate(([0], np.cumsum(held))))
        theirs = theirs[first - begin : stop - begin]
        if len(theirs) != stop - first:
            raise Unfit(f"{len(theirs)} of {stop - first} entries are decoded")
        ours = self._planned(head, first, stop)
        if form is None:  # uproot decoded both: bytes that it does not fill differ in each read
            if repr([v for part in ours for v in ak.to_list(part)]) != repr(ak.to_list(theirs)):
                raise Unfit("uproot finds different values in each read")
            return
        if isinstance(form, decode.Lists):
            sizes = np.concatenate([np.diff(offsets) for offsets, _ in ours])
            same = np.array_equal(sizes, ak.to_numpy(ak.num(theirs, axis=1)))
            values, theirs = np.concatenate([v for _, v in ours]), ak.to_numpy(ak.flatten(theirs, axis=1))
        else:
            same, values = True, np.concatenate(ours)
        if not same or values.tobytes() != np.ascontiguousarray(theirs).tobytes():
            raise Unfit("the values that uproot finds differ from those of storelab's own decoder")


def _strings(how: Any, content: decode.Content) -> None:
    """Raise Unfit if the length of a string differs from the declared one.

    ROOT writes an empty `char*` without its length, so that uproot reads it and all following strings wrongly, without
    an error.
    """
    begins, ends = content.offsets[:-1] + how.header_bytes, content.offsets[1:]
    whole, size = content.values, 1 if how.length_bytes == "1-5" else 4
    if (ends - begins < size).any():
        raise Unfit("a string lacks its length, as ROOT writes an empty char*: uproot reads all following ones wrongly")
    declared = whole[begins].astype("i8")
    long = declared == 255 if size == 1 else np.ones(len(declared), bool)
    if long.any():
        at = begins[long] + (size == 1)
        if (at + 4 > ends[long]).any():
            raise Unfit("a string lacks its length")
        declared[long] = whole[at[:, None] + np.arange(4)].view(">u4")[:, 0]
    held = ends - begins - np.where(long, 5 if size == 1 else 4, 1)
    if not np.array_equal(held, declared):
        i = int(np.flatnonzero(held != declared)[0])
        raise Unfit(f"a string of {held[i]} bytes declares {declared[i]} bytes")


def typename(branch: Any) -> str:
    """Return the class of the objects in a branch."""
    return str(branch.streamer.typename if branch.streamer else branch.member("fClassName", none_if_missing=True))


def packed_member(classes: Any, kind: str) -> str | None:
    """Return the first `Class.member` in objects of this class that uproot reads wrongly; None if there is none.

    classes: `streamers` of uproot's file. uproot reads Float16_t with 12 bits, Double32_t as float32, and arrays of
    both as if they were not packed.
    """
    seen: set[str] = set()
    waiting = [kind]
    while waiting:
        text = waiting.pop()
        named = {*re.findall(r"\w[\w:]*", text), *(c for c in classes if "<" in c and c in text)}
        for name in sorted(named - seen):
            seen.add(name)
            for element in (e for info in classes.get(name, {}).values() for e in info.elements):
                native = {"Float16_t": "f4", "Double32_t": "f8"}.get(element.typename.rstrip("*"))
                title = str(element.title)
                plain = native and decode.packing(native, title) == decode.packing(native, "")
                if native and not (plain and element.typename[-1] != "*" and not element.array_length):
                    return f"{name}.{element.name}"
                waiting.append(element.name if element.typename == "BASE" else element.typename)
    return None


def tried(tree: Any, objects: dict[str, Any], layout: Baskets, path: Path, step: Step | None = None) -> dict[str, str]:
    """Return the branches of this local file that some reader cannot read, with the reasons."""
    trial = Trial(tree.name, int(tree.num_entries), objects, layout, path)
    with trial.file.file:
        return trial.unreadable(step)


def pages_tried(pages: Any, entries: int, path: Path, step: Step | None = None) -> dict[str, str]:
    """Return the fields of an RNTuple that cannot be read, with the reasons.

    Unpack every page and decode every cluster.
    """
    out, layout = dict(pages.unreadable), pages.layout
    with path.open("rb") as file:
        for code, name in enumerate(layout.names):
            if step:
                step(len(layout.names))
            if name not in out and (why := _page_reason(pages, code, entries, file.fileno())):
                out[name] = why
    return out


def _page_reason(pages: Any, code: int, entries: int, file: int) -> str | None:
    layout, found = pages.layout, 0
    rows = np.flatnonzero(layout.branch == code)
    try:
        for cluster in pages.tuple.cluster_summaries:
            first, held = int(cluster.num_first_entry), int(cluster.num_entries)
            span = range(first, first + held)
            rows_of_cluster, _, places = baskets.ranges(layout, [layout.names[code]], span)
            data = [np.frombuffer(os.pread(file, size, at), np.uint8) for at, size in places]
            unpacked = pages.unpack(rows_of_cluster, data)
            for _, array in pages.arrays([layout.names[code]], unpacked, span):
                found += len(array)
    except Exception as error:  # noqa: BLE001 - codecs and uproot raise many classes
        return error_text(error)
    return None if found == entries else f"only {found} of {entries} entries can be found ({len(rows)} pages)"

"""Read a TTree with planned requests and decode it in bounded memory: saved headers, selections, and steps of a job.

May import: numpy, pyarrow, `datasets.root.{baskets,decode}`, `readplan`, `core`.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from readplan.choose import plan
from readplan.link import Link
from readplan.source import fetch
from readplan.transports import Transport
from storelab.core import records
from storelab.datasets.root import baskets, decode
from storelab.datasets.root.baskets import Baskets, branches_of, write
from storelab.datasets.root.decode import Flat, Form, Lists, Packed, form_of_branch

VERSION = 3
BATCH = 128_000_000  # compressed bytes in memory at a time


@dataclass(frozen=True)
class Header:
    """The header of a tree: name, number of entries, baskets, and forms of the branches (None: needs uproot).

    file: identity of the content, for example `{"url", "size", "etag"}`. Another file with the same name has another
    one.
    """

    tree: str
    entries: int
    layout: Baskets
    forms: list[Form | None]
    file: dict[str, Any]

    @classmethod
    def of(cls, tree: Any, file: dict[str, Any]) -> "Header":
        """Return the header of an open uproot TTree. A branch without an interpretation in uproot gets no form."""
        objects = branches_of(tree)
        layout = Baskets.from_tree(objects)
        return cls(tree.name, int(tree.num_entries), layout, [_form(objects[name]) for name in layout.names], file)

    def save(self, path: Path) -> None:
        """Write the header atomically.

        Write nothing if it has embedded baskets, because their content would be missing.
        """
        if self.layout.embedded:
            return
        known = sorted({_encoded(f) for f in self.forms if f is not None})
        code = {encoded: i for i, encoded in enumerate(known)}
        facts = {
            "version": VERSION,
            "tree": self.tree,
            "entries": self.entries,
            "file": self.file,
            "names": self.layout.names,
            "forms": known,
            "form": [-1 if f is None else code[_encoded(f)] for f in self.forms],
        }
        table = pa.table({k: getattr(self.layout, k) for k in baskets.COLUMNS}).replace_schema_metadata(
            {"storelab": json.dumps(facts)}
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        write(table, path)

    @classmethod
    def load(cls, path: Path, file: dict[str, Any]) -> "Header | None":
        """Return the saved header; None if it is missing, damaged, or of another version or file."""
        try:
            table = records.read_table(path)
            facts = json.loads(table.schema.metadata[b"storelab"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if facts.get("version") != VERSION or facts.get("file") != file:
            return None
        forms = [_decoded(encoded) for encoded in facts["forms"]]
        layout = Baskets(facts["names"], *(table[k].to_numpy() for k in baskets.COLUMNS))
        return cls(facts["tree"], facts["entries"], layout, [None if i < 0 else forms[i] for i in facts["form"]], file)


def _form(branch: Any) -> Form | None:
    try:
        return form_of_branch(branch)
    except Exception:  # noqa: BLE001 - left to uproot, which reports what it cannot interpret
        return None


def _encoded(form: Form) -> tuple[str, str, tuple[int, ...], int, tuple[Any, ...]]:
    base, shape = form.dtype.subdtype or (form.dtype, ())
    packed = astuple(form.packed) if form.packed else ()
    return form.kind, base.str, tuple(shape), getattr(form, "header", 0), packed


def _decoded(encoded: list[Any]) -> Form:
    kind, base, shape, header, how = encoded
    dtype, packed = np.dtype((base, tuple(shape))) if shape else np.dtype(base), Packed(*how) if how else None
    return Flat(dtype, packed) if kind == "flat" else Lists(dtype, header, packed)


class NeedsUproot(ValueError):
    """A file has branches that only uproot can decode. The message names the first one."""


@dataclass
class Spent:
    """The costs of a read: seconds by phase, and numbers of baskets, bytes, requests, transfers and entries."""

    plan_s: float = 0.0
    transfer_s: float = 0.0
    decompress_s: float = 0.0
    deserialise_s: float = 0.0
    inspect_s: float = 0.0
    baskets: int = 0
    needed_bytes: int = 0
    asked_bytes: int = 0
    requests: int = 0
    transfers: int = 0
    decoded: int = 0
    gaps: list[int] = field(default_factory=list)  # largest merged gap of each transfer in bytes


class SelectionReader:
    """A reader of one tree through one transport.

    link: measured or assumed properties of the store; batch: maximum compressed bytes in memory; wishes: `thrift` and
    `max_amplification` of `readplan.plan`. inspect: function that is called after each transfer with the rows and their
    bytes. It can raise errors, and no phase includes its time. foreign: decoder of branches without a form, with the
    interface of `by_uproot.Decoder`. Embedded baskets are decoded last, without a transfer.
    """

    def __init__(
        self,
        header: Header,
        transport: Transport,
        link: Link,
        batch: int = BATCH,
        inspect: Callable[[np.ndarray, list[np.ndarray]], None] | None = None,
        foreign: Any = None,
        **wishes: Any,
    ):
        self.header, self.transport, self.link, self.batch = header, transport, link, batch
        self.wishes, self.inspect, self.foreign = wishes, inspect, foreign
        self.number = {name: i for i, name in enumerate(header.layout.names)}

    def check(self, branches: Sequence[str]) -> None:
        """Raise KeyError for a branch that is not in the tree, NeedsUproot for one that needs a `foreign` decoder."""
        missing = [b for b in branches if b not in self.number]
        if missing:
            raise KeyError(f"{missing[0]!r} is not a branch of {self.header.tree}")
        beyond = [b for b in branches if self.header.forms[self.number[b]] is None]
        if beyond and self.foreign is None:
            raise NeedsUproot(
                f"{len(beyond)} of {len(branches)} branches can only be decoded by uproot, the first is {beyond[0]!r}"
            )

    def read(
        self, branches: Sequence[str], entries: np.ndarray, spent: Spent | None = None
    ) -> Iterator[tuple[str, Any]]:
        """Yield (branch, array) of the wanted entries. entries: ascending; array: as returned by `decode.take`.

        A branch that is read in several batches gives several arrays. spent: the costs are added to it. Raise the
        errors of `check()`, decode.Broken, and the errors of the transport.
        """
        self.check(branches)
        spent = spent if spent is not None else Spent()
        begun = time.perf_counter()
        rows, needed, _ = baskets.ranges(self.header.layout, branches, entries)
        inside = baskets.embedded_rows(self.header.layout, branches, entries)
        spent.baskets, spent.needed_bytes = spent.baskets + len(rows) + len(inside), spent.needed_bytes + needed
        spent.plan_s += time.perf_counter() - begun
        for batch in self._batches(rows):
            data = self._transfer(batch, spent)
            if self.inspect is not None:
                begun = time.perf_counter()
                self.inspect(batch, data)
                spent.inspect_s += time.perf_counter() - begun
            yield from self._arrays(batch, data, entries, spent)
        if len(inside):
            yield from self._arrays(inside, [self.header.layout.inside[row] for row in inside.tolist()], entries, spent)

    def _batches(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Return the rows in batches of about `batch` bytes, each sorted by offset.

        If the entries of each branch ascend in the file, the batches are in the order of the file. Otherwise they are
        in the order of entries, because later batches must not have earlier entries of a branch.
        """
        if not len(rows):
            return iter(())  # all baskets are in the header
        layout = self.header.layout
        if layout.size[rows].sum() > self.batch and _is_unordered(layout.branch[rows], layout.entry_start[rows]):
            rows = rows[np.argsort(layout.entry_start[rows], kind="stable")]
        edges = np.flatnonzero(np.diff(np.cumsum(layout.size[rows]) // self.batch)) + 1
        return (part[np.argsort(layout.offset[part], kind="stable")] for part in np.split(rows, edges))

    def _transfer(self, rows: np.ndarray, spent: Spent) -> list[np.ndarray]:
        layout = self.header.layout
        begun = time.perf_counter()
        offset, size = layout.offset[rows], layout.size[rows]
        requests = plan(offset, size, self.link, **self.wishes)
        planned = time.perf_counter()
        data, sent = fetch(self.transport, requests, offset, offset + size)
        spent.plan_s += planned - begun
        spent.transfer_s += time.perf_counter() - planned
        spent.requests += sent
        spent.asked_bytes += requests.asked_bytes
        spent.transfers += 1
        spent.gaps.append(requests.gap)
        return data

    def _arrays(
        self, rows: np.ndarray, data: list[Any], entries: np.ndarray, spent: Spent
    ) -> Iterator[tuple[str, Any]]:
        layout, clock = self.header.layout, time.perf_counter
        start, stop = layout.entry_start[rows], layout.entry_stop[rows]
        first, last = np.searchsorted(entries, start).tolist(), np.searchsorted(entries, stop).tolist()
        # computed once, because branches often have the same clusters
        local: dict[tuple[int, int, int], np.ndarray] = {}
        starts = start.tolist()
        for code, positions in baskets.by_branch(layout, rows):
            wanted = []
            for p in positions.tolist():
                key = starts[p], first[p], last[p]
                if key not in local:
                    local[key] = entries[first[p] : last[p]] - starts[p]
                wanted.append(local[key])
            form, begun = self.header.forms[code], clock()
            if form is None:
                name, numbers = layout.names[code], layout.basket[rows[positions]].tolist()
                contents = self.foreign.unpack(name, numbers, [data[p] for p in positions])
                unpacked = clock()
                array = self.foreign(name, numbers, contents, (stop - start)[positions].tolist(), wanted)
            else:
                contents = [
                    decode.unpack(d) if isinstance(d := data[p], np.ndarray) else decode.embedded(d) for p in positions
                ]
                unpacked = clock()
                array = decode.take(form, contents, wanted)
            spent.decompress_s += unpacked - begun
            spent.deserialise_s += clock() - unpacked
            spent.decoded += sum(map(len, wanted))
            yield layout.names[code], array


def _is_unordered(branch: np.ndarray, first: np.ndarray) -> bool:
    """Return True if the first entries of a branch do not ascend in this order; shapes (n,)."""
    order = np.argsort(branch, kind="stable")
    return bool(((np.diff(branch[order]) == 0) & (np.diff(first[order]) < 0)).any())


class StepReader:
    """A reader of consecutive events that keeps the last baskets of some branches of a tree.

    For each step, call `rows()`, then `unpack()` with the bytes of the missing baskets, then `arrays()`. foreign: as in
    `SelectionReader`, for branches without a form. Embedded baskets are in the header and are never missing.
    """

    def __init__(self, header: Header, branches: Sequence[str], foreign: Any):
        self.header, self.foreign = header, foreign
        self.layout = layout = header.layout
        wanted = np.isin(np.array(layout.names, dtype=object), list(branches))[layout.branch]
        chosen = np.flatnonzero(wanted & (layout.entry_stop > layout.entry_start))  # some baskets have no entries
        self.chosen = chosen[np.argsort(layout.offset[chosen], kind="stable")]
        self.start, self.stop = layout.entry_start[self.chosen], layout.entry_stop[self.chosen]
        self.last = np.full(len(layout.names), -1)  # by branch: row of the kept basket
        self.contents: dict[int, Any] = {}  # by row: kept baskets, and the baskets of this step

    def rows(self, first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of all baskets with events [first, stop), and the rows of the missing ones.

        Both are sorted by offset in the file.
        """
        rows = self.chosen[(self.start < stop) & (self.stop > first)]
        return rows, rows[(self.last[self.layout.branch[rows]] != rows) & (self.layout.offset[rows] >= 0)]

    def unpack(self, rows: np.ndarray, data: Sequence[np.ndarray]) -> None:
        """Decompress these baskets. Raise decode.Broken, and errors of codecs."""
        layout = self.layout
        for row, code, part in zip(rows.tolist(), layout.branch[rows].tolist(), data, strict=True):
            if self.header.forms[code] is None:
                (self.contents[row],) = self.foreign.unpack(layout.names[code], [int(layout.basket[row])], [part])
            else:
                self.contents[row] = decode.unpack(part)

    def _held(self, row: int, form: Any) -> Any:
        inside = self.layout.inside.get(row)
        if inside is None:
            return self.contents[row]
        return inside if form is None else decode.embedded(inside)

    def arrays(self, rows: np.ndarray, first: int, stop: int) -> int:
        """Decode the events [first, stop) of all branches to arrays, and discard these.

        Keep the last basket of each branch.

        rows: all baskets of these events. Return the number of decoded entries over all branches. Raise decode.Broken.
        """
        layout, forms, decoded = self.layout, self.header.forms, 0
        begins, ends = layout.entry_start[rows].tolist(), layout.entry_stop[rows].tolist()
        for code, positions in baskets.by_branch(layout, rows):
            places = positions.tolist()
            numbers = rows[positions]
            form = forms[code]
            held = [self._held(row, form) for row in numbers.tolist()]
            wanted = [np.arange(max(first, begins[p]) - begins[p], min(stop, ends[p]) - begins[p]) for p in places]
            if form is None:
                counts = [ends[p] - begins[p] for p in places]
                decoded += len(self.foreign(layout.names[code], layout.basket[numbers].tolist(), held, counts, wanted))
            else:
                array = decode.take(form, held, wanted)
                decoded += len(array) if isinstance(form, decode.Flat) else len(array[0]) - 1
            for row in {int(self.last[code]), *numbers[:-1].tolist()} - {int(numbers[-1])}:
                self.contents.pop(row, None)
            self.last[code] = numbers[-1]
        return decoded

    def forget(self) -> None:
        """Delete all baskets, before the next file or after an error that left the state unknown."""
        self.last[:] = -1
        self.contents.clear()

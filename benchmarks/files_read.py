"""Staging and each reader on one file, for `files.py`.

The readers are those of the engines, on a local file. `planned`: the read planner; `events`: steps of a job;
`uproot-s3fs`: basket by basket through uproot.
"""

import contextlib
import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import awkward as ak
import numpy as np
import uproot

from storelab.core.errors import UserError
from storelab.datasets import own_file
from storelab.datasets.root.baskets import Baskets, branches_of
from storelab.datasets.root.by_uproot import Decoder
from storelab.datasets.root.pages import PageReader, Pages, PageSteps
from storelab.datasets.root.reader import Header, SelectionReader, StepReader
from storelab.datasets.root.trial import LINK, LocalRanges
from storelab.engines.uproot import Reader, TupleReader

READERS = ("planned", "events", "uproot-s3fs")
STEPS = 7  # number of steps that `events` takes through a file


class File:
    """A file that staging accepts. The constructor raises what uproot raises."""

    def __init__(self, path: Path, facts: dict[str, Any], table: Any):
        self.path, self.facts, self.table = path, facts, table
        self.file = uproot.open(path)
        self.tree = self.file[facts["tree"]]
        self.plain = facts["format"] == "TTree"
        self.branches = branches_of(self.tree) if self.plain else {f.name: f for f in self.tree.fields}
        self.entries = facts["entries"]
        held = set(table["branch"].unique().to_pylist())
        self.accepted = [n for n in self.branches if n in held and n not in facts["unreadable"]]

    def read(self, reader: str, names: list[str], entries: np.ndarray) -> dict[str, Any]:
        """Return branch -> awkward array of these entries. Raise what the reader raises."""
        if reader == "events":
            return self._events(names)
        parts: dict[str, list[Any]] = {}
        for name, array in (self._planned if reader == "planned" else self._uproot)(names, entries):
            parts.setdefault(name, []).append(_plain(array))
        return {name: ak.concatenate(p) for name, p in parts.items()}

    def _planned(self, names: list[str], entries: np.ndarray) -> Iterator[tuple[str, Any]]:
        ranges = LocalRanges(self.path)
        with ranges.file:
            if self.plain:
                reader = SelectionReader(Header.of(self.tree, {}), ranges, LINK, foreign=Decoder(self.branches))
            else:
                reader = PageReader(Pages.of(self.tree), self.entries, ranges, LINK)
            yield from reader.read(names, entries)

    def _uproot(self, names: list[str], entries: np.ndarray) -> Iterator[tuple[str, Any]]:
        kind = Reader if self.plain else TupleReader
        reader = kind(SimpleNamespace(latest_ns=2**63 - 1), str(self.path), self.facts["tree"], self.table, names, 0)
        reader.file, reader.source = self.file, self.file.file.source
        reader.look(self.tree)
        rows, _, ranges = reader.plan(entries)
        chunks = [reader.source.chunk(o, o + s) for o, s in ranges]
        reader.verify(rows, chunks)
        data = reader.decompress(rows, chunks)
        if not self.plain:
            return reader.pages.arrays(names, data, entries)
        inside, held = reader.embedded(entries)
        return reader.arrays(np.concatenate((rows, inside)), data + held, entries)

    def _events(self, names: list[str]) -> dict[str, Any]:
        """Decode all entries; return nothing, because the workload drops its values. Raise ValueError if some miss."""
        header = Header.of(self.tree, {}) if self.plain else None
        reader: Any = (
            StepReader(header, names, Decoder(self.branches)) if header else PageSteps(Pages.of(self.tree), names)
        )
        ranges, step = LocalRanges(self.path), -(-self.entries // STEPS)
        with ranges.file:
            for first in range(0, self.entries, step):
                stop = min(first + step, self.entries)
                rows, new = reader.rows(first, stop)
                offset, size = reader.layout.offset[new], reader.layout.size[new]
                found = [np.frombuffer(d, np.uint8) for d in ranges.fetch(offset.tolist(), (offset + size).tolist())]
                reader.unpack(new, found)
                if (got := reader.arrays(rows, first, stop)) != len(names) * (stop - first):
                    raise ValueError(f"{got} entries decoded, {len(names) * (stop - first)} wanted")
        return {}

    def fails(self, reader: str, entries: np.ndarray) -> dict[str, str]:
        """Return accepted branch -> error message, for each branch that this reader fails to read."""
        try:
            self.read(reader, self.accepted, entries)
        except Exception as error:  # noqa: BLE001 - the reader may raise anything
            out = {}
            for name in self.accepted:
                try:
                    self.read(reader, [name], entries)
                except Exception as failure:  # noqa: BLE001
                    out[name] = f"{reader}: {type(failure).__name__}: {failure}"
            return out or {"(all together)": f"{reader}: {type(error).__name__}: {error}"}
        return {}

    def reference(self, name: str) -> Any:
        """Return what uproot's own `array()` returns. Raise what it raises."""
        return self.branches[name].array()

    def unpacked(self) -> list[tuple[int, int]]:
        """Return (offset, size) of uncompressed baskets, or of uncompressed pages without a checksum."""
        if not self.plain:
            pages = Pages.of(self.tree)
            bare = ~pages.summed & (pages.layout.size == pages.unpacked)
            return list(zip(pages.layout.offset[bare].tolist(), pages.layout.size[bare].tolist(), strict=True))
        layout, data = Baskets.from_tree(self.branches), self.path.read_bytes()
        places = [p for p in zip(layout.offset.tolist(), layout.size.tolist(), strict=True) if p[0] >= 0]
        heads = [struct.unpack_from(">iHiIH", data, at) for at, _ in places]
        return [p for p, (total, _, content, _, key) in zip(places, heads, strict=True) if total - key == content]

    def close(self) -> None:
        self.file.close()


def staged(path: Path, tree: str | None) -> File | str:
    """Return the file if staging accepts it, else the message that refuses it. Other errors of staging are faults."""
    try:
        return File(path, *own_file.look(path, "mine", tree))
    except UserError as error:
        return str(error)


def _plain(array: Any) -> Any:
    if isinstance(array, tuple):
        return ak.unflatten(ak.Array(array[1]), np.diff(array[0]))
    return ak.Array(array)


def same(found: Any, expected: Any) -> bool:
    """Return whether these entries are equal; NaN equals NaN."""
    with contextlib.suppress(Exception):  # awkward cannot compare different kinds; compare their values instead
        if ak.array_equal(found, expected, equal_nan=True, check_parameters=False, dtype_exact=False):
            return True
    return digest(found) == digest(expected)


def digest(array: Any) -> str:
    """Return a digest of the values of an array or of a list."""
    held = ak.to_list(array) if isinstance(array, ak.Array) else array
    return hashlib.sha256(repr(_comparable(held)).encode()).hexdigest()


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return [_comparable(v) for _, v in sorted(value.items())]
    if isinstance(value, list | tuple | np.ndarray):
        return [_comparable(v) for v in value]
    if isinstance(value, bool | np.bool_ | int | float | np.number):
        return float(value)
    return value

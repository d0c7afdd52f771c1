"""Steps of a job through a tree: consecutive events, decoded; each branch keeps its last basket unpacked.

ROOT does the same: a TBranch keeps its current basket, and events in it need no request. May import: numpy,
`datasets.root.{baskets,decode,header,pages}`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from storelab.datasets.root import baskets, decode
from storelab.datasets.root.header import Header
from storelab.datasets.root.pages import Pages


class StepReader:
    """The kept baskets of some branches of a tree.

    One step: `rows()`, then `unpack()` with the bytes of the missing ones, then `arrays()`. foreign: as of
    `reader.SelectionReader`, for branches without a form. Embedded baskets came with the header and are never missing.
    """

    def __init__(self, header: Header, branches: Sequence[str], foreign: Any):
        self.header, self.foreign = header, foreign
        self.layout = layout = header.layout
        wanted = np.isin(np.array(layout.names, dtype=object), list(branches))[layout.branch]
        chosen = np.flatnonzero(wanted & (layout.entry_stop > layout.entry_start))  # some baskets hold no entry
        self.chosen = chosen[np.argsort(layout.offset[chosen], kind="stable")]
        self.start, self.stop = layout.entry_start[self.chosen], layout.entry_stop[self.chosen]
        self.last = np.full(len(layout.names), -1)  # by branch: row of the kept basket
        self.contents: dict[int, Any] = {}  # by row: kept baskets, and those of this step

    def rows(self, first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers of the baskets with events [first, stop), and of the missing ones; by ascending offset."""
        rows = self.chosen[(self.start < stop) & (self.stop > first)]
        return rows, rows[(self.last[self.layout.branch[rows]] != rows) & (self.layout.offset[rows] >= 0)]

    def unpack(self, rows: np.ndarray, data: Sequence[np.ndarray]) -> None:
        """Decompress these baskets. Raises decode.Broken, and codec errors."""
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
        """Make the arrays of the events [first, stop) by branch, and drop them; keep the last basket of each branch.

        rows: all baskets of these events. Returns the entries decoded, over all branches. Raises decode.Broken.
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
        """Keep nothing: the next file begins, or an error left the state unknown."""
        self.last[:] = -1
        self.contents.clear()


class PageSteps:
    """The same for an RNTuple: the pages of the last cluster are kept unpacked."""

    def __init__(self, pages: Pages, branches: Sequence[str]):
        self.pages, self.layout, self.branches = pages, pages.layout, list(branches)
        self.kept: dict[int, np.ndarray] = {}  # by offset in the file

    def rows(self, first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """As StepReader's."""
        rows, _, _ = baskets.ranges(self.layout, self.branches, np.arange(first, stop))
        return rows, np.array([row for row in rows.tolist() if int(self.layout.offset[row]) not in self.kept], "i8")

    def unpack(self, rows: np.ndarray, data: Sequence[np.ndarray]) -> None:
        """Decompress these pages. Raises decode.Broken, and codec errors."""
        self.kept |= self.pages.unpack(rows, data)

    def arrays(self, rows: np.ndarray, first: int, stop: int) -> int:
        """As StepReader's; uproot makes the arrays, of a whole cluster each time."""
        decoded = sum(len(array) for _, array in self.pages.arrays(self.branches, self.kept, np.arange(first, stop)))
        last = rows[self.layout.entry_stop[rows] >= stop]
        self.kept = {offset: self.kept[offset] for offset in self.layout.offset[last].tolist()}
        return decoded

    def forget(self) -> None:
        self.kept.clear()

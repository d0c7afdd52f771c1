"""Selections of a tree by planned requests, decoded in place, in bounded memory.

May import: numpy, `datasets.root.{baskets,decode,header}`, `readplan`. Phases, timed separately: plan (which baskets,
which requests), transfer, decompress, deserialise. A selection of more than `batch` bytes takes several transfers, in
the order of the file; a branch then comes in several arrays.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from storelab.datasets.root import baskets, decode
from storelab.datasets.root.header import Header
from storelab.readplan.choose import plan
from storelab.readplan.cost import Link
from storelab.readplan.source import fetch
from storelab.readplan.transports import Transport

BATCH = 128_000_000  # compressed bytes in memory at one time


class NotHere(ValueError):
    """Some branches only uproot can decode; the message names the first."""


@dataclass
class Spent:
    """Cost of a read: seconds by phase; baskets, needed and asked bytes, requests, transfers; entries, all branches."""

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
    gaps: list[int] = field(default_factory=list)  # bytes; the largest merged one of each transfer


class SelectionReader:
    """Reads of one tree through one transport.

    link: what is known of the store; batch: compressed bytes in memory at one time; wishes: `thrift`,
    `max_amplification` of `readplan.plan`. inspect: called after each transfer with the rows of the header's table and
    their bytes, in no phase's time; it may raise. foreign: decodes branches without a form, as `by_uproot.Decoder`: its
    `unpack()` gets the branch's name, the numbers of its baskets and their bytes (uproot's object for an embedded one),
    and decompresses; called with these, with what was unpacked, with the entries that each holds, and those wanted of
    each (counted from its first), it returns the array. Embedded baskets come last, without a transfer.
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
        """Raises KeyError for a branch that is not in the tree, NotHere for branches that cannot be decoded here."""
        missing = [b for b in branches if b not in self.number]
        if missing:
            raise KeyError(f"{missing[0]!r} is no branch of {self.header.tree}")
        beyond = [b for b in branches if self.header.forms[self.number[b]] is None]
        if beyond and self.foreign is None:
            raise NotHere(
                f"{len(beyond)} of {len(branches)} branches only uproot can decode, the first is {beyond[0]!r}"
            )

    def read(
        self, branches: Sequence[str], entries: np.ndarray, spent: Spent | None = None
    ) -> Iterator[tuple[str, Any]]:
        """(branch, array) of the wanted entries, ascending; the array as of `decode.take`.

        A branch that comes in batches gives several. spent: gathers the cost. Raises as `check()`, decode.Broken, and
        what the transport raises.
        """
        self.check(branches)
        spent = spent if spent is not None else Spent()
        begun = time.perf_counter()
        rows, needed, _ = baskets.ranges(self.header.layout, branches, entries)
        inside = baskets.embedded_rows(self.header.layout, branches, entries)
        spent.baskets, spent.needed_bytes = spent.baskets + len(rows) + len(inside), spent.needed_bytes + needed
        spent.plan_s += time.perf_counter() - begun
        for some in self._batches(rows):
            data = self._transfer(some, spent)
            if self.inspect is not None:
                begun = time.perf_counter()
                self.inspect(some, data)
                spent.inspect_s += time.perf_counter() - begun
            yield from self._arrays(some, data, entries, spent)
        if len(inside):
            yield from self._arrays(inside, [self.header.layout.inside[row] for row in inside.tolist()], entries, spent)

    def _batches(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Rows by offset, in parts of at most some `batch` bytes: as they lie in the file if each branch's entries
        ascend there, else by their first entry, so that no branch goes back to earlier entries."""
        if not len(rows):
            return iter(())  # everything came with the header
        layout = self.header.layout
        if layout.size[rows].sum() > self.batch and _goes_back(layout.branch[rows], layout.entry_start[rows]):
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
        local: dict[tuple[int, int, int], np.ndarray] = {}  # branches share their clusters: look the entries up once
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


def _goes_back(branch: np.ndarray, first: np.ndarray) -> bool:
    """Whether a branch's first entries do not ascend in this order; shapes (n,)."""
    order = np.argsort(branch, kind="stable")
    return bool(((np.diff(branch[order]) == 0) & (np.diff(first[order]) < 0)).any())

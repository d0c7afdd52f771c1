"""Many operations as bins: rows of 100 ms with their latency histograms. May import: numpy, `core`.

Up to `MAX_SINGLE` operations of a point stay single rows. Beyond that, and if the sweep sets the length of its `bins`,
an engine writes bins, never a sample (docs/latency.md). Each bucket of a histogram is 2 % wider than the previous one:
latencies are known to 2 %.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

BIN_NS = 100_000_000
MAX_SINGLE = 5_000_000  # operations of a point
FINEST_NS = 1_000  # upper end of the first bucket; no answer is faster
LONGEST_NS = 10**13  # nearly three hours; longer latencies share one last bucket


def _edges() -> np.ndarray:
    edges = [FINEST_NS]
    while edges[-1] < LONGEST_NS:
        edges.append(edges[-1] + edges[-1] // 50)
    return np.array(edges, dtype=np.int64)


EDGES = _edges()  # upper ends of the buckets in ns; a bucket includes its upper end, not its lower one


def stay_single(operations: int, clients: int) -> bool:
    """Return True if a client writes single rows, given `clients` clients with `operations` operations each."""
    return operations * clients <= MAX_SINGLE


def _codes(values: Any, n: int) -> tuple[np.ndarray, list[Any]]:
    """Return (codes of n values, or of one value for all; the values by code, in order of appearance)."""
    if values is None or isinstance(values, str | int):
        return np.zeros(n, np.int64), [values]
    known: dict[Any, int] = {}
    codes = np.fromiter((known.setdefault(v, len(known)) for v in values), np.int64, n)
    return codes, list(known)


def _histograms(group: np.ndarray, latency: np.ndarray, groups: int) -> list[list[tuple[int, int]]]:
    """Return, per group (0 … groups - 1), sorted (upper_ns, count) of latencies in ns, without empty buckets."""
    bucket = np.minimum(np.searchsorted(EDGES, latency), len(EDGES) - 1)
    cells, counts = np.unique(group * len(EDGES) + bucket, return_counts=True)
    pairs = list(zip(EDGES[cells % len(EDGES)].tolist(), counts.tolist(), strict=True))
    ends = np.searchsorted(cells // len(EDGES), np.arange(groups + 1)).tolist()
    return [pairs[a:b] for a, b in pairwise(ends)]


def binned(
    origin_ns: int,
    start_ns: Sequence[int],
    end_ns: Sequence[int],
    op: str | Sequence[str],
    error: Sequence[str | None] | None = None,
    status: int | Sequence[int | None] | None = None,
    intended_ns: Sequence[int] | None = None,
    sums: Mapping[str, Sequence[int] | int] | None = None,
    width_ns: int = BIN_NS,
) -> dict[str, list[Any]]:
    """Return columns of `records.OPS` of one client's operations, one row per bin, op, error and status, sorted by bin.

    A bin is (origin_ns + i * width_ns, + width_ns], by completion; origin_ns: the agreed start. Arrays have shape (n,),
    times are UTC ns; `op` and `status` may be one value for all. sums: further columns to add up, for example `bytes`,
    `wire_bytes`, `requests`, and `count` (default: 1 per operation). `latency_hist` counts end_ns - intended_ns; in a
    closed loop (None) end_ns - start_ns. Columns that only single operations have (worker, object, start,
    first byte, intended) are left out, so they are null. The caller adds the client's number. Parts of a run may be
    binned separately: rows of the same bin add up.
    """
    start, end = np.asarray(start_ns, np.int64), np.asarray(end_ns, np.int64)
    n = len(end)
    if not n:
        return {name: [] for name in ("op", "count", "end_ns", "status", "error", "latency_hist", *(sums or {}))}
    op_codes, ops = _codes(op, n)
    error_codes, errors = _codes(error, n)
    status_codes, statuses = _codes(status, n)
    place = -((origin_ns - end) // width_ns) - 1  # (origin, origin + width] is bin 0
    first = int(place.min())
    kinds = len(ops) * len(errors) * len(statuses)
    cell = (place - first) * kinds + (op_codes * len(errors) + error_codes) * len(statuses) + status_codes
    rows, group = np.unique(cell, return_inverse=True)
    kind = rows % kinds
    begun = start if intended_ns is None else np.asarray(intended_ns, np.int64)
    added = {"count": 1, **(sums or {})}
    return {
        "op": [ops[k] for k in kind // (len(errors) * len(statuses))],
        "end_ns": (origin_ns + (rows // kinds + first + 1) * width_ns).tolist(),
        "status": [statuses[k] for k in kind % len(statuses)],
        "error": [errors[k] for k in kind // len(statuses) % len(errors)],
        "latency_hist": _histograms(group, end - begun, len(rows)),
        **{name: _sums(group, values, len(rows)) for name, values in added.items()},
    }


def _sums(group: np.ndarray, values: Sequence[int] | int, groups: int) -> list[int]:
    """Return exact sums of integers per group."""
    out = np.zeros(groups, np.int64)
    np.add.at(out, group, np.asarray(values, np.int64))
    return out.tolist()

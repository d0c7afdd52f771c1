"""Write many operations as bins: rows of 100 ms with latency histograms.

Up to `MAX_SINGLE` operations of a point are stored as single rows. If there are more, or if the sweep sets `bins`, an
engine writes bins. It never writes a sample (docs/latency.md). Each bucket of a histogram is 2 % wider than the
previous one, so latencies are known to 2 %.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

BIN_NS = 100_000_000
MAX_SINGLE = 5_000_000  # maximum number of operations of a point that are stored as single rows
FINEST_NS = 1_000  # upper end of the first bucket; no answer is faster
LONGEST_NS = 10**13  # nearly three hours; all longer latencies are in the last bucket


def _edges() -> np.ndarray:
    edges = [FINEST_NS]
    while edges[-1] < LONGEST_NS:
        edges.append(edges[-1] + edges[-1] // 50)
    return np.array(edges, dtype=np.int64)


EDGES = _edges()  # upper ends of the buckets in ns; a bucket includes its upper end but not its lower end


def stay_single(operations: int, clients: int) -> bool:
    """Return True if a client writes single rows. operations: the number of operations of each client."""
    return operations * clients <= MAX_SINGLE


def _codes(values: Any, n: int) -> tuple[np.ndarray, list[Any]]:
    """Return an integer code for each of n values, and the list of different values. A single value applies to all."""
    if values is None or isinstance(values, str | int):
        return np.zeros(n, np.int64), [values]
    known: dict[Any, int] = {}
    codes = np.fromiter((known.setdefault(v, len(known)) for v in values), np.int64, n)
    return codes, list(known)


def _histograms(group: np.ndarray, latency: np.ndarray, groups: int) -> list[list[tuple[int, int]]]:
    """Return a list of (upper_ns, count) for each group from 0 to groups - 1, sorted, without empty buckets.

    latency: in ns, shape (n,); group: the group of each latency.
    """
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
    """Return columns of `records.OPS` for the operations of one client, with one row per bin, op, error and status.

    Bin i contains the operations that ended in (origin_ns + i * width_ns, origin_ns + (i + 1) * width_ns]. Rows are
    sorted by bin. Columns that only single operations have (worker, object, start, first byte, intended start) are
    missing, so they become null. The caller adds the client's number. Parts of a run can be binned separately, because
    rows of the same bin can be added.

    Parameters
    ----------
    origin_ns
        Agreed start of the point. All times are UTC in ns.
    start_ns, end_ns
        Start and end of each operation, shape (n,).
    op, error, status
        Values of each operation; op and status can be one value for all.
    intended_ns
        Intended start in an open loop. `latency_hist` then counts end_ns - intended_ns, otherwise end_ns - start_ns.
    sums
        Further columns to add up, for example `bytes`, `wire_bytes`, `requests`, and `count` (default: 1 per
        operation).
    width_ns
        Width of a bin.
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
    """Return the sum of the integers in each group, without rounding."""
    out = np.zeros(groups, np.int64)
    np.add.at(out, group, np.asarray(values, np.int64))
    return out.tolist()

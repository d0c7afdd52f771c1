"""Batches in which baskets and pages are read: which are read together, and in which order."""

from types import SimpleNamespace

import numpy as np

from storelab.datasets.root import baskets, pages, reader
from storelab.datasets.root.header import Header


def layout(*columns, names):
    return baskets.Baskets(list(names), *(np.array(c, "i8") for c in columns))


def by_sum(sizes, batch):
    """Return parts of a list: a new one begins where the running sum passes the next multiple of `batch`."""
    out, total, before = [], 0, None
    for i, size in enumerate(sizes):
        total += size
        if total // batch != before:
            out.append([])
        before = total // batch
        out[-1].append(i)
    return out


def test_clusters_of_pages_are_read_whole():
    """They are grouped by the running sum of their bytes; fields of a cluster are never apart."""
    clusters, fields = [30, 30, 30, 50, 10, 200, 40, 40], 2
    n = len(clusters)
    code, number = np.repeat(range(fields), n), np.tile(range(n), fields)
    size = np.tile(clusters, fields) // fields
    found = layout(code, number, 10 * number, 10 * number + 10, 1000 * np.arange(fields * n), size, names="ab")
    for batch in (1, 60, 100, 170, 10**6):
        one = pages.PageReader(SimpleNamespace(tuple=SimpleNamespace(name="t"), layout=found), 80, None, None)
        one.batch = batch
        parts = list(one._batches(np.arange(fields * n)))
        groups = [sorted(set(number[part].tolist())) for part in parts]
        assert groups == by_sum(clusters, batch) and list(map(len, parts)) == [fields * len(g) for g in groups], batch
    assert list(one._batches(np.empty(0, "i8"))) == []


def test_branches_that_begin_together_keep_their_order():
    """Of 60 branches each has its second basket before the first in the file: by first entry, then by place."""
    n = 60
    rng = np.random.default_rng(2)
    code, number = np.repeat(np.arange(n), 2), np.tile([0, 1], n)
    offset = np.where(number == 0, 10**6, 0) + 100 * rng.permutation(2 * n)
    size = rng.integers(5, 90, 2 * n)
    found = layout(code, number, 10 * number, 10 * number + 10, offset, size, names=[f"b{i}" for i in range(n)])
    one = reader.SelectionReader(Header("t", 20, found, [None] * n, {}), None, None, batch=300)
    rows = np.argsort(offset)
    order = sorted(rows.tolist(), key=lambda row: (found.entry_start[row], offset[row]))
    expected = [sorted((order[i] for i in part), key=lambda r: offset[r]) for part in by_sum(size[order], 300)]
    assert [part.tolist() for part in one._batches(rows)] == expected and len(expected) > 10

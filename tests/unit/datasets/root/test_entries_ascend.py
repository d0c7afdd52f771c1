"""Entries come ascending whatever the order of the baskets in the file, and the phases tell what uproot spent on what."""

import itertools
import time

import awkward as ak
import numpy as np
import pytest
import uproot
from memory_transport import Memory

from storelab.datasets.root import by_uproot, steps
from storelab.datasets.root.baskets import Baskets, branches_of
from storelab.datasets.root.header import Header
from storelab.datasets.root.reader import SelectionReader, Spent
from storelab.readplan import Link

LINK = Link(1e-4, 1e-5, 1e-5, 1e9, 1e9, 8)
N, PARTS = 240, 8


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """x: numbers; y: lists; s: strings, which uproot decodes: eight baskets each, 30 entries in each."""
    path = tmp_path_factory.mktemp("ascend") / "t.root"
    with uproot.recreate(path) as out:
        made = out.mktree("t", {"x": "int64", "y": "var * int32", "s": "string"})
        for part in np.split(np.arange(N), PARTS):
            lists = ak.Array([[int(i)] * (int(i) % 3) for i in part])
            made.extend({"x": part, "y": lists, "s": ak.Array([f"entry {i}" for i in part])})
    return path, uproot.open(path)["t"]


def shuffled(tree, seed):
    """The baskets at other places of another file, in any order: (header, its bytes, uproot's decoder)."""
    path, opened = tree
    raw, head = path.read_bytes(), Header.of(opened, {})
    old, rng = head.layout, np.random.default_rng(seed)
    offset, data = np.empty_like(old.offset), b""
    for row in rng.permutation(len(old)).tolist():
        offset[row] = len(data)
        data += raw[old.offset[row] : old.offset[row] + old.size[row]] + bytes(int(rng.integers(3)) * 50)
    layout = Baskets(old.names, old.branch, old.basket, old.entry_start, old.entry_stop, offset, old.size)
    return Header(head.tree, head.entries, layout, head.forms, {}), data, by_uproot.decoder(branches_of(opened))


@pytest.mark.parametrize("batch", [1, 400, 1500, 10**9])
@pytest.mark.parametrize("seed", range(3))
def test_entries_ascend_whatever_the_order_of_baskets_and_batches(tree, seed, batch):
    head, data, foreign = shuffled(tree, seed)
    assert "s" in [head.layout.names[i] for i, form in enumerate(head.forms) if form is None]
    memory, spent = Memory(data), Spent()
    reader = SelectionReader(head, memory, LINK, batch, foreign=foreign)
    entries = np.sort(np.random.default_rng(seed).choice(N, 70, replace=False))
    found = {"x": [], "y": [], "s": []}
    for name, array in reader.read(["x", "y", "s"], entries, spent):
        if name == "y":
            offsets, values = array
            array = [values[a:b].tolist() for a, b in itertools.pairwise(offsets)]
        found[name] += array.tolist() if name == "x" else list(array)
    assert found["x"] == entries.tolist()
    assert found["y"] == [[i] * (i % 3) for i in entries.tolist()]
    assert found["s"] == [f"entry {i}" for i in entries.tolist()]
    assert (spent.transfers > 1) == (batch < 10**9)


def test_a_file_in_order_is_read_in_its_order(tree):
    path, opened = tree
    head, memory = Header.of(opened, {}), Memory(path.read_bytes())
    reader = SelectionReader(head, memory, LINK, 1000, foreign=by_uproot.decoder(branches_of(opened)))
    list(reader.read(["x", "y", "s"], np.arange(N)))
    assert memory.log == sorted(memory.log) and len(memory.log) > 1


def test_what_uproot_spends_on_unpacking_is_told_apart(tree, monkeypatch):
    """Both steps of uproot are slowed down, by different times."""
    path, opened = tree
    unpack, interpret = by_uproot.basket, by_uproot.interpret
    monkeypatch.setattr(by_uproot, "basket", lambda *a: (time.sleep(0.004), unpack(*a))[1])
    monkeypatch.setattr(by_uproot, "interpret", lambda *a: (time.sleep(0.1), interpret(*a))[1])
    head, foreign, spent = Header.of(opened, {}), by_uproot.decoder(branches_of(opened)), Spent()
    reader = SelectionReader(head, Memory(path.read_bytes()), LINK, foreign=foreign)
    list(reader.read(["s"], np.arange(N), spent))
    assert PARTS * 0.004 <= spent.decompress_s < spent.deserialise_s and spent.deserialise_s >= 0.1
    one = steps.StepReader(head, ["s"], foreign)
    rows, new = one.rows(0, 30)
    raw, begun = path.read_bytes(), time.perf_counter()
    one.unpack(new, [np.frombuffer(raw, "u1", int(head.layout.size[r]), int(head.layout.offset[r])) for r in new])
    unpacked = time.perf_counter()
    assert one.arrays(rows, 0, 30) == 30 and unpacked - begun >= 0.004
    assert not isinstance(one.contents[int(rows[0])], np.ndarray), "kept unpacked"

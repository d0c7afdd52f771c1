"""Selections read by planned requests: their values, their order, their cost; and the headers that readers keep."""

import itertools
import struct
import time
from types import SimpleNamespace

import awkward as ak
import numpy as np
import pytest
import uproot
from basket_bytes import basket
from memory_transport import Memory
from paths import SHARED

from readplan import Link
from storelab.datasets.root import baskets, by_uproot, decode, generated, pages, reader
from storelab.datasets.root import reader as header
from storelab.datasets.root import reader as steps
from storelab.datasets.root.baskets import Baskets, branches_of
from storelab.datasets.root.by_uproot import Decoder
from storelab.datasets.root.reader import Header, SelectionReader, Spent

SLOW, LINK = Link(1e-3, 1e-4, 1e-4, 1e8, 1e8, 8), Link(1e-4, 1e-5, 1e-5, 1e9, 1e9, 8)
N, PARTS = 240, 8


def read(one, names, entries, spent=None):
    """Return branch -> its arrays, one for each batch."""
    found: dict[str, list] = {}
    for name, array in one.read(names, entries, spent):
        found.setdefault(name, []).append(array)
    return found


def test_selections_are_what_uproot_reads(tiny_file, tiny):
    data, head = tiny
    names = head.layout.names[5:40]
    with uproot.open(tiny_file) as file:
        arrays = {name: file[generated.TREE][name].array() for name in names}
    every = itertools.product((reader.BATCH, 5000), (np.arange(103), np.array([0, 7, 34, 35, 102])))
    for batch, entries in every:
        memory, spent = Memory(data.tobytes()), Spent()
        found = read(SelectionReader(head, memory, SLOW, batch), names, entries, spent)
        for name in names:
            expected, form = arrays[name][entries], head.forms[head.layout.names.index(name)]
            if isinstance(form, decode.Flat):
                assert np.array_equal(np.concatenate(found[name]), expected.to_numpy())
            else:
                assert np.array_equal(np.concatenate([v for _, v in found[name]]), ak.flatten(expected).to_numpy())
                assert np.array_equal(np.concatenate([np.diff(o) for o, _ in found[name]]), ak.num(expected).to_numpy())
        rows, needed, _ = baskets.ranges(head.layout, names, entries)
        assert (spent.baskets, spent.needed_bytes, spent.decoded) == (len(rows), needed, 35 * len(entries))
        assert spent.requests == memory.requests and spent.asked_bytes == sum(b - a for a, b in memory.log) >= needed
        assert (spent.transfers == 1) == (batch > 5000)
        assert min(spent.plan_s, spent.transfer_s, spent.decompress_s, spent.deserialise_s) > 0


def test_missing_and_foreign_branches_are_errors(tiny):
    data, head = tiny
    one = SelectionReader(head, Memory(data.tobytes()), SLOW)
    with pytest.raises(KeyError, match="nothing"):
        read(one, ["nothing"], np.arange(3))
    head.forms[7] = None
    with pytest.raises(reader.NeedsUproot, match="1 of 2 branches can only be decoded by uproot"):
        read(one, head.layout.names[6:8], np.arange(3))


def test_cost_of_selection_is_counted():
    """Two branches of two baskets each; batches of 150 bytes make two transfers; every byte is in one object."""
    parts, offsets, data = [], [], b"head"
    for first, (begin, stop) in itertools.product((0, 100), ((0, 3), (3, 7))):
        numbers = struct.pack(f">{stop - begin}i", *range(first + begin, first + stop))
        parts.append(basket(numbers, entries=stop - begin))
        offsets.append(len(data))
        data += parts[-1].tobytes() + b"gap."
    columns = [[0, 0, 1, 1], [0, 1] * 2, [0, 3] * 2, [3, 7] * 2, offsets, [len(p) for p in parts]]
    layout = Baskets(["x", "y"], *(np.array(c, "i8") for c in columns))
    memory, inspected, spent = Memory(data), [], Spent()
    one = SelectionReader(
        Header("t", 7, layout, [decode.Flat(np.dtype(">i4"))] * 2, {}),
        memory,
        Link(0.1, 0.1, 0.1, 1e9, 1e9, 8),
        batch=150,
        inspect=lambda rows, got: inspected.append((rows.tolist(), [g.tobytes() for g in got])),
    )
    begun = time.perf_counter()
    found = read(one, ["x", "y"], np.array([1, 2, 5]), spent)
    took = time.perf_counter() - begun
    assert {k: np.concatenate(v).tolist() for k, v in found.items()} == {"x": [1, 2, 5], "y": [101, 102, 105]}
    needed = sum(len(p) for p in parts)
    assert (spent.baskets, spent.needed_bytes, spent.decoded) == (4, needed, 6)
    assert spent.transfers == len(spent.gaps) == len(inspected) and spent.requests == memory.requests
    assert spent.asked_bytes == sum(b - a for a, b in memory.log)
    assert set(spent.gaps) <= {0, 4} and spent.asked_bytes == needed + 4 * sum(len(rows) - 1 for rows, _ in inspected)
    assert [row for rows, _ in inspected for row in rows] == [0, 1, 2, 3]
    assert [b for _, got in inspected for b in got] == [p.tobytes() for p in parts]
    phases = (spent.plan_s, spent.transfer_s, spent.decompress_s, spent.deserialise_s, spent.inspect_s)
    assert min(phases) > 0 and sum(phases) <= took, "no time is counted twice"


# Order of entries, and branches that uproot decodes


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Return (path, tree) with numbers x, lists y and strings s, which uproot decodes: 8 baskets of 30 entries each."""
    path = tmp_path_factory.mktemp("ascend") / "t.root"
    with uproot.recreate(path) as out:
        made = out.mktree("t", {"x": "int64", "y": "var * int32", "s": "string"})
        for part in np.split(np.arange(N), PARTS):
            lists = ak.Array([[int(i)] * (int(i) % 3) for i in part])
            made.extend({"x": part, "y": lists, "s": ak.Array([f"entry {i}" for i in part])})
    return path, uproot.open(path)["t"]


def shuffled(tree, seed):
    """Return (header, bytes, uproot's decoder) of another file with the baskets in any order."""
    path, opened = tree
    raw, head = path.read_bytes(), Header.of(opened, {})
    old, rng = head.layout, np.random.default_rng(seed)
    offset, data = np.empty_like(old.offset), b""
    for row in rng.permutation(len(old)).tolist():
        offset[row] = len(data)
        data += raw[old.offset[row] : old.offset[row] + old.size[row]] + bytes(int(rng.integers(3)) * 50)
    layout = Baskets(old.names, old.branch, old.basket, old.entry_start, old.entry_stop, offset, old.size)
    return Header(head.tree, head.entries, layout, head.forms, {}), data, by_uproot.Decoder(branches_of(opened))


def test_entries_ascend_in_any_order_of_baskets(tree):
    for seed, batch in itertools.product(range(3), (1, 400, 1500, 10**9)):
        head, data, foreign = shuffled(tree, seed)
        assert [head.layout.names[i] for i, form in enumerate(head.forms) if form is None] == ["s"]
        spent, entries = Spent(), np.sort(np.random.default_rng(seed).choice(N, 70, replace=False))
        found = read(SelectionReader(head, Memory(data), LINK, batch, foreign=foreign), ["x", "y", "s"], entries, spent)
        lists = [values[a:b].tolist() for offsets, values in found["y"] for a, b in itertools.pairwise(offsets)]
        assert np.concatenate(found["x"]).tolist() == entries.tolist(), (seed, batch)
        assert lists == [[i] * (i % 3) for i in entries.tolist()]
        assert [word for part in found["s"] for word in part] == [f"entry {i}" for i in entries.tolist()]
        assert (spent.transfers > 1) == (batch < 10**9)


def test_file_in_order_is_read_in_order(tree):
    path, opened = tree
    head, memory = Header.of(opened, {}), Memory(path.read_bytes())
    foreign = by_uproot.Decoder(branches_of(opened))
    read(SelectionReader(head, memory, LINK, 1000, foreign=foreign), ["x", "y", "s"], np.arange(N))
    assert memory.log == sorted(memory.log) and len(memory.log) > 1


def test_phases_separate_unpacking_from_interpreting(tree, monkeypatch):
    """On a clock that only these two steps of uproot move: 4 s for each basket, 100 s for each interpretation."""
    path, opened = tree
    now, unpack, interpret = [0.0], by_uproot.basket, by_uproot.interpret

    def slowly(seconds, step):
        def slow(*args):
            now[0] += seconds
            return step(*args)

        return slow

    monkeypatch.setattr(by_uproot, "basket", slowly(4, unpack))
    monkeypatch.setattr(by_uproot, "interpret", slowly(100, interpret))
    monkeypatch.setattr(reader, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    head, foreign, spent = Header.of(opened, {}), by_uproot.Decoder(branches_of(opened)), Spent()
    raw = path.read_bytes()
    read(SelectionReader(head, Memory(raw), LINK, foreign=foreign), ["s"], np.arange(N), spent)
    assert (spent.decompress_s, spent.deserialise_s) == (4 * PARTS, 100)
    one, now[0] = reader.StepReader(head, ["s"], foreign), 0.0
    rows, new = one.rows(0, 30)
    one.unpack(new, [np.frombuffer(raw, "u1", int(head.layout.size[r]), int(head.layout.offset[r])) for r in new])
    assert now[0] == 4, "unpacked before it is interpreted"
    assert one.arrays(rows, 0, 30) == 30 and now[0] == 104
    assert not isinstance(one.contents[int(rows[0])], np.ndarray), "kept unpacked"


# Headers in a file


def test_header_is_kept_for_one_file(tmp_path, tiny_file):
    known, path = {"url": "s3://b/f.root", "size": 5, "etag": "1"}, tmp_path / "deep" / "er" / "h.parquet"
    with uproot.open(tiny_file) as file:
        made = Header.of(file[generated.TREE], known)
    Header("t", 5, made.layout, made.forms, known).save(path)
    made.save(path)
    found = Header.load(path, known)
    kept = (found.tree, found.entries, found.forms, found.layout.names)
    assert kept == (made.tree, 103, made.forms, made.layout.names)
    assert all(np.array_equal(getattr(found.layout, k), getattr(made.layout, k)) for k in baskets.COLUMNS)
    assert Header.load(path, {**known, "etag": "2"}) is None and Header.load(tmp_path / "none.parquet", known) is None
    path.write_bytes(b"PAR1 cut off")
    assert Header.load(path, known) is None


def test_forms_of_branches_are_kept(tmp_path):
    shaped, lists, flags = np.dtype((">f4", (2, 3))), np.dtype(">i2"), np.dtype("?")
    for form in (decode.Flat(shaped), decode.Lists(lists, 10), decode.Flat(flags), None):
        b = Baskets(["x"], *(np.array(c, "i8") for c in ([0], [0], [0], [5], [100], [9])))
        Header("t", 5, b, [form], {"url": "u"}).save(tmp_path / "h.parquet")
        found = Header.load(tmp_path / "h.parquet", {"url": "u"})
        assert found.forms == [form] and found.layout.offset.tolist() == [100] and found.tree == "t"


REAL = SHARED / "data" / "root"


def bring(data, reader, first, stop):
    """Go one step; return (rows, new rows, entries decoded)."""
    rows, new = reader.rows(first, stop)
    layout = reader.layout
    reader.unpack(new, [data[o : o + s] for o, s in zip(layout.offset[new], layout.size[new], strict=True)])
    return rows, new, reader.arrays(rows, first, stop)


def go_through(data, reader, entries, step):
    """Make one pass; return (all rows fetched, entries decoded over all branches)."""
    fetched, decoded = [], 0
    for first in range(0, entries, step):
        rows, new, count = bring(data, reader, first, min(first + step, entries))
        assert (np.diff(reader.layout.offset[rows]) >= 0).all()
        fetched, decoded = fetched + new.tolist(), decoded + count
    return fetched, decoded


def test_scan_fetches_each_basket_once(tiny):
    data, known = tiny
    names = known.layout.names[:9]
    reader = steps.StepReader(known, names, None)
    fetched, decoded = go_through(data, reader, 103, 10)
    assert decoded == 103 * len(names) and len(reader.contents) == len(names)
    assert len(fetched) == len(set(fetched)) == 3 * len(names)
    assert len(bring(data, reader, 100, 103)[1]) == 0
    assert len(bring(data, reader, 0, 1)[1]) == len(names), "only the basket last used is kept"
    assert len(reader.contents) == len(names)
    reader.forget()
    assert len(reader.rows(0, 1)[1]) == len(names) and not reader.contents


def test_steps_decode_what_uproot_reads(tiny, tiny_file, monkeypatch):
    data, known = tiny
    seen, take = [], decode.take

    def watched(form, held, wanted):
        seen.append(take(form, held, wanted))
        return seen[-1]

    monkeypatch.setattr(decode, "take", watched)
    names = known.layout.names
    reader = steps.StepReader(known, names, None)
    with uproot.open(tiny_file) as file:
        arrays = {name: branch.array() for name, branch in file[generated.TREE].items()}
    for first, stop in ((0, 3), (30, 75), (75, 103), (2, 101)):
        seen.clear()
        bring(data, reader, first, stop)
        assert len(seen) == len(names)
        for name, found in zip(names, seen, strict=True):
            flat = np.concatenate([np.atleast_1d(np.asarray(entry)) for entry in arrays[name][first:stop]])
            assert np.array_equal(found if isinstance(found, np.ndarray) else found[1], flat), name


def test_uproot_decodes_branches_without_form(tiny):
    data, known = tiny
    asked = []

    class Foreign:
        def unpack(self, name, numbers, parts):
            return [(name, n, len(p)) for n, p in zip(numbers, parts, strict=True)]

        def __call__(self, name, numbers, parts, held, wanted):
            asked.append((name, numbers, parts, held, [w.tolist() for w in wanted]))
            return np.concatenate(wanted)

    name = known.layout.names[0]
    without = header.Header(known.tree, known.entries, known.layout, [None, *known.forms[1:]], {})
    _, _, decoded = bring(data, steps.StepReader(without, [name], Foreign()), 34, 36)
    parts = [(name, n, length) for n, length in enumerate(known.layout.size[:2].tolist())]
    assert decoded == 2 and asked == [(name, [0, 1], parts, [35, 35], [[34], [0]])]


def test_pages_are_fetched_once_a_pass(tmp_path):
    path = tmp_path / "tuple.root"
    with uproot.recreate(path) as file:
        made = file.mkrntuple("events", {"x": np.arange(40.0), "n": np.arange(40, dtype="i4")})
        for held in (40, 20):
            made.extend({"x": np.arange(float(held)), "n": np.arange(held, dtype="i4")})
    with uproot.open(path) as file:
        known = pages.Pages.of(file["events"])
        reader = pages.PageSteps(known, ["x", "n"])
        fetched, decoded = go_through(np.fromfile(path, np.uint8), reader, 100, 7)
        assert decoded == 200 and len(fetched) == len(set(fetched)) == len(known.layout)
        assert len(reader.kept) == len(known.layout) // 3, "those of the last cluster"
        reader.forget()
        assert len(reader.rows(0, 1)[1]) == len(known.layout) // 3


@pytest.mark.skipif(not REAL.is_dir(), reason="data: the real files are missing (../shared/data/root)")
def test_embedded_baskets_are_never_missing():
    path = REAL / "nanoAOD_2015_CMS_Open_Data_ttbar.root"
    with uproot.open(path) as file:
        tree = file["Events"]
        known = header.Header.of(tree, {})
        inside = known.layout.offset < 0
        names = [n for i, n in enumerate(known.layout.names) if (known.layout.branch == i).any()]
        missing = [n for n in names if known.forms[known.layout.names.index(n)] is None]
        reader = steps.StepReader(known, names, Decoder({n: tree[n] for n in missing}))
        fetched, decoded = go_through(np.fromfile(path, np.uint8), reader, known.entries, 70)
    assert inside.any() and not inside[fetched].any() and len(set(fetched)) == (~inside).sum()
    assert decoded == known.entries * len(names)


def test_basket_at_offset_zero_is_in_the_file():
    """Baskets below offset 0 are in the header."""
    columns = [np.array(c) for c in ([0, 0, 0], [0, 1, 2], [0, 5, 8], [5, 8, 9], [0, 70, -1], [70, 30, 9])]
    layout = baskets.Baskets(["x"], *columns)
    one = steps.StepReader(header.Header("t", 9, layout, [None], {}), ["x"], None)
    every, missing = one.rows(0, 9)
    assert sorted(every.tolist()) == [0, 1, 2] and sorted(missing.tolist()) == [0, 1]

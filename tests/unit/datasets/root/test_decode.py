"""Baskets decoded in place are what uproot makes of them."""

import awkward as ak
import numpy as np
import pytest
import uproot
from cramjam import DecompressionError
from memory_transport import Memory
from paths import SHARED
from root_truth import compare

from storelab.datasets.root import baskets, decode, generated, header, reader
from storelab.readplan import Link

REAL = SHARED / "data" / "root"
TINY = generated.Scale(entries=103, branches=60, clusters=3, bytes_per_entry=700.0, named=True)


@pytest.mark.parametrize("codec", generated.CODECS)
def test_generated_files(tmp_path, monkeypatch, codec):
    monkeypatch.setitem(generated.SCALES, "tiny", TINY)
    generated.generate(tmp_path / "f.root", "tiny", 3, codec)
    for entries in (np.arange(103), np.array([0, 7, 34, 35, 102])):
        with uproot.open(tmp_path / "f.root") as file:
            branches = len(file[generated.TREE].keys(recursive=True))
        assert compare(tmp_path / "f.root", generated.TREE, entries) == branches > 60


@pytest.mark.heavy
@pytest.mark.skipif(not REAL.is_dir(), reason="the real files are not there (../shared/data/root)")
@pytest.mark.parametrize(
    ("name", "tree", "at_least"),
    [
        ("uproot-HZZ-zstd.root", "events", 40),
        ("uproot-issue-123b.root", "CollectionTree", 600),
    ],
)
def test_real_files(name, tree, at_least):
    entries = np.array([0, 3, 17, 42, 99])
    assert compare(REAL / name, tree, entries) >= at_least


def a_basket(tmp_path):
    with uproot.recreate(tmp_path / "b.root", compression=uproot.ZSTD(1)) as file:
        file.mktree("t", {"x": "f8"}).extend({"x": np.arange(500.0) // 7})
    with uproot.open(tmp_path / "b.root") as file:
        layout = baskets.Baskets.from_tree(file["t"])
    data = np.fromfile(tmp_path / "b.root", np.uint8)
    return data[layout.offset[0] : layout.offset[0] + layout.size[0]]


def test_broken_baskets_are_refused(tmp_path):
    good = a_basket(tmp_path)
    assert decode.unpack(good).entries == 500
    key = int(good[14]) << 8 | int(good[15])
    for change, kind, said in (
        (good[:10], decode.Broken, "10 bytes are no basket"),
        (
            good[:-1],
            decode.Broken,
            f"a basket of {len(good) - 1} bytes says that it has {len(good)}, {key} of them its key",
        ),
        (
            np.concatenate((good[:key], np.frombuffer(b"QQ", np.uint8), good[key + 2 :])),
            decode.Broken,
            "packed by b'QQ'",
        ),
        (
            np.concatenate((good[: key + 6], np.array([1, 0, 0], np.uint8), good[key + 9 :])),
            DecompressionError,
            "buffer",
        ),
    ):
        with pytest.raises(kind, match=said):
            decode.unpack(change)
    with pytest.raises(decode.Broken, match="are not 500 values"):
        decode.take(decode.Flat(np.dtype(">f4")), [decode.unpack(good)], [np.arange(3)])
    with pytest.raises(decode.Broken, match="where its entries begin"):
        decode.take(decode.Lists(np.dtype(">f8")), [decode.unpack(good)], [np.arange(3)])


def test_what_only_uproot_can_is_left_to_it():
    from uproot import AsDtype, AsJagged, AsStrings

    assert decode.form_of(AsStrings()) is None
    assert decode.form_of(AsDtype(">f4", "f8")) is None, "converted on the way"
    assert decode.form_of(AsDtype([("a", ">i4")])) is None
    assert decode.form_of(AsDtype(np.dtype((">f4", (2, 3))))) == decode.Flat(np.dtype((">f4", (2, 3))))
    assert decode.form_of(AsJagged(AsDtype(">i2"), 10)) == decode.Lists(np.dtype(">i2"), 10)


def test_a_header_is_kept_and_only_for_the_same_file(tmp_path, monkeypatch):
    monkeypatch.setitem(generated.SCALES, "tiny", TINY)
    generated.generate(tmp_path / "f.root", "tiny", 3)
    known = {"url": "s3://b/f.root", "size": (tmp_path / "f.root").stat().st_size, "etag": "1"}
    with uproot.open(tmp_path / "f.root") as file:
        made = header.Header.of(file[generated.TREE], known)
    made.save(tmp_path / "kept" / "h.parquet")
    found = header.Header.load(tmp_path / "kept" / "h.parquet", known)
    assert (found.tree, found.entries, found.forms, found.layout.names) == (
        made.tree,
        103,
        made.forms,
        made.layout.names,
    )
    assert all(np.array_equal(getattr(found.layout, k), getattr(made.layout, k)) for k in header.COLUMNS)
    assert header.Header.load(tmp_path / "kept" / "h.parquet", {**known, "etag": "2"}) is None
    assert header.Header.load(tmp_path / "none.parquet", known) is None
    (tmp_path / "kept" / "h.parquet").write_bytes(b"PAR1 cut off")
    assert header.Header.load(tmp_path / "kept" / "h.parquet", known) is None


def test_a_shape_of_numbers_is_kept_too():
    for form in (decode.Flat(np.dtype((">f4", (2, 3)))), decode.Lists(np.dtype(">i2"), 10), decode.Flat(np.dtype("?"))):
        assert header._read(list(header._told(form))) == form


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """(bytes, header) of a small generated file."""
    monkeypatch.setitem(generated.SCALES, "tiny", TINY)
    generated.generate(tmp_path / "f.root", "tiny", 3)
    with uproot.open(tmp_path / "f.root") as file:
        return (tmp_path / "f.root").read_bytes(), header.Header.of(file[generated.TREE], {})


@pytest.mark.parametrize("batch", [reader.BATCH, 5000])
@pytest.mark.parametrize("entries", [np.arange(103), np.array([0, 7, 34, 35, 102])])
def test_selections_are_what_uproot_reads(tmp_path, tiny, batch, entries):
    data, head = tiny
    memory, spent = Memory(data), reader.Spent()
    link = Link(1e-3, 1e-4, 1e-4, 1e8, 1e8, 8)
    names = head.layout.names[5:40]
    found: dict[str, list] = {}
    for name, array in reader.SelectionReader(head, memory, link, batch).read(names, entries, spent):
        found.setdefault(name, []).append(array)
    with uproot.open(tmp_path / "f.root") as file:
        for name in names:
            expected, form = file[generated.TREE][name].array()[entries], head.forms[head.layout.names.index(name)]
            if isinstance(form, decode.Flat):
                assert np.array_equal(np.concatenate(found[name]), expected.to_numpy())
            else:
                assert np.array_equal(np.concatenate([v for _, v in found[name]]), ak.flatten(expected).to_numpy())
                assert np.array_equal(np.concatenate([np.diff(o) for o, _ in found[name]]), ak.num(expected).to_numpy())
    rows, needed, _ = baskets.ranges(head.layout, names, entries)
    assert (spent.baskets, spent.needed_bytes, spent.decoded) == (len(rows), needed, 35 * len(entries))
    assert spent.requests == memory.requests and spent.asked_bytes == sum(b - a for a, b in memory.log) >= needed
    assert (spent.transfers == 1) == (batch > 5000) and min(
        spent.plan_s, spent.transfer_s, spent.decompress_s, spent.deserialise_s
    ) > 0


def test_branches_that_are_not_there_or_beyond_us(tiny):
    data, head = tiny
    one = reader.SelectionReader(head, Memory(data), Link(1e-3, 1e-4, 1e-4, 1e8, 1e8, 8))
    with pytest.raises(KeyError, match="no branch"):
        list(one.read(["nothing"], np.arange(3)))
    head.forms[7] = None
    with pytest.raises(reader.NotHere, match="1 of 2 branches only uproot"):
        list(one.read(head.layout.names[6:8], np.arange(3)))

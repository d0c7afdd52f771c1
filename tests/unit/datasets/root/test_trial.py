"""What staging finds out of a ROOT file before anything is measured: which branches every reader can read, and why not."""

import shutil
import struct

import awkward as ak
import make_root_files
import numpy as np
import pytest
import uproot
from root_truth import by_the_decoder, hold_against_uproot
from uproot.interpretation.strings import AsStrings

from storelab.core.errors import UserError
from storelab.datasets import own_file
from storelab.datasets.root import baskets, decode, trial
from storelab.datasets.root.branches import branches_of
from storelab.datasets.root.steps import StepReader
from storelab.workloads.staging import stage, upload


def written(path, compression=None):
    """Three baskets of 20 entries of each kind of branch."""
    with uproot.recreate(path, compression=compression) as file:
        tree = file.mktree("events", {"x": "f8", "n": "i4", "hits": "var * float32", "word": "string"})
        for at in range(0, 60, 20):
            hits = ak.values_astype(ak.Array([[float(i)] * (i % 4) for i in range(20)]), "f4")
            words = ak.Array([f"word {i + at}" for i in range(20)])
            tree.extend({"x": np.arange(20.0) + at, "n": np.arange(20, dtype="i4"), "hits": hits, "word": words})
    return path


def place(path, name, number):
    """(offset, size, bytes of the key, bytes of the values) of a basket."""
    with uproot.open(path) as file:
        branch = file["events"][name]
        basket = branch.basket(number)
        where = (int(branch.member(m)[number]) for m in ("fBasketSeek", "fBasketBytes"))
        return *where, basket.member("fKeylen"), basket.border


def changed(path, at, layout, *values):
    data = bytearray(path.read_bytes())
    struct.pack_into(layout, data, at, *values)
    path.write_bytes(data)


def left_out(path, tree=None):
    return own_file.look(path, "mine", tree)[0]["unreadable"]


def test_a_whole_file_is_read_by_all(tmp_path):
    assert left_out(written(tmp_path / "f.root")) == {}


def test_the_trial_tells_how_far_it_is(tmp_path, monkeypatch, capsys):
    """Each branch of a tree (a counter is one), each field of an RNTuple; with the time left where it takes long."""
    told = []
    own_file.look(written(tmp_path / "f.root"), "mine", None, told.append)
    assert told == [5] * 5
    with uproot.recreate(tmp_path / "n.root") as file:
        file.mkrntuple("events", {"x": np.arange(3.0), "y": np.arange(3)})
    told.clear()
    own_file.look(tmp_path / "n.root", "mine", None, told.append)
    assert told == [2, 2]
    now = iter(range(0, 100, 3))
    monkeypatch.setattr(upload.time, "monotonic", lambda: float(next(now)))
    step = stage.trying("f.root")
    step(4)
    assert "trying f.root: 1 of 4 branches, about" in capsys.readouterr().err


def test_damage_in_the_middle_is_seen(tmp_path):
    """The first and the last entry decode: it used to be accepted, and each read that met the basket failed."""
    path = written(tmp_path / "f.root", uproot.ZLIB(1))
    at, size, key, _ = place(path, "x", 1)
    changed(path, at + key + 40, ">B", path.read_bytes()[at + key + 40] ^ 1)
    assert list(left_out(path)) == ["x"] and size > key + 40


def test_a_list_that_holds_other_numbers_of_values_than_its_counter_says(tmp_path):
    """A whole number of values, so uproot returns them: a reference is no proof."""
    path = written(tmp_path / "f.root")
    at, _, key, border = place(path, "hits", 1)
    before = uproot.open(path)["events"]["hits"].array()[20:40].tolist()
    changed(path, at + key + border + 4 + 4 * 3, ">i", key + 4)  # entry 3 begins with the second value of all
    assert uproot.open(path)["events"]["hits"].array()[20:40].tolist() != before
    ((name, reason),) = left_out(path).items()
    assert (name, reason) == ("hits", "a list holds 0 values where its counter says 2")


def test_lists_of_a_vector_are_held_against_their_own_head():
    form, content = decode.Lists(np.dtype(">f4"), 10), None
    for said, fits in ((2, True), (3, False)):
        values = np.frombuffer(bytes(6) + struct.pack(">I2f", said, 1, 2), "u1")
        content = decode.Content(values, np.array([0, 18]), 1)
        if fits:
            trial.Trial._lists(form, content, np.array([2]), None)
        else:
            with pytest.raises(trial.Unfit, match="a list holds 2 values where their own head says 3"):
                trial.Trial._lists(form, content, np.array([2]), None)


def test_entries_of_a_list_that_are_no_whole_values():
    """As a TObject's bits that two bytes more follow where it is referred to (Delphes, `*.fBits`)."""
    content = decode.Content(np.zeros(12, "u1"), np.array([0, 6, 12]), 2)
    with pytest.raises(decode.Broken, match="lists of values of 4 bytes have entries of 6 bytes"):
        decode.take(decode.Lists(np.dtype(">u4")), [content], [np.array([0, 1])])


def test_bits_of_objects_that_are_referred_to():
    """ROOT wrote it: 12 bytes for two objects are three values by their length."""
    facts, table = own_file.look((make_root_files.FOLDER / "references.root"), "mine", "refs")
    assert list(facts["unreadable"]) == ["Jet/Jet.fBits"] and len(set(table["branch"].to_pylist())) == 5
    assert hold_against_uproot((make_root_files.FOLDER / "references.root"), "refs", np.arange(60)) == 4


def test_an_empty_word_of_root_makes_uproot_read_the_others_wrong():
    """ROOT writes an empty char* as nothing at all; uproot gives other words then, without an error."""
    path, truth = make_root_files.FOLDER / "references.root", ["w" * (i % 9) for i in range(60)]
    assert uproot.open(path)["words"]["word"].array(library="np").tolist() != truth
    assert list(left_out(path, "words")) == ["word"] and "lacks its length" in left_out(path, "words")["word"]


def test_objects_are_arrays_of_numbers():
    """A TLorentzVector that is not in a list: no object of Python for each entry."""
    path = make_root_files.FOLDER / "references.root"
    found = by_the_decoder(path, "words", ["p4"], np.array([0, 7, 59]))["p4"]
    assert found["fE"].tolist() == [0, 14, 118] and found["fP", "fY"].tolist() == [0, -7, -59]
    assert hold_against_uproot(path, "words", np.arange(60)) == 1


@pytest.mark.parametrize(
    ("held", "why"),
    [
        ([b"\x03abc", b"\x01x"], None),
        ([b"\x00", b"\xff\x00\x00\x01\x00" + b"s" * 256], None),
        ([b"\x03abc", b""], "a string lacks its length, as ROOT writes"),
        ([b"\x03ab", b"\x01x"], "a string of 2 bytes says that it has 3"),
        ([b"\xff\x00\x00"], "a string lacks its length"),
        ([b"\xff\x00\x00\x01\x00" + b"s" * 255], "a string of 255 bytes says that it has 256"),
    ],
)
def test_strings_are_as_long_as_they_say(held, why):
    offsets = np.cumsum([0, *map(len, held)])
    content = decode.Content(np.frombuffer(b"".join(held), "u1"), offsets, len(held))
    if why is None:
        trial._strings(AsStrings(), content)
    else:
        with pytest.raises(trial.Unfit, match=why):
            trial._strings(AsStrings(), content)


def test_strings_with_a_length_of_four_bytes():
    held = b"\x00" * 6 + b"\x00\x00\x00\x02ab"
    content = decode.Content(np.frombuffer(held, "u1"), np.array([0, 12]), 1)
    trial._strings(AsStrings(6, "4"), content)
    with pytest.raises(trial.Unfit, match="says that it has"):
        trial._strings(AsStrings(5, "4"), content)


def test_tuples_of_root_are_trees_and_trees_lie_in_folders():
    for tree, branches in (("nt", 3), ("nd", 2), ("d/deep", 1), ("d/deep;1", 1)):
        facts, _ = own_file.look((make_root_files.FOLDER / "references.root"), "mine", tree)
        assert (facts["format"], facts["branches"], facts["unreadable"], facts["tree"]) == ("TTree", branches, {}, tree)


@pytest.mark.parametrize("tree", ["empty", "nobranch"])
def test_an_empty_tree_is_empty(tree):
    with pytest.raises(UserError) as caught:
        own_file.look((make_root_files.FOLDER / "references.root"), "mine", tree)
    assert str(caught.value) == f"files.mine.tree: {tree} of references.root is empty: no entry; take another tree"


def test_a_basket_at_another_place(tmp_path):
    """Two baskets of one size that changed places: each is whole, and each says where it belongs."""
    path = written(tmp_path / "f.root", uproot.ZLIB(1))
    (a, size, *_), (b, other, *_) = place(path, "n", 0), place(path, "n", 1)
    assert size == other
    data = bytearray(path.read_bytes())
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    path.write_bytes(data)
    assert left_out(path) == {"n": f"basket 0 at {a} says that it lies at {b}: it was moved"}


def test_a_file_that_tells_other_places_throughout_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(decode, "place_of", lambda data: 7)
    assert left_out(written(tmp_path / "f.root")) == {}


def test_a_basket_of_other_entries_than_the_header_says(tmp_path):
    path = written(tmp_path / "f.root")
    at, _, key, border = place(path, "x", 2)
    changed(path, at + key - 9, ">i", 19)
    changed(path, at + key - 5, ">i", key + border)
    assert left_out(path)["x"] == "basket 2 holds 19 entries, and its header says 20"


def test_offsets_that_are_not_as_many_as_they_say(tmp_path):
    path = written(tmp_path / "f.root")
    at, _, key, border = place(path, "word", 0)
    changed(path, at + key + border, ">i", 20)
    assert left_out(path) == {"word": "Broken: a basket of 20 entries says that it tells where 19 begin"}


def test_baskets_without_entries_are_read_by_nobody(tmp_path):
    """The first basket holds nothing: no reader needs it, and it proves nothing."""
    path = written(tmp_path / "f.root")
    with uproot.open(path) as file:
        tree = file["events"]
        objects = branches_of(tree)
        layout = baskets.Baskets.from_tree(objects)
        rows = np.flatnonzero(layout.branch == layout.names.index("hits"))
        columns = [getattr(layout, k) for k in ("basket", "entry_start", "entry_stop", "offset", "size")]
        empty = [np.insert(c, rows[0], v) for c, v in zip(columns, (0, 0, 0, 10, 50), strict=True)]
        empty[0][rows + 1] += 1
        with_empty = baskets.Baskets(layout.names, np.insert(layout.branch, rows[0], layout.branch[rows[0]]), *empty)
        assert trial.tried(tree, objects, with_empty, path) == {}
        head = trial.Header("events", 60, with_empty, [None] * len(layout.names), {})
        assert rows[0] not in StepReader(head, ["hits"], None).rows(0, 5)[0]


def test_baskets_that_do_not_follow_each_other(tmp_path):
    path = written(tmp_path / "f.root")
    with uproot.open(path) as file:
        objects = branches_of(file["events"])
        layout = baskets.Baskets.from_tree(objects)
        rows = np.flatnonzero(layout.branch == 0)
        layout.entry_start[rows[1]] += 1
        layout.entry_stop[rows[1]] += 1
        assert list(trial.tried(file["events"], objects, layout, path).values()) == [
            "its baskets do not follow each other"
        ]


def test_a_reader_that_fails_alone_is_named(tmp_path, monkeypatch):
    path = written(tmp_path / "f.root")
    monkeypatch.setattr(trial.Trial, "_steps", lambda *_: 1 / 0)
    with pytest.raises(
        UserError,
        match=r"none of its .* branches can be read: x: only planned, uproot-s3fs can read it; events: ZeroDiv",
    ):
        own_file.look(path, "mine", None)


def test_values_that_uproot_finds_otherwise(tmp_path, monkeypatch):
    path = written(tmp_path / "f.root")
    real = trial.by_uproot.interpret
    monkeypatch.setattr(
        trial.by_uproot,
        "interpret",
        lambda branch, *a: real(branch, *a) + (branch.name == "n") if branch.name in ("n", "x") else real(branch, *a),
    )
    assert left_out(path) == {
        "n": "only planned, events can read it; uproot-s3fs: Unfit: uproot finds other values than storelab's own decoder"
    }


def test_an_rntuple_with_a_page_that_does_not_unpack(tmp_path):
    path = shutil.copy((make_root_files.FOLDER / "ntuple.root"), tmp_path / "n.root")
    facts, table = own_file.look(path, "mine", None)
    row = next(r for r in table.to_pylist() if r["branch"] == "i32" and r["entry_start"] == 50)
    data = bytearray(path.read_bytes())
    data[row["offset"] : row["offset"] + 9] = bytes(9)
    path.write_bytes(data)
    assert facts["unreadable"] == {} and list(left_out(path)) == ["i32"]

"""Trials of a ROOT file before anything is measured: which branches every reader can read, and why not."""

import struct

import make_root_files
import numpy as np
import pytest
import small_root
import uproot
from root_truth import by_the_decoder, hold_against_uproot
from small_root import changed, place
from uproot.interpretation.strings import AsStrings

from storelab.core.errors import UserError
from storelab.datasets import own_file
from storelab.datasets.root import baskets, decode, trial
from storelab.datasets.root.branches import branches_of
from storelab.datasets.root.steps import StepReader
from storelab.workloads.staging import stage, upload

FILE = make_root_files.FOLDER / "references.root"


def left_out(path, tree=None):
    return own_file.look(path, "mine", tree)[0]["unreadable"]


def test_trial_counts_its_steps(tmp_path, monkeypatch, capsys):
    """Count each branch of a tree (a counter is one) and each field of an RNTuple; print the time left."""
    counts = []
    facts, _ = own_file.look(small_root.tree(tmp_path / "f.root"), "mine", None, counts.append)
    assert counts == [5] * 5 and facts["unreadable"] == {}
    counts.clear()
    own_file.look(small_root.ntuple(tmp_path / "n.root"), "mine", None, counts.append)
    assert counts == [4] * 4
    now = iter(range(0, 100, 3))
    monkeypatch.setattr(upload.time, "monotonic", lambda: float(next(now)))
    step = stage.trying("f.root")
    step(4)
    assert "trying f.root: 1 of 4 branches, about" in capsys.readouterr().err


def test_damage_in_middle_is_found(tmp_path):
    """The first and the last entry decode, so this file was accepted, and each read of the basket failed."""
    path = small_root.tree(tmp_path / "f.root", compression=uproot.ZLIB(1))
    at, size, key, _ = place(path, "x", 1)
    changed(path, at + key + 40, ">B", path.read_bytes()[at + key + 40] ^ 1)
    assert list(left_out(path)) == ["x"] and size > key + 40


def test_list_must_match_its_counter(tmp_path):
    """uproot returns a whole number of values here, so that comparing with it finds nothing."""
    path = small_root.tree(tmp_path / "f.root")
    at, _, key, border = place(path, "hits", 1)
    before = uproot.open(path)["events"]["hits"].array()[20:40].tolist()
    changed(path, at + key + border + 4 + 4 * 3, ">i", key + 4)  # entry 3 begins with the second value of all
    assert uproot.open(path)["events"]["hits"].array()[20:40].tolist() != before
    ((name, reason),) = left_out(path).items()
    assert (name, reason) == ("hits", "a list holds 0 values where its counter says 2")


def test_vector_must_match_its_head():
    form, content = decode.Lists(np.dtype(">f4"), 10), None
    for said, fits in ((2, True), (3, False)):
        values = np.frombuffer(bytes(6) + struct.pack(">I2f", said, 1, 2), "u1")
        content = decode.Content(values, np.array([0, 18]), 1)
        if fits:
            trial.Trial._lists(form, content, np.array([2]), None)
        else:
            with pytest.raises(trial.Unfit, match="a list holds 2 values where their own head says 3"):
                trial.Trial._lists(form, content, np.array([2]), None)


def test_lists_need_whole_values():
    """A TObject's bits have two bytes more where a TRef refers to it (Delphes, `*.fBits`)."""
    content = decode.Content(np.zeros(12, "u1"), np.array([0, 6, 12]), 2)
    with pytest.raises(decode.Broken, match="lists of values of 4 bytes have entries of 6 bytes"):
        decode.take(decode.Lists(np.dtype(">u4")), [content], [np.array([0, 1])])


def test_bits_of_referenced_objects_are_left_out():
    """In a file by ROOT, 12 bytes for two objects look like three values."""
    facts, table = own_file.look(FILE, "mine", "refs")
    assert list(facts["unreadable"]) == ["Jet/Jet.fBits"] and len(set(table["branch"].to_pylist())) == 5
    assert hold_against_uproot(FILE, "refs", np.arange(60)) == 4


def test_empty_word_of_root_is_left_out():
    """ROOT writes nothing for an empty char*, and uproot returns other words then, without an error."""
    assert uproot.open(FILE)["words"]["word"].array(library="np").tolist() != ["w" * (i % 9) for i in range(60)]
    ((name, reason),) = left_out(FILE, "words").items()
    assert name == "word" and "lacks its length" in reason


def test_objects_are_arrays_of_numbers():
    """A TLorentzVector outside of a list makes no Python object for each entry."""
    found = by_the_decoder(FILE, "words", ["p4"], np.array([0, 7, 59]))["p4"]
    assert found["fE"].tolist() == [0, 14, 118] and found["fP", "fY"].tolist() == [0, -7, -59]
    assert hold_against_uproot(FILE, "words", np.arange(60)) == 1


def test_strings_are_as_long_as_they_say():
    for held, reason in (
        ([b"\x03abc", b"\x01x"], None),
        ([b"\x00", b"\xff\x00\x00\x01\x00" + b"s" * 256], None),
        ([b"\x03abc", b""], "a string lacks its length, as ROOT writes"),
        ([b"\x03ab", b"\x01x"], "a string of 2 bytes says that it has 3"),
        ([b"\xff\x00\x00"], "a string lacks its length"),
        ([b"\xff\x00\x00\x01\x00" + b"s" * 255], "a string of 255 bytes says that it has 256"),
    ):
        offsets = np.cumsum([0, *map(len, held)])
        content = decode.Content(np.frombuffer(b"".join(held), "u1"), offsets, len(held))
        if reason is None:
            trial._strings(AsStrings(), content)
            continue
        with pytest.raises(trial.Unfit, match=reason):
            trial._strings(AsStrings(), content)
    content = decode.Content(np.frombuffer(bytes(6) + b"\x00\x00\x00\x02ab", "u1"), np.array([0, 12]), 1)
    trial._strings(AsStrings(6, "4"), content)  # a length of four bytes
    with pytest.raises(trial.Unfit, match="says that it has"):
        trial._strings(AsStrings(5, "4"), content)


def test_tuples_and_folders_of_root_are_read():
    for tree, branches in (("nt", 3), ("nd", 2), ("d/deep", 1), ("d/deep;1", 1)):
        facts, _ = own_file.look(FILE, "mine", tree)
        assert (facts["format"], facts["branches"], facts["unreadable"], facts["tree"]) == ("TTree", branches, {}, tree)


def test_empty_trees_are_refused():
    for tree in ("empty", "nobranch"):
        with pytest.raises(UserError, match=f"files.mine.tree: {tree} of references.root is empty"):
            own_file.look(FILE, "mine", tree)


def test_moved_basket_is_left_out(tmp_path):
    """Two baskets of one size changed places: each is whole, and has its place in its key."""
    path = small_root.tree(tmp_path / "f.root", compression=uproot.ZLIB(1))
    (a, size, *_), (b, other, *_) = place(path, "n", 0), place(path, "n", 1)
    assert size == other
    data = bytearray(path.read_bytes())
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    path.write_bytes(data)
    ((name, reason),) = left_out(path).items()
    assert name == "n" and f"basket 0 at {a} " in reason and f" at {b}: it was moved" in reason


def test_file_with_other_places_throughout_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(decode, "place_of", lambda data: 7)
    assert left_out(small_root.tree(tmp_path / "f.root")) == {}


def test_basket_must_match_header(tmp_path):
    path = small_root.tree(tmp_path / "f.root")
    at, _, key, border = place(path, "x", 2)
    changed(path, at + key - 9, ">i", 19)
    changed(path, at + key - 5, ">i", key + border)
    assert left_out(path)["x"] == "basket 2 holds 19 entries, and its header says 20"


def test_offsets_must_match_their_number(tmp_path):
    path = small_root.tree(tmp_path / "f.root")
    at, _, key, border = place(path, "word", 0)
    changed(path, at + key + border, ">i", 20)
    ((name, reason),) = left_out(path).items()
    assert name == "word" and reason.startswith("Broken: a basket of 20 entries ") and reason.endswith("where 19 begin")


def test_empty_baskets_are_ignored(tmp_path):
    """No reader needs a first basket without entries, and it proves nothing."""
    path = small_root.tree(tmp_path / "f.root")
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


def test_baskets_must_follow_each_other(tmp_path):
    path = small_root.tree(tmp_path / "f.root")
    with uproot.open(path) as file:
        objects = branches_of(file["events"])
        layout = baskets.Baskets.from_tree(objects)
        rows = np.flatnonzero(layout.branch == 0)
        layout.entry_start[rows[1]] += 1
        layout.entry_stop[rows[1]] += 1
        (reason,) = trial.tried(file["events"], objects, layout, path).values()
        assert reason == "its baskets do not follow each other"


def test_failing_reader_is_named(tmp_path, monkeypatch):
    path = small_root.tree(tmp_path / "f.root")
    monkeypatch.setattr(trial.Trial, "_steps", lambda *_: 1 / 0)
    reason = r"none of its .* branches can be read: x: only planned, uproot-s3fs can read it; events: ZeroDiv"
    with pytest.raises(UserError, match=reason):
        own_file.look(path, "mine", None)


def test_other_values_of_uproot_are_found(tmp_path, monkeypatch):
    path = small_root.tree(tmp_path / "f.root")
    real = trial.by_uproot.interpret
    other = lambda branch, *a: real(branch, *a) + 1 if branch.name == "n" else real(branch, *a)  # noqa: E731
    monkeypatch.setattr(trial.by_uproot, "interpret", other)
    ((name, reason),) = left_out(path).items()
    assert name == "n" and reason.startswith("only planned, events can read it; uproot-s3fs: Unfit: uproot finds other")

"""Trials of a ROOT file before a measurement: branches that every reader can read, and reasons for the others."""

import struct
import tracemalloc
from collections import Counter
from types import SimpleNamespace

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
from storelab.datasets.root.baskets import branches_of
from storelab.datasets.root.reader import StepReader
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
    assert (name, reason) == ("hits", "a list has 0 values, but its counter declares 2")


def test_vector_must_match_its_head():
    form, content = decode.Lists(np.dtype(">f4"), 10), None
    for found, fits in ((2, True), (3, False)):
        values = np.frombuffer(bytes(6) + struct.pack(">I2f", found, 1, 2), "u1")
        content = decode.Content(values, np.array([0, 18]), 1)
        if fits:
            trial.Trial._lists(form, content, np.array([2]), None)
        else:
            with pytest.raises(trial.Unfit, match="a list has 2 values, but its header declares 3"):
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


def test_strings_have_their_declared_length():
    for held, reason in (
        ([b"\x03abc", b"\x01x"], None),
        ([b"\x00", b"\xff\x00\x00\x01\x00" + b"s" * 256], None),
        ([b"\x03abc", b""], "a string lacks its length, as ROOT writes"),
        ([b"\x03ab", b"\x01x"], "a string of 2 bytes declares 3"),
        ([b"\xff\x00\x00"], "a string lacks its length"),
        ([b"\xff\x00\x00\x01\x00" + b"s" * 255], "a string of 255 bytes declares 256"),
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
    with pytest.raises(trial.Unfit, match="a string of 3 bytes declares 0"):
        trial._strings(AsStrings(5, "4"), content)


def test_tuples_and_folders_of_root_are_read():
    for tree, branches in (("nt", 3), ("nd", 2), ("d/deep", 1), ("d/deep;1", 1)):
        facts, _ = own_file.look(FILE, "mine", tree)
        assert (facts["format"], facts["branches"], facts["unreadable"], facts["tree"]) == ("TTree", branches, {}, tree)


def test_empty_trees_are_refused():
    for tree in ("empty", "nobranch"):
        with pytest.raises(UserError, match=f"files.mine.tree: {tree} of references.root has no entries"):
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
    assert name == "n" and f"basket 0 at {a} " in reason and f" position {b}: it was moved" in reason


def test_file_with_other_places_throughout_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(decode, "place_of", lambda data: 7)
    assert left_out(small_root.tree(tmp_path / "f.root")) == {}


def test_basket_must_match_header(tmp_path):
    path = small_root.tree(tmp_path / "f.root")
    at, _, key, border = place(path, "x", 2)
    changed(path, at + key - 9, ">i", 19)
    changed(path, at + key - 5, ">i", key + border)
    assert left_out(path)["x"] == "basket 2 has 19 entries, but its header declares 20"


def test_offsets_must_match_their_number(tmp_path):
    path = small_root.tree(tmp_path / "f.root")
    at, _, key, border = place(path, "word", 0)
    changed(path, at + key + border, ">i", 20)
    ((name, reason),) = left_out(path).items()
    assert (
        name == "word"
        and reason.startswith("Broken: a basket of 20 entries ")
        and reason.endswith("declares 19 offsets")
    )


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
        assert reason == "its baskets are not consecutive"


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
    assert name == "n" and reason.startswith("only planned, events can read it; uproot-s3fs: Unfit: the values that")


def found_by(monkeypatch, path, attribute, value):
    """Return what is left out of the tree `events` where a method of Trial returns this."""
    monkeypatch.setattr(trial.Trial, attribute, value)
    return left_out(path)


def test_basket_of_uproot_holds_its_entries(tmp_path):
    """In a leaf list of arrays uproot takes one of three dimensions, and makes more entries of a basket."""
    path = small_root.tree(tmp_path / "f.root")
    with uproot.open(path) as file:
        branch = file["events"]["x"]
        branch._interpretation = uproot.AsDtype(">f4")
        with pytest.raises(decode.Broken, match="uproot finds 40 entries in a basket of 20"):
            trial.by_uproot.interpret(branch, [branch.basket(0)], np.array([0, 20]))
    ((name, reason),) = left_out(make_root_files.FOLDER / "packed-jagged.root").items()
    assert name == "s" and "has the wrong number of bytes" in reason


def test_lists_by_uproot_match_their_counter(tmp_path, monkeypatch):
    path = small_root.tree(tmp_path / "f.root")
    at, _, key, border = place(path, "hits", 1)
    changed(path, at + key + border + 4 + 4 * 3, ">i", key + 4)
    monkeypatch.setattr(decode, "form_of", lambda how: None)
    assert left_out(path) == {"hits": "a list has 0 values, but its counter declares 2"}


def test_values_by_uproot_are_the_same_when_read_twice(tmp_path, monkeypatch):
    """Memory that uproot does not fill differs from read to read."""
    path = small_root.tree(tmp_path / "f.root")
    real, times = trial.by_uproot.interpret, iter(range(1000))

    def unfilled(branch, *rest):
        array = real(branch, *rest)
        return array + next(times) if branch.name == "n" else array

    monkeypatch.setattr(decode, "form_of", lambda how: None)
    monkeypatch.setattr(trial.by_uproot, "interpret", unfilled)
    ((name, reason),) = left_out(path).items()
    assert name == "n" and reason.endswith("uproot finds different values in each read")


def two_counters(path):
    """Write lists `xa` and `xb` of other lengths, whose counters have the same name."""
    with uproot.recreate(path) as file:
        made = file.mktree("events", {"xa": "var * float32", "xb": "var * float32"})
        made.extend({"xa": [[1.0] * (i % 3) for i in range(30)], "xb": [[1.0] * (i % 4) for i in range(30)]})
    path.write_bytes(path.read_bytes().replace(b"\x03nxb", b"\x03nxa"))
    return path


def test_counter_may_be_another_of_its_name(tmp_path, monkeypatch):
    """In files of ALICE the link leads to the first branch of that name (`fIndices`)."""
    path = two_counters(tmp_path / "f.root")
    assert left_out(path) == {}

    def first(self, branch):
        return self.objects["nxa"] if branch.name.startswith("x") else None

    assert found_by(monkeypatch, path, "_counter", first) == {}
    monkeypatch.setattr(trial.Trial, "_values", lambda self, counter: np.zeros(30, "i8"))
    assert set(left_out(path).values()) == {"a list has 1 values, but its counter declares 0"}


def test_strings_of_collections_are_left_out(tmp_path, monkeypatch):
    """uproot reads one string for each entry, and the check of its length gave the reason."""
    path = small_root.tree(tmp_path / "f.root")
    counter = lambda self, branch: self.objects["n"] if branch.name == "word" else None  # noqa: E731
    ((name, reason),) = found_by(monkeypatch, path, "_counter", counter).items()
    assert name == "word" and reason.startswith("strings of the objects of a collection: uproot reads only")


def test_groups_are_named_with_what_is_below():
    objects = {
        name: SimpleNamespace(itervalues=lambda recursive, below=below: [objects[b] for b in below])
        for name, below in {"a": ["a/x", "a/y"], "a/x": [], "a/y": [], "b": ["b/x"], "b/x": [], "c": []}.items()
    }
    one = trial.Trial.__new__(trial.Trial)
    held = np.array([5, 5, 5, 5, 0, 5])
    one.layout = baskets.Baskets(list(objects), np.arange(6), np.zeros(6, "i8"), np.zeros(6, "i8"), held, held, held)
    one.objects, one.edges = objects, np.arange(7)
    for left, reasons in (
        (("a/x",), {"a": trial.GROUPS}),
        (("a/x", "a/y"), {"a": "groups other branches, but none of them can be read: a/x: why"}),
        ((), {"b": "groups other branches, which have no entries: uproot does not read its own baskets"}),
    ):
        out = dict.fromkeys(left, "why") | dict.fromkeys(reasons, trial.GROUPS)
        one._groups(out)
        assert out == dict.fromkeys(left, "why") | reasons


def test_packed_members_of_objects_are_found():
    """uproot reads a Double32_t in an object that is not split as a float32, whatever its class says."""
    member = lambda name, kind, title="", length=0: SimpleNamespace(  # noqa: E731
        name=name, typename=kind, title=title, array_length=length
    )
    classes = {
        "Base": [member("fLow", "Double32_t", "[0,100,16] a range")],
        "Plain": [member("fX", "Double32_t"), member("fF", "Float16_t", "a comment"), member("fN", "int")],
        "Heir": [member("Base", "BASE"), member("fN", "int")],
        "Holder": [member("fAll", "vector<Heir>")],
        "Array": [member("fA", "Double32_t", "", 5)],
        "Fixed": [member("fB", "Float16_t", "[0,0,10]")],
        "Some<int>": [member("fP", "Double32_t*", "[fN]")],
    }
    streamers = {n: {1: SimpleNamespace(elements=e)} for n, e in classes.items()}
    for name, expected in (
        ("Plain", None),
        ("Unknown", None),
        ("Base", "Base.fLow"),
        ("Heir", "Base.fLow"),
        ("vector<Holder>", "Base.fLow"),
        ("Array", "Array.fA"),
        ("Fixed", "Fixed.fB"),
        ("vector<Some<int> >", "Some<int>.fP"),
    ):
        assert trial.packed_member(streamers, name) == expected, name


def test_readers_decode_baskets_of_uproot_once(tmp_path, monkeypatch):
    """Each basket is decoded for the trial of baskets, once for all readers where one is read, and once to compare."""
    path, times = small_root.tree(tmp_path / "f.root", baskets=1), Counter()
    real = trial.by_uproot.interpret

    def counted(branch, *rest):
        times[branch.name] += 1
        return real(branch, *rest)

    monkeypatch.setattr(trial.by_uproot, "interpret", counted)
    assert left_out(path) == {} and times["word"] <= 4, times


def peak(run) -> int:
    """Return the most bytes that Python allocated at one time."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_many_entries_take_memory_of_their_values(tmp_path):
    """Check that many entries in a small file need little memory.

    An RNTuple of 2 kB with 100 million entries, all in the same page, took 2.2 GB: 8 bytes for each number of an entry.
    """
    n = 2_000_000
    with uproot.recreate(tmp_path / "n.root", compression=uproot.ZLIB(1)) as file:
        file.mkrntuple("events", {"x": np.zeros(n, "i1")})
    with uproot.recreate(tmp_path / "t.root", compression=uproot.ZLIB(1)) as file:
        file.mktree("events", {"x": "i1"}).extend({"x": np.zeros(n, "i1")})
    for name in ("n.root", "t.root"):
        assert left_out(tmp_path / name) == {}
        assert peak(lambda: left_out(tmp_path / name)) < 8 * n, name  # noqa: B023

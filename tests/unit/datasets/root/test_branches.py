"""Several branches of one name in a tree: each is one of its own, in every reader."""

from types import SimpleNamespace

import awkward as ak
import numpy as np
import pytest
import uproot
from root_truth import by_the_decoder, by_uproot, hold_against_uproot

from storelab.datasets import own_file
from storelab.datasets.root.branches import branches_of, by_place
from storelab.engines.root import loop


@pytest.fixture
def doubled(tmp_path):
    """A tree whose branches `xb` and `yb` were renamed to `xa` and `ya`: two names, twice each; a list and a number."""
    path = tmp_path / "doubled.root"
    with uproot.recreate(path, compression=None) as file:
        tree = file.mktree("events", {"xa": "f8", "xb": "f8", "ya": "var * float32", "yb": "string"})
        for at in (0, 20):
            lists = ak.values_astype(ak.Array([[float(i)] * (i % 3) for i in range(20)]), "f4")
            words = ak.Array([f"word {i + at}" for i in range(20)])
            tree.extend({"xa": np.arange(20.0) + at, "xb": -np.arange(20.0) - at, "ya": lists, "yb": words})
    data = path.read_bytes()
    for old, new in ((b"xb", b"xa"), (b"yb", b"ya")):
        data = data.replace(b"\x02" + old, b"\x02" + new)
    path.write_bytes(data)
    return path


def test_each_gets_a_name():
    pairs = [("a", 0), ("b", 1), ("a", 2), ("a#2", 3), ("a", 4), ("a/x", 5), ("a/x", 6)]
    found = by_place(pairs)
    assert list(found.values()) == list(range(7)), "in the order of the tree, none lost"
    assert list(found) == ["a", "b", "a#3", "a#2", "a#4", "a/x", "a/x#2"]


def test_no_branch_vanishes_and_each_reads_as_itself(doubled):
    facts, table = own_file.look(doubled, "mine", None)
    names = sorted(set(table["branch"].to_pylist()))
    assert names == ["nya", "xa", "xa#2", "ya", "ya#2"] and facts["unreadable"] == {}
    entries = np.array([0, 7, 20, 39])
    for found in (
        by_the_decoder(doubled, "events", names, entries),
        by_uproot(doubled, "events", table, names, entries),
    ):
        assert found["xa"].tolist() == entries.tolist() and found["xa#2"].tolist() == (-entries).tolist()
        assert found["ya"].tolist() == [[float(e % 20)] * (e % 20 % 3) for e in entries]
        assert found["ya#2"].tolist() == [f"word {e}" for e in entries]
    assert hold_against_uproot(doubled, "events", entries) == 5


def test_root_walks_the_tree_in_the_same_order(doubled):
    """What the engine `root` asks ROOT for, with a stand-in for ROOT's objects."""

    def as_root(found):
        return SimpleNamespace(
            GetName=lambda: found.name, GetListOfBranches=lambda: [as_root(b) for b in found.branches], of=found
        )

    with uproot.open(doubled) as file:
        tree = file["events"]
        walked = by_place(loop._branches(as_root(tree)))
        assert {name: b.of for name, b in walked.items()} == branches_of(tree)

"""Several branches of one name in a tree: each reader takes them for different ones."""

from types import SimpleNamespace

import numpy as np
import pytest
import small_root
import uproot
from root_truth import by_the_decoder, by_uproot, hold_against_uproot

from storelab.datasets import own_file
from storelab.datasets.root.branches import branches_of, by_place
from storelab.engines.root import loop


@pytest.fixture
def doubled(tmp_path):
    """Return a tree whose branches `xb` and `yb` were renamed to `xa` and `ya`: two names, twice each."""
    path = tmp_path / "doubled.root"
    with uproot.recreate(path, compression=None) as file:
        tree = file.mktree("events", {"xa": "f8", "xb": "f8", "ya": "var * float32", "yb": "string"})
        for at in (0, 20):
            data = small_root.columns(at, 20)
            tree.extend({"xa": data["x"], "xb": -data["x"], "ya": data["hits"], "yb": data["word"]})
    data = path.read_bytes()
    for old, new in ((b"xb", b"xa"), (b"yb", b"ya")):
        data = data.replace(b"\x02" + old, b"\x02" + new)
    path.write_bytes(data)
    return path


def test_each_branch_has_a_name():
    pairs = [("a", 0), ("b", 1), ("a", 2), ("a#2", 3), ("a", 4), ("a/x", 5), ("a/x", 6)]
    found = by_place(pairs)
    assert list(found.values()) == list(range(7)), "in the order of the tree, none lost"
    assert list(found) == ["a", "b", "a#3", "a#2", "a#4", "a/x", "a/x#2"]


def test_each_branch_reads_as_itself(doubled):
    facts, table = own_file.look(doubled, "mine", None)
    names = sorted(set(table["branch"].to_pylist()))
    assert names == ["nya", "xa", "xa#2", "ya", "ya#2"] and facts["unreadable"] == {}
    entries = np.array([0, 7, 20, 39])
    by_us = by_the_decoder(doubled, "events", names, entries)
    for found in (by_us, by_uproot(doubled, "events", table, names, entries)):
        assert found["xa"].tolist() == entries.tolist() and found["xa#2"].tolist() == (-entries).tolist()
        assert found["ya"].tolist() == [[float(e % 20)] * (e % 20 % 4) for e in entries]
        assert found["ya#2"].tolist() == [f"word {e}" for e in entries]
    assert hold_against_uproot(doubled, "events", entries) == 5


def test_root_walks_tree_in_same_order(doubled):
    """Use copies of the objects that the engine `root` asks ROOT for."""

    def as_root(found):
        below = lambda: [as_root(b) for b in found.branches]  # noqa: E731
        return SimpleNamespace(GetName=lambda: found.name, GetListOfBranches=below, of=found)

    with uproot.open(doubled) as file:
        tree = file["events"]
        walked = by_place(loop._branches(as_root(tree)))
        assert {name: b.of for name, b in walked.items()} == branches_of(tree)

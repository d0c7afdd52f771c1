"""ROOT files of the user's own: what can be read is found, what cannot is named, and a wrong file gives one line."""

from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

from storelab.datasets import baskets, own_file
from storelab.model import UserError

REAL = Path(__file__).parents[3] / "shared" / "data" / "root"


@pytest.fixture
def mine(tmp_path):
    """A file with two trees; `events` has numbers, lists and strings in two baskets each."""
    with uproot.recreate(tmp_path / "mine.root") as file:
        tree = file.mktree("events", {"x": "f8", "n": "i4", "hits": "var * float32", "name": "string"})
        for begin in (0, 50):
            hits = ak.Array([[float(i)] * (i % 4) for i in range(50)])
            names = ak.Array([f"event {begin + i}" for i in range(50)])
            tree.extend({"x": np.arange(50.0) + begin, "n": np.arange(50, dtype="i4"), "hits": ak.values_astype(hits, "f4"), "name": names})
        file.mktree("other", {"y": "f4"}).extend({"y": np.arange(5, dtype="f4")})
    return tmp_path / "mine.root"


def test_a_tree_is_tabled(mine):
    facts, table = own_file.look(mine, "mine", "events")
    assert (facts["entries"], facts["tree"], facts["bytes"], facts["unreadable"]) == (100, "events", mine.stat().st_size, {})
    assert set(table["branch"].unique().to_pylist()) >= {"x", "n", "hits", "name"} and len(facts["sha256"]) == 64
    rows, needed, _ = baskets.ranges(table, ["x", "hits"], np.array([3, 60]))
    assert len(rows) == 4 and needed > 0


def test_what_is_left_out_is_not_chosen(mine):
    _, table = own_file.look(mine, "mine", "events")
    assert "hits" in baskets.select_branches(table, 100) and "hits" not in baskets.select_branches(table, 100, {"hits": "no reason"})


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        (None, "files.mine.tree: mine.root holds 2 TTrees and none is named (TTrees: events, other); name one of them"),
        ("nothing", "files.mine.tree: mine.root holds no TTree 'nothing' (TTrees: events, other); name one of them"),
    ],
)
def test_which_tree(mine, tree, line):
    with pytest.raises(UserError) as caught:
        own_file.look(mine, "mine", tree)
    assert str(caught.value) == line


def test_no_root_file_and_a_damaged_one(mine, tmp_path):
    (tmp_path / "text.root").write_text("this is no ROOT file, but it is long enough to be looked at " * 20)
    with pytest.raises(UserError, match=r"files.mine.path: text.root is no ROOT file"):
        own_file.look(tmp_path / "text.root", "mine", None)
    (tmp_path / "cut.root").write_bytes(mine.read_bytes()[: mine.stat().st_size // 2])
    with pytest.raises(UserError, match=r"files.mine.path: cut.root is (damaged|no ROOT file)"):
        own_file.look(tmp_path / "cut.root", "mine", "events")
    with pytest.raises(UserError, match="no such file; give the path"):
        own_file.fetch(str(tmp_path / "nothing.root"), tmp_path, "files.mine.path")
    with pytest.raises(UserError, match=r"files.mine.path: http://127.0.0.1:9/x.root cannot be read"):
        own_file.fetch("http://127.0.0.1:9/x.root", tmp_path / "new", "files.mine.path")
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.skipif(not REAL.is_dir(), reason="the real files are not there (../shared/data/root)")
@pytest.mark.parametrize(
    ("name", "tree", "entries", "unreadable"),
    [("uproot-issue-123b.root", "CollectionTree", 100, True), ("uproot-HZZ-zstd.root", "events", 2421, False)],
)
def test_real_files(name, tree, entries, unreadable):
    facts, table = own_file.look(REAL / name, "mine", tree)
    assert facts["entries"] == entries and bool(facts["unreadable"]) == unreadable
    chosen = baskets.select_branches(table, 100, facts["unreadable"])
    assert len(chosen) > 40 and not set(chosen) & set(facts["unreadable"])

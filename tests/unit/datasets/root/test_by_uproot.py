"""Every branch of many files, read by storelab's readers, compared with uproot's arrays."""

import awkward as ak
import make_root_files as made
import numpy as np
import pytest
import small_root
import uproot
from paths import SHARED
from root_truth import by_the_decoder, hold_against_uproot

from storelab.datasets import own_file
from storelab.datasets.root import baskets

REAL = SHARED / "data" / "root"
# file -> branches, baskets or pages, as the script writes them
HELD = {"nanoaod": (13, 13), "xaod": (6, 24), "delphes": (11, 55), "ntuple": (19, 112), "lists": (7, 28)}


def kept(name):
    return made.FOLDER / f"{name}.root", made.FILES[f"{name}.root"][0]


@pytest.mark.parametrize("name", HELD)
def test_files_of_experiments_read_as_by_uproot(name):
    path, tree = kept(name)
    for entries in (range(200), [0, 7, 50, 199], [101]):
        assert hold_against_uproot(path, tree, np.array(entries)) == HELD[name][0], entries
    facts, table = own_file.look(path, "mine", tree)
    b = baskets.Baskets.from_table(table)
    assert len(table) == HELD[name][1] and (b.offset > 0).all() and (b.offset + b.size <= path.stat().st_size).all()
    assert (facts["entries"], facts["unreadable"], b.entry_stop.max()) == (200, {}, 200)


def test_script_writes_kept_values(tmp_path):
    """Without ROOT it writes the files of uproot."""
    made.lists(tmp_path / "lists.root")
    with uproot.open(tmp_path / "lists.root") as new, uproot.open(made.FOLDER / "lists.root") as old:
        for name in ("x", "n", "hits", "empty", "name"):
            assert new["events"][name].array().tolist() == old["events"][name].array().tolist()
        assert old["events"]["hits"].array()[100:150].tolist() == [[]] * 50
    assert sum(p.stat().st_size for p in made.FOLDER.glob("*.root")) < 200_000


def test_rntuple_reads_as_by_uproot(tmp_path):
    path = small_root.ntuple(tmp_path / "n.root")
    facts, table = own_file.look(path, "mine", None)
    known = [facts[k] for k in ("tree", "format", "entries", "branches", "unreadable")]
    assert known == ["events", "RNTuple", 100, 4, {}]
    hits = uproot.open(path)["events"]["hits"].array()
    for entries in (range(100), [3, 39, 40, 99], [79], [80, 99], [0]):
        entries = np.array(entries)
        assert hold_against_uproot(path, "events", entries) == 4
        by_cluster = by_the_decoder(path, "events", ["x", "hits"], entries, batch=1)
        assert ak.array_equal(by_cluster["hits"], hits[entries])
        rows, needed, ranges = baskets.ranges(table, ["x"], entries)
        assert len(rows) == len({(e >= 40) + (e >= 80) for e in entries.tolist()})
        assert needed == sum(size for _, size in ranges)


@pytest.mark.heavy
@pytest.mark.skipif(not REAL.is_dir(), reason="data: the real files are missing (../shared/data/root)")
@pytest.mark.parametrize(
    ("name", "tree", "selections", "branches"),
    [
        ("nanoAOD_2015_CMS_Open_Data_ttbar.root", "Events", (range(200), [5, 77, 199]), 947),
        ("uproot-issue-123b.root", "CollectionTree", ([0, 50, 99],), 1068),
        ("uproot-issue-123b.root", "MetaData;1", ([0],), 545),
        ("uproot-small-evnt-tree-fullsplit.root", "tree", (range(100),), 41),
        ("uproot-physlite-rntuple_v1-0-0-0.root", "EventData", ([0, 50, 99],), 806),
        ("Run2012BC_DoubleMuParked_Muons_1000evts_rntuple_v1-0-0-0.root", "Events", (range(1000),), 7),
    ],
)
def test_real_files_read_as_by_uproot(name, tree, selections, branches):
    for entries in selections:
        assert hold_against_uproot(REAL / name, tree, np.array(entries)) == branches

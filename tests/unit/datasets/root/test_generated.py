"""The generated ROOT file: reproducible bytes, readable values, baskets in clusters, sizes with a tail."""

import datetime
import hashlib

import awkward as ak
import numpy as np
import pytest
import uproot
import uproot.writing._cascade
import uproot.writing._cascadetree
import uproot.writing.writable

from storelab.core.errors import UserError
from storelab.datasets.root import baskets, generated


def test_facts_of_scale_s_hold(s_file):
    path, facts = s_file
    assert facts["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest() and facts["bytes"] == path.stat().st_size
    with uproot.open(path) as f:
        tree = f[facts["tree"]]
        assert (tree.num_entries, len(tree.keys(recursive=True)), facts["clusters"]) == (1000, facts["branches"], 4)
        assert facts["entries"] == 1000 and facts["branches"] > 500, "with the counters"
        assert tree.member("fAutoFlush") == 250
        for branch in tree.itervalues(recursive=True):
            assert list(branch.entry_offsets) == [0, 250, 500, 750, 1000]


def test_clusters_are_contiguous_and_small_branches_scattered(s_file):
    table = baskets.basket_table(s_file[0], generated.TREE)
    b = baskets.Baskets.from_table(table)
    order = np.argsort(b.offset)
    # uproot may put a basket or two into a hole near the begin of the file.
    assert (np.diff(b.basket[order]) < 0).sum() <= 2, "a cluster is written whole before the next one"
    starts, _ = baskets.merge(b.offset[order], b.size[order], 0)
    assert len(starts) <= 4, "the baskets of a cluster are contiguous"
    chosen = baskets.select_branches(table, 1)
    starts, _ = baskets.merge(*np.array(baskets.ranges(b, chosen, np.array([0]))[2]).T, 0)
    assert len(starts) > 0.6 * len(chosen) > 30
    sizes = np.array(table.group_by("branch").aggregate([("size", "sum")])["size_sum"].to_pylist())
    assert 10 < sizes.max() / np.median(sizes) < 400 and sizes.max() < 0.1 * sizes.sum()
    assert 0.8 < np.log(sizes).std() < 1.9, "log-normal with a sigma of 1.9, cut, and counters in addition"


def test_same_seed_gives_same_bytes(tmp_path, tiny_scale):
    """Bytes depend on the seed, but neither on the name nor on the time."""
    (tmp_path / "elsewhere").mkdir()
    paths = tmp_path / "one.root", tmp_path / "elsewhere" / "quite_another_name.root"
    one, same = (generated.generate(path, tiny_scale, 1) for path in paths)
    assert one == same and paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["elsewhere", "one.root"], "no temporary file is left"
    other = generated.generate(tmp_path / "2.root", tiny_scale, 2)
    assert one["sha256"] != other["sha256"] and one["content_sha256"] != other["content_sha256"]


def test_values_read_back(tmp_path, tiny_scale):
    generated.generate(tmp_path / "f.root", tiny_scale, 5)
    scale = generated.SCALES[tiny_scale]
    plan = generated.layout(scale, 5)
    written = list(generated.clusters(scale, plan, 5))
    with uproot.open(tmp_path / "f.root") as f:
        tree = f[generated.TREE]
        for item in plan:
            if isinstance(item, generated.Flat):
                expected = np.concatenate([c[item.name] for c in written])
                np.testing.assert_array_equal(tree[item.name].array(library="np"), expected)
                continue
            whole = ak.concatenate([c[item.name] for c in written])
            for member in item.members:
                found = tree[f"{item.name}_{member}"].array()
                assert ak.array_equal(found, whole[member], dtype_exact=False), member
            np.testing.assert_array_equal(tree[f"n{item.name}"].array(library="np"), ak.num(whole).to_numpy())


def test_unknown_scale_and_failure_leave_nothing(tmp_path, tiny_scale, monkeypatch):
    with pytest.raises(UserError, match="one of: S"):
        generated.generate(tmp_path / "x.root", "XXL", 1)

    def broken(*_):
        raise OSError("no space left")
        yield

    monkeypatch.setattr(generated, "clusters", broken)
    with pytest.raises(OSError, match="no space"):
        generated.generate(tmp_path / "x.root", tiny_scale, 1)
    assert not list(tmp_path.iterdir())


# Patches of uproot's writer


def test_linear_writer_writes_bytes_of_uproot(tmp_path):
    sums = []
    for linear in (True, False):
        path = tmp_path / str(linear) / "f.root"
        path.parent.mkdir()
        types = {"a": "f4", "b": "i4", "c": "var * {x: float32, y: float32}"}
        with generated.reproducible(linear) as make_uuid, uproot.recreate(path, uuid_function=make_uuid) as f:
            tree = f.mktree("t", types, initial_basket_capacity=2)
            for n in (3, 4, 5):  # more extends than slots: the header is written again on the way
                records = ak.Array([[{"x": 1.0, "y": 2.0}] * k for k in range(n)])
                tree.extend({"a": np.arange(n, dtype="f4"), "b": np.arange(n, dtype="i4"), "c": records})
        sums.append(hashlib.sha256(path.read_bytes()).hexdigest())
    assert sums[0] == sums[1]


def test_patches_are_restored_after_error(monkeypatch):
    modules = (uproot.writing._cascade, uproot.writing._cascadetree, uproot.writing.writable)
    before = [m.datetime for m in modules], uproot.writing._cascadetree.Tree._build_out
    with pytest.raises(KeyError), generated.reproducible():
        assert uproot.writing._cascade.datetime.datetime.now() == generated.TIME
        assert uproot.writing._cascade.datetime.timedelta is datetime.timedelta
        assert uproot.writing._cascadetree.Tree._build_out is not before[1]
        raise KeyError
    assert ([m.datetime for m in modules], uproot.writing._cascadetree.Tree._build_out) == before
    monkeypatch.setattr(uproot.writing._cascadetree.Tree, "_build_out", lambda self: None)
    with pytest.raises(RuntimeError, match="has changed"), generated.reproducible():
        pass

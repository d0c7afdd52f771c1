"""The generated ROOT file: the same bytes each time, readable, laid out in clusters; and the table of its baskets."""

import datetime
import hashlib
import zlib

import awkward as ak
import numpy as np
import pytest
import uproot
import uproot.writing._cascade
import uproot.writing._cascadetree
import uproot.writing.writable
from paths import SHARED

from storelab.core.errors import UserError
from storelab.datasets.root import baskets, generated, uproot_patches

SMALL = generated.Scale(entries=103, branches=60, clusters=3, bytes_per_entry=700.0)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(generated.SCALES, "tiny", SMALL)
    return "tiny"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("root") / "s.root"
    return path, generated.generate(path, "S", 20150413)


def test_scale_s_is_what_it_says(file):
    path, facts = file
    assert facts["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest() and facts["bytes"] == path.stat().st_size
    with uproot.open(path) as f:
        tree = f[facts["tree"]]
        assert (tree.num_entries, len(tree.keys(recursive=True)), facts["clusters"]) == (1000, facts["branches"], 4)
        assert facts["entries"] == 1000 and facts["branches"] > 500  # the counters come on top
        assert tree.member("fAutoFlush") == 250
        for branch in tree.itervalues(recursive=True):
            assert list(branch.entry_offsets) == [0, 250, 500, 750, 1000]


def test_clusters_lie_side_by_side_and_small_branches_do_not(file):
    path, _ = file
    b = baskets.Baskets.from_table(baskets.basket_table(path, generated.TREE))
    order = np.argsort(b.offset)
    # uproot may put a basket or two into a hole near the begin of the file.
    assert (np.diff(b.basket[order]) < 0).sum() <= 2, "a cluster is written whole before the next one"
    starts, _ = baskets.merge(b.offset[order], b.size[order], 0)
    assert len(starts) <= 4, "the baskets of a cluster are contiguous"
    chosen = baskets.select_branches(baskets.basket_table(path, generated.TREE), 1)
    starts, _ = baskets.merge(*np.array(baskets.ranges(b, chosen, np.array([0]))[2]).T, 0)
    assert len(starts) > 0.6 * len(chosen) > 30, "the small branches are scattered over the cluster"


def test_sizes_have_a_heavy_but_capped_tail(file):
    path, _ = file
    table = baskets.basket_table(path, generated.TREE)
    sizes = np.array(table.group_by("branch").aggregate([("size", "sum")])["size_sum"].to_pylist())
    assert 10 < sizes.max() / np.median(sizes) < 400 and sizes.max() < 0.1 * sizes.sum()
    assert 0.8 < np.log(sizes).std() < 1.9, "log-normal with a sigma of 1.9, cut, and counters beside it"


def test_same_seed_same_bytes_whatever_the_name_and_the_time(tmp_path, small):
    (tmp_path / "elsewhere").mkdir()
    one = generated.generate(tmp_path / "one.root", small, 1)
    other = generated.generate(tmp_path / "elsewhere" / "quite_another_name.root", small, 1)
    assert one == other
    assert (tmp_path / "one.root").read_bytes() == (tmp_path / "elsewhere" / "quite_another_name.root").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["elsewhere", "one.root"], "no temporary file is left"


def test_another_seed_gives_another_file(tmp_path, small):
    one, two = (generated.generate(tmp_path / f"{seed}.root", small, seed) for seed in (1, 2))
    assert one["sha256"] != two["sha256"] and one["content_sha256"] != two["content_sha256"]


def test_values_read_back(tmp_path, small):
    path = tmp_path / "f.root"
    generated.generate(path, small, 5)
    plan = generated.layout(SMALL, 5)
    written = list(generated.clusters(SMALL, plan, 5))
    with uproot.open(path) as f:
        tree = f[generated.TREE]
        for item in plan:
            if isinstance(item, generated.Flat):
                np.testing.assert_array_equal(
                    tree[item.name].array(library="np"), np.concatenate([c[item.name] for c in written])
                )
            else:
                whole = ak.concatenate([c[item.name] for c in written])
                for member in item.members:
                    assert ak.array_equal(tree[f"{item.name}_{member}"].array(), whole[member], dtype_exact=False), (
                        member
                    )
                np.testing.assert_array_equal(tree[f"n{item.name}"].array(library="np"), ak.num(whole).to_numpy())


def test_the_linear_writer_writes_the_same_bytes_as_uproot_s_own(tmp_path):
    sums = []
    for linear in (True, False):
        path = tmp_path / str(linear) / "f.root"
        path.parent.mkdir()
        with uproot_patches.reproducible(linear) as make_uuid, uproot.recreate(path, uuid_function=make_uuid) as f:
            tree = f.mktree(
                "t", {"a": "f4", "b": "i4", "c": "var * {x: float32, y: float32}"}, initial_basket_capacity=2
            )
            for n in (3, 4, 5):  # more extends than slots: the header is rewritten on the way
                records = ak.Array([[{"x": 1.0, "y": 2.0}] * k for k in range(n)])
                tree.extend({"a": np.arange(n, dtype="f4"), "b": np.arange(n, dtype="i4"), "c": records})
        sums.append(hashlib.sha256(path.read_bytes()).hexdigest())
    assert sums[0] == sums[1]


def test_patches_are_restored_after_an_error_too():
    modules = (uproot.writing._cascade, uproot.writing._cascadetree, uproot.writing.writable)
    before = [m.datetime for m in modules], uproot.writing._cascadetree.Tree._build_out
    with pytest.raises(KeyError), uproot_patches.reproducible():
        assert uproot.writing._cascade.datetime.datetime.now() == uproot_patches.TIME
        assert uproot.writing._cascade.datetime.timedelta is datetime.timedelta
        assert uproot.writing._cascadetree.Tree._build_out is not before[1]
        raise KeyError
    assert ([m.datetime for m in modules], uproot.writing._cascadetree.Tree._build_out) == before


def test_a_changed_uproot_is_noticed(monkeypatch):
    monkeypatch.setattr(uproot.writing._cascadetree.Tree, "_build_out", lambda self: None)
    with pytest.raises(RuntimeError, match="has changed"), uproot_patches.reproducible():
        pass


def test_unknown_scale_and_failure_leave_nothing(tmp_path, small, monkeypatch):
    with pytest.raises(UserError, match="one of: S"):
        generated.generate(tmp_path / "x.root", "XXL", 1)

    def broken(*_):
        raise OSError("no space left")
        yield

    monkeypatch.setattr(generated, "clusters", broken)
    with pytest.raises(OSError, match="no space"):
        generated.generate(tmp_path / "x.root", small, 1)
    assert not list(tmp_path.iterdir())


def test_basket_table_is_what_uproot_tells(file, tmp_path):
    path, facts = file
    table = baskets.basket_table(path, generated.TREE)
    data = path.read_bytes()
    assert baskets.facts(table) == {
        "tree": facts["tree"],
        "entries": 1000,
        "branches": facts["branches"],
        "embedded_branches": 0,
    }
    rows = table.to_pylist()
    expected = []
    with uproot.open(path) as f:
        for name, branch in f[facts["tree"]].iteritems(recursive=True):
            for i in range(branch.num_baskets):
                start, stop = branch.basket_entry_start_stop(i)
                offset, size = int(branch.member("fBasketSeek")[i]), branch.basket_compressed_bytes(i)
                expected.append((name, i, start, stop, offset, size, zlib.crc32(data[offset : offset + size])))
    assert [tuple(r.values()) for r in rows] == expected
    baskets.write(table, tmp_path / "side.parquet")
    back = baskets.read(tmp_path / "side.parquet")
    assert back.equals(table) and baskets.facts(back) == baskets.facts(table)


def test_a_foreign_side_car_is_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="no table of baskets"):
        baskets.read(tmp_path / "x.parquet")


REAL = SHARED / "data" / "root"


@pytest.mark.parametrize(
    ("name", "tree", "branches", "held", "embedded"),
    [
        pytest.param("nanoAOD_2015_CMS_Open_Data_ttbar.root", "Events", 947, 949, 947, marks=pytest.mark.heavy),
        pytest.param("uproot-issue-123b.root", "CollectionTree", 1657, 1889, 0, marks=pytest.mark.heavy),
        ("uproot-HZZ-zstd.root", "events", 51, 57, 0),
    ],
)
def test_real_files(name, tree, branches, held, embedded):
    path = REAL / name
    if not path.exists():
        pytest.skip(f"{name} is not here (files of scikit-hep-testdata, kept outside of the repository)")
    table = baskets.basket_table(path, tree)
    told = baskets.facts(table)
    assert (told["branches"], len(table), told["embedded_branches"]) == (branches, held, embedded)
    b = baskets.Baskets.from_table(table)
    free = b.offset > 0
    assert (b.size > 0).all() and (b.entry_start < b.entry_stop).all() and (b.offset[~free] == -1).all()
    assert b.embedded == embedded and (embedded > 0) == (not free.all())
    size = path.stat().st_size
    for percent in (1, 50, 100):
        chosen = baskets.select_branches(table, percent)
        for entries in (1, 100):
            rows, needed, ranges = baskets.ranges(table, chosen, baskets.select_entries(told["entries"], entries, 1))
            assert needed == sum(s for _, s in ranges) <= b.size[free].sum() and len(rows) == len(set(rows.tolist()))
            assert all(o > 0 and o + s <= size for o, s in ranges)
    with uproot.open(path) as f:
        objects = dict(f[told["tree"]].iteritems(recursive=True, full_paths=True))
        for code, positions in baskets.by_branch(b, np.arange(len(b))):
            branch = objects[b.names[code]]
            sizes = [branch.basket_compressed_bytes(i) for i in b.basket[positions[free[positions]]].tolist()]
            assert sizes == b.size[positions[free[positions]]].tolist() and branch.num_baskets == len(positions)

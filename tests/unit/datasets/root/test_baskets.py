"""Baskets of a tree: their table, selections, and the ranges of these; compared with brute force and uproot."""

import itertools
import json
import zlib
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_root
import uproot
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import SHARED
from root_truth import by_the_decoder, by_uproot, hold_against_uproot

from storelab.datasets import own_file
from storelab.datasets.root import baskets, generated
from storelab.datasets.root.baskets import branches_of, by_place
from storelab.engines import root

PROPERTY = settings(max_examples=60, deadline=None, database=None, derandomize=True)
REAL = SHARED / "data" / "root"
VOLUMES = st.lists(st.integers(1, 30), min_size=1, max_size=8)
COLUMNS = ("branch", "basket", "entry_start", "entry_stop", "offset", "size")


@st.composite
def layouts(draw):
    """Draw baskets of up to 5 branches over 40 entries: edges differ, some are in the header, offsets have no order."""
    rows = []
    for branch in range(draw(st.integers(1, 5))):
        edges = sorted({0, 40, *draw(st.lists(st.integers(1, 39), max_size=4))})
        rows += [(branch, i, a, b) for i, (a, b) in enumerate(itertools.pairwise(edges))]
    order = draw(st.permutations(range(len(rows))))
    inside = draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    sizes = draw(st.lists(st.integers(1, 90), min_size=len(rows), max_size=len(rows)))
    offset = [-1 if here and i % 3 == 0 else 100 * order[i] for i, here in enumerate(inside)]
    names = [f"b{i}" for i in range(rows[-1][0] + 1)]
    columns = [np.array(c, "i8") for c in zip(*rows, strict=True)]
    return baskets.Baskets(names, *columns, np.array(offset, "i8"), np.array(sizes, "i8"))


@PROPERTY
@given(layouts(), st.sets(st.integers(0, 4), min_size=1), st.sets(st.integers(0, 39), min_size=1))
def test_ranges_are_those_of_plain_definition(b, branches, entries):
    names, entries = [f"b{i}" for i in branches], np.array(sorted(entries))
    hit = [
        i
        for i in range(len(b))
        if b.names[b.branch[i]] in names and any(b.entry_start[i] <= e < b.entry_stop[i] for e in entries)
    ]
    rows, needed, found = baskets.ranges(b, names, entries)
    free = sorted((i for i in hit if b.offset[i] >= 0), key=lambda i: b.offset[i])
    assert rows.tolist() == free and needed == sum(b.size[i] for i in free)
    assert found == [(b.offset[i], b.size[i]) for i in free]
    assert baskets.embedded_rows(b, names, entries).tolist() == [i for i in hit if b.offset[i] < 0]
    assert b.embedded == len({b.branch[i] for i in range(len(b)) if b.offset[i] < 0})
    groups = list(baskets.by_branch(b, rows))
    assert [code for code, _ in groups] == sorted({b.branch[i] for i in free})
    for code, at in groups:
        assert rows[at].tolist() == sorted((i for i in free if b.branch[i] == code), key=lambda i: b.basket[i])
    order = names[::-1]
    rows, codes = b.chosen(order)
    assert rows.tolist() == [i for name in order for i in range(len(b)) if b.names[b.branch[i]] == name]
    assert [order[c] for c in codes] == [b.names[b.branch[i]] for i in rows]


def test_shared_data_are_read_once():
    b = baskets.Baskets(["x", "y"], *(np.array(c) for c in ([0, 1], [0, 0], [0, 0], [5, 5], [100, 100], [9, 9])))
    assert baskets.ranges(b, ["x", "y"], np.array([1]))[1:] == (9, [(100, 9)])


def table(sizes: dict[str, list[int]], step: int = 10) -> pa.Table:
    """Return baskets of `step` entries each, one after the other in the file, cluster by cluster."""
    cells = [(name, i, size) for name, column in sizes.items() for i, size in enumerate(column)]
    offsets, at = {}, 100
    for name, i, size in sorted(cells, key=lambda c: c[1]):
        offsets[name, i] = at
        at += size
    names = list(sizes)
    columns = {
        "branch": pa.DictionaryArray.from_arrays(pa.array([names.index(n) for n, _, _ in cells], pa.int32()), names),
        **{"basket": [i for _, i, _ in cells], "size": [s for _, _, s in cells], "crc32": [0] * len(cells)},
        **{"entry_start": [i * step for _, i, _ in cells], "entry_stop": [(i + 1) * step for _, i, _ in cells]},
        "offset": [offsets[n, i] for n, i, _ in cells],
    }
    columns = {name: columns[name] for name in baskets.SCHEMA.names}
    facts = {"tree": "t", "entries": step * max(map(len, sizes.values())), "branches": len(names)}
    metadata = {"storelab": json.dumps(facts | {"embedded_branches": 0})}
    return pa.table(columns, schema=baskets.SCHEMA.with_metadata(metadata))


# 700 + 50 + 50 + 2 + 198 = 1000
SIZES = {"big": [600, 100], "b": [40, 10], "a": [20, 30], "tiny": [1, 1], "mid": [90, 108]}


def test_tables_give_ranges_as_layouts_do():
    for seed, percent in itertools.product(range(3), (0.1, 3, 40, 100)):
        rng = np.random.default_rng(seed)
        t = table({f"v{i}": rng.integers(1, 500, 12).tolist() for i in range(17)})
        chosen, entries = [f"v{i}" for i in rng.permutation(17)[:6]], baskets.select_entries(120, percent, seed)
        wanted = {
            (r["offset"], r["size"])
            for r in t.to_pylist()
            if r["branch"] in chosen and any(r["entry_start"] <= e < r["entry_stop"] for e in entries)
        }
        for source in (t, baskets.Baskets.from_table(t)):
            _, needed, ranges = baskets.ranges(source, chosen, entries)
            assert ranges == sorted(wanted) and needed == sum(s for _, s in wanted)
    rows, needed, ranges = baskets.ranges(table(SIZES), ["a"], np.array([500]))
    assert (len(rows), needed, ranges) == (0, 0, []), "beyond all baskets"


# Selections


def test_branch_without_baskets_is_never_chosen():
    t = table(SIZES)
    t = t.filter(pa.compute.not_equal(t["branch"].cast(pa.string()), "tiny")).replace_schema_metadata(t.schema.metadata)
    assert baskets.select_branches(t, 100) == ["a", "b", "mid", "big"]


@PROPERTY
@given(VOLUMES, st.sampled_from([0.1, 1, 10, 33.3, 50, 99.9, 100]), st.sets(st.integers(0, 7)))
def test_smallest_branches_fill_volume(sizes, percent, without):
    branch = pa.array([f"b{i}" for i, s in enumerate(sizes) for _ in range(2)]).dictionary_encode()
    t = pa.table({"branch": branch, "size": [x for s in sizes for x in (s, 1)]})
    left = sorted((s + 1, f"b{i}") for i, s in enumerate(sizes) if i not in without)
    names = {f"b{i}" for i in without}
    if not left:
        with pytest.raises(ValueError, match="no basket"):
            baskets.select_branches(t, percent, names)
        return
    most = sum(s for s, _ in left) * percent / 100 + 1e-9
    sums = np.cumsum([s for s, _ in left])
    count = max(1, int((sums <= most).sum()))
    assert baskets.select_branches(t, percent, names) == [name for _, name in left[:count]]


@PROPERTY
@given(st.integers(1, 5000), st.sampled_from([0.1, 0.5, 1.0, 33.3, 99.9, 100.0]), st.integers(0, 99))
def test_entries_are_percentage_rounded_up(n, percent, seed):
    found = baskets.select_entries(n, percent, seed)
    k = max(1, -(-n * round(percent * 10) // 1000))
    assert len(found) == k == len(set(found.tolist())) and found.tolist() == sorted(found.tolist())
    assert found[0] >= 0 and found[-1] < n and (baskets.select_entries(n, percent, seed) == found).all()


def test_published_numbers_of_entries():
    """Of 11 918 entries the paper reads 11 918, 12 and 1 (Table 2)."""
    others = ((1000, 0.1, 1), (1000, 0.11, 2), (1000, 7, 70), (3, 50, 2), (1, 0.001, 1), (10, 99.9, 10))
    for n, percent, k in ((11918, 100, 11918), (11918, 0.1, 12), (11918, 0.001, 1), *others):
        entries = baskets.select_entries(n, percent, 3)
        assert len(entries) == k == len(set(entries.tolist())) and entries.dtype == np.int64, (n, percent)


def test_entries_depend_on_seed_and_reach_all():
    draws = [baskets.select_entries(50, 10, seed) for seed in range(200)]
    assert np.array_equal(draws[7], baskets.select_entries(50, 10, 7)) and not np.array_equal(draws[7], draws[8])
    assert set(np.concatenate(draws).tolist()) == set(range(50))
    with pytest.raises(ValueError, match="no entries"):
        baskets.select_entries(0, 10, 1)
    for percent in (0, -1, 100.1):
        with pytest.raises(ValueError, match="percentage"):
            baskets.select_entries(10, percent, 1)
        with pytest.raises(ValueError, match="percentage"):
            baskets.select_branches(table(SIZES), percent)


@PROPERTY
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 60)), max_size=12), st.integers(0, 50))
def test_merged_ranges_are_those_of_uproot(found, gap):
    from uproot.source.coalesce import CoalesceConfig, RangeRequest, _merge_adjacent

    offsets, sizes = (np.array([f[i] for f in sorted(found)], "i8") for i in (0, 1))
    requests = [RangeRequest(o, o + s, None) for o, s in zip(offsets.tolist(), sizes.tolist(), strict=True)]
    expected = [(c.start, c.stop) for c in _merge_adjacent(requests, CoalesceConfig(max_range_gap=gap))]
    starts, stops = baskets.merge(offsets, sizes, gap)
    assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == expected


# Baskets from a tree's members


class Branch:
    """A branch with the members that uproot has of it."""

    def __init__(self, seek, size, entry, written, end, held=()):
        self.members = {"fBasketSeek": seek, "fBasketBytes": size, "fBasketEntry": entry}
        self.members |= {"fWriteBasket": written, "fEntryNumber": end}
        self.embedded_baskets, self.num_entries = list(held), end

    def member(self, name):
        return self.members[name]


def held(n, data=b"abcd", offsets=None):
    return SimpleNamespace(num_entries=n, data=np.frombuffer(data, "u1"), byte_offsets=offsets)


def test_baskets_follow_members_of_tree():
    """Arrays may have garbage behind the baskets written; a basket at 0 is missing; the end may be missing too."""
    branches = {
        "plain": Branch([100, 200, 999], [10, 20, 99], [0, 5, 8, 77], 2, 8),
        "hole": Branch([300, 0, 400], [30, 1, 40], [0, 4, 8, 9], 3, 8),
        "open": Branch([500], [50], [0], 1, 8),
        "inside": Branch([600, 0], [60, 0], [0, 6], 1, 8, [held(0), held(2, b"abcdef", [1, 2])]),
        "lost": Branch([700], [70], [0, 6], 1, 8, [held(1)]),
        "none": Branch([], [], [], 0, 0),
    }
    b = baskets.Baskets.from_tree(branches)
    rows = [(b.names[b.branch[i]], *(int(getattr(b, k)[i]) for k in COLUMNS[1:])) for i in range(len(b))]
    assert rows == [
        ("plain", 0, 0, 5, 100, 10),
        ("plain", 1, 5, 8, 200, 20),
        ("hole", 0, 0, 4, 300, 30),
        ("open", 0, 0, 8, 500, 50),
        ("inside", 0, 0, 6, 600, 60),
        ("inside", 1, 6, 8, -1, 6 + 2 * 4),
        ("lost", 0, 0, 6, 700, 70),
    ]
    assert list(b.inside) == [5] and b.embedded == 1 and len(b.names) == 6
    assert b.inside_crc(5) == zlib.crc32(b"abcdef" + np.array([1, 2], "<i4").tobytes())
    assert baskets.Baskets.from_tree(branches, ["open", "plain"]).offset.tolist() == [500, 100, 200]


# Tables of files


def test_table_is_what_uproot_has(s_file, tmp_path):
    path, facts = s_file
    t = baskets.basket_table(path, generated.TREE)
    data = path.read_bytes()
    known = {"tree": facts["tree"], "entries": 1000, "branches": facts["branches"], "embedded_branches": 0}
    assert baskets.facts(t) == known
    expected = []
    with uproot.open(path) as f:
        for name, branch in f[facts["tree"]].iteritems(recursive=True):
            for i in range(branch.num_baskets):
                start, stop = branch.basket_entry_start_stop(i)
                offset, size = int(branch.member("fBasketSeek")[i]), branch.basket_compressed_bytes(i)
                expected.append((name, i, start, stop, offset, size, zlib.crc32(data[offset : offset + size])))
    assert [tuple(r.values()) for r in t.to_pylist()] == expected
    baskets.write(t, tmp_path / "side.parquet")
    back = baskets.read(tmp_path / "side.parquet")
    assert back.equals(t) and baskets.facts(back) == baskets.facts(t)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet"):
        baskets.read(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("name", "tree", "branches", "count", "embedded"),
    [
        pytest.param("nanoAOD_2015_CMS_Open_Data_ttbar.root", "Events", 947, 949, 947, marks=pytest.mark.heavy),
        pytest.param("uproot-issue-123b.root", "CollectionTree", 1657, 1889, 0, marks=pytest.mark.heavy),
        ("uproot-HZZ-zstd.root", "events", 51, 57, 0),
    ],
)
def test_table_of_real_file(name, tree, branches, count, embedded):
    path = REAL / name
    if not path.exists():
        pytest.skip(f"data: {name} is missing (files of scikit-hep-testdata, kept outside of the repository)")
    t = baskets.basket_table(path, tree)
    facts = baskets.facts(t)
    assert (facts["branches"], len(t), facts["embedded_branches"]) == (branches, count, embedded)
    b = baskets.Baskets.from_table(t)
    free = b.offset > 0
    assert (b.size > 0).all() and (b.entry_start < b.entry_stop).all() and (b.offset[~free] == -1).all()
    assert b.embedded == embedded and (embedded > 0) == (not free.all())
    size = path.stat().st_size
    for percent, entries in itertools.product((1, 50, 100), (1, 100)):
        chosen = baskets.select_branches(t, percent)
        rows, needed, ranges = baskets.ranges(t, chosen, baskets.select_entries(facts["entries"], entries, 1))
        assert needed == sum(s for _, s in ranges) <= b.size[free].sum() and len(rows) == len(set(rows.tolist()))
        assert all(o > 0 and o + s <= size for o, s in ranges)
    with uproot.open(path) as f:
        objects = dict(f[facts["tree"]].iteritems(recursive=True, full_paths=True))
        for code, positions in baskets.by_branch(b, np.arange(len(b))):
            branch, at = objects[b.names[code]], positions[free[positions]]
            assert [branch.basket_compressed_bytes(i) for i in b.basket[at].tolist()] == b.size[at].tolist()
            assert branch.num_baskets == len(positions)


def test_branches_of_one_name_have_full_paths():
    """`x` below `a` and `x` below `b` are two branches."""

    def branch(seek):
        members = {"fBasketSeek": [seek], "fBasketBytes": [10], "fBasketEntry": [0, 5]}
        members |= {"fWriteBasket": 1, "fEntryNumber": 5}
        return SimpleNamespace(member=members.__getitem__, num_entries=5, embedded_baskets=[])

    def iteritems(recursive=False, full_paths=False):
        paths = {"a/x": 100, "b/x": 200} if recursive else {}
        return [(path if full_paths else path.rpartition("/")[2], branch(seek)) for path, seek in paths.items()]

    found = baskets.Baskets.from_tree(SimpleNamespace(iteritems=iteritems))
    assert found.names == ["a/x", "b/x"] and found.offset.tolist() == [100, 200] and found.entry_stop.tolist() == [5, 5]


def test_side_car_is_packed(tmp_path):
    zeros = np.zeros(50_000, "i8")
    branch = pa.DictionaryArray.from_arrays(pa.array(zeros.astype("i4")), ["b"])
    table = pa.table({"branch": branch} | dict.fromkeys(COLUMNS[1:], zeros))
    baskets.write(table, tmp_path / "side.parquet")
    assert pq.ParquetFile(tmp_path / "side.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


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
        walked = by_place(root._branches(as_root(tree)))
        assert {name: b.of for name, b in walked.items()} == branches_of(tree)

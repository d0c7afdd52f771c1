"""Selections of the sparse-read experiments: how much, which, and the ranges that they need."""

import json

import numpy as np
import pyarrow as pa
import pytest

from storelab.datasets.root import baskets


def table(sizes: dict[str, list[int]], step: int = 10, order: list[int] | None = None) -> pa.Table:
    """Baskets of `step` entries each, one after the other in the file, cluster by cluster."""
    cells = [(name, i, size) for name, column in sizes.items() for i, size in enumerate(column)]
    offsets, at = {}, 100
    for name, i, size in sorted(cells, key=lambda c: c[1]):
        offsets[name, i] = at
        at += size
    names = list(sizes)
    columns = {
        "branch": pa.DictionaryArray.from_arrays(pa.array([names.index(n) for n, _, _ in cells], pa.int32()), names),
        "basket": [i for _, i, _ in cells],
        "entry_start": [i * step for _, i, _ in cells],
        "entry_stop": [(i + 1) * step for _, i, _ in cells],
        "offset": [offsets[n, i] for n, i, _ in cells],
        "size": [s for _, _, s in cells],
        "crc32": [0 for _ in cells],
    }
    facts = {
        "tree": "t",
        "entries": step * max(map(len, sizes.values())),
        "branches": len(names),
        "embedded_branches": 0,
    }
    return pa.table(columns, schema=baskets.SCHEMA.with_metadata({"storelab": json.dumps(facts)}))


SIZES = {
    "big": [600, 100],
    "b": [40, 10],
    "a": [20, 30],
    "tiny": [1, 1],
    "mid": [90, 108],
}  # 700 + 50 + 50 + 2 + 198 = 1000


@pytest.mark.parametrize(
    ("percent", "chosen"),
    [
        (100, ["tiny", "a", "b", "mid", "big"]),
        (99.9, ["tiny", "a", "b", "mid"]),  # the next one would exceed
        (30, ["tiny", "a", "b", "mid"]),  # exactly 300: still within
        (29.9, ["tiny", "a", "b"]),
        (5.2, ["tiny", "a"]),  # a tie of 50 bytes goes by name
        (0.2, ["tiny"]),
        (0.001, ["tiny"]),  # at least one
    ],
)
def test_branches_by_volume(percent, chosen):
    assert baskets.select_branches(table(SIZES), percent) == chosen


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("percent", [0.5, 1, 10, 50, 99, 100])
def test_volume_is_as_near_below_the_limit_as_whole_branches_allow(seed, percent):
    rng = np.random.default_rng(seed)
    t = table({f"v{i}": rng.integers(1, 1 + int(rng.lognormal(5, 2)) + 5, 3).tolist() for i in range(60)})
    volume = {
        n: sum(s["size"] for s in t.to_pylist() if s["branch"] == n)
        for n in t["branch"].combine_chunks().dictionary.to_pylist()
    }
    chosen = baskets.select_branches(t, percent)
    used, limit, rest = (
        sum(volume[n] for n in chosen),
        percent / 100 * sum(volume.values()),
        [v for n, v in volume.items() if n not in chosen],
    )
    assert used <= limit * (1 + 1e-12) or len(chosen) == 1
    assert not rest or (used + min(rest) > limit and max(volume[n] for n in chosen) <= min(rest))


def test_branches_without_baskets_are_never_chosen():
    t = table(SIZES)
    t = t.filter(pa.compute.not_equal(t["branch"].cast(pa.string()), "tiny")).replace_schema_metadata(t.schema.metadata)
    assert baskets.select_branches(t, 100) == ["a", "b", "mid", "big"]
    with pytest.raises(ValueError, match="no basket"):
        baskets.select_branches(t.slice(0, 0), 100)


@pytest.mark.parametrize(
    ("n", "percent", "k"),
    # 11 918 entries: 11 918, 12 and 1 are the paper's own (Table 2).
    [
        (11918, 100, 11918),
        (11918, 0.1, 12),
        (11918, 0.001, 1),
        (1000, 0.1, 1),
        (1000, 0.11, 2),
        (1000, 7, 70),
        (3, 50, 2),
        (1, 0.001, 1),
        (10, 99.9, 10),
    ],
)
def test_entries_are_rounded_up_to_whole_ones(n, percent, k):
    entries = baskets.select_entries(n, percent, 3)
    assert len(entries) == k == len(set(entries.tolist())) and entries.dtype == np.int64
    assert (np.diff(entries) > 0).all() and entries[0] >= 0 and entries[-1] < n


@pytest.mark.parametrize("percent", [0, -1, 100.1])
def test_no_percentage(percent):
    with pytest.raises(ValueError, match="no percentage"):
        baskets.select_entries(10, percent, 1)
    with pytest.raises(ValueError, match="no percentage"):
        baskets.select_branches(table(SIZES), percent)


def test_entries_depend_on_the_seed_alone_and_reach_all():
    draws = [baskets.select_entries(50, 10, seed) for seed in range(200)]
    assert np.array_equal(draws[7], baskets.select_entries(50, 10, 7)) and not np.array_equal(draws[7], draws[8])
    assert set(np.concatenate(draws).tolist()) == set(range(50))
    with pytest.raises(ValueError, match="no entry"):
        baskets.select_entries(0, 10, 1)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("percent", [0.1, 3, 40, 100])
def test_ranges_are_those_of_the_plain_definition(seed, percent):
    rng = np.random.default_rng(seed)
    t = table({f"v{i}": rng.integers(1, 500, 12).tolist() for i in range(17)})
    chosen = [f"v{i}" for i in rng.permutation(17)[:6]]
    entries = baskets.select_entries(120, percent, seed)
    rows, needed, ranges = baskets.ranges(t, chosen, entries)
    wanted = {
        (r["offset"], r["size"])
        for r in t.to_pylist()
        if r["branch"] in chosen
        for e in entries
        if r["entry_start"] <= e < r["entry_stop"]
    }
    assert ranges == sorted(wanted) and needed == sum(s for _, s in wanted)
    b = baskets.Baskets.from_table(t)
    assert list(zip(b.offset[rows].tolist(), b.size[rows].tolist(), strict=True)) == ranges
    assert baskets.ranges(b, chosen, entries)[2] == ranges


def test_entries_outside_of_every_free_basket_need_nothing():
    rows, needed, ranges = baskets.ranges(table(SIZES), ["a"], np.array([500]))
    assert (len(rows), needed, ranges) == (0, 0, [])
    assert [len(x) for x in baskets.merge(*np.array(ranges, "i8").reshape(-1, 2).T, 0)] == [0, 0]


@pytest.mark.parametrize("gap", [0, 1, 7, 100, 10**6])
@pytest.mark.parametrize("seed", range(4))
def test_merging_is_uproot_s(seed, gap):
    from uproot.source.coalesce import CoalesceConfig, RangeRequest, _merge_adjacent

    rng = np.random.default_rng(seed)
    offsets = np.sort(rng.choice(5000, 200, replace=False))
    sizes = rng.integers(1, 30, 200)  # some overlap
    requests = [RangeRequest(int(o), int(o + s), None) for o, s in zip(offsets, sizes, strict=True)]
    expected = [(c.start, c.stop) for c in _merge_adjacent(requests, CoalesceConfig(max_range_gap=gap))]
    starts, stops = baskets.merge(offsets, sizes, gap)
    assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == expected


def test_by_branch_groups_in_the_order_of_baskets():
    b = baskets.Baskets.from_table(table(SIZES))
    rows, _, _ = baskets.ranges(b, ["a", "mid"], np.arange(20))
    groups = {b.names[code]: b.basket[rows[positions]].tolist() for code, positions in baskets.by_branch(b, rows)}
    assert groups == {"a": [0, 1], "mid": [0, 1]}

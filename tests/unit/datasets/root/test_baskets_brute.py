"""Selections and ranges of baskets against brute force; and small facts of records, published numbers and wires."""

import csv
import hashlib
import itertools
import json
import math
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storelab import __version__
from storelab.analysis.records import campaign, published
from storelab.core import evidence, records
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.datasets.root import baskets
from storelab.datasets.root.header import Header
from storelab.engines.common import wire
from storelab.measure import check
from storelab.readplan import Link, plan
from storelab.stores.protocols.endpoint import Endpoint
from storelab.workloads.staging import needs

PROPERTY = settings(max_examples=60, deadline=None, database=None, derandomize=True)


@st.composite
def tables(draw):
    """Baskets of up to 5 branches over 40 entries: edges of their own; some lie in the header; offsets without order."""
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


some_ = st.tuples(st.sets(st.integers(0, 4), min_size=1), st.sets(st.integers(0, 39), min_size=1))


@PROPERTY
@given(tables(), some_)
def test_what_must_be_read(b, chosen):
    names, entries = [f"b{i}" for i in chosen[0]], np.array(sorted(chosen[1]))
    hit = [
        i for i in range(len(b))
        if b.names[b.branch[i]] in names and any(b.entry_start[i] <= e < b.entry_stop[i] for e in entries)
    ]  # fmt: skip
    rows, needed, found = baskets.ranges(b, names, entries)
    free = sorted((i for i in hit if b.offset[i] >= 0), key=lambda i: b.offset[i])
    assert (
        rows.tolist() == free
        and needed == sum(b.size[i] for i in free)
        and found == [(b.offset[i], b.size[i]) for i in free]
    )
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


@PROPERTY
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 60)), max_size=12), st.integers(0, 50))
def test_merging(found, gap):
    found = sorted(found)
    out = []
    for offset, size in found:
        if out and offset - out[-1][1] <= gap:
            out[-1][1] = max(out[-1][1], offset + size)
        else:
            out.append([offset, offset + size])
    offsets, sizes = (np.array([f[i] for f in found], "i8") for i in (0, 1))
    starts, stops = baskets.merge(offsets, sizes, gap)
    assert [list(p) for p in zip(starts.tolist(), stops.tolist(), strict=True)] == out


@PROPERTY
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=8),
    st.sampled_from([0.1, 1, 10, 33.3, 50, 99.9, 100]),
    st.sets(st.integers(0, 7)),
)
def test_the_smallest_branches_within_the_volume(sizes, percent, without):
    branch = pa.array([f"b{i}" for i, s in enumerate(sizes) for _ in range(2)]).dictionary_encode()
    table = pa.table({"branch": branch, "size": [x for s in sizes for x in (s, 1)]})
    left = sorted((s + 1, f"b{i}") for i, s in enumerate(sizes) if i not in without)
    names = {f"b{i}" for i in without}
    if not left:
        with pytest.raises(ValueError, match="no basket"):
            baskets.select_branches(table, percent, names)
        return
    most = sum(s for s, _ in left) * percent / 100 + 1e-9
    sums = np.cumsum([s for s, _ in left])
    count = max(1, int((sums <= most).sum()))
    assert baskets.select_branches(table, percent, names) == [name for _, name in left[:count]]


@PROPERTY
@given(st.integers(1, 5000), st.sampled_from([0.1, 0.5, 1.0, 33.3, 99.9, 100.0]), st.integers(0, 99))
def test_entries_are_the_percentage_rounded_up(n, percent, seed):
    found = baskets.select_entries(n, percent, seed)
    k = max(1, -(-n * round(percent * 10) // 1000))
    assert len(found) == k == len(set(found.tolist())) and found.tolist() == sorted(found.tolist())
    assert found[0] >= 0 and found[-1] < n and (baskets.select_entries(n, percent, seed) == found).all()


def test_what_is_no_percentage():
    for percent in (0, 100.1, -1):
        with pytest.raises(ValueError, match="no percentage"):
            baskets.select_entries(10, percent, 1)
    with pytest.raises(ValueError, match="no entry"):
        baskets.select_entries(0, 100, 1)


class Branch:
    """What uproot tells of a branch."""

    def __init__(self, seek, size, entry, written, end, held=(), entries=None):
        self.members = {
            "fBasketSeek": seek,
            "fBasketBytes": size,
            "fBasketEntry": entry,
            "fWriteBasket": written,
            "fEntryNumber": end,
        }
        self.embedded_baskets, self.num_entries = list(held), end if entries is None else entries

    def member(self, name):
        return self.members[name]


def held(n, data=b"abcd", offsets=None):
    return SimpleNamespace(num_entries=n, data=np.frombuffer(data, "u1"), byte_offsets=offsets)


def test_baskets_of_a_trees_members():
    """Beyond the number of baskets written the arrays hold rubbish; a basket at 0 is not there; the end may be missing."""
    branches = {
        "plain": Branch([100, 200, 999], [10, 20, 99], [0, 5, 8, 77], 2, 8),
        "hole": Branch([300, 0, 400], [30, 1, 40], [0, 4, 8, 9], 3, 8),
        "open": Branch([500], [50], [0], 1, 8),
        "inside": Branch([600, 0], [60, 0], [0, 6], 1, 8, [held(0), held(2, b"abcdef", [1, 2])]),
        "lost": Branch([700], [70], [0, 6], 1, 8, [held(1)]),
        "none": Branch([], [], [], 0, 0),
    }
    b = baskets.Baskets.from_tree(branches)
    rows = [
        (b.names[b.branch[i]], b.basket[i], b.entry_start[i], b.entry_stop[i], b.offset[i], b.size[i])
        for i in range(len(b))
    ]
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


def test_a_header_is_kept_for_one_file_and_can_be_written_again(tmp_path):
    b = baskets.Baskets(["x"], *(np.array(c, "i8") for c in ([0], [0], [0], [5], [100], [9])))
    for entries in (5, 6):
        Header("t", entries, b, [None], {"url": "u"}).save(tmp_path / "deep" / "er" / "h.parquet")
    found = Header.load(tmp_path / "deep" / "er" / "h.parquet", {"url": "u"})
    assert found.entries == 6 and found.tree == "t" and found.layout.offset.tolist() == [100] and found.forms == [None]
    assert (
        Header.load(tmp_path / "deep" / "er" / "h.parquet", {"url": "v"}) is None
        and Header.load(tmp_path / "no", {}) is None
    )


def test_the_quickest_plan_of_many_gaps_is_nearly_found():
    """With more than 128 gaps only some numbers of requests are tried: 1 % of the time is lost at most."""
    rng = np.random.default_rng(5)
    gaps, sizes = rng.integers(1, 400_000, 600), rng.integers(100, 3000, 600)
    offsets = np.cumsum(gaps + sizes) - sizes
    for request_s in (3e-5, 1e-4, 3e-4, 1e-3):
        link = Link(0.01, 1e-4, request_s, 4e8, 2e8, 8)
        best = math.inf
        for gap in np.unique(gaps):
            cut = np.flatnonzero(gaps[1:] > gap)
            starts, stops = offsets[np.append(0, cut + 1)], (offsets + sizes)[np.append(cut, 599)]
            best = min(best, link.seconds(stops - starts))
        assert best * (1 - 1e-9) <= plan(offsets, sizes, link, pieces=()).seconds <= 1.01 * best


# Ports of wires


@pytest.mark.parametrize(
    ("url", "protocol", "port"),
    [("http://h", "s3", 80), ("https://h", "s3", 443), ("http://h:9000", "http", 9000), ("root://h", "root", 1094), ("roots://h", "root", 1094), ("http://h", "webhdfs", None), ("file:///x", "file", None)],
)  # fmt: skip
def test_whose_connections_are_counted(url, protocol, port):
    found = wire.port_wire(Endpoint(url, protocol=protocol))
    assert (found.port if found else None) == port


def test_counts_add_up_and_unknown_stays_unknown():
    one, none = wire.Counts(1, 2, 3, 4), wire.Counts(10, 20, 30, None)
    assert (
        one + one == wire.Counts(2, 4, 6, 8)
        and one - one == wire.Counts()
        and none - one == wire.Counts(9, 18, 27, None)
    )


# Published numbers, from the printed files by hand


def printed(name):
    with (Path(published.__file__).parent / "printed" / f"{name}.csv").open() as f:
        return list(csv.DictReader(f))


def test_published_numbers_are_those_printed():
    found = {r["name"]: r["value"] for r in published.numbers()}
    whole, few, one = printed("uds_2015_sparse_reads")
    assert found["published_entries"] == int(whole["entries"]) and found["published_few_entries"] == int(few["entries"])
    for row, name in ((few, "few"), (one, "one")):
        share = float(row["volume_mb"]) / (float(whole["volume_mb"]) * float(row["entries"]) / float(whole["entries"]))
        assert found[f"published_{name}_share_amplification"] == pytest.approx(share)
    hepix = {
        r["solution"]: r for r in printed("hepix_2010_storage_lab") if r["use_case"] == "ATLAS" and r["threads"] == "80"
    }
    plain, tuned = hepix["Xrootd vanilla"], hepix["Xrootd"]
    assert found["published_plain_events"] == pytest.approx(int(plain["events"]) / 1e6) and found[
        "published_tuned_events"
    ] == pytest.approx(int(tuned["events"]) / 1e6)
    assert found["published_cache_factor"] == pytest.approx(int(tuned["events"]) / int(plain["events"]))
    assert found["published_plain_throughput"] == float(plain["mb_per_s"]) and found[
        "published_tuned_throughput"
    ] == float(tuned["mb_per_s"])
    threads = printed("uds1_2012_single_client_threads")

    def rows(operation, size):
        return [r for r in threads if (r["operation"], r["object_size_printed"]) == (operation, size)]

    up = {int(r["threads"]): float(r["mb_per_s"]) for r in rows("upload", "10 MB") if r["mb_per_s"]}
    assert found["published_single_small_upload_one_thread"] == float(rows("upload", "4 kB")[0]["files_per_s"])
    assert found["published_single_small_download_threads"] == max(int(r["threads"]) for r in rows("download", "4 kB"))
    assert found["published_single_large_threads"] == min(
        n for n, speed in up.items() if speed >= 0.95 * max(up.values())
    )
    small = {int(r["threads"]) for r in rows("upload", "4 kB")}
    assert found["published_single_memory_threads"] == min(small - {int(r["threads"]) for r in rows("upload", "10 MB")})
    assert found["published_single_large_upload"] == max(up.values())
    assert found["published_single_large_download"] == max(
        float(r["mb_per_s"]) for r in rows("download", "10 MB") if r["mb_per_s"]
    )
    heads = {(r["system"], r["quantity"]): float(r["value"]) for r in printed("uds_headlines") if r["value"]}
    for name, key in (
        ("front_end_download", ("uds2_2015", "download 100 MB")),
        ("front_end_upload", ("uds2_2015", "upload 100 MB")),
        ("front_end_files", ("uds2_2015", "download 4 kB")),
        ("network", ("uds2_2015", "network limit, reached")),
        ("single_small_upload", ("uds1_2012", "upload 4 kB, 1 bucket, limit")),
        ("single_buckets_upload", ("uds1_2012", "upload 4 kB, 5 buckets")),
        ("single_small_download", ("uds1_2012", "download 4 kB, client limit")),
    ):
        assert found[f"published_{name}"] == heads[key], name
    assert (found["published_jobs"], found["published_accounts"], found["published_single_buckets"]) == (
        80,
        "21 accounts, 2100 buckets",
        "5 buckets",
    )
    sources = {r["name"]: (r["unit"], r["source"]) for r in published.numbers()}
    assert (
        sources["published_network"] == ("Gb/s", "published/uds_headlines.csv")
        and sources["published_cache_factor"][1] == "published/hepix_2010_storage_lab.csv"
    )
    with pytest.raises(KeyError):
        published.load("nothing")


# Records


def test_a_seal_says_what_was_sealed(tmp_path):
    raw = tmp_path / "raw"
    points = [{"key": k, "store": "s", "workload": "get", "axes": {}, "rep": i} for i, k in enumerate(("a", "b"), 1)]
    records.write_json(raw / "plan.json", {"schema": 1, "points": points})
    records.finish(raw / "a", {"point": points[0], "start_ns": 5})
    records.write_json(
        raw / "b" / "failed.json", {"schema": 3, "point": points[1], "time_ns": 7, "reason": "why", "earlier": []}
    )
    with pytest.raises(UserError, match=r"failed \(1 of 2 points\): why"):
        campaign.seal(tmp_path)
    told = campaign.seal(tmp_path, with_failures=True)
    assert (
        told.pop("summed")
        and told.pop("sum")
        == hashlib.sha256((json.dumps({"summed": True} | told, indent=1) + "\n").encode()).hexdigest()
    )
    assert {k: v for k, v in json.loads((raw / "SEAL").read_text()).items() if k not in ("summed", "sum")} == told
    digest = hashlib.sha256((raw / "SHA256SUMS").read_bytes()).hexdigest()
    assert {k: v for k, v in told.items() if k != "time"} == {
        "schema": 1,
        "storelab": __version__,
        "points": 2,
        "failed": 1,
        "sha256sums_sha256": digest,
    }
    assert campaign.seal(tmp_path) == evidence.seal_of(raw)
    loaded = campaign.load(tmp_path)
    assert list(loaded.runs) == ["a"] and list(loaded.failures) == ["b"] and loaded.tries("b") == []
    (raw / "SHA256SUMS").write_text((raw / "SHA256SUMS").read_text() + "\n")
    with pytest.raises(UserError, match="is not the one that was sealed"):
        evidence.seal_of(tmp_path / "raw")


@pytest.mark.parametrize(("schema", "known"), [(4, True), (5, False), (2, True)])
def test_records_of_a_later_schema_are_not_read(tmp_path, schema, known):
    point = {"store": "s", "workload": "get", "axes": {"a": 1}, "rep": 1}
    (tmp_path / "x.parquet").write_bytes(b"12345")
    records.write_json(
        tmp_path / "run.json",
        {
            "schema": schema,
            "point": point,
            "files": {"x.parquet": {"bytes": 5, "sha256": hashlib.sha256(b"12345").hexdigest()}},
        },
    )
    if not known:
        with pytest.raises(UserError, match=f"has schema {schema}, which this storelab does not know"):
            evidence.load_run(tmp_path)
        return
    assert evidence.load_run(tmp_path)
    (tmp_path / "x.parquet").write_bytes(b"1234")
    assert evidence.load_run(tmp_path) is None
    assert records.SCHEMA == 4


@pytest.mark.parametrize(
    ("change", "same"),
    [({}, True), ({"store": "t"}, False), ({"workload": "put"}, False), ({"rep": 2}, False), ({"axes": {"a": 2}}, False), ({"axes": {"a": 1, "new": 5}}, True), ({"axes": {"new": 5}}, True)],
)  # fmt: skip
def test_the_same_point(change, same):
    point = {"store": "s", "workload": "get", "axes": {"a": 1, "b": 2}, "rep": 1}
    assert records.same_point(point, point | change) == records.same_point(point | change, point) == same


def test_earlier_tries_are_kept_in_their_order(tmp_path):
    point = {"store": "s", "workload": "get", "axes": {}, "rep": 1}
    old = {"time_ns": 3, "outcome": "failed", "reason": "first"}
    records.write_json(tmp_path / "run.json", {"point": point, "start_ns": 9, "earlier": [old]})
    records.write_json(
        tmp_path / "failed.json",
        {
            "point": point,
            "time_ns": 12,
            "reason": "late",
            "earlier": [old, {"time_ns": 9, "outcome": "measured", "reason": "x"}],
        },
    )
    found = records.earlier(tmp_path, point)
    assert [(t["time_ns"], t["outcome"], t["reason"]) for t in found] == [
        (3, "failed", "first"),
        (9, "measured", "x"),
        (12, "failed", "late"),
    ]
    assert records.earlier(tmp_path, point | {"rep": 2}) == []
    assert records.missing(tmp_path.parent, [tmp_path.name, "no"]) == ["no"]
    (tmp_path / "run.json").unlink()
    assert (
        records.missing(tmp_path.parent, [tmp_path.name]) == [tmp_path.name]
        and records.missing(tmp_path.parent, [tmp_path.name], True) == []
    )


# What a plan asks of a store


def point(workload, seconds=10, dataset=None, store="s", **axes):
    fixed = {"duration_ns": seconds * 10**9, "objects": 7}
    axes = {"engine": "s5cmd", "clients": 2, "workers": 3, "object_size": 1000} | axes
    return Point(store, workload, axes, 1, "k", "one", 7, 1, fixed, dataset)


def test_totals_of_a_plan():
    empty = needs.Summary()
    assert (
        empty.staged_bytes,
        empty.staged_objects,
        empty.buckets,
        empty.scratch_bytes,
        empty.points,
        empty.seconds,
    ) == (0, 0, 0, 0, {}, {})
    assert needs.summarise([], "s") == empty
    data = {"name": "d", "kind": "payload", "objects": 64, "object_size": 1000}
    more = data | {"name": "e", "objects": 10}
    points = [
        point("get", 10, data, buckets=3),
        point("get", 5, data),
        point("get", 5, more),
        point("put", 2, accounts=2),
        point("get", 1, data, store="t"),
        point("delete", 1, object_size=50),
        point("delete", 1, object_size=40),
    ]
    found = needs.summarise(points, "s")
    assert found.points == {"get": 3, "put": 1, "delete": 2} and found.seconds == {"get": 20, "put": 2, "delete": 2}
    assert found.staged_bytes == 64_000 + 10_000 + 7 * 50 and found.staged_objects == 64 + 10 + 7 and found.buckets == 3


@pytest.mark.parametrize(
    ("p", "objects"),
    [
        (point("put"), needs.BODIES),
        (point("get"), needs.BODIES + 2 * (max(3, needs.BODIES) + needs.BODIES + 3)),
        (point("get", workers=99), needs.BODIES + 2 * (99 + needs.BODIES + 99)),
        (point("get", engine="loadgen"), needs.BODIES),
        (point("read_entries"), 0),
        (
            point("calibrate", operation="read", engine="none"),
            needs.BODIES + 2 * (max(3, needs.BODIES) + needs.BODIES + 3),
        ),
        (point("calibrate", operation="copy", engine="none"), 0),
    ],
)
def test_tmpfs_that_clients_need(p, objects):
    assert needs.scratch_bytes(p) == 1000 * objects


def test_limits_of_a_plan():
    bounds = SimpleNamespace(stored_bytes=64_000, objects=64, buckets=3, clients=2, connections=6)
    config = SimpleNamespace(limits=bounds, name="c", use_stores=["s"])
    p = point("get", 10, {"name": "d", "kind": "payload", "objects": 64, "object_size": 1000}, buckets=3)
    check.limits(config, [p])
    for name, value in vars(bounds).items():
        config.limits = SimpleNamespace(**vars(bounds) | {name: value - 1})
        with pytest.raises(UserError, match=f"limits.{name}"):
            check.limits(config, [p])

"""The workload `mix` at SeaweedFS and versitygw: shares, order on each object, foreign objects, lost ones; staging."""

import itertools
from collections import Counter

import pytest
from laboratory import anything, bucket_for, needs_loadgen

from storelab import install
from storelab.core.errors import MeasurementFailed
from storelab.install import golang
from storelab.stores.protocols.endpoint import Bucket
from storelab.stores.versitygw import PROGRAM as VERSITYGW
from storelab.workloads.staging import buckets, upload
from storelab.workloads.staging.upload import ProgressLine

pytestmark = [pytest.mark.real, pytest.mark.heavy]
SHARES = {"GET": 0.4, "PUT": 0.2, "HEAD": 0.15, "LIST": 0.1, "DELETE": 0.15}


def holds(measured, objects: int):
    ((_, record, rows),) = measured
    assert record["valid"] and {r["error"] for r in rows} == {None} and all(c["ok"] for c in record["checks"])
    assert {"what is left", "read back"} <= {c["name"] for c in record["checks"]}
    seen, n = Counter(r["op"] for r in rows), len(rows)
    clients = {r["client"] for r in rows}
    for op, share in SHARES.items():  # each client deals by itself, and stops in the middle of a round
        assert abs(seen[op] - share * n) <= 5 * (n * share * (1 - share)) ** 0.5 + 2 * len(clients)
    assert all((r["count"], r["requests"]) == (1, 1) for r in rows)
    assert all((r["object"] is None) == (r["op"] == "LIST") for r in rows)
    assert {r["bytes"] for r in rows if r["op"] not in ("GET", "PUT")} == {0}
    mixed = [c["engine"]["mixed"] for c in record["clients"]]
    assert sum(m["there"] + m["left"] for m in mixed) <= objects and all(m["overwritten"] + m["new"] > 0 for m in mixed)
    # A name is written and deleted by one operation at a time, and nothing is read that was deleted.
    by_name: dict[str, list] = {}
    for r in rows:
        by_name.setdefault(r["object"], []).append(r)
    for name, every in by_name.items():
        if name is None:
            continue
        gone = [r for r in every if r["op"] == "DELETE"]
        assert len(gone) <= 1 and all(r["end_ns"] <= gone[0]["start_ns"] or r is gone[0] for r in every if gone)
        puts = [r for r in every if r["op"] == "PUT"]
        assert all(
            r["end_ns"] <= p["start_ns"] or p["end_ns"] <= r["start_ns"] for p in puts for r in every if r is not p
        )
    return rows


def test_mix_at_seaweedfs(lab, seaweedfs, external, keys, engine):
    foreign = bucket_for(seaweedfs, "lab")
    seaweedfs.access(0).write(foreign.name, "put/mine", b"mine")
    axes = {"engine": engine, "mix": "all", "sizes": "site", "workers": 3, "clients": 2, "buckets": 2}
    rows = holds(lab(external, it={"workload": "mix", "objects": 40, "axes": axes}), 40)
    assert {r["bytes"] for r in rows if r["op"] == "PUT"} == {0, 4000, 300_000}
    assert seaweedfs.access(0).read(foreign.name, "put/mine") == b"mine", "foreign objects are not touched"
    buckets.delete_prefix(seaweedfs.access(0), foreign, ours=anything)


@pytest.mark.skipif(
    not golang.present(VERSITYGW, install.tools_folder()),
    reason="versitygw is not installed: storelab install versitygw",
)
def test_mix_at_rate_at_versitygw(lab, engine, port_block):
    axes = {"engine": engine, "mix": "all", "sizes": "logs", "workers": 8, "arrival_rate": 150, "arrivals": "poisson"}
    sweep = {"workload": "mix", "duration": "3 s", "objects": 60, "axes": axes}
    rows = holds(lab({"kind": "versitygw", "port": port_block}, it=sweep), 60)
    assert abs(len(rows) - 450) < 5 * 450**0.5 and all(r["start_ns"] >= r["intended_ns"] for r in rows)
    due = sorted(r["intended_ns"] for r in rows)
    gaps = [b - a for a, b in itertools.pairwise(due)]
    mean = sum(gaps) / len(gaps)
    longer = sum(g > mean for g in gaps) / len(gaps)
    assert longer == pytest.approx(0.368, abs=0.12), "exp(-1) of the gaps are longer than the mean"


@needs_loadgen
def test_vanished_objects_fail_check(lab, external, keys, monkeypatch):
    """Something else deletes them after the clients ended."""
    listed = buckets.list_keys

    def fewer(access, place, prefix=""):
        every = list(listed(access, place, prefix))
        return iter(every[1:] if prefix.startswith("put/") else every)

    monkeypatch.setattr(buckets, "list_keys", fewer)
    with pytest.raises(MeasurementFailed, match=r"check 'what is left' failed: .* 1 missing"):
        lab(external, it={"workload": "mix", "objects": 20, "axes": {"mix": "all", "workers": 2}})


@needs_loadgen
def test_small_objects_are_staged_by_loadgen(seaweedfs, keys, tmp_path):
    places = [bucket_for(seaweedfs, "by-loadgen", i) for i in range(2)]
    files = [tmp_path / "a", tmp_path / "b"]
    for i, path in enumerate(files):
        path.write_bytes(bytes([i]) * 100)
    items = [(places[n % 2], f"data/{n:04d}", files[n // 2 % 2]) for n in range(2000)]
    assert upload.loadgen_reaches(seaweedfs)
    shown = ProgressLine("it", len(items))
    upload.put_items(seaweedfs, "it", items, shown)
    assert shown.done == 2000
    access = seaweedfs.access(0)
    for i, place in enumerate(places):
        known = dict(buckets.list_keys(access, place, "data/"))
        assert known == {f"data/{n:04d}": 100 for n in range(i, 2000, 2)}
        assert all(access.read(place.name, f"data/{n:04d}") == bytes([n // 2 % 2]) * 100 for n in (i, i + 2, 1996 + i))
        buckets.delete_prefix(access, place, ours=anything)


@needs_loadgen
def test_failed_staging_is_an_error(seaweedfs, keys, tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    nowhere = Bucket("no-such-bucket-of-ours", "", 0)
    items = [upload.Item(nowhere, f"k{n}", 0, 1) for n in range(5)]
    with pytest.raises(MeasurementFailed, match=r"5 of 5 objects failed, after 3 attempts: .*NoSuchBucket"):
        upload.put_by_loadgen(seaweedfs, "it", items, [tmp_path / "a"], lambda n: None)

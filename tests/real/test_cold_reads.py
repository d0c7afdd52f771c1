"""Cold reads: each object once, stores started again, and disk reads that prove it; warm reads to compare with."""

import os
from collections import Counter
from pathlib import Path

import managed
import pytest

from storelab.host import page_cache
from storelab.host.scratch import filesystem

pytestmark = [pytest.mark.real, pytest.mark.heavy]
SMALL = {"object_size": "200 kB", "clients": 2, "workers": 3, "buckets": 2}
needs_a_disk = pytest.mark.skipif(
    page_cache.counted(Path(os.environ.get("TMPDIR", "/tmp"))) is not True,
    reason="hardware: the kernel counts no disk reads of temporary files",
)


def once(rows, objects: int) -> None:
    seen = Counter(r["object"] for r in rows)
    assert len(seen) == objects and set(seen.values()) == {1}, "each object once, in the whole run"


def get(access: str, **more) -> dict:
    axes = SMALL | {"access": access, "engine": "obstore"} | more
    return {"workload": "get", "duration": "20 s", "warm_up": "1 ms", "objects": 60, "axes": axes}


@needs_a_disk
def test_cold_reads_come_from_disk(lab, port_block):
    """Read cold objects once from SeaweedFS on disk, then others, just written, repeatedly."""
    settings = {"kind": "seaweedfs", "port": port_block}
    (_, cold, rows), *_ = lab(settings, cold=get("cold"))
    cold_check = cold["cold"]
    once(rows, 60)
    assert (
        cold_check["asked"] == cold_check["proven"] == "cold"
        and cold_check["disk_share"] > 0.9
        and not cold_check["why"]
    )
    assert cold_check["disk_read_bytes"] > 0.9 * cold_check["served_bytes"] == 0.9 * 60 * 200_000
    assert cold_check["ended_early_s"] > 0 and cold_check["step"]["objects"] == 8 and cold_check["step"]["first_ms"] > 0
    assert len(cold_check["done"]) == 2 and cold_check["still_cached"] < 0.05
    (_, warm, rows), *_ = lab(settings, warm=get("warm") | {"duration": "1 s", "objects": 10})
    cold_check = warm["cold"]
    assert (
        cold_check["asked"] == "warm"
        and cold_check["proven"] == "warm"
        and cold_check["done"] == []
        and cold_check["step"] is None
    )
    assert cold_check["ended_early_s"] is None and max(Counter(r["object"] for r in rows).values()) > 1


@pytest.mark.parametrize("engine", ["s5cmd", "fsspec", "obstore", "loadgen"], indirect=True)
def test_engines_read_each_object_once(lab, external, keys, engine):
    """An external store is never reported as cold."""
    (_, record, rows), *_ = lab(external, once=get("once", engine=engine))
    once(rows, 60)
    ends = [c["end_ns"] for c in record["clients"]]
    assert record["valid"] and max(ends) < record["deadline_ns"] and record["cold"]["ended_early_s"] > 0
    cold_check = record["cold"]
    assert (
        cold_check["asked"] == "once"
        and cold_check["proven"] is None
        and "not on disks of this machine" in cold_check["why"]
    )
    (_, record, _), *_ = lab(external, cold=get("cold", engine=engine))
    assert record["cold"]["proven"] is None and "neither restart it" in record["cold"]["why"]


@pytest.mark.parametrize("engine", ["fsspec", "obstore", "loadgen"], indirect=True)
def test_ranges_cover_each_object_once(lab, external, keys, engine):
    axes = SMALL | {"access": "once", "engine": engine, "range_size": "50 kB", "offset": ["random", "sequential"]}
    sweep = {"workload": "get_range", "duration": "20 s", "warm_up": "1 ms", "objects": 30, "axes": axes}
    for point, _, rows in lab(external, ranges=sweep):
        seen = Counter(r["object"] for r in rows)
        assert len(seen) == 30 and set(seen.values()) == {4 if point.axes["offset"] == "sequential" else 1}


def test_operations_after_early_end_are_not_due(lab, external, keys, engine):
    """An open loop ends early when all objects are read."""
    (_, record, rows), *_ = lab(external, due=get("once", engine=engine, arrival_rate=200, object_size="4 kB"))
    once(rows, 60)
    assert sum(c["engine"]["not_begun"] for c in record["clients"]) < 60


@needs_a_disk
@pytest.mark.parametrize("kind", ["versitygw", "nginx", "minio", "ceph", "directory"])
def test_stores_are_as_cold_as_requested(lab, port_block, tmp_path, kind):
    """Whole objects and ranges; Ceph with bluestore on a file."""
    more = {"ceph": {"backing": "disk", "osd_size": "2 GB", "servers": 1, "redundancy": "none"}}.get(kind, {})
    settings = {"kind": kind, "port": port_block} | more
    if kind != "directory":
        managed.made("look", settings, tmp_path)
    else:
        (tmp_path / "data").mkdir()
        settings = {"kind": kind, "path": str(tmp_path / "data")}
    s3 = kind not in ("nginx", "directory")
    axes = {"engine": "obstore" if s3 else "fsspec"} | ({} if s3 else {"buckets": 1})
    measured = lab(
        settings,
        cold=get("cold", **axes),
        ranges={"workload": "get_range"} | get("cold", **axes, range_size="4 kB") | {"workload": "get_range"},
        warm=get("warm", **axes) | {"duration": "1 s"},
    )
    cold_check = {(p.workload, p.axes["access"]): r["cold"] for p, r, _ in measured}
    for (workload, access), found in cold_check.items():
        assert found["asked"] == access and found["why"] == "", found
        if access == "cold":
            assert found["proven"] == "cold" and found["step"]["ratio"] > 0, (workload, found)
    assert cold_check["get", "cold"]["disk_share"] < 4, "not more than some read-ahead and metadata"


@pytest.mark.parametrize(
    "settings", [{"kind": "seaweedfs", "backing": "tmpfs"}, {"kind": "ceph", "servers": 1, "redundancy": "none"}]
)
def test_store_in_memory_is_never_cold(lab, port_block, tmp_path, settings):
    settings |= {"port": port_block}
    managed.made("look", settings, tmp_path)
    (_, record, _), *_ = lab(settings, cold=get("cold"))
    cold_check = record["cold"]
    assert (
        cold_check["asked"] == "cold"
        and cold_check["proven"] is None
        and cold_check["done"] == []
        and "in memory" in cold_check["why"]
    )


@needs_a_disk
@pytest.mark.parametrize(("engine", "cache"), [("fsspec", "all"), ("planned", "none")])
def test_jobs_read_cold_files_once(lab, port_block, engine, cache):
    axes = {"engine": engine, "cache": cache, "clients": 2, "files": 2}
    sweep = {"workload": "events", "duration": "20 s", "warm_up": "1 ms"}
    for access in ("warm", "once", "cold"):
        jobs = sweep | {"axes": axes | {"access": access}, "duration": "4 s" if access == "warm" else "20 s"}
        ((_, record, rows),) = lab({"kind": "seaweedfs", "port": port_block}, jobs=jobs)
        cold_check, steps = record["cold"], Counter(r["client"] for r in rows)
        assert cold_check["asked"] == access and not cold_check["why"]
        if access == "warm":
            assert cold_check["ended_early_s"] is None
        else:
            assert cold_check["ended_early_s"] > 0 and len(set(steps.values())) == 1, "each job its file, once"
        link = record["clients"][0]["engine"].get("calibration") or {}
        measures = link.get("of") == record["point"]["key"]  # on the file itself, before the start
        if access != "cold" or not measures:
            assert cold_check["proven"] == ("cold" if access == "cold" else "warm"), cold_check


@pytest.mark.root
@pytest.mark.alone  # others would find their files dropped as well
@needs_a_disk
@pytest.mark.skipif(not page_cache.may_drop_all(), reason="privilege: needs root and a /proc that can be written")
def test_kernel_drops_whole_page_cache(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(4_000_000))
    os.sync()
    path.read_bytes()
    cache = page_cache.PageCache([str(tmp_path)])
    cache.look([path])
    assert cache.still_cached > 0.9 and filesystem(tmp_path)
    page_cache.drop_all()
    cache.cached = cache.seen = 0
    cache.look([path])
    assert cache.still_cached < 0.1

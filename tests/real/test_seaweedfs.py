"""Tests of SeaweedFS only; test_store_contract.py has the others.

Tests without the mark `heavy` use the store that all smoke tests share.
"""

import os
import sys
import threading
import uuid
from pathlib import Path

import managed
import psutil
import pytest
from laboratory import anything, bucket_for
from store_clients import for_store

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores.managed import network
from storelab.stores.protocols import s3 as s3_mistakes
from storelab.stores.seaweedfs import ACCOUNTS
from storelab.workloads.staging import buckets

pytestmark = pytest.mark.real
HEAVY = pytest.mark.heavy


fresh = managed.never_up("sw", "seaweedfs")


def disk_use(folder: Path) -> int:
    """Return the bytes that the files below `folder` take on the disk."""
    return sum(p.stat().st_blocks * 512 for p in folder.rglob("*") if p.is_file())


@HEAVY
def test_default_deployment(fresh):
    fresh.up(2)
    deployment = fresh.deployment()
    assert fresh.version() == "4.48" and deployment["backing"] != "?"
    assert deployment["daemons"] == {"master": 1, "volume": 1, "filer": 1, "s3": 2}
    assert (fresh.folder / "s3.json").stat().st_mode & 0o077 == 0


def test_front_ends_share_objects_and_ranges(seaweedfs):
    bucket = bucket_for(seaweedfs, "both")
    one, two = (for_store(seaweedfs, e) for e in seaweedfs.endpoints(2))
    body = os.urandom(9_000_000)  # more than two chunks
    one.put_object(Bucket=bucket.name, Key="k", Body=body)
    assert two.get_object(Bucket=bucket.name, Key="k")["Body"].read() == body
    part = two.get_object(Bucket=bucket.name, Key="k", Range="bytes=4194300-4194310")
    assert part["ResponseMetadata"]["HTTPStatusCode"] == 206 and part["Body"].read() == body[4194300:4194311]
    several = two.get_object(Bucket=bucket.name, Key="k", Range="bytes=0-9,100-109")  # documented: the whole object
    assert several["ResponseMetadata"]["HTTPStatusCode"] == 200 and several["ContentLength"] == len(body)
    several["Body"].close()


def test_put_makes_no_bucket(seaweedfs):
    s3 = for_store(seaweedfs)
    with pytest.raises(s3_mistakes.ERRORS):
        s3.put_object(Bucket="never-made", Key="k", Body=b"")


@HEAVY
def test_two_at_once_start_it_once(fresh):
    stores = [fresh, managed.again(fresh)]
    threads = [threading.Thread(target=store.up) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stores[0].actors() == stores[1].actors() and stores[0].status().state == "up"
    assert len(stores[0].down()) == 4


@HEAVY
def test_taken_port_leaves_nothing_running(fresh):
    managed.refuses_a_taken_port(fresh, fresh.settings.port + 1, "filer")


@HEAVY
def test_daemon_that_cannot_start_reports_why(fresh):
    fresh.folder.mkdir(parents=True)
    fresh.make_keys(ACCOUNTS)
    (fresh.folder / "s3.json").write_text("{")
    with pytest.raises(MeasurementFailed, match=r"stores\.sw: s3-1 ended during its start; end of its log: .*s3\.json"):
        fresh.up()
    assert fresh.actors() == {}


def test_data_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    settings = managed.settings_of("seaweedfs", directory=str(tmp_path / "file" / "data"))
    with pytest.raises(UserError, match=r"stores\.sw\.directory: .*Not a directory"):
        managed.made("sw", settings, tmp_path / "state").up()


def test_missing_wheel_is_named(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    with pytest.raises(UserError, match=r"SeaweedFS wheel is missing .*; run `make setup`"):
        fresh.up()


@HEAVY
def test_vacuum_that_does_not_end_fails_nothing(seaweedfs):
    master = psutil.Process(seaweedfs.actors()["master"])
    master.suspend()
    try:
        seaweedfs.reclaim(timeout=1.5)
        assert master.status() == psutil.STATUS_STOPPED
    finally:
        master.resume()


@HEAVY
def test_few_deleted_bytes_are_not_waited_for(seaweedfs, monkeypatch):
    """As in the volumes of the filer's log: a vacuum never rewrites them, so waiting would not end."""
    looks, ask = [], seaweedfs._ask
    seaweedfs.reclaim(timeout=30)  # what other tests deleted is rewritten before
    names = {kind: [f"/few-{uuid.uuid4()}" for _ in range(6)] for kind in ("large", "small")}
    for kind, size in (("large", 3_000_000), ("small", 50)):  # each volume of the collection gets some
        for name in names[kind]:
            assert ask("filer", name, 10.0, "PUT", os.urandom(size))[0] == 201
    for name in names["small"]:
        ask("filer", name, 10.0, "DELETE")
    monkeypatch.setattr(seaweedfs, "_ask", lambda *a, **k: (looks.append(a[1]), ask(*a, **k))[1])
    seaweedfs.reclaim(timeout=30)
    assert sum("/vol/vacuum" in path for path in looks) < 10


@HEAVY
def test_reclaim_gives_the_space_back(seaweedfs):
    bucket, way = bucket_for(seaweedfs, "space"), seaweedfs.access()
    body, empty = os.urandom(1_000_000), disk_use(seaweedfs.data)
    for key in [f"a/{i}" for i in range(40)] + ["kept"]:
        way.write(bucket.name, key, body)
    assert disk_use(seaweedfs.data) - empty > 40e6
    assert buckets.delete_prefix(way, bucket, "a/", ours=anything).objects == 40
    seaweedfs.reclaim()
    assert disk_use(seaweedfs.data) - empty < 5e6 and way.read(bucket.name, "kept") == body
    assert dict(buckets.list_keys(way, bucket)) == {"kept": 1_000_000}


@HEAVY
def test_hanging_master_is_replaced(seaweedfs):
    """It answers no request, as after a deadlock; storelab did not suspend it, and cannot know the reason."""
    bucket, before = bucket_for(seaweedfs, "hang"), seaweedfs.actors()
    answers = network.answers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "answers", lambda *a: a[2] != "/dir/status" and answers(*a))
        seaweedfs.up(2)
    assert seaweedfs.actors()["master"] != before["master"]
    for_store(seaweedfs).put_object(Bucket=bucket.name, Key="k", Body=b"after")


@HEAVY
def test_many_buckets_are_made_and_removed(fresh):
    """Each takes its own volumes, and each volume two open files: more than the usual limit of 1024."""
    places = [fresh.bucket("many", i) for i in range(600)]
    fresh.up()
    buckets.ensure(fresh, "many", places)
    access, other = fresh.access(), bucket_for(fresh, "many-others")
    for place in places[::50]:
        access.write(place.name, "k", b"1")
    assert buckets.campaign_buckets(fresh, "many") == places and access.read(places[-50].name, "k") == b"1"
    assert buckets.remove(fresh, "many", anything)[:2] == (12, 600)
    assert buckets.campaign_buckets(fresh, "many") == [] and buckets.marked(access, other) == "many-others"
